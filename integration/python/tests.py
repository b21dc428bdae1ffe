"""confluent-kafka-python (librdkafka): the list of README.md."""

import logging
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import (OFFSET_BEGINNING, OFFSET_END, TIMESTAMP_CREATE_TIME, Consumer, ConsumerGroupState,
                             ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
import tap
from tap import BOOTSTRAP, check, equal, settled, test, topic_name

START_MS = 1_700_000_000_000
MAX_MESSAGE_BYTES = 1_048_588  # The broker's default.
FOLLOW_UP_S = 10


class Delivered:
    """A producer that collects what became of its records."""

    def __init__(self, **settings):
        self.producer = Producer({"bootstrap.servers": BOOTSTRAP, "linger.ms": 5} | settings)
        self.reports = []
        self.errors = []

    def send(self, topic, value, **rest):
        self.producer.produce(topic, value=value, on_delivery=self.report, **rest)
        self.producer.poll(0)

    def report(self, error, message):
        (self.errors if error else self.reports).append(error or message)

    def flush(self):
        equal(self.producer.flush(FOLLOW_UP_S), 0, "records without a report")

    def all_well(self):
        self.flush()
        equal(self.errors, [], "delivery errors")
        return self.reports


@contextmanager
def consumer(**settings):
    client = Consumer({
        "bootstrap.servers": BOOTSTRAP,
        "group.id": topic_name(),
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    } | settings)
    try:
        yield client
    finally:
        client.close()


def take(client, count, limit_s=FOLLOW_UP_S):
    """The next records of an assigned consumer; an error ends the test."""
    messages = []
    deadline = time.monotonic() + limit_s
    while len(messages) < count:
        message = client.poll(max(0, deadline - time.monotonic()))
        check(message is not None, f"{len(messages)} of {count} records after {limit_s} s")
        if message.error():
            raise KafkaException(message.error())
        messages.append(message)
    return messages


def read(topic, count, offset=0, partition=0, **settings):
    with consumer(**settings) as client:
        client.assign([TopicPartition(topic, partition, offset)])
        messages = take(client, count)
        # One poll more would show a duplicate that arrived with the rest.
        extra = client.poll(0.2)
        check(extra is None or extra.error(), "more records than were produced")
        return messages


def create(topic, partitions=1, **config):
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    new = NewTopic(topic, partitions, config={key.replace("_", "."): value for key, value in config.items()})
    admin.create_topics([new], operation_timeout=10)[topic].result(FOLLOW_UP_S)
    return admin


def created(**config):
    topic = topic_name()
    create(topic, **config)
    return topic


def filled(count, **settings):
    """A topic with records of one second each: value N has the timestamp START_MS + 1000 N."""
    topic = created()
    sender = Delivered(**settings)
    for number in range(count):
        sender.send(topic, str(number).encode(), partition=0, timestamp=START_MS + 1000 * number)
    sender.all_well()
    return topic


@test
def create_topic():
    topic = topic_name()
    admin = create(topic, partitions=3)
    found = admin.list_topics(topic, timeout=FOLLOW_UP_S).topics[topic]
    equal(found.error, None, "topic's error")
    equal(sorted(found.partitions), [0, 1, 2], "partitions")
    check(all(each.leader >= 0 for each in found.partitions.values()), "a partition has no leader")
    try:
        create(topic)
    except KafkaException as error:
        equal(error.args[0].code(), KafkaError.TOPIC_ALREADY_EXISTS, "second creation")
    else:
        raise AssertionError("the topic could be created twice")


@test
def create_partitions():
    topic = created()
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    admin.create_partitions([NewPartitions(topic, 3)], operation_timeout=10)[topic].result(FOLLOW_UP_S)
    sender = Delivered()
    sender.send(topic, b"value", partition=2)
    equal(sender.all_well()[0].offset(), 0, "offset in the newest")


@test
def configs():
    topic = created(retention_ms="100000")
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})

    def described():
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        found = admin.describe_configs([resource])[resource].result(FOLLOW_UP_S)
        return {name: found[name].value for name in ("retention.ms", "cleanup.policy")}

    def alter(name, operation, value=None):
        entry = ConfigEntry(name, value, incremental_operation=operation)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(FOLLOW_UP_S)

    equal(described(), {"retention.ms": "100000", "cleanup.policy": "delete"}, "configs of the new topic")
    alter("retention.ms", AlterConfigOpType.SET, "200000")
    alter("cleanup.policy", AlterConfigOpType.APPEND, "compact")
    settled(described, {"retention.ms": "200000", "cleanup.policy": "delete,compact"}, "altered configs")
    alter("cleanup.policy", AlterConfigOpType.SUBTRACT, "compact")
    alter("retention.ms", AlterConfigOpType.DELETE)
    settled(described, {"retention.ms": "604800000", "cleanup.policy": "delete"}, "configs in the end")
    try:
        alter("retention.ms", AlterConfigOpType.SET, "soon")
    except KafkaException as error:
        equal(error.args[0].code(), KafkaError.INVALID_CONFIG, "a bad value")
    else:
        raise AssertionError("a retention of 'soon' was accepted")


@test
def usable_after_creation():
    for _ in range(10):
        topic = created(partitions=3)
        sender = Delivered()
        sender.send(topic, b"value", partition=2)
        equal(sender.all_well()[0].offset(), 0, "offset")
        equal(read(topic, 1, partition=2)[0].value(), b"value")


@test
def auto_creation():
    topic = topic_name()
    sender = Delivered()
    sender.send(topic, b"value")
    sender.all_well()
    equal(read(topic, 1)[0].value(), b"value")


def round_trip(codec):
    topic = created()
    sent = [
        (b"key", b"value", [("h", b"1"), ("h", b"2"), ("n", None), ("e", b"")]),
        (None, b"no key", []),
        (b"", b"", [("", b"empty name")]),
        (b"no value", None, [("h", b"\x00\xff" * 100)]),
        (None, None, []),
        ("snö".encode(), b"long " * 20_000, [("unicode ✓", "✓".encode())]),
    ] + [(b"k%d" % number, b"value %d " % number * 10, [("n", b"%d" % number)]) for number in range(500)]
    sender = Delivered(**{"compression.type": codec, "linger.ms": 50})
    for number, (key, value, headers) in enumerate(sent):
        sender.send(topic, value, key=key, headers=headers, partition=0, timestamp=START_MS + number * 7)
    reports = sender.all_well()
    equal([each.offset() for each in reports], list(range(len(sent))), "offsets of the delivery reports")
    got = read(topic, len(sent))
    equal([each.offset() for each in got], list(range(len(sent))), "offsets read")
    for number, (message, (key, value, headers)) in enumerate(zip(got, sent)):
        equal(message.key(), key, f"key {number}")
        equal(message.value(), value, f"value {number}")
        equal(message.headers() or [], headers, f"headers {number}")
        equal(message.timestamp(), (TIMESTAMP_CREATE_TIME, START_MS + number * 7), f"timestamp {number}")
    # A batch that compression would make larger is sent as it is, so `none` may be among them.
    check(codec in raw.codecs_of(BOOTSTRAP, topic), f"nothing is stored with {codec}")


def declare_round_trips():
    for codec in raw.CODECS.values():
        test(lambda codec=codec: round_trip(codec), name=f"round_trip_{codec}")


declare_round_trips()


def acks(setting):
    topic = created()
    sender = Delivered(acks=setting)
    for number in range(100):
        sender.send(topic, b"%d" % number, partition=0)
    reports = sender.all_well()
    if setting != "0":
        equal([each.offset() for each in reports], list(range(100)), "offsets")
    equal([each.value() for each in read(topic, 100)], [b"%d" % number for number in range(100)])


@test
def acks_0():
    acks("0")


@test
def acks_1():
    acks("1")


@test
def acks_all():
    acks("all")


@test
def idempotence():
    topic = created(partitions=2)
    sender = Delivered(**{"enable.idempotence": True, "linger.ms": 0, "batch.num.messages": 10})
    for number in range(2000):
        sender.send(topic, b"%d" % number, partition=number % 2)
    sender.all_well()
    for partition in (0, 1):
        values = [int(each.value()) for each in read(topic, 1000, partition=partition)]
        equal(values, list(range(partition, 2000, 2)), f"partition {partition}")


@test
def offsets_for_times():
    for codec in ("none", "zstd"):
        topic = filled(10, **{"compression.type": codec, "linger.ms": 50})
        with consumer() as client:
            for timestamp, expected in [
                (0, 0),
                (START_MS, 0),
                (START_MS + 1, 1),
                (START_MS + 4_999, 5),
                (START_MS + 9_000, 9),
                (START_MS + 9_001, OFFSET_END),
            ]:
                (found,) = client.offsets_for_times([TopicPartition(topic, 0, timestamp)], timeout=FOLLOW_UP_S)
                equal(found.offset, expected, f"offset for {timestamp - START_MS} ms after the start, {codec}")


@test
def watermarks():
    topic = filled(10)
    with consumer() as client:
        equal(client.get_watermark_offsets(TopicPartition(topic, 0), timeout=FOLLOW_UP_S), (0, 10))
        equal(client.get_watermark_offsets(TopicPartition(created(), 0), timeout=FOLLOW_UP_S), (0, 0), "empty topic")


@test
def seek():
    topic = filled(100)
    with consumer() as client:
        client.assign([TopicPartition(topic, 0, 0)])
        equal([int(each.value()) for each in take(client, 100)], list(range(100)))
        for offset in (50, 3, 99):
            client.seek(TopicPartition(topic, 0, offset))
            equal(int(take(client, 1)[0].value()), offset, f"after a seek to {offset}")
        client.seek(TopicPartition(topic, 0, OFFSET_BEGINNING))
        equal(int(take(client, 1)[0].value()), 0, "at the beginning")
    # The end is asked for behind a fetch that may wait, and the client tells when it has come there.
    with consumer(**{"enable.partition.eof": True}) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        equal(int(take(client, 1)[0].value()), 0, "at the beginning")
        client.seek(TopicPartition(topic, 0, OFFSET_END))
        message = client.poll(FOLLOW_UP_S)
        check(message is not None and message.error() is not None, "there is a record after the end")
        equal(message.error().code(), KafkaError._PARTITION_EOF, "error")
        sender = Delivered()
        sender.send(topic, b"100", partition=0)
        sender.all_well()
        equal(int(take(client, 1)[0].value()), 100, "at the end")


@test
def out_of_range():
    topic = filled(10)
    with consumer() as client:
        client.assign([TopicPartition(topic, 0, 11)])
        message = client.poll(FOLLOW_UP_S)
        check(message is not None and message.error() is not None, "no error beyond the end")
        equal(message.error().code(), KafkaError._AUTO_OFFSET_RESET, "error")


@test
def delete_records():
    topic = filled(100)
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    partition = TopicPartition(topic, 0, 50)
    (deleted,) = admin.delete_records([partition], request_timeout=FOLLOW_UP_S).values()
    equal(deleted.result(FOLLOW_UP_S).low_watermark, 50, "low watermark")
    with consumer() as client:
        equal(client.get_watermark_offsets(TopicPartition(topic, 0), timeout=FOLLOW_UP_S), (50, 100))
    equal([int(each.value()) for each in read(topic, 50, OFFSET_BEGINNING)], list(range(50, 100)))
    first = read(topic, 50, 10, **{"auto.offset.reset": "earliest"})[0]
    equal(first.offset(), 50, "first offset after a reset from a deleted one")


class FetchTimes(logging.Handler):
    """Collects from librdkafka's own log how long each fetch took, in seconds."""

    def __init__(self):
        super().__init__()
        self.seconds = []
        self.sent = 0
        self.logger = logging.Logger("fetch-times")
        self.logger.addHandler(self)

    def emit(self, record):
        line = record.getMessage()
        if "Sent FetchRequest" in line:
            self.sent += 1
        found = re.search(r"Received FetchResponse .* rtt ([0-9.]+)ms", line)
        if found:
            self.seconds.append(float(found.group(1)) / 1000)


@contextmanager
def long_poller(max_wait_ms):
    """A consumer of a new topic that asks for 100,000 bytes, and how long its fetches take."""
    topic = created()
    # Real Kafka answers a fetch at once, with an error, while it doesn't lead the new partition yet.
    with raw.Connection(BOOTSTRAP) as connection:
        connection.settle(topic, 0)
    times = FetchTimes()
    settings = {"fetch.min.bytes": 100_000, "fetch.wait.max.ms": max_wait_ms, "debug": "protocol"}
    with consumer(logger=times.logger, **settings) as client:
        client.assign([TopicPartition(topic, 0, 0)])
        yield topic, client, times


@test
def long_poll_idle():
    with long_poller(700) as (_, client, times):
        deadline = time.monotonic() + FOLLOW_UP_S
        while len(times.seconds) < 3:
            check(time.monotonic() < deadline, f"{len(times.seconds)} of 3 fetches answered")
            equal(client.poll(0.1), None, "record")
        for seconds in times.seconds:
            tap.check_long_poll(seconds, 0.7)


@test
def long_poll_waits_for_enough():
    with long_poller(700) as (topic, client, times):
        while times.sent == 0:
            client.poll(0.02)
        sender = Delivered()
        sender.send(topic, b"too little", partition=0)
        sender.all_well()
        equal(take(client, 1)[0].value(), b"too little")
        client.poll(0)
        tap.check_long_poll(times.seconds[0], 0.7)


@test
def long_poll_wakes():
    with long_poller(15_000) as (topic, client, times):
        while times.sent == 0:
            client.poll(0.02)
        sender = Delivered()
        began = time.monotonic()
        for _ in range(2):
            sender.send(topic, b"x" * 60_000, partition=0)
            sender.flush()
        sender.all_well()
        equal(len(take(client, 2)), 2)
        elapsed = time.monotonic() - began
        check(elapsed < 2, f"woke after {elapsed:.2f} s")


@test
def large_message():
    topic = created()
    sender = Delivered(**{"message.max.bytes": 2_000_000})
    value = bytes(MAX_MESSAGE_BYTES - 100)
    sender.send(topic, value, partition=0)
    sender.all_well()
    equal(len(read(topic, 1)[0].value()), len(value), "bytes read")
    # A record that is larger than what the consumer asks for comes nevertheless.
    small = {"fetch.max.bytes": 1000, "message.max.bytes": 1000, "max.partition.fetch.bytes": 1000}
    equal(len(read(topic, 1, **small)[0].value()), len(value), "bytes read with small limits")


@test
def message_too_large():
    topic = created()
    sender = Delivered(**{"message.max.bytes": 2_000_000, "linger.ms": 0})
    sender.send(topic, bytes(MAX_MESSAGE_BYTES + 1), partition=0)
    sender.flush()
    equal([error.code() for error in sender.errors], [KafkaError.MSG_SIZE_TOO_LARGE], "delivery errors")
    sender.errors.clear()
    sender.send(topic, b"next", partition=0)
    equal([each.offset() for each in sender.all_well()], [0], "offset of the next record")


@test
def topic_limit_is_applied():
    topic = created(max_message_bytes="1000")
    sender = Delivered(**{"linger.ms": 0})
    sender.send(topic, bytes(1001), partition=0)
    sender.flush()
    equal([error.code() for error in sender.errors], [KafkaError.MSG_SIZE_TOO_LARGE], "delivery errors")


class Assigned:
    """What the group has given to a member that subscribes."""

    def __init__(self, client, topic):
        self.client = client
        self.messages = []
        client.subscribe([topic])

    def poll(self):
        message = self.client.poll(0.05)
        if message is not None:
            check(not message.error(), f"poll: {message.error()}")
            self.messages.append(message)

    def owned(self):
        return {each.partition for each in self.client.assignment()}


def poll_until(condition, *members, limit_s=15):
    deadline = time.monotonic() + limit_s
    while not condition():
        check(time.monotonic() < deadline, f"owned after {limit_s} s: {[member.owned() for member in members]}")
        for member in members:
            member.poll()


def group_of_two(strategy):
    """Two members share four partitions; when one leaves, the other has them all."""
    topic, group = topic_name(), topic_name()
    create(topic, 4)
    settings = {"group.id": group, "partition.assignment.strategy": strategy, "auto.offset.reset": "earliest",
                "heartbeat.interval.ms": 200}
    with consumer(**settings) as one:
        first = Assigned(one, topic)
        poll_until(lambda: len(first.owned()) == 4, first)
        with consumer(**settings) as other:
            second = Assigned(other, topic)
            poll_until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)
            equal(first.owned() | second.owned(), {0, 1, 2, 3}, "partitions of both")
            sender = Delivered()
            for number in range(40):
                sender.send(topic, b"%d" % number, partition=number % 4)
            sender.all_well()
            poll_until(lambda: len(first.messages) + len(second.messages) == 40, first, second)
            equal(len(first.messages), 20, "records of the first")
            one.commit(asynchronous=False)
            other.commit(asynchronous=False)
        poll_until(lambda: len(first.owned()) == 4, first)
        first.poll()
        equal(len(first.messages), 20, "records of the first after the other has left")


@test(limit_s=40)
def group_eager():
    group_of_two("range,roundrobin")


@test(limit_s=40)
def group_cooperative():
    group_of_two("cooperative-sticky")


@test(limit_s=40)
def group_manual_commit():
    topic, group = filled(10), topic_name()
    with consumer(**{"group.id": group, "auto.offset.reset": "earliest"}) as client:
        client.subscribe([topic])
        for message in take(client, 4):
            client.commit(message, asynchronous=False)
        (found,) = client.committed([TopicPartition(topic, 0)], timeout=FOLLOW_UP_S)
        equal(found.offset, 4, "committed offset")
    with consumer(**{"group.id": group}) as client:
        client.subscribe([topic])
        equal([message.offset() for message in take(client, 6)], list(range(4, 10)), "offsets after resuming")


@test(limit_s=40)
def group_automatic_commit():
    topic, group = filled(10), topic_name()
    settings = {"group.id": group, "enable.auto.commit": True, "auto.offset.reset": "earliest"}
    with consumer(**settings) as client:
        client.subscribe([topic])
        take(client, 10)
    sender = Delivered()
    sender.send(topic, b"new")
    sender.all_well()
    with consumer(**settings) as client:
        client.subscribe([topic])
        equal(take(client, 1)[0].offset(), 10, "offset after resuming")


@test(limit_s=40)
def group_static_member():
    """A static member that comes back has its partitions at once, in the same generation."""
    topic, group = filled(1), topic_name()
    settings = {"group.id": group, "group.instance.id": "it", "auto.offset.reset": "earliest"}
    with consumer(**settings) as client:
        client.subscribe([topic])
        take(client, 1)
    with consumer(**settings) as client:
        back = Assigned(client, topic)
        poll_until(lambda: back.owned() == {0}, back, limit_s=5)
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    described = admin.describe_consumer_groups([group])[group].result(FOLLOW_UP_S)
    equal([member.group_instance_id for member in described.members], ["it"], "members that the group still has")


@test(limit_s=40)
def group_admin():
    topic, group = filled(5), topic_name()
    admin = AdminClient({"bootstrap.servers": BOOTSTRAP})
    place = TopicPartition(topic, 0)

    def offset():
        (found,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        return [each.offset for each in found.result(FOLLOW_UP_S).topic_partitions]

    def refused(futures):
        try:
            futures[group].result(FOLLOW_UP_S)
        except KafkaException as error:
            return error.args[0].code()
        return None

    def state():
        return admin.describe_consumer_groups([group])[group].result(FOLLOW_UP_S).state

    with consumer(**{"group.id": group, "auto.offset.reset": "earliest", "client.id": "its-name"}) as client:
        client.subscribe([topic])
        client.commit(take(client, 5)[-1], asynchronous=False)
        found = admin.describe_consumer_groups([group])[group].result(FOLLOW_UP_S)
        equal((found.state, found.partition_assignor), (ConsumerGroupState.STABLE, "range"), "description")
        equal([(each.client_id, each.assignment.topic_partitions) for each in found.members], [("its-name", [place])], "members")
        listed = {each.group_id: each for each in admin.list_consumer_groups().result(FOLLOW_UP_S).valid}
        equal(listed[group].state, ConsumerGroupState.STABLE, "listed state")
        equal(refused(admin.delete_consumer_groups([group])), KafkaError.NON_EMPTY_GROUP, "deletion with a member")
    equal((state(), offset()), (ConsumerGroupState.EMPTY, [5]), "state and offset without members")
    altered = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 2)])
    admin.alter_consumer_group_offsets([altered])[group].result(FOLLOW_UP_S)
    equal(offset(), [2], "altered offset")
    admin.delete_consumer_groups([group])[group].result(FOLLOW_UP_S)
    equal(refused(admin.delete_consumer_groups([group])), KafkaError.GROUP_ID_NOT_FOUND, "second deletion")


def young_group(**more):
    """Settings of a member of the consumer protocol (KIP-848)."""
    return {"group.id": topic_name(), "group.protocol": "consumer", "auto.offset.reset": "earliest"} | more


@test(limit_s=60)
def consumer_group_share():
    """Two members of the consumer protocol share four partitions; when one leaves, the other has them all."""
    topic, settings = topic_name(), young_group()
    create(topic, 4)
    with consumer(**settings) as one:
        first = Assigned(one, topic)
        poll_until(lambda: len(first.owned()) == 4, first)
        with consumer(**settings) as other:
            second = Assigned(other, topic)
            poll_until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)
            equal(first.owned() | second.owned(), {0, 1, 2, 3}, "partitions of both")
            sender = Delivered()
            for number in range(40):
                sender.send(topic, b"%d" % number, partition=number % 4)
            sender.all_well()
            poll_until(lambda: len(first.messages) + len(second.messages) == 40, first, second)
            one.commit(asynchronous=False)
            other.commit(asynchronous=False)
        poll_until(lambda: len(first.owned()) == 4, first)
        first.poll()
        equal(len(first.messages), 20, "records of the first after the other has left")


CRASHING = """
import sys
from confluent_kafka import Consumer
client = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
client.subscribe([sys.argv[3]])
while True:
    client.poll(0.1)
    if len(client.assignment()) == 2:
        print("half", flush=True)
"""


@test(limit_s=60)
def consumer_group_crash():
    """A member that is killed is out after its session, and the other has everything."""
    topic, settings = topic_name(), young_group()
    create(topic, 4)
    with consumer(**settings) as client:
        stays = Assigned(client, topic)
        poll_until(lambda: len(stays.owned()) == 4, stays)
        arguments = [sys.executable, "-c", CRASHING, BOOTSTRAP, settings["group.id"], topic]
        crashes = subprocess.Popen(arguments, stdout=subprocess.PIPE)
        try:
            poll_until(lambda: len(stays.owned()) == 2, stays)
            equal(crashes.stdout.readline(), b"half\n", "what the other has said")
        finally:
            crashes.kill()
            crashes.wait()
        poll_until(lambda: len(stays.owned()) == 4, stays, limit_s=20)


@test(limit_s=60)
def consumer_group_regex():
    prefix = topic_name()
    create(prefix + "-a")
    create(prefix + "-b", 2)
    with consumer(**young_group()) as client:
        member = Assigned(client, f"^{prefix}-[ab]")
        poll_until(lambda: len(client.assignment()) == 3, member, limit_s=25)


@test(limit_s=60)
def consumer_group_static_member():
    """A static member of the consumer protocol that comes back has its partition at once."""
    topic, settings = filled(1), young_group(**{"group.instance.id": "it"})
    with consumer(**settings) as client:
        client.subscribe([topic])
        take(client, 1)
    with consumer(**settings) as client:
        back = Assigned(client, topic)
        poll_until(lambda: back.owned() == {0}, back, limit_s=5)


@test(limit_s=60)
def consumer_group_upgrade():
    """A member of the consumer protocol joins a classic group that works, and takes it over when the other leaves."""
    topic, settings = topic_name(), young_group()
    create(topic, 4)
    classic = {"group.id": settings["group.id"], "auto.offset.reset": "earliest", "heartbeat.interval.ms": 200,
               "partition.assignment.strategy": "range"}
    with consumer(**settings) as young:
        with consumer(**classic) as old:
            first = Assigned(old, topic)
            poll_until(lambda: len(first.owned()) == 4, first)
            second = Assigned(young, topic)
            poll_until(lambda: len(first.owned()) == len(second.owned()) == 2, first, second)
            equal(first.owned() | second.owned(), {0, 1, 2, 3}, "partitions of both")
        poll_until(lambda: len(second.owned()) == 4, second)


@contextmanager
def transactional(transactional_id=None, **settings):
    """A producer that may begin a transaction."""
    sender = Delivered(**{"transactional.id": transactional_id or topic_name()}, **settings)
    sender.producer.init_transactions(FOLLOW_UP_S)
    yield sender
    # What is open is given up as when the process ends.


def committed(topic, count):
    return [message.value() for message in read(topic, count, **{"isolation.level": "read_committed"})]


@test
def transaction_commit_and_abort():
    topic = created()
    expected = []
    with transactional() as sender:
        for number in range(12):
            sender.producer.begin_transaction()
            values = [f"{number}-{each}".encode() for each in range(3)]
            for value in values:
                sender.send(topic, value, partition=0)
            if number % 3 == 1:
                sender.flush()
                sender.producer.abort_transaction(FOLLOW_UP_S)
            else:
                sender.producer.commit_transaction(FOLLOW_UP_S)
                expected += values
    equal(committed(topic, len(expected)), expected, "committed values")


@test
def transaction_fenced():
    topic, transactional_id = created(), topic_name()
    with transactional(transactional_id) as old:
        old.producer.begin_transaction()
        old.send(topic, b"old", partition=0)
        old.flush()
        with transactional(transactional_id) as young:
            young.producer.begin_transaction()
            young.send(topic, b"young", partition=0)
            try:
                old.producer.commit_transaction(FOLLOW_UP_S)
            except KafkaException as error:
                check(error.args[0].fatal() or error.args[0].txn_requires_abort(), f"the old producer got {error}")
            else:
                raise AssertionError("the old producer could commit")
            young.producer.commit_transaction(FOLLOW_UP_S)
    equal(committed(topic, 1), [b"young"], "committed values")


@test(limit_s=60)
def transaction_consume_transform_produce():
    """Every other producer is dropped in the middle of its transaction; each record is read once all the same."""
    source, target, group, transactional_id = filled(60), created(), topic_name(), topic_name()
    done = run = 0
    while done < 60:
        with (transactional(transactional_id) as sender,
              consumer(**{"group.id": group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}) as reader):
            position = reader.committed([TopicPartition(source, 0)], FOLLOW_UP_S)[0].offset
            reader.assign([TopicPartition(source, 0, max(position, 0))])
            messages = take(reader, min(10, 60 - done))
            sender.producer.begin_transaction()
            for message in messages:
                sender.send(target, message.value() + b"!", partition=0)
            offsets = [TopicPartition(source, 0, messages[-1].offset() + 1)]
            sender.producer.send_offsets_to_transaction(offsets, reader.consumer_group_metadata(), FOLLOW_UP_S)
            run += 1
            if run % 2:
                sender.flush()
                continue
            sender.producer.commit_transaction(FOLLOW_UP_S)
            done += len(messages)
    equal(committed(target, 60), [f"{number}!".encode() for number in range(60)], "values")


tap.main()
