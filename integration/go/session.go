package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// session is a short walk through what a client does, to be recorded by
// integration/record. It is not a test.
func session(t *T) {
	const topic = "session-franz-go"
	one := kadm.NewClient(client(t, kgo.ClientID("session")))
	_, err := one.CreateTopic(limited(t), 2, 1, configMap("retention.ms", "3600000"), topic)
	t.ok(err, "create")
	awaitLeaders(t, topic, 2)
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		send(t, producer(t, kgo.ClientID("session"), kgo.ProducerBatchCompression(codec)), sessionRecords(topic)...)
	}
	send(t, producer(t, kgo.ClientID("session"), kgo.DisableIdempotentWrite(), kgo.RequiredAcks(kgo.NoAck())), sessionRecords(topic)...)
	from := consumer(t, topic, fromStart(2), kgo.ClientID("session"), kgo.FetchMaxWait(200*time.Millisecond))
	read(t, from, 6*len(sessionRecords(topic)))
	nothing(t, from, 300*time.Millisecond)
	_, err = one.ListOffsetsAfterMilli(limited(t), 1_700_000_000_001, topic)
	t.ok(err, "list offsets")
	_, err = one.ListMaxTimestampOffsets(limited(t), topic)
	t.ok(err, "list offsets")
	_, err = one.UpdatePartitions(limited(t), 3, topic)
	t.ok(err, "create partitions")
	offsets := kadm.Offsets{}
	offsets.AddOffset(topic, 0, 2, -1)
	_, err = one.DeleteRecords(limited(t), offsets)
	t.ok(err, "delete records")
	var epochs kadm.OffsetForLeaderEpochRequest
	epochs.Add(topic, 0, 0)
	_, err = one.OffsetForLeaderEpoch(limited(t), epochs)
	t.ok(err, "offset for leader epoch")
	_, err = one.DeleteTopic(limited(t), topic)
	t.ok(err, "delete")
}

func sessionRecords(topic string) []*kgo.Record {
	headers := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}
	timestamp := time.UnixMilli(1_700_000_000_000)
	return []*kgo.Record{
		{Topic: topic, Partition: 0, Timestamp: timestamp, Key: []byte("key"), Value: []byte("value value value value"), Headers: headers},
		{Topic: topic, Partition: 0, Timestamp: timestamp.Add(time.Millisecond), Value: []byte{}},
		{Topic: topic, Partition: 1, Timestamp: timestamp.Add(2 * time.Millisecond), Key: []byte{}, Value: nil},
	}
}
