/**
 * Runs Apache Kafka's Java clients against three brokers, which it stops, kills, freezes and starts through
 * HULD_CONTROL.
 *
 * <p>With an argument, only the tests whose name contains it. Exits with 1 if a test failed.
 */
public final class ClusterMain {
  private static final long LIMIT_SECONDS = 150;

  private ClusterMain() {}

  public static void main(String[] arguments) {
    Suite suite = new Suite(LIMIT_SECONDS);
    Broker brokers = new Broker(System.getenv("HULD_BOOTSTRAP"), "classic");
    ThreeBrokers three = new ThreeBrokers(brokers, new Steering(System.getenv("HULD_CONTROL")));
    // What one broker is tested for as well, over coordinators and leaders that are on different ones.
    TransactionTests.addTo(suite, brokers);
    ConsumerGroupTests.addTo(suite, brokers);
    ClusterTests.addTo(suite, three);
    ClusterTransactionTests.addTo(suite, three);
    ClusterConsumerGroupTests.addTo(suite, three);
    int failed = suite.run(arguments.length > 0 ? arguments[0] : "");
    System.exit(failed == 0 ? 0 : 1);
  }
}
