package main

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var rawProduceTests = []test{
	{"raw_acks", testRawAcks},
	{"raw_idempotent_sequences", testRawIdempotentSequences},
	{"raw_idempotent_wrap", testRawIdempotentWrap},
	{"raw_unknown_producer_id", testRawUnknownProducerID},
	{"raw_init_producer_id", testRawInitProducerID},
	{"raw_rejected_record", testRawRejectedRecord},
	{"raw_log_append_time", testRawLogAppendTime},
	{"raw_zstd_needs_version_7", testRawZstdVersions},
	{"raw_bad_batches", testRawBadBatches},
	{"raw_contiguous_offsets", testRawContiguousOffsets},
}

func testRawAcks(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	for _, version := range []int16{3, 8, 9, 12} {
		for _, acks := range []int16{2, -2, 7} {
			answer := connection.produceAt(version, acks, topic, newBatch(1))
			equal(t, 21, answer.ErrorCode, "error of acks %d at v%d", acks, version)
		}
	}
	equal(t, 0, connection.produceAt(9, -1, topic, newBatch(1)).BaseOffset, "acks -1 after the refused ones")
	equal(t, 1, connection.produceAt(9, 1, topic, newBatch(1)).BaseOffset, "acks 1")
	connection.send(produceRequest(9, 0, topic, map[int32][]byte{0: newBatch(1).encode(t)}))
	connection.silent(300*time.Millisecond, "acks 0")
	equal(t, 3, connection.produceAt(9, -1, topic, newBatch(1)).BaseOffset, "acks -1 after acks 0")
	// With acks 0, closing the connection is the only way to tell of an error.
	connection.send(produceRequest(9, 0, topicName(), map[int32][]byte{0: newBatch(1).encode(t)}))
	connection.closed("acks 0 to an unknown topic")
	unknown := dial(t).produceAt(9, -1, topicName(), newBatch(1))
	equal(t, 3, unknown.ErrorCode, "unknown topic")
	equal(t, -1, unknown.BaseOffset, "base offset of an error")
}

func initProducerID(connection *raw) (int64, int16) {
	request := kmsg.NewPtrInitProducerIDRequest()
	request.Version, request.ProducerID, request.ProducerEpoch, request.TransactionTimeoutMillis = 4, -1, -1, 60_000
	response := ask[*kmsg.InitProducerIDResponse](connection, request)
	equal(connection.t, 0, response.ErrorCode, "InitProducerId")
	return response.ProducerID, response.ProducerEpoch
}

func testRawInitProducerID(t *T) {
	connection := dial(t)
	one, epoch := initProducerID(connection)
	other, _ := initProducerID(connection)
	equal(t, 0, epoch, "epoch")
	t.that(one >= 0 && other >= 0 && one != other, "ids %d and %d", one, other)
	// Some clients mean "none" with 0 and 0.
	request := kmsg.NewPtrInitProducerIDRequest()
	request.Version, request.ProducerID, request.ProducerEpoch, request.TransactionTimeoutMillis = 5, 0, 0, 60_000
	equal(t, 0, ask[*kmsg.InitProducerIDResponse](connection, request).ErrorCode, "producer id 0 and epoch 0")
}

func testRawIdempotentSequences(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	id, epoch := initProducerID(connection)
	for _, step := range []struct {
		what     string
		count    int
		epoch    int16
		sequence int32
		code     int16
		offset   int64
	}{
		{"first", 2, epoch, 0, 0, 0},
		{"second", 3, epoch, 2, 0, 2},
		{"duplicate of the second", 3, epoch, 2, 0, 2},
		{"duplicate of the first", 2, epoch, 0, 0, 0},
		{"gap", 1, epoch, 6, 45, -1},
		{"overlap", 2, epoch, 4, 45, -1},
		{"same first sequence, other length", 2, epoch, 2, 45, -1},
		{"third", 1, epoch, 5, 0, 5},
		{"fourth", 1, epoch, 6, 0, 6},
		{"fifth", 1, epoch, 7, 0, 7},
		{"duplicate of the first, fifth of the window", 2, epoch, 0, 0, 0},
		{"sixth", 1, epoch, 8, 0, 8},
		{"duplicate of the first, out of the window", 2, epoch, 0, 45, -1},
		{"duplicate of the second, in the window", 3, epoch, 2, 0, 2},
		{"next epoch that doesn't begin at 0", 1, epoch + 1, 9, 45, -1},
		{"next epoch", 1, epoch + 1, 0, 0, 9},
		{"old epoch", 1, epoch, 9, 47, -1},
		{"next epoch goes on", 1, epoch + 1, 1, 0, 10},
	} {
		answer := connection.produce(topic, newBatch(step.count).of(id, step.epoch, step.sequence))
		equal(t, step.code, answer.ErrorCode, "error of %s", step.what)
		equal(t, step.offset, answer.BaseOffset, "offset of %s", step.what)
	}
	equal(t, 11, connection.fetch(topic, 0).HighWatermark, "high watermark in the end")
	equal(t, 87, connection.produce(topic, newBatch(1).of(id, epoch+1, -1)).ErrorCode, "negative sequence")
}

func testRawIdempotentWrap(t *T) {
	const last = 1<<31 - 1
	connection := dial(t)
	id, epoch := initProducerID(connection)
	topic := newTopic(t, 1)
	for i, sequence := range []int32{last - 1, last, 0, 1} {
		answer := connection.produce(topic, newBatch(1).of(id, epoch, sequence))
		equal(t, 0, answer.ErrorCode, "error of sequence %d", sequence)
		equal(t, int64(i), answer.BaseOffset, "offset of sequence %d", sequence)
	}
	within := newTopic(t, 1)
	equal(t, 0, connection.produce(within, newBatch(4).of(id, epoch, last-1)).BaseOffset, "a batch that wraps")
	equal(t, 4, connection.produce(within, newBatch(1).of(id, epoch, 2)).BaseOffset, "the batch after it")
}

// With no state for the id, any sequence may be the first; also after all of the records were deleted.
func testRawUnknownProducerID(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	id, epoch := initProducerID(connection)
	equal(t, 0, connection.produce(topic, newBatch(1).of(id, epoch, 5)).ErrorCode, "first sequence 5")
	request := kmsg.NewPtrDeleteRecordsRequest()
	fillIn(request, topic, 2, nil)
	request.Version, request.Topics[0].Partitions[0].Offset = 2, -1
	equal(t, 0, ask[*kmsg.DeleteRecordsResponse](connection, request).Topics[0].Partitions[0].ErrorCode, "delete all")
	equal(t, 0, connection.produce(topic, newBatch(1).of(id, epoch, 6)).ErrorCode, "sequence 6 after deletion")
	equal(t, 0, connection.produce(topic, newBatch(1).of(id+1_000_000_000, 3, 77)).ErrorCode, "an id that was never given out")
}

// A refused batch leaves its partition, the other partitions and the sequence as they were.
func testRawRejectedRecord(t *T) {
	compacted := newTopic(t, 2, "cleanup.policy", "compact")
	narrow := newTopic(t, 2, "max.message.bytes", "2000")
	connection := dial(t)
	noKey := newBatch(3)
	noKey.key = nil
	large := newBatch(1)
	large.value = make([]byte, 5000)
	for _, version := range []int16{3, 7, 8, 9, 12} {
		id, epoch := initProducerID(connection)
		for _, one := range []struct {
			what, topic string
			bad         batch
			code        int16
		}{{"no key", compacted, noKey, 87}, {"too large", narrow, large, 10}} {
			good := newBatch(1).of(id, epoch, 0).encode(t)
			request := produceRequest(version, -1, one.topic, map[int32][]byte{0: one.bad.of(id, epoch, 0).encode(t), 1: good})
			for _, answer := range ask[*kmsg.ProduceResponse](connection, request).Topics[0].Partitions {
				if answer.Partition == 1 {
					equal(t, 0, answer.ErrorCode, "good partition beside %s at v%d", one.what, version)
					continue
				}
				equal(t, one.code, answer.ErrorCode, "%s at v%d", one.what, version)
				equal(t, -1, answer.BaseOffset, "base offset of %s", one.what)
				if one.what == "no key" && version >= 8 {
					equal(t, 3, len(answer.ErrorRecords), "records named at v%d", version)
					equal(t, 1, answer.ErrorRecords[1].RelativeOffset, "index of the second")
					t.that(answer.ErrorMessage != nil, "no message at v%d", version)
				}
			}
			answer := connection.produceAt(version, -1, one.topic, newBatch(1).of(id, epoch, 0))
			equal(t, 0, answer.ErrorCode, "the same sequence after %s", one.what)
		}
	}
}

func testRawLogAppendTime(t *T) {
	topic := newTopic(t, 1, "message.timestamp.type", "LogAppendTime")
	create := newTopic(t, 1)
	connection := dial(t)
	const old = 1_000_000_000_000 // in 2001
	aged := func() batch {
		batch := newBatch(2)
		batch.timestamps = []int64{old, old + 5}
		return batch
	}
	equal(t, -1, connection.produce(create, aged()).LogAppendTime, "append time of a CreateTime topic")
	codecs := []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		sent := aged().compress(codec)
		before := time.Now().UnixMilli()
		answer := connection.produce(topic, sent)
		equal(t, 0, answer.ErrorCode, "error")
		t.between(-time.Second, 5*time.Second, time.Duration(answer.LogAppendTime-before)*time.Millisecond, "append time")

		stored := connection.fetch(topic, int64(2*i)).RecordBatches
		var header kmsg.RecordBatch
		t.ok(header.ReadFrom(stored), "decode the batch")
		equal(t, answer.LogAppendTime, header.MaxTimestamp, "max timestamp")
		equal(t, 8, header.Attributes&8, "bit 3 of the attributes")
		equal(t, int64(2*i), header.FirstOffset, "base offset")
		equal(t, 0, header.PartitionLeaderEpoch, "leader epoch")
		equal(t, crc32.Checksum(stored[21:], crc32.MakeTable(crc32.Castagnoli)), uint32(header.CRC), "CRC")
		t.that(bytes.Equal(stored[57:], sent.encode(t)[57:]), "the records have changed")
	}
	now := time.Now().UnixMilli()
	code, timestamp, offset := connection.listOffset(6, topic, 0, now-20_000, 0)
	equal(t, listed{0, 0, 0}, listed{code, 0, offset}, "look-up of 20 s ago")
	t.that(timestamp > now-20_000, "timestamp of the look-up: %d", timestamp)
	marked := newBatch(1)
	marked.attributes = 8
	equal(t, 32, connection.produce(topic, marked).ErrorCode, "a batch that says LogAppendTime itself")
}

func testRawZstdVersions(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	for version, expected := range map[int16]int16{3: 76, 6: 76, 7: 0, 9: 0} {
		answer := connection.produceAt(version, -1, topic, newBatch(2).compress(kgo.ZstdCompression()))
		equal(t, expected, answer.ErrorCode, "zstd at v%d", version)
	}
}

func testRawBadBatches(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	changed := func(change func([]byte) []byte) []byte {
		encoded := change(newBatch(2).encode(t))
		if len(encoded) > 21 {
			binary.BigEndian.PutUint32(encoded[17:], crc32.Checksum(encoded[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		return encoded
	}
	put := func(at int, bytes ...byte) func([]byte) []byte {
		return func(encoded []byte) []byte {
			copy(encoded[at:], bytes)
			return encoded
		}
	}
	wrongCRC := newBatch(2).encode(t)
	wrongCRC[17] ^= 1
	for _, one := range []struct {
		what  string
		batch []byte
		codes []int16
	}{
		{"wrong CRC", wrongCRC, []int16{2}},
		{"magic 0", changed(put(16, 0)), []int16{87}},
		{"magic 1", changed(put(16, 1)), []int16{87}},
		{"magic 3", changed(put(16, 3)), []int16{2}},
		{"base offset 5", changed(put(7, 5)), []int16{87}},
		{"count 3 of 2", changed(put(57, 0, 0, 0, 3)), []int16{87}},
		{"count -1", changed(put(57, 0xff, 0xff, 0xff, 0xff)), []int16{87}},
		{"count 2^31-1", changed(put(57, 0x7f, 0xff, 0xff, 0xff)), []int16{87}},
		{"last offset delta 5", changed(put(23, 0, 0, 0, 5)), []int16{87}},
		{"control batch", changed(put(21, 0, 0x20)), []int16{87}},
		{"two batches", append(newBatch(1).encode(t), newBatch(1).encode(t)...), []int16{87}},
		{"cut in the middle", newBatch(2).encode(t)[:50], []int16{87}},
		{"no bytes", []byte{}, []int16{87}},
		// Kafka says -1, which tells nobody anything.
		{"gzip bit on plain records", changed(put(21, 0, 1)), []int16{-1, 2, 87}},
		{"codec 7", changed(put(21, 0, 7)), []int16{-1, 2, 87}},
	} {
		request := produceRequest(9, -1, topic, map[int32][]byte{0: one.batch})
		answer := ask[*kmsg.ProduceResponse](connection, request).Topics[0].Partitions[0]
		found := false
		for _, code := range one.codes {
			found = found || code == answer.ErrorCode
		}
		t.that(found, "%s: error %d, expected one of %v", one.what, answer.ErrorCode, one.codes)
	}
	equal(t, 0, connection.produce(topic, newBatch(1)).BaseOffset, "offset of a good batch after the bad ones")
}

func testRawContiguousOffsets(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	next := int64(0)
	for _, count := range []int{1, 7, 30, 2, 100, 1, 1} {
		answer := connection.produce(topic, newBatch(count))
		equal(t, next, answer.BaseOffset, "base offset")
		next += int64(count)
		_, _, end := connection.listOffset(6, topic, 0, -1, 0)
		equal(t, next, end, "end offset")
	}
	// Fetched whole: batches stand one after the other without a hole.
	stored := connection.fetch(topic, 0).RecordBatches
	at := int64(0)
	for len(stored) > 0 {
		var header kmsg.RecordBatch
		t.ok(header.ReadFrom(stored), "decode a batch")
		equal(t, at, header.FirstOffset, "base offset")
		at += int64(header.NumRecords)
		stored = stored[12+header.Length:]
	}
	equal(t, next, at, "end of the last batch")
}
