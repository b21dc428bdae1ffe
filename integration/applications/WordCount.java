import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words with Kafka Streams, three times under one application id, the second and third time without the files of
 * the one before, so that its counts come from the changelog topic. Where brokers can be steered, the one that coordinates
 * the application's group dies before the second run and comes back before the third, in which the next one dies under it.
 * Exits with 0 if all is as it should be.
 *
 * <p>Arguments: bootstrap servers, application id, folder for state, processing guarantee.
 */
public final class WordCount {
  private static final int LIMIT_SECONDS = 30;

  private final String bootstrap;
  private final String id;
  private final String folder;
  private final String guarantee;
  /** Null where nobody can end brokers. */
  private final Steering steering;

  private WordCount(String bootstrap, String id, String folder, String guarantee) {
    this.bootstrap = bootstrap;
    this.id = id;
    this.folder = folder;
    this.guarantee = guarantee;
    String control = System.getenv("HULD_CONTROL");
    steering = control == null ? null : new Steering(control);
  }

  public static void main(String[] arguments) throws Exception {
    new WordCount(arguments[0], arguments[1], arguments[2], arguments[3]).run();
  }

  private String input() {
    return id + "-in";
  }

  private String output() {
    return id + "-out";
  }

  private void run() throws Exception {
    try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
      Optional<Short> replicas = Optional.empty();
      NewTopic input = new NewTopic(input(), Optional.of(2), replicas);
      NewTopic output = new NewTopic(output(), Optional.of(1), replicas);
      admin.createTopics(List.of(input, output)).all().get();
      TreeMap<String, Long> counts = new TreeMap<>();
      count("first", counts, () -> produce("all streams lead to kafka", "hello kafka streams", "join kafka summit"), 11);
      expect(counts, Map.of("all", 1L, "streams", 2L, "kafka", 3L, "hello", 1L, "summit", 1L));
      int killed = steering == null ? 0 : coordinator(admin);
      if (steering != null) {
        steering.kill(killed);
      }
      count("second", counts, () -> produce("kafka again", "streams again"), 4);
      expect(counts, Map.of("kafka", 4L, "streams", 3L, "again", 2L, "hello", 1L));
      if (steering != null) {
        steering.start(killed);
      }
      count("third", counts, () -> {
        produce("kafka once more");
        if (steering != null) {
          int next = coordinator(admin);
          steering.kill(next);
          produce("kafka nevermore");
          steering.start(next);
        } else {
          produce("kafka nevermore");
        }
      }, 5);
      expect(counts, Map.of("kafka", 6L, "streams", 3L, "once", 1L, "hello", 1L, "nevermore", 1L));
      Set<String> topics = admin.listTopics().names().get();
      for (String internal : List.of("-counts-changelog", "-counts-repartition")) {
        check("there is no topic " + id + internal, topics.contains(id + internal));
      }
    }
  }

  private int coordinator(Admin admin) throws Exception {
    return admin.describeConsumerGroups(List.of(id)).all().get().get(id).coordinator().id();
  }

  /** Something that happens while the application runs. */
  private interface Meanwhile {
    void happen() throws Exception;
  }

  /** Runs the application until it has counted so many words more; the newest counts go to `counts`. */
  private void count(String run, Map<String, Long> counts, Meanwhile meanwhile, int words) throws Exception {
    long expected = counts.values().stream().mapToLong(Long::longValue).sum() + words;
    CountDownLatch failed = new CountDownLatch(1);
    try (KafkaStreams streams = new KafkaStreams(topology().build(), settings(run))) {
      streams.setUncaughtExceptionHandler(error -> {
        error.printStackTrace();
        failed.countDown();
        return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
      });
      streams.start();
      meanwhile.happen();
      long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
      // From the first run on: each count of a word once, one after the other.
      Map<String, Long> seen = new HashMap<>();
      boolean isExactlyOnce = guarantee.equals(StreamsConfig.EXACTLY_ONCE_V2);
      try (KafkaConsumer<String, Long> reader = reader()) {
        while (counts.values().stream().mapToLong(Long::longValue).sum() < expected) {
          check("counted " + counts + " after " + LIMIT_SECONDS + " s", System.nanoTime() < deadline);
          check("the application failed", failed.getCount() > 0);
          for (ConsumerRecord<String, Long> record : reader.poll(java.time.Duration.ofMillis(200))) {
            long next = seen.merge(record.key(), 1L, Long::sum);
            check("the count of " + record.key() + " comes as " + record.value() + ", not as " + next,
                !isExactlyOnce || record.value() == next);
            counts.merge(record.key(), record.value(), Math::max);
          }
        }
      }
    }
  }

  private StreamsBuilder topology() {
    StreamsBuilder builder = new StreamsBuilder();
    builder.stream(input(), Consumed.with(Serdes.String(), Serdes.String()))
        .flatMapValues(line -> Arrays.asList(line.toLowerCase(Locale.ROOT).split(" ")))
        .groupBy((key, word) -> word, Grouped.<String, String>with("counts", Serdes.String(), Serdes.String()))
        .count(Materialized.as("counts"))
        .toStream()
        .to(output(), Produced.with(Serdes.String(), Serdes.Long()));
    return builder;
  }

  private Properties settings(String run) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, folder + "/" + run);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, guarantee);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put("auto.offset.reset", "earliest");
    // A closed application leaves its group, so that the next one need not wait for the session to end.
    settings.put("internal.leave.group.on.close", true);
    return settings;
  }

  private void produce(String... lines) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", bootstrap);
    try (KafkaProducer<String, String> producer =
        new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
      for (int i = 0; i < lines.length; i++) {
        producer.send(new ProducerRecord<>(input(), i % 2, null, lines[i])).get();
      }
    }
  }

  private KafkaConsumer<String, Long> reader() {
    Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
    settings.put("auto.offset.reset", "earliest");
    settings.put("isolation.level", "read_committed");
    KafkaConsumer<String, Long> reader = new KafkaConsumer<>(settings, new StringDeserializer(), new LongDeserializer());
    reader.assign(List.of(new TopicPartition(output(), 0)));
    return reader;
  }

  private static void expect(Map<String, Long> counts, Map<String, Long> some) {
    some.forEach((word, count) -> check(word + " was counted " + counts.get(word) + " times, not " + count, count.equals(counts.get(word))));
  }

  private static void check(String what, boolean holds) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }
}
