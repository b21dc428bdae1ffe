package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var rawOffsetTests = []test{
	{"raw_list_offsets_special", testRawListOffsetsSpecial},
	{"raw_list_offsets_times", testRawListOffsetsTimes},
	{"raw_list_offsets_twice", testRawListOffsetsTwice},
	{"raw_list_offsets_epoch", testRawListOffsetsEpoch},
	{"raw_delete_records", testRawDeleteRecords},
}

type listed struct {
	code              int16
	timestamp, offset int64
}

// Special timestamps at every version, in an empty partition and in one with data.
func testRawListOffsetsSpecial(t *T) {
	topic := newTopic(t, 2)
	connection := dial(t)
	batch := newBatch(4)
	largest := batch.timestamps[0] + 1000
	batch.timestamps[2] = largest
	equal(t, 0, connection.produce(topic, batch).ErrorCode, "produce")
	for version := int16(1); version <= 10; version++ {
		for _, one := range []struct {
			what          string
			timestamp     int64
			since         int16
			data, without listed
		}{
			{"latest", -1, 1, listed{0, -1, 4}, listed{0, -1, 0}},
			{"earliest", -2, 1, listed{0, -1, 0}, listed{0, -1, 0}},
			{"max timestamp", -3, 7, listed{0, largest, 2}, listed{0, -1, -1}},
			{"earliest local", -4, 8, listed{0, -1, 0}, listed{0, -1, 0}},
			{"latest tiered", -5, 9, listed{0, -1, -1}, listed{0, -1, -1}},
			{"-6", -6, 11, listed{}, listed{}},
			{"-7", -7, 99, listed{}, listed{}},
			{"-100", -100, 99, listed{}, listed{}},
		} {
			for _, isolation := range []int8{0, 1} {
				for partition, expected := range []listed{one.data, one.without} {
					if version < one.since {
						expected = listed{35, -1, -1}
					}
					code, timestamp, offset := connection.listOffset(version, topic, int32(partition), one.timestamp, isolation)
					equal(t, expected, listed{code, timestamp, offset}, "%s at v%d, isolation %d, partition %d",
						one.what, version, isolation, partition)
				}
			}
		}
	}
	code, timestamp, offset := connection.listOffset(9, topic, 7, -1, 0)
	equal(t, listed{3, -1, -1}, listed{code, timestamp, offset}, "unknown partition")
	code, timestamp, offset = connection.listOffset(9, topicName(), 0, -1, 0)
	equal(t, listed{3, -1, -1}, listed{code, timestamp, offset}, "unknown topic")
}

// The look-up by time goes into batches, compressed ones too.
func testRawListOffsetsTimes(t *T) {
	connection := dial(t)
	now := time.Now().UnixMilli()
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		topic := newTopic(t, 1)
		for _, times := range [][]int64{{0, 10, 20}, {50, 30, 40}, {35, 60}} {
			batch := newBatch(len(times)).compress(codec)
			for i, delta := range times {
				batch.timestamps[i] = now - 1000 + delta
			}
			equal(t, 0, connection.produce(topic, batch).ErrorCode, "produce")
		}
		for _, look := range [][3]int64{{-500, 0, 0}, {0, 0, 0}, {1, 10, 1}, {20, 20, 2}, {21, 50, 3}, {41, 50, 3}, {51, 60, 7}} {
			code, timestamp, offset := connection.listOffset(6, topic, 0, now-1000+look[0], 0)
			equal(t, listed{0, now - 1000 + look[1], look[2]}, listed{code, timestamp, offset}, "look-up of +%d", look[0])
		}
		code, timestamp, offset := connection.listOffset(6, topic, 0, now-1000+61, 0)
		equal(t, listed{0, -1, -1}, listed{code, timestamp, offset}, "look-up after all")
		code, timestamp, offset = connection.listOffset(7, topic, 0, -3, 0)
		equal(t, listed{0, now - 1000 + 60, 7}, listed{code, timestamp, offset}, "max timestamp")
	}
}

func testRawListOffsetsTwice(t *T) {
	topic := newTopic(t, 2)
	request := kmsg.NewPtrListOffsetsRequest()
	request.Version, request.ReplicaID = 6, -1
	entry := kmsg.NewListOffsetsRequestTopic()
	entry.Topic = topic
	for _, partition := range []int32{0, 1, 0} {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp, one.CurrentLeaderEpoch = partition, -1, -1
		entry.Partitions = append(entry.Partitions, one)
	}
	request.Topics = append(request.Topics, entry)
	response := ask[*kmsg.ListOffsetsResponse](dial(t), request)
	for _, one := range response.Topics[0].Partitions {
		expected := map[int32]int16{0: 42, 1: 0}[one.Partition]
		equal(t, expected, one.ErrorCode, "error of partition %d", one.Partition)
	}
}

func testRawListOffsetsEpoch(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	for _, one := range []struct {
		epoch    int32
		expected int16
	}{{-1, 0}, {0, 0}, {1, 75}, {100, 75}} {
		request := kmsg.NewPtrListOffsetsRequest()
		fillIn(request, topic, 6, nil)
		request.Version = 6
		request.Topics[0].Partitions[0].CurrentLeaderEpoch = one.epoch
		answer := ask[*kmsg.ListOffsetsResponse](connection, request).Topics[0].Partitions[0]
		equal(t, one.expected, answer.ErrorCode, "error with epoch %d", one.epoch)
		if one.expected == 0 {
			equal(t, 0, answer.LeaderEpoch, "epoch answered")
		}
	}
}

func testRawDeleteRecords(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	for range 10 {
		equal(t, 0, connection.produce(topic, newBatch(10)).ErrorCode, "produce")
	}
	remove := func(version int16, partition int32, offset int64) kmsg.DeleteRecordsResponseTopicPartition {
		request := kmsg.NewPtrDeleteRecordsRequest()
		fillIn(request, topic, version, nil)
		request.Version = version
		request.Topics[0].Partitions[0].Partition, request.Topics[0].Partitions[0].Offset = partition, offset
		return ask[*kmsg.DeleteRecordsResponse](connection, request).Topics[0].Partitions[0]
	}
	for _, step := range []struct {
		offset, low, earliest int64
		code, codeAt49        int16
	}{
		{0, 0, 0, 0, 0},
		{50, 50, 50, 0, 1},
		{20, 50, 50, 0, 1},
		{55, 55, 55, 0, 1}, // within a batch
		{101, -1, 55, 1, 1},
		{-2, -1, 55, 1, 1},
		{-1, 100, 100, 0, 1},
		{100, 100, 100, 0, 1},
		{101, -1, 100, 1, 1},
	} {
		for version := range int16(3) {
			answer := remove(version, 0, step.offset)
			equal(t, step.code, answer.ErrorCode, "error of deletion before %d", step.offset)
			equal(t, step.low, answer.LowWatermark, "low watermark of deletion before %d", step.offset)
		}
		code, _, earliest := connection.listOffset(6, topic, 0, -2, 0)
		equal(t, listed{0, 0, step.earliest}, listed{code, 0, earliest}, "earliest after deletion before %d", step.offset)
		answer := connection.fetch(topic, 49)
		equal(t, step.codeAt49, answer.ErrorCode, "fetch at 49 after deletion before %d", step.offset)
		if step.codeAt49 == 0 {
			equal(t, step.earliest, answer.LogStartOffset, "log start after deletion before %d", step.offset)
		}
	}
	equal(t, 3, remove(2, 9, 0).ErrorCode, "unknown partition")
	end := connection.fetch(topic, 100)
	equal(t, 0, end.ErrorCode, "fetch at the end")
	equal(t, 100, end.LogStartOffset, "log start")
	equal(t, 100, end.HighWatermark, "high watermark")
}
