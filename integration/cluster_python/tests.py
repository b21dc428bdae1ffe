"""confluent-kafka-python (librdkafka) with three brokers, of which some stop, die, freeze and come back."""

import os
import secrets
import sys
import threading
import time
import urllib.request
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import tap
from tap import BOOTSTRAP, check, equal, test, topic_name

CONTROL = os.environ.get("HULD_CONTROL", "")
BROKERS = 3
LIMIT_S = 60


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

    def back(self, broker):
        self.post(broker, self.away.pop(broker))

    @staticmethod
    def post(broker, action):
        request = urllib.request.Request(f"{CONTROL}/brokers/{broker}/{action}", method="POST")
        urllib.request.urlopen(request, timeout=LIMIT_S).read()


class Load:
    """An idempotent producer that sends "0", "1", "2", … with acks=all from a thread of its own until it is finished."""

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

    def finish(self):
        self.stopping = True
        self.thread.join(LIMIT_S)
        equal(self.failed, [], "records that failed")


class Member:
    """A member of a group that reads from a thread of its own and commits what it has read."""

    def __init__(self, group, topic):
        self.consumer = Consumer({"bootstrap.servers": BOOTSTRAP, "group.id": group, "auto.offset.reset": "earliest",
                                  "session.timeout.ms": 10000, "topic.metadata.refresh.interval.ms": 1000,
                                  "socket.timeout.ms": 5000, "enable.auto.commit": True, "auto.commit.interval.ms": 500,
                                  "partition.assignment.strategy": "cooperative-sticky"})
        self.values = set()
        self.changed = threading.Condition()
        self.stopping = False
        self.consumer.subscribe([topic])
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self):
        while not self.stopping:
            message = self.consumer.poll(0.1)
            if message is not None and message.error() is None:
                with self.changed:
                    self.values.add(int(message.value()))
                    self.changed.notify_all()
        self.consumer.close()

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


def partitions_of(topic):
    return admin().list_topics(topic, timeout=10).topics[topic].partitions


def until_in_sync(topic, replicas):
    """Nobody tells, so it must be asked."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        found = partitions_of(topic)
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


if __name__ == "__main__":
    tap.main()
