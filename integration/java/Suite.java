import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** A list of named tests. Prints one line a test: `ok NAME`, `not ok NAME: reason` or `skip NAME: reason`. */
final class Suite {
  interface Test {
    void run() throws Exception;
  }

  /** Thrown by a test that doesn't apply to this client. */
  static final class Skip extends RuntimeException {
    private static final long serialVersionUID = 1;

    Skip(String reason) {
      super(reason);
    }
  }

  private record Named(String name, Test test) {}

  private final List<Named> tests = new ArrayList<>();
  private final long limitSeconds;

  /** No test may take longer than the limit; one that does is reported and left behind. */
  Suite(long limitSeconds) {
    this.limitSeconds = limitSeconds;
  }

  void test(String name, Test test) {
    tests.add(new Named(name, test));
  }

  /** Runs the tests whose name contains `filter`, in the order they were added; returns how many failed. */
  int run(String filter) {
    int failed = 0;
    int ran = 0;
    for (Named named : tests) {
      if (!named.name.contains(filter)) {
        continue;
      }
      ran++;
      try {
        String reason = reasonOfFailure(named.test);
        if (reason == null) {
          System.out.println("ok " + named.name);
        } else {
          failed++;
          System.out.println("not ok " + named.name + ": " + reason);
        }
      } catch (Skip skipped) {
        System.out.println("skip " + named.name + ": " + skipped.getMessage());
      }
    }
    if (ran == 0) {
      System.out.println("not ok filter: no test has a name that contains '" + filter + "'");
      return 1;
    }
    return failed;
  }

  private String reasonOfFailure(Test test) {
    FutureTask<Void> task = new FutureTask<>(() -> {
      test.run();
      return null;
    });
    Thread thread = new Thread(task);
    thread.setDaemon(true);
    thread.start();
    try {
      task.get(limitSeconds, TimeUnit.SECONDS);
      return null;
    } catch (TimeoutException late) {
      StringBuilder where = new StringBuilder("not done after " + limitSeconds + " s");
      for (StackTraceElement frame : thread.getStackTrace()) {
        if (frame.getFileName() != null && frame.getFileName().endsWith("Tests.java")) {
          where.append(", at ").append(frame);
          break;
        }
      }
      return where.toString();
    } catch (ExecutionException | InterruptedException thrown) {
      Throwable cause = Check.unwrap(thrown);
      if (cause instanceof Skip skip) {
        throw skip;
      }
      return oneLine(cause);
    }
  }

  /** What was thrown, and the line of the test that it came from. */
  private static String oneLine(Throwable thrown) {
    String text = thrown instanceof AssertionError ? thrown.getMessage() : thrown.toString();
    for (StackTraceElement frame : thrown.getStackTrace()) {
      if (frame.getFileName() != null && frame.getFileName().endsWith("Tests.java")) {
        text += " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
        break;
      }
    }
    return text.replace('\n', ' ');
  }
}
