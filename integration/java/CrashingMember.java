import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.apache.kafka.clients.consumer.Consumer;

/**
 * A member of a group of the consumer protocol that polls until its process is killed, since a consumer within a test can't
 * go without a word. It prints a line once it has partitions. Arguments: bootstrap servers, group, topic.
 */
public final class CrashingMember {
  private CrashingMember() {}

  public static void main(String[] arguments) {
    Broker broker = new Broker(arguments[0], "consumer");
    try (Consumer<byte[], byte[]> consumer = broker.consumer("group.id", arguments[1])) {
      consumer.subscribe(List.of(arguments[2]));
      boolean told = false;
      while (true) {
        consumer.poll(Duration.ofMillis(50));
        if (!told && !consumer.assignment().isEmpty()) {
          System.out.println("has partitions");
          told = true;
        }
      }
    }
  }

  /** Starts one, and returns once it has partitions. */
  static Process start(Broker broker, String group, String topic) throws IOException {
    Process process = new ProcessBuilder("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
        System.getProperty("java.class.path"), CrashingMember.class.getName(), broker.bootstrap, group, topic)
        .redirectError(ProcessBuilder.Redirect.DISCARD).start();
    Check.equal("first line of the other member", "has partitions", process.inputReader().readLine());
    return process;
  }
}
