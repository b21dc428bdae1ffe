"""Programs that keep their state in the broker: Kafka Streams, and a distributed Connect worker."""

import json
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import brokers
import tap
from tap import BOOTSTRAP, CACHE, check, equal, test, topic_name

JAVA = ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
HOME = Path(CACHE) / "applications"
START_LIMIT_S = 60
FOLLOW_UP_S = 20


def word_count(guarantee):
    """Three runs under one application id; the later ones restore their state from the changelog topic."""
    with tempfile.TemporaryDirectory() as state:
        command = [*JAVA, "-cp", f"{HOME}/classes:{HOME}/jars/*", "WordCount", BOOTSTRAP, topic_name(), state, guarantee]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=subprocess.PIPE, text=True,
                              timeout=140)
        print(done.stderr, file=sys.stderr)
        reason = next((line for line in done.stderr.splitlines() if "AssertionError" in line or "Exception" in line), "")
        equal(done.returncode, 0, f"exit code ({reason})")


@test(limit_s=150)
def streams_word_count():
    word_count("at_least_once")


@test(limit_s=150)
def streams_word_count_exactly_once():
    word_count("exactly_once_v2")


class Worker:
    """A Connect worker and its REST interface."""

    def __init__(self, properties, port):
        self.address = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [*JAVA, "-cp", f"{HOME}/jars/*", "org.apache.kafka.connect.cli.ConnectDistributed", str(properties)],
            stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.address + path, method=method, headers={"Content-Type": "application/json"},
                                         data=None if body is None else json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=FOLLOW_UP_S) as answer:
            text = answer.read()
            return json.loads(text) if text else None

    def until(self, what, holds, limit_s=FOLLOW_UP_S):
        # The worker tells nobody when it has come so far: it must be asked.
        deadline = time.monotonic() + limit_s
        while True:
            try:
                if holds():
                    return
                seen = ""
            except (urllib.error.URLError, OSError) as error:
                seen = f" ({error})"
            check(self.process.poll() is None, f"the worker ended with code {self.process.returncode}")
            check(time.monotonic() < deadline, f"{what}: not within {limit_s} s{seen}")
            time.sleep(0.1)

    def running(self, name):
        status = self.call("GET", f"/connectors/{name}/status")
        states = [status["connector"]["state"], *[each["state"] for each in status["tasks"]]]
        check("FAILED" not in states, f"{name} failed: {status}")
        return states == ["RUNNING", "RUNNING"]


@contextmanager
def started(properties, port):
    worker = Worker(properties, port)
    try:
        worker.until("REST interface", lambda: worker.call("GET", "/connectors") is not None, START_LIMIT_S)
        yield worker
        worker.process.terminate()
        worker.process.wait(timeout=FOLLOW_UP_S)
    finally:
        worker.process.kill()
        worker.process.wait()


@test(limit_s=150)
def connect_starts_twice():
    """From a file to a topic to a file; a second worker goes on from the internal topics of the first."""
    name = topic_name()
    with tempfile.TemporaryDirectory() as folder:
        (port,) = brokers.free_ports(1)
        properties, source, sink = (Path(folder) / each for each in ("worker.properties", "source.txt", "sink.txt"))
        properties.write_text(WORKER.format(bootstrap=BOOTSTRAP, name=name, port=port))
        connectors = {
            "source": {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(source), "topic": name},
            "sink": {"connector.class": "FileStreamSink", "tasks.max": "1", "file": str(sink), "topics": name},
        }
        source.write_text("one\ntwo\n")
        with started(properties, port) as worker:
            for connector, config in connectors.items():
                worker.call("PUT", f"/connectors/{connector}/config", config)
            for connector in connectors:
                worker.until(connector, lambda: worker.running(connector))
            worker.until("lines of the first run", lambda: sink.exists() and sink.read_text() == "one\ntwo\n")
        with source.open("a") as file:
            file.write("three\n")
        with started(properties, port) as worker:
            equal(sorted(worker.call("GET", "/connectors")), ["sink", "source"], "connectors of the second run")
            equal(worker.call("GET", "/connectors/source")["config"]["file"], str(source), "its configuration")
            for connector in connectors:
                worker.until(connector, lambda: worker.running(connector))
            worker.until("lines of the second run", lambda: "three" in sink.read_text())
            equal(sink.read_text(), "one\ntwo\nthree\n", "lines")
            worker.call("DELETE", "/connectors/source")
            worker.until("deletion", lambda: worker.call("GET", "/connectors") == ["sink"])


WORKER = """\
bootstrap.servers={bootstrap}
group.id={name}
listeners=http://127.0.0.1:{port}
config.storage.topic={name}-configs
offset.storage.topic={name}-offsets
status.storage.topic={name}-status
config.storage.replication.factor=1
offset.storage.replication.factor=1
status.storage.replication.factor=1
offset.storage.partitions=3
status.storage.partitions=2
offset.flush.interval.ms=500
scheduled.rebalance.max.delay.ms=0
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
plugin.discovery=service_load
consumer.auto.offset.reset=earliest
"""

tap.main()
