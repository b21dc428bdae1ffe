import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidTimestampException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;

/** What producers send is what consumers read. */
final class ProducerTests {
  private final Broker broker;

  private ProducerTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker) {
    ProducerTests tests = new ProducerTests(broker);
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      suite.test("round_trip_" + codec, () -> tests.roundTrip(codec));
    }
    suite.test("acks_0", () -> tests.acks("0", -1));
    suite.test("acks_1", () -> tests.acks("1", 0));
    suite.test("acks_all", () -> tests.acks("all", 0));
    suite.test("min_insync_replicas", tests::minInsyncReplicas);
    suite.test("idempotence", tests::idempotence);
    suite.test("idempotence_over_lost_answers", tests::idempotenceOverLostAnswers);
    suite.test("large_message", tests::largeMessage);
    suite.test("message_too_large", tests::messageTooLarge);
    suite.test("batch_too_large_is_split", tests::batchTooLargeIsSplit);
    suite.test("invalid_timestamp", tests::invalidTimestamp);
    suite.test("compacted_topic_needs_key", tests::compactedTopicNeedsKey);
    suite.test("log_append_time", tests::logAppendTime);
    suite.test("partitions_for", tests::partitionsFor);
    suite.test("auto_creation", tests::autoCreation);
    suite.test("produce_to_bad_name", tests::produceToBadName);
  }

  /** A mixture of everything a record can hold; in batches of many sizes. */
  private static List<ProducerRecord<byte[], byte[]>> mixture(String topic) {
    Random random = new Random(42);
    long base = System.currentTimeMillis() - 1_000_000;
    List<ProducerRecord<byte[], byte[]>> records = new ArrayList<>();
    for (int i = 0; i < 400; i++) {
      byte[] noise = new byte[random.nextInt(2000)];
      random.nextBytes(noise);
      byte[] key = i % 3 == 0 ? null : i % 3 == 1 ? new byte[0] : ("key-" + i).getBytes(StandardCharsets.UTF_8);
      byte[] value = switch (i % 5) {
        case 0 -> null;
        case 1 -> new byte[0];
        case 2 -> "the same again and again ".repeat(i % 50).getBytes(StandardCharsets.UTF_8);
        default -> noise;
      };
      // Timestamps go up and down.
      ProducerRecord<byte[], byte[]> record =
          new ProducerRecord<>(topic, 0, base + (i * 7919L) % 1000, key, value);
      if (i % 4 != 0) {
        record.headers().add("twice", new byte[] {1, (byte) i}).add("", new byte[0])
            .add("twice", new byte[] {2}).add("null", null).add("twice", new byte[] {1, (byte) i}).add("ключ", noise);
      }
      records.add(record);
    }
    return records;
  }

  private void roundTrip(String codec) throws Exception {
    String topic = broker.topic(1);
    List<ProducerRecord<byte[], byte[]>> sent = mixture(topic);
    try (Producer<byte[], byte[]> producer = broker.producer("compression.type", codec, "linger.ms", "5")) {
      for (int i = 0; i < sent.size(); i++) {
        producer.send(sent.get(i));
        if (i % 97 == 0) {
          producer.flush();
        }
      }
    }
    List<ConsumerRecord<byte[], byte[]>> read = broker.readAll(List.of(new TopicPartition(topic, 0)), sent.size());
    for (int i = 0; i < sent.size(); i++) {
      ProducerRecord<byte[], byte[]> before = sent.get(i);
      ConsumerRecord<byte[], byte[]> after = read.get(i);
      Check.equal("offset", (long) i, after.offset());
      Check.equal("key of " + i, before.key(), after.key());
      Check.equal("value of " + i, before.value(), after.value());
      Check.equal("timestamp of " + i, before.timestamp(), after.timestamp());
      Check.equal("timestamp type of " + i, TimestampType.CREATE_TIME, after.timestampType());
      Check.equal("leader epoch of " + i, 0, after.leaderEpoch().orElse(-1));
      Header[] headers = before.headers().toArray();
      Header[] headersAfter = after.headers().toArray();
      Check.equal("number of headers of " + i, headers.length, headersAfter.length);
      for (int h = 0; h < headers.length; h++) {
        Check.equal("header key", headers[h].key(), headersAfter[h].key());
        Check.equal("header value", headers[h].value(), headersAfter[h].value());
      }
    }
  }

  private void acks(String acks, long firstOffset) throws Exception {
    String topic = broker.topic(1);
    AtomicReference<String> wrong = new AtomicReference<>();
    List<Long> called = new ArrayList<>();
    try (Producer<byte[], byte[]> producer = broker.producer("acks", acks, "enable.idempotence", "false")) {
      for (int i = 0; i < 500; i++) {
        int number = i;
        producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(i).getBytes()), (metadata, failure) -> {
          called.add(metadata.offset());
          long expected = firstOffset < 0 ? -1 : number;
          if (failure != null || metadata.offset() != expected) {
            wrong.compareAndSet(null, "callback " + number + " got " + metadata + ", " + failure);
          }
        });
      }
    }
    Check.equal("callbacks", 500, called.size());
    Check.equal("wrong callback", null, wrong.get());
    inOrder(topic, 1, 500);
  }

  /** Kafka 4 takes min(min.insync.replicas, replicas): one replica is enough on a topic that has one. */
  private void minInsyncReplicas() throws Exception {
    String topic = broker.topic(1, "min.insync.replicas", "2");
    try (Producer<byte[], byte[]> producer = broker.producer("acks", "all")) {
      Check.equal("offset", 0L, producer.send(new ProducerRecord<>(topic, new byte[1])).get().offset());
    }
  }

  private void idempotence() throws Exception {
    String topic = broker.topic(3);
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (Producer<byte[], byte[]> producer = broker.producer("batch.size", "500")) {
      for (int i = 0; i < 6000; i++) {
        sent.add(producer.send(new ProducerRecord<>(topic, i % 3, null, Integer.toString(i / 3).getBytes())));
      }
    }
    for (int i = 0; i < 6000; i++) {
      Check.equal("offset of " + i, (long) i / 3, sent.get(i).get().offset());
    }
    inOrder(topic, 3, 2000);
  }

  /** Every seventh answer is lost with its connection, so the client sends batches again that are in the log already. */
  private void idempotenceOverLostAnswers() throws Exception {
    String topic = broker.topic(1);
    List<Future<RecordMetadata>> sent = new ArrayList<>();
    try (Relay relay = new Relay(broker.bootstrap)) {
      try (Producer<byte[], byte[]> producer = Broker.producerAt(relay.address(), "batch.size", "300",
          "retry.backoff.ms", "5", "reconnect.backoff.ms", "5", "reconnect.backoff.max.ms", "20")) {
        producer.partitionsFor(topic);
        for (int i = 0; i < 2000; i++) {
          sent.add(producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(i).getBytes())));
          if (i == 20) {
            producer.flush();
            relay.loseEveryNthAnswer(7);
          }
        }
        producer.flush();
      }
      Check.that("answers were lost", relay.lost() >= 5);
    }
    for (int i = 0; i < sent.size(); i++) {
      Check.equal("offset of " + i, (long) i, sent.get(i).get().offset());
    }
    inOrder(topic, 1, 2000);
  }

  private void largeMessage() throws Exception {
    String topic = broker.topic(1);
    byte[] value = new byte[1_048_588 - 100];
    new Random(1).nextBytes(value);
    try (Producer<byte[], byte[]> producer = broker.producer("max.request.size", "3000000")) {
      producer.send(new ProducerRecord<>(topic, 0, null, value)).get();
    }
    Check.equal("value", value, broker.readAll(List.of(new TopicPartition(topic, 0)), 1).get(0).value());
  }

  private void messageTooLarge() throws Exception {
    String topic = broker.topic(1);
    try (Producer<byte[], byte[]> producer = broker.producer("max.request.size", "3000000")) {
      Check.fails("2 MB", RecordTooLargeException.class,
          () -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[2_000_000])).get());
      Check.equal("offset of the next", 0L, producer.send(new ProducerRecord<>(topic, 0, null, new byte[10])).get().offset());
    }
    String narrow = broker.topic(1, "max.message.bytes", "1000");
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.fails("1000 bytes and what is around them", RecordTooLargeException.class,
          () -> producer.send(new ProducerRecord<>(narrow, 0, null, new byte[1000])).get());
      producer.send(new ProducerRecord<>(narrow, 0, null, new byte[900])).get();
    }
  }

  /**
   * Told that a batch is too large (code 10), the client cuts it into batches of the size it is set to. Such a batch
   * arises when records suddenly compress worse than those before.
   */
  private void batchTooLargeIsSplit() throws Exception {
    String topic = broker.topic(1, "max.message.bytes", "10000");
    Random random = new Random(3);
    int count = 2000;
    try (Producer<byte[], byte[]> producer =
        broker.producer("batch.size", "8000", "compression.type", "gzip", "linger.ms", "20")) {
      for (int i = 0; i < count; i++) {
        ByteBuffer value = ByteBuffer.allocate(1000);
        if (i >= count / 2) {
          random.nextBytes(value.array());
        }
        producer.send(new ProducerRecord<>(topic, 0, null, value.putInt(0, i).array()));
        if (i < count / 2 && i % 5 == 0) {
          producer.flush();
        }
      }
      producer.flush();
      double splits = producer.metrics().entrySet().stream()
          .filter(metric -> metric.getKey().name().equals("batch-split-total"))
          .mapToDouble(metric -> (Double) metric.getValue().metricValue()).sum();
      Check.that("batches were split", splits >= 1);
    }
    List<ConsumerRecord<byte[], byte[]>> records = broker.readAll(List.of(new TopicPartition(topic, 0)), count);
    for (int i = 0; i < count; i++) {
      Check.equal("order", i, ByteBuffer.wrap(records.get(i).value()).getInt());
    }
  }

  private void invalidTimestamp() throws Exception {
    String topic = broker.topic(1);
    String narrow = broker.topic(1, "message.timestamp.before.max.ms", "1000");
    long now = System.currentTimeMillis();
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.fails("two hours ahead", InvalidTimestampException.class,
          () -> producer.send(new ProducerRecord<>(topic, 0, now + 7_200_000, null, new byte[1])).get());
      producer.send(new ProducerRecord<>(topic, 0, now + 1_800_000, null, new byte[1])).get();
      producer.send(new ProducerRecord<>(topic, 0, 0L, null, new byte[1])).get();
      Check.fails("an hour old", InvalidTimestampException.class,
          () -> producer.send(new ProducerRecord<>(narrow, 0, now - 3_600_000, null, new byte[1])).get());
    }
  }

  private void compactedTopicNeedsKey() throws Exception {
    String topic = broker.topic(1, "cleanup.policy", "compact");
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.fails("no key", InvalidRecordException.class,
          () -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[1])).get());
      Check.equal("offset of the next", 0L,
          producer.send(new ProducerRecord<>(topic, 0, new byte[1], new byte[1])).get().offset());
    }
  }

  private void logAppendTime() throws Exception {
    String topic = broker.topic(1, "message.timestamp.type", "LogAppendTime");
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      long before = System.currentTimeMillis() - 1000;
      try (Producer<byte[], byte[]> producer = broker.producer("compression.type", codec)) {
        RecordMetadata metadata = producer.send(new ProducerRecord<>(topic, 0, 1_000_000L, null, codec.getBytes())).get();
        Check.between("answered timestamp, " + codec, before, System.currentTimeMillis() + 1000, metadata.timestamp());
      }
    }
    for (ConsumerRecord<byte[], byte[]> record : broker.readAll(List.of(new TopicPartition(topic, 0)), 5)) {
      Check.equal("timestamp type", TimestampType.LOG_APPEND_TIME, record.timestampType());
      long now = System.currentTimeMillis();
      Check.between("timestamp", now - 20_000, now + 1000, record.timestamp());
    }
  }

  private void partitionsFor() throws Exception {
    String topic = broker.topic(4);
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      List<PartitionInfo> partitions = producer.partitionsFor(topic);
      Check.equal("partitions", 4, partitions.size());
      for (PartitionInfo partition : partitions) {
        Check.equal("replicas", 1, partition.replicas().length);
        Check.equal("ISR", 1, partition.inSyncReplicas().length);
        Check.equal("leader", partition.replicas()[0], partition.leader());
        Check.equal("offline", 0, partition.offlineReplicas().length);
      }
    }
  }

  private void autoCreation() throws Exception {
    String topic = Broker.topicName();
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.equal("offset", 0L, producer.send(new ProducerRecord<>(topic, new byte[1])).get().offset());
      Check.equal("partitions", 1, producer.partitionsFor(topic).size());
    }
    String other = Broker.topicName();
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.equal("partitions", 1, producer.partitionsFor(other).size());
    }
  }

  private void produceToBadName() throws Exception {
    try (Producer<byte[], byte[]> producer = broker.producer("max.block.ms", "5000")) {
      Check.fails("a name with a space", InvalidTopicException.class,
          () -> producer.send(new ProducerRecord<>("a b", new byte[1])).get());
    }
  }

  /** Every partition holds "0", "1", … at offsets 0, 1, …. */
  private void inOrder(String topic, int partitions, int count) {
    for (int partition = 0; partition < partitions; partition++) {
      long next = 0;
      for (ConsumerRecord<byte[], byte[]> record : broker.readAll(List.of(new TopicPartition(topic, partition)), count)) {
        Check.equal("offset", next, record.offset());
        Check.equal("value", next, Long.parseLong(new String(record.value())));
        next++;
      }
    }
  }
}
