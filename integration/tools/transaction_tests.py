"""Transactions, as administrators see them."""

from launch import created, running, tool, wait_until
from tap import BOOTSTRAP, check, equal, test, topic_name


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
    tool("transactions", "abort", *place, "--start-offset", "0")
    (words,) = transactions("describe-producers", *place)
    equal(words[-1], "None", "start of the transaction once it is aborted")
