package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

var saramaTests = []test{
	{"sarama_create_and_delete_topic", saramaTopics},
	{"sarama_create_partitions", saramaCreatePartitions},
	{"sarama_configs", saramaConfigs},
	{"sarama_usable_after_creation", saramaUsableAfterCreation},
	{"sarama_auto_creation", saramaAutoCreation},
	{"sarama_round_trip_none", func(t *T) { saramaRoundTrip(t, sarama.CompressionNone) }},
	{"sarama_round_trip_gzip", func(t *T) { saramaRoundTrip(t, sarama.CompressionGZIP) }},
	{"sarama_round_trip_snappy", func(t *T) { saramaRoundTrip(t, sarama.CompressionSnappy) }},
	{"sarama_round_trip_lz4", func(t *T) { saramaRoundTrip(t, sarama.CompressionLZ4) }},
	{"sarama_round_trip_zstd", func(t *T) { saramaRoundTrip(t, sarama.CompressionZSTD) }},
	{"sarama_acks_0", func(t *T) { saramaAcks(t, sarama.NoResponse) }},
	{"sarama_acks_1", func(t *T) { saramaAcks(t, sarama.WaitForLocal) }},
	{"sarama_acks_all", func(t *T) { saramaAcks(t, sarama.WaitForAll) }},
	{"sarama_idempotence", saramaIdempotence},
	{"sarama_offsets_for_times", saramaOffsetsForTimes},
	{"sarama_seek", saramaSeek},
	{"sarama_delete_records", saramaDeleteRecords},
	{"sarama_long_poll_idle", saramaLongPollIdle},
	{"sarama_long_poll_wakes", saramaLongPollWakes},
	{"sarama_message_size", saramaMessageSize},
	{"sarama_group_eager", func(t *T) { saramaRebalances(t, sarama.NewBalanceStrategyRange) }},
	{"sarama_group_eager_round_robin", func(t *T) { saramaRebalances(t, sarama.NewBalanceStrategyRoundRobin) }},
	{"sarama_group_eager_sticky", func(t *T) { saramaRebalances(t, sarama.NewBalanceStrategySticky) }},
	{"sarama_group_cooperative", func(t *T) { saramaRebalances(t, sarama.NewBalanceStrategyCooperativeSticky) }},
	{"sarama_group_manual_commit", saramaManualCommit},
	{"sarama_group_automatic_commit", saramaAutomaticCommit},
	{"sarama_group_static_member", saramaStaticMember},
	{"sarama_group_admin", saramaGroups},
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V4_1_0_0
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.MaxMessageBytes = 2_000_000
	config.Producer.Retry.Max = 3
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	return config
}

func saramaAdmin(t *T) sarama.ClusterAdmin {
	admin, err := sarama.NewClusterAdmin([]string{bootstrap()}, saramaConfig())
	t.ok(err, "admin")
	t.cleanup(func() { _ = admin.Close() })
	return admin
}

func saramaClient(t *T, config *sarama.Config) sarama.Client {
	client, err := sarama.NewClient([]string{bootstrap()}, config)
	t.ok(err, "client")
	t.cleanup(func() { _ = client.Close() })
	return client
}

func saramaCreated(t *T, partitions int32) string {
	topic := topicName()
	t.ok(saramaAdmin(t).CreateTopic(topic, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false), "create")
	return topic
}

func saramaProducer(t *T, config *sarama.Config) sarama.SyncProducer {
	producer, err := sarama.NewSyncProducer([]string{bootstrap()}, config)
	t.ok(err, "producer")
	t.cleanup(func() { _ = producer.Close() })
	return producer
}

func saramaNumbered(topic string, partition int32, from, to int) []*sarama.ProducerMessage {
	var messages []*sarama.ProducerMessage
	for i := from; i < to; i++ {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Partition: partition, Value: sarama.StringEncoder(strconv.Itoa(i)), Timestamp: start.Add(time.Duration(i) * time.Second),
		})
	}
	return messages
}

func saramaFilled(t *T, partitions int32, count int) string {
	topic := saramaCreated(t, partitions)
	producer := saramaProducer(t, saramaConfig())
	for partition := range partitions {
		t.ok(producer.SendMessages(saramaNumbered(topic, partition, 0, count)), "send")
	}
	return topic
}

func saramaConsume(t *T, topic string, partition int32, offset int64, config *sarama.Config) sarama.PartitionConsumer {
	consumer, err := sarama.NewConsumerFromClient(saramaClient(t, config))
	t.ok(err, "consumer")
	t.cleanup(func() { _ = consumer.Close() })
	of, err := consumer.ConsumePartition(topic, partition, offset)
	t.ok(err, "consume")
	t.cleanup(func() { _ = of.Close() })
	return of
}

func saramaTake(t *T, from sarama.PartitionConsumer, count int) []*sarama.ConsumerMessage {
	var messages []*sarama.ConsumerMessage
	limit := time.After(waitLimit)
	for len(messages) < count {
		select {
		case message := <-from.Messages():
			messages = append(messages, message)
		case <-limit:
			t.that(false, "%d of %d records", len(messages), count)
		}
	}
	return messages
}

func saramaRead(t *T, topic string, partition int32, count int) []*sarama.ConsumerMessage {
	return saramaTake(t, saramaConsume(t, topic, partition, sarama.OffsetOldest, saramaConfig()), count)
}

func saramaTopics(t *T) {
	topic := saramaCreated(t, 3)
	admin := saramaAdmin(t)
	topics, err := admin.ListTopics()
	t.ok(err, "list")
	equal(t, int32(3), topics[topic].NumPartitions, "partitions")
	t.fails(sarama.ErrTopicAlreadyExists, admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1}, false), "create again")
	t.ok(admin.DeleteTopic(topic), "delete")
	settled(t, "the deleted topic is listed", func() bool {
		topics, err := admin.ListTopics()
		t.ok(err, "list")
		_, listed := topics[topic]
		return !listed
	})
	t.fails(sarama.ErrUnknownTopicOrPartition, admin.DeleteTopic(topic), "delete again")
}

func saramaCreatePartitions(t *T) {
	topic := saramaCreated(t, 1)
	admin := saramaAdmin(t)
	t.ok(admin.CreatePartitions(topic, 4, nil, false), "create partitions")
	settled(t, "not four partitions", func() bool {
		topics, err := admin.ListTopics()
		t.ok(err, "list")
		return topics[topic].NumPartitions == 4
	})
	saramaSendOne(t, topic, 3)
}

func saramaUsableAfterCreation(t *T) {
	for range 5 {
		saramaSendOne(t, saramaCreated(t, 3), 2)
	}
}

// saramaSendOne is the first to write to a partition, and reads what it wrote.
func saramaSendOne(t *T, topic string, partition int32) {
	_, offset, err := saramaProducer(t, saramaConfig()).SendMessage(saramaNumbered(topic, partition, 0, 1)[0])
	t.ok(err, "send")
	equal(t, int64(0), offset, "offset")
	equal(t, "0", string(saramaRead(t, topic, partition, 1)[0].Value), "value")
}

func saramaConfigs(t *T) {
	topic := saramaCreated(t, 1)
	admin := saramaAdmin(t)
	described := func() string {
		entries, err := admin.DescribeConfig(sarama.ConfigResource{
			Type: sarama.TopicResource, Name: topic, ConfigNames: []string{"cleanup.policy", "retention.ms"}})
		t.ok(err, "describe")
		values := map[string]string{}
		for _, entry := range entries {
			values[entry.Name] = entry.Value
		}
		return values["cleanup.policy"] + " " + values["retention.ms"]
	}
	alter := func(name string, operation sarama.IncrementalAlterConfigsOperation, value string) error {
		return admin.IncrementalAlterConfig(sarama.TopicResource, topic, map[string]sarama.IncrementalAlterConfigsEntry{
			name: {Operation: operation, Value: &value}}, false)
	}
	t.ok(alter("retention.ms", sarama.IncrementalAlterConfigsOperationSet, "200000"), "set")
	t.ok(alter("cleanup.policy", sarama.IncrementalAlterConfigsOperationAppend, "compact"), "append")
	settled(t, "set and appended: "+described(), func() bool { return described() == "delete,compact 200000" })
	t.ok(alter("retention.ms", sarama.IncrementalAlterConfigsOperationDelete, ""), "delete")
	settled(t, "deleted: "+described(), func() bool { return described() == "delete,compact 604800000" })
	t.fails(sarama.ErrInvalidConfig, alter("retention.ms", sarama.IncrementalAlterConfigsOperationSet, "soon"), "a bad value")
}

func saramaAutoCreation(t *T) {
	topic := topicName()
	_, offset, err := saramaProducer(t, saramaConfig()).SendMessage(saramaNumbered(topic, 0, 0, 1)[0])
	t.ok(err, "send")
	equal(t, int64(0), offset, "offset")
	saramaRead(t, topic, 0, 1)
}

func saramaRoundTrip(t *T, codec sarama.CompressionCodec) {
	topic := saramaCreated(t, 1)
	config := saramaConfig()
	config.Producer.Compression = codec
	config.Producer.Flush.Frequency = 50 * time.Millisecond
	var messages []*sarama.ProducerMessage
	for _, one := range samples() {
		message := &sarama.ProducerMessage{Topic: topic, Timestamp: one.at}
		if one.key != nil {
			message.Key = sarama.ByteEncoder(one.key)
		}
		if one.value != nil {
			message.Value = sarama.ByteEncoder(one.value)
		}
		for _, header := range one.headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header[0]), Value: []byte(header[1])})
		}
		messages = append(messages, message)
	}
	t.ok(saramaProducer(t, config).SendMessages(messages), "send")
	for i, got := range saramaRead(t, topic, 0, len(messages)) {
		equal(t, int64(i), messages[i].Offset, "offset produced")
		equal(t, int64(i), got.Offset, "offset")
		var headers [][2]string
		for _, header := range got.Headers {
			headers = append(headers, [2]string{string(header.Key), string(header.Value)})
		}
		samples()[i].same(t, i, sample{got.Key, got.Value, headers, got.Timestamp})
	}
	equal(t, fmt.Sprint(codec), fmt.Sprint(saramaStored(t, topic)), "codec stored")
}

// saramaStored is the codec of the first batch.
func saramaStored(t *T, topic string) sarama.CompressionCodec {
	leader, err := saramaClient(t, saramaConfig()).Leader(topic, 0)
	t.ok(err, "leader")
	request := &sarama.FetchRequest{Version: 4, MaxBytes: 10_000_000, MinBytes: 1}
	request.AddBlock(topic, 0, 0, 10_000_000, -1)
	answer, err := leader.Fetch(request)
	t.ok(err, "fetch")
	return answer.Blocks[topic][0].RecordsSet[0].RecordBatch.Codec
}

func saramaAcks(t *T, acks sarama.RequiredAcks) {
	topic := saramaCreated(t, 1)
	config := saramaConfig()
	config.Producer.RequiredAcks = acks
	t.ok(saramaProducer(t, config).SendMessages(saramaNumbered(topic, 0, 0, 100)), "send")
	for i, got := range saramaRead(t, topic, 0, 100) {
		equal(t, strconv.Itoa(i), string(got.Value), "value")
	}
}

func saramaIdempotence(t *T) {
	topic := saramaCreated(t, 1)
	config := saramaConfig()
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Producer.Flush.MaxMessages = 10
	t.ok(saramaProducer(t, config).SendMessages(saramaNumbered(topic, 0, 0, 500)), "send")
	for i, got := range saramaRead(t, topic, 0, 500) {
		equal(t, strconv.Itoa(i), string(got.Value), "value")
	}
}

func saramaOffsetsForTimes(t *T) {
	topic := saramaFilled(t, 1, 10)
	client := saramaClient(t, saramaConfig())
	for after, expected := range map[int64]int64{-1000: 0, 0: 0, 1: 1, 4_999: 5, 9_000: 9, 9_001: -1} {
		offset, err := client.GetOffset(topic, 0, start.UnixMilli()+after)
		t.ok(err, "offset for time")
		equal(t, expected, offset, fmt.Sprintf("offset %d ms after the start", after))
	}
	for which, expected := range map[int64]int64{sarama.OffsetOldest: 0, sarama.OffsetNewest: 10} {
		offset, err := client.GetOffset(topic, 0, which)
		t.ok(err, "offset")
		equal(t, expected, offset, "offset")
	}
}

func saramaSeek(t *T) {
	topic := saramaFilled(t, 1, 100)
	for _, offset := range []int64{50, 3, 99} {
		from := saramaConsume(t, topic, 0, offset, saramaConfig())
		equal(t, offset, saramaTake(t, from, 1)[0].Offset, "first offset")
	}
	from := saramaConsume(t, topic, 0, sarama.OffsetNewest, saramaConfig())
	t.ok(saramaProducer(t, saramaConfig()).SendMessages(saramaNumbered(topic, 0, 100, 101)), "send")
	equal(t, int64(100), saramaTake(t, from, 1)[0].Offset, "offset at the end")
}

func saramaDeleteRecords(t *T) {
	topic := saramaFilled(t, 1, 100)
	t.ok(saramaAdmin(t).DeleteRecords(topic, map[int32]int64{0: 50}), "delete records")
	equal(t, int64(50), saramaRead(t, topic, 0, 50)[0].Offset, "first offset")
	t.that(saramaAdmin(t).DeleteRecords(topic, map[int32]int64{0: 101}) != nil, "beyond the end was accepted")
}

func saramaLongPollIdle(t *T) {
	topic := saramaCreated(t, 1)
	leader, err := saramaClient(t, saramaConfig()).Leader(topic, 0)
	t.ok(err, "leader")
	for range 3 {
		request := &sarama.FetchRequest{Version: 11, MaxBytes: 10_000_000, MinBytes: 100_000, MaxWaitTime: 700, SessionEpoch: -1}
		request.AddBlock(topic, 0, 0, 10_000_000, -1)
		began := time.Now()
		_, err = leader.Fetch(request)
		t.ok(err, "fetch")
		took := time.Since(began)
		t.that(took >= 699*time.Millisecond && took <= 1100*time.Millisecond, "answered after %v instead of 700 ms", took)
	}
}

func saramaLongPollWakes(t *T) {
	topic := saramaCreated(t, 1)
	config := saramaConfig()
	config.Consumer.Fetch.Min = 100_000
	config.Consumer.MaxWaitTime = 4 * time.Second
	from := saramaConsume(t, topic, 0, sarama.OffsetOldest, config)
	producer := saramaProducer(t, saramaConfig())
	began := time.Now()
	for range 2 {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, 60_000))})
		t.ok(err, "send")
	}
	saramaTake(t, from, 2)
	t.that(time.Since(began) < 2*time.Second, "woke after %v", time.Since(began))
}

func saramaMessageSize(t *T) {
	topic := saramaCreated(t, 1)
	producer := saramaProducer(t, saramaConfig())
	send := func(size int) error {
		_, _, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.ByteEncoder(make([]byte, size))})
		return err
	}
	t.ok(send(maxMessageBytes-100), "send a large one")
	t.fails(sarama.ErrMessageSizeTooLarge, send(maxMessageBytes+1), "send a too large one")
	t.ok(send(10), "send the next")
	equal(t, maxMessageBytes-100, len(saramaRead(t, topic, 0, 2)[0].Value), "size")
}

// saramaMember is a group member that collects until it is closed.
type saramaMember struct {
	watched
	mutex    sync.Mutex
	claimed  int // Partitions that are being consumed.
	messages []*sarama.ConsumerMessage
	session  sarama.ConsumerGroupSession
	mark     bool
	close    func()
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	m.changed()
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *saramaMember) claim(more int) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.claimed += more
	m.changed()
}

func (m *saramaMember) generation() int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.session.GenerationID()
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.claim(1)
	defer m.claim(-1)
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			m.mutex.Lock()
			m.messages = append(m.messages, message)
			m.mutex.Unlock()
			if m.mark {
				session.MarkMessage(message, "")
			}
			m.changed()
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) wait(t *T, what string, partitions, messages int) {
	m.until(t, what, func() bool {
		m.mutex.Lock()
		defer m.mutex.Unlock()
		return m.claimed == partitions && len(m.messages) >= messages
	})
}

func saramaJoin(t *T, group, topic string, config *sarama.Config) *saramaMember {
	made, err := sarama.NewConsumerGroup([]string{bootstrap()}, group, config)
	t.ok(err, "group")
	member := &saramaMember{watched: newWatched(), mark: config.Consumer.Offsets.AutoCommit.Enable}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil && !errors.Is(made.Consume(ctx, []string{topic}, member), sarama.ErrClosedConsumerGroup) {
		}
	}()
	member.close = sync.OnceFunc(func() {
		cancel()
		<-ended
		_ = made.Close()
	})
	t.cleanup(member.close)
	return member
}

func saramaRebalances(t *T, strategy func() sarama.BalanceStrategy) {
	topic := saramaFilled(t, 4, 5)
	group := topicName()
	// Each member has a strategy of its own, since some remember things.
	config := func() *sarama.Config {
		config := saramaConfig()
		config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy()}
		return config
	}
	first := saramaJoin(t, group, topic, config())
	first.wait(t, "alone", 4, 20)
	second := saramaJoin(t, group, topic, config())
	second.wait(t, "second", 2, 0)
	first.wait(t, "first", 2, 0)
	second.close()
	first.wait(t, "alone again", 4, 0)
}

func saramaManualCommit(t *T) {
	topic := saramaFilled(t, 1, 10)
	group := topicName()
	first := saramaJoin(t, group, topic, saramaConfig())
	first.wait(t, "first", 1, 10)
	first.session.MarkOffset(topic, 0, 4, "note ✓")
	first.session.Commit()
	first.close()
	second := saramaJoin(t, group, topic, saramaConfig())
	second.wait(t, "second", 1, 6)
	equal(t, int64(4), second.messages[0].Offset, "resumed")
	offsets, err := saramaAdmin(t).ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}})
	t.ok(err, "offsets")
	block := offsets.GetBlock(topic, 0)
	equal(t, int64(4), block.Offset, "committed")
	equal(t, "note ✓", block.Metadata, "metadata")
}

func saramaAutomaticCommit(t *T) {
	topic := saramaFilled(t, 1, 10)
	group := topicName()
	config := saramaConfig()
	config.Consumer.Offsets.AutoCommit.Enable = true
	config.Consumer.Offsets.AutoCommit.Interval = 100 * time.Millisecond
	first := saramaJoin(t, group, topic, config)
	first.wait(t, "first", 1, 10)
	first.close()
	t.ok(saramaProducer(t, saramaConfig()).SendMessages(saramaNumbered(topic, 0, 10, 11)), "send")
	second := saramaJoin(t, group, topic, saramaConfig())
	second.wait(t, "second", 1, 1)
	equal(t, int64(10), second.messages[0].Offset, "resumed")
}

// A static member is known by its instance, and removed by it.
// saramaStaticMember lets a static member go and come back: it has its partition again, and the other one stays in its
// generation.
func saramaStaticMember(t *T) {
	topic := saramaFilled(t, 2, 1)
	group := topicName()
	named := func(instance string) *sarama.Config {
		config := saramaConfig()
		config.Consumer.Group.InstanceId = instance
		return config
	}
	stays := saramaJoin(t, group, topic, named("stays"))
	stays.wait(t, "alone", 2, 2)
	goes := saramaJoin(t, group, topic, named("goes"))
	goes.wait(t, "the one that goes", 1, 0)
	stays.wait(t, "the one that stays", 1, 0)
	before := stays.generation()
	goes.close()
	back := saramaJoin(t, group, topic, named("goes"))
	back.wait(t, "the one that is back", 1, 1)
	equal(t, before, stays.generation(), "generation of the one that stays")
	equal(t, before, back.generation(), "generation of the one that is back")
	back.close()
	answer, err := saramaAdmin(t).RemoveMemberFromConsumerGroup(group, []string{"goes"})
	t.ok(err, "remove")
	equal(t, sarama.ErrNoError, answer.Err, "remove")
	stays.wait(t, "alone again", 2, 2)
}

func saramaGroups(t *T) {
	topic := saramaFilled(t, 1, 1)
	group := topicName()
	member := saramaJoin(t, group, topic, saramaConfig())
	member.wait(t, "member", 1, 1)
	admin := saramaAdmin(t)
	groups, err := admin.ListConsumerGroups()
	t.ok(err, "list")
	equal(t, "consumer", groups[group], "type")
	state := func() string {
		described, err := admin.DescribeConsumerGroups([]string{group})
		t.ok(err, "describe")
		return fmt.Sprint(described[0].State, " ", len(described[0].Members))
	}
	equal(t, "Stable 1", state(), "state")
	t.fails(sarama.ErrNonEmptyGroup, admin.DeleteConsumerGroup(group), "delete")
	member.close()
	equal(t, "Empty 0", state(), "state")
	t.ok(admin.DeleteConsumerGroup(group), "delete")
}
