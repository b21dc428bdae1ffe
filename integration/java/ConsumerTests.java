import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.NoOffsetForPartitionException;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** Consumers that are assigned by partition: positions, look-ups, limits and fetch sessions. */
final class ConsumerTests {
  private final Broker broker;

  private ConsumerTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker, String suffix) {
    ConsumerTests tests = new ConsumerTests(broker);
    suite.test("seek" + suffix, tests::seek);
    suite.test("offsets_for_times" + suffix, tests::offsetsForTimes);
    suite.test("out_of_range_without_reset" + suffix, tests::outOfRangeWithoutReset);
    suite.test("out_of_range_with_reset" + suffix, tests::outOfRangeWithReset);
    suite.test("fetch_session" + suffix, tests::fetchSession);
    suite.test("fetch_session_forgets" + suffix, tests::fetchSessionForgets);
    suite.test("small_max_partition_fetch_bytes" + suffix, tests::smallMaxPartitionFetchBytes);
    suite.test("small_fetch_max_bytes" + suffix, tests::smallFetchMaxBytes);
    suite.test("read_committed" + suffix, tests::readCommitted);
    suite.test("recreated_topic" + suffix, tests::recreatedTopic);
    suite.test("consumer_metadata" + suffix, tests::metadata);
  }

  private void seek() throws Exception {
    String topic = broker.topic(2);
    broker.fill(topic, 0, 100);
    TopicPartition partition = new TopicPartition(topic, 0);
    TopicPartition empty = new TopicPartition(topic, 1);
    try (Consumer<byte[], byte[]> consumer = broker.consumer("max.poll.records", "1")) {
      consumer.assign(List.of(partition, empty));
      Check.equal("beginning", Map.of(partition, 0L, empty, 0L), consumer.beginningOffsets(List.of(partition, empty)));
      Check.equal("end", Map.of(partition, 100L, empty, 0L), consumer.endOffsets(List.of(partition, empty)));
      Check.equal("first", 0L, one(consumer).offset());
      Check.equal("position after one", 1L, consumer.position(partition));
      consumer.seek(partition, 70);
      Check.equal("middle", 70L, one(consumer).offset());
      consumer.seek(partition, 3);
      Check.equal("back", 3L, one(consumer).offset());
      consumer.seekToEnd(List.of(partition, empty));
      Check.equal("position at the end", 100L, consumer.position(partition));
      Check.equal("position in the empty one", 0L, consumer.position(empty));
      Check.equal("nothing at the end", 0, consumer.poll(Duration.ofMillis(300)).count());
      consumer.seek(partition, 99);
      Check.equal("last", 99L, one(consumer).offset());
      consumer.seekToBeginning(List.of(partition));
      Check.equal("beginning again", 0L, one(consumer).offset());
      Check.equal("value", "1", new String(one(consumer).value()));
      Check.equal("lag", 98L, consumer.currentLag(partition).orElse(-1));
    }
  }

  private void offsetsForTimes() throws Exception {
    String topic = broker.topic(2);
    TopicPartition partition = new TopicPartition(topic, 0);
    TopicPartition empty = new TopicPartition(topic, 1);
    long base = System.currentTimeMillis() - 100_000;
    try (Producer<byte[], byte[]> producer = broker.producer("compression.type", "lz4", "linger.ms", "100")) {
      for (int i = 0; i < 20; i++) {
        producer.send(new ProducerRecord<>(topic, 0, base + 100 * i, null, new byte[1]));
      }
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer()) {
      consumer.assign(List.of(partition, empty));
      checkTime(consumer, partition, base - 1, 0, base);
      checkTime(consumer, partition, base + 500, 5, base + 500);
      checkTime(consumer, partition, base + 501, 6, base + 600);
      checkTime(consumer, partition, base + 1900, 19, base + 1900);
      Check.equal("after all", null, consumer.offsetsForTimes(Map.of(partition, base + 1901)).get(partition));
      Map<TopicPartition, OffsetAndTimestamp> both = consumer.offsetsForTimes(Map.of(partition, base, empty, base));
      Check.equal("with the empty one", 0L, both.get(partition).offset());
      Check.equal("in the empty one", null, both.get(empty));
    }
  }

  private static void checkTime(Consumer<byte[], byte[]> consumer, TopicPartition partition, long time, long offset,
      long timestamp) {
    OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, time)).get(partition);
    Check.equal("offset", offset, found.offset());
    Check.equal("timestamp", timestamp, found.timestamp());
    Check.equal("leader epoch", 0, found.leaderEpoch().orElse(-1));
  }

  private void outOfRangeWithoutReset() throws Exception {
    String topic = broker.topic(1);
    broker.fill(topic, 0, 10);
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Consumer<byte[], byte[]> consumer = broker.consumer("auto.offset.reset", "none")) {
      consumer.assign(List.of(partition));
      Check.fails("no position", NoOffsetForPartitionException.class, () -> consumer.poll(Duration.ofSeconds(5)));
      consumer.seek(partition, 11);
      OffsetOutOfRangeException thrown = Check.fails("beyond the end", OffsetOutOfRangeException.class,
          () -> pollSome(consumer));
      Check.equal("offsets named", Map.of(partition, 11L), thrown.offsetOutOfRangePartitions());
      consumer.seek(partition, 9);
      Check.equal("still usable", 9L, one(consumer).offset());
    }
    try (Admin admin = broker.admin()) {
      admin.deleteRecords(Map.of(partition, org.apache.kafka.clients.admin.RecordsToDelete.beforeOffset(5))).all().get();
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("auto.offset.reset", "none")) {
      consumer.assign(List.of(partition));
      consumer.seek(partition, 4);
      Check.fails("below the start", OffsetOutOfRangeException.class, () -> pollSome(consumer));
    }
  }

  private void outOfRangeWithReset() throws Exception {
    String topic = broker.topic(1);
    broker.fill(topic, 0, 10);
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Consumer<byte[], byte[]> consumer = broker.consumer()) {
      consumer.assign(List.of(partition));
      consumer.seek(partition, 1_000_000);
      Check.equal("goes to the beginning", 0L, one(consumer).offset());
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("auto.offset.reset", "latest")) {
      consumer.assign(List.of(partition));
      consumer.seek(partition, 1_000_000);
      long end = System.nanoTime() + Duration.ofSeconds(10).toNanos();
      while (consumer.position(partition) != 10 && System.nanoTime() < end) {
        consumer.poll(Duration.ofMillis(50));
      }
      Check.equal("goes to the end", 10L, consumer.position(partition));
    }
  }

  /** Once the session stands, a fetch names no partition that is as before; those that get records must come all the same. */
  private void fetchSession() throws Exception {
    String topic = broker.topic(10);
    List<TopicPartition> partitions = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      partitions.add(new TopicPartition(topic, i));
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("fetch.max.wait.ms", "200");
        Producer<byte[], byte[]> producer = broker.producer()) {
      consumer.assign(partitions);
      consumer.poll(Duration.ofMillis(500));
      int[][] rounds = {{3}, {3, 7}, {}, {0, 9}, {3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5}};
      for (int[] round : rounds) {
        Set<Integer> expected = new HashSet<>();
        for (int partition : round) {
          producer.send(new ProducerRecord<>(topic, partition, null, new byte[] {1}));
          expected.add(partition);
        }
        producer.flush();
        Set<Integer> seen = new HashSet<>();
        Broker.read(consumer, round.length).forEach(record -> seen.add(record.partition()));
        Check.equal("partitions", expected, seen);
      }
      // Partitions that haven't had records for several rounds still tell what their end is.
      Check.equal("lag", 0L, consumer.currentLag(partitions.get(8)).orElse(-1));
    }
  }

  private void fetchSessionForgets() throws Exception {
    String topic = broker.topic(4);
    List<TopicPartition> partitions = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      partitions.add(new TopicPartition(topic, i));
      broker.fill(topic, i, 5);
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("fetch.max.wait.ms", "200")) {
      consumer.assign(partitions);
      Broker.read(consumer, 20);
      consumer.assign(partitions.subList(2, 4));
      broker.fill(topic, 0, 5);
      broker.fill(topic, 3, 5);
      consumer.seekToEnd(List.of(partitions.get(2)));
      for (ConsumerRecord<byte[], byte[]> record : Broker.read(consumer, 5)) {
        Check.equal("only what is assigned", 3, record.partition());
      }
      consumer.assign(List.of());
      consumer.assign(List.of(partitions.get(0)));
      consumer.seekToBeginning(List.of(partitions.get(0)));
      Check.equal("records", 10, Broker.read(consumer, 10).size());
      consumer.pause(List.of(partitions.get(0)));
      Check.equal("nothing while paused", 0, consumer.poll(Duration.ofMillis(300)).count());
    }
  }

  /** KIP-74: the first batch of an answer is sent whole, however small the limits are. */
  private void smallMaxPartitionFetchBytes() throws Exception {
    String topic = broker.topic(2);
    byte[] large = new byte[50_000];
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      for (int i = 0; i < 10; i++) {
        producer.send(new ProducerRecord<>(topic, i % 2, null, large)).get();
      }
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("max.partition.fetch.bytes", "100")) {
      consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
      Broker.read(consumer, 10).forEach(record -> Check.equal("size", 50_000, record.value().length));
    }
  }

  private void smallFetchMaxBytes() throws Exception {
    String topic = broker.topic(5);
    List<TopicPartition> partitions = new ArrayList<>();
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      for (int i = 0; i < 5; i++) {
        partitions.add(new TopicPartition(topic, i));
        for (int n = 0; n < 30; n++) {
          producer.send(new ProducerRecord<>(topic, i, null, new byte[500])).get();
        }
      }
    }
    try (Consumer<byte[], byte[]> consumer = broker.consumer("fetch.max.bytes", "1000", "max.poll.records", "2")) {
      consumer.assign(partitions);
      // No partition may starve: the first 100 records can't all be of three partitions.
      Set<Integer> seen = new HashSet<>();
      Broker.read(consumer, 100).forEach(record -> seen.add(record.partition()));
      Check.equal("partitions among the first 100 records", 5, seen.size());
      Broker.read(consumer, 50);
    }
  }

  private void readCommitted() throws Exception {
    String topic = broker.topic(1);
    broker.fill(topic, 0, 10);
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Consumer<byte[], byte[]> consumer = broker.consumer("isolation.level", "read_committed")) {
      consumer.assign(List.of(partition));
      Check.equal("end", 10L, consumer.endOffsets(List.of(partition)).get(partition));
      Check.equal("last", "9", new String(Broker.read(consumer, 10).get(9).value()));
    }
  }

  /** The consumer stays assigned while the topic goes away and comes back shorter. */
  private void recreatedTopic() throws Exception {
    String topic = broker.topic(1);
    broker.fill(topic, 0, 10);
    TopicPartition partition = new TopicPartition(topic, 0);
    try (Consumer<byte[], byte[]> consumer =
            broker.consumer("metadata.max.age.ms", "500", "allow.auto.create.topics", "false");
        Admin admin = broker.admin()) {
      consumer.assign(List.of(partition));
      Broker.read(consumer, 10);
      admin.deleteTopics(List.of(topic)).all().get();
      consumer.poll(Duration.ofMillis(1000));
      Broker.create(admin, topic, 1);
      broker.fill(topic, 0, 3);
      List<ConsumerRecord<byte[], byte[]>> records = Broker.read(consumer, 3);
      Check.equal("offset in the new topic", 0L, records.get(0).offset());
      Check.equal("value", "2", new String(records.get(2).value()));
    }
  }

  private void metadata() throws Exception {
    String topic = broker.topic(3);
    try (Consumer<byte[], byte[]> consumer = broker.consumer()) {
      Check.equal("partitions", 3, consumer.partitionsFor(topic).size());
      Check.equal("listed", 3, consumer.listTopics().get(topic).size());
    }
  }

  private static ConsumerRecord<byte[], byte[]> one(Consumer<byte[], byte[]> consumer) {
    long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
    while (System.nanoTime() < end) {
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
        return record;
      }
    }
    throw new AssertionError("no record within 20 s");
  }

  /** Polls for up to 10 s, for a failure that comes from a fetch. */
  private static int pollSome(Consumer<byte[], byte[]> consumer) {
    int count = 0;
    for (int i = 0; i < 20 && count == 0; i++) {
      count += consumer.poll(Duration.ofMillis(500)).count();
    }
    return count;
  }
}
