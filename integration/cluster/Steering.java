import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/** Does to single brokers what may happen to them; each call returns when it is done. */
final class Steering {
  private final HttpClient client = HttpClient.newHttpClient();
  private final Set<Integer> down = new TreeSet<>();
  private final Set<Integer> frozen = new TreeSet<>();
  private final String address;

  /** `address` is that of huld's control interface, or of what the harness has in its place for Apache Kafka. */
  Steering(String address) {
    this.address = address;
  }

  /** Ends a broker in good order: others lead before it goes. */
  void stop(int broker) throws Exception {
    post(broker, "stop");
    down.add(broker);
  }

  /** Ends a broker without a goodbye. */
  void kill(int broker) throws Exception {
    post(broker, "kill");
    down.add(broker);
  }

  /** Starts a broker that is down, with the logs that it had. */
  void start(int broker) throws Exception {
    post(broker, "start");
    down.remove(broker);
  }

  /** Stops a broker's process as a signal does: connections stay open, nothing is answered. */
  void freeze(int broker) throws Exception {
    post(broker, "freeze");
    frozen.add(broker);
  }

  /** Lets a frozen broker go on. */
  void thaw(int broker) throws Exception {
    post(broker, "thaw");
    frozen.remove(broker);
  }

  /** Brings back whatever a test that failed has left down or frozen. */
  void restore() throws Exception {
    for (int broker : List.copyOf(frozen)) {
      thaw(broker);
    }
    for (int broker : List.copyOf(down)) {
      start(broker);
    }
  }

  private void post(int broker, String action) throws IOException, InterruptedException {
    URI uri = URI.create(address + "/brokers/" + broker + "/" + action);
    HttpRequest request = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(60))
        .POST(HttpRequest.BodyPublishers.noBody()).build();
    HttpResponse<String> answer = client.send(request, HttpResponse.BodyHandlers.ofString());
    Check.that(action + " broker " + broker + ": " + answer.statusCode() + " " + answer.body(),
        answer.statusCode() / 100 == 2);
  }
}
