package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"
)

var kafkaGoTests = []test{
	{"kafka_go_create_and_delete_topic", kafkaGoTopics},
	{"kafka_go_create_partitions", kafkaGoCreatePartitions},
	{"kafka_go_configs", kafkaGoConfigs},
	{"kafka_go_usable_after_creation", kafkaGoUsableAfterCreation},
	{"kafka_go_auto_creation", kafkaGoAutoCreation},
	{"kafka_go_round_trip_none", func(t *T) { kafkaGoRoundTrip(t, 0) }},
	{"kafka_go_round_trip_gzip", func(t *T) { kafkaGoRoundTrip(t, kafka.Gzip) }},
	{"kafka_go_round_trip_snappy", func(t *T) { kafkaGoRoundTrip(t, kafka.Snappy) }},
	{"kafka_go_round_trip_lz4", func(t *T) { kafkaGoRoundTrip(t, kafka.Lz4) }},
	{"kafka_go_round_trip_zstd", func(t *T) { kafkaGoRoundTrip(t, kafka.Zstd) }},
	{"kafka_go_acks_0", func(t *T) { kafkaGoAcks(t, kafka.RequireNone) }},
	{"kafka_go_acks_1", func(t *T) { kafkaGoAcks(t, kafka.RequireOne) }},
	{"kafka_go_acks_all", func(t *T) { kafkaGoAcks(t, kafka.RequireAll) }},
	{"kafka_go_offsets_for_times", kafkaGoOffsetsForTimes},
	{"kafka_go_seek", kafkaGoSeek},
	{"kafka_go_long_poll_idle", kafkaGoLongPollIdle},
	{"kafka_go_long_poll_wakes", kafkaGoLongPollWakes},
	{"kafka_go_message_size", kafkaGoMessageSize},
	{"kafka_go_group_eager", kafkaGoRebalances},
	{"kafka_go_group_manual_commit", kafkaGoManualCommit},
	{"kafka_go_group_automatic_commit", kafkaGoAutomaticCommit},
	{"kafka_go_group_admin", kafkaGoGroups},
}

func kafkaGoClient() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(bootstrap()), Timeout: waitLimit}
}

func kafkaGoCreated(t *T, partitions int) string {
	topic := topicName()
	t.ok(kafkaGoCreate(t, topic, partitions), "create")
	kafkaGoAwaitLeaders(t, topic, partitions)
	return topic
}

func kafkaGoAwaitLeaders(t *T, topic string, partitions int) {
	var starts []kafka.OffsetRequest
	for partition := range partitions {
		starts = append(starts, kafka.FirstOffsetOf(partition))
	}
	settled(t, "a partition is not led", func() bool {
		answer, err := kafkaGoClient().ListOffsets(limited(t), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: starts}})
		if err != nil {
			return false
		}
		led := len(answer.Topics[topic]) == partitions
		for _, one := range answer.Topics[topic] {
			led = led && one.Error == nil
		}
		return led
	})
}

func kafkaGoCreate(t *T, topic string, partitions int) error {
	answer, err := kafkaGoClient().CreateTopics(limited(t), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	t.ok(err, "create")
	return answer.Errors[topic]
}

func kafkaGoWriter(t *T, topic string) *kafka.Writer {
	writer := &kafka.Writer{
		Addr: kafka.TCP(bootstrap()), Topic: topic, BatchTimeout: 10 * time.Millisecond, RequiredAcks: kafka.RequireAll,
		BatchSize: 1000, BatchBytes: 2_000_000, MaxAttempts: 3,
		Transport: &kafka.Transport{},
		Balancer:  kafka.BalancerFunc(func(message kafka.Message, partitions ...int) int { return message.Partition % len(partitions) }),
	}
	t.cleanup(func() { _ = writer.Close() })
	return writer
}

func kafkaGoNumbered(from, to int) []kafka.Message {
	var messages []kafka.Message
	for i := from; i < to; i++ {
		messages = append(messages, kafka.Message{Value: []byte(strconv.Itoa(i)), Time: start.Add(time.Duration(i) * time.Second)})
	}
	return messages
}

// kafkaGoFilled spreads the records over the partitions in turn.
func kafkaGoFilled(t *T, partitions, count int) string {
	topic := kafkaGoCreated(t, partitions)
	writer := kafkaGoWriter(t, topic)
	writer.Balancer = &kafka.RoundRobin{}
	t.ok(writer.WriteMessages(limited(t), kafkaGoNumbered(0, count)...), "write")
	return topic
}

func kafkaGoReader(t *T, config kafka.ReaderConfig) *kafka.Reader {
	config.Brokers = []string{bootstrap()}
	config.StartOffset = kafka.FirstOffset
	config.HeartbeatInterval = 100 * time.Millisecond
	if config.MaxWait == 0 {
		config.MaxWait = 200 * time.Millisecond
	}
	config.MaxBytes = 10_000_000
	reader := kafka.NewReader(config)
	t.cleanup(func() { _ = reader.Close() })
	return reader
}

func kafkaGoTake(t *T, reader *kafka.Reader, count int) []kafka.Message {
	ctx := limited(t)
	var messages []kafka.Message
	for len(messages) < count {
		message, err := reader.FetchMessage(ctx)
		t.ok(err, fmt.Sprintf("%d of %d records", len(messages), count))
		messages = append(messages, message)
	}
	return messages
}

func kafkaGoRead(t *T, topic string, count int) []kafka.Message {
	return kafkaGoTake(t, kafkaGoReader(t, kafka.ReaderConfig{Topic: topic}), count)
}

func kafkaGoTopics(t *T) {
	topic := kafkaGoCreated(t, 3)
	listed := func() (int, error) {
		answer, err := kafkaGoClient().Metadata(limited(t), &kafka.MetadataRequest{Topics: []string{topic}})
		t.ok(err, "metadata")
		return len(answer.Topics[0].Partitions), answer.Topics[0].Error
	}
	partitions, err := listed()
	t.ok(err, "metadata")
	equal(t, 3, partitions, "partitions")
	t.fails(kafka.TopicAlreadyExists, kafkaGoCreate(t, topic, 1), "create again")
	remove := func() error {
		answer, err := kafkaGoClient().DeleteTopics(limited(t), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
		t.ok(err, "delete")
		return answer.Errors[topic]
	}
	t.ok(remove(), "delete")
	t.fails(kafka.UnknownTopicOrPartition, remove(), "delete again")
}

func kafkaGoCreatePartitions(t *T) {
	topic := kafkaGoCreated(t, 1)
	answer, err := kafkaGoClient().CreatePartitions(limited(t), &kafka.CreatePartitionsRequest{
		Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 4}},
	})
	t.ok(err, "create partitions")
	t.ok(answer.Errors[topic], "create partitions")
	kafkaGoAwaitLeaders(t, topic, 4)
	kafkaGoSendOne(t, topic, 3)
}

func kafkaGoUsableAfterCreation(t *T) {
	for range 5 {
		kafkaGoSendOne(t, kafkaGoCreated(t, 3), 2)
	}
}

// kafkaGoSendOne is the first to write to a partition, and reads what it wrote.
func kafkaGoSendOne(t *T, topic string, partition int) {
	message := kafkaGoNumbered(0, 1)[0]
	message.Partition = partition
	t.ok(kafkaGoWriter(t, topic).WriteMessages(limited(t), message), "write")
	read := kafkaGoTake(t, kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, Partition: partition}), 1)[0]
	equal(t, "0", string(read.Value), "value")
}

func kafkaGoConfigs(t *T) {
	topic := kafkaGoCreated(t, 1)
	described := func() string {
		answer, err := kafkaGoClient().DescribeConfigs(limited(t), &kafka.DescribeConfigsRequest{
			Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
				ConfigNames: []string{"retention.ms"}}}})
		t.ok(err, "describe")
		t.ok(answer.Resources[0].Error, "describe")
		return answer.Resources[0].ConfigEntries[0].ConfigValue
	}
	equal(t, "604800000", described(), "retention of the new topic")
	alter := func(operation kafka.ConfigOperation, value string) error {
		answer, err := kafkaGoClient().IncrementalAlterConfigs(limited(t), &kafka.IncrementalAlterConfigsRequest{
			Resources: []kafka.IncrementalAlterConfigsRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: value, ConfigOperation: operation}}}}})
		t.ok(err, "alter")
		return answer.Resources[0].Error
	}
	t.ok(alter(kafka.ConfigOperationSet, "200000"), "set")
	settled(t, "not set: "+described(), func() bool { return described() == "200000" })
	t.ok(alter(kafka.ConfigOperationDelete, ""), "delete")
	settled(t, "not deleted: "+described(), func() bool { return described() == "604800000" })
	t.fails(kafka.InvalidConfiguration, alter(kafka.ConfigOperationSet, "soon"), "a bad value")
}

func kafkaGoAutoCreation(t *T) {
	topic := topicName()
	writer := kafkaGoWriter(t, topic)
	writer.AllowAutoTopicCreation = true
	settled(t, "the topic is not created", func() bool {
		err := writer.WriteMessages(limited(t), kafkaGoNumbered(0, 1)...)
		t.that(err == nil || errors.Is(err, kafka.UnknownTopicOrPartition), "write: %v", err)
		return err == nil
	})
	kafkaGoRead(t, topic, 1)
}

func kafkaGoRoundTrip(t *T, codec kafka.Compression) {
	topic := kafkaGoCreated(t, 1)
	writer := kafkaGoWriter(t, topic)
	writer.Compression = codec
	var messages []kafka.Message
	for _, one := range samples() {
		message := kafka.Message{Key: one.key, Value: one.value, Time: one.at}
		for _, header := range one.headers {
			message.Headers = append(message.Headers, kafka.Header{Key: header[0], Value: []byte(header[1])})
		}
		messages = append(messages, message)
	}
	t.ok(writer.WriteMessages(limited(t), messages...), "write")
	for i, got := range kafkaGoRead(t, topic, len(messages)) {
		equal(t, int64(i), got.Offset, "offset")
		var headers [][2]string
		for _, header := range got.Headers {
			headers = append(headers, [2]string{header.Key, string(header.Value)})
		}
		samples()[i].same(t, i, sample{got.Key, got.Value, headers, got.Time})
	}
	equal(t, fmt.Sprint(saramaStored(t, topic)), map[kafka.Compression]string{0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}[codec], "codec stored")
}

func kafkaGoAcks(t *T, acks kafka.RequiredAcks) {
	topic := kafkaGoCreated(t, 1)
	writer := kafkaGoWriter(t, topic)
	writer.RequiredAcks = acks
	t.ok(writer.WriteMessages(limited(t), kafkaGoNumbered(0, 100)...), "write")
	for i, got := range kafkaGoRead(t, topic, 100) {
		equal(t, strconv.Itoa(i), string(got.Value), "value")
	}
}

func kafkaGoOffsetsForTimes(t *T) {
	topic := kafkaGoFilled(t, 1, 10)
	connection, err := kafka.DialLeader(limited(t), "tcp", bootstrap(), topic, 0)
	t.ok(err, "dial")
	t.cleanup(func() { _ = connection.Close() })
	for after, expected := range map[int64]int64{-1000: 0, 0: 0, 1: 1, 4_999: 5, 9_000: 9, 9_001: -1} {
		offset, err := connection.ReadOffset(time.UnixMilli(start.UnixMilli() + after))
		t.ok(err, "offset for time")
		equal(t, expected, offset, fmt.Sprintf("offset %d ms after the start", after))
	}
	first, last, err := connection.ReadOffsets()
	t.ok(err, "offsets")
	equal(t, [2]int64{0, 10}, [2]int64{first, last}, "offsets")
}

func kafkaGoSeek(t *T) {
	topic := kafkaGoFilled(t, 1, 100)
	reader := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic})
	for _, offset := range []int64{50, 3, 99} {
		t.ok(reader.SetOffset(offset), "seek")
		equal(t, offset, kafkaGoTake(t, reader, 1)[0].Offset, "offset")
	}
	t.ok(reader.SetOffsetAt(limited(t), start.Add(20*time.Second)), "seek to a time")
	equal(t, int64(20), kafkaGoTake(t, reader, 1)[0].Offset, "offset")
}

func kafkaGoLongPollIdle(t *T) {
	topic := kafkaGoCreated(t, 1)
	for range 3 {
		began := time.Now()
		answer, err := kafkaGoClient().Fetch(limited(t), &kafka.FetchRequest{Topic: topic, MinBytes: 100_000, MaxBytes: 10_000_000, MaxWait: 700 * time.Millisecond})
		took := time.Since(began)
		t.ok(err, "fetch")
		t.ok(answer.Error, "fetch")
		_, err = answer.Records.ReadRecord()
		t.that(errors.Is(err, io.EOF), "a record came: %v", err)
		t.that(took >= 699*time.Millisecond && took <= 1100*time.Millisecond, "answered after %v instead of 700 ms", took)
	}
}

func kafkaGoLongPollWakes(t *T) {
	topic := kafkaGoCreated(t, 1)
	reader := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, MinBytes: 100_000, MaxWait: 4 * time.Second})
	writer := kafkaGoWriter(t, topic)
	began := time.Now()
	for range 2 {
		t.ok(writer.WriteMessages(limited(t), kafka.Message{Value: make([]byte, 60_000)}), "write")
	}
	kafkaGoTake(t, reader, 2)
	t.that(time.Since(began) < 2*time.Second, "woke after %v", time.Since(began))
}

func kafkaGoMessageSize(t *T) {
	topic := kafkaGoCreated(t, 1)
	writer := kafkaGoWriter(t, topic)
	send := func(size int) error {
		return writer.WriteMessages(limited(t), kafka.Message{Value: make([]byte, size)})
	}
	t.ok(send(maxMessageBytes-100), "write a large one")
	var failures kafka.WriteErrors
	t.that(errors.As(send(maxMessageBytes+1), &failures), "a too large one was written")
	t.fails(kafka.MessageSizeTooLarge, failures[0], "write a too large one")
	t.ok(send(10), "write the next")
	equal(t, maxMessageBytes-100, len(kafkaGoRead(t, topic, 2)[0].Value), "size")
}

// kafkaGoMember joins a group and gives its partitions after each rebalance.
func kafkaGoMember(t *T, group, topic string) (assigned chan int, leave func()) {
	member, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{bootstrap()}, Topics: []string{topic}, HeartbeatInterval: 100 * time.Millisecond,
		JoinGroupBackoff: 100 * time.Millisecond,
	})
	t.ok(err, "group")
	ctx, cancel := context.WithCancel(context.Background())
	assigned = make(chan int, 100)
	go func() {
		for {
			generation, err := member.Next(ctx)
			if errors.Is(err, context.Canceled) || errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err == nil {
				assigned <- len(generation.Assignments[topic])
			}
		}
	}()
	leave = func() {
		cancel()
		_ = member.Close()
	}
	t.cleanup(leave)
	return assigned, leave
}

func kafkaGoAwait(t *T, assigned chan int, expected int, what string) {
	limit := time.After(waitLimit)
	last := -1
	for last != expected {
		select {
		case last = <-assigned:
		case <-limit:
			t.that(false, "%s: %d partitions instead of %d", what, last, expected)
		}
	}
}

func kafkaGoRebalances(t *T) {
	topic := kafkaGoFilled(t, 4, 20)
	group := topicName()
	first, _ := kafkaGoMember(t, group, topic)
	kafkaGoAwait(t, first, 4, "alone")
	second, leave := kafkaGoMember(t, group, topic)
	kafkaGoAwait(t, second, 2, "second")
	kafkaGoAwait(t, first, 2, "first")
	leave()
	kafkaGoAwait(t, first, 4, "alone again")
}

func kafkaGoManualCommit(t *T) {
	topic := kafkaGoFilled(t, 1, 10)
	group := topicName()
	first := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, GroupID: group})
	messages := kafkaGoTake(t, first, 10)
	t.ok(first.CommitMessages(limited(t), messages[3]), "commit")
	t.ok(first.Close(), "close")
	second := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, GroupID: group})
	equal(t, int64(4), kafkaGoTake(t, second, 6)[0].Offset, "resumed")
	answer, err := kafkaGoClient().OffsetFetch(limited(t), &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0}}})
	t.ok(err, "offsets")
	equal(t, int64(4), answer.Topics[topic][0].CommittedOffset, "committed")
}

func kafkaGoAutomaticCommit(t *T) {
	topic := kafkaGoFilled(t, 1, 10)
	group := topicName()
	first := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, GroupID: group, CommitInterval: 100 * time.Millisecond})
	for range 10 {
		// Reading in a group commits.
		_, err := first.ReadMessage(limited(t))
		t.ok(err, "read")
	}
	t.ok(first.Close(), "close")
	t.ok(kafkaGoWriter(t, topic).WriteMessages(limited(t), kafkaGoNumbered(10, 11)...), "write")
	second := kafkaGoReader(t, kafka.ReaderConfig{Topic: topic, GroupID: group})
	equal(t, int64(10), kafkaGoTake(t, second, 1)[0].Offset, "resumed")
}

func kafkaGoGroups(t *T) {
	topic := kafkaGoFilled(t, 1, 1)
	group := topicName()
	assigned, leave := kafkaGoMember(t, group, topic)
	kafkaGoAwait(t, assigned, 1, "member")
	client := kafkaGoClient()
	listed, err := client.ListGroups(limited(t), &kafka.ListGroupsRequest{})
	t.ok(err, "list")
	found := false
	for _, one := range listed.Groups {
		found = found || one.GroupID == group
	}
	t.that(found, "the group is not listed")
	state := func() string {
		answer, err := client.DescribeGroups(limited(t), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
		t.ok(err, "describe")
		return fmt.Sprint(answer.Groups[0].GroupState, " ", len(answer.Groups[0].Members))
	}
	equal(t, "Stable 1", state(), "state")
	remove := func() error {
		answer, err := client.DeleteGroups(limited(t), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		t.ok(err, "delete")
		return answer.Errors[group]
	}
	t.fails(kafka.NonEmptyGroup, remove(), "delete")
	leave()
	equal(t, "Empty 0", state(), "state")
	t.ok(remove(), "delete")
}
