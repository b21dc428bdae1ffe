import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;

/** Groups of the consumer protocol (KIP-848), and groups that go over from one protocol to the other. */
final class ConsumerGroupTests {
  private static final int PARTITIONS = 4;
  private final Broker broker;

  private ConsumerGroupTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker) {
    ConsumerGroupTests tests = new ConsumerGroupTests(broker);
    suite.test("consumer_group_uniform", () -> tests.shareAndTakeOver("uniform"));
    suite.test("consumer_group_range", () -> tests.shareAndTakeOver("range"));
    suite.test("consumer_group_crash", tests::crash);
    suite.test("consumer_group_regex", tests::regex);
    suite.test("consumer_group_bad_regex", tests::badRegex);
    suite.test("consumer_group_static_member", tests::staticMember);
    suite.test("consumer_group_static_member_in_use", tests::staticMemberInUse);
    suite.test("consumer_group_new_partitions", tests::newPartitions);
    suite.test("consumer_group_upgrade_and_downgrade", tests::upgradeAndDowngrade);
    suite.test("consumer_group_admin", tests::admin);
  }

  private static String group() {
    return "java-consumer-group-" + UUID.randomUUID();
  }

  private GroupTests.Member member(String topic, String group, String... settings) {
    return new GroupTests.Member(broker, topic, settings(group, settings));
  }

  private static String[] settings(String group, String... more) {
    List<String> all = new ArrayList<>(List.of("group.id", group, "group.protocol", "consumer"));
    all.addAll(List.of(more));
    return all.toArray(String[]::new);
  }

  private static int owned(GroupTests.Member... members) {
    Set<TopicPartition> all = new HashSet<>();
    for (GroupTests.Member member : members) {
      all.addAll(member.consumer.assignment());
    }
    return all.size();
  }

  /** Two members share the partitions; when one leaves, the other has all of them, and every record comes once. */
  private void shareAndTakeOver(String assignor) throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    try (GroupTests.Member first = member(topic, group, "group.remote.assignor", assignor)) {
      GroupTests.pollUntil("the first has all", () -> first.owned() == PARTITIONS, first);
      try (GroupTests.Member second = member(topic, group, "group.remote.assignor", assignor)) {
        GroupTests.pollUntil("both have half", () -> first.owned() == 2 && second.owned() == 2, first, second);
        Check.equal("partitions of both", PARTITIONS, owned(first, second));
        Check.equal("partitions taken from the first", 2, first.revoked);
        for (int partition = 0; partition < PARTITIONS; partition++) {
          broker.fill(topic, partition, 10);
        }
        GroupTests.pollUntil("all records", () -> first.records.size() + second.records.size() >= 40, first, second);
        Check.equal("records of each", List.of(20, 20), List.of(first.records.size(), second.records.size()));
        first.consumer.commitSync();
        second.consumer.commitSync();
      }
      GroupTests.pollUntil("the first has all again", () -> first.owned() == PARTITIONS, first);
      broker.fill(topic, 0, 5);
      broker.fill(topic, 3, 5);
      GroupTests.pollUntil("the records after", () -> first.records.size() >= 30, first);
      first.poll();
      Check.equal("records in all", 30, first.records.size());
    }
  }

  /** A member that is gone without a word is out once its session has ended, and the other has everything. */
  private void crash() throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    Process crashes = CrashingMember.start(broker, group, topic);
    try (GroupTests.Member stays = member(topic, group)) {
      try {
        GroupTests.pollUntil("it has half", () -> stays.owned() == 2, stays);
      } finally {
        crashes.destroyForcibly().waitFor();
      }
      long crashed = System.nanoTime();
      GroupTests.pollUntil("it has all again", () -> stays.owned() == PARTITIONS, stays);
      // The brokers under test give a member 6 s from its last heartbeat on.
      long seconds = (System.nanoTime() - crashed) / 1_000_000_000;
      Check.that("the other's partitions are free after " + seconds + " s, as if it had left", seconds >= 3);
      broker.fill(topic, 0, 5);
      broker.fill(topic, 3, 5);
      GroupTests.pollUntil("the records after", () -> stays.records.size() == 10, stays);
    }
  }

  private void regex() throws Exception {
    String prefix = "java-regex-" + UUID.randomUUID();
    try (Admin admin = broker.admin()) {
      Broker.create(admin, prefix + ".a", 1);
      Broker.create(admin, prefix + ".b", 2);
      Broker.create(admin, "not-" + prefix, 1);
    }
    try (GroupTests.Member member = member(prefix, group())) {
      member.consumer.unsubscribe();
      member.consumer.subscribe(new SubscriptionPattern(prefix + "\\.[a-z]"), member);
      GroupTests.pollUntil("the matching topics", () -> member.owned() == 3, member);
      broker.fill(prefix + ".b", 1, 3);
      GroupTests.pollUntil("the records", () -> member.records.size() == 3, member);
    }
  }

  private void badRegex() throws Exception {
    try (GroupTests.Member member = member(broker.topic(1), group())) {
      member.consumer.unsubscribe();
      member.consumer.subscribe(new SubscriptionPattern("(unfinished"), member);
      Check.fails("subscribe by what is no regular expression", InvalidRegularExpression.class, () -> {
        GroupTests.pollUntil("refused", () -> false, member);
        return null;
      });
    }
  }

  /** A static member that comes back within its session has its partitions again, and nobody else notices. */
  private void staticMember() throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    try (GroupTests.Member stays = member(topic, group, "group.instance.id", "stays")) {
      GroupTests.Member goes = member(topic, group, "group.instance.id", "goes");
      GroupTests.pollUntil("both have half", () -> stays.owned() == 2 && goes.owned() == 2, stays, goes);
      Set<TopicPartition> before = goes.consumer.assignment();
      int assigned = stays.assigned;
      int revoked = stays.revoked;
      goes.close();
      try (GroupTests.Member back = member(topic, group, "group.instance.id", "goes")) {
        GroupTests.pollUntil("its partitions again", () -> back.owned() == 2, stays, back);
        Check.equal("partitions of the one that is back", before, back.consumer.assignment());
        long end = System.currentTimeMillis() + 1000;
        while (System.currentTimeMillis() < end) {
          stays.poll();
          back.poll();
        }
        Check.equal("changes for the other", List.of(assigned, revoked), List.of(stays.assigned, stays.revoked));
      }
    }
  }

  private void staticMemberInUse() throws Exception {
    String topic = broker.topic(1);
    String group = group();
    try (GroupTests.Member holder = member(topic, group, "group.instance.id", "same")) {
      GroupTests.pollUntil("its partition", () -> holder.owned() == 1, holder);
      try (GroupTests.Member other = member(topic, group, "group.instance.id", "same")) {
        Check.fails("another takes its instance id", UnreleasedInstanceIdException.class, () -> {
          GroupTests.pollUntil("refused", () -> false, holder, other);
          return null;
        });
      }
      holder.poll();
      Check.equal("partitions of the holder", 1, holder.owned());
    }
  }

  private void newPartitions() throws Exception {
    String topic = Broker.topicName();
    try (Admin admin = broker.admin(); GroupTests.Member member = member(topic, group(), "allow.auto.create.topics", "false")) {
      for (int i = 0; i < 5; i++) {
        member.poll();
      }
      Broker.create(admin, topic, 1);
      GroupTests.pollUntil("the topic that came", () -> member.owned() == 1, member);
      admin.createPartitions(java.util.Map.of(topic, org.apache.kafka.clients.admin.NewPartitions.increaseTo(3))).all().get();
      GroupTests.pollUntil("the partitions that came", () -> member.owned() == 3, member);
    }
  }

  /** A classic group takes in a member of the new protocol while it works, and is classic again when that has left. */
  private void upgradeAndDowngrade() throws Exception {
    String topic = broker.topic(PARTITIONS);
    String group = group();
    try (Admin admin = broker.admin();
        GroupTests.Member old = new GroupTests.Member(broker, topic, "group.id", group, "group.protocol", "classic",
            "heartbeat.interval.ms", "200", "session.timeout.ms", "10000")) {
      GroupTests.pollUntil("the old one has all", () -> old.owned() == PARTITIONS, old);
      Check.equal("kind before", GroupType.CLASSIC, kind(admin, group));
      try (GroupTests.Member young = member(topic, group)) {
        GroupTests.pollUntil("both have half", () -> old.owned() == 2 && young.owned() == 2, old, young);
        Check.equal("partitions of both", PARTITIONS, owned(old, young));
        Check.equal("kind meanwhile", GroupType.CONSUMER, kind(admin, group));
        for (int partition = 0; partition < PARTITIONS; partition++) {
          broker.fill(topic, partition, 5);
        }
        GroupTests.pollUntil("all records", () -> old.records.size() + young.records.size() >= 20, old, young);
        Check.equal("records in all", 20, old.records.size() + young.records.size());
        old.consumer.commitSync();
        young.consumer.commitSync();
      }
      GroupTests.pollUntil("the old one has all again", () -> old.owned() == PARTITIONS, old);
      Check.equal("kind after", GroupType.CLASSIC, kind(admin, group));
      int before = old.records.size();
      broker.fill(topic, 1, 5);
      GroupTests.pollUntil("the records after", () -> old.records.size() >= before + 5, old);
      Check.equal("records after", before + 5, old.records.size());
    }
  }

  private static GroupType kind(Admin admin, String group) throws Exception {
    return admin.listGroups().all().get().stream().filter(listed -> listed.groupId().equals(group)).findFirst()
        .orElseThrow().type().orElseThrow();
  }

  private void admin() throws Exception {
    String topic = broker.topic(2);
    String group = group();
    broker.fill(topic, 0, 10);
    try (Admin admin = broker.admin()) {
      try (GroupTests.Member member = member(topic, group, "client.id", "its-name", "client.rack", "its-rack")) {
        GroupTests.pollUntil("all records", () -> member.records.size() == 10, member);
        member.consumer.commitSync();
        var described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
        Check.equal("kind", GroupType.CONSUMER, described.type());
        Check.equal("state", "Stable", described.groupState().toString());
        Check.equal("assignor", "uniform", described.partitionAssignor());
        Check.equal("epochs", described.groupEpoch(), described.targetAssignmentEpoch());
        var only = described.members().iterator().next();
        Check.equal("client", "its-name", only.clientId());
        Check.equal("the member's epoch", described.groupEpoch(), only.memberEpoch());
        Check.equal("speaks the new protocol", true, only.upgraded().orElseThrow());
        Set<TopicPartition> both = Set.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1));
        Check.equal("assignment", both, only.assignment().topicPartitions());
        Check.equal("target", both, only.targetAssignment().orElseThrow().topicPartitions());
        Check.fails("delete a group with members", GroupNotEmptyException.class,
            () -> admin.deleteConsumerGroups(List.of(group)).all().get());
      }
      Check.equal("state", "Empty", admin.describeConsumerGroups(List.of(group)).all().get().get(group).groupState().toString());
      admin.deleteConsumerGroups(List.of(group)).all().get();
    }
  }
}
