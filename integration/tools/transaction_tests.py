"""Transactions, as administrators see them."""

import os
import re

from launch import created, running, tool, wait_until
from tap import BOOTSTRAP, TARGET, Skip, check, equal, test, topic_name


def transactions(*arguments):
    """The table that the tool prints, without its head: the words of each line."""
    return [line.split() for line in tool("transactions", *arguments).splitlines()[1:]]


def listed(transactional_id):
    """Coordinator, producer id and state in the list, or nothing."""
    return next((tuple(words[1:]) for words in transactions("list") if words[0] == transactional_id), ())


@test(limit_s=300)
def transactions_tool():
    """A transaction that a producer keeps open: listed, described, found in its partition, and aborted there."""
    topic, transactional_id = created(), topic_name()
    place = ("--topic", topic, "--partition", "0")
    with running("producer-perf-test", "--topic", topic, "--num-records", "1000", "--record-size", "10", "--throughput", "1",
                 "--transactional-id", transactional_id, "--transaction-duration-ms", "600000", "--producer-props",
                 f"bootstrap.servers={BOOTSTRAP}", bootstrap=()):
        wait_until(lambda: listed(transactional_id)[-1:] == ("Ongoing",), "no open transaction is listed", limit_s=60)
        coordinator, producer_id, _ = listed(transactional_id)
        (words,) = transactions("describe", "--transactional-id", transactional_id)
        equal((words[0], words[1], words[2], words[4]), (coordinator, transactional_id, producer_id, "Ongoing"), "description")
        check(f"{topic}-0" in words, f"the partition is not described: {words}")
        epoch = words[3]
        (words,) = transactions("describe-producers", *place)
        equal((words[0], words[1], words[-1]), (producer_id, epoch, "0"), "producer id, epoch and start of the transaction")
        equal(transactions("find-hanging", *place), [], "transactions that hang")
        # Of all that a broker has, be it the leader or not.
        equal(transactions("find-hanging", "--broker-id", coordinator), [], "transactions that hang on the coordinator")
    tool("transactions", "abort", *place, "--start-offset", "0")
    (words,) = transactions("describe-producers", *place)
    equal(words[-1], "None", "start of the transaction once it is aborted")


def level():
    """The level that transaction.version has."""
    found = re.search(r"transaction\.version\s.*FinalizedVersionLevel: (\d)", tool("features", "describe"))
    check(found is not None, "no transaction.version among the features")
    return int(found[1])


def sent(topic, transactional_id, count):
    output = tool("producer-perf-test", "--topic", topic, "--num-records", str(count), "--record-size", "10", "--throughput", "-1",
                  "--transactional-id", transactional_id, "--transaction-duration-ms", "20", "--producer-props",
                  f"bootstrap.servers={BOOTSTRAP}", bootstrap=())
    last = output.splitlines()[-1]
    check(last.startswith(f"{count} records sent"), f"producer-perf-test printed {last}")


@test(limit_s=600)
def transaction_versions():
    """transaction.version goes down and up, and producers go by what it is."""
    if TARGET != "huld" and "HULD_CONTROL" not in os.environ:
        raise Skip("the broker is shared, and what others do in transactions must not change")
    topic, used = created(), topic_name()
    equal(level(), 2, "the level to begin with")
    try:
        for command, wanted in (("downgrade", 1), ("downgrade", 0), ("upgrade", 1), ("upgrade", 2)):
            output = tool("features", command, "--feature", f"transaction.version={wanted}")
            check(f"transaction.version was {command}d to {wanted}." in output, f"features printed {output}")
            equal(level(), wanted, f"the level after the {command}")
            sent(topic, topic_name(), 200)
            sent(topic, used, 200)
            (words,) = transactions("describe", "--transactional-id", used)
            equal(words[4], "CompleteCommit", f"state at level {wanted}")
    finally:
        tool("features", "upgrade", "--feature", "transaction.version=2", may_fail=True)
    output = tool("console-consumer", "--topic", topic, "--from-beginning", "--isolation-level", "read_committed",
                  "--max-messages", "1600")
    equal(len(output.splitlines()), 1600, "records that are committed")
