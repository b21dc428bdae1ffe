"""Running suites and adding up what they report."""

import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

SUITE_LIMIT_S = 240
CARGO_LIMIT_S = 1800
REPORT = re.compile(r"(ok|not ok|skip) (\w+)(?:: (.*))?$")


class Results:
    """The sum over all suites; prints each result as it comes."""

    def __init__(self):
        self.passes = 0
        self.failures = []
        self.skips = 0

    def passed(self, suite, test, count=1):
        self.passes += count
        print(f"ok      {suite} {test}", flush=True)

    def failed(self, suite, test, reason, count=1):
        self.failures.extend([f"{suite} {test}: {reason}"] * count)
        print(f"not ok  {suite} {test}: {reason}", flush=True)

    def skipped(self, suite, test, reason):
        self.skips += 1
        print(f"skip    {suite} {test}: {reason}", flush=True)

    def conclude(self):
        """Prints the sum; gives the exit code."""
        if self.failures:
            print("# failed:", *dict.fromkeys(self.failures), sep="\n#   ")
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


def cargo_test(layout, results):
    """Runs the project's own tests; every test counts."""
    print("# cargo test", flush=True)
    began = time.monotonic()
    code = logged(layout, "cargo", ["cargo", "test", "--locked", "--no-fail-fast"])
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
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def run(suite, target, layout, results):
    """Runs one client suite against a target."""
    folder = layout.integration / suite
    command, cwd = ([str(folder / "run")], folder) if folder.is_dir() else ([f"{folder}.py"], layout.integration)
    if not os.path.exists(command[0]):
        results.failed(suite, "run", f"{command[0]} is missing")
        return
    print(f"# {suite}", flush=True)
    began = time.monotonic()
    try:
        environment = layout.environment() | target.before(suite)
    except (RuntimeError, OSError) as error:
        results.failed(suite, "broker", str(error))
        return
    reported = failures = 0
    with (layout.logs / f"{suite}.log").open("w") as log:
        process = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True, errors="replace",
                                   start_new_session=True)
        late = threading.Event()
        timer = threading.Timer(SUITE_LIMIT_S, lambda: (late.set(), os.killpg(process.pid, signal.SIGKILL)))
        timer.start()
        try:
            for line in process.stdout:
                log.write(f"[{time.monotonic() - began:7.2f}] {line}")
                log.flush()
                report = REPORT.match(line.rstrip())
                if not report:
                    continue
                reported += 1
                kind, test, reason = report.groups()
                if kind == "ok":
                    results.passed(suite, test)
                elif kind == "skip":
                    results.skipped(suite, test, reason or "no reason given")
                else:
                    failures += 1
                    results.failed(suite, test, reason or "no reason given")
        finally:
            timer.cancel()
            code = wait(process, 10)
    if late.is_set():
        results.failed(suite, "run", f"not finished after {SUITE_LIMIT_S} s, see {layout.logs}/{suite}.log")
    elif code != 0 and not failures:
        results.failed(suite, "run", f"exit code {code}, see {layout.logs}/{suite}.log")
    elif not reported:
        results.failed(suite, "run", f"no test was reported, see {layout.logs}/{suite}.log")
    fault = target.after()
    if fault:
        results.failed(suite, "broker", fault)
    print(f"# {suite} took {time.monotonic() - began:.0f} s", flush=True)
