/**
 * Runs Apache Kafka's own Java clients against the broker at HULD_BOOTSTRAP.
 *
 * <p>With an argument, only the tests whose name contains it. Exits with 1 if a test failed.
 */
public final class Main {
  private static final long LIMIT_SECONDS = 60;

  private Main() {}

  public static void main(String[] arguments) throws Exception {
    String bootstrap = System.getenv("HULD_BOOTSTRAP");
    if (bootstrap == null || bootstrap.isEmpty()) {
      System.err.println("set HULD_BOOTSTRAP to the host:port of the broker to test");
      System.exit(2);
    }
    Suite suite = new Suite(LIMIT_SECONDS);
    Broker broker = new Broker(bootstrap, "classic");
    AdminTests.addTo(suite, broker);
    ProducerTests.addTo(suite, broker);
    ConsumerTests.addTo(suite, broker, "");
    LongPollTests.addTo(suite, broker, "");
    GroupTests.addTo(suite, broker);
    ConsumerGroupTests.addTo(suite, broker);
    TransactionTests.addTo(suite, broker);
    // The newer consumer has fetch code and threads of its own, so it goes through the same list.
    Broker threaded = new Broker(bootstrap, "consumer");
    if (Broker.clientIsOfThree()) {
      suite.test("threaded_consumer", () -> {
        throw new Suite.Skip("kafka-clients 3.9 has a preview of it, which fails with null pointers");
      });
    } else {
      ConsumerTests.addTo(suite, threaded, "_threaded");
      LongPollTests.addTo(suite, threaded, "_threaded");
    }
    int failed = suite.run(arguments.length > 0 ? arguments[0] : "");
    System.exit(failed == 0 ? 0 : 1);
  }
}
