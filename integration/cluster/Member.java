import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RebalanceInProgressException;

/** A member of a group that consumes, and commits after every poll, until it is closed. */
final class Member implements AutoCloseable {
  private static final long LIMIT_MS = 60_000;

  private final Consumer<byte[], byte[]> consumer;
  private final Thread thread;
  private final List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
  private volatile boolean stopping;
  private int owned;
  private Exception failed;

  private Member(Broker brokers, String group, String topic, String... settings) {
    List<String> all = new ArrayList<>(List.of(settings));
    all.addAll(List.of("group.id", group, "request.timeout.ms", "5000", "default.api.timeout.ms", "40000",
        "metadata.max.age.ms", "2000"));
    consumer = brokers.consumer(all.toArray(String[]::new));
    thread = new Thread(() -> consume(topic));
    thread.start();
  }

  /** A member of the classic protocol, with the cooperative assignor. */
  static Member classic(Broker brokers, String group, String topic) {
    return new Member(brokers, group, topic, "session.timeout.ms", "10000", "heartbeat.interval.ms", "300",
        "partition.assignment.strategy", CooperativeStickyAssignor.class.getName());
  }

  /** A member of the consumer protocol (KIP-848). */
  static Member ofConsumerProtocol(Broker brokers, String group, String topic) {
    return new Member(brokers, group, topic, "group.protocol", "consumer");
  }

  private void consume(String topic) {
    try (consumer) {
      consumer.subscribe(List.of(topic));
      while (!stopping) {
        List<ConsumerRecord<byte[], byte[]>> polled = new ArrayList<>();
        consumer.poll(Duration.ofMillis(100)).forEach(polled::add);
        note(polled);
        commit();
      }
      commit();
    } catch (KafkaException thrown) {
      fail(thrown);
    }
  }

  private void commit() {
    try {
      consumer.commitSync();
    } catch (RebalanceInProgressException | CommitFailedException late) {
      // The partitions are moving; whoever gets them reads on from the commit before.
    }
  }

  private synchronized void note(List<ConsumerRecord<byte[], byte[]>> polled) {
    records.addAll(polled);
    owned = consumer.assignment().size();
    notifyAll();
  }

  private synchronized void fail(Exception thrown) {
    failed = thrown;
    notifyAll();
  }

  synchronized int owned() {
    return owned;
  }

  /** The values that it has read. */
  synchronized TreeSet<Integer> values() {
    TreeSet<Integer> values = new TreeSet<>();
    records.forEach(record -> values.add(Integer.valueOf(new String(record.value()))));
    return values;
  }

  /** Waits until it holds, looking again after each of its polls. */
  synchronized void until(String what, Predicate<Member> holds) throws Exception {
    long end = System.currentTimeMillis() + LIMIT_MS;
    while (!holds.test(this)) {
      if (failed != null) {
        throw failed;
      }
      long left = end - System.currentTimeMillis();
      Check.that(what + ": not within " + LIMIT_MS + " ms; it has " + owned + " partitions, " + records.size()
          + " records", left > 0);
      wait(left);
    }
  }

  /** Lets it leave its group, and fails with what has failed in it. */
  void finish() throws Exception {
    close();
    synchronized (this) {
      if (failed != null) {
        throw failed;
      }
    }
  }

  @Override
  public void close() {
    stopping = true;
    try {
      thread.join();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
