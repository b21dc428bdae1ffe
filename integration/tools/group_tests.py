"""Consumer groups, and what __consumer_offsets says of them."""

import re
import tempfile
from pathlib import Path

import raw
from launch import filled, refused, running, tool
from running import json_value
from tap import BOOTSTRAP, check, equal, test, topic_name


def consume_in(group, topic, count):
    return tool("console-consumer", "--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count),
                "--timeout-ms", "60000").splitlines()


def groups(*arguments, **options):
    return tool("consumer-groups", *arguments, **options)


def described(group):
    """What the tool describes: {(topic, partition): (committed, end, lag)}."""
    lines = [line.split() for line in groups("--describe", "--group", group).splitlines()]
    return {(words[1], int(words[2])): tuple(words[3:6]) for words in lines if words and words[0] == group}


def row(output, first):
    """The words of the table's line that begins with this word."""
    found = [line.split() for line in output.splitlines() if line.split()[:1] == [first]]
    equal(len(found), 1, f"lines for {first} in {output}")
    return found[0]


@test(limit_s=300)
def console_consumer_group():
    topic, group = filled(10), topic_name()
    equal(consume_in(group, topic, 4), ["0", "1", "2", "3"], "first records")
    equal(consume_in(group, topic, 6), ["4", "5", "6", "7", "8", "9"], "records after resuming")


@test(limit_s=300)
def consumer_groups_of_the_empty():
    """A group whose member has left: listed, described, its offsets reset in every way, resumed."""
    topic, group = filled(10), topic_name()
    equal(len(consume_in(group, topic, 4)), 4, "records")
    check(group in groups("--list").splitlines(), "the group is not listed")
    equal(row(groups("--list", "--state"), group)[-1], "Empty", "state in the list")
    equal(described(group), {(topic, 0): ("4", "10", "6")}, "description")

    def reset(*how, execute=True):
        output = groups("--reset-offsets", "--group", group, "--topic", topic, *how, "--execute" if execute else "--dry-run")
        return row(output, group)[1:]

    equal(reset("--to-offset", "2", execute=False), [topic, "0", "2"], "dry run")
    equal(described(group), {(topic, 0): ("4", "10", "6")}, "description after the dry run")
    for how, offset in [(("--to-latest",), "10"), (("--to-earliest",), "0"), (("--shift-by", "3"), "3"),
                        (("--to-datetime", "2023-11-14T00:00:00.000"), "0"), (("--to-current",), "0"),
                        (("--to-offset", "8"), "8")]:
        equal(reset(*how), [topic, "0", offset], f"reset {' '.join(how)}")
    equal(described(group), {(topic, 0): ("8", "10", "2")}, "description after the resets")
    equal(consume_in(group, topic, 2), ["8", "9"], "records after the reset")


@test(limit_s=300)
def consumer_groups_of_the_living():
    """A group with a member: described with all its parts; nobody may reset or delete under it."""
    topic, group = filled(10), topic_name()
    with running("console-consumer", "--topic", topic, "--group", group, "--from-beginning",
                 "--consumer-property", "client.id=its-name") as member:
        member.until("the last record", lambda line: line == "9")
        words = row(groups("--describe", "--group", group, "--members", "--verbose"), group)
        check(words[1].startswith("its-name-") and words[2] == "/127.0.0.1" and words[3] == "its-name", f"member {words}")
        equal(words[4], "1", "partitions of the member")
        words = row(groups("--describe", "--group", group, "--state"), group)
        equal((words[-3:]), ["range", "Stable", "1"], "strategy, state and members")
        (place, (_, end, _)), = described(group).items()
        equal((place, end), ((topic, 0), "10"), "description")
        output = refused("consumer-groups", "--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute")
        check("current state is Stable" in output, f"reset-offsets printed {output}")
        output = refused("consumer-groups", "--delete", "--group", group)
        check("GroupNotEmptyException" in output, f"delete printed {output}")
        output = refused("consumer-groups", "--delete-offsets", "--group", group, "--topic", topic)
        check("GroupSubscribedToTopicException" in output or "actively subscribed" in output, f"delete-offsets printed {output}")
        member.stop()
    # It has committed and left when it was stopped.
    equal(row(groups("--describe", "--group", group, "--state"), group)[-2:], ["Empty", "0"], "state and members")
    equal(described(group), {(topic, 0): ("10", "10", "0")}, "description at the end")


@test(limit_s=300)
def delete_groups_and_offsets():
    topic, group = filled(10), topic_name()
    consume_in(group, topic, 4)
    output = groups("--delete-offsets", "--group", group, "--topic", topic)
    check(re.search(rf"{topic}\s+0\s+Successful", output) is not None, f"delete-offsets printed {output}")
    equal(described(group), {}, "offsets after they were deleted")
    consume_in(group, topic, 4)
    output = groups("--delete", "--group", group)
    check("was successful" in output, f"delete printed {output}")
    check(group not in groups("--list").splitlines(), "the group is still listed")


@test(limit_s=180)
def groups_tool():
    topic, group = filled(1), topic_name()
    consume_in(group, topic, 1)
    equal(row(tool("groups", "--list"), group)[1:], ["Classic", "consumer"], "type and protocol")
    check(group in tool("groups", "--list", "--consumer"), "not listed among consumers")
    check(group not in tool("groups", "--list", "--group-type", "share"), "listed among share groups")


@test(limit_s=300)
def groups_of_both_protocols():
    """kafka-groups lists them by their kind, kafka-consumer-groups describes and deletes them alike."""
    topic, old, young = filled(4), topic_name(), topic_name()
    consume_in(old, topic, 4)
    with running("console-consumer", "--topic", topic, "--group", young, "--from-beginning",
                 "--consumer-property", "group.protocol=consumer") as member:
        member.until("the last record", lambda line: line == "3")
        words = row(groups("--describe", "--group", young, "--state"), young)
        equal(words[-3:], ["uniform", "Stable", "1"], "strategy, state and members")
        (place, (_, end, _)), = described(young).items()
        equal((place, end), ((topic, 0), "4"), "description")
        output = refused("consumer-groups", "--delete", "--group", young)
        check("GroupNotEmptyException" in output, f"delete printed {output}")
        member.stop()
    listed = tool("groups", "--list")
    equal(row(listed, old)[1:], ["Classic", "consumer"], "type and protocol of the old one")
    equal(row(listed, young)[1:], ["Consumer", "consumer"], "type and protocol of the new one")
    listed = tool("groups", "--list", "--group-type", "consumer")
    equal([old in listed, young in listed], [False, True], "groups of the new protocol")
    equal(described(young), {(topic, 0): ("4", "4", "0")}, "offsets of the new one")
    for group in (old, young):
        check("was successful" in groups("--delete", "--group", group), f"delete {group}")
    left = tool("groups", "--list")
    equal([old in left, young in left], [False, False], "groups that are left")


def offsets_partition(group):
    """The partition of __consumer_offsets that keeps a group: Java's hash code of its name decides."""
    value = 0
    for unit in group.encode("utf-16-be")[1::2]:  # Names here are ASCII.
        value = (31 * value + unit) & 0xFFFFFFFF
    # Kafka takes the sign bit off, which Java's abs doesn't do for the smallest number.
    signed = value - (1 << 32) if value >> 31 else value
    positive = 0 if signed == -(1 << 31) else abs(signed)
    with raw.Connection(BOOTSTRAP) as connection:
        return positive % len(connection.metadata("__consumer_offsets")[1])


def read_internal(group, formatter, wanted):
    """What the console consumer prints of the group's partition, until a line is wanted."""
    with running("console-consumer", "--topic", "__consumer_offsets", "--partition", str(offsets_partition(group)),
                 "--offset", "earliest", "--formatter", f"org.apache.kafka.tools.consumer.{formatter}") as reader:

        def of_group(record):
            return record if record["key"]["data"]["group"] == group and wanted(record) else None

        # The formatter prints one value after the other, and ends no line.
        return reader.until(f"a record of {group}", of_group, piece=json_value)


@test(limit_s=180)
def offsets_formatter():
    topic, group = filled(10), topic_name()
    consume_in(group, topic, 4)
    record = read_internal(group, "OffsetsMessageFormatter", lambda record: True)
    equal(record["key"], {"type": 1, "data": {"group": group, "topic": topic, "partition": 0}}, "key")
    data = record["value"]["data"]
    equal((data["offset"], data["metadata"]), (4, ""), "offset and metadata")
    record = read_internal(group, "GroupMetadataMessageFormatter", lambda record: record["value"]["data"]["members"])
    equal(record["key"], {"type": 2, "data": {"group": group}}, "key of the group")
    data = record["value"]["data"]
    equal((data["protocolType"], data["protocol"], len(data["members"])), ("consumer", "range", 1), "group")


@test(limit_s=180)
def dump_of_consumer_offsets():
    """The bytes of the partition, as they come from a fetch, are a segment that Kafka's dump tool reads."""
    topic, group = filled(10), topic_name()
    consume_in(group, topic, 4)
    with raw.Connection(BOOTSTRAP) as connection, tempfile.TemporaryDirectory() as folder:
        partition = offsets_partition(group)
        (_, offset) = connection.list_offset("__consumer_offsets", partition, -2)
        error, _, records = connection.fetch("__consumer_offsets", partition, offset)
        equal(error, 0, "error of the fetch")
        segment = Path(folder) / f"{offset:020}.log"
        segment.write_bytes(records)
        output = tool("dump-log", "--files", str(segment), "--offsets-decoder", "--deep-iteration", bootstrap=())
    check("isvalid: false" not in output and "Found" not in output, f"the dump complains: {output}")
    lines = [line for line in output.splitlines() if group in line]
    commits = [line for line in lines if f'"topic":"{topic}"' in line and '"offset":4' in line]
    equal(len(commits), 1, f"lines of the commit in {lines}")
    check(any('"protocolType":"consumer"' in line for line in lines), f"no metadata of the group in {lines}")
