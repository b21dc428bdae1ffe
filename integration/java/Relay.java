import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A relay before the broker that can lose the answers to Produce requests: the request is passed on and answered,
 * then the answer is dropped and the client's connection closed.
 *
 * <p>Broker addresses in answers are replaced by the relay's own, so that the client never goes around it.
 */
final class Relay implements AutoCloseable {
  private static final short PRODUCE = 0;

  private final String host;
  private final int port;
  private final ServerSocket listener;
  private final AtomicInteger every = new AtomicInteger();
  private final AtomicInteger answers = new AtomicInteger();
  private final AtomicInteger lost = new AtomicInteger();

  Relay(String bootstrap) throws IOException {
    int colon = bootstrap.lastIndexOf(':');
    host = bootstrap.substring(0, colon);
    port = Integer.parseInt(bootstrap.substring(colon + 1));
    listener = new ServerSocket(0, 50, InetAddress.getByName(host));
    start(this::accept);
  }

  String address() {
    return host + ":" + listener.getLocalPort();
  }

  void loseEveryNthAnswer(int n) {
    every.set(n);
  }

  int lost() {
    return lost.get();
  }

  @Override
  public void close() throws IOException {
    listener.close();
  }

  private void accept() throws IOException {
    while (true) {
      Socket client = listener.accept();
      Socket broker = new Socket(host, port);
      client.setTcpNoDelay(true);
      broker.setTcpNoDelay(true);
      // Correlation ids of Produce requests that are on their way.
      ConcurrentMap<Integer, Boolean> produces = new ConcurrentHashMap<>();
      start(() -> pass(client, broker, frame -> {
        if (frame.getShort(0) == PRODUCE) {
          produces.put(frame.getInt(4), true);
        }
        return true;
      }));
      start(() -> pass(broker, client, frame -> {
        readdress(frame);
        boolean lose = produces.remove(frame.getInt(0)) != null && every.get() > 0
            && answers.incrementAndGet() % every.get() == 0;
        if (lose) {
          lost.incrementAndGet();
        }
        return !lose;
      }));
    }
  }

  private interface Filter {
    /** False ends the connection instead of passing the frame on. */
    boolean passes(ByteBuffer frame);
  }

  private static void pass(Socket from, Socket to, Filter filter) throws IOException {
    try (from; to) {
      DataInputStream in = new DataInputStream(from.getInputStream());
      DataOutputStream out = new DataOutputStream(to.getOutputStream());
      while (true) {
        byte[] frame = in.readNBytes(in.readInt());
        if (!filter.passes(ByteBuffer.wrap(frame))) {
          return;
        }
        byte[] whole = ByteBuffer.allocate(4 + frame.length).putInt(frame.length).put(frame).array();
        out.write(whole);
      }
    }
  }

  /** In every Kafka message the port (int32) stands right after the host. */
  private void readdress(ByteBuffer frame) {
    byte[] address = ByteBuffer.allocate(host.length() + 4)
        .put(host.getBytes(StandardCharsets.US_ASCII)).putInt(port).array();
    byte[] bytes = frame.array();
    for (int at = 0; at + address.length <= bytes.length; at++) {
      if (java.util.Arrays.equals(bytes, at, at + address.length, address, 0, address.length)) {
        frame.putInt(at + host.length(), listener.getLocalPort());
      }
    }
  }

  private interface Work {
    void run() throws IOException;
  }

  /** Ends when a socket is closed, from either side. */
  private static void start(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (EOFException closed) {
        // The peer has gone.
      } catch (IOException closed) {
        // Our side was closed by the other direction's thread, or by close().
      }
    });
    thread.setDaemon(true);
    thread.start();
  }
}
