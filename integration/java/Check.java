import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Assertions. Each one throws an AssertionError that names what was looked at. */
final class Check {
  private Check() {}

  static void that(String what, boolean holds) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  static void equal(String what, Object expected, Object actual) {
    if (!Objects.deepEquals(expected, actual)) {
      throw new AssertionError(what + ": expected " + text(expected) + ", got " + text(actual));
    }
  }

  /** Holds if `low <= actual <= high`. */
  static void between(String what, double low, double high, double actual) {
    that(what + ": expected " + low + " to " + high + ", got " + actual, actual >= low && actual <= high);
  }

  /** Runs `action`, which must fail with exactly `kind` (unwrapped from what futures put around it). */
  static <T extends Throwable> T fails(String what, Class<T> kind, Callable<?> action) {
    Object result;
    try {
      result = action.call();
    } catch (Throwable thrown) {
      Throwable cause = unwrap(thrown);
      if (cause.getClass() == kind) {
        return kind.cast(cause);
      }
      throw new AssertionError(what + ": expected " + kind.getSimpleName() + ", got " + cause, cause);
    }
    throw new AssertionError(what + ": expected " + kind.getSimpleName() + ", got the result " + text(result));
  }

  static Throwable unwrap(Throwable thrown) {
    Throwable cause = thrown;
    while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
      cause = cause.getCause();
    }
    return cause;
  }

  private static String text(Object value) {
    if (value instanceof byte[] bytes) {
      return bytes.length > 64 ? bytes.length + " bytes" : Arrays.toString(bytes);
    }
    return String.valueOf(value);
  }
}
