import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** The broker under test: makes clients for it, and topics with names that nobody else has. */
final class Broker {
  final String bootstrap;
  /** Which of the two consumers of kafka-clients the tests make: "classic" or "consumer" (the newer, threaded one). */
  final String groupProtocol;

  Broker(String bootstrap, String groupProtocol) {
    this.bootstrap = bootstrap;
    this.groupProtocol = groupProtocol;
  }

  /** Whether the client under test is one from before 4.0. */
  static boolean clientIsOfThree() throws IOException {
    Properties about = new Properties();
    try (InputStream file = Broker.class.getResourceAsStream("/kafka/kafka-version.properties")) {
      about.load(file);
    }
    return about.getProperty("version").startsWith("3.");
  }

  static String topicName() {
    return "java-" + UUID.randomUUID();
  }

  Admin admin() {
    return Admin.create(Map.of("bootstrap.servers", bootstrap));
  }

  /** A topic with the brokers' default number of replicas and the given configs (key, value, key, value, …). */
  String topic(int partitions, String... configs) throws Exception {
    String name = topicName();
    try (Admin admin = admin()) {
      create(admin, name, partitions, configs);
    }
    return name;
  }

  static void create(Admin admin, String name, int partitions, String... configs) throws Exception {
    NewTopic topic = new NewTopic(name, Optional.of(partitions), Optional.empty()).configs(pairs(configs));
    admin.createTopics(List.of(topic)).all().get();
    settled(() -> Check.equal("partitions of " + name, partitions,
        admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions().size()));
  }

  /**
   * Checks what a change that was answered has brought about. On huld it must hold at once; Kafka's broker hears of it
   * from its controller a moment after the answer, so there the check may be repeated for 5 s.
   */
  static void settled(Suite.Test check) throws Exception {
    boolean mayRepeat = !"huld".equals(System.getenv("HULD_TARGET"));
    long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
    while (true) {
      try {
        check.run();
        return;
      } catch (Exception | AssertionError failed) {
        if (!mayRepeat || System.nanoTime() > end) {
          throw failed;
        }
        Thread.sleep(10);
      }
    }
  }

  /** A producer with the client's own defaults but for `overrides` (key, value, key, value, …). */
  Producer<byte[], byte[]> producer(String... overrides) {
    return producerAt(bootstrap, overrides);
  }

  static Producer<byte[], byte[]> producerAt(String bootstrap, String... overrides) {
    Map<String, Object> settings = new HashMap<>(pairs(overrides));
    settings.put("bootstrap.servers", bootstrap);
    return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
  }

  /** A consumer without group that starts at the beginning, but for `overrides`. */
  Consumer<byte[], byte[]> consumer(String... overrides) {
    Map<String, Object> settings = new HashMap<>();
    settings.put("auto.offset.reset", "earliest");
    settings.put("enable.auto.commit", "false");
    settings.put("group.protocol", groupProtocol);
    settings.putAll(pairs(overrides));
    settings.put("bootstrap.servers", bootstrap);
    return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  /** Sends `count` values "0", "1", … to one partition and waits for all of them. */
  void fill(String topic, int partition, int count) throws Exception {
    try (Producer<byte[], byte[]> producer = producer()) {
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        sent.add(producer.send(new ProducerRecord<>(topic, partition, null, Integer.toString(i).getBytes())));
      }
      for (Future<RecordMetadata> one : sent) {
        one.get();
      }
    }
  }

  /** Reads `count` records of `partitions` from where the consumer stands; more than `count` is a failure. */
  static List<ConsumerRecord<byte[], byte[]>> read(Consumer<byte[], byte[]> consumer, int count) {
    List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
    long end = System.nanoTime() + Duration.ofSeconds(20).toNanos();
    while (records.size() < count && System.nanoTime() < end) {
      consumer.poll(Duration.ofMillis(200)).forEach(records::add);
    }
    Check.equal("number of records read", count, records.size());
    return records;
  }

  /** Reads `count` records of the given partitions from their beginning, with a consumer of its own. */
  List<ConsumerRecord<byte[], byte[]>> readAll(Collection<TopicPartition> partitions, int count) {
    try (Consumer<byte[], byte[]> consumer = consumer()) {
      consumer.assign(partitions);
      return read(consumer, count);
    }
  }

  static Map<String, String> pairs(String... keysAndValues) {
    Map<String, String> map = new HashMap<>();
    for (int i = 0; i < keysAndValues.length; i += 2) {
      map.put(keysAndValues[i], keysAndValues[i + 1]);
    }
    return map;
  }
}
