import static org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/**
 * Reads values from one topic as a member of a group, and writes each, with "!" after it, to the same partition of another
 * topic: a batch is a transaction, with the offsets in it. Works in a thread of its own until it is finished or dropped.
 *
 * <p>What a client may be told to do over it does: it aborts, goes back to what is committed and goes on. Whatever else it
 * gets ends it.
 */
final class Pipeline implements AutoCloseable {
  /** Where a transaction can be made to pause. */
  enum Step {
    BEGUN,
    SENT,
    OFFSETS_SENT
  }

  /** How it may end: as a program does that is told to, or as one that dies. */
  private enum End {
    CLOSED,
    DROPPED
  }

  private static final class Died extends RuntimeException {
    private static final long serialVersionUID = 1;
  }

  private final Consumer<byte[], byte[]> consumer;
  private final Producer<byte[], byte[]> producer;
  private final String to;
  private final Thread thread;
  private volatile End end;
  private Step pauseAt;
  private boolean paused;
  private Exception failed;
  private int owned;

  /** `settings` are those of the member that reads. */
  Pipeline(Broker brokers, String from, String to, String transactionalId, String... settings) {
    this.to = to;
    List<String> all = new ArrayList<>(List.of(settings));
    all.addAll(List.of("isolation.level", "read_committed", "max.poll.records", "10", "request.timeout.ms", "5000",
        "default.api.timeout.ms", "20000", "metadata.max.age.ms", "2000"));
    consumer = brokers.consumer(all.toArray(String[]::new));
    producer = brokers.producer("transactional.id", transactionalId, "linger.ms", "0", "request.timeout.ms", "5000",
        "delivery.timeout.ms", "40000", "max.block.ms", "20000", "metadata.max.age.ms", "2000");
    thread = new Thread(() -> work(from));
    thread.start();
  }

  private void work(String from) {
    try {
      retried(producer::initTransactions);
      consumer.subscribe(List.of(from));
      while (end == null) {
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
        note(consumer.assignment().size());
        if (!records.isEmpty()) {
          transform(records);
        }
      }
    } catch (Died died) {
      // Nobody takes leave of anything.
    } catch (KafkaException thrown) {
      fail(thrown);
    } finally {
      // Without time to close, the transaction stays as it is.
      boolean dies = end == End.DROPPED;
      producer.close(dies ? Duration.ZERO : Duration.ofSeconds(20));
      consumer.close(dies ? CloseOptions.timeout(Duration.ZERO).withGroupMembershipOperation(REMAIN_IN_GROUP)
          : CloseOptions.timeout(Duration.ofSeconds(20)));
    }
  }

  private void transform(ConsumerRecords<byte[], byte[]> records) {
    try {
      producer.beginTransaction();
      step(Step.BEGUN);
      Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
      for (ConsumerRecord<byte[], byte[]> record : records) {
        byte[] value = (new String(record.value()) + "!").getBytes();
        producer.send(new ProducerRecord<>(to, record.partition(), null, value));
        offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
      }
      producer.flush();
      step(Step.SENT);
      producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
      step(Step.OFFSETS_SENT);
      retried(producer::commitTransaction);
    } catch (ProducerFencedException | InvalidProducerEpochException | FencedInstanceIdException fenced) {
      throw fenced;
    } catch (KafkaException refused) {
      retried(producer::abortTransaction);
      retried(this::rewind);
    }
  }

  /** Goes back to what is committed. */
  private void rewind() {
    Set<TopicPartition> assigned = consumer.assignment();
    consumer.committed(assigned).forEach((partition, offset) -> {
      if (offset == null) {
        consumer.seekToBeginning(Set.of(partition));
      } else {
        consumer.seek(partition, offset);
      }
    });
  }

  /** Does it again as often as it is late. */
  private void retried(Runnable action) {
    long limit = System.currentTimeMillis() + ThreeBrokers.LIMIT_MS;
    while (true) {
      try {
        action.run();
        return;
      } catch (TimeoutException late) {
        if (end != null || System.currentTimeMillis() > limit) {
          throw late;
        }
      }
    }
  }

  private synchronized void step(Step reached) {
    if (pauseAt == reached) {
      paused = true;
      notifyAll();
      while (paused) {
        try {
          wait();
        } catch (InterruptedException interrupted) {
          throw new Died();
        }
      }
    }
    if (end == End.DROPPED) {
      throw new Died();
    }
  }

  private synchronized void fail(Exception thrown) {
    failed = thrown;
    notifyAll();
  }

  private synchronized void note(int partitions) {
    owned = partitions;
    notifyAll();
  }

  /** Waits until it has so many partitions. */
  synchronized void untilOwned(int partitions) throws Exception {
    waitUntil(() -> owned == partitions, partitions + " partitions");
  }

  /** Has the next transaction that comes to this step wait there, until it is resumed. */
  synchronized void pauseAt(Step step) {
    pauseAt = step;
  }

  /** Waits until a transaction has come to where it is to pause. */
  synchronized void untilPaused() throws Exception {
    waitUntil(() -> paused, "a transaction that is " + pauseAt);
  }

  private void waitUntil(BooleanSupplier holds, String what) throws Exception {
    long limit = System.currentTimeMillis() + ThreeBrokers.LIMIT_MS;
    while (!holds.getAsBoolean()) {
      check();
      long left = limit - System.currentTimeMillis();
      Check.that(what + ": not within " + ThreeBrokers.LIMIT_MS + " ms", left > 0);
      wait(left);
    }
  }

  /** Lets the transaction that waits go on. */
  synchronized void resume() {
    pauseAt = null;
    paused = false;
    notifyAll();
  }

  /** Fails with what has ended it, if something has. */
  synchronized void check() throws Exception {
    if (failed != null) {
      throw failed;
    }
  }

  /** Waits until something has ended it, and gives that. */
  synchronized Exception failure() throws InterruptedException {
    long limit = System.currentTimeMillis() + ThreeBrokers.LIMIT_MS;
    while (failed == null && limit > System.currentTimeMillis()) {
      wait(limit - System.currentTimeMillis());
    }
    return failed;
  }

  /** Ends it in the middle of its transaction, as a process ends that is killed. */
  void drop() throws Exception {
    end = End.DROPPED;
    resume();
    thread.join();
    check();
  }

  /** Ends it in good order, and fails with what has failed in it. */
  void finish() throws Exception {
    close();
    check();
  }

  @Override
  public void close() {
    if (end == null) {
      end = End.CLOSED;
    }
    resume();
    try {
      thread.join();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }
}
