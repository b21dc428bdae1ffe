import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/** A short walk through what the clients do, to be recorded by integration/record. It is not a test. */
public final class Session {
  private static final String TOPIC = "session-java";
  private static final long TIMESTAMP = 1_700_000_000_000L;

  private Session() {}

  public static void main(String[] arguments) throws Exception {
    Broker broker = new Broker(System.getenv("HULD_BOOTSTRAP"), "classic");
    TopicPartition zero = new TopicPartition(TOPIC, 0);
    TopicPartition one = new TopicPartition(TOPIC, 1);
    try (Admin admin = broker.admin()) {
      Broker.create(admin, TOPIC, 2, "retention.ms", "3600000");
      admin.describeCluster().nodes().get();
    }
    for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
      send(broker, "compression.type", codec);
    }
    send(broker, "enable.idempotence", "false", "acks", "0");
    try (Consumer<byte[], byte[]> consumer = broker.consumer("fetch.max.wait.ms", "200")) {
      consumer.assign(List.of(zero, one));
      Broker.read(consumer, 18);
      consumer.poll(Duration.ofMillis(500));
      consumer.offsetsForTimes(Map.of(zero, TIMESTAMP + 1));
      consumer.endOffsets(List.of(zero, one));
    }
    try (Admin admin = broker.admin()) {
      admin.listOffsets(Map.of(zero, OffsetSpec.maxTimestamp())).all().get();
      admin.createPartitions(Map.of(TOPIC, NewPartitions.increaseTo(3))).all().get();
      admin.deleteRecords(Map.of(zero, RecordsToDelete.beforeOffset(2))).all().get();
      admin.describeTopics(List.of(TOPIC)).allTopicNames().get();
      admin.listTopics().names().get();
      admin.deleteTopics(List.of(TOPIC)).all().get();
    }
  }

  private static void send(Broker broker, String... settings) {
    try (Producer<byte[], byte[]> producer = broker.producer(settings)) {
      ProducerRecord<byte[], byte[]> record =
          new ProducerRecord<>(TOPIC, 0, TIMESTAMP, "key".getBytes(), "value value value value".getBytes());
      record.headers().add("h", "1".getBytes()).add("h", null);
      producer.send(record);
      producer.send(new ProducerRecord<>(TOPIC, 0, TIMESTAMP + 1, null, new byte[0]));
      producer.send(new ProducerRecord<>(TOPIC, 1, Long.valueOf(TIMESTAMP + 2), new byte[0], (byte[]) null));
    }
  }
}
