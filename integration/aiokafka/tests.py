"""aiokafka: the list of README.md, and groups."""

import asyncio
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, OffsetAndMetadata, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.admin.new_partitions import NewPartitions
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import (InvalidConfigurationError, MessageSizeTooLargeError, TopicAlreadyExistsError,
                             UnknownTopicOrPartitionError)

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
import tap
from tap import BOOTSTRAP, check, equal, topic_name

START_MS = 1_700_000_000_000
MAX_MESSAGE_BYTES = 1_048_588  # The broker's default.
FOLLOW_UP_S = 10


def test(function=None, *, name=None, limit_s=20):
    """Declares a coroutine as a test."""

    def declare(function):
        tap.test(lambda: asyncio.run(function()), name=name or function.__name__, limit_s=limit_s)
        return function

    return declare(function) if function else declare


@asynccontextmanager
async def started(client, stop="stop"):
    await client.start()
    try:
        yield client
    finally:
        await getattr(client, stop)()


def administrator():
    return started(AIOKafkaAdminClient(bootstrap_servers=BOOTSTRAP), "close")


def producer(**settings):
    return started(AIOKafkaProducer(bootstrap_servers=BOOTSTRAP, **settings))


def consumer(*topics, **settings):
    defaults = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "fetch_max_wait_ms": 200}
    return started(AIOKafkaConsumer(*topics, bootstrap_servers=BOOTSTRAP, **(defaults | settings)))


def error_codes(answer):
    """The error code of each topic: its place differs between versions of the answer."""
    names = [field.name if hasattr(field, "name") else field for field in answer.SCHEMA.names]
    rows = getattr(answer, names[-1] if isinstance(getattr(answer, names[-1]), list) else "topic_errors")
    return [row[1] for row in rows]


async def created(partitions=1):
    topic = topic_name()
    async with administrator() as admin:
        equal(error_codes(await admin.create_topics([NewTopic(topic, partitions, 1)])), [0], "error of the creation")
    return topic


async def send(topic, values, partition=0, **settings):
    """Produces and waits; gives the metadata of each record."""
    async with producer(**settings) as sender:
        futures = [await sender.send(topic, value, partition=partition, timestamp_ms=START_MS + 1000 * number)
                   for number, value in enumerate(values)]
        return await asyncio.wait_for(asyncio.gather(*futures), FOLLOW_UP_S)


def numbered(count):
    return [b"%d" % number for number in range(count)]


async def filled(count, partitions=1, **settings):
    """A topic with records of one second each in every partition."""
    topic = await created(partitions)
    for partition in range(partitions):
        await send(topic, numbered(count), partition, **settings)
    return topic


async def take(client, count, limit_s=FOLLOW_UP_S):
    records = []
    deadline = time.monotonic() + limit_s
    while len(records) < count:
        check(time.monotonic() < deadline, f"{len(records)} of {count} records after {limit_s} s")
        for batch in (await client.getmany(timeout_ms=500, max_records=count - len(records))).values():
            records.extend(batch)
    return records


async def read(topic, count, offset=0, partition=0, **settings):
    async with consumer(**settings) as client:
        place = TopicPartition(topic, partition)
        client.assign([place])
        client.seek(place, offset)
        records = await take(client, count)
        equal(await client.getmany(timeout_ms=0), {}, "more records than were produced")
        return records


@test
async def create_topic():
    topic = await created(partitions=3)
    async with administrator() as admin:
        check(topic in await admin.list_topics(), "the topic is not listed")
        (found,) = await admin.describe_topics([topic])
        equal(sorted(each["partition"] for each in found["partitions"]), [0, 1, 2], "partitions")
        check(all(each["leader"] >= 0 for each in found["partitions"]), "a partition has no leader")
        again = error_codes(await admin.create_topics([NewTopic(topic, 1, 1)]))
        equal(again, [TopicAlreadyExistsError.errno], "second creation")


@test
async def create_partitions():
    topic = await created()
    async with administrator() as admin:
        equal(error_codes(await admin.create_partitions({topic: NewPartitions(4)})), [0], "error of the creation")
    equal((await send(topic, [b"value"], partition=3))[0].offset, 0, "offset in the newest")
    equal((await read(topic, 1, partition=3))[0].value, b"value")


@test
async def configs():
    topic = await created()
    async with administrator() as admin:

        async def described():
            (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
            (resource,) = answer.resources
            values = {entry[0]: entry[1] for entry in resource[4]}
            return {name: values[name] for name in ("retention.ms", "cleanup.policy")}

        equal(await described(), {"retention.ms": "604800000", "cleanup.policy": "delete"}, "configs of the new topic")

        async def alter(value):
            resource = ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": value})
            (answer,) = await admin.alter_configs([resource])
            return answer.resources[0][0]

        equal(await alter("200000"), 0, "error of the change")
        expected = {"retention.ms": "200000", "cleanup.policy": "delete"}
        deadline = time.monotonic() + FOLLOW_UP_S
        while tap.TARGET != "huld" and await described() != expected and time.monotonic() < deadline:
            await asyncio.sleep(0.02)  # Kafka's broker hears of it from its controller a moment after the answer.
        equal(await described(), expected, "altered configs")
        equal(await alter("soon"), InvalidConfigurationError.errno, "error of a bad value")


@test
async def delete_topic():
    topic = await created()
    async with administrator() as admin:
        equal(error_codes(await admin.delete_topics([topic])), [0], "deletion")
        deadline = time.monotonic() + FOLLOW_UP_S
        while topic in await admin.list_topics():
            check(time.monotonic() < deadline, "the topic is still listed")
        again = error_codes(await admin.delete_topics([topic]))
        equal(again, [UnknownTopicOrPartitionError.errno], "second deletion")


@test
async def usable_after_creation():
    for _ in range(5):
        topic = await created(partitions=3)
        equal((await send(topic, [b"value"], partition=2))[0].offset, 0, "offset")
        equal((await read(topic, 1, partition=2))[0].value, b"value")


@test
async def auto_creation():
    topic = topic_name()
    await send(topic, [b"value"])
    equal((await read(topic, 1))[0].value, b"value")


async def round_trip(codec):
    topic = await created()
    sent = [
        (b"key", b"value", [("h", b"1"), ("h", b"2"), ("n", None), ("e", b"")]),
        (None, b"no key", []),
        (b"", b"", [("", b"empty name")]),
        (b"no value", None, [("h", b"\x00\xff" * 100)]),
        ("snö".encode(), b"long " * 20_000, [("unicode ✓", "✓".encode())]),
    ] + [(b"k%d" % number, b"value %d " % number * 10, [("n", b"%d" % number)]) for number in range(300)]
    async with producer(compression_type=None if codec == "none" else codec, linger_ms=50) as sender:
        futures = [await sender.send(topic, value, key=key, headers=headers, partition=0,
                                     timestamp_ms=START_MS + number * 7)
                   for number, (key, value, headers) in enumerate(sent)]
        reports = await asyncio.wait_for(asyncio.gather(*futures), FOLLOW_UP_S)
    equal([each.offset for each in reports], list(range(len(sent))), "offsets produced")
    got = await read(topic, len(sent))
    equal([each.offset for each in got], list(range(len(sent))), "offsets read")
    for number, (record, (key, value, headers)) in enumerate(zip(got, sent)):
        equal(record.key, key, f"key {number}")
        equal(record.value, value, f"value {number}")
        equal(list(record.headers), headers, f"headers {number}")
        equal(record.timestamp, START_MS + number * 7, f"timestamp {number}")
    check(codec in raw.codecs_of(BOOTSTRAP, topic), f"nothing is stored with {codec}")


for each in raw.CODECS.values():
    test(lambda codec=each: round_trip(codec), name=f"round_trip_{each}")


async def acks(setting):
    topic = await created()
    reports = await send(topic, numbered(100), acks=setting)
    if setting != 0:
        equal([each.offset for each in reports], list(range(100)), "offsets")
    equal([each.value for each in await read(topic, 100)], numbered(100))


for name, setting in {"0": 0, "1": 1, "all": "all"}.items():
    test(lambda setting=setting: acks(setting), name=f"acks_{name}")


@test
async def idempotence():
    topic = await created(partitions=2)
    async with producer(enable_idempotence=True, max_batch_size=200) as sender:
        futures = [await sender.send(topic, b"%d" % number, partition=number % 2) for number in range(1000)]
        await asyncio.wait_for(asyncio.gather(*futures), FOLLOW_UP_S)
    for partition in (0, 1):
        values = [int(each.value) for each in await read(topic, 500, partition=partition)]
        equal(values, list(range(partition, 1000, 2)), f"partition {partition}")


@test
async def offsets_for_times():
    topic = await filled(10, compression_type="zstd", linger_ms=50)
    place = TopicPartition(topic, 0)
    async with consumer() as client:
        for timestamp, expected in [(0, 0), (START_MS, 0), (START_MS + 1, 1), (START_MS + 4_999, 5),
                                    (START_MS + 9_000, 9)]:
            found = (await client.offsets_for_times({place: timestamp}))[place]
            equal(found.offset, expected, f"offset for {timestamp - START_MS} ms after the start")
            equal(found.timestamp, START_MS + 1000 * expected, "its timestamp")
        equal((await client.offsets_for_times({place: START_MS + 9_001}))[place], None, "after the last")
        equal(await client.beginning_offsets([place]), {place: 0}, "beginning")
        equal(await client.end_offsets([place]), {place: 10}, "end")


@test
async def seek():
    topic = await filled(100)
    place = TopicPartition(topic, 0)
    async with consumer() as client:
        client.assign([place])
        for offset in (50, 3, 99):
            client.seek(place, offset)
            equal((await take(client, 1))[0].offset, offset, f"after a seek to {offset}")
        await client.seek_to_beginning(place)
        equal((await take(client, 1))[0].offset, 0, "at the beginning")
        await client.seek_to_end(place)
        equal(await client.getmany(timeout_ms=400), {}, "after the end")
        await send(topic, [b"100"])
        equal((await take(client, 1))[0].offset, 100, "at the end")


@test
async def delete_records():
    topic = await filled(100)
    place = TopicPartition(topic, 0)
    async with administrator() as admin:
        equal(await admin.delete_records({place: RecordsToDelete(50)}), {place: 50}, "low watermark")
    async with consumer() as client:
        equal(await client.beginning_offsets([place]), {place: 50}, "beginning")
    equal((await read(topic, 50, offset=10))[0].offset, 50, "first offset after a reset from a deleted one")


@asynccontextmanager
async def long_poller(max_wait_ms):
    """A consumer of a new topic that asks for 100,000 bytes, and how long its fetches take, in seconds."""
    topic = await created()
    place = TopicPartition(topic, 0)
    times = []
    async with consumer(fetch_min_bytes=100_000, fetch_max_wait_ms=max_wait_ms) as client:
        send_request = client._client.send

        async def timed(node, request, **rest):
            began = time.monotonic()
            answer = await send_request(node, request, **rest)
            if "Fetch" in type(request).__name__:
                times.append(time.monotonic() - began)
            return answer

        client._client.send = timed
        client.assign([place])
        client.seek(place, 0)
        yield topic, client, times


@test
async def long_poll_idle():
    async with long_poller(700) as (_, client, times):
        deadline = time.monotonic() + FOLLOW_UP_S
        while len(times) < 3:
            check(time.monotonic() < deadline, f"{len(times)} of 3 fetches answered")
            equal(await client.getmany(timeout_ms=100), {}, "records")
        for seconds in times:
            tap.check_long_poll(seconds, 0.7)


@test
async def long_poll_wakes():
    async with long_poller(15_000) as (topic, client, _):
        equal(await client.getmany(timeout_ms=300), {}, "records")
        began = time.monotonic()
        await send(topic, [b"x" * 60_000] * 2)
        equal(len(await take(client, 2)), 2)
        elapsed = time.monotonic() - began
        check(elapsed < 2, f"woke after {elapsed:.2f} s")


@test
async def large_message():
    topic = await created()
    value = bytes(MAX_MESSAGE_BYTES - 100)
    await send(topic, [value], max_request_size=2_000_000)
    equal(len((await read(topic, 1))[0].value), len(value), "bytes read")


@test
async def message_too_large():
    topic = await created()
    async with producer(max_request_size=2_000_000) as sender:
        try:
            await asyncio.wait_for(sender.send_and_wait(topic, bytes(MAX_MESSAGE_BYTES + 1), partition=0), FOLLOW_UP_S)
        except MessageSizeTooLargeError:
            pass
        else:
            raise AssertionError("the record was accepted")
        equal((await sender.send_and_wait(topic, b"next", partition=0)).offset, 0, "offset of the next record")


class Member(ConsumerRebalanceListener):
    """A group member that consumes in a task of its own until it is closed."""

    def __init__(self, group, topic, **settings):
        defaults = {"group_id": group, "heartbeat_interval_ms": 100, "session_timeout_ms": 10_000}
        self.topic = topic
        self.settings = defaults | settings
        self.records = []
        self.assigned = set()
        self.changed = asyncio.Condition()

    async def __aenter__(self):
        self.task = asyncio.create_task(self.consume())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.wait([self.task], timeout=FOLLOW_UP_S)
        check(self.task.done(), "the member did not leave")

    async def consume(self):
        async with consumer(**self.settings) as client:
            client.subscribe([self.topic], listener=self)
            async for record in client:
                async with self.changed:
                    self.records.append(record)
                    self.changed.notify_all()

    async def on_partitions_revoked(self, revoked):
        self.assigned -= {each.partition for each in revoked}

    async def on_partitions_assigned(self, assigned):
        async with self.changed:
            self.assigned |= {each.partition for each in assigned}
            self.changed.notify_all()

    async def wait(self, what, holds):
        async def until():
            async with self.changed:
                await self.changed.wait_for(lambda: holds(self))

        try:
            await asyncio.wait_for(until(), FOLLOW_UP_S)
        except TimeoutError:
            if self.task.done():
                self.task.result()
            raise AssertionError(f"{what}: has {sorted(self.assigned)} and {len(self.records)} records") from None


async def rebalances(assignor):
    topic = await filled(5, partitions=4)
    group = topic_name()
    settings = {"partition_assignment_strategy": [assignor]}
    async with Member(group, topic, **settings) as first:
        await first.wait("alone", lambda it: it.assigned == {0, 1, 2, 3} and len(it.records) == 20)
        async with Member(group, topic, **settings) as second:
            await second.wait("second", lambda it: len(it.assigned) == 2)
            await first.wait("first", lambda it: len(it.assigned) == 2)
            equal(first.assigned | second.assigned, {0, 1, 2, 3}, "assigned to both")
        await first.wait("alone again", lambda it: it.assigned == {0, 1, 2, 3})


for name, assignor in {"group_eager": RangePartitionAssignor, "group_eager_round_robin": RoundRobinPartitionAssignor,
                       "group_eager_sticky": StickyPartitionAssignor}.items():
    test(lambda assignor=assignor: rebalances(assignor), name=name, limit_s=30)


@test
async def group_manual_commit():
    topic = await filled(10)
    group = topic_name()
    place = TopicPartition(topic, 0)
    async with consumer(topic, group_id=group) as client:
        await take(client, 10)
        await client.commit({place: OffsetAndMetadata(4, "note ✓")})
        equal(await client.committed(place), 4, "committed")
    async with consumer(topic, group_id=group) as client:
        equal([each.offset for each in await take(client, 6)], [4, 5, 6, 7, 8, 9], "resumed")
        await client.commit()
    async with administrator() as admin:
        equal((await admin.list_consumer_group_offsets(group))[place].offset, 10, "listed")


@test
async def group_automatic_commit():
    topic = await filled(10)
    group = topic_name()
    async with consumer(topic, group_id=group, enable_auto_commit=True, auto_commit_interval_ms=100) as client:
        await take(client, 10)
    await send(topic, [b"10"])
    async with consumer(topic, group_id=group) as client:
        equal((await take(client, 1))[0].offset, 10, "resumed")


@test
async def group_static_member():
    """A static member that comes back gets its partitions without a rebalance of the other."""
    topic = await filled(5, partitions=2)
    group = topic_name()
    async with Member(group, topic, group_instance_id="one") as first:
        await first.wait("first", lambda it: it.assigned == {0, 1})
        async with Member(group, topic, group_instance_id="two") as second:
            await second.wait("second", lambda it: len(it.assigned) == 1)
            await first.wait("first with second", lambda it: len(it.assigned) == 1)
            before = second.assigned
        async with Member(group, topic, group_instance_id="two") as second:
            await second.wait("second again", lambda it: it.assigned == before)


@test
async def group_admin():
    topic = await filled(1, partitions=2)
    group = topic_name()

    async def described():
        (answer,) = await admin.describe_consumer_groups([group])
        (found,) = answer.groups
        return found

    async with administrator() as admin:
        async with Member(group, topic, client_id="described") as member:
            await member.wait("alone", lambda it: it.assigned == {0, 1})
            error, name, state, kind, protocol, members, *_ = await described()
            equal((error, name, state, kind, protocol), (0, group, "Stable", "consumer", "roundrobin"), "description")
            equal(len(members), 1, "members")
            check(group in [each[0] for each in await admin.list_consumer_groups()], "the group is not listed")
        equal((await described())[2], "Empty", "state without members")


tap.main()
