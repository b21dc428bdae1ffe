import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.GroupSubscribedToTopicException;

/** Consumer groups of the classic protocol. */
final class GroupTests {
  private static final int PARTITIONS = 4;
  private final Broker broker;

  private GroupTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker) {
    GroupTests tests = new GroupTests(broker);
    suite.test("group_eager", () -> tests.shareAndTakeOver(RangeAssignor.class.getName()));
    suite.test("group_cooperative", () -> tests.shareAndTakeOver(CooperativeStickyAssignor.class.getName()));
    suite.test("group_manual_commit", tests::manualCommit);
    suite.test("group_automatic_commit", tests::automaticCommit);
    suite.test("group_static_member", tests::staticMember);
    suite.test("group_static_member_fenced", tests::staticMemberFenced);
    suite.test("group_admin", tests::admin);
  }

  /** A member, and what its assignor has done to it. */
  static final class Member implements ConsumerRebalanceListener, AutoCloseable {
    final Consumer<byte[], byte[]> consumer;
    final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
    int assigned;
    int revoked;

    Member(Broker broker, String topic, String... settings) {
      consumer = broker.consumer(settings);
      consumer.subscribe(List.of(topic), this);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
      assigned += partitions.size();
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
      revoked += partitions.size();
    }

    void poll() {
      consumer.poll(Duration.ofMillis(50)).forEach(records::add);
    }

    int owned() {
      return consumer.assignment().size();
    }

    @Override
    public void close() {
      consumer.close();
    }
  }

  /** Polls all in turn until `done`. */
  static void pollUntil(String what, BooleanSupplier done, Member... members) {
    long end = System.currentTimeMillis() + 20_000;
    while (!done.getAsBoolean()) {
      Check.that(what + ": not after 20 s", System.currentTimeMillis() < end);
      for (Member member : members) {
        member.poll();
      }
    }
  }

  private static String group() {
    return "java-group-" + UUID.randomUUID();
  }

  private Member member(String topic, String group, String... settings) {
    List<String> all = new ArrayList<>(List.of("group.id", group, "enable.auto.commit", "false", "auto.offset.reset",
        "earliest", "heartbeat.interval.ms", "200", "session.timeout.ms", "10000"));
    all.addAll(List.of(settings));
    return new Member(broker, topic, all.toArray(String[]::new));
  }

  /** Two members share the partitions; when one leaves, the other has all of them, and every record comes. */
  private void shareAndTakeOver(String assignor) throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    try (Member first = member(topic, group, "partition.assignment.strategy", assignor)) {
      pollUntil("the first has all", () -> first.owned() == PARTITIONS, first);
      try (Member second = member(topic, group, "partition.assignment.strategy", assignor)) {
        pollUntil("both have half", () -> first.owned() == 2 && second.owned() == 2, first, second);
        Set<TopicPartition> both = new HashSet<>(first.consumer.assignment());
        both.addAll(second.consumer.assignment());
        Check.equal("partitions of both", PARTITIONS, both.size());
        boolean eager = assignor.equals(RangeAssignor.class.getName());
        Check.equal("partitions taken from the first", eager ? PARTITIONS : 2, first.revoked);
        for (int partition = 0; partition < PARTITIONS; partition++) {
          broker.fill(topic, partition, 10);
        }
        pollUntil("all records", () -> first.records.size() + second.records.size() == 40, first, second);
        Check.equal("records of the first", 20, first.records.size());
        first.consumer.commitSync();
        second.consumer.commitSync();
      }
      pollUntil("the first has all again", () -> first.owned() == PARTITIONS, first);
      broker.fill(topic, 0, 5);
      broker.fill(topic, 3, 5);
      pollUntil("the records after", () -> first.records.size() == 30, first);
      first.poll();
      Check.equal("records in all", 30, first.records.size());
    }
  }

  private void manualCommit() throws Exception {
    String topic = broker.topic(1);
    TopicPartition partition = new TopicPartition(topic, 0);
    String group = group();
    broker.fill(topic, 0, 10);
    try (Member first = member(topic, group, "max.poll.records", "4")) {
      pollUntil("four records", () -> first.records.size() >= 4, first);
      first.consumer.commitSync(Map.of(partition, new OffsetAndMetadata(4, "note")));
      Check.equal("committed", new OffsetAndMetadata(4, "note"), first.consumer.committed(Set.of(partition)).get(partition));
    }
    try (Member second = member(topic, group)) {
      pollUntil("the rest", () -> second.records.size() >= 6, second);
      Check.equal("first offset after resuming", 4L, second.records.get(0).offset());
      Check.equal("records after resuming", 6, second.records.size());
    }
  }

  private void automaticCommit() throws Exception {
    String topic = broker.topic(1);
    String group = group();
    broker.fill(topic, 0, 10);
    try (Member first = member(topic, group, "enable.auto.commit", "true", "auto.commit.interval.ms", "100")) {
      pollUntil("all records", () -> first.records.size() == 10, first);
      try (Admin admin = broker.admin()) {
        pollUntil("the commit", () -> committed(admin, group, topic) == 10, first);
      }
    }
    broker.fill(topic, 0, 3);
    try (Member second = member(topic, group)) {
      pollUntil("the new ones", () -> second.records.size() >= 3, second);
      Check.equal("first offset after resuming", 10L, second.records.get(0).offset());
    }
  }

  private static long committed(Admin admin, String group, String topic) {
    try {
      OffsetAndMetadata found = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get()
          .get(new TopicPartition(topic, 0));
      return found == null ? -1 : found.offset();
    } catch (Exception failed) {
      throw new AssertionError("list offsets: " + Check.unwrap(failed));
    }
  }

  /** A static member that comes back within its session has its partitions again, and nobody else notices. */
  private void staticMember() throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    try (Member stays = member(topic, group, "group.instance.id", "stays")) {
      Member goes = member(topic, group, "group.instance.id", "goes");
      pollUntil("both have half", () -> stays.owned() == 2 && goes.owned() == 2, stays, goes);
      Set<TopicPartition> before = goes.consumer.assignment();
      int assigned = stays.assigned;
      int revoked = stays.revoked;
      goes.close();
      try (Member back = member(topic, group, "group.instance.id", "goes")) {
        pollUntil("its partitions again", () -> back.owned() == 2, stays, back);
        Check.equal("partitions of the one that is back", before, back.consumer.assignment());
        long end = System.currentTimeMillis() + 600;
        while (System.currentTimeMillis() < end) {
          stays.poll();
          back.poll();
        }
        Check.equal("changes for the other", List.of(assigned, revoked), List.of(stays.assigned, stays.revoked));
      }
    }
  }

  private void staticMemberFenced() throws Exception {
    String topic = broker.topic(1);
    String group = group();
    Member old = member(topic, group, "group.instance.id", "same");
    pollUntil("its partition", () -> old.owned() == 1, old);
    try (Member other = member(topic, group, "group.instance.id", "same")) {
      pollUntil("the partition", () -> other.owned() == 1, other);
      Check.fails("the old one goes on", FencedInstanceIdException.class, () -> {
        pollUntil("fenced", () -> false, old);
        return null;
      });
    } finally {
      old.close();
    }
  }

  @SuppressWarnings({"deprecation", "removal"}) // What came in place of them isn't there in kafka-clients 3.9.
  private void admin() throws Exception {
    String topic = broker.topic(2);
    TopicPartition partition = new TopicPartition(topic, 0);
    String group = group();
    broker.fill(topic, 0, 10);
    try (Admin admin = broker.admin()) {
      if (Broker.clientIsOfThree()) {
        // Before DescribeGroups 6, brokers answered that it was dead.
        Check.equal("state of a group that isn't there", "Dead",
            admin.describeConsumerGroups(List.of(group)).all().get().get(group).state().toString());
      } else {
        Check.fails("describe a group that isn't there", GroupIdNotFoundException.class,
            () -> admin.describeConsumerGroups(List.of(group)).all().get());
      }
      try (Member member = member(topic, group, "client.id", "its-name")) {
        pollUntil("all records", () -> member.records.size() == 10, member);
        member.consumer.commitSync();
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Check.equal("state", "Stable", described.state().toString());
        Check.equal("assignor", "range", described.partitionAssignor());
        Check.equal("members", 1, described.members().size());
        MemberDescription only = described.members().iterator().next();
        Check.that("member id " + only.consumerId(), only.consumerId().startsWith("its-name-"));
        Check.that("host " + only.host(), only.host().startsWith("/127.0.0.1"));
        Check.equal("assignment", Set.of(partition, new TopicPartition(topic, 1)), only.assignment().topicPartitions());
        Check.that("listed",
            admin.listConsumerGroups().all().get().stream().anyMatch(listed -> listed.groupId().equals(group)));
        Check.fails("delete a group with members", GroupNotEmptyException.class,
            () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        Check.fails("delete offsets of a topic that is read", GroupSubscribedToTopicException.class,
            () -> admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get());
      }
      Check.equal("offset", 10L, committed(admin, group, topic));
      admin.alterConsumerGroupOffsets(group, Map.of(partition, new OffsetAndMetadata(3))).all().get();
      Check.equal("altered offset", 3L, committed(admin, group, topic));
      admin.deleteConsumerGroupOffsets(group, Set.of(partition)).all().get();
      Check.equal("deleted offset", -1L, committed(admin, group, topic));
      admin.deleteConsumerGroups(List.of(group)).all().get();
      Check.fails("delete it again", GroupIdNotFoundException.class,
          () -> admin.deleteConsumerGroups(List.of(group)).all().get());
    }
  }
}
