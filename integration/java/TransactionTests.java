import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;

/** Transactional producers, and readers of what they have committed. */
final class TransactionTests {
  private final Broker broker;

  private TransactionTests(Broker broker) {
    this.broker = broker;
  }

  static void addTo(Suite suite, Broker broker) {
    TransactionTests tests = new TransactionTests(broker);
    suite.test("transaction_commit_and_abort", tests::commitAndAbort);
    suite.test("transaction_over_partitions", tests::overPartitions);
    suite.test("transaction_fenced", tests::fenced);
    suite.test("transaction_timed_out", tests::timedOut);
    suite.test("transaction_fence_producers", tests::fenceProducers);
    suite.test("transaction_empty", tests::empty);
    suite.test("transaction_offsets", tests::offsets);
    suite.test("transaction_offsets_pending", tests::offsetsPending);
    suite.test("transaction_consume_transform_produce", tests::consumeTransformProduce);
    suite.test("transaction_admin", tests::admin);
    suite.test("transaction_reader_waits", tests::readerWaits);
  }

  private static String transactionalId() {
    return "txn-" + UUID.randomUUID();
  }

  private Producer<byte[], byte[]> begun(String id, String... overrides) {
    List<String> settings = new ArrayList<>(List.of("transactional.id", id));
    settings.addAll(List.of(overrides));
    Producer<byte[], byte[]> producer = broker.producer(settings.toArray(String[]::new));
    producer.initTransactions();
    producer.beginTransaction();
    return producer;
  }

  private static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
    return new ProducerRecord<>(topic, partition, null, value.getBytes(StandardCharsets.UTF_8));
  }

  private List<String> committed(String topic, int partitions, int count) {
    try (Consumer<byte[], byte[]> consumer = broker.consumer("isolation.level", "read_committed")) {
      List<TopicPartition> all = new ArrayList<>();
      for (int i = 0; i < partitions; i++) {
        all.add(new TopicPartition(topic, i));
      }
      consumer.assign(all);
      List<String> values = new ArrayList<>();
      for (ConsumerRecord<byte[], byte[]> record : Broker.read(consumer, count)) {
        values.add(new String(record.value(), StandardCharsets.UTF_8));
      }
      return values;
    }
  }

  private void commitAndAbort() throws Exception {
    String topic = broker.topic(1);
    List<String> expected = new ArrayList<>();
    try (Producer<byte[], byte[]> producer = broker.producer("transactional.id", transactionalId())) {
      producer.initTransactions();
      for (int i = 0; i < 20; i++) {
        producer.beginTransaction();
        for (int j = 0; j < 5; j++) {
          producer.send(record(topic, 0, i + "-" + j));
        }
        if (i % 3 == 1) {
          // What isn't sent yet is dropped otherwise.
          producer.flush();
          producer.abortTransaction();
        } else {
          producer.commitTransaction();
          for (int j = 0; j < 5; j++) {
            expected.add(i + "-" + j);
          }
        }
      }
    }
    Check.equal("committed values", expected, committed(topic, 1, expected.size()));
    try (Consumer<byte[], byte[]> consumer = broker.consumer()) {
      consumer.assign(List.of(new TopicPartition(topic, 0)));
      Broker.read(consumer, 100);
    }
  }

  /** All or nothing over three partitions and two topics. */
  private void overPartitions() throws Exception {
    String topic = broker.topic(3);
    String other = broker.topic(1);
    try (Producer<byte[], byte[]> producer = broker.producer("transactional.id", transactionalId())) {
      producer.initTransactions();
      for (String outcome : List.of("abort", "commit")) {
        producer.beginTransaction();
        for (int partition = 0; partition < 3; partition++) {
          producer.send(record(topic, partition, outcome));
        }
        producer.send(record(other, 0, outcome));
        if (outcome.equals("abort")) {
          producer.flush();
          producer.abortTransaction();
        } else {
          producer.commitTransaction();
        }
      }
    }
    Check.equal("values", List.of("commit", "commit", "commit"), committed(topic, 3, 3));
    Check.equal("values of the other topic", List.of("commit"), committed(other, 1, 1));
  }

  private void fenced() throws Exception {
    String topic = broker.topic(1);
    String id = transactionalId();
    try (Producer<byte[], byte[]> old = begun(id)) {
      old.send(record(topic, 0, "old")).get();
      try (Producer<byte[], byte[]> young = begun(id)) {
        KafkaException refused = null;
        try {
          old.send(record(topic, 0, "late")).get();
          old.commitTransaction();
        } catch (KafkaException failed) {
          refused = failed;
        } catch (java.util.concurrent.ExecutionException failed) {
          refused = (KafkaException) failed.getCause();
        }
        Check.that("the old producer failed with " + refused,
            refused instanceof ProducerFencedException || refused instanceof InvalidProducerEpochException);
        young.send(record(topic, 0, "young")).get();
        young.commitTransaction();
      }
    }
    Check.equal("values", List.of("young"), committed(topic, 1, 1));
  }

  private interface Call {
    void on(Producer<byte[], byte[]> producer) throws Exception;
  }

  /** An administrator fences a producer, and whatever it does next tells it so. */
  private void fenceProducers() throws Exception {
    String topic = broker.topic(1);
    String group = "group-" + UUID.randomUUID();
    String id = transactionalId();
    Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1));
    Map<String, Call> calls = Map.of(
        "send", producer -> producer.send(record(topic, 0, "late")).get(),
        "send offsets", producer -> {
          try (Consumer<byte[], byte[]> consumer = broker.consumer("group.id", group)) {
            producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
          }
        },
        "commit", Producer::commitTransaction);
    try (Admin admin = broker.admin()) {
      for (Map.Entry<String, Call> call : calls.entrySet()) {
        try (Producer<byte[], byte[]> producer = begun(id)) {
          producer.send(record(topic, 0, "lost")).get();
          admin.fenceProducers(List.of(id)).all().get();
          Throwable refused = null;
          try {
            call.getValue().on(producer);
            producer.commitTransaction();
          } catch (java.util.concurrent.ExecutionException failed) {
            refused = failed.getCause();
          } catch (KafkaException failed) {
            refused = failed;
          }
          Check.that(call.getKey() + " failed with " + refused,
              refused instanceof ProducerFencedException || refused instanceof InvalidProducerEpochException);
        }
      }
      try (Producer<byte[], byte[]> producer = begun(id)) {
        producer.send(record(topic, 0, "kept")).get();
        producer.commitTransaction();
      }
      Check.equal("values", List.of("kept"), committed(topic, 1, 1));
      Check.equal("offsets", Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }
  }

  /** Transactions in which nothing happens, between others. */
  private void empty() throws Exception {
    String topic = broker.topic(1);
    try (Producer<byte[], byte[]> producer = begun(transactionalId())) {
      producer.send(record(topic, 0, "first")).get();
      producer.commitTransaction();
      for (int i = 0; i < 3; i++) {
        producer.beginTransaction();
        producer.abortTransaction();
        producer.beginTransaction();
        producer.commitTransaction();
      }
      producer.beginTransaction();
      producer.send(record(topic, 0, "second")).get();
      producer.commitTransaction();
    }
    Check.equal("values", List.of("first", "second"), committed(topic, 1, 2));
  }

  /** Kafka looks for transactions that take too long every 10 s. */
  private void timedOut() throws Exception {
    String topic = broker.topic(1);
    try (Producer<byte[], byte[]> producer = begun(transactionalId(), "transaction.timeout.ms", "1000");
        Consumer<byte[], byte[]> reader = broker.consumer("isolation.level", "read_committed")) {
      producer.send(record(topic, 0, "lost")).get();
      broker.fill(topic, 0, 1);
      reader.assign(List.of(new TopicPartition(topic, 0)));
      Check.equal("value", "0", new String(Broker.read(reader, 1).get(0).value(), StandardCharsets.UTF_8));
      try {
        producer.commitTransaction();
        throw new AssertionError("a transaction was committed after its timeout");
      } catch (KafkaException refused) {
        // Fenced, or to be aborted: by the version of transactions.
      }
    }
  }

  private void offsets() throws Exception {
    String topic = broker.topic(1);
    String group = "group-" + UUID.randomUUID();
    TopicPartition partition = new TopicPartition(topic, 0);
    broker.fill(topic, 0, 10);
    try (Producer<byte[], byte[]> producer = begun(transactionalId());
        Consumer<byte[], byte[]> consumer = broker.consumer("group.id", group)) {
      consumer.assign(List.of(partition));
      producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7, "note")), consumer.groupMetadata());
      producer.abortTransaction();
      Check.equal("offset after an abort", null, consumer.committed(Set.of(partition)).get(partition));
      producer.beginTransaction();
      producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(5, "note")), consumer.groupMetadata());
      producer.commitTransaction();
      OffsetAndMetadata committed = consumer.committed(Set.of(partition)).get(partition);
      Check.equal("offset after a commit", new OffsetAndMetadata(5, "note"), committed);
    }
  }

  /** While a transaction with offsets is open, whoever wants stable ones waits in vain, and others get what there was before. */
  private void offsetsPending() throws Exception {
    String topic = broker.topic(1);
    String group = "group-" + UUID.randomUUID();
    TopicPartition partition = new TopicPartition(topic, 0);
    Set<TopicPartition> only = Set.of(partition);
    var stable = new ListConsumerGroupOffsetsOptions().requireStable(true);
    try (Admin admin = broker.admin(); Consumer<byte[], byte[]> consumer = broker.consumer("group.id", group)) {
      consumer.assign(only);
      consumer.commitSync(Map.of(partition, new OffsetAndMetadata(3)));
      try (Producer<byte[], byte[]> producer = begun(transactionalId())) {
        producer.sendOffsetsToTransaction(Map.of(partition, new OffsetAndMetadata(7)), consumer.groupMetadata());
        Check.fails("a consumer reads them", TimeoutException.class, () -> consumer.committed(only, Duration.ofMillis(1500)));
        Check.equal("stable offsets for administrators", Map.of(),
            admin.listConsumerGroupOffsets(group, stable).partitionsToOffsetAndMetadata().get());
        Check.equal("offset for administrators", 3L,
            admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(partition).offset());
        producer.abortTransaction();
      }
      Check.equal("offset after the abort", 3L, consumer.committed(only).get(partition).offset());
    }
  }

  /** Doubles numbers from one topic into another; half of the producers are dropped in the middle of a transaction. */
  private void consumeTransformProduce() throws Exception {
    String from = broker.topic(2);
    String to = broker.topic(2);
    String group = "group-" + UUID.randomUUID();
    String id = transactionalId();
    broker.fill(from, 0, 20);
    broker.fill(from, 1, 20);
    int read = 0;
    for (int run = 0; read < 40; run++) {
      Check.that("done after " + run + " runs", run < 60);
      try (Producer<byte[], byte[]> producer = begun(id, "transaction.timeout.ms", "20000");
          Consumer<byte[], byte[]> consumer = broker.consumer("group.id", group, "max.poll.records", "9",
              "isolation.level", "read_committed", "session.timeout.ms", "10000")) {
        consumer.assign(List.of(new TopicPartition(from, 0), new TopicPartition(from, 1)));
        ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(5));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<byte[], byte[]> record : records) {
          int number = Integer.parseInt(new String(record.value(), StandardCharsets.UTF_8));
          producer.send(record(to, record.partition(), Integer.toString(2 * number)));
          offsets.put(new TopicPartition(from, record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (run % 2 == 0) {
          producer.flush();
          continue;
        }
        producer.commitTransaction();
        read += records.count();
      }
    }
    List<Integer> expected = new ArrayList<>();
    for (int i = 0; i < 20; i++) {
      expected.add(2 * i);
      expected.add(2 * i);
    }
    List<Integer> found = new ArrayList<>(committed(to, 2, 40).stream().map(Integer::parseInt).sorted().toList());
    Check.equal("numbers", expected, found);
  }

  private void admin() throws Exception {
    String topic = broker.topic(1);
    String id = transactionalId();
    try (Admin admin = broker.admin(); Producer<byte[], byte[]> producer = begun(id)) {
      producer.send(record(topic, 0, "value")).get();
      TransactionDescription open = admin.describeTransactions(List.of(id)).description(id).get();
      Check.equal("state", TransactionState.ONGOING, open.state());
      Check.equal("partitions", Set.of(new TopicPartition(topic, 0)), open.topicPartitions());
      Check.that("the transaction is listed", admin.listTransactions().all().get().stream()
          .anyMatch(listed -> listed.transactionalId().equals(id) && listed.producerId() == open.producerId()));
      TopicPartition partition = new TopicPartition(topic, 0);
      long start = admin.describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0)
          .currentTransactionStartOffset().orElse(-1);
      Check.equal("start of the open transaction", 0L, start);
      producer.commitTransaction();
      Broker.settled(() -> Check.equal("state after the commit", TransactionState.COMPLETE_COMMIT,
          admin.describeTransactions(List.of(id)).description(id).get().state()));
    }
  }

  private void readerWaits() throws Exception {
    String topic = broker.topic(1);
    try (Producer<byte[], byte[]> producer = begun(transactionalId());
        Consumer<byte[], byte[]> reader = broker.consumer("isolation.level", "read_committed")) {
      producer.send(record(topic, 0, "first")).get();
      broker.fill(topic, 0, 1);
      reader.assign(List.of(new TopicPartition(topic, 0)));
      Check.equal("records before the end", 0, reader.poll(Duration.ofMillis(700)).count());
      Check.equal("end that is committed", Map.of(new TopicPartition(topic, 0), 0L),
          reader.endOffsets(List.of(new TopicPartition(topic, 0))));
      producer.commitTransaction();
      Check.equal("value", "first", new String(Broker.read(reader, 2).get(0).value(), StandardCharsets.UTF_8));
    }
  }
}
