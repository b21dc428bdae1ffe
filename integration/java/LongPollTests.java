import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;

/** How long a fetch waits. */
final class LongPollTests {
  private static final int MAX_WAIT_MS = 700;
  private static final int SLACK_MS = 400;

  private final Broker broker;

  private LongPollTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker, String suffix) {
    LongPollTests tests = new LongPollTests(broker);
    suite.test("long_poll_idle" + suffix, tests::idle);
    suite.test("long_poll_too_little" + suffix, tests::tooLittle);
    suite.test("long_poll_wakes" + suffix, tests::wakes);
    suite.test("long_poll_wakes_at_sum" + suffix, tests::wakesAtSum);
    suite.test("long_poll_one_byte" + suffix, tests::oneByte);
    suite.test("long_poll_topic_deleted" + suffix, tests::topicDeleted);
  }

  private Consumer<byte[], byte[]> waiting(List<TopicPartition> partitions, String... overrides) {
    List<String> settings = new ArrayList<>(List.of("fetch.max.wait.ms", Integer.toString(MAX_WAIT_MS),
        "fetch.min.bytes", "100000", "metadata.max.age.ms", "3000"));
    settings.addAll(List.of(overrides));
    Consumer<byte[], byte[]> consumer = broker.consumer(settings.toArray(String[]::new));
    consumer.assign(partitions);
    // Connect and settle positions first, so that nothing but the fetch is measured later.
    partitions.forEach(consumer::position);
    return consumer;
  }

  private List<TopicPartition> partitions(int count) throws Exception {
    String topic = broker.topic(count);
    List<TopicPartition> partitions = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      partitions.add(new TopicPartition(topic, i));
    }
    return partitions;
  }

  private void idle() throws Exception {
    try (Consumer<byte[], byte[]> consumer = waiting(partitions(3))) {
      long start = System.nanoTime();
      while (millisSince(start) < 3 * MAX_WAIT_MS + SLACK_MS) {
        Check.equal("records", 0, consumer.poll(Duration.ofMillis(100)).count());
      }
      double answered = metric(consumer, "fetch-total");
      Check.between("fetches answered", 2, millisSince(start) / (MAX_WAIT_MS - 1), answered);
      Check.between("mean of the fetches, ms", MAX_WAIT_MS - 1, MAX_WAIT_MS + SLACK_MS, metric(consumer, "fetch-latency-avg"));
      Check.between("longest fetch, ms", MAX_WAIT_MS - 1, MAX_WAIT_MS + SLACK_MS, metric(consumer, "fetch-latency-max"));
    }
  }

  /** There are records, but fewer than asked for: they come at max wait. */
  private void tooLittle() throws Exception {
    List<TopicPartition> partitions = partitions(1);
    broker.fill(partitions.get(0).topic(), 0, 10);
    try (Consumer<byte[], byte[]> consumer = waiting(partitions)) {
      long start = System.nanoTime();
      Check.equal("records", 10, consumer.poll(Duration.ofSeconds(10)).count());
      Check.between("time, ms", MAX_WAIT_MS - 1, MAX_WAIT_MS + SLACK_MS, millisSince(start));
    }
  }

  private void wakes() throws Exception {
    List<TopicPartition> partitions = partitions(1);
    wakesAfter(partitions, 1, 120_000);
  }

  /** Min bytes is compared with what all partitions have together. */
  private void wakesAtSum() throws Exception {
    wakesAfter(partitions(4), 4, 30_000);
  }

  private void wakesAfter(List<TopicPartition> partitions, int records, int size) throws Exception {
    // The wait is long, so that a busy machine can't be taken for one that waits.
    try (Consumer<byte[], byte[]> consumer = waiting(partitions, "fetch.max.wait.ms", "10000");
        Producer<byte[], byte[]> producer = broker.producer("linger.ms", "0")) {
      producer.partitionsFor(partitions.get(0).topic());
      long start = System.nanoTime();
      CompletableFuture<Long> sent = CompletableFuture.supplyAsync(() -> {
        for (int i = 0; i < records; i++) {
          producer.send(new ProducerRecord<>(partitions.get(i).topic(), i, null, new byte[size]));
        }
        producer.flush();
        return System.nanoTime();
      }, CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS));
      int read = 0;
      while (read < records && millisSince(start) < 12_000) {
        read += consumer.poll(Duration.ofSeconds(12)).count();
      }
      double woken = (System.nanoTime() - sent.get()) / 1e6;
      Check.equal("records", records, read);
      Check.between("time from the last record to the answer, ms", -1000, SLACK_MS, woken);
      Check.between("time from the beginning, ms", 199, 5000, millisSince(start));
      leave(consumer);
    }
  }

  private void oneByte() throws Exception {
    List<TopicPartition> partitions = partitions(2);
    try (Consumer<byte[], byte[]> consumer = waiting(partitions, "fetch.min.bytes", "1", "fetch.max.wait.ms", "10000");
        Producer<byte[], byte[]> producer = broker.producer("linger.ms", "0")) {
      producer.partitionsFor(partitions.get(0).topic());
      for (int round = 0; round < 10; round++) {
        int partition = round % 2;
        CompletableFuture<Long> sent = CompletableFuture.supplyAsync(() -> {
          producer.send(new ProducerRecord<>(partitions.get(partition).topic(), partition, null, new byte[1]));
          producer.flush();
          return System.nanoTime();
        }, CompletableFuture.delayedExecutor(50, TimeUnit.MILLISECONDS));
        Check.equal("records", 1, consumer.poll(Duration.ofSeconds(12)).count());
        Check.between("time to the answer, ms", -1000, SLACK_MS, (System.nanoTime() - sent.get()) / 1e6);
      }
      leave(consumer);
    }
  }

  /** A deleted topic ends the wait at once, so the connection is free again well before max wait. */
  private void topicDeleted() throws Exception {
    List<TopicPartition> partitions = partitions(1);
    try (Consumer<byte[], byte[]> consumer = waiting(partitions, "fetch.max.wait.ms", "15000",
            "allow.auto.create.topics", "false");
        Admin admin = broker.admin()) {
      CompletableFuture<Void> deleted = CompletableFuture.runAsync(() -> {
        try {
          admin.deleteTopics(List.of(partitions.get(0).topic())).all().get();
        } catch (Exception failed) {
          throw new IllegalStateException(failed);
        }
      }, CompletableFuture.delayedExecutor(300, TimeUnit.MILLISECONDS));
      long start = System.nanoTime();
      while (metric(consumer, "fetch-total") < 1 && millisSince(start) < 14_000) {
        consumer.poll(Duration.ofMillis(50));
      }
      deleted.get();
      Check.between("time to the answer, ms", 299, 5000, millisSince(start));
    }
  }

  /** Closes without waiting for the fetch that the client has sent ahead, which would last for its max wait. */
  @SuppressWarnings("deprecation") // What came in its place isn't there in kafka-clients 3.9.
  private static void leave(Consumer<byte[], byte[]> consumer) {
    consumer.close(Duration.ZERO);
  }

  private static double millisSince(long start) {
    return (System.nanoTime() - start) / 1e6;
  }

  private static double metric(Consumer<byte[], byte[]> consumer, String name) {
    for (MetricName metric : consumer.metrics().keySet()) {
      if (metric.name().equals(name) && metric.group().equals("consumer-fetch-manager-metrics")
          && !metric.tags().containsKey("topic")) {
        return (Double) consumer.metrics().get(metric).metricValue();
      }
    }
    throw new AssertionError("the client has no metric " + name);
  }
}
