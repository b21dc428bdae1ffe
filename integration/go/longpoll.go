package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var longPollTests = []test{
	{"long_poll_idle", testLongPollIdle},
	{"long_poll_too_little", testLongPollTooLittle},
	{"long_poll_wakes", testLongPollWakes},
	{"long_poll_one_byte", testLongPollOneByte},
}

const (
	maxWait = 700 * time.Millisecond
	slack   = 400 * time.Millisecond
	// Clocks of broker and client are one, but the broker counts whole milliseconds.
	early = time.Millisecond
)

// fetchTimes is a hook that measures each Fetch from write to answer.
type fetchTimes struct {
	count, shortest, longest atomic.Int64
}

func (times *fetchTimes) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, end kgo.BrokerE2E) {
	if key != (*kmsg.FetchRequest)(nil).Key() || end.Err() != nil {
		return
	}
	took := int64(end.DurationE2E())
	if times.count.Add(1) == 1 || took < times.shortest.Load() {
		times.shortest.Store(took)
	}
	times.longest.Store(max(took, times.longest.Load()))
}

func testLongPollIdle(t *T) {
	topic := newTopic(t, 3)
	times := &fetchTimes{}
	from := consumer(t, topic, fromStart(3), kgo.FetchMinBytes(100_000), kgo.FetchMaxWait(maxWait), kgo.WithHooks(times))
	nothing(t, from, 3*maxWait+slack)
	t.that(times.count.Load() >= 2 && times.count.Load() <= 3, "%d fetches were answered, 2 or 3 are right", times.count.Load())
	t.between(maxWait-early, maxWait+slack, time.Duration(times.shortest.Load()), "shortest fetch")
	t.between(maxWait-early, maxWait+slack, time.Duration(times.longest.Load()), "longest fetch")
}

// There are records, but fewer than asked for: they come at max wait.
func testLongPollTooLittle(t *T) {
	topic := newTopic(t, 1)
	fill(t, topic, 0, 10)
	times := &fetchTimes{}
	from := consumer(t, topic, fromStart(1), kgo.FetchMinBytes(100_000), kgo.FetchMaxWait(maxWait), kgo.WithHooks(times))
	read(t, from, 10)
	t.between(maxWait-early, maxWait+slack, time.Duration(times.longest.Load()), "fetch")
}

func testLongPollWakes(t *T) {
	topic := newTopic(t, 1)
	to := producer(t, kgo.ProducerBatchCompression(kgo.NoCompression()))
	// The wait is long, so that a busy machine can't be taken for one that waits.
	from := consumer(t, topic, fromStart(1), kgo.FetchMinBytes(100_000), kgo.FetchMaxWait(10*time.Second))
	nothing(t, from, 300*time.Millisecond)
	send(t, to, &kgo.Record{Topic: topic, Value: make([]byte, 120_000)})
	sent := time.Now()
	read(t, from, 1)
	t.between(0, slack, time.Since(sent), "time from the record to the answer")
}

func testLongPollOneByte(t *T) {
	// With more partitions, franz-go's first fetch may name some of them only.
	topic := newTopic(t, 1)
	to := producer(t)
	from := consumer(t, topic, fromStart(1), kgo.FetchMinBytes(1), kgo.FetchMaxWait(10*time.Second))
	nothing(t, from, 100*time.Millisecond)
	for range 20 {
		send(t, to, &kgo.Record{Topic: topic, Value: []byte("x")})
		sent := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
		equal(t, 1, from.PollFetches(ctx).NumRecords(), "records")
		cancel()
		t.between(0, slack, time.Since(sent), "time to the answer")
	}
}
