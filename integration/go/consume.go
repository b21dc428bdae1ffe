package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var consumeTests = []test{
	{"seek", testSeek},
	{"offsets_for_times", testOffsetsForTimes},
	{"out_of_range_without_reset", testOutOfRangeWithoutReset},
	{"out_of_range_with_reset", testOutOfRangeWithReset},
	{"fetch_session", testFetchSession},
	{"without_fetch_session", func(t *T) { fetchRounds(t, kgo.DisableFetchSessions()) }},
	{"small_max_partition_bytes", testSmallMaxPartitionBytes},
	{"small_max_bytes", testSmallMaxBytes},
	{"read_committed", testReadCommitted},
	{"recreated_topic", testRecreatedTopic},
}

func testSeek(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 100)
	start := kgo.NewOffset()
	for _, position := range []struct {
		what   string
		offset kgo.Offset
		first  int64
	}{
		{"start", start.AtStart(), 0},
		{"start + 7", start.AtStart().Relative(7), 7},
		{"offset 60", start.At(60), 60},
		{"end - 1", start.AtEnd().Relative(-1), 99},
		{"end - 40", start.AtEnd().Relative(-40), 60},
	} {
		from := consumer(t, topic, map[int32]kgo.Offset{0: position.offset})
		equal(t, position.first, read(t, from, int(100-position.first))[0].Offset, "first offset from %s", position.what)
	}
	from := consumer(t, topic, fromStart(1))
	read(t, from, 100)
	for _, offset := range []int64{70, 3, 99} {
		from.SetOffsets(map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: offset}}})
		equal(t, offset, read(t, from, int(100-offset))[0].Offset, "first offset after a seek")
	}
	nothing(t, consumer(t, topic, map[int32]kgo.Offset{0: start.AtEnd()}), 300*time.Millisecond)
}

func testOffsetsForTimes(t *T) {
	topic := newTopic(t, 1)
	base := time.Now().Add(-100 * time.Second).UnixMilli()
	var records []*kgo.Record
	for i := range int64(20) {
		records = append(records, &kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(base + 100*i)})
	}
	send(t, producer(t, kgo.ProducerBatchCompression(kgo.ZstdCompression())), records...)
	for _, look := range [][2]int64{{base - 1, 0}, {base + 500, 5}, {base + 501, 6}, {base + 1900, 19}} {
		from := consumer(t, topic, map[int32]kgo.Offset{0: kgo.NewOffset().AfterMilli(look[0])})
		equal(t, look[1], read(t, from, int(20-look[1]))[0].Offset, "first offset at %d", look[0]-base)
	}
	nothing(t, consumer(t, topic, map[int32]kgo.Offset{0: kgo.NewOffset().AfterMilli(base + 1901)}), 300*time.Millisecond)
}

func testOutOfRangeWithoutReset(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 10)
	from := consumer(t, topic, map[int32]kgo.Offset{0: kgo.NewOffset().At(11)},
		kgo.ConsumeResetOffset(kgo.NoResetOffset()), kgo.KeepRetryableFetchErrors())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for {
		fetches := from.PollFetches(ctx)
		equal(t, 0, fetches.NumRecords(), "records beyond the end")
		for _, failed := range fetches.Errors() {
			fails(t, kerr.OffsetOutOfRange, failed.Err, "fetch beyond the end")
			return
		}
	}
}

func testOutOfRangeWithReset(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 10)
	from := consumer(t, topic, map[int32]kgo.Offset{0: kgo.NewOffset().At(1_000_000)},
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	equal(t, 0, read(t, from, 10)[0].Offset, "first offset")
}

func testFetchSession(t *T) { fetchRounds(t) }

// fetchRounds produces to some of ten partitions at a time. Within a session a
// fetch names no partition that is as before.
func fetchRounds(t *T, options ...kgo.Opt) {
	topic := newTopic(t, 10)
	to := producer(t)
	from := consumer(t, topic, fromStart(10), append(options, kgo.FetchMaxWait(200*time.Millisecond))...)
	nothing(t, from, 500*time.Millisecond)
	for _, round := range [][]int32{{3}, {3, 7}, {}, {0, 9}, {3}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {5}} {
		for _, partition := range round {
			send(t, to, &kgo.Record{Topic: topic, Partition: partition, Value: []byte("x")})
		}
		seen := map[int32]bool{}
		for _, record := range read(t, from, len(round)) {
			seen[record.Partition] = true
		}
		for _, partition := range round {
			t.that(seen[partition], "partition %d did not come", partition)
		}
	}
}

// KIP-74: the first batch of an answer is sent whole, however small the limits are.
func testSmallMaxPartitionBytes(t *T) {
	topic := newTopic(t, 2)
	to := producer(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range int32(10) {
		send(t, to, &kgo.Record{Topic: topic, Partition: i % 2, Value: make([]byte, 50_000)})
	}
	from := consumer(t, topic, fromStart(2), kgo.FetchMaxPartitionBytes(100))
	for _, record := range read(t, from, 10) {
		equal(t, 50_000, len(record.Value), "size")
	}
}

// No partition may starve behind others that have more than one answer can hold.
func testSmallMaxBytes(t *T) {
	topic := newTopic(t, 5)
	to := producer(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	for i := range int32(150) {
		send(t, to, &kgo.Record{Topic: topic, Partition: i % 5, Value: make([]byte, 500)})
	}
	from := consumer(t, topic, fromStart(5), kgo.FetchMaxBytes(1000), kgo.FetchMaxPartitionBytes(1000))
	seen := map[int32]bool{}
	count := 0
	for count < 100 {
		for _, record := range read1(t, from) {
			seen[record.Partition] = true
			count++
		}
	}
	equal(t, 5, len(seen), "partitions among the first 100 records")
	for count < 150 {
		count += len(read1(t, from))
	}
	equal(t, 150, count, "records")
}

// read1 is one poll that must not fail.
func read1(t *T, from *kgo.Client) []*kgo.Record {
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	fetches := from.PollFetches(ctx)
	t.ok(fetches.Err(), "fetch")
	return fetches.Records()
}

func testReadCommitted(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 10)
	from := consumer(t, topic, fromStart(1), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	equal(t, "9", string(read(t, from, 10)[9].Value), "last value")
}

// A topic goes away under the client and comes back shorter. franz-go does not
// follow by itself; it must be told to forget the old topic.
func testRecreatedTopic(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 10)
	from := consumer(t, topic, fromStart(1), kgo.FetchMaxWait(300*time.Millisecond), kgo.KeepRetryableFetchErrors(),
		kgo.MetadataMinAge(50*time.Millisecond), kgo.MetadataMaxAge(500*time.Millisecond))
	read(t, from, 10)
	_, err := admin(t).DeleteTopic(limited(t), topic)
	t.ok(err, "delete")
	createTopic(t, topic, 1)
	fill(t, topic, 0, 3)
	fetches := from.PollFetches(limited(t))
	equal(t, 0, fetches.NumRecords(), "records by the old id")
	for _, failed := range fetches.Errors() {
		known := errors.Is(failed.Err, kerr.UnknownTopicID) || errors.Is(failed.Err, kerr.UnknownTopicOrPartition)
		t.that(known, "fetch by the old id: %v", failed.Err)
	}
	from.PurgeTopicsFromClient(topic)
	from.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: fromStart(1)})
	equal(t, 0, read(t, from, 3)[0].Offset, "first offset of the new topic")
}
