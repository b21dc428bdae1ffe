package main

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var rawTopicTests = []test{
	{"raw_create_topics_matrix", testRawCreateTopicsMatrix},
	{"raw_create_topics_twice_in_request", testRawCreateTopicsTwice},
	{"raw_create_topics_echo", testRawCreateTopicsEcho},
	{"raw_topic_names", testRawTopicNames},
	{"raw_metadata_all_or_none", testRawMetadataAllOrNone},
	{"raw_metadata_auto_creation", testRawMetadataAutoCreation},
	{"raw_usable_at_once", testRawUsableAtOnce},
	{"raw_usable_at_once_auto_created", testRawUsableAtOnceAutoCreated},
	{"raw_metadata_by_id", testRawMetadataByID},
	{"raw_delete_topics_by_id", testRawDeleteTopicsByID},
	{"raw_describe_topic_partitions", testRawDescribeTopicPartitions},
	{"raw_describe_cluster", testRawDescribeCluster},
}

func createRequest(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Version, request.TimeoutMillis, request.Topics = version, 10_000, topics
	return request
}

func topicEntry(name string, partitions int32, replicas int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	entry := kmsg.NewCreateTopicsRequestTopic()
	entry.Topic, entry.NumPartitions, entry.ReplicationFactor = name, partitions, replicas
	for i := 0; i < len(configs); i += 2 {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = configs[i], &configs[i+1]
		entry.Configs = append(entry.Configs, config)
	}
	return entry
}

func assigned(name string, partitions int32, replicas int16, assignment ...[]int32) kmsg.CreateTopicsRequestTopic {
	entry := topicEntry(name, partitions, replicas)
	for partition, brokers := range assignment {
		one := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		one.Partition, one.Replicas = int32(partition), brokers
		entry.ReplicaAssignment = append(entry.ReplicaAssignment, one)
	}
	return entry
}

func testRawCreateTopicsMatrix(t *T) {
	existing := newTopic(t, 1)
	connection := dial(t)
	cluster := ask[*kmsg.DescribeClusterResponse](connection, kmsg.NewPtrDescribeClusterRequest())
	node := cluster.Brokers[0].NodeID
	for _, version := range []int16{2, 3, 4, 5, 6, 7} {
		for _, one := range []struct {
			what     string
			topic    kmsg.CreateTopicsRequestTopic
			expected int16
		}{
			{"plain", topicEntry(topicName(), 2, 1), 0},
			{"with config", topicEntry(topicName(), 1, 1, "retention.ms", "1000"), 0},
			{"existing", topicEntry(existing, 1, 1), 36},
			{"0 partitions", topicEntry(topicName(), 0, 1), 37},
			{"-2 partitions", topicEntry(topicName(), -2, 1), 37},
			{"-1 partitions", topicEntry(topicName(), -1, 1), 0},
			{"0 replicas", topicEntry(topicName(), 1, 0), 38},
			{"-2 replicas", topicEntry(topicName(), 1, -2), 38},
			{"-1 replicas", topicEntry(topicName(), 1, -1), 0},
			{"both -1", topicEntry(topicName(), -1, -1), 0},
			{"3 replicas", topicEntry(topicName(), 1, 3), 38},
			{"unknown config", topicEntry(topicName(), 1, 1, "prefix", "x"), 40},
			{"malformed config", topicEntry(topicName(), 1, 1, "retention.ms", "soon"), 40},
			{"config out of range", topicEntry(topicName(), 1, 1, "max.message.bytes", "-1"), 40},
			{"same config twice", topicEntry(topicName(), 1, 1, "retention.ms", "1", "retention.ms", "2"), 0},
			{"bad name", topicEntry("a b", 1, 1), 17},
			{"empty name", topicEntry("", 1, 1), 17},
			{"metadata log", topicEntry("__cluster_metadata", 1, 1), 42},
			{"10,001 partitions", topicEntry(topicName(), 10_001, 1), 44},
			{"assigned", assigned(topicName(), -1, -1, []int32{node}, []int32{node}), 0},
			{"assigned and counted", assigned(topicName(), 2, 1, []int32{node}, []int32{node}), 42},
			{"assigned to an unknown broker", assigned(topicName(), -1, -1, []int32{node + 1000}), 39},
			{"assigned twice to one broker", assigned(topicName(), -1, -1, []int32{node, node}), 39},
			{"assigned to none", assigned(topicName(), -1, -1, []int32{}), 39},
		} {
			start := time.Now()
			request := createRequest(version, one.topic)
			response := ask[*kmsg.CreateTopicsResponse](connection, request)
			equal(t, 1, len(response.Topics), "topics answered to v%d, %s", version, one.what)
			answer := response.Topics[0]
			equal(t, one.expected, answer.ErrorCode, "error of v%d, %s", version, one.what)
			equal(t, one.topic.Topic, answer.Topic, "name of v%d, %s", version, one.what)
			equal(t, one.expected == 0, answer.ErrorMessage == nil, "no message at v%d, %s", version, one.what)
			t.between(0, time.Second, time.Since(start), "time of v%d, %s", version, one.what)
		}
	}
}

func testRawCreateTopicsTwice(t *T) {
	name, other := topicName(), topicName()
	connection := dial(t)
	response := ask[*kmsg.CreateTopicsResponse](connection,
		createRequest(7, topicEntry(name, 1, 1), topicEntry(other, 1, 1), topicEntry(name, 1, 1)))
	codes := map[string][]int16{}
	for _, topic := range response.Topics {
		codes[topic.Topic] = append(codes[topic.Topic], topic.ErrorCode)
	}
	t.that(slices.Equal(codes[name], []int16{42}), "codes of the name that stands twice: %v", codes[name])
	t.that(slices.Equal(codes[other], []int16{0}), "codes of the other name: %v", codes[other])
}

func testRawCreateTopicsEcho(t *T) {
	connection := dial(t)
	for _, version := range []int16{5, 6, 7} {
		for _, validateOnly := range []bool{true, false} {
			request := createRequest(version, topicEntry(topicName(), -1, -1, "cleanup.policy", "compact"))
			request.ValidateOnly = validateOnly
			topic := ask[*kmsg.CreateTopicsResponse](connection, request).Topics[0]
			equal(t, 0, topic.ErrorCode, "error")
			equal(t, 0, topic.ConfigErrorCode, "config error")
			equal(t, 1, topic.NumPartitions, "partitions")
			equal(t, 1, topic.ReplicationFactor, "replicas")
			if version == 7 {
				t.that(topic.TopicID != [16]byte{}, "topic id is zero")
			}
			t.that(len(topic.Configs) > 20, "only %d configs are echoed", len(topic.Configs))
			sources := map[string]int8{}
			for _, config := range topic.Configs {
				sources[config.Name] = config.Source
				if config.Name == "cleanup.policy" {
					t.that(config.Value != nil && *config.Value == "compact", "cleanup.policy is not echoed")
				}
			}
			equal(t, 1, sources["cleanup.policy"], "source of a config that was set (topic)")
			equal(t, 5, sources["retention.ms"], "source of a config that was not (default)")
		}
	}
}

func testRawTopicNames(t *T) {
	unique := topicName()
	longest := (unique + strings.Repeat("y", 249))[:249]
	connection := dial(t)
	for _, one := range []struct {
		name     string
		expected int16
	}{
		{unique, 0}, {unique + ".Az09_-", 0}, {longest, 0}, {"_" + unique, 0}, {"-" + unique, 0}, {unique + "..", 0},
		{longest + "y", 17}, {"", 17}, {".", 17}, {"..", 17}, {"a/b", 17}, {"../x", 17}, {"/", 17}, {"a b", 17}, {" ", 17},
		{"a:b", 17}, {"a,b", 17}, {"a;b", 17}, {"a\\b", 17}, {"a\u0000b", 17}, {"a\nb", 17}, {"a\tb", 17}, {"ä", 17},
		{"тема", 17}, {"主题", 17}, {"a*", 17}, {"a?", 17}, {"a#", 17}, {"a$", 17}, {"a%", 17}, {"a&", 17}, {"a+", 17},
		{"a=", 17}, {"a@", 17}, {"a!", 17}, {"a~", 17}, {"a|", 17}, {"a'", 17}, {"a\"", 17}, {"(a)", 17}, {"[a]", 17},
	} {
		request := createRequest(7, topicEntry(one.name, 1, 1))
		request.ValidateOnly = true
		topics := ask[*kmsg.CreateTopicsResponse](connection, request).Topics
		equal(t, one.expected, topics[0].ErrorCode, "CreateTopics of %q", one.name)
		if one.expected == 0 || one.name == "" {
			continue
		}
		start := time.Now()
		answer := metadataOf(connection, 12, one.name)
		equal(t, one.expected, answer.ErrorCode, "Metadata with auto-creation of %q", one.name)
		t.between(0, time.Second, time.Since(start), "time of Metadata of %q", one.name)
	}
	equal(t, 0, ask[*kmsg.CreateTopicsResponse](connection, createRequest(7, topicEntry(unique+".a", 1, 1))).Topics[0].ErrorCode, "first")
	collision := ask[*kmsg.CreateTopicsResponse](connection, createRequest(7, topicEntry(unique+"_a", 1, 1))).Topics[0]
	equal(t, 17, collision.ErrorCode, "collision")
	t.that(strings.Contains(*collision.ErrorMessage, "collide"), "message of a collision: %q", *collision.ErrorMessage)
}

func metadataRequest(version int16, names ...string) *kmsg.MetadataRequest {
	request := kmsg.NewPtrMetadataRequest()
	request.Version, request.AllowAutoTopicCreation = version, true
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range names {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = &name
		request.Topics = append(request.Topics, one)
	}
	return request
}

func metadataOf(connection *raw, version int16, name string) kmsg.MetadataResponseTopic {
	topics := ask[*kmsg.MetadataResponse](connection, metadataRequest(version, name)).Topics
	equal(connection.t, 1, len(topics), "topics of Metadata")
	return topics[0]
}

func testRawMetadataAllOrNone(t *T) {
	names := []string{newTopic(t, 1), newTopic(t, 2), newTopic(t, 3)}
	connection := dial(t)
	for version := range int16(14) {
		none := metadataRequest(version)
		all := metadataRequest(version)
		all.Topics = nil
		for _, one := range []struct {
			what     string
			request  *kmsg.MetadataRequest
			expected bool
		}{
			// Version 0 has no null: its empty list means all.
			{"an empty list", none, version == 0},
			{"null", all, true},
		} {
			response := ask[*kmsg.MetadataResponse](connection, one.request)
			equal(t, 1, len(response.Brokers), "brokers of v%d with %s", version, one.what)
			if !one.expected {
				equal(t, 0, len(response.Topics), "topics of v%d with %s", version, one.what)
				continue
			}
			found := 0
			for _, topic := range response.Topics {
				equal(t, 0, topic.ErrorCode, "error of a topic")
				if slices.Contains(names, *topic.Topic) {
					found++
				}
			}
			equal(t, 3, found, "topics of v%d with %s", version, one.what)
		}
	}
}

// Kafka answers that it doesn't know the topic and makes it; huld has it at once.
func testRawMetadataAutoCreation(t *T) {
	connection := dial(t)
	for _, version := range []int16{0, 1, 3, 4, 8, 9, 12, 13} {
		name := topicName()
		first := metadataOf(connection, version, name)
		t.that(first.ErrorCode == 3 || first.ErrorCode == 5 || first.ErrorCode == 0, "first answer at v%d: %d", version, first.ErrorCode)
		end := time.Now().Add(waitLimit)
		for first.ErrorCode != 0 && time.Now().Before(end) {
			time.Sleep(20 * time.Millisecond)
			first = metadataOf(connection, version, name)
		}
		equal(t, 0, first.ErrorCode, "error in the end")
		equal(t, 1, len(first.Partitions), "partitions")

		if version >= 4 {
			refused := metadataRequest(version, topicName())
			refused.AllowAutoTopicCreation = false
			for range 2 {
				equal(t, 3, ask[*kmsg.MetadataResponse](connection, refused).Topics[0].ErrorCode, "without leave at v%d", version)
			}
		}
	}
}

const rounds = 1000

// Whoever hears that a topic was made finds it usable on every connection, without a second try.
func testRawUsableAtOnce(t *T) {
	if !onHuld() {
		t.skip("Kafka may answer that a new topic isn't known or led for a moment")
	}
	one, other := dial(t), dial(t)
	for round := range int32(rounds) {
		name, partitions := topicName(), round%50+1
		created := ask[*kmsg.CreateTopicsResponse](one, createRequest(7, topicEntry(name, partitions, 1))).Topics[0]
		equal(t, 0, created.ErrorCode, "CreateTopics")
		described := metadataOf(other, 12, name)
		equal(t, 0, described.ErrorCode, "Metadata")
		equal(t, int(partitions), len(described.Partitions), "partitions")
		useAtOnce(t, other, name, partitions-1)
		removeTopic(t, one, name)
	}
}

// The same for a topic that Metadata has made.
func testRawUsableAtOnceAutoCreated(t *T) {
	if !onHuld() {
		t.skip("Kafka answers that the topic isn't known while it is being made")
	}
	one, other := dial(t), dial(t)
	for range rounds {
		name := topicName()
		equal(t, 0, metadataOf(one, 12, name).ErrorCode, "Metadata")
		useAtOnce(t, other, name, 0)
		removeTopic(t, one, name)
	}
}

func useAtOnce(t *T, connection *raw, topic string, partition int32) {
	produced := produceRequest(9, -1, topic, map[int32][]byte{partition: newBatch(1).encode(t)})
	equal(t, 0, ask[*kmsg.ProduceResponse](connection, produced).Topics[0].Partitions[0].ErrorCode, "Produce")
	code, _, offset := connection.listOffset(6, topic, partition, -1, 0)
	equal(t, listed{0, 0, 1}, listed{code, 0, offset}, "ListOffsets")
	fetched := ask[*kmsg.FetchResponse](connection, fetchRequest(topic, map[int32]int64{partition: 0}))
	equal(t, 1, fetched.Topics[0].Partitions[0].HighWatermark, "high watermark")
}

func removeTopic(t *T, connection *raw, name string) {
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.Version, request.TimeoutMillis, request.TopicNames = 4, 10_000, []string{name}
	equal(t, 0, ask[*kmsg.DeleteTopicsResponse](connection, request).Topics[0].ErrorCode, "DeleteTopics")
	equal(t, 3, errorWithoutCreation(connection, name), "Metadata of a deleted topic")
}

func errorWithoutCreation(connection *raw, name string) int16 {
	request := metadataRequest(12, name)
	request.AllowAutoTopicCreation = false
	return ask[*kmsg.MetadataResponse](connection, request).Topics[0].ErrorCode
}

func testRawMetadataByID(t *T) {
	name := newTopic(t, 2)
	connection := dial(t)
	id := metadataOf(connection, 12, name).TopicID
	t.that(id != [16]byte{}, "the topic id is zero")
	for _, version := range []int16{10, 11, 12, 13} {
		for _, one := range []struct {
			what     string
			id       [16]byte
			expected int16
		}{{"the id", id, 0}, {"an unknown id", [16]byte{1, 2, 3, 4, 5}, 100}} {
			request := metadataRequest(version)
			entry := kmsg.NewMetadataRequestTopic()
			entry.TopicID = one.id
			request.Topics = append(request.Topics, entry)
			response := ask[*kmsg.MetadataResponse](connection, request)
			equal(t, 1, len(response.Topics), "topics at v%d", version)
			topic := response.Topics[0]
			if version < 12 {
				equal(t, 42, topic.ErrorCode, "v%d can't ask by id", version)
				continue
			}
			equal(t, one.expected, topic.ErrorCode, "error of %s at v%d", one.what, version)
			if one.expected == 0 {
				t.that(topic.Topic != nil && *topic.Topic == name, "name by id at v%d", version)
				equal(t, 2, len(topic.Partitions), "partitions at v%d", version)
			}
		}
	}
}

func testRawDeleteTopicsByID(t *T) {
	name := newTopic(t, 1)
	connection := dial(t)
	id := metadataOf(connection, 12, name).TopicID
	remove := func(entries ...kmsg.DeleteTopicsRequestTopic) []kmsg.DeleteTopicsResponseTopic {
		request := kmsg.NewPtrDeleteTopicsRequest()
		request.Version, request.TimeoutMillis, request.Topics = 6, 10_000, entries
		return ask[*kmsg.DeleteTopicsResponse](connection, request).Topics
	}
	by := func(name *string, id [16]byte) kmsg.DeleteTopicsRequestTopic {
		entry := kmsg.NewDeleteTopicsRequestTopic()
		entry.Topic, entry.TopicID = name, id
		return entry
	}
	equal(t, 42, remove(by(&name, id))[0].ErrorCode, "name and id")
	equal(t, 42, remove(by(nil, [16]byte{}))[0].ErrorCode, "neither name nor id")
	equal(t, 100, remove(by(nil, [16]byte{9}))[0].ErrorCode, "unknown id")
	unknown := topicName()
	equal(t, 3, remove(by(&unknown, [16]byte{}))[0].ErrorCode, "unknown name")
	answer := remove(by(nil, id))[0]
	equal(t, 0, answer.ErrorCode, "by id")
	t.that(answer.Topic != nil && *answer.Topic == name, "the name is not answered")
	equal(t, 100, remove(by(nil, id))[0].ErrorCode, "by id again")
}

func testRawDescribeTopicPartitions(t *T) {
	unique := topicName()
	for i, name := range []string{unique + "-b", unique + "-a", unique + "-c"} {
		createTopic(t, name, int32(i+1))
	}
	request := func(limit int32, names ...string) *kmsg.DescribeTopicPartitionsRequest {
		request := kmsg.NewPtrDescribeTopicPartitionsRequest()
		request.ResponsePartitionLimit = limit
		for _, name := range names {
			one := kmsg.NewDescribeTopicPartitionsRequestTopic()
			one.Topic = name
			request.Topics = append(request.Topics, one)
		}
		return request
	}
	names := []string{unique + "-c", unique + "-b", unique + "-a"}
	connection := dial(t)
	response := ask[*kmsg.DescribeTopicPartitionsResponse](connection, request(100, names...))
	t.that(response.NextCursor == nil, "there should be no cursor")
	// Sorted by name, whatever order was asked for.
	for i, expected := range []int{2, 1, 3} {
		equal(t, unique+"-"+string(rune('a'+i)), *response.Topics[i].Topic, "order")
		equal(t, expected, len(response.Topics[i].Partitions), "partitions")
		for _, partition := range response.Topics[i].Partitions {
			equal(t, 0, partition.ErrorCode, "error")
			// Null would break the Java client.
			t.that(partition.EligibleLeaderReplicas != nil && partition.LastKnownELR != nil, "null lists of eligible leaders")
		}
	}
	first := ask[*kmsg.DescribeTopicPartitionsResponse](connection, request(3, names...))
	t.that(first.NextCursor != nil, "there should be a cursor")
	next := request(3, names...)
	cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
	cursor.Topic, cursor.Partition = first.NextCursor.Topic, first.NextCursor.Partition
	next.Cursor = &cursor
	second := ask[*kmsg.DescribeTopicPartitionsResponse](connection, next)
	t.that(second.NextCursor == nil, "the second page should be the last")
	count := 0
	for _, page := range [][]kmsg.DescribeTopicPartitionsResponseTopic{first.Topics, second.Topics} {
		for _, topic := range page {
			count += len(topic.Partitions)
		}
	}
	equal(t, 6, count, "partitions on both pages")
	equal(t, 3, ask[*kmsg.DescribeTopicPartitionsResponse](connection, request(10, topicName())).Topics[0].ErrorCode, "unknown topic")
	equal(t, 17, ask[*kmsg.DescribeTopicPartitionsResponse](connection, request(10, "a b")).Topics[0].ErrorCode, "bad name")
}

func testRawDescribeCluster(t *T) {
	connection := dial(t)
	for version := range int16(3) {
		request := kmsg.NewPtrDescribeClusterRequest()
		request.Version = version
		response := ask[*kmsg.DescribeClusterResponse](connection, request)
		equal(t, 0, response.ErrorCode, "error at v%d", version)
		equal(t, 1, len(response.Brokers), "brokers at v%d", version)
		t.that(strings.HasSuffix(bootstrap(), ":"+itoa(response.Brokers[0].Port)), "port at v%d", version)
		equal(t, response.Brokers[0].NodeID, response.ControllerID, "controller at v%d", version)
	}
	// Controllers can't be asked for on this listener.
	request := kmsg.NewPtrDescribeClusterRequest()
	request.Version, request.EndpointType = 1, 2
	equal(t, 114, ask[*kmsg.DescribeClusterResponse](connection, request).ErrorCode, "endpoint type 2")
	request.EndpointType = 7
	equal(t, 115, ask[*kmsg.DescribeClusterResponse](connection, request).ErrorCode, "endpoint type 7")
}
