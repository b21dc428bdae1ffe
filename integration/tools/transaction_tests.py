"""Transactions, as administrators see them."""

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
from launch import created, tool
from raw import string
from tap import BOOTSTRAP, check, equal, test, topic_name

FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS = 10, 22, 24
CONCURRENT_TRANSACTIONS, RETRIABLE = 51, (14, 15, 16, 51)


def opened(connection, topic):
    """The transactional id, producer id and epoch of a transaction that is open in a partition."""
    transactional_id = topic_name()
    while True:
        connection.call(FIND_COORDINATOR, 1, string(transactional_id) + struct.pack(">b", 1))
        reader = connection.call(INIT_PRODUCER_ID, 1, string(transactional_id) + struct.pack(">i", 600_000))
        reader.int32()
        error, producer = reader.int16(), (reader.int64(), reader.int16())
        if error not in RETRIABLE:
            break
    equal(error, 0, "error of InitProducerId")
    body = string(transactional_id) + struct.pack(">qh", *producer) + struct.pack(">i", 1) + string(topic)
    reader = connection.call(ADD_PARTITIONS, 1, body + struct.pack(">ii", 1, 0))
    reader.int32()
    errors = reader.array(lambda: (reader.string(), reader.array(lambda: (reader.int32(), reader.int16()))))
    equal(errors, [(topic, [(0, 0)])], "answer to AddPartitionsToTxn")
    return transactional_id, *producer


@test(limit_s=300)
def transactions_tool():
    topic = created()
    with raw.Connection(BOOTSTRAP) as connection:
        transactional_id, producer_id, epoch = opened(connection, topic)
        lines = [line.split() for line in tool("transactions", "list").splitlines()]
        row = next((line for line in lines if line and line[0] == transactional_id), None)
        check(row is not None, f"the transaction is not listed: {lines}")
        equal((row[2], row[3]), (str(producer_id), "Ongoing"), "producer and state in the list")
        output = tool("transactions", "describe", "--transactional-id", transactional_id)
        row = output.splitlines()[-1].split()
        equal(row[1:5], [transactional_id, str(producer_id), str(epoch), "Ongoing"], "description")
        check(f"{topic}-0" in row, f"the partition is not described: {output}")
        output = tool("transactions", "describe-producers", "--topic", topic, "--partition", "0")
        check("ProducerId" in output, f"describe-producers printed {output}")
