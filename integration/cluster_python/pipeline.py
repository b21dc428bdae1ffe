"""A program that reads values from one topic as a member of a group, and writes each, with "!" after it, to the same
partition of another topic: a batch is a transaction, with the offsets in it.

    pipeline.py BOOTSTRAP FROM TO GROUP TRANSACTIONAL-ID [SETTING=VALUE…]

The settings are those of the member that reads. It prints `owns N` whenever it has other partitions. A line on standard input names a step: the next transaction that comes to it
prints `at STEP`, and waits for another line. The end of standard input ends the program in good order. What librdkafka says
is to be tried again or to be aborted is; whatever else it says ends the program.
"""

import queue
import sys
import threading

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

PATIENCE_S = 20
BATCH = 10


class Steps:
    """What standard input asks for."""

    def __init__(self):
        self.lines = queue.Queue()
        self.wanted = None
        self.is_at_end = False
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in sys.stdin:
            self.lines.put(line.strip())
        self.is_at_end = True
        self.lines.put("")

    def reached(self, step):
        if self.wanted is None and not self.lines.empty():
            self.wanted = self.lines.get()
        if self.wanted == step:
            print("at", step, flush=True)
            self.lines.get()
            self.wanted = None


def retried(action, *arguments):
    while True:
        try:
            return action(*arguments, PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


class Pipeline:
    def __init__(self, bootstrap, source, target, group, transactional_id, settings):
        self.target = target
        quick = {"bootstrap.servers": bootstrap, "socket.timeout.ms": 5000, "topic.metadata.refresh.interval.ms": 1000}
        self.consumer = Consumer(quick | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False,
                                          "isolation.level": "read_committed"} | settings)
        self.producer = Producer(quick | {"transactional.id": transactional_id, "linger.ms": 0, "retry.backoff.ms": 50})
        retried(self.producer.init_transactions)
        self.consumer.subscribe([source])

    def transform(self, messages, steps):
        try:
            self.producer.begin_transaction()
            steps.reached("begun")
            offsets = {}
            for message in messages:
                self.producer.produce(self.target, value=message.value() + b"!", partition=message.partition())
                place = (message.topic(), message.partition())
                offsets[place] = TopicPartition(*place, message.offset() + 1)
            self.producer.flush(PATIENCE_S)
            steps.reached("sent")
            retried(self.producer.send_offsets_to_transaction, list(offsets.values()), self.consumer.consumer_group_metadata())
            steps.reached("offsets-sent")
            retried(self.producer.commit_transaction)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            print("aborts after", error, file=sys.stderr, flush=True)
            retried(self.producer.abort_transaction)
            self.rewind()

    def rewind(self):
        for partition in retried(self.consumer.committed, self.consumer.assignment()):
            partition.offset = partition.offset if partition.offset >= 0 else OFFSET_BEGINNING
            self.consumer.seek(partition)

    def work(self, steps):
        owned = 0
        while not steps.is_at_end:
            if owned != len(self.consumer.assignment()):
                owned = len(self.consumer.assignment())
                print("owns", owned, flush=True)
            messages = [one for one in self.consumer.consume(BATCH, 0.1) if one.error() is None]
            if messages:
                self.transform(messages, steps)
        self.consumer.close()


if __name__ == "__main__":
    member = dict(setting.split("=", 1) for setting in sys.argv[6:])
    Pipeline(*sys.argv[1:6], member).work(Steps())
