"""Running suites and adding up what they report."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

SUITE_LIMIT_S = 480
# Suites that need more than one broker.
THREE_BROKERS = {"cluster", "cluster_python", "cluster_go", "cluster_tools", "cluster_applications"}
CARGO_LIMIT_S = 1800
# How many tests of a run may be run once more after they have failed: clients have races of their own, which show on a
# machine that is busy. (Kafka's own build tries its tests again, too.) More than that is no coincidence.
SECOND_TRIES = 3
REPORT = re.compile(r"(ok|not ok|skip) (\w+)(?:: (.*))?$")


# How many seeds are simulated: about half a minute on two processors.
SIMULATED_SEEDS = 500


class Results:
    """The sum over all suites; prints each result as it comes."""

    def __init__(self):
        self.passes = 0
        self.failures = []
        self.wavering = []
        self.tries_left = SECOND_TRIES
        self.skips = 0
        self.lock = threading.Lock()  # Suites run side by side.

    def passed(self, suite, test, count=1):
        with self.lock:
            self.passes += count
            print(f"ok      {suite} {test}", flush=True)

    def may_try_again(self):
        """Whether a test that has failed may be run again; counts how many were."""
        with self.lock:
            self.tries_left -= 1
            return self.tries_left >= 0

    def wavered(self, suite, test, reason):
        """A test has failed, and passed when it was run again."""
        with self.lock:
            self.passes += 1
            self.wavering.append(f"{suite} {test}: {reason}")
            print(f"ok      {suite} {test} at the second try", flush=True)

    def failed(self, suite, test, reason, count=1):
        with self.lock:
            self.failures.extend([f"{suite} {test}: {reason}"] * count)
            print(f"not ok  {suite} {test}: {reason}", flush=True)

    def skipped(self, suite, test, reason):
        with self.lock:
            self.skips += 1
            print(f"skip    {suite} {test}: {reason}", flush=True)

    def conclude(self):
        """Prints the sum; gives the exit code."""
        if self.failures:
            print("# failed:", *dict.fromkeys(self.failures), sep="\n#   ")
        if self.wavering:
            print("# passed at the second try only, after they had failed so:", *self.wavering, sep="\n#   ")
        if self.skips:
            print(f"# {self.skips} skipped")
        print(f"{self.passes} passed, {len(self.failures)} failed", flush=True)
        return 0 if self.passes and not self.failures else 1


def build(layout, skip, binary, results):
    """Builds the release binary, unless there is another; gives its path, or None when that failed."""
    if binary is None:
        binary = release_binary(layout)
        if not skip:
            print("# cargo build --release", flush=True)
            began = time.monotonic()
            code = logged(layout, "build", ["cargo", "build", "--release", "--locked"])
            if code != 0:
                results.failed("cargo", "build", f"exit code {code}, see {layout.logs}/build.log")
                return None
            print(f"# built ({time.monotonic() - began:.0f} s)", flush=True)
    if not binary.exists():
        results.failed("cargo", "build", f"{binary} is missing")
        return None
    return binary.resolve()


def release_binary(layout):
    metadata = subprocess.run(["cargo", "metadata", "--format-version", "1", "--no-deps"], cwd=layout.root,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    return Path(json.loads(metadata.stdout)["target_directory"]) / "release" / "huld"


def simulate(layout, results):
    """Simulated clusters, whose faults are drawn from seeds; needs what cargo_test has built."""
    print(f"# {SIMULATED_SEEDS} simulated clusters", flush=True)
    began = time.monotonic()
    command = ["cargo", "run", "--locked", "--features", "sim", "--", "sim", "--seeds", str(SIMULATED_SEEDS)]
    code = logged(layout, "sim", command)
    if code == 0:
        results.passed("sim", f"{SIMULATED_SEEDS} seeds ({time.monotonic() - began:.0f} s)", 1)
    else:
        results.failed("sim", "seeds", f"exit code {code}, see {layout.logs}/sim.log")


def cargo_test(layout, results):
    """Runs the project's own tests; every test counts."""
    print("# cargo test", flush=True)
    began = time.monotonic()
    code = logged(layout, "cargo", ["cargo", "test", "--locked", "--no-fail-fast", "--features", "sim"])
    text = (layout.logs / "cargo.log").read_text(errors="replace")
    sums = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed", text, re.MULTILINE)
    passes, failures = (sum(int(each[side]) for each in sums) for side in (0, 1))
    if passes:
        results.passed("cargo", f"{passes} tests ({time.monotonic() - began:.0f} s)", passes)
    for name in re.findall(r"^test (.*) \.\.\. FAILED", text, re.MULTILINE):
        results.failed("cargo", name, f"see {layout.logs}/cargo.log")
        failures -= 1
    if failures > 0:
        results.failed("cargo", "tests", f"see {layout.logs}/cargo.log", failures)
    elif code != 0 and not results.failures:
        results.failed("cargo", "test", f"exit code {code}, see {layout.logs}/cargo.log")


def logged(layout, name, command):
    with (layout.logs / f"{name}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=layout.root, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        return wait(process, CARGO_LIMIT_S)


def wait(process, limit_s):
    """Waits for a process that leads a group; the whole group ends when time is up or we are interrupted."""
    try:
        return process.wait(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return f"none, since it was ended after {limit_s} s"
    finally:
        end_group(process)
        process.wait()


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # All of it has ended by itself.


class Lanes:
    """Runs suites, as many side by side as there are lanes."""

    def __init__(self, target, layout, results):
        self.target = target
        self.layout = layout
        self.results = results
        self.running = set()
        self.stopped = False
        self.lock = threading.Lock()

    def run(self, *groups):
        """Runs all suites of all groups, each of which is names and how many of them run at a time; when it is interrupted,
        it ends those that run."""
        with ExitStack() as pools:
            done = []
            for names, lanes in groups:
                pool = pools.enter_context(ThreadPoolExecutor(lanes))
                done += [pool.submit(self.run_one, name) for name in names]
            try:
                for each in done:
                    each.result()
            except BaseException:
                self.stop()
                raise

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.running:
                end_group(process)

    def run_one(self, suite):
        if self.stopped:
            return
        print(f"# {suite}", flush=True)
        began = time.monotonic()
        for test, reason in self.run_once(suite, Reports(self.results, suite)):
            if not self.results.may_try_again():
                self.results.failed(suite, test, reason)
                continue
            print(f"# {suite} {test} is run again, since it failed: {reason}", flush=True)
            again = Reports(self.results, suite, only=test)
            failures = self.run_once(suite, again)
            if again.has_passed:
                self.results.wavered(suite, test, reason)
            else:
                self.results.failed(suite, test, dict(failures).get(test, reason))
        print(f"# {suite} took {time.monotonic() - began:.0f} s", flush=True)

    def run_once(self, suite, reports):
        """Runs the suite against a broker of its own; gives the tests that failed, with reasons."""
        try:
            start = self.target.start_three if suite in THREE_BROKERS else self.target.start
            broker = start(suite)
        except (RuntimeError, OSError) as error:
            self.results.failed(suite, "broker", str(error))
            return []
        try:
            self.run_against(broker, suite, reports)
        finally:
            fault = broker.stop()
        if fault:
            self.results.failed(suite, "broker", fault)
        return reports.failures

    def run_against(self, broker, suite, reports):
        folder = self.layout.integration / suite
        command, cwd = ([str(folder / "run")], folder) if folder.is_dir() else ([f"{folder}.py"], folder.parent)
        path = self.layout.logs / f"{suite}.log"
        if not os.path.exists(command[0]):
            self.results.failed(suite, "run", f"{command[0]} is missing")
            return
        if reports.only is None:
            path.unlink(missing_ok=True)
        else:
            command.append(reports.only)
        # Appending, since what the suite says on its standard error goes there too.
        with path.open("a") as log, self.lock:
            if self.stopped:
                return
            process = subprocess.Popen(command, cwd=cwd, env=self.layout.environment() | broker.variables,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                                       errors="replace", start_new_session=True)
            self.running.add(process)
        late = threading.Event()
        timer = threading.Timer(SUITE_LIMIT_S, lambda: (late.set(), end_group(process)))
        timer.start()
        try:
            reports.read(process.stdout, path)
        finally:
            timer.cancel()
            code = wait(process, 10)
            with self.lock:
                self.running.discard(process)
        if late.is_set():
            self.results.failed(suite, "run", f"not finished after {SUITE_LIMIT_S} s, see {path}")
        elif code != 0 and not reports.failures:
            self.results.failed(suite, "run", f"exit code {code}, see {path}")
        elif not reports.count:
            self.results.failed(suite, "run", f"no test was reported, see {path}")


class Reports:
    """What one run of a suite reports: passed on as it comes, but for failures, which are kept; or kept alone, where one
    test only is of interest."""

    def __init__(self, results, suite, only=None):
        self.results = results
        self.suite = suite
        self.only = only
        self.count = 0
        self.failures = []
        self.has_passed = False

    def read(self, lines, path):
        began = time.monotonic()
        with path.open("a") as log:
            for line in lines:
                log.write(f"[{time.monotonic() - began:7.2f}] {line}")
                log.flush()
                report = REPORT.match(line.rstrip())
                if report:
                    self.count += 1
                    self.take(*report.groups())

    def take(self, kind, test, reason):
        if kind == "not ok":
            self.failures.append((test, reason or "no reason given"))
        elif self.only is not None:
            self.has_passed |= kind == "ok" and test == self.only
        elif kind == "ok":
            self.results.passed(self.suite, test)
        else:
            self.results.skipped(self.suite, test, reason or "no reason given")
