"""confluent-kafka-python (librdkafka) with three brokers, of which some stop, die, freeze and come back."""

import os
import secrets
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, ConsumerGroupTopicPartitions, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
import tap
from running import Running
from tap import BOOTSTRAP, check, equal, test, topic_name

CONTROL = os.environ.get("HULD_CONTROL", "")
BROKERS = 3
LIMIT_S = 60
PAUSE_S = 0.001  # Between two records of a load.


class Steering:
    """Does to single brokers what may happen to them; brings back at the end what is still down or frozen."""

    def __init__(self):
        self.away = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for broker, back in list(self.away.items()):
            self.post(broker, back)

    def stop(self, broker):
        self.post(broker, "stop")
        self.away[broker] = "start"

    def kill(self, broker):
        self.post(broker, "kill")
        self.away[broker] = "start"

    def freeze(self, broker):
        self.post(broker, "freeze")
        self.away[broker] = "thaw"

    def crash(self, broker):
        """Ends it without a goodbye and starts it at once."""
        self.kill(broker)
        self.back(broker)

    def back(self, broker):
        self.post(broker, self.away.pop(broker))

    @staticmethod
    def post(broker, action):
        request = urllib.request.Request(f"{CONTROL}/brokers/{broker}/{action}", method="POST")
        urllib.request.urlopen(request, timeout=LIMIT_S).read()


class Load:
    """An idempotent producer that sends "0", "1", "2", … with acks=all, some hundreds a second, until it is finished."""

    def __init__(self, topic, partitions):
        self.topic = topic
        self.partitions = partitions
        self.producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all", "enable.idempotence": True, "linger.ms": 0,
                                  "message.timeout.ms": LIMIT_S * 1000, "topic.metadata.refresh.interval.ms": 1000,
                                  "socket.timeout.ms": 5000, "retry.backoff.ms": 50})
        self.acknowledged = []
        self.failed = []
        self.in_flight = 0
        self.changed = threading.Condition()
        self.stopping = False
        self.thread = threading.Thread(target=self.send, daemon=True)
        self.thread.start()

    def send(self):
        value = 0
        while not self.stopping:
            if self.in_flight < 20:
                self.in_flight += 1
                time.sleep(PAUSE_S)
                self.producer.produce(self.topic, value=str(value).encode(), partition=value % self.partitions,
                                      on_delivery=lambda error, _, value=value: self.note(error, value))
                value += 1
            self.producer.poll(0 if self.in_flight < 20 else 0.01)
        self.producer.flush(LIMIT_S)

    def note(self, error, value):
        self.in_flight -= 1
        with self.changed:
            (self.failed if error else self.acknowledged).append(error or value)
            self.changed.notify_all()

    def more(self, count):
        """Waits until so many more are acknowledged than there are now."""
        with self.changed:
            wanted = len(self.acknowledged) + count
            enough = self.changed.wait_for(lambda: self.failed or len(self.acknowledged) >= wanted, LIMIT_S)
            equal(self.failed, [], "records that failed")
            check(enough, f"{len(self.acknowledged)} of {wanted} acknowledged within {LIMIT_S} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping = True
        self.thread.join(LIMIT_S)

    def finish(self):
        self.stopping = True
        self.thread.join(LIMIT_S)
        equal(self.failed, [], "records that failed")


CLASSIC = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 300}
COOPERATIVE = CLASSIC | {"partition.assignment.strategy": "cooperative-sticky"}
# With librdkafka's cooperative assignor, assignments have user data, and no broker takes over groups with that.
UPGRADABLE = CLASSIC | {"partition.assignment.strategy": "range"}
CONSUMER_PROTOCOL = {"group.protocol": "consumer"}


class Member:
    """A member of a group that reads from a thread of its own and commits what it has read."""

    def __init__(self, group, topic, settings=COOPERATIVE):
        self.consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest",
                                  "topic.metadata.refresh.interval.ms": 1000, "socket.timeout.ms": 5000,
                                  "enable.auto.commit": True, "auto.commit.interval.ms": 500} | settings)
        self.owned = 0
        self.values = set()
        self.changed = threading.Condition()
        self.stopping = False
        self.consumer.subscribe([topic])
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.stopping:
            message = self.consumer.poll(0.1)
            with self.changed:
                self.owned = len(self.consumer.assignment())
                if message is not None and message.error() is None:
                    self.values.add(int(message.value()))
                self.changed.notify_all()
        self.consumer.close()

    def until_owned(self, count):
        with self.changed:
            enough = self.changed.wait_for(lambda: self.owned == count, LIMIT_S)
            check(enough, f"{self.owned} partitions instead of {count} after {LIMIT_S} s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.finish()

    def finish(self):
        self.stopping = True
        self.thread.join(LIMIT_S)


def until_read(wanted, *members):
    deadline = time.monotonic() + LIMIT_S
    first = members[0]
    while True:
        missing = set(wanted) - set().union(*(member.values for member in members))
        if not missing:
            return
        check(time.monotonic() < deadline, f"{len(missing)} of {len(wanted)} records not read within {LIMIT_S} s")
        with first.changed:
            first.changed.wait(0.2)


def admin():
    return AdminClient({"bootstrap.servers": BOOTSTRAP, "socket.timeout.ms": 5000})


def create(partitions):
    """A topic on all brokers, of which two must have a record before it is acknowledged."""
    topic = topic_name()
    client = admin()
    new = NewTopic(topic, partitions, replication_factor=BROKERS, config={"min.insync.replicas": "2"})
    client.create_topics([new])[topic].result()
    until_in_sync(topic, BROKERS)
    return topic


def describe(group):
    client = admin()  # It is needed as long as there is no answer.
    return client.describe_consumer_groups([group], request_timeout=LIMIT_S)[group].result()


def partitions_of(topic):
    return admin().list_topics(topic, timeout=10).topics[topic].partitions


def until_in_sync(topic, replicas):
    """Nobody tells, so it must be asked."""
    deadline = time.monotonic() + LIMIT_S
    client = admin()
    while True:
        found = client.list_topics(topic, timeout=10).topics[topic].partitions
        if found and all(one.leader >= 0 and len(one.isrs) == replicas for one in found.values()):
            return
        seen = {index: one.isrs for index, one in found.items()}
        check(time.monotonic() < deadline, f"{replicas} in sync: not after {LIMIT_S} s: {seen}")
        time.sleep(0.05)


def leader(topic):
    return partitions_of(topic)[0].leader


def read_all(topic, partition):
    consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": f"reader-{secrets.token_hex(4)}",
                         "enable.partition.eof": True, "enable.auto.commit": False})
    values = []
    try:
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(20)
            check(message is not None, f"nothing comes of {topic}-{partition}")
            if message.error() is None:
                values.append(int(message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                return values
    finally:
        consumer.close()


def check_all(load, topic):
    """Nothing that was acknowledged is lost; nothing comes twice, and all is in order."""
    everything = set()
    for partition in range(load.partitions):
        values = read_all(topic, partition)
        equal(values, sorted(set(values)), f"values of partition {partition} in order, once each")
        everything.update(values)
    equal(sorted(set(load.acknowledged) - everything), [], "acknowledged and lost")


@test(limit_s=120)
def leader_stopped_and_killed_while_producing():
    with Steering() as steering:
        topic = create(1)
        load = Load(topic, 1)
        load.more(200)
        first = leader(topic)
        steering.stop(first)
        load.more(200)
        second = leader(topic)
        check(second != first, f"the stopped broker {first} leads")
        steering.back(first)
        until_in_sync(topic, BROKERS)
        steering.kill(second)
        load.more(200)
        steering.back(second)
        until_in_sync(topic, BROKERS)
        load.finish()
        check_all(load, topic)


@test(limit_s=120)
def brokers_restarted_in_turn_while_a_group_reads():
    with Steering() as steering:
        topic = create(3)
        group = f"cluster-{secrets.token_hex(4)}"
        load = Load(topic, 3)
        members = [Member(group, topic), Member(group, topic)]
        load.more(100)
        for broker in range(1, BROKERS + 1):
            steering.stop(broker)
            load.more(100)
            steering.back(broker)
            until_in_sync(topic, BROKERS)
        load.more(100)
        load.finish()
        check_all(load, topic)
        until_read(load.acknowledged, *members)
        for member in members:
            member.finish()


@test(limit_s=120)
def frozen_followers_keep_records_from_being_acknowledged():
    with Steering() as steering:
        topic = create(1)
        followers = [broker for broker in range(1, BROKERS + 1) if broker != leader(topic)]
        outcomes = []
        producer = Producer({"bootstrap.servers": BOOTSTRAP, "acks": "all", "retries": 0, "linger.ms": 0,
                             "message.timeout.ms": 9000, "socket.timeout.ms": 8000})

        def send(value):
            producer.produce(topic, value=str(value).encode(), on_delivery=lambda error, _: outcomes.append(error))
            producer.flush(30)
            return outcomes[-1]

        equal(send(1), None, "with three in sync")
        steering.freeze(followers[0])
        until_in_sync(topic, 2)
        equal(send(2), None, "with two in sync")
        steering.freeze(followers[1])
        until_in_sync(topic, 1)
        equal(send(3).code(), KafkaError.NOT_ENOUGH_REPLICAS, "with one in sync")
        for follower in followers:
            steering.back(follower)
        until_in_sync(topic, BROKERS)
        equal(send(4), None, "with three in sync again")
        equal(read_all(topic, 0), [1, 2, 4], "values")


@test(limit_s=120)
def consumer_group_upgraded_while_coordinators_die():
    """Two classic members give way to two of the consumer protocol, and meanwhile their coordinators die."""
    topic = create(6)
    group = f"cluster-{secrets.token_hex(4)}"
    with ExitStack() as started:
        steering = started.enter_context(Steering())
        load = started.enter_context(Load(topic, 6))

        def join(settings):
            return started.enter_context(Member(group, topic, settings))

        classic = [join(UPGRADABLE), join(UPGRADABLE)]
        for member in classic:
            member.until_owned(3)
        load.more(100)
        young = [join(CONSUMER_PROTOCOL)]
        for member in classic + young:
            member.until_owned(2)
        first = describe(group).coordinator.id
        steering.kill(first)
        load.more(100)
        until_read(load.acknowledged, *young, *classic)
        check(describe(group).coordinator.id != first, f"the killed broker {first} is the coordinator")
        steering.back(first)
        until_in_sync("__consumer_offsets", BROKERS)
        for member in classic:
            member.finish()
        young[0].until_owned(6)
        young.append(join(CONSUMER_PROTOCOL))
        for member in young:
            member.until_owned(3)
        steering.crash(describe(group).coordinator.id)
        load.more(100)
        load.finish()
        until_read(load.acknowledged, *young, *classic)
        equal(len(describe(group).members), 2, "members at the last coordinator")


class CommittedReader:
    """Reads what is committed in a topic: whole numbers with "!" after them, ascending in each partition, once each."""

    def __init__(self, topic, partitions):
        self.consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": f"reader-{secrets.token_hex(4)}",
                                  "isolation.level": "read_committed", "enable.auto.commit": False,
                                  "auto.offset.reset": "error", "socket.timeout.ms": 5000,
                                  "topic.metadata.refresh.interval.ms": 1000})
        self.consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self.values = set()
        self.last = {}

    def until(self, count, *programs):
        deadline = time.monotonic() + LIMIT_S
        while len(self.values) < count:
            for program in programs:
                check(program.process.poll() is None, f"a client ended: {b''.join(program.errors).decode()}")
            check(time.monotonic() < deadline, f"{len(self.values)} of {count} values committed within {LIMIT_S} s")
            for message in self.consumer.consume(100, 0.1):
                if message.error() is not None:
                    check(message.error().retriable() or message.error().code() == KafkaError._ALL_BROKERS_DOWN,
                          f"the reader got {message.error()}")
                    continue
                where = f"{message.value()} at {message.partition()}:{message.offset()}"
                check(message.value().endswith(b"!"), f"{where} was not transformed")
                value = int(message.value()[:-1])
                check(value not in self.values, f"{where} comes a second time")
                check(self.last.get(message.partition(), -1) < value, f"{where} comes out of order")
                self.last[message.partition()] = value
                self.values.add(value)


class World:
    """Two topics, a group that reads one, programs that write what they make of it to the other, and a reader of that."""

    PARTITIONS = 4
    ROUND = 100

    def __init__(self):
        self.source = create(self.PARTITIONS)
        self.target = create(self.PARTITIONS)
        self.group = f"cluster-{secrets.token_hex(4)}"
        self.reader = CommittedReader(self.target, self.PARTITIONS)
        self.fed = 0
        self.programs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.process.kill()
            program.process.wait()
        self.reader.consumer.close()

    def start(self, name, **settings):
        command = [sys.executable, "-B", "pipeline.py", BOOTSTRAP, self.source, self.target, self.group, self.id_of(name)]
        process = subprocess.Popen(command + [f"{key.replace('_', '.')}={value}" for key, value in settings.items()],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.programs.append(Running(process, LIMIT_S))
        return self.programs[-1]

    def id_of(self, name):
        return f"{self.group}-{name}"

    def coordinator_of(self, name):
        with raw.Connection(BOOTSTRAP) as connection:
            error, broker = connection.transaction_coordinator(self.id_of(name))
            equal(error, 0, "error of FindCoordinator")
            return broker

    def feed(self):
        producer = Producer({"bootstrap.servers": BOOTSTRAP, "enable.idempotence": True, "linger.ms": 0})
        for value in range(self.fed, self.fed + self.ROUND):
            producer.produce(self.source, value=b"%d" % value, partition=value % self.PARTITIONS)
        equal(producer.flush(LIMIT_S), 0, "values that weren't written")
        self.fed += self.ROUND

    def until_in_sync(self):
        for topic in (self.source, self.target, "__transaction_state", "__consumer_offsets"):
            until_in_sync(topic, BROKERS)

    def check_all(self, *programs):
        """All that was fed has come once, another reader sees the same, and the group's offsets are at the ends."""
        for program in programs:
            program.process.stdin.close()
        for program in programs:
            equal(program.process.wait(LIMIT_S), 0, f"exit code of a client: {b''.join(program.errors).decode()}")
        equal(self.reader.values, set(range(self.fed)), "values")
        again = CommittedReader(self.target, self.PARTITIONS)
        again.until(self.fed)
        again.consumer.close()
        client = admin()
        found = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(self.group)], require_stable=True)
        offsets = [one.offset for one in found[self.group].result(LIMIT_S).topic_partitions]
        equal(offsets, [self.fed // self.PARTITIONS] * self.PARTITIONS, "committed offsets")


def share(*programs):
    for program in programs:
        program.until("half of the partitions", lambda line: line == f"owns {World.PARTITIONS // 2}")


def pause(world, step, *programs):
    """Writes a round of values, and has a transaction of each of these programs wait at this step."""
    for program in programs:
        tell(program, step)
    world.feed()
    for program in programs:
        program.until(f"a transaction at {step}", lambda line: line == f"at {step}")


def resume(*programs):
    for program in programs:
        tell(program, "")


def tell(program, line):
    program.process.stdin.write(f"{line}\n".encode())
    program.process.stdin.flush()


@test(limit_s=150)
def exactly_once_while_brokers_die():
    """Members of the consumer protocol; leaders of what a transaction touches die, each in the middle of one."""
    with Steering() as steering, World() as world:
        programs = one, other = [world.start(name, group_protocol="consumer") for name in ("one", "other")]
        share(one, other)
        pause(world, "sent", one)
        # A producer of librdkafka waits until the coordinator of the group that it knows is back, whoever has taken over.
        group = describe(world.group).coordinator.id
        dead = next(broker for broker in (world.coordinator_of("one"), 1, 2) if broker != group)
        steering.kill(dead)
        resume(one)
        # Without it at first, until others lead in its place.
        world.reader.until(world.fed, *programs)
        steering.back(dead)
        world.until_in_sync()
        for step, victim in [("offsets-sent", lambda: describe(world.group).coordinator.id),
                             ("sent", lambda: world.coordinator_of("other")),
                             ("begun", lambda: leader(world.target))]:
            pause(world, step, *programs)
            steering.crash(victim())
            resume(*programs)
            world.reader.until(world.fed, *programs)
            world.until_in_sync()
        world.check_all(*programs)


@test(limit_s=150)
def exactly_once_while_clients_are_killed():
    """One that is killed is replaced by one of the same transactional id, and so is one that only seems to be dead."""
    with Steering() as steering, World() as world:
        classic = {"session_timeout_ms": 10000, "heartbeat_interval_ms": 300}
        other = world.start("other", group_instance_id="other", **classic)
        one = world.start("one", group_instance_id="one", **classic)
        share(one, other)
        for step in ("begun", "sent", "offsets-sent"):
            pause(world, step, one, other)
            one.process.kill()
            one.process.wait()
            if step == "offsets-sent":
                steering.crash(world.coordinator_of("one"))
            resume(other)
            one = world.start("one", group_instance_id="one", **classic)
            world.reader.until(world.fed, one, other)
        world.until_in_sync()
        pause(world, "sent", one)
        zombie, one = one, world.start("one", group_instance_id="one", **classic)
        world.reader.until(world.fed, one, other)
        resume(zombie)
        check(zombie.process.wait(LIMIT_S) != 0, "the replaced client could commit")
        check(b"fenced" in b"".join(zombie.errors).lower(), f"the replaced client got {b''.join(zombie.errors).decode()}")
        world.check_all(one, other)


if __name__ == "__main__":
    tap.main()
