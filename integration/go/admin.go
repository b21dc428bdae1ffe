package main

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var adminTests = []test{
	{"create_topic", testCreateTopic},
	{"create_topic_defaults", testCreateTopicDefaults},
	{"create_topic_validate_only", testCreateTopicValidateOnly},
	{"create_topic_errors", testCreateTopicErrors},
	{"list_topics", testListTopics},
	{"delete_topics", testDeleteTopics},
	{"create_partitions", testCreatePartitions},
	{"describe_cluster", testDescribeCluster},
	{"list_offsets", testListOffsets},
	{"offset_for_leader_epoch", testOffsetForLeaderEpoch},
	{"delete_records", testDeleteRecords},
	{"configs", testConfigs},
	{"fifty_partitions", testFiftyPartitions},
	{"usable_after_creation", testUsableAfterCreation},
}

func testCreateTopic(t *T) {
	name := topicName()
	made := createTopic(t, name, 3, "max.message.bytes", "54321", "cleanup.policy", "compact,delete")
	equal(t, 3, made.NumPartitions, "partitions echoed")
	equal(t, 1, made.ReplicationFactor, "replication factor echoed")
	for key, value := range map[string]string{"max.message.bytes": "54321", "cleanup.policy": "compact,delete", "retention.ms": "604800000"} {
		config, known := made.Configs[key]
		t.that(known, "config %s is not echoed", key)
		equal(t, value, config.MaybeValue(), "config %s echoed", key)
	}
	topic := describe(t, name)
	equal(t, made.ID, topic.ID, "topic id")
	equal(t, 3, len(topic.Partitions), "partitions")
	for number, partition := range topic.Partitions {
		t.ok(partition.Err, "partition %d", number)
		t.that(partition.Leader >= 0, "partition %d has leader %d", number, partition.Leader)
		t.that(slices.Equal(partition.Replicas, []int32{partition.Leader}), "replicas of %d: %v", number, partition.Replicas)
		t.that(slices.Equal(partition.ISR, []int32{partition.Leader}), "ISR of %d: %v", number, partition.ISR)
	}
}

func describe(t *T, name string) kadm.TopicDetail {
	topics, err := admin(t).ListTopics(limited(t), name)
	t.ok(err, "metadata of %s", name)
	topic, known := topics[name]
	t.that(known, "metadata does not have %s", name)
	t.ok(topic.Err, "metadata of %s", name)
	return topic
}

func testConfigs(t *T) {
	topic := newTopic(t, 1)
	described := func() string {
		found, err := admin(t).DescribeTopicConfigs(limited(t), topic)
		t.ok(err, "describe")
		resource, err := found.On(topic, nil)
		t.ok(err, "describe")
		values := map[string]string{}
		for _, config := range resource.Configs {
			values[config.Key] = config.MaybeValue()
		}
		return values["cleanup.policy"] + " " + values["retention.ms"]
	}
	alter := func(operation kadm.IncrementalOp, name, value string) error {
		answers, err := admin(t).AlterTopicConfigs(limited(t), []kadm.AlterConfig{{Op: operation, Name: name, Value: &value}}, topic)
		t.ok(err, "alter")
		return answers[0].Err
	}
	is := func(expected string) {
		end := time.Now().Add(5 * time.Second)
		for !onHuld() && described() != expected && time.Now().Before(end) {
			time.Sleep(20 * time.Millisecond) // Kafka's broker hears of it from its controller a moment after the answer.
		}
		equal(t, expected, described(), "policy and retention")
	}
	is("delete 604800000")
	t.ok(alter(kadm.SetConfig, "retention.ms", "200000"), "set")
	t.ok(alter(kadm.AppendConfig, "cleanup.policy", "compact"), "append")
	is("delete,compact 200000")
	t.ok(alter(kadm.SubtractConfig, "cleanup.policy", "compact"), "subtract")
	t.ok(alter(kadm.DeleteConfig, "retention.ms", ""), "delete")
	is("delete 604800000")
	fails(t, kerr.InvalidConfig, alter(kadm.SetConfig, "retention.ms", "soon"), "a bad value")
}

func testCreateTopicDefaults(t *T) {
	made, err := admin(t).CreateTopic(limited(t), -1, -1, nil, topicName())
	t.ok(err, "create")
	equal(t, 1, made.NumPartitions, "default partitions")
	equal(t, 1, made.ReplicationFactor, "default replication factor")
}

func testCreateTopicValidateOnly(t *T) {
	name := topicName()
	answers, err := admin(t).ValidateCreateTopics(limited(t), 7, 1, configMap("retention.ms", "1234"), name)
	t.ok(err, "validate")
	answer, err := answers.On(name, nil)
	t.ok(err, "validate %s", name)
	equal(t, 7, answer.NumPartitions, "partitions echoed")
	config := answer.Configs["retention.ms"]
	equal(t, "1234", config.MaybeValue(), "retention.ms echoed")
	topics, err := admin(t).ListTopics(limited(t))
	t.ok(err, "list")
	t.that(!topics.Has(name), "a dry run has created %s", name)
}

func testCreateTopicErrors(t *T) {
	existing := newTopic(t, 1)
	made := admin(t)
	for _, bad := range []struct {
		what       string
		name       string
		partitions int32
		replicas   int16
		configs    map[string]*string
		expected   *kerr.Error
	}{
		{"existing topic", existing, 1, 1, nil, kerr.TopicAlreadyExists},
		{"3 replicas", topicName(), 1, 3, nil, kerr.InvalidReplicationFactor},
		{"0 partitions", topicName(), 0, 1, nil, kerr.InvalidPartitions},
		{"a bad name", "a/b", 1, 1, nil, kerr.InvalidTopicException},
		{"a name of 250 characters", strings.Repeat("x", 250), 1, 1, nil, kerr.InvalidTopicException},
		{"an unknown config", topicName(), 1, 1, configMap("prefix", "x"), kerr.InvalidConfig},
		{"a config that is no number", topicName(), 1, 1, configMap("retention.ms", "soon"), kerr.InvalidConfig},
		{"a config without value", topicName(), 1, 1, map[string]*string{"retention.ms": nil}, kerr.InvalidConfig},
	} {
		start := time.Now()
		_, err := made.CreateTopic(limited(t), bad.partitions, bad.replicas, bad.configs, bad.name)
		fails(t, bad.expected, err, "%s", bad.what)
		t.between(0, time.Second, time.Since(start), "%s is refused at once", bad.what)
	}
}

func testListTopics(t *T) {
	one, two := newTopic(t, 1), newTopic(t, 2)
	topics, err := admin(t).ListTopics(limited(t))
	t.ok(err, "list")
	t.that(topics.Has(one) && topics.Has(two), "a topic is not listed")
	equal(t, 2, len(topics[two].Partitions), "partitions")
	equal(t, describe(t, two).ID, topics[two].ID, "id")
}

func testDeleteTopics(t *T) {
	name := newTopic(t, 2)
	before := describe(t, name).ID
	made := admin(t)
	_, err := made.DeleteTopic(limited(t), name)
	t.ok(err, "delete")
	settled(func() {
		topics, err := made.ListTopics(limited(t), name)
		t.ok(err, "metadata")
		fails(t, kerr.UnknownTopicOrPartition, topics[name].Err, "metadata of a deleted topic")
	})
	_, err = made.DeleteTopic(limited(t), name)
	fails(t, kerr.UnknownTopicOrPartition, err, "delete again")
	createTopic(t, name, 1)
	t.that(before != describe(t, name).ID, "a new topic of the same name has the old id")
}

func testCreatePartitions(t *T) {
	name := newTopic(t, 1)
	made := admin(t)
	answers, err := made.UpdatePartitions(limited(t), 4, name)
	t.ok(err, "update partitions")
	t.ok(answers.Error(), "update partitions")
	settled(func() { equal(t, 4, len(describe(t, name).Partitions), "partitions") })
	answers, err = made.UpdatePartitions(limited(t), 4, name)
	t.ok(err, "update partitions")
	fails(t, kerr.InvalidPartitions, answers.Error(), "as many as there are")
	answers, err = made.UpdatePartitions(limited(t), 2, name)
	t.ok(err, "update partitions")
	fails(t, kerr.InvalidPartitions, answers.Error(), "fewer")
	answers, err = made.ValidateUpdatePartitions(limited(t), 9, name)
	t.ok(err, "dry run")
	t.ok(answers.Error(), "dry run")
	equal(t, 4, len(describe(t, name).Partitions), "partitions after a dry run")
	fill(t, name, 3, 5)
}

func testDescribeCluster(t *T) {
	metadata, err := admin(t).BrokerMetadata(limited(t))
	t.ok(err, "metadata")
	equal(t, 1, len(metadata.Brokers), "brokers")
	equal(t, metadata.Brokers[0].NodeID, metadata.Controller, "controller")
	t.that(metadata.Cluster != "", "the cluster id is empty")
	t.that(strings.HasSuffix(bootstrap(), ":"+itoa(metadata.Brokers[0].Port)), "port %d", metadata.Brokers[0].Port)
}

func testListOffsets(t *T) {
	name := newTopic(t, 2)
	base := time.Now().Add(-100 * time.Second).UnixMilli()
	var records []*kgo.Record
	// The largest timestamp stands in the middle.
	for _, delta := range []int64{0, 10, 20, 90, 30, 40} {
		records = append(records, &kgo.Record{Topic: name, Value: []byte("x"), Timestamp: time.UnixMilli(base + delta)})
	}
	send(t, producer(t, kgo.ProducerLinger(100*time.Millisecond)), records...)
	made := admin(t)
	check := func(what string, offset, emptyOffset, timestamp int64) func(kadm.ListedOffsets, error) {
		return func(listed kadm.ListedOffsets, err error) {
			t.ok(err, "%s", what)
			t.ok(listed.Error(), "%s", what)
			full, _ := listed.Lookup(name, 0)
			empty, _ := listed.Lookup(name, 1)
			equal(t, offset, full.Offset, "offset of %s", what)
			equal(t, timestamp, full.Timestamp, "timestamp of %s", what)
			equal(t, emptyOffset, empty.Offset, "offset of %s in the empty partition", what)
		}
	}
	check("start", 0, 0, -1)(made.ListStartOffsets(limited(t), name))
	check("end", 6, 0, -1)(made.ListEndOffsets(limited(t), name))
	check("committed end", 6, 0, -1)(made.ListCommittedOffsets(limited(t), name))
	check("max timestamp", 3, -1, base+90)(made.ListMaxTimestampOffsets(limited(t), name))
	check("local start", 0, 0, -1)(made.ListLocalLogStartOffsets(limited(t), name))
	// Where no record is that late, kadm asks for the end instead.
	check("time before all", 0, 0, base)(made.ListOffsetsAfterMilli(limited(t), base-1, name))
	check("time between", 3, 0, base+90)(made.ListOffsetsAfterMilli(limited(t), base+21, name))
	check("time after all", 6, 0, -1)(made.ListOffsetsAfterMilli(limited(t), base+91, name))
}

func testOffsetForLeaderEpoch(t *T) {
	name := newTopic(t, 1)
	fill(t, name, 0, 7)
	var request kadm.OffsetForLeaderEpochRequest
	request.Add(name, 0, 0)
	answers, err := admin(t).OffsetForLeaderEpoch(limited(t), request)
	t.ok(err, "offset for leader epoch")
	answer := answers[name][0]
	t.ok(answer.Err, "offset for leader epoch")
	equal(t, 0, answer.LeaderEpoch, "epoch")
	equal(t, 7, answer.EndOffset, "end offset")
}

func testDeleteRecords(t *T) {
	name := newTopic(t, 1)
	fill(t, name, 0, 100)
	made := admin(t)
	lowWatermark := func(before int64) (int64, error) {
		offsets := kadm.Offsets{}
		offsets.AddOffset(name, 0, before, -1)
		answers, err := made.DeleteRecords(limited(t), offsets)
		t.ok(err, "delete records before %d", before)
		answer, known := answers.Lookup(name, 0)
		t.that(known, "delete records before %d: no answer for the partition", before)
		return answer.LowWatermark, answer.Err
	}
	for _, step := range [][2]int64{{50, 50}, {20, 50}, {-1, 100}} {
		low, err := lowWatermark(step[0])
		t.ok(err, "delete records before %d", step[0])
		equal(t, step[1], low, "low watermark after deletion before %d", step[0])
	}
	_, err := lowWatermark(101)
	fails(t, kerr.OffsetOutOfRange, err, "delete records before 101")
	listed, err := made.ListStartOffsets(limited(t), name)
	t.ok(err, "start offset")
	start, _ := listed.Lookup(name, 0)
	equal(t, 100, start.Offset, "start offset")
	fill(t, name, 0, 1)
	equal(t, 100, read(t, consumer(t, name, fromStart(1)), 1)[0].Offset, "offset after deletion")
}

func testFiftyPartitions(t *T) {
	name := newTopic(t, 50)
	var records []*kgo.Record
	for i := range int32(50) {
		records = append(records, numbered(name, i, 3)...)
	}
	send(t, producer(t), records...)
	inOrder(t, name, 50, 3)
}

func testUsableAfterCreation(t *T) {
	made := admin(t)
	for i := range int32(20) {
		name := topicName()
		_, err := made.CreateTopic(limited(t), i+1, 1, nil, name)
		t.ok(err, "create")
		fill(t, name, i, 1)
		read(t, consumer(t, name, map[int32]kgo.Offset{i: kgo.NewOffset().AtStart()}), 1)
		_, err = made.DeleteTopic(limited(t), name)
		t.ok(err, "delete")
	}
}
