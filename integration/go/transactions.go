package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

var transactionTests = []test{
	{"transaction_commit_and_abort", testTransactionCommitAndAbort},
	{"transaction_fenced", testTransactionFenced},
	{"transaction_consume_transform_produce", testConsumeTransformProduce},
}

// committed reads so many values that are committed, and no more.
func committed(t *T, topic string, count int) []string {
	reader := client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	var values []string
	for _, record := range read(t, reader, count) {
		values = append(values, string(record.Value))
	}
	return values
}

func testTransactionCommitAndAbort(t *T) {
	topic := newTopic(t, 1)
	producer := client(t, kgo.TransactionalID(topicName()), kgo.DefaultProduceTopic(topic))
	var expected []string
	for i := range 12 {
		t.ok(producer.BeginTransaction(), "begin transaction %d", i)
		value := strconv.Itoa(i)
		t.ok(producer.ProduceSync(limited(t), kgo.StringRecord(value)).FirstErr(), "produce in transaction %d", i)
		end := kgo.TryCommit
		if i%3 == 1 {
			end = kgo.TryAbort
		} else {
			expected = append(expected, value)
		}
		t.ok(producer.EndTransaction(limited(t), end), "end transaction %d", i)
	}
	found := committed(t, topic, len(expected))
	t.that(slices.Equal(found, expected), "committed values: %v", found)
}

func testTransactionFenced(t *T) {
	topic, id := newTopic(t, 1), topicName()
	old := client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	t.ok(old.BeginTransaction(), "begin the old transaction")
	t.ok(old.ProduceSync(limited(t), kgo.StringRecord("old")).FirstErr(), "produce the old record")
	young := client(t, kgo.TransactionalID(id), kgo.DefaultProduceTopic(topic))
	t.ok(young.BeginTransaction(), "begin the young transaction")
	t.ok(young.ProduceSync(limited(t), kgo.StringRecord("young")).FirstErr(), "produce the young record")
	t.that(old.EndTransaction(limited(t), kgo.TryCommit) != nil, "the old producer could commit")
	t.ok(young.EndTransaction(limited(t), kgo.TryCommit), "end the young transaction")
	found := committed(t, topic, 1)
	t.that(slices.Equal(found, []string{"young"}), "committed values: %v", found)
}

// testConsumeTransformProduce drops every other session in the middle of its
// transaction; each record is read once all the same.
func testConsumeTransformProduce(t *T) {
	from, to, group, id := newTopic(t, 1), newTopic(t, 1), topicName(), topicName()
	fill(t, from, 0, 40)
	for run, done := 0, 0; done < 40; run++ {
		t.that(run < 40, "done after %d sessions", run)
		session, err := kgo.NewGroupTransactSession(kgo.SeedBrokers(bootstrap()), kgo.TransactionalID(id),
			kgo.ConsumerGroup(group), kgo.ConsumeTopics(from), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
			kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(), kgo.DefaultProduceTopic(to))
		t.ok(err, "make a session")
		fetches := session.PollRecords(limited(t), 10)
		t.ok(fetches.Err(), "poll")
		t.ok(session.Begin(), "begin")
		count := 0
		fetches.EachRecord(func(record *kgo.Record) {
			count++
			t.ok(session.ProduceSync(limited(t), kgo.StringRecord(string(record.Value)+"!")).FirstErr(), "produce")
		})
		if run%2 == 1 {
			ended, err := session.End(limited(t), kgo.TryCommit)
			t.ok(err, "end")
			if ended {
				done += count
			}
		} else {
			_, err := session.End(context.Background(), kgo.TryAbort)
			t.ok(err, "abort")
		}
		session.Close()
	}
	var expected []string
	for i := range 40 {
		expected = append(expected, fmt.Sprintf("%d!", i))
	}
	found := committed(t, to, 40)
	t.that(slices.Equal(found, expected), "values: %v", found)
}
