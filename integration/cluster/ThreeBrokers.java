import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartitionInfo;

/** The three brokers under test: how to reach them, what an administrator sees of them, and who ends and starts them. */
final class ThreeBrokers {
  static final short COUNT = 3;
  static final long LIMIT_MS = 60_000;

  final Broker clients;
  final Steering steering;

  ThreeBrokers(Broker clients, Steering steering) {
    this.clients = clients;
    this.steering = steering;
  }

  /** Adds a test after which all brokers are brought back. */
  void add(Suite suite, String name, Suite.Test test) {
    suite.test(name, () -> {
      try {
        test.run();
      } finally {
        steering.restore();
      }
    });
  }

  Admin admin() {
    return Admin.create(Map.of("bootstrap.servers", clients.bootstrap, "request.timeout.ms", "3000",
        "default.api.timeout.ms", "40000", "metadata.max.age.ms", "2000"));
  }

  /** A topic on all three brokers, of which two must have a record before it is acknowledged. */
  String topic(Admin admin, int partitions) throws Exception {
    String name = Broker.topicName();
    admin.createTopics(List.of(new NewTopic(name, partitions, COUNT).configs(Map.of("min.insync.replicas", "2"))))
        .all().get();
    untilInSync(admin, COUNT, name);
    return name;
  }

  static List<TopicPartitionInfo> partitions(Admin admin, String topic) throws Exception {
    return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions();
  }

  /** The leader of the first partition, or -1. */
  static int leader(Admin admin, String topic) throws Exception {
    Node leader = partitions(admin, topic).get(0).leader();
    return leader == null ? -1 : leader.id();
  }

  /** Waits until every partition has a leader and so many replicas in sync; nobody tells, so it must be asked. */
  static void untilInSync(Admin admin, int replicas, String... topics) throws Exception {
    long end = System.currentTimeMillis() + LIMIT_MS;
    while (true) {
      String seen;
      try {
        Map<String, TopicDescription> described = admin.describeTopics(Arrays.asList(topics)).allTopicNames().get();
        if (described.values().stream().flatMap(topic -> topic.partitions().stream())
            .allMatch(one -> one.leader() != null && one.isr().size() == replicas)) {
          return;
        }
        seen = described.toString();
      } catch (ExecutionException failed) {
        seen = Check.unwrap(failed).toString();
      }
      Check.that(replicas + " in sync: not after 60 s: " + seen, System.currentTimeMillis() < end);
      Thread.sleep(50);
    }
  }

  /** Ends a broker without a goodbye and starts it at once, with the logs that it had. */
  void crash(int broker) throws Exception {
    steering.kill(broker);
    steering.start(broker);
  }
}
