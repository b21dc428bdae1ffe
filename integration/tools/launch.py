"""Starting Kafka's command-line tools, and topics for them to work on."""

import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "harness"))
import raw
from running import Running
from tap import BOOTSTRAP, CACHE, check, equal, topic_name

# Each is a JVM that starts: on a busy machine that takes its time.
LIMIT_S = 90
CLASSES = {
    "topics": "org.apache.kafka.tools.TopicCommand",
    "configs": "kafka.admin.ConfigCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "dump-log": "kafka.tools.DumpLogSegments",
    "e2e-latency": "org.apache.kafka.tools.EndToEndLatency",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
}


# Classes of an earlier launch, ready to be mapped: with them a tool needs less than two thirds of the time.
ARCHIVE = Path(CACHE) / "tools" / "classes.jsa"


def start(name, *arguments, bootstrap=("--bootstrap-server", BOOTSTRAP), archive=f"-XX:SharedArchiveFile={ARCHIVE}"):
    # Without the optimising compiler a tool that lives for a second starts faster. What the JVM has to say of archives
    # that don't fit would be taken for the tool's.
    command = ["java", "-Xshare:auto", "-Xlog:disable", archive, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
               f"{os.environ['HULD_JARS']}/*", CLASSES[name], *bootstrap, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def finish(process, text=b"", may_fail=False):
    try:
        output, errors = process.communicate(text, timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    output, errors = output.decode(), errors.decode()
    if process.returncode and not may_fail:
        raise AssertionError(f"the tool ended with {process.returncode}: {output} {errors}")
    if may_fail:
        return process.returncode, output + errors
    return output


def tool(name, *arguments, text=b"", may_fail=False, **options):
    return finish(start(name, *arguments, **options), text, may_fail)


def refused(name, *arguments):
    """What a tool prints that must fail. Some tools end with 0 nevertheless, so their word is what counts."""
    return tool(name, *arguments, may_fail=True)[1]


@contextmanager
def running(name, *arguments, **options):
    process = start(name, *arguments, **options)
    try:
        yield Running(process, LIMIT_S)
    finally:
        process.kill()
        process.wait()


def created(partitions=1):
    """A topic made without a tool, for tests of other tools."""
    topic = topic_name()
    with raw.Connection(BOOTSTRAP) as connection:
        equal(connection.create_topic(topic, partitions), 0, "error of creation")
    for partition in range(partitions):
        raw.leading(BOOTSTRAP, topic, partition).close()
    return topic


def filled(count):
    topic = created()
    with raw.leading(BOOTSTRAP, topic) as leader:
        for number in range(count):
            equal(leader.produce(topic, 0, raw.batch(b"%d" % number)), (0, number), "answer to produce")
    return topic


def wait_until(condition, otherwise, limit_s=5):
    """Real Kafka answers before every part of it has heard of the change."""
    deadline = time.monotonic() + limit_s
    while not condition():
        check(time.monotonic() < deadline, otherwise)
        time.sleep(0.02)
