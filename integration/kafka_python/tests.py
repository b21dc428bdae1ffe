"""kafka-python: the list of README.md, and groups."""

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import MessageSizeTooLargeError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from kafka.structs import OffsetAndMetadata

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
import tap
from tap import BOOTSTRAP, check, equal, settled, test, topic_name

START_MS = 1_700_000_000_000
MAX_MESSAGE_BYTES = 1_048_588  # The broker's default.
FOLLOW_UP_S = 10


@contextmanager
def closing(client):
    try:
        yield client
    finally:
        client.close()


def administrator():
    return closing(KafkaAdminClient(bootstrap_servers=BOOTSTRAP))


def producer(**settings):
    return closing(KafkaProducer(bootstrap_servers=BOOTSTRAP, **settings))


def consumer(*topics, **settings):
    defaults = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 200}
    return closing(KafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, **(defaults | settings)))


def created(partitions=1, **config):
    topic = topic_name()
    configs = {key.replace("_", "."): value for key, value in config.items()}
    with administrator() as admin:
        admin.create_topics({topic: {"num_partitions": partitions, "replication_factor": 1, "configs": configs}})
    return topic


def send(topic, values, partition=0, **settings):
    """Produces and waits; gives the metadata of each record."""
    with producer(**settings) as sender:
        futures = [sender.send(topic, value, partition=partition, timestamp_ms=START_MS + 1000 * number)
                   for number, value in enumerate(values)]
        return [future.get(FOLLOW_UP_S) for future in futures]


def numbered(count):
    return [b"%d" % number for number in range(count)]


def filled(count, partitions=1, **settings):
    """A topic with records of one second each in every partition."""
    topic = created(partitions)
    for partition in range(partitions):
        send(topic, numbered(count), partition, **settings)
    return topic


def take(client, count, limit_s=FOLLOW_UP_S):
    records = []
    deadline = time.monotonic() + limit_s
    while len(records) < count:
        check(time.monotonic() < deadline, f"{len(records)} of {count} records after {limit_s} s")
        for batch in client.poll(timeout_ms=500).values():
            records.extend(batch)
    equal(len(records), count, "records")
    return records


def read(topic, count, offset=0, partition=0, **settings):
    with consumer(**settings) as client:
        place = TopicPartition(topic, partition)
        client.assign([place])
        client.seek(place, offset)
        return take(client, count)


@test
def create_topic():
    topic = created(partitions=3)
    with administrator() as admin:
        check(topic in admin.list_topics(), "the topic is not listed")
        (found,) = admin.describe_topics([topic])
        partitions = sorted(found["partitions"], key=lambda each: each["partition_index"])
        equal([each["partition_index"] for each in partitions], [0, 1, 2], "partitions")
        check(all(each["leader_id"] >= 0 for each in partitions), "a partition has no leader")
        try:
            admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        except TopicAlreadyExistsError:
            pass
        else:
            raise AssertionError("the topic could be created twice")


@test
def create_partitions():
    topic = created()
    with administrator() as admin:
        admin.create_partitions({topic: 4})
        settled(lambda: len(admin.describe_topics([topic])[0]["partitions"]), 4, "partitions")
    equal(send(topic, [b"value"], partition=3)[0].offset, 0, "offset in the newest")
    equal(read(topic, 1, partition=3)[0].value, b"value")


@test
def configs():
    topic = created(retention_ms="100000")
    with administrator() as admin:

        def described():
            resource = ConfigResource(ConfigResourceType.TOPIC, topic)
            found = admin.describe_configs([resource], config_filter="all")["topic"][topic]
            return {name: found[name]["value"] for name in ("retention.ms", "cleanup.policy")}

        def alter(value):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": value})
            return admin.alter_configs([resource])["topic"][topic]

        equal(described(), {"retention.ms": "100000", "cleanup.policy": "delete"}, "configs of the new topic")
        equal(alter("200000"), "OK", "change")
        settled(described, {"retention.ms": "200000", "cleanup.policy": "delete"}, "altered configs")
        answer = alter("soon")
        check(answer != "OK" and "retention.ms" in answer, f"a retention of 'soon': {answer}")


@test
def delete_topic():
    topic = created()
    with administrator() as admin:
        admin.delete_topics([topic])
        deadline = time.monotonic() + FOLLOW_UP_S
        while topic in admin.list_topics():
            check(time.monotonic() < deadline, "the topic is still listed")
        try:
            admin.delete_topics([topic])
        except UnknownTopicOrPartitionError:
            return
        raise AssertionError("the topic could be deleted twice")


@test
def usable_after_creation():
    for _ in range(5):
        topic = created(partitions=3)
        equal(send(topic, [b"value"], partition=2)[0].offset, 0, "offset")
        equal(read(topic, 1, partition=2)[0].value, b"value")


@test
def auto_creation():
    topic = topic_name()
    send(topic, [b"value"])
    equal(read(topic, 1)[0].value, b"value")


def round_trip(codec):
    topic = created()
    sent = [
        (b"key", b"value", [("h", b"1"), ("h", b"2"), ("e", b"")]),
        (None, b"no key", []),
        (b"", b"", [("", b"empty name")]),
        (b"no value", None, [("h", b"\x00\xff" * 100)]),
        ("snö".encode(), b"long " * 20_000, [("unicode ✓", "✓".encode())]),
    ] + [(b"k%d" % number, b"value %d " % number * 10, [("n", b"%d" % number)]) for number in range(300)]
    with producer(compression_type=None if codec == "none" else codec, linger_ms=50) as sender:
        futures = [sender.send(topic, value, key=key, headers=headers, partition=0, timestamp_ms=START_MS + number * 7)
                   for number, (key, value, headers) in enumerate(sent)]
        equal([future.get(FOLLOW_UP_S).offset for future in futures], list(range(len(sent))), "offsets produced")
    got = read(topic, len(sent))
    equal([each.offset for each in got], list(range(len(sent))), "offsets read")
    for number, (record, (key, value, headers)) in enumerate(zip(got, sent)):
        equal(record.key, key, f"key {number}")
        equal(record.value, value, f"value {number}")
        equal([(name, bytes(data)) for name, data in record.headers], headers, f"headers {number}")
        equal(record.timestamp, START_MS + number * 7, f"timestamp {number}")
    check(codec in raw.codecs_of(BOOTSTRAP, topic), f"nothing is stored with {codec}")


for each in raw.CODECS.values():
    test(lambda codec=each: round_trip(codec), name=f"round_trip_{each}")


def acks(setting):
    topic = created()
    offsets = [each.offset for each in send(topic, numbered(100), acks=setting, enable_idempotence=False)]
    if setting != 0:
        equal(offsets, list(range(100)), "offsets")
    equal([each.value for each in read(topic, 100)], numbered(100))


@test
def acks_0():
    acks(0)


@test
def acks_1():
    acks(1)


@test
def acks_all():
    acks("all")


@test
def idempotence():
    topic = created(partitions=2)
    with producer(enable_idempotence=True, batch_size=200) as sender:
        futures = [sender.send(topic, b"%d" % number, partition=number % 2) for number in range(1000)]
        for future in futures:
            future.get(FOLLOW_UP_S)
    for partition in (0, 1):
        values = [int(each.value) for each in read(topic, 500, partition=partition)]
        equal(values, list(range(partition, 1000, 2)), f"partition {partition}")


@test
def offsets_for_times():
    topic = filled(10, compression_type="zstd", linger_ms=50)
    place = TopicPartition(topic, 0)
    with consumer() as client:
        for timestamp, expected in [(0, 0), (START_MS, 0), (START_MS + 1, 1), (START_MS + 4_999, 5),
                                    (START_MS + 9_000, 9)]:
            found = client.offsets_for_times({place: timestamp})[place]
            equal(found.offset, expected, f"offset for {timestamp - START_MS} ms after the start")
            equal(found.timestamp, START_MS + 1000 * expected, "its timestamp")
        equal(client.offsets_for_times({place: START_MS + 9_001})[place], None, "after the last")
        equal(client.beginning_offsets([place]), {place: 0}, "beginning")
        equal(client.end_offsets([place]), {place: 10}, "end")


@test
def seek():
    topic = filled(100)
    place = TopicPartition(topic, 0)
    with consumer(max_poll_records=1) as client:
        client.assign([place])
        for offset in (50, 3, 99):
            client.seek(place, offset)
            equal(take(client, 1)[0].offset, offset, f"after a seek to {offset}")
        client.seek_to_beginning(place)
        equal(take(client, 1)[0].offset, 0, "at the beginning")
        client.seek_to_end(place)
        equal(client.position(place), 100, "the end")
        equal(client.poll(timeout_ms=400), {}, "after the end")
        send(topic, [b"100"])
        equal(take(client, 1)[0].offset, 100, "at the end")


@test
def delete_records():
    topic = filled(100)
    place = TopicPartition(topic, 0)
    with administrator() as admin:
        equal(admin.delete_records({place: 50})[place]["low_watermark"], 50, "low watermark")
    with consumer() as client:
        equal(client.beginning_offsets([place]), {place: 50}, "beginning")
    equal(read(topic, 50, offset=10)[0].offset, 50, "first offset after a reset from a deleted one")


@test
def long_poll_idle():
    topic = created()
    place = TopicPartition(topic, 0)
    with consumer(fetch_min_bytes=100_000, fetch_max_wait_ms=700) as client:
        client.assign([place])
        client.seek(place, 0)
        latency = {}
        deadline = time.monotonic() + FOLLOW_UP_S
        # The client sends the next fetch only while it polls, and counts those that were answered.
        while latency.get("fetch-rate", 0) == 0 or time.monotonic() < deadline - FOLLOW_UP_S + 2.5:
            check(time.monotonic() < deadline, "no fetch was answered")
            equal(client.poll(timeout_ms=100), {}, "records")
            latency = client.metrics()["consumer-fetch-manager-metrics"]
        # The client adds its own few milliseconds to what the broker takes.
        tap.check_long_poll(latency["fetch-latency-avg"] / 1000, 0.7)
        tap.check_long_poll(latency["fetch-latency-max"] / 1000, 0.7)


@test
def long_poll_wakes():
    topic = created()
    place = TopicPartition(topic, 0)
    with consumer(fetch_min_bytes=100_000, fetch_max_wait_ms=15_000) as client:
        client.assign([place])
        client.seek(place, 0)
        equal(client.poll(timeout_ms=300), {}, "records")
        began = time.monotonic()
        send(topic, [b"x" * 60_000] * 2, acks=1, enable_idempotence=False)
        equal(len(take(client, 2)), 2)
        elapsed = time.monotonic() - began
        check(elapsed < 2, f"woke after {elapsed:.2f} s")


@test
def large_message():
    topic = created()
    value = bytes(MAX_MESSAGE_BYTES - 100)
    send(topic, [value], max_request_size=2_000_000)
    equal(len(read(topic, 1)[0].value), len(value), "bytes read")
    equal(len(read(topic, 1, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)[0].value), len(value),
          "bytes read with small limits")


@test
def message_too_large():
    topic = created()
    with producer(max_request_size=2_000_000, retries=0, enable_idempotence=False) as sender:
        try:
            sender.send(topic, bytes(MAX_MESSAGE_BYTES + 1), partition=0).get(FOLLOW_UP_S)
        except MessageSizeTooLargeError:
            pass
        else:
            raise AssertionError("the record was accepted")
        equal(sender.send(topic, b"next", partition=0).get(FOLLOW_UP_S).offset, 0, "offset of the next record")


class Member:
    """A group member that polls in a thread of its own until it is closed."""

    def __init__(self, group, topic, **settings):
        defaults = {"group_id": group, "heartbeat_interval_ms": 100, "session_timeout_ms": 10_000}
        self.records = []
        self.assigned = set()
        self.rebalances = 0
        self.error = None
        self.changed = threading.Condition()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.poll, args=(topic, defaults | settings), daemon=True)
        self.thread.start()

    def poll(self, topic, settings):
        try:
            with consumer(**settings) as client:
                client.subscribe([topic], listener=Listener(self))
                while not self.stopping.is_set():
                    for batch in client.poll(timeout_ms=100).values():
                        with self.changed:
                            self.records.extend(batch)
                            self.changed.notify_all()
        except Exception as error:  # The thread that waits reports it.
            with self.changed:
                self.error = error
                self.changed.notify_all()

    def wait(self, what, holds):
        with self.changed:
            self.changed.wait_for(lambda: self.error or holds(self), FOLLOW_UP_S)
            if self.error:
                raise self.error
            check(holds(self), f"{what}: has {sorted(self.assigned)} and {len(self.records)} records")

    def close(self):
        self.stopping.set()
        self.thread.join(FOLLOW_UP_S)
        check(not self.thread.is_alive(), "the member did not leave")


class Listener(ConsumerRebalanceListener):
    def __init__(self, member):
        self.member = member

    def on_partitions_revoked(self, revoked):
        with self.member.changed:
            self.member.assigned -= {each.partition for each in revoked}

    def on_partitions_assigned(self, assigned):
        with self.member.changed:
            self.member.rebalances += 1
            self.member.assigned |= {each.partition for each in assigned}
            self.member.changed.notify_all()


def rebalances(assignor, **settings):
    topic = filled(5, partitions=4)
    group = topic_name()
    settings |= {"partition_assignment_strategy": [assignor]}
    with closing(Member(group, topic, **settings)) as first:
        first.wait("alone", lambda it: it.assigned == {0, 1, 2, 3} and len(it.records) == 20)
        second = Member(group, topic, **settings)
        with closing(second):
            second.wait("second", lambda it: len(it.assigned) == 2)
            first.wait("first", lambda it: len(it.assigned) == 2)
            # One more rebalance may swap what they have, of which one hears before the other.
            second.wait("both", lambda _: len(first.assigned) == 2 and first.assigned | second.assigned == {0, 1, 2, 3})
        first.wait("alone again", lambda it: it.assigned == {0, 1, 2, 3})


@test(limit_s=30)
def group_eager():
    rebalances(RangePartitionAssignor)


@test(limit_s=30)
def group_eager_round_robin():
    rebalances(RoundRobinPartitionAssignor)


@test(limit_s=30)
def group_cooperative():
    rebalances(CooperativeStickyAssignor)


@test
def group_manual_commit():
    topic = filled(10)
    group = topic_name()
    place = TopicPartition(topic, 0)
    with consumer(topic, group_id=group) as client:
        take(client, 10)
        client.commit({place: OffsetAndMetadata(4, "note ✓", -1)})
        equal(client.committed(place), 4, "committed")
    with consumer(topic, group_id=group) as client:
        equal([each.offset for each in take(client, 6)], [4, 5, 6, 7, 8, 9], "resumed")
        client.commit()
    with administrator() as admin:
        equal(admin.list_group_offsets(group)[group][place].offset, 10, "listed")


@test
def group_automatic_commit():
    topic = filled(10)
    group = topic_name()
    with consumer(topic, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=100) as client:
        take(client, 10)
    send(topic, [b"10"])
    with consumer(topic, group_id=group) as client:
        equal(take(client, 1)[0].offset, 10, "resumed")


@test
def group_static_member():
    """A static member that comes back gets its partitions without a rebalance of the other."""
    topic = filled(5, partitions=2)
    group = topic_name()
    with closing(Member(group, topic, group_instance_id="one")) as first:
        first.wait("first", lambda it: it.assigned == {0, 1})
        with closing(Member(group, topic, group_instance_id="two")) as second:
            second.wait("second", lambda it: len(it.assigned) == 1)
            first.wait("first with second", lambda it: len(it.assigned) == 1)
            before, rebalances = second.assigned, first.rebalances
        with closing(Member(group, topic, group_instance_id="two")) as second:
            second.wait("second again", lambda it: it.assigned == before)
            send(topic, [b"5"], partition=min(first.assigned))
            first.wait("a record", lambda it: len(it.records) >= 6)
            equal(first.rebalances, rebalances, "rebalances of the first")


@test
def group_admin():
    topic = filled(1, partitions=2)
    group = topic_name()
    with administrator() as admin:
        with closing(Member(group, topic, client_id="described")) as member:
            member.wait("alone", lambda it: it.assigned == {0, 1})
            found = admin.describe_groups([group])[group]
            equal((found["group_state"], found["protocol_type"]), ("Stable", "consumer"), "state and type")
            equal([each["client_id"] for each in found["members"]], ["described"], "members")
            listed = {each["group_id"]: each for each in admin.list_groups()}
            equal(listed[group]["group_state"], "Stable", "listed state")
            check(group not in {each["group_id"] for each in admin.list_groups(states_filter=["Empty"])}, "filter")
        equal(admin.describe_groups([group])[group]["group_state"], "Empty", "state without members")
        admin.delete_groups([group])
        check(group not in {each["group_id"] for each in admin.list_groups()}, "the deleted group is listed")


tap.main()
