package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var produceTests = []test{
	{"round_trip_none", func(t *T) { testRoundTrip(t, kgo.NoCompression()) }},
	{"round_trip_gzip", func(t *T) { testRoundTrip(t, kgo.GzipCompression()) }},
	{"round_trip_snappy", func(t *T) { testRoundTrip(t, kgo.SnappyCompression()) }},
	{"round_trip_lz4", func(t *T) { testRoundTrip(t, kgo.Lz4Compression()) }},
	{"round_trip_zstd", func(t *T) { testRoundTrip(t, kgo.ZstdCompression()) }},
	{"acks_0", func(t *T) { testAcks(t, kgo.NoAck(), false) }},
	{"acks_1", func(t *T) { testAcks(t, kgo.LeaderAck(), true) }},
	{"acks_all", func(t *T) { testAcks(t, kgo.AllISRAcks(), true) }},
	{"idempotence", testIdempotence},
	{"idempotence_over_lost_answers", testIdempotenceOverLostAnswers},
	{"large_message", testLargeMessage},
	{"message_too_large", testMessageTooLarge},
	{"log_append_time", testLogAppendTime},
	{"auto_creation", testAutoCreation},
}

func itoa(number int32) string { return strconv.Itoa(int(number)) }

// mixture has everything that a record can hold.
func mixture(topic string) []*kgo.Record {
	random := rand.New(rand.NewSource(42))
	base := time.Now().Add(-1000 * time.Second).UnixMilli()
	var records []*kgo.Record
	for i := range 400 {
		noise := make([]byte, random.Intn(2000))
		random.Read(noise)
		record := &kgo.Record{Topic: topic, Timestamp: time.UnixMilli(base + int64(i*7919%1000))}
		switch i % 3 {
		case 1:
			record.Key = []byte{}
		case 2:
			record.Key = fmt.Appendf(nil, "key-%d", i)
		}
		switch i % 5 {
		case 0:
		case 1:
			record.Value = []byte{}
		case 2:
			record.Value = []byte(strings.Repeat("the same again and again ", i%50))
		default:
			record.Value = noise
		}
		if i%4 != 0 {
			record.Headers = []kgo.RecordHeader{
				{Key: "twice", Value: []byte{1, byte(i)}}, {Key: "", Value: []byte{}}, {Key: "twice", Value: []byte{2}},
				{Key: "null", Value: nil}, {Key: "twice", Value: []byte{1, byte(i)}}, {Key: "ключ", Value: noise},
			}
		}
		records = append(records, record)
	}
	return records
}

func testRoundTrip(t *T, codec kgo.CompressionCodec) {
	topic := newTopic(t, 1)
	sent := mixture(topic)
	from := producer(t, kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(5*time.Millisecond))
	for start := 0; start < len(sent); start += 97 {
		send(t, from, sent[start:min(start+97, len(sent))]...)
	}
	same := func(one, other []byte) bool {
		return bytes.Equal(one, other) && (one == nil) == (other == nil)
	}
	for i, after := range read(t, consumer(t, topic, fromStart(1)), len(sent)) {
		before := sent[i]
		equal(t, int64(i), after.Offset, "offset")
		t.that(same(before.Key, after.Key), "key of %d", i)
		t.that(same(before.Value, after.Value), "value of %d", i)
		equal(t, before.Timestamp.UnixMilli(), after.Timestamp.UnixMilli(), "timestamp of %d", i)
		equal(t, 0, after.LeaderEpoch, "leader epoch of %d", i)
		equal(t, int8(0), after.Attrs.TimestampType(), "timestamp type of %d", i)
		equal(t, len(before.Headers), len(after.Headers), "number of headers of %d", i)
		for h, header := range before.Headers {
			equal(t, header.Key, after.Headers[h].Key, "header key")
			t.that(same(header.Value, after.Headers[h].Value), "value of header %d of %d", h, i)
		}
	}
}

func testAcks(t *T, acks kgo.Acks, offsets bool) {
	topic := newTopic(t, 1)
	from := producer(t, kgo.RequiredAcks(acks), kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	results := from.ProduceSync(limited(t), numbered(topic, 0, 500)...)
	t.ok(results.FirstErr(), "produce")
	if offsets {
		for i, result := range results {
			equal(t, int64(i), result.Record.Offset, "offset answered")
		}
	}
	inOrder(t, topic, 1, 500)
}

func testIdempotence(t *T) {
	topic := newTopic(t, 3)
	from := producer(t, kgo.ProducerBatchMaxBytes(600))
	for i := range 2000 {
		for partition := range int32(3) {
			record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(strconv.Itoa(i))}
			from.Produce(context.Background(), record, nil)
		}
	}
	t.ok(from.Flush(limited(t)), "flush")
	inOrder(t, topic, 3, 2000)
}

// Every seventh answer to Produce is lost with its connection, so the client
// sends batches again that are in the log already.
func testIdempotenceOverLostAnswers(t *T) {
	topic := newTopic(t, 1)
	var produces, lost atomic.Int64
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &lossyConn{Conn: conn, lose: func() bool { return produces.Add(1)%7 == 0 }, lost: &lost}, nil
	}
	from := producer(t, kgo.Dialer(dial), kgo.ProducerBatchMaxBytes(600),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }))
	var results sync.Map
	for i := range 2000 {
		record := &kgo.Record{Topic: topic, Value: []byte(strconv.Itoa(i))}
		from.Produce(context.Background(), record, func(record *kgo.Record, err error) {
			if err == nil && record.Offset != int64(i) {
				err = fmt.Errorf("offset %d", record.Offset)
			}
			if err != nil {
				results.Store(i, err)
			}
		})
	}
	t.ok(from.Flush(limited(t)), "flush")
	results.Range(func(i, err any) bool {
		t.fatalf("record %v: %v", i, err)
		return false
	})
	t.that(lost.Load() >= 3, "only %d answers were lost", lost.Load())
	inOrder(t, topic, 1, 2000)
}

// lossyConn passes Produce requests on, and for some it waits until the broker
// has begun to answer, then closes the connection instead of giving the answer.
type lossyConn struct {
	net.Conn
	lose   func() bool
	lost   *atomic.Int64
	losing atomic.Bool
}

func (c *lossyConn) Write(frame []byte) (int, error) {
	// franz-go writes a request with one call: length, then the API key; 0 is Produce.
	if len(frame) > 6 && frame[4] == 0 && frame[5] == 0 && c.lose() {
		c.losing.Store(true)
	}
	return c.Conn.Write(frame)
}

func (c *lossyConn) Read(buffer []byte) (int, error) {
	n, err := c.Conn.Read(buffer)
	if err == nil && c.losing.Load() {
		c.lost.Add(1)
		_ = c.Conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

func testLargeMessage(t *T) {
	topic := newTopic(t, 1)
	value := make([]byte, 1_048_588-100)
	rand.New(rand.NewSource(1)).Read(value)
	send(t, producer(t, kgo.ProducerBatchMaxBytes(3<<20), kgo.ProducerBatchCompression(kgo.NoCompression())),
		&kgo.Record{Topic: topic, Value: value})
	t.that(bytes.Equal(value, read(t, consumer(t, topic, fromStart(1)), 1)[0].Value), "the value has changed")
}

func testMessageTooLarge(t *T) {
	topic := newTopic(t, 1)
	from := producer(t, kgo.ProducerBatchMaxBytes(3<<20), kgo.ProducerBatchCompression(kgo.NoCompression()))
	err := from.ProduceSync(limited(t), &kgo.Record{Topic: topic, Value: make([]byte, 2_000_000)}).FirstErr()
	fails(t, kerr.MessageTooLarge, err, "2 MB")
	send(t, from, &kgo.Record{Topic: topic, Value: []byte("x")})
	equal(t, 0, read(t, consumer(t, topic, fromStart(1)), 1)[0].Offset, "offset of the next record")
}

func testLogAppendTime(t *T) {
	topic := newTopic(t, 1, "message.timestamp.type", "LogAppendTime")
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for _, codec := range codecs {
		send(t, producer(t, kgo.ProducerBatchCompression(codec)),
			&kgo.Record{Topic: topic, Value: []byte("x"), Timestamp: time.UnixMilli(1_000_000)})
	}
	for _, record := range read(t, consumer(t, topic, fromStart(1)), len(codecs)) {
		equal(t, int8(1), record.Attrs.TimestampType(), "timestamp type")
		t.between(-time.Second, 20*time.Second, time.Since(record.Timestamp), "age")
	}
}

func testAutoCreation(t *T) {
	topic := topicName()
	from := client(t, kgo.AllowAutoTopicCreation(), kgo.UnknownTopicRetries(20))
	send(t, from, &kgo.Record{Topic: topic, Value: []byte("0")})
	inOrder(t, topic, 1, 1)

	refused := topicName()
	from = client(t, kgo.UnknownTopicRetries(1))
	err := from.ProduceSync(limited(t), &kgo.Record{Topic: refused, Value: []byte("0")}).FirstErr()
	t.that(errors.Is(err, kerr.UnknownTopicOrPartition), "without leave to create: %v", err)
	topics, err := admin(t).ListTopics(limited(t))
	t.ok(err, "list")
	t.that(!topics.Has(refused), "the topic was created although the client said no")
}
