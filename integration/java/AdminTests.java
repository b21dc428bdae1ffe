import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateTopicsOptions;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult.ListOffsetsResultInfo;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ReplicaInfo;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidReplicaAssignmentException;
import org.apache.kafka.common.errors.InvalidReplicationFactorException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.NoReassignmentInProgressException;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicIdException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;

/** Topics, offsets and the cluster through the Admin client. */
final class AdminTests {
  private final Broker broker;

  private AdminTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker) {
    AdminTests tests = new AdminTests(broker);
    suite.test("create_topic", tests::create);
    suite.test("create_topic_defaults", tests::createWithDefaults);
    suite.test("create_topic_assignment", tests::createWithAssignment);
    suite.test("create_topic_validate_only", tests::createValidateOnly);
    suite.test("create_topic_errors", tests::createErrors);
    suite.test("create_topic_bad_names", tests::createBadNames);
    suite.test("create_topic_colliding_name", tests::createCollidingName);
    suite.test("describe_topics", tests::describeTopics);
    suite.test("list_topics", tests::listTopics);
    suite.test("delete_topics", tests::deleteTopics);
    suite.test("create_partitions", tests::createPartitions);
    suite.test("describe_cluster", tests::describeCluster);
    suite.test("list_offsets", tests::listOffsets);
    suite.test("list_offsets_of_empty_partition", tests::listOffsetsOfEmptyPartition);
    suite.test("delete_records", tests::deleteRecords);
    suite.test("delete_records_of_compacted_topic", tests::deleteRecordsOfCompactedTopic);
    suite.test("fifty_partitions", tests::fiftyPartitions);
    suite.test("configs", tests::configs);
    suite.test("broker_configs", tests::brokerConfigs);
    suite.test("log_dirs", tests::logDirs);
    suite.test("elections_and_moves", tests::electionsAndMoves);
    suite.test("client_quotas", tests::clientQuotas);
    suite.test("usable_after_creation", tests::topicUsableAfterCreation);
  }

  private void create() throws Exception {
    String name = Broker.topicName();
    try (Admin admin = broker.admin()) {
      NewTopic topic = new NewTopic(name, 3, (short) 1).configs(
          Map.of("max.message.bytes", "54321", "cleanup.policy", "compact,delete"));
      CreateTopicsResult result = admin.createTopics(List.of(topic));
      Check.equal("partitions echoed", 3, result.numPartitions(name).get());
      Check.equal("replication factor echoed", 1, result.replicationFactor(name).get());
      Check.equal("max.message.bytes echoed", "54321", result.config(name).get().get("max.message.bytes").value());
      Check.equal("cleanup.policy echoed", "compact,delete", result.config(name).get().get("cleanup.policy").value());
      Check.equal("default of retention.ms echoed", "604800000", result.config(name).get().get("retention.ms").value());
      Uuid id = result.topicId(name).get();
      Check.that("topic id is not zero", !Uuid.ZERO_UUID.equals(id));
      Broker.settled(() -> {
        Check.equal("topic id described", id, describe(admin, name).topicId());
        Check.equal("partitions described", 3, describe(admin, name).partitions().size());
      });
    }
  }

  private void createWithDefaults() throws Exception {
    String name = Broker.topicName();
    try (Admin admin = broker.admin()) {
      CreateTopicsResult result = admin.createTopics(List.of(new NewTopic(name, Optional.empty(), Optional.empty())));
      Check.equal("default partitions", 1, result.numPartitions(name).get());
      Check.equal("default replication factor", 1, result.replicationFactor(name).get());
    }
  }

  private void createWithAssignment() throws Exception {
    String name = Broker.topicName();
    try (Admin admin = broker.admin()) {
      int node = admin.describeCluster().nodes().get().iterator().next().id();
      admin.createTopics(List.of(new NewTopic(name, Map.of(0, List.of(node), 1, List.of(node))))).all().get();
      Broker.settled(() -> Check.equal("partitions", 2, describe(admin, name).partitions().size()));
      NewTopic unknownBroker = new NewTopic(Broker.topicName(), Map.of(0, List.of(node + 1000)));
      Check.fails("assignment to an unknown broker", InvalidReplicaAssignmentException.class,
          () -> admin.createTopics(List.of(unknownBroker)).all().get());
      NewTopic gap = new NewTopic(Broker.topicName(), Map.of(0, List.of(node), 2, List.of(node)));
      Check.fails("assignment with a gap", InvalidReplicaAssignmentException.class,
          () -> admin.createTopics(List.of(gap)).all().get());
      NewTopic twice = new NewTopic(Broker.topicName(), Map.of(0, List.of(node, node)));
      Check.fails("the same broker twice", InvalidReplicaAssignmentException.class,
          () -> admin.createTopics(List.of(twice)).all().get());
    }
  }

  private void createValidateOnly() throws Exception {
    String name = Broker.topicName();
    CreateTopicsOptions validateOnly = new CreateTopicsOptions().validateOnly(true);
    try (Admin admin = broker.admin()) {
      NewTopic topic = new NewTopic(name, 7, (short) 1).configs(Map.of("retention.ms", "1234"));
      CreateTopicsResult result = admin.createTopics(List.of(topic), validateOnly);
      Check.equal("partitions echoed", 7, result.numPartitions(name).get());
      Check.equal("retention.ms echoed", "1234", result.config(name).get().get("retention.ms").value());
      Check.that("nothing is created", !admin.listTopics().names().get().contains(name));
      Check.fails("a bad config in a dry run", InvalidConfigurationException.class, () -> admin.createTopics(
          List.of(new NewTopic(name, 1, (short) 1).configs(Map.of("retention.ms", "soon"))), validateOnly).all().get());
    }
    String existing = broker.topic(1);
    try (Admin admin = broker.admin()) {
      Check.fails("an existing topic in a dry run", TopicExistsException.class,
          () -> admin.createTopics(List.of(new NewTopic(existing, 1, (short) 1)), validateOnly).all().get());
    }
  }

  private void createErrors() throws Exception {
    String existing = broker.topic(1);
    String name = Broker.topicName();
    try (Admin admin = broker.admin()) {
      Check.fails("an existing topic", TopicExistsException.class,
          () -> admin.createTopics(List.of(new NewTopic(existing, 1, (short) 1))).all().get());
      Check.fails("3 replicas on 1 broker", InvalidReplicationFactorException.class,
          () -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 3))).all().get());
      Check.fails("0 replicas", InvalidReplicationFactorException.class,
          () -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 0))).all().get());
      Check.fails("0 partitions", InvalidPartitionsException.class,
          () -> admin.createTopics(List.of(new NewTopic(name, 0, (short) 1))).all().get());
      Check.fails("-2 partitions", InvalidPartitionsException.class,
          () -> admin.createTopics(List.of(new NewTopic(name, -2, (short) 1))).all().get());
      Check.fails("10001 partitions", PolicyViolationException.class,
          () -> admin.createTopics(List.of(new NewTopic(name, 10_001, (short) 1))).all().get());
      List<Map<String, String>> badConfigs = List.of(Map.of("prefix", "x"), Map.of("retention.ms", "soon"),
          Map.of("cleanup.policy", "burn"), Map.of("max.message.bytes", "-1"), Map.of("compression.type", "rar"),
          Map.of("message.timestamp.type", "Never"), Map.of("segment.bytes", "99999999999"));
      for (Map<String, String> bad : badConfigs) {
        long start = System.nanoTime();
        Check.fails("config " + bad, InvalidConfigurationException.class,
            () -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 1).configs(bad))).all().get());
        Check.between("config " + bad + " is refused at once, ms", 0, 1000, (System.nanoTime() - start) / 1e6);
      }
      CreateTopicsResult mixed = admin.createTopics(
          List.of(new NewTopic(existing, 1, (short) 1), new NewTopic(name, 2, (short) 1)));
      Check.fails("the bad one of two", TopicExistsException.class, () -> mixed.values().get(existing).get());
      mixed.values().get(name).get();
      Broker.settled(() -> Check.equal("the good one of two", 2, describe(admin, name).partitions().size()));
    }
  }

  private void createBadNames() throws Exception {
    try (Admin admin = broker.admin()) {
      List<String> names = List.of(".", "..", "a/b", "../x", "a b", "a:b", "ä", "a\u0000b", "a\nb", "a,b", "x".repeat(250));
      for (String name : names) {
        Check.fails("name '" + name + "'", InvalidTopicException.class,
            () -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get());
      }
      String longest = (Broker.topicName() + "x".repeat(249)).substring(0, 249);
      Broker.create(admin, longest, 1);
      Check.equal("249 characters", 1, describe(admin, longest).partitions().size());
    }
  }

  private void createCollidingName() throws Exception {
    String name = Broker.topicName();
    try (Admin admin = broker.admin()) {
      Broker.create(admin, name + ".a_b", 1);
      Check.fails("a name that differs in . and _ only", InvalidTopicException.class,
          () -> admin.createTopics(List.of(new NewTopic(name + "_a.b", 1, (short) 1))).all().get());
    }
  }

  private void describeTopics() throws Exception {
    String name = broker.topic(5);
    try (Admin admin = broker.admin()) {
      Node node = admin.describeCluster().nodes().get().iterator().next();
      TopicDescription topic = describe(admin, name);
      Check.equal("name", name, topic.name());
      Check.that("not internal", !topic.isInternal());
      int expected = 0;
      for (TopicPartitionInfo partition : topic.partitions()) {
        Check.equal("partition", expected++, partition.partition());
        Check.equal("leader", node, partition.leader());
        Check.equal("replicas", List.of(node), partition.replicas());
        Check.equal("ISR", List.of(node), partition.isr());
      }
      Check.equal("partitions", 5, expected);
      TopicCollection byId = TopicCollection.ofTopicIds(List.of(topic.topicId()));
      Check.equal("by id", name, admin.describeTopics(byId).allTopicIds().get().get(topic.topicId()).name());
      Check.fails("unknown name", UnknownTopicOrPartitionException.class,
          () -> admin.describeTopics(List.of(Broker.topicName())).allTopicNames().get());
      Check.fails("unknown id", UnknownTopicIdException.class, () -> admin.describeTopics(
          TopicCollection.ofTopicIds(List.of(Uuid.randomUuid()))).allTopicIds().get());
    }
  }

  private void listTopics() throws Exception {
    String one = broker.topic(1);
    String two = broker.topic(2);
    try (Admin admin = broker.admin()) {
      Check.that("both are listed", admin.listTopics().names().get().containsAll(Set.of(one, two)));
      Check.equal("id", describe(admin, two).topicId(), admin.listTopics().namesToListings().get().get(two).topicId());
    }
  }

  private void deleteTopics() throws Exception {
    String byName = broker.topic(1);
    String byId = broker.topic(2);
    try (Admin admin = broker.admin()) {
      Uuid id = describe(admin, byId).topicId();
      admin.deleteTopics(List.of(byName)).all().get();
      admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
      Broker.settled(() -> {
        Check.fails("deleted by name", UnknownTopicOrPartitionException.class, () -> describe(admin, byName));
        Check.fails("deleted by id", UnknownTopicOrPartitionException.class, () -> describe(admin, byId));
      });
      Check.fails("deleted again by name", UnknownTopicOrPartitionException.class,
          () -> admin.deleteTopics(List.of(byName)).all().get());
      Check.fails("deleted again by id", UnknownTopicIdException.class,
          () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
      Broker.create(admin, byId, 1);
      Check.that("a new topic of the same name has a new id", !id.equals(describe(admin, byId).topicId()));
    }
  }

  private void createPartitions() throws Exception {
    String name = broker.topic(1);
    try (Admin admin = broker.admin()) {
      admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get();
      Broker.settled(() -> Check.equal("partitions", 4, describe(admin, name).partitions().size()));
      Check.fails("fewer", InvalidPartitionsException.class,
          () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all().get());
      Check.fails("as many as there are", InvalidPartitionsException.class,
          () -> admin.createPartitions(Map.of(name, NewPartitions.increaseTo(4))).all().get());
      Check.fails("assignment of too few", InvalidReplicaAssignmentException.class, () -> admin.createPartitions(
          Map.of(name, NewPartitions.increaseTo(6, List.of(List.of(1))))).all().get());
      Check.fails("unknown topic", UnknownTopicOrPartitionException.class,
          () -> admin.createPartitions(Map.of(Broker.topicName(), NewPartitions.increaseTo(2))).all().get());
    }
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      Check.equal("offset in the new partition", 0L,
          producer.send(new ProducerRecord<>(name, 3, null, new byte[1])).get().offset());
    }
  }

  private void describeCluster() throws Exception {
    try (Admin admin = broker.admin()) {
      Check.equal("nodes", 1, admin.describeCluster().nodes().get().size());
      Node node = admin.describeCluster().nodes().get().iterator().next();
      Check.equal("port", Integer.parseInt(broker.bootstrap.replaceAll(".*:", "")), node.port());
      Check.equal("controller", node, admin.describeCluster().controller().get());
      String id = admin.describeCluster().clusterId().get();
      Check.that("cluster id is not empty", id != null && !id.isEmpty());
      Check.equal("cluster id stays", id, admin.describeCluster().clusterId().get());
    }
  }

  private void listOffsets() throws Exception {
    String name = broker.topic(1);
    TopicPartition partition = new TopicPartition(name, 0);
    long base = System.currentTimeMillis() - 100_000;
    // The largest timestamp is in the middle, within a compressed batch of ten.
    long[] times = {0, 10, 20, 90, 30, 30, 40, 50, 60, 70};
    try (Producer<byte[], byte[]> producer = broker.producer("compression.type", "gzip", "linger.ms", "200")) {
      for (long time : times) {
        producer.send(new ProducerRecord<>(name, 0, base + time, null, new byte[1]));
      }
    }
    try (Admin admin = broker.admin()) {
      check(admin, partition, "earliest", OffsetSpec.earliest(), 0, -1);
      check(admin, partition, "latest", OffsetSpec.latest(), 10, -1);
      check(admin, partition, "max timestamp", OffsetSpec.maxTimestamp(), 3, base + 90);
      check(admin, partition, "earliest local", OffsetSpec.earliestLocal(), 0, -1);
      check(admin, partition, "latest tiered", OffsetSpec.latestTiered(), -1, -1);
      check(admin, partition, "before all", OffsetSpec.forTimestamp(base - 5), 0, base);
      check(admin, partition, "exactly", OffsetSpec.forTimestamp(base + 20), 2, base + 20);
      check(admin, partition, "between", OffsetSpec.forTimestamp(base + 25), 3, base + 90);
      check(admin, partition, "the largest", OffsetSpec.forTimestamp(base + 90), 3, base + 90);
      check(admin, partition, "after all", OffsetSpec.forTimestamp(base + 91), -1, -1);
      admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(5))).all().get();
      check(admin, partition, "earliest after deletion", OffsetSpec.earliest(), 5, -1);
      check(admin, partition, "time before what is left", OffsetSpec.forTimestamp(base), 5, base + 30);
    }
  }

  private void listOffsetsOfEmptyPartition() throws Exception {
    TopicPartition partition = new TopicPartition(broker.topic(1), 0);
    try (Admin admin = broker.admin()) {
      check(admin, partition, "earliest", OffsetSpec.earliest(), 0, -1);
      check(admin, partition, "latest", OffsetSpec.latest(), 0, -1);
      check(admin, partition, "max timestamp", OffsetSpec.maxTimestamp(), -1, -1);
      check(admin, partition, "for timestamp", OffsetSpec.forTimestamp(1), -1, -1);
    }
  }

  private void deleteRecords() throws Exception {
    String name = broker.topic(2);
    TopicPartition partition = new TopicPartition(name, 1);
    broker.fill(name, 1, 100);
    try (Admin admin = broker.admin()) {
      Check.equal("to 50", 50L, lowWatermark(admin, partition, 50));
      Check.equal("to 20, which is below", 50L, lowWatermark(admin, partition, 20));
      check(admin, partition, "earliest", OffsetSpec.earliest(), 50, -1);
      Check.fails("to 101, beyond the end", OffsetOutOfRangeException.class, () -> lowWatermark(admin, partition, 101));
      Check.fails("to -2", OffsetOutOfRangeException.class, () -> lowWatermark(admin, partition, -2));
      Check.equal("the rest is still there", "50", new String(
          broker.readAll(List.of(partition), 50).get(0).value()));
      Check.equal("to -1, the high watermark", 100L, lowWatermark(admin, partition, -1));
      check(admin, partition, "earliest when all is gone", OffsetSpec.earliest(), 100, -1);
      check(admin, partition, "latest when all is gone", OffsetSpec.latest(), 100, -1);
      // No look at the max timestamp here: Kafka still names a record that is gone.
      check(admin, new TopicPartition(name, 0), "the other partition", OffsetSpec.earliest(), 0, -1);
    }
    broker.fill(name, 1, 1);
    Check.equal("offset after deletion", 100L, broker.readAll(List.of(partition), 1).get(0).offset());
  }

  private void deleteRecordsOfCompactedTopic() throws Exception {
    TopicPartition partition = new TopicPartition(broker.topic(1, "cleanup.policy", "compact"), 0);
    try (Admin admin = broker.admin()) {
      Check.fails("compacted", PolicyViolationException.class, () -> lowWatermark(admin, partition, 0));
    }
  }

  private void fiftyPartitions() throws Exception {
    String name = broker.topic(50);
    List<TopicPartition> partitions = new ArrayList<>();
    try (Producer<byte[], byte[]> producer = broker.producer()) {
      for (int i = 0; i < 50; i++) {
        partitions.add(new TopicPartition(name, i));
        producer.send(new ProducerRecord<>(name, i, null, new byte[] {(byte) i}));
      }
    }
    Set<Integer> seen = new TreeSet<>();
    broker.readAll(partitions, 50).forEach(record -> {
      Check.equal("value in its partition", record.partition(), (int) record.value()[0]);
      seen.add(record.partition());
    });
    Check.equal("partitions seen", 50, seen.size());
  }

  private void topicUsableAfterCreation() throws Exception {
    try (Admin admin = broker.admin(); Producer<byte[], byte[]> producer = broker.producer()) {
      for (int round = 0; round < 20; round++) {
        String name = Broker.topicName();
        Broker.create(admin, name, 1 + round);
        Check.equal("first offset", 0L,
            producer.send(new ProducerRecord<>(name, round, null, new byte[1])).get().offset());
        admin.deleteTopics(List.of(name)).all().get();
      }
    }
  }

  private static TopicDescription describe(Admin admin, String name) throws Exception {
    return admin.describeTopics(List.of(name)).allTopicNames().get().get(name);
  }

  private static long lowWatermark(Admin admin, TopicPartition partition, long before) throws Exception {
    return admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before)))
        .lowWatermarks().get(partition).get().lowWatermark();
  }

  /** Both isolation levels must say the same, as there are no transactions. */
  private static void check(Admin admin, TopicPartition partition, String what, OffsetSpec spec, long offset,
      long timestamp) throws Exception {
    for (IsolationLevel isolation : IsolationLevel.values()) {
      ListOffsetsResultInfo info = admin.listOffsets(Map.of(partition, spec), new ListOffsetsOptions(isolation))
          .partitionResult(partition).get();
      Check.equal("offset of " + what + ", " + isolation, offset, info.offset());
      Check.equal("timestamp of " + what + ", " + isolation, timestamp, info.timestamp());
    }
  }

  private static String value(Admin admin, ConfigResource of, String key) throws Exception {
    return admin.describeConfigs(List.of(of)).all().get().get(of).get(key).value();
  }

  private static void alter(Admin admin, ConfigResource of, AlterConfigOp.OpType how, String key, String value)
      throws Exception {
    admin.incrementalAlterConfigs(Map.of(of, List.of(new AlterConfigOp(new ConfigEntry(key, value), how)))).all().get();
  }

  private void configs() throws Exception {
    ConfigResource of = new ConfigResource(ConfigResource.Type.TOPIC, broker.topic(1, "retention.ms", "100000"));
    try (Admin admin = broker.admin()) {
      ConfigEntry set = admin.describeConfigs(List.of(of)).all().get().get(of).get("retention.ms");
      Check.equal("value", "100000", set.value());
      Check.equal("source", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, set.source());
      Check.equal("type of the key", false, set.isReadOnly() || set.isSensitive() || set.isDefault());
      Check.equal("another's", "delete", value(admin, of, "cleanup.policy"));
      alter(admin, of, AlterConfigOp.OpType.SET, "retention.ms", "200000");
      alter(admin, of, AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact");
      Broker.settled(() -> Check.equal("set and appended", List.of("200000", "delete,compact"),
          List.of(value(admin, of, "retention.ms"), value(admin, of, "cleanup.policy"))));
      alter(admin, of, AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "compact");
      alter(admin, of, AlterConfigOp.OpType.DELETE, "retention.ms", "");
      Broker.settled(() -> Check.equal("subtracted and deleted", List.of("604800000", "delete"),
          List.of(value(admin, of, "retention.ms"), value(admin, of, "cleanup.policy"))));
      Check.fails("a bad value", InvalidConfigurationException.class, () -> {
        alter(admin, of, AlterConfigOp.OpType.SET, "retention.ms", "soon");
        return null;
      });
      ConfigResource missing = new ConfigResource(ConfigResource.Type.TOPIC, Broker.topicName());
      Check.fails("a topic that isn't there", UnknownTopicOrPartitionException.class,
          () -> admin.describeConfigs(List.of(missing)).all().get());
    }
  }

  private void brokerConfigs() throws Exception {
    try (Admin admin = broker.admin()) {
      String id = admin.describeCluster().nodes().get().iterator().next().idString();
      ConfigResource of = new ConfigResource(ConfigResource.Type.BROKER, id);
      Check.equal("its id", id, value(admin, of, "node.id"));
      alter(admin, of, AlterConfigOp.OpType.SET, "log.cleaner.backoff.ms", "16000");
      Broker.settled(() -> Check.equal("set", "16000", value(admin, of, "log.cleaner.backoff.ms")));
      alter(admin, of, AlterConfigOp.OpType.DELETE, "log.cleaner.backoff.ms", "");
      Broker.settled(() -> Check.equal("deleted", "15000", value(admin, of, "log.cleaner.backoff.ms")));
    }
  }

  private void logDirs() throws Exception {
    String topic = broker.topic(1);
    broker.fill(topic, 0, 100);
    try (Admin admin = broker.admin()) {
      int id = admin.describeCluster().nodes().get().iterator().next().id();
      ReplicaInfo replica = admin.describeLogDirs(List.of(id)).allDescriptions().get().get(id).values().iterator().next()
          .replicaInfos().get(new TopicPartition(topic, 0));
      Check.between("bytes", 300, 20_000, replica.size());
      Check.equal("lag, future", List.of(0L, false), List.of(replica.offsetLag(), replica.isFuture()));
    }
  }

  /** With one broker there is nothing to elect and nowhere to move. */
  private void electionsAndMoves() throws Exception {
    TopicPartition partition = new TopicPartition(broker.topic(1), 0);
    try (Admin admin = broker.admin()) {
      var elected = admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).partitions().get().get(partition);
      Check.equal("election", ElectionNotNeededException.class, elected.orElseThrow().getClass());
      Check.equal("moves", Map.of(), admin.listPartitionReassignments(Set.of(partition)).reassignments().get());
      Check.fails("cancel a move that isn't there", NoReassignmentInProgressException.class,
          () -> admin.alterPartitionReassignments(Map.of(partition, Optional.empty())).all().get());
    }
  }

  private void clientQuotas() throws Exception {
    ClientQuotaEntity entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, Broker.topicName()));
    ClientQuotaFilter filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(
        ClientQuotaEntity.CLIENT_ID, entity.entries().get(ClientQuotaEntity.CLIENT_ID))));
    try (Admin admin = broker.admin()) {
      admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
          List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1048576.0))))).all().get();
      Broker.settled(() -> Check.equal("quotas", Map.of(entity, Map.of("producer_byte_rate", 1048576.0)),
          admin.describeClientQuotas(filter).entities().get()));
      admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
          List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
      Broker.settled(() -> Check.equal("quotas in the end", Map.of(), admin.describeClientQuotas(filter).entities().get()));
    }
  }
}
