import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.common.GroupType;

/** Groups of the consumer protocol (KIP-848) whose coordinator dies and comes back. */
final class ClusterConsumerGroupTests {
  private static final int PARTITIONS = 6;

  private final ThreeBrokers three;
  private final Broker brokers;

  private ClusterConsumerGroupTests(ThreeBrokers three) {
    this.three = three;
    brokers = three.clients;
  }

  static void addTo(Suite suite, ThreeBrokers three) {
    ClusterConsumerGroupTests tests = new ClusterConsumerGroupTests(three);
    three.add(suite, "consumer_group_upgraded_while_coordinators_die", tests::upgradedWhileCoordinatorsDie);
  }

  /** Two classic members give way to two of the consumer protocol, one by one, and each step has its coordinator die. */
  private void upgradedWhileCoordinatorsDie() throws Exception {
    String group = "cluster-" + UUID.randomUUID();
    try (Admin admin = three.admin()) {
      String topic = three.topic(admin, PARTITIONS);
      try (Load load = new Load(brokers, topic, PARTITIONS);
          Member first = Member.classic(brokers, group, topic);
          Member second = Member.classic(brokers, group, topic)) {
        shared(3, first, second);
        load.more(200);
        try (Member third = Member.ofConsumerProtocol(brokers, group, topic)) {
          shared(2, first, second, third);
          Check.equal("kind of the group with both protocols", GroupType.CONSUMER, described(admin, group).type());
          int coordinator = described(admin, group).coordinator().id();
          three.steering.kill(coordinator);
          load.more(200);
          untilRead(load.acknowledged(), first, second, third);
          Check.that("the killed broker " + coordinator + " is the coordinator",
              described(admin, group).coordinator().id() != coordinator);
          shared(2, first, second, third);
          three.steering.start(coordinator);
          ThreeBrokers.untilInSync(admin, ThreeBrokers.COUNT, topic, "__consumer_offsets");
          first.finish();
          shared(3, second, third);
          three.crash(described(admin, group).coordinator().id());
          second.finish();
          shared(6, third);
          try (Member fourth = Member.ofConsumerProtocol(brokers, group, topic)) {
            shared(3, third, fourth);
            ThreeBrokers.untilInSync(admin, ThreeBrokers.COUNT, topic, "__consumer_offsets");
            ConsumerGroupDescription before = described(admin, group);
            three.crash(before.coordinator().id());
            load.more(200);
            load.finish();
            untilRead(load.acknowledged(), first, second, third, fourth);
            ConsumerGroupDescription after = described(admin, group);
            Check.equal("epoch, which the next coordinator must know", before.groupEpoch(), after.groupEpoch());
            Check.equal("members", 2, after.members().size());
            fourth.finish();
          }
          third.finish();
        }
      }
      Check.equal("offsets of the whole topic", PARTITIONS,
          admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().size());
    }
  }

  private static ConsumerGroupDescription described(Admin admin, String group) throws Exception {
    return admin.describeConsumerGroups(List.of(group)).all().get().get(group);
  }

  private static void shared(int each, Member... members) throws Exception {
    for (Member member : members) {
      member.until(each + " partitions each", one -> one.owned() == each);
    }
  }

  private static void untilRead(List<Integer> wanted, Member... members) throws Exception {
    members[members.length - 1].until("all that was acknowledged", last -> {
      Set<Integer> values = new TreeSet<>();
      for (Member member : members) {
        values.addAll(member.values());
      }
      return values.containsAll(wanted);
    });
  }
}
