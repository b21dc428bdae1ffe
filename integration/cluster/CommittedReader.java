import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

/**
 * Reads what is committed in a topic from its beginning on, in a thread of its own until it is closed. Values are whole
 * numbers with "!" after them, ascending in each partition: anything else is a failure, and so is a value that comes twice.
 */
final class CommittedReader implements AutoCloseable {
  private final Consumer<byte[], byte[]> consumer;
  private final Thread thread;
  private final TreeSet<Integer> values = new TreeSet<>();
  private final Map<Integer, Integer> last = new HashMap<>();
  private volatile boolean stopping;
  private Throwable failed;

  CommittedReader(Broker brokers, String topic, int partitions) {
    // A position that isn't there any more must not go unnoticed, and none is without one.
    consumer = brokers.consumer("isolation.level", "read_committed", "auto.offset.reset", "none", "request.timeout.ms",
        "5000", "default.api.timeout.ms", "40000", "metadata.max.age.ms", "2000");
    thread = new Thread(() -> read(topic, partitions));
    thread.start();
  }

  private void read(String topic, int partitions) {
    try (consumer) {
      List<TopicPartition> all = new ArrayList<>();
      for (int partition = 0; partition < partitions; partition++) {
        all.add(new TopicPartition(topic, partition));
      }
      consumer.assign(all);
      all.forEach(partition -> consumer.seek(partition, 0));
      while (!stopping) {
        consumer.poll(Duration.ofMillis(100)).forEach(this::note);
      }
    } catch (KafkaException | AssertionError thrown) {
      fail(thrown);
    }
  }

  private synchronized void note(ConsumerRecord<byte[], byte[]> record) {
    String text = new String(record.value());
    String where = text + " at " + record.partition() + ":" + record.offset();
    Check.that(where + " is no number that was transformed once", text.matches("\\d+!"));
    int value = Integer.parseInt(text.substring(0, text.length() - 1));
    Check.that(where + " comes a second time", values.add(value));
    Integer before = last.put(record.partition(), value);
    Check.that(where + " comes after " + before, before == null || before < value);
    notifyAll();
  }

  private synchronized void fail(Throwable thrown) {
    failed = thrown;
    notifyAll();
  }

  /** Waits until it has so many values; meanwhile none of these may fail. */
  synchronized void until(int count, Pipeline... pipelines) throws Exception {
    long end = System.currentTimeMillis() + ThreeBrokers.LIMIT_MS;
    while (values.size() < count) {
      if (failed != null) {
        throw new AssertionError(failed.toString(), failed);
      }
      for (Pipeline one : pipelines) {
        one.check();
      }
      long left = end - System.currentTimeMillis();
      Check.that(values.size() + " of " + count + " values committed within " + ThreeBrokers.LIMIT_MS + " ms", left > 0);
      wait(Math.min(left, 1000));
    }
  }

  synchronized TreeSet<Integer> values() {
    return new TreeSet<>(values);
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
