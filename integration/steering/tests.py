"""Stock clients (librdkafka) while the broker's time, its answers and its brokers are steered over the control interface."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import tap
from tap import Skip, check, equal, test, topic_name

PATIENCE_S = 10
SESSION_TIMEOUT_MS = 45_000


class Steered:
    """A huld of the test's own, and its control interface."""

    def __init__(self, *options):
        binary = os.environ.get("HULD_BIN")
        if binary is None:
            raise Skip("only huld can be steered")
        command = [binary, "--port", "0", "--control", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("huld: control at "):
                self.control = line.split()[-1]
            elif "PLAINTEXT://127.0.0.1:" in line:
                self.bootstrap = line.strip().rsplit("//", 1)[1]
                break

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.stdout.close()
        equal(self.process.wait(timeout=5), 0, "huld's exit code")

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.control + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def hold(self, **rule):
        return self.ask("POST", "/holds", rule)["id"]

    def held(self, client_id):
        """The wait of this client that is held, once there is one."""
        return until(lambda: next((wait for wait in self.ask("GET", "/waits")["waits"]
                                   if wait["kind"] == "Held" and wait["client_id"] == client_id), None),
                     "the client's request is held")

    def log_end_offset(self, topic):
        return self.ask("GET", f"/partitions/{topic}")["partitions"][0]["logs"][0]["log_end_offset"]


def until(look, what, client=None):
    """What `look` gives once it gives something; `client`, if there is one, has its turn between looks."""
    deadline = time.monotonic() + PATIENCE_S
    while not (seen := look()):
        check(time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}")
        client.poll(0.02) if client else time.sleep(0.02)
    return seen


class Sender:
    """An idempotent producer, and what became of its records."""

    def __init__(self, huld, **settings):
        self.client_id = topic_name()
        self.producer = Producer({"bootstrap.servers": huld.bootstrap, "client.id": self.client_id,
                                  "enable.idempotence": True, "linger.ms": 0} | settings)
        self.offsets = []

    def send(self, topic, value):
        self.producer.produce(topic, value=value, on_delivery=self.report)

    def report(self, error, message):
        self.offsets.append(str(error) if error else message.offset())

    def delivered(self, offsets):
        equal(self.producer.flush(PATIENCE_S), 0, "records without a report")
        equal(self.offsets, offsets, "offsets")


def values(huld, topic, count):
    """The first `count` records of a topic and whatever comes with them."""
    consumer = Consumer({"bootstrap.servers": huld.bootstrap, "group.id": topic_name(), "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        records = []
        while len(records) < count:
            record = consumer.poll(PATIENCE_S)
            check(record is not None and record.error() is None, f"{len(records)} records of {count}")
            records.append(record.value())
        return records
    finally:
        consumer.close()


@test
def held_before_it_is_applied():
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld)
        huld.hold(point="before-apply", api="Produce", client_id=sender.client_id, topic="t", count=1)
        sender.send("t", b"first")
        wait = huld.held(sender.client_id)
        equal(huld.log_end_offset("t"), 0, "log end offset")
        equal(sender.producer.poll(0.2), 0, "reports")
        huld.ask("POST", f"/waits/{wait['id']}/release")
        sender.delivered([0])
        sender.send("t", b"second")
        sender.delivered([0, 1])
        equal(values(huld, "t", 2), [b"first", b"second"])


@test
def held_before_it_is_applied_and_given_up():
    # The client hangs up and sends the record again; what was held is gone with its connection.
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld, **{"socket.timeout.ms": 1000, "retry.backoff.ms": 50})
        hold = huld.hold(point="before-apply", api="Produce", client_id=sender.client_id, count=1)
        sender.send("t", b"first")
        sender.delivered([0])
        equal(huld.ask("DELETE", f"/holds/{hold}"), {"released": 0})
        sender.send("t", b"second")
        sender.delivered([0, 1])
        equal(values(huld, "t", 2), [b"first", b"second"])


@test
def held_after_it_is_applied():
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld)
        huld.hold(point="after-apply", api="Produce", client_id=sender.client_id, count=1)
        sender.send("t", b"first")
        wait = huld.held(sender.client_id)
        equal(huld.log_end_offset("t"), 1, "log end offset")
        equal(values(huld, "t", 1), [b"first"], "what others see")
        equal(sender.producer.poll(0.2), 0, "reports")
        huld.ask("POST", f"/waits/{wait['id']}/release")
        sender.delivered([0])
        equal(huld.log_end_offset("t"), 1, "log end offset")


@test
def held_after_it_is_applied_and_given_up():
    # It is sent again, and the broker knows it by its sequence number.
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld, **{"socket.timeout.ms": 1000, "retry.backoff.ms": 50})
        huld.hold(point="after-apply", api="Produce", client_id=sender.client_id, count=1)
        sender.send("t", b"first")
        sender.delivered([0])
        sender.send("t", b"second")
        sender.delivered([0, 1])
        equal(values(huld, "t", 2), [b"first", b"second"])


@test
def answer_is_thrown_away():
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld, **{"retry.backoff.ms": 50, "reconnect.backoff.ms": 10})
        hold = huld.hold(point="after-apply-then-disconnect", api="Produce", client_id=sender.client_id, count=1)
        sender.send("t", b"first")
        sender.delivered([0])
        rule = next(rule for rule in huld.ask("GET", "/holds")["holds"] if rule["id"] == hold)
        equal((rule["held"], rule["left"]), (1, 0), "requests that the rule held")
        sender.send("t", b"second")
        sender.delivered([0, 1])
        equal(huld.log_end_offset("t"), 2, "log end offset")
        equal(values(huld, "t", 2), [b"first", b"second"])


@test
def high_watermark_stays():
    with Steered("--topic", "t:1") as huld:
        sender = Sender(huld)
        huld.ask("POST", "/partitions/t/0/pin")
        sender.send("t", b"first")
        wait = until(lambda: [wait for wait in huld.ask("GET", "/waits")["waits"] if wait["kind"] == "Produce"],
                     "the producer waits")[0]
        equal((wait["waits_for"], wait["progress"]), ("t-0", "high watermark 0 of 1 (pinned)"))
        equal(sender.offsets, [], "reports")
        huld.ask("DELETE", "/partitions/t/0/pin")
        sender.delivered([0])


@contextmanager
def member(huld, group, client_id):
    """A member of a group that reads the topic `t`."""
    consumer = Consumer({
        "bootstrap.servers": huld.bootstrap,
        "group.id": group,
        "client.id": client_id,
        "session.timeout.ms": SESSION_TIMEOUT_MS,
        "heartbeat.interval.ms": 100,
        "enable.auto.commit": False,
    })
    try:
        consumer.subscribe(["t"])
        yield consumer
    finally:
        consumer.close()


def assigned(consumer):
    return sorted(partition.partition for partition in consumer.assignment())


@test(limit_s=30)
def session_timeout_passes_in_an_instant():
    with Steered("--topic", "t:2", "--clock", "manual") as huld:
        group = topic_name()
        with member(huld, group, "silent") as silent:
            until(lambda: assigned(silent) == [0, 1], "the first member has both partitions", silent)
            # Its heartbeats don't arrive any more.
            hold = huld.hold(point="before-apply", api="Heartbeat", group=group, client_id="silent")
            huld.held("silent")
            with member(huld, group, "other") as other:
                joined = until(lambda: [wait for wait in huld.ask("GET", "/waits")["waits"]
                                        if wait["kind"] == "Join" and wait["client_id"] == "other"],
                               "the second member waits for the first", other)[0]
                equal(joined["progress"], "members 1 of 2", "the join's progress")
                equal(assigned(other), [], "the second member's partitions")
                began = time.monotonic()
                before = huld.ask("GET", "/clock")
                after = huld.ask("POST", "/clock/advance", {"by_ms": SESSION_TIMEOUT_MS})
                equal(after["wall_ms"] - before["wall_ms"], SESSION_TIMEOUT_MS, "the time that passed")
                until(lambda: assigned(other) == [0, 1], "the second member has both partitions", other)
                check(time.monotonic() - began < PATIENCE_S, "it took long")
                # The first one hears that it was thrown out, and comes back.
                huld.ask("DELETE", f"/holds/{hold}")

                def shared():
                    silent.poll(0)
                    return sorted([assigned(silent), assigned(other)]) == [[0], [1]]

                until(shared, "both share the partitions", other)


@test(limit_s=30)
def produce_timeout_passes_in_an_instant():
    # The broker answers when its time is up, the client sends the record again, and it is there once.
    with Steered("--topic", "t:1", "--clock", "manual") as huld:
        sender = Sender(huld, **{"request.timeout.ms": 20_000, "retry.backoff.ms": 50})
        huld.ask("POST", "/partitions/t/0/pin")

        def waiting():
            return [wait for wait in huld.ask("GET", "/waits?kind=Produce")["waits"]]

        sender.send("t", b"first")
        first = until(waiting, "the producer waits", sender.producer)[0]
        equal(first["left_ms"], 20_000, "what is left of the producer's time")
        huld.ask("POST", "/clock/advance", {"by_ms": 19_999})
        equal([wait["id"] for wait in waiting()], [first["id"]], "it waits a millisecond before its time")
        huld.ask("POST", "/clock/advance", {"by_ms": 1})
        again = until(waiting, "the producer has sent it again", sender.producer)[0]
        check(again["id"] != first["id"], "it is another request")
        equal((huld.log_end_offset("t"), sender.offsets), (1, []), "what is in the log, and reports")
        huld.ask("DELETE", "/partitions/t/0/pin")
        sender.delivered([0])
        equal(huld.log_end_offset("t"), 1, "log end offset")


@test(limit_s=30)
def transaction_timeout_passes_in_an_instant():
    with Steered("--topic", "t:1", "--clock", "manual") as huld:
        late = Producer({"bootstrap.servers": huld.bootstrap, "transactional.id": topic_name(), "linger.ms": 0,
                         "transaction.timeout.ms": 60_000})
        late.init_transactions(PATIENCE_S)
        late.begin_transaction()
        late.produce("t", value=b"given up")
        equal(late.flush(PATIENCE_S), 0, "records without a report")
        sender = Sender(huld)
        sender.send("t", b"second")
        sender.delivered([1])
        consumer = Consumer({"bootstrap.servers": huld.bootstrap, "group.id": topic_name(),
                             "isolation.level": "read_committed", "enable.auto.commit": False})
        try:
            consumer.assign([TopicPartition("t", 0, 0)])
            until(lambda: huld.ask("GET", "/waits?kind=Fetch")["waits"], "the consumer waits", consumer)
            huld.ask("POST", "/clock/advance", {"by_ms": 59_999})
            equal(consumer.poll(0.2), None, "what can be read before the transaction has ended")
            # Transactions are looked at as Kafka does it, every transaction.abort.timed.out.transaction.cleanup.interval.ms.
            huld.ask("POST", "/clock/advance", {"by_ms": 10_001})
            record = consumer.poll(PATIENCE_S)
            check(record is not None and record.error() is None, "a record comes")
            equal((record.offset(), record.value()), (1, b"second"), "the first record that is committed")
        finally:
            consumer.close()
        try:
            late.commit_transaction(PATIENCE_S)
            check(False, "the transaction was aborted")
        except KafkaException as error:
            check(error.args[0].fatal() or error.args[0].txn_requires_abort(), f"the producer is told: {error}")


tap.main()
