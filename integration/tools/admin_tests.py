"""Configs, directories, features, elections and moves; the verifiable clients."""

import json
import re

import raw
from launch import created, filled, refused, running, tool
from tap import BOOTSTRAP, check, equal, test, topic_name


def configs(*arguments):
    return tool("configs", *arguments)


@test(limit_s=300)
def configs_of_topics():
    topic = created()
    of = ("--entity-type", "topics", "--entity-name", topic)
    equal(configs("--describe", *of).split("\n")[1:], [""], "configs of a new topic")
    configs("--alter", *of, "--add-config", "retention.ms=100000,cleanup.policy=[compact,delete]")
    output = configs("--describe", *of)
    check("cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, "
          "DEFAULT_CONFIG:log.cleanup.policy=delete}" in output, f"configs printed {output}")
    configs("--alter", *of, "--delete-config", "cleanup.policy")
    output = configs("--describe", *of)
    check("retention.ms=100000" in output and "cleanup.policy" not in output, f"configs printed {output}")
    output = configs("--describe", "--all", *of)
    check("cleanup.policy=delete sensitive=false" in output and "segment.bytes=1073741824" in output, f"configs printed {output}")
    output = refused("configs", "--alter", *of, "--add-config", "no.such.key=1")
    check("InvalidConfigurationException" in output and "no.such.key" in output, f"an unknown key: {output}")
    output = refused("configs", "--alter", *of, "--add-config", "retention.ms=abc")
    check("InvalidConfigurationException" in output and "retention.ms" in output, f"a bad value: {output}")


@test(limit_s=300)
def configs_of_brokers_and_others():
    with raw.Connection(BOOTSTRAP) as connection:
        broker = str(connection.brokers()[0][0])
    of = ("--entity-type", "brokers", "--entity-name", broker)
    configs("--alter", *of, "--add-config", "log.cleaner.threads=2")
    output = configs("--describe", *of)
    check(re.search(r"log\.cleaner\.threads=2 sensitive=false synonyms=\{DYNAMIC_BROKER_CONFIG:log\.cleaner\.threads=2", output),
          f"configs of the broker: {output}")
    configs("--alter", *of, "--delete-config", "log.cleaner.threads")
    check("DYNAMIC_BROKER_CONFIG" not in configs("--describe", *of), "the broker's config is still there")
    check(f"node.id={broker} " in configs("--describe", "--all", *of), "no node.id among all configs")
    user = topic_name()
    of = ("--entity-type", "users", "--entity-name", user)
    configs("--alter", *of, "--add-config", "producer_byte_rate=1048576")
    output = configs("--describe", *of)
    check("producer_byte_rate=1048576.0" in output, f"quotas printed {output}")
    configs("--alter", *of, "--delete-config", "producer_byte_rate")


@test(limit_s=300)
def levels_of_loggers():
    with raw.Connection(BOOTSTRAP) as connection:
        broker = str(connection.brokers()[0][0])
    of = ("--entity-type", "broker-loggers", "--entity-name", broker)

    def levels():
        return dict(re.findall(r"^  (\S+)=(\w+) sensitive=false synonyms=\{\}$", configs("--describe", *of), re.MULTILINE))

    before = levels()
    check("root" in before, f"there is no root among {before}")
    logger = next(name for name in before if name != "root")
    configs("--alter", *of, "--add-config", f"{logger}=TRACE")
    equal(levels(), {**before, logger: "TRACE"}, "levels")
    configs("--alter", *of, "--delete-config", logger)
    equal(levels(), {**before, logger: before["root"]}, "levels once it has none of its own")
    output = refused("configs", "--alter", *of, "--add-config", "no.such.logger=INFO")
    check("InvalidConfigurationException" in output or "no.such.logger" in output, f"an unknown logger: {output}")


@test(limit_s=180)
def log_dirs():
    topic = filled(10)
    output = tool("log-dirs", "--describe", "--topic-list", topic)
    answer = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    (broker,) = answer["brokers"]
    (directory,) = broker["logDirs"]
    equal(directory["error"], None, "error")
    with raw.Connection(BOOTSTRAP) as connection:
        size = len(connection.fetch(topic)[2])
    partition = {"partition": f"{topic}-0", "size": size, "offsetLag": 0, "isFuture": False}
    equal(directory["partitions"], [partition], "partitions")


@test(limit_s=180)
def features():
    # Which features there are is the broker's own affair; an upgrade of one that isn't there fails everywhere.
    tool("features", "describe")
    output = refused("features", "upgrade", "--feature", "no.such.feature=1")
    check("Could not upgrade no.such.feature" in output or "not supported" in output.lower(), f"features printed {output}")


@test(limit_s=180)
def cluster_id():
    output = tool("cluster", bootstrap=("cluster-id", "--bootstrap-server", BOOTSTRAP))
    check(re.fullmatch(r"Cluster ID: [\w-]{22}", output.strip()), f"cluster printed {output}")


@test(limit_s=180)
def leader_election():
    topic = created()
    output = tool("leader-election", "--election-type", "preferred", "--topic", topic, "--partition", "0")
    check(f"Valid replica already elected for partitions {topic}-0" in output, f"leader-election printed {output}")


@test(limit_s=180)
def reassign_partitions():
    check("No partition reassignments found." in tool("reassign-partitions", "--list"), "there are reassignments")


def json_lines(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@test(limit_s=300)
def verifiable_producer_and_consumer():
    topic, group = created(), topic_name()
    lines = json_lines(tool("verifiable-producer", "--topic", topic, "--max-messages", "100", "--acks", "-1"))
    sent = [line for line in lines if line["name"] == "producer_send_success"]
    equal([(line["partition"], line["offset"], line["value"]) for line in sent],
          [(0, number, str(number)) for number in range(100)], "records acknowledged")
    equal([(line["sent"], line["acked"]) for line in lines if line["name"] == "tool_data"], [(100, 100)], "sum")
    # Without a limit of messages it goes on until it is stopped, after its first commit of all of them.
    with running("verifiable-consumer", "--topic", topic, "--group-id", group, "--reset-policy", "earliest") as consumer:
        first = consumer.until("assignment", lambda text: '"partitions_assigned"' in text and json.loads(text))
        equal(first["partitions"], [{"topic": topic, "partition": 0}], "partitions assigned")
        done = consumer.until("commit of all", lambda line: '"offsets_committed"' in line and '"offset":100' in line
                              and json.loads(line))
        equal((done["success"], done["offsets"]), (True, [{"topic": topic, "partition": 0, "offset": 100}]), "commit")
        consumer.stop()
        consumer.until("end", lambda line: '"shutdown_complete"' in line)
