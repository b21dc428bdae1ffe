"""Tests of a suite that is written in Python: declare them with @test, run them with main()."""

import os
import secrets
import signal
import sys
import time
import traceback

TESTS = []
BOOTSTRAP = os.environ.get("HULD_BOOTSTRAP", "127.0.0.1:9092")
TARGET = os.environ.get("HULD_TARGET", "other")
CACHE = os.environ.get("HULD_CACHE", "")
# Long polls: not before the max wait, and at most this much later.
LONG_POLL_SLACK_S = 0.4


class Skip(Exception):
    """Raised by a test that does not apply here."""


class TimeIsUp(Exception):
    """Raised in a test that takes longer than its limit."""


def test(function=None, *, limit_s=20, name=None):
    """Declares a test, which is reported under its function's name; a doc string is for the reader."""

    def declare(function):
        TESTS.append((name or function.__name__, limit_s, function))
        return function

    return declare(function) if function else declare


def topic_name():
    return f"it-{secrets.token_hex(6)}"


def equal(actual, expected, what="value"):
    if actual != expected:
        raise AssertionError(f"{what}: {shorten(actual)} instead of {shorten(expected)}")


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def settled(look, expected, what, limit_s=5):
    """Checks what a change that was answered has brought about. On huld it must hold at once; Kafka's broker hears of it
    from its controller a moment after the answer, so there one may look again."""
    deadline = time.monotonic() + limit_s
    while TARGET != "huld" and look() != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    equal(look(), expected, what)


def check_long_poll(elapsed_s, max_wait_s):
    # Clients and brokers count in whole milliseconds of different clocks: one may be rounded away.
    check(elapsed_s >= max_wait_s - 0.001, f"answered after {elapsed_s * 1000:.0f} ms, before {max_wait_s * 1000:.0f}")
    check(elapsed_s <= max_wait_s + LONG_POLL_SLACK_S,
          f"answered after {elapsed_s * 1000:.0f} ms, long after {max_wait_s * 1000:.0f}")


def shorten(value):
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"


def main():
    """Runs the tests named on the command line, or all; ends the process."""
    wanted = sys.argv[1:]
    unknown = set(wanted) - {name for name, _, _ in TESTS}
    if unknown:
        sys.exit(f"no such test: {', '.join(sorted(unknown))}")
    failures = 0
    for name, limit_s, function in TESTS:
        if wanted and name not in wanted:
            continue
        began = time.monotonic()
        signal.signal(signal.SIGALRM, raise_time_is_up)
        signal.alarm(limit_s)
        try:
            function()
            signal.alarm(0)
            print(f"ok {name}", flush=True)
        except Skip as reason:
            signal.alarm(0)
            print(f"skip {name}: {one_line(reason)}", flush=True)
        except Exception as error:
            signal.alarm(0)
            failures += 1
            traceback.print_exc()
            kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
            print(f"not ok {name}: {kind}{one_line(error)}", flush=True)
        print(f"  {name} took {time.monotonic() - began:.2f} s", file=sys.stderr, flush=True)
    sys.exit(1 if failures else 0)


def raise_time_is_up(_signal, _frame):
    raise TimeIsUp("the test's time is up")


def one_line(text):
    return " ".join(str(text).split())[:500]
