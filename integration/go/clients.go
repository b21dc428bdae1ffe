package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Every wait for a client has this limit.
const waitLimit = 20 * time.Second

func limited(t *T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	t.cleanup(cancel)
	return ctx
}

func topicName() string {
	var random [12]byte
	_, _ = rand.Read(random[:])
	return fmt.Sprintf("go-%x", random)
}

func client(t *T, options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(bootstrap())}, options...)...)
	t.ok(err, "make a client")
	t.cleanup(made.Close)
	return made
}

func admin(t *T) *kadm.Client { return kadm.NewClient(client(t)) }

// newTopic makes a topic with one replica; configs are key, value, key, value, ….
func newTopic(t *T, partitions int32, configs ...string) string {
	name := topicName()
	createTopic(t, name, partitions, configs...)
	return name
}

// awaitLeaders is for Kafka, which answers CreateTopics a moment before its
// partitions are led. Clients ask again by themselves, raw requests don't.
func awaitLeaders(t *T, topic string, partitions int32) {
	connection := dial(t)
	end := time.Now().Add(waitLimit)
	for partition := range partitions {
		for {
			code, _, _ := connection.listOffset(6, topic, partition, -1, 0)
			if code == 0 {
				break
			}
			t.that(time.Now().Before(end), "partition %d of a new topic still has error %d", partition, code)
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func createTopic(t *T, name string, partitions int32, configs ...string) kadm.CreateTopicResponse {
	made := kadm.NewClient(client(t))
	answer, err := made.CreateTopic(limited(t), partitions, 1, configMap(configs...), name)
	t.ok(err, "create topic %s", name)
	if !onHuld() {
		awaitLeaders(t, name, partitions)
	}
	return answer
}

func configMap(keysAndValues ...string) map[string]*string {
	configs := map[string]*string{}
	for i := 0; i < len(keysAndValues); i += 2 {
		configs[keysAndValues[i]] = &keysAndValues[i+1]
	}
	return configs
}

// settled checks what a change that was answered has brought about. On huld it
// must hold at once; Kafka's broker hears of it from its controller a moment
// after the answer, so there the check may be repeated for 5 s.
func settled(check func()) {
	end := time.Now().Add(5 * time.Second)
	for !onHuld() && time.Now().Before(end) && !passes(check) {
		time.Sleep(10 * time.Millisecond)
	}
	check()
}

func passes(check func()) (passed bool) {
	defer func() { passed = recover() == nil }()
	check()
	return
}

// producer has franz-go's defaults (idempotent, acks all, snappy) and sends each
// record to the partition that the record names.
func producer(t *T, options ...kgo.Opt) *kgo.Client {
	return client(t, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}, options...)...)
}

func send(t *T, from *kgo.Client, records ...*kgo.Record) {
	t.ok(from.ProduceSync(limited(t), records...).FirstErr(), "produce")
}

// fill sends the values "0", "1", … to one partition.
func fill(t *T, topic string, partition int32, count int) {
	send(t, producer(t), numbered(topic, partition, count)...)
}

func numbered(topic string, partition int32, count int) []*kgo.Record {
	var records []*kgo.Record
	for i := range count {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strconv.Itoa(i))})
	}
	return records
}

// consumer reads the given partitions from the given offsets, without a group.
func consumer(t *T, topic string, offsets map[int32]kgo.Offset, options ...kgo.Opt) *kgo.Client {
	return client(t, append([]kgo.Opt{kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})}, options...)...)
}

// fromStart is for partitions 0 to count-1.
func fromStart(count int32) map[int32]kgo.Offset {
	offsets := map[int32]kgo.Offset{}
	for i := range count {
		offsets[i] = kgo.NewOffset().AtStart()
	}
	return offsets
}

// read polls until it has count records; more, or an error, ends the test.
func read(t *T, from *kgo.Client, count int) []*kgo.Record {
	var records []*kgo.Record
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	for len(records) < count {
		fetches := from.PollFetches(ctx)
		for _, failed := range fetches.Errors() {
			t.fatalf("fetch of partition %d with %d of %d records read: %v", failed.Partition, len(records), count, failed.Err)
		}
		records = append(records, fetches.Records()...)
	}
	equal(t, count, len(records), "number of records read")
	return records
}

// nothing checks that no records come within the time given.
func nothing(t *T, from *kgo.Client, during time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), during)
	defer cancel()
	fetches := from.PollFetches(ctx)
	for _, failed := range fetches.Errors() {
		if !errors.Is(failed.Err, context.DeadlineExceeded) {
			t.fatalf("fetch: %v", failed.Err)
		}
	}
	equal(t, 0, fetches.NumRecords(), "records where none should come")
}

// inOrder checks that every partition holds "0", "1", … at offsets 0, 1, ….
func inOrder(t *T, topic string, partitions int32, count int) {
	next := make([]int64, partitions)
	for _, record := range read(t, consumer(t, topic, fromStart(partitions)), int(partitions)*count) {
		expected := next[record.Partition]
		equal(t, expected, record.Offset, "offset in partition %d", record.Partition)
		equal(t, strconv.FormatInt(expected, 10), string(record.Value), "value in partition %d", record.Partition)
		next[record.Partition]++
	}
}

// fails checks that err is Kafka's error `expected`.
func fails(t *T, expected *kerr.Error, err error, format string, values ...any) {
	if !errors.Is(err, expected) {
		t.fatalf("%s: expected %v, got %v", fmt.Sprintf(format, values...), expected.Message, err)
	}
}
