import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;

/**
 * An idempotent producer that sends "0", "1", "2", … to the partitions of a topic in turn, with acks=all, about a thousand
 * a second until it is closed. It gives up on no record, whatever happens to the brokers.
 */
final class Load implements AutoCloseable {
  private static final int IN_FLIGHT = 20;
  private static final long LIMIT_MS = 60_000;
  private static final long PAUSE_NS = 1_000_000;

  private final Producer<byte[], byte[]> producer;
  private final Semaphore room = new Semaphore(IN_FLIGHT);
  private final List<Integer> acknowledged = new ArrayList<>();
  private final Thread thread;
  private volatile boolean stopping;
  private Exception failed;

  Load(Broker brokers, String topic, int partitions) {
    producer = brokers.producer("acks", "all", "enable.idempotence", "true", "linger.ms", "0", "delivery.timeout.ms",
        "60000", "request.timeout.ms", "5000", "metadata.max.age.ms", "2000", "retry.backoff.ms", "50");
    thread = new Thread(() -> send(topic, partitions));
    thread.start();
  }

  private void send(String topic, int partitions) {
    for (int next = 0; !stopping; next++) {
      int value = next;
      room.acquireUninterruptibly();
      LockSupport.parkNanos(PAUSE_NS);
      byte[] bytes = Integer.toString(value).getBytes();
      producer.send(new ProducerRecord<>(topic, value % partitions, null, bytes), (metadata, thrown) -> {
        room.release();
        note(value, thrown);
      });
    }
  }

  private synchronized void note(int value, Exception thrown) {
    if (thrown == null) {
      acknowledged.add(value);
    } else if (failed == null) {
      failed = thrown;
    }
    notifyAll();
  }

  /** Waits until so many more are acknowledged than there are now. */
  synchronized void more(int count) throws Exception {
    int wanted = acknowledged.size() + count;
    long end = System.currentTimeMillis() + LIMIT_MS;
    while (acknowledged.size() < wanted) {
      if (failed != null) {
        throw failed;
      }
      long left = end - System.currentTimeMillis();
      Check.that("acknowledged within " + LIMIT_MS + " ms: " + acknowledged.size() + " of " + wanted, left > 0);
      wait(left);
    }
  }

  /** The values that were acknowledged, in the order in which that happened. */
  synchronized List<Integer> acknowledged() throws Exception {
    if (failed != null) {
      throw failed;
    }
    return List.copyOf(acknowledged);
  }

  /** Sends no more, and waits for what is on its way. */
  void finish() throws InterruptedException {
    stopping = true;
    thread.join();
    producer.close();
  }

  @Override
  public void close() {
    try {
      finish();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
