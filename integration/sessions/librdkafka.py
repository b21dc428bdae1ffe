"""A short walk through what confluent-kafka-python does, to be recorded by integration/record. It is not a test."""

import os

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

TOPIC = "session-librdkafka"
TIMESTAMP_MS = 1_700_000_000_000
SETTINGS = {"bootstrap.servers": os.environ["HULD_BOOTSTRAP"], "client.id": "session"}


def send(**settings):
    producer = Producer(SETTINGS | {key.replace("_", "."): value for key, value in settings.items()})
    producer.produce(TOPIC, b"value value value value", b"key", 0, timestamp=TIMESTAMP_MS, headers=[("h", b"1"), ("h", None)])
    producer.produce(TOPIC, b"", None, 0, timestamp=TIMESTAMP_MS + 1)
    producer.produce(TOPIC, None, b"", 1, timestamp=TIMESTAMP_MS + 2)
    assert producer.flush(20) == 0


def main():
    admin = AdminClient(SETTINGS)
    admin.create_topics([NewTopic(TOPIC, 2, 1, config={"retention.ms": "3600000"})])[TOPIC].result(20)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        send(compression_type=codec)
    send(enable_idempotence=True)
    send(acks=0)
    consumer = Consumer(SETTINGS | {"group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 200})
    zero, one = TopicPartition(TOPIC, 0, 0), TopicPartition(TOPIC, 1, 0)
    consumer.assign([zero, one])
    read = 0
    while read < 21:
        read += len(consumer.consume(21, 1))
    consumer.poll(0.5)
    consumer.offsets_for_times([TopicPartition(TOPIC, 0, TIMESTAMP_MS + 1)], 20)
    consumer.get_watermark_offsets(zero, 20)
    consumer.close()
    admin.list_offsets({zero: OffsetSpec.max_timestamp()})[zero].result(20)
    admin.create_partitions([NewPartitions(TOPIC, 3)])[TOPIC].result(20)
    admin.delete_records([TopicPartition(TOPIC, 0, 2)])[zero].result(20)
    admin.describe_cluster().result(20)
    admin.delete_topics([TOPIC])[TOPIC].result(20)


main()
