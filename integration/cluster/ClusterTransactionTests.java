import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;

/** Transactions, while brokers and clients die in the middle of them. */
final class ClusterTransactionTests {
  private static final int PARTITIONS = 4;
  private static final int ROUND = 100;
  private static final long MARKERS_LIMIT_MS = 20_000;

  private final ThreeBrokers three;
  private final Broker brokers;

  private ClusterTransactionTests(ThreeBrokers three) {
    this.three = three;
    brokers = three.clients;
  }

  static void addTo(Suite suite, ThreeBrokers three) {
    ClusterTransactionTests tests = new ClusterTransactionTests(three);
    three.add(suite, "exactly_once_while_brokers_die", tests::whileBrokersDie);
    three.add(suite, "exactly_once_while_clients_are_replaced", tests::whileClientsAreReplaced);
    three.add(suite, "transaction_timed_out_by_the_next_coordinator", tests::timedOutByTheNext);
    three.add(suite, "pending_offsets_at_the_next_coordinators", tests::pendingOffsetsAtTheNext);
  }

  /** Two topics, a group that reads one, a pipeline or more into the other, and a reader of what is committed there. */
  private final class World implements AutoCloseable {
    final Admin admin = three.admin();
    final String from = three.topic(admin, PARTITIONS);
    final String to = three.topic(admin, PARTITIONS);
    final String group = "cluster-" + UUID.randomUUID();
    final Producer<byte[], byte[]> source = brokers.producer("linger.ms", "0", "metadata.max.age.ms", "2000");
    final CommittedReader reader = new CommittedReader(brokers, to, PARTITIONS);
    private int fed;

    World() throws Exception {}

    /** Writes a round of values, in turn to all partitions, and has one that works on them pause at this step. */
    void feed(Pipeline.Step step, Pipeline pauses) throws Exception {
      // Before there is anything to read, or it might be through with it.
      pauses.pauseAt(step);
      List<Future<RecordMetadata>> sent = new ArrayList<>();
      for (int i = 0; i < ROUND; i++, fed++) {
        byte[] value = Integer.toString(fed).getBytes();
        sent.add(source.send(new ProducerRecord<>(from, fed % PARTITIONS, null, value)));
      }
      for (Future<RecordMetadata> one : sent) {
        one.get();
      }
      pauses.untilPaused();
    }

    void untilAllCommitted(Pipeline... pipelines) throws Exception {
      reader.until(fed, pipelines);
    }

    void untilInSync() throws Exception {
      ThreeBrokers.untilInSync(admin, ThreeBrokers.COUNT, from, to, "__transaction_state", "__consumer_offsets");
    }

    int coordinatorOf(String transactionalId) throws Exception {
      return admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get().coordinatorId();
    }

    int coordinatorOfGroup() throws Exception {
      return admin.describeConsumerGroups(List.of(group)).all().get().get(group).coordinator().id();
    }

    /** All that was fed has come once, another reader sees the same, and the group's offsets are at the ends. */
    void checkAll() throws Exception {
      TreeSet<Integer> wanted = new TreeSet<>();
      for (int value = 0; value < fed; value++) {
        wanted.add(value);
      }
      Check.equal("values", wanted, reader.values());
      try (CommittedReader again = new CommittedReader(brokers, to, PARTITIONS)) {
        again.until(fed);
        Check.equal("values read once more", wanted, again.values());
      }
      Map<TopicPartition, Long> ends = new HashMap<>();
      for (int partition = 0; partition < PARTITIONS; partition++) {
        TopicPartition of = new TopicPartition(from, partition);
        ends.put(of, admin.listOffsets(Map.of(of, OffsetSpec.latest())).partitionResult(of).get().offset());
      }
      Check.equal("committed offsets", ends, committed(admin, group, ends.keySet()));
    }

    @Override
    public void close() {
      reader.close();
      source.close();
      admin.close();
    }
  }

  /**
   * The offsets of a group, once none of these is open in a transaction any more: the client leaves those out, and the end of a
   * transaction is answered while its markers are on their way.
   */
  private static Map<TopicPartition, Long> committed(Admin admin, String group, Set<TopicPartition> wanted)
      throws Exception {
    long end = System.currentTimeMillis() + MARKERS_LIMIT_MS;
    while (true) {
      Map<TopicPartition, Long> offsets = new HashMap<>();
      admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec()),
          new ListConsumerGroupOffsetsOptions().requireStable(true)).partitionsToOffsetAndMetadata(group).get()
          .forEach((partition, offset) -> offsets.put(partition, offset == null ? -1 : offset.offset()));
      if (offsets.keySet().containsAll(wanted) || System.currentTimeMillis() > end) {
        return offsets;
      }
      Thread.sleep(50);
    }
  }

  /** One after the other, the leaders of all that a transaction touches die, each in the middle of one. */
  private void whileBrokersDie() throws Exception {
    try (World world = new World();
        Pipeline one = inConsumerGroup(world, "one");
        Pipeline other = inConsumerGroup(world, "other")) {
      share(one, other);
      world.feed(Pipeline.Step.SENT, one);
      int coordinator = world.coordinatorOf(world.group + "-one");
      three.steering.kill(coordinator);
      one.resume();
      // Without it at first, until others lead in its place.
      world.untilAllCommitted(one, other);
      three.steering.start(coordinator);
      world.untilInSync();
      List<Pipeline.Step> steps = List.of(Pipeline.Step.BEGUN, Pipeline.Step.SENT, Pipeline.Step.OFFSETS_SENT,
          Pipeline.Step.OFFSETS_SENT);
      for (int round = 0; round < steps.size(); round++) {
        world.feed(steps.get(round), one);
        int victim = switch (round) {
          case 0 -> ThreeBrokers.leader(world.admin, world.from);
          case 1 -> ThreeBrokers.leader(world.admin, world.to);
          case 2 -> world.coordinatorOfGroup();
          default -> world.coordinatorOf(world.group + "-one");
        };
        three.crash(victim);
        one.resume();
        world.untilAllCommitted(one, other);
        world.untilInSync();
      }
      one.finish();
      other.finish();
      world.checkAll();
    }
  }

  private static void share(Pipeline one, Pipeline other) throws Exception {
    one.untilOwned(PARTITIONS / 2);
    other.untilOwned(PARTITIONS / 2);
  }

  private Pipeline inConsumerGroup(World world, String name) {
    return new Pipeline(brokers, world.from, world.to, world.group + "-" + name, "group.id", world.group, "group.protocol",
        "consumer");
  }

  /**
   * A client that dies in its transaction, with its coordinator or without, is replaced by one of the same transactional
   * id, and so is one that only seems dead: it can do nothing more once it comes back.
   */
  private void whileClientsAreReplaced() throws Exception {
    try (World world = new World(); Pipeline other = inStaticGroup(world, "other")) {
      Pipeline one = inStaticGroup(world, "one");
      try {
        share(one, other);
        for (Pipeline.Step step : Pipeline.Step.values()) {
          world.feed(step, one);
          one.drop();
          if (step == Pipeline.Step.OFFSETS_SENT) {
            three.crash(world.coordinatorOf(world.group + "-one"));
          }
          one = inStaticGroup(world, "one");
          world.untilAllCommitted(one, other);
        }
        world.untilInSync();
        for (Pipeline.Step step : List.of(Pipeline.Step.SENT, Pipeline.Step.OFFSETS_SENT)) {
          world.feed(step, one);
          try (Pipeline zombie = one) {
            one = inStaticGroup(world, "one");
            world.untilAllCommitted(one, other);
            zombie.resume();
            Exception refused = zombie.failure();
            Check.that("the replaced client ended with " + refused, refused instanceof ProducerFencedException
                || refused instanceof InvalidProducerEpochException || refused instanceof FencedInstanceIdException);
          }
        }
        one.finish();
        other.finish();
        world.checkAll();
      } finally {
        one.close();
      }
    }
  }

  /** A static member, whose partitions are its successor's as soon as that is there. */
  private Pipeline inStaticGroup(World world, String name) {
    return new Pipeline(brokers, world.from, world.to, world.group + "-" + name, "group.id", world.group,
        "group.instance.id", name, "session.timeout.ms", "10000", "heartbeat.interval.ms", "300");
  }

  private Producer<byte[], byte[]> begun(String id, String... overrides) {
    List<String> settings = new ArrayList<>(List.of("transactional.id", id, "request.timeout.ms", "5000",
        "metadata.max.age.ms", "2000", "max.block.ms", "40000"));
    settings.addAll(List.of(overrides));
    Producer<byte[], byte[]> producer = brokers.producer(settings.toArray(String[]::new));
    producer.initTransactions();
    producer.beginTransaction();
    return producer;
  }

  private static ProducerRecord<byte[], byte[]> record(String topic, String value) {
    return new ProducerRecord<>(topic, 0, null, value.getBytes());
  }

  /** A transaction that is open when its coordinator dies is aborted by the next one, when its time is up. */
  private void timedOutByTheNext() throws Exception {
    String id = "txn-" + UUID.randomUUID();
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, 1);
      try (Producer<byte[], byte[]> producer = begun(id, "transaction.timeout.ms", "2000");
          CommittedReader reader = new CommittedReader(brokers, topic, 1)) {
        producer.send(record(topic, "1!")).get();
        int coordinator = admin.describeTransactions(List.of(id)).description(id).get().coordinatorId();
        three.crash(coordinator);
        try (Producer<byte[], byte[]> plain = brokers.producer("linger.ms", "0")) {
          plain.send(record(topic, "2!")).get();
        }
        reader.until(1);
        Check.equal("values", new TreeSet<>(List.of(2)), reader.values());
        try {
          producer.commitTransaction();
          throw new AssertionError("a transaction was committed after its timeout");
        } catch (KafkaException refused) {
          // Fenced, or to be aborted: by the version of transactions.
        }
      }
    }
  }

  /** Offsets of an open transaction stay pending when the group's coordinator dies, and are there once it is committed. */
  private void pendingOffsetsAtTheNext() throws Exception {
    String id = "txn-" + UUID.randomUUID();
    String group = "cluster-" + UUID.randomUUID();
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, 1);
      TopicPartition partition = new TopicPartition(topic, 0);
      brokers.fill(topic, 0, 10);
      try (Producer<byte[], byte[]> producer = begun(id);
          Consumer<byte[], byte[]> consumer = brokers.consumer("group.id", group)) {
        consumer.assign(List.of(partition));
        consumer.commitSync(Map.of(partition, new OffsetAndMetadata(2)));
        producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7)), consumer.groupMetadata());
        for (String commit : List.of("aborted", "committed")) {
          int coordinator = admin.describeConsumerGroups(List.of(group)).all().get().get(group).coordinator().id();
          three.crash(coordinator);
          long before = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset();
          Check.equal("offset while the transaction is open", 2L, before);
          if (commit.equals("aborted")) {
            producer.abortTransaction();
            Check.equal("offset after the abort", Map.of(partition, 2L), committed(admin, group, Set.of(partition)));
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7)), consumer.groupMetadata());
            ThreeBrokers.untilInSync(admin, ThreeBrokers.COUNT, topic, "__consumer_offsets");
          } else {
            producer.commitTransaction();
            Check.equal("offset after the commit", Map.of(partition, 7L), committed(admin, group, Set.of(partition)));
          }
        }
      }
    }
  }
}
