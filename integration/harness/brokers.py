"""The brokers that suites run against: huld, Apache Kafka, or one that runs already."""

import base64
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time

import kafka_cluster
from kafka_cluster import free_ports

READY_LIMIT_S = 60


class HuldTarget:
    """A fresh huld for every suite; ends with SIGTERM, as a user would end it."""

    name = "huld"

    def __init__(self, binary, layout):
        self.binary = binary
        self.layout = layout

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self, suite):
        """Starts the suite's broker."""
        return SuitesHuld(self.binary, self.layout.logs / f"{suite}-huld.log", set_all(QUICK))

    def start_three(self, suite):
        """Starts three brokers, in one process, that the suite may steer."""
        arguments = ["--brokers", str(CLUSTER_SIZE), "--control", "127.0.0.1:0", *set_all(QUICK + CLUSTER_SETTINGS)]
        return SuitesHuld(self.binary, self.layout.logs / f"{suite}-huld.log", arguments)


class SuitesHuld:
    """One suite's huld: `variables` tell the suite where it is, `stop` must be called."""

    def __init__(self, binary, log_path, arguments):
        self.log_path = log_path
        self.process, ready = launch_huld(binary, log_path, *arguments)
        self.variables = {
            "HULD_BOOTSTRAP": ",".join(ready.addresses),
            "HULD_TARGET": HuldTarget.name,
            "HULD_BIN": str(binary),
            "HULD_PID": str(self.process.pid),
        }
        if ready.control:
            self.variables["HULD_CONTROL"] = ready.control

    def stop(self):
        """Stops the broker; gives what was wrong with it, or None."""
        code = self.process.poll()
        if code is not None:
            return f"huld ended during the suite with code {code}, see {self.log_path}"
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return "huld did not end within 5 s of SIGTERM"
        if code != 0:
            return f"huld answered SIGTERM with exit code {code}, see {self.log_path}"
        if "panicked at" in self.log_path.read_text(errors="replace"):
            return f"huld panicked, see {self.log_path}"
        return None


class SharedBroker:
    """What a suite gets of a broker that all suites share."""

    def __init__(self, target, address):
        self.target = target
        self.variables = {"HULD_BOOTSTRAP": address, "HULD_TARGET": target.name}

    def stop(self):
        """Leaves the broker as it is; gives what is wrong with it, or None."""
        return self.target.fault()


class ReadyLines:
    """What huld says of itself when it is ready."""

    def __init__(self, brokers, has_control):
        self.missing = brokers + brokers + has_control
        self.addresses = []
        self.control = None
        self.complete = threading.Event()

    def note(self, line):
        listening = re.search(r"listening on \w+://(127\.0\.0\.1:\d+)", line)
        control = re.search(r"control at (http://\S+)", line)
        if listening:
            self.addresses.append(listening.group(1))
        if control:
            self.control = control.group(1)
        self.missing -= bool(listening) + bool(control) + ("Kafka Server started" in line)
        if self.missing <= 0:
            self.complete.set()


def start_huld(binary, log_path, *arguments):
    """Starts `huld serve` on a free port and waits for its ready lines; gives (process, port)."""
    process, ready = launch_huld(binary, log_path, *arguments)
    return process, int(ready.addresses[0].rsplit(":", 1)[1])


def launch_huld(binary, log_path, *arguments):
    """Starts `huld serve` on free ports and waits for its ready lines; gives (process, ReadyLines)."""
    with open(log_path, "w") as log:
        process = subprocess.Popen([str(binary), "serve", "--port", "0", *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
    brokers = int(arguments[arguments.index("--brokers") + 1]) if "--brokers" in arguments else 1
    ready = ReadyLines(brokers, "--control" in arguments)

    def read():
        for line in process.stdout:
            ready.note(line)
        ready.complete.set()

    threading.Thread(target=read, daemon=True).start()
    ready.complete.wait(READY_LIMIT_S)
    if ready.missing > 0:
        process.kill()
        process.wait()
        raise RuntimeError(f"huld printed no ready lines ({ready.missing} are missing), see {log_path}")
    return process, ready


class KafkaTarget:
    """One Apache Kafka broker (KRaft, in one process with its controller) for all suites; the first one starts it."""

    name = "kafka"

    def __init__(self, layout):
        self.layout = layout
        self.home = layout.cache / f"kafka-{os.getpid()}"
        self.process = None
        self.lock = threading.Lock()

    def __enter__(self):
        return self

    def launch(self):
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        self.port, controller_port = free_ports(2)
        properties = self.home / "server.properties"
        properties.write_text(KAFKA_PROPERTIES.format(port=self.port, controller=controller_port, home=self.home))
        class_path = f"{self.layout.jars}/*"
        cluster_id = "K" + base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[1:22]
        log = (self.layout.logs / "kafka.log").open("w")
        common = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": subprocess.STDOUT, "cwd": self.home}
        subprocess.run(["java", "-cp", class_path, "kafka.tools.StorageTool", "format", "-t", cluster_id,
                        "-c", str(properties)], check=True, timeout=60, **common)
        self.process = subprocess.Popen(["java", "-Xmx1G", "-cp", class_path, "kafka.Kafka", str(properties)],
                                        start_new_session=True, **common)
        deadline = time.monotonic() + READY_LIMIT_S
        while not accepts(self.port):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Apache Kafka did not start, see {log.name}")
            time.sleep(0.1)  # Another program's start-up; it has no line to wait for when its logging is off.
        print(f"# Apache Kafka listens on port {self.port}", flush=True)

    def __exit__(self, *_):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def start(self, suite):
        with self.lock:
            if self.process is None:
                self.launch()
        return SharedBroker(self, f"127.0.0.1:{self.port}")

    def start_three(self, suite):
        return kafka_cluster.KafkaCluster(self.layout, self.layout.logs / f"{suite}-kafka", CLUSTER_SIZE,
                                          QUICK + CLUSTER_SETTINGS)

    def fault(self):
        code = self.process.poll()
        return None if code is None else f"Apache Kafka ended during the suite with code {code}"


class RunningTarget:
    """A broker that somebody else started."""

    name = "other"

    def __init__(self, address):
        self.address = address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self, suite):
        return SharedBroker(self, self.address)

    def start_three(self, suite):
        raise RuntimeError("it needs brokers that it can stop: run it against huld or kafka")

    def fault(self):
        return None


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


CLUSTER_SIZE = 3
# With these a broker that doesn't answer is given up within seconds, and all internal topics are on all brokers.
CLUSTER_SETTINGS = [
    "broker.heartbeat.interval.ms=1000",
    "broker.session.timeout.ms=6000",
    "replica.lag.time.max.ms=4000",
    "default.replication.factor=3",
    "offsets.topic.replication.factor=3",
    "offsets.topic.num.partitions=5",
    "transaction.state.log.num.partitions=5",
    "group.initial.rebalance.delay.ms=0",
]

QUICK = [
    # Tests write records of years ago, which the first look at retention, 30 s after the start, would delete under them.
    "log.initial.task.delay.ms=86400000",
    # The coordinator says how often members of the consumer protocol speak, and so how long every change takes.
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.session.timeout.ms=1000",
]


def set_all(settings):
    """The settings as options of huld."""
    return [word for setting in settings for word in ("--set", setting)]


KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={home}/data
auto.create.topics.enable=true
offsets.topic.replication.factor=1
offsets.topic.num.partitions=5
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=5
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
""" + "\n".join(QUICK) + "\n"
