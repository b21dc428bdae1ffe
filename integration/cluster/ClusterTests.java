import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.NotEnoughReplicasAfterAppendException;
import org.apache.kafka.common.errors.NotEnoughReplicasException;
import org.apache.kafka.common.errors.TimeoutException;

/** What clients see of three brokers of which some stop, freeze and come back. */
final class ClusterTests {
  private static final short BROKERS = ThreeBrokers.COUNT;

  private final ThreeBrokers three;
  private final Broker brokers;
  private final Steering steering;

  private ClusterTests(ThreeBrokers three) {
    this.three = three;
    brokers = three.clients;
    steering = three.steering;
  }

  static void addTo(Suite suite, ThreeBrokers three) {
    ClusterTests tests = new ClusterTests(three);
    three.add(suite, "three_brokers", tests::threeBrokers);
    three.add(suite, "leader_stopped_while_producing", tests::leaderStoppedWhileProducing);
    three.add(suite, "coordinator_stopped_while_consuming", tests::coordinatorStoppedWhileConsuming);
    three.add(suite, "min_isr_with_frozen_followers", tests::minIsrWithFrozenFollowers);
    three.add(suite, "rolling_restart", tests::rollingRestart);
  }

  private List<Integer> read(String topic, int partition, Admin admin) throws Exception {
    TopicPartition of = new TopicPartition(topic, partition);
    long end = admin.listOffsets(Map.of(of, OffsetSpec.latest())).partitionResult(of).get().offset();
    List<Integer> values = new ArrayList<>();
    try (Consumer<byte[], byte[]> consumer = brokers.consumer()) {
      consumer.assign(List.of(of));
      for (ConsumerRecord<byte[], byte[]> record : Broker.read(consumer, (int) end)) {
        values.add(Integer.valueOf(new String(record.value())));
      }
    }
    return values;
  }

  /** Nothing that was acknowledged is lost; nothing comes twice, and all is in order. */
  private void checkAll(Load load, String topic, int partitions, Admin admin) throws Exception {
    Set<Integer> all = new HashSet<>();
    for (int partition = 0; partition < partitions; partition++) {
      List<Integer> values = read(topic, partition, admin);
      Check.equal("values of partition " + partition + " in order, once each", new ArrayList<>(new TreeSet<>(values)), values);
      all.addAll(values);
    }
    Set<Integer> lost = new TreeSet<>(load.acknowledged());
    lost.removeAll(all);
    Check.equal("acknowledged and lost", Set.of(), lost);
  }

  private void threeBrokers() throws Exception {
    try (Admin admin = three.admin()) {
      Check.equal("brokers", (int) BROKERS, admin.describeCluster().nodes().get().size());
      String topic = three.topic(admin, 6);
      Set<Integer> leaders = new HashSet<>();
      for (TopicPartitionInfo partition : ThreeBrokers.partitions(admin, topic)) {
        leaders.add(partition.leader().id());
        Check.equal("replicas", (int) BROKERS, partition.replicas().size());
      }
      Check.equal("brokers that lead", (int) BROKERS, leaders.size());
    }
  }

  private void leaderStoppedWhileProducing() throws Exception {
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, 1);
      try (Load load = new Load(brokers, topic, 1)) {
        load.more(200);
        int first = ThreeBrokers.leader(admin, topic);
        steering.stop(first);
        load.more(200);
        int second = ThreeBrokers.leader(admin, topic);
        Check.that("the stopped broker " + first + " leads", second != first);
        steering.start(first);
        ThreeBrokers.untilInSync(admin, 3, topic);
        steering.kill(second);
        load.more(200);
        Check.that("the killed broker " + second + " leads", ThreeBrokers.leader(admin, topic) != second);
        steering.start(second);
        ThreeBrokers.untilInSync(admin, 3, topic);
        load.more(200);
        load.finish();
        checkAll(load, topic, 1, admin);
      }
    }
  }

  private void coordinatorStoppedWhileConsuming() throws Exception {
    String group = "cluster-" + UUID.randomUUID();
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, 6);
      try (Load load = new Load(brokers, topic, 6);
          Member one = Member.classic(brokers, group, topic);
          Member other = Member.classic(brokers, group, topic)) {
        one.until("half of the partitions", member -> member.owned() == 3);
        other.until("half of the partitions", member -> member.owned() == 3);
        load.more(300);
        int coordinator = admin.describeConsumerGroups(List.of(group)).all().get().get(group).coordinator().id();
        steering.stop(coordinator);
        load.more(600);
        untilRead(load.acknowledged(), one, other);
        steering.start(coordinator);
        ThreeBrokers.untilInSync(admin, 3, topic);
        load.more(300);
        load.finish();
        untilRead(load.acknowledged(), one, other);
        checkAll(load, topic, 6, admin);
        one.finish();
        other.finish();
      }
      // Both have committed all that they had read before they left.
      long committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().values().stream()
          .mapToLong(offset -> offset.offset()).sum();
      long written = 0;
      for (int partition = 0; partition < 6; partition++) {
        written += read(topic, partition, admin).size();
      }
      Check.equal("sum of the committed offsets", written, committed);
    }
  }

  private static void untilRead(List<Integer> wanted, Member one, Member other) throws Exception {
    one.until("all that was acknowledged", member -> {
      Set<Integer> values = other.values();
      values.addAll(member.values());
      return values.containsAll(wanted);
    });
  }

  private void minIsrWithFrozenFollowers() throws Exception {
    try (Admin admin = three.admin();
        Producer<byte[], byte[]> producer = brokers.producer("acks", "all", "enable.idempotence", "false", "retries", "0",
            "linger.ms", "0", "request.timeout.ms", "8000", "delivery.timeout.ms", "9000", "max.block.ms", "20000")) {
      String topic = three.topic(admin, 1);
      List<Integer> acknowledged = new ArrayList<>();
      int leader = ThreeBrokers.leader(admin, topic);
      List<Integer> followers = new ArrayList<>(List.of(1, 2, 3));
      followers.remove(Integer.valueOf(leader));
      acknowledged.add(send(producer, topic, 1));
      steering.freeze(followers.get(0));
      ThreeBrokers.untilInSync(admin, 2, topic);
      acknowledged.add(send(producer, topic, 2));
      steering.freeze(followers.get(1));
      // The leader waits for the follower, which is in sync still; whether the record stays is open.
      try {
        send(producer, topic, 3);
        throw new AssertionError("one replica was enough for a minimum of two");
      } catch (TimeoutException | NotEnoughReplicasAfterAppendException late) {
        ThreeBrokers.untilInSync(admin, 1, topic);
      }
      Check.fails("one in sync", NotEnoughReplicasException.class, () -> send(producer, topic, 4));
      steering.thaw(followers.get(0));
      steering.thaw(followers.get(1));
      ThreeBrokers.untilInSync(admin, 3, topic);
      acknowledged.add(send(producer, topic, 5));
      List<Integer> values = read(topic, 0, admin);
      values.remove(Integer.valueOf(3));
      Check.equal("values but the open one", acknowledged, values);
    }
  }

  private static int send(Producer<byte[], byte[]> producer, String topic, int value) throws Exception {
    try {
      producer.send(new ProducerRecord<>(topic, 0, null, Integer.toString(value).getBytes())).get();
      return value;
    } catch (ExecutionException failed) {
      throw (Exception) failed.getCause();
    }
  }

  private void rollingRestart() throws Exception {
    String group = "cluster-" + UUID.randomUUID();
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, 3);
      try (Load load = new Load(brokers, topic, 3); Member member = Member.classic(brokers, group, topic)) {
        member.until("all partitions", one -> one.owned() == 3);
        for (int broker = 1; broker <= BROKERS; broker++) {
          load.more(100);
          steering.stop(broker);
          load.more(100);
          steering.start(broker);
          ThreeBrokers.untilInSync(admin, 3, topic);
        }
        load.more(100);
        load.finish();
        checkAll(load, topic, 3, admin);
        List<Integer> acknowledged = load.acknowledged();
        member.until("all that was acknowledged", one -> one.values().containsAll(acknowledged));
        member.finish();
      }
    }
  }
}
