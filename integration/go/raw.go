package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// raw is one connection on which requests are written at exactly the version
// that they carry, with nothing of a client's between.
type raw struct {
	t           *T
	conn        net.Conn
	correlation int32
}

func dial(t *T) *raw {
	conn, err := net.DialTimeout("tcp", bootstrap(), waitLimit)
	t.ok(err, "connect")
	t.cleanup(func() { _ = conn.Close() })
	return &raw{t: t, conn: conn}
}

// send writes a request and does not wait.
func (r *raw) send(request kmsg.Request) {
	r.correlation++
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("raw")).AppendRequest(nil, request, r.correlation)
	r.write(frame)
}

func (r *raw) write(bytes []byte) {
	_, err := r.conn.Write(bytes)
	r.t.ok(err, "write")
}

// receive reads the next frame.
func (r *raw) receive() ([]byte, error) {
	_ = r.conn.SetReadDeadline(time.Now().Add(waitLimit))
	var length [4]byte
	if _, err := io.ReadFull(r.conn, length[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r.conn, frame)
	return frame, err
}

// ask sends a request and decodes the answer, which must have nothing left over
// and must be what encodes to the same bytes again.
func ask[Response kmsg.Response](r *raw, request kmsg.Request) Response {
	r.send(request)
	return answer[Response](r, request)
}

func answer[Response kmsg.Response](r *raw, request kmsg.Request) Response {
	name, version := kmsg.NameForKey(request.Key()), request.GetVersion()
	frame, err := r.receive()
	r.t.ok(err, "answer to %s v%d", name, version)
	response := request.ResponseKind()
	response.SetVersion(version)
	header := 4
	// An ApiVersions answer has the old header in every version.
	if response.IsFlexible() && request.Key() != int16(kmsg.ApiVersions) {
		r.t.that(len(frame) > 4 && frame[4] == 0, "answer to %s v%d: tags in the header", name, version)
		header = 5
	}
	r.t.that(len(frame) >= header, "answer to %s v%d is too short", name, version)
	equal(r.t, r.correlation, int32(binary.BigEndian.Uint32(frame)), "correlation id of %s v%d", name, version)
	r.t.ok(response.ReadFrom(frame[header:]), "decode the answer to %s v%d", name, version)
	again := response.AppendTo(nil)
	r.t.that(bytes.Equal(again, frame[header:]), "answer to %s v%d is not what its schema says: %x encodes as %x",
		name, version, frame[header:], again)
	return response.(Response)
}

// closed checks that the broker closes the connection without an answer.
func (r *raw) closed(format string, values ...any) {
	frame, err := r.receive()
	r.t.that(err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "%s: the connection should be closed, got %x, %v",
		format, frame, err)
}

// silent checks that nothing is answered for a while and that the connection stays.
func (r *raw) silent(during time.Duration, what string) {
	_ = r.conn.SetReadDeadline(time.Now().Add(during))
	var one [1]byte
	_, err := r.conn.Read(one[:])
	r.t.that(errors.Is(err, os.ErrDeadlineExceeded), "%s: nothing should be answered, got %v", what, err)
}

// batch describes a record batch (v2) to produce; zero values are what a plain
// producer sends, but for producerID, which is -1 in newBatch.
type batch struct {
	codec         kgo.CompressionCodec
	compressed    bool
	attributes    int16
	timestamps    []int64 // one record each
	key           []byte
	value         []byte
	producerID    int64
	producerEpoch int16
	sequence      int32
}

// newBatch has count records of now.
func newBatch(count int) batch {
	timestamps := make([]int64, count)
	for i := range timestamps {
		timestamps[i] = time.Now().UnixMilli()
	}
	return batch{timestamps: timestamps, key: []byte("k"), value: []byte("v"), producerID: -1, producerEpoch: -1, sequence: -1}
}

func (b batch) compress(codec kgo.CompressionCodec) batch {
	b.codec, b.compressed = codec, true
	return b
}

func (b batch) of(producerID int64, epoch int16, sequence int32) batch {
	b.producerID, b.producerEpoch, b.sequence = producerID, epoch, sequence
	return b
}

func (b batch) encode(t *T) []byte {
	var records []byte
	largest := b.timestamps[0]
	for i, timestamp := range b.timestamps {
		largest = max(largest, timestamp)
		record := kmsg.NewRecord()
		record.TimestampDelta64 = timestamp - b.timestamps[0]
		record.OffsetDelta = int32(i)
		record.Key, record.Value = b.key, b.value
		body := record.AppendTo(nil) // with a length of 0, which takes one byte
		record.Length = int32(len(body) - 1)
		records = record.AppendTo(records)
	}
	attributes := b.attributes
	if b.compressed {
		compressor, err := kgo.DefaultCompressor(b.codec)
		t.ok(err, "compressor")
		if compressor != nil { // as it is for no compression
			packed, codec := compressor.Compress(new(bytes.Buffer), records)
			records = bytes.Clone(packed)
			attributes |= int16(codec)
		}
	}
	encoded := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(len(b.timestamps) - 1),
		FirstTimestamp: b.timestamps[0], MaxTimestamp: largest, ProducerID: b.producerID,
		ProducerEpoch: b.producerEpoch, FirstSequence: b.sequence, NumRecords: int32(len(b.timestamps)), Records: records,
	}
	bytes := encoded.AppendTo(nil)
	binary.BigEndian.PutUint32(bytes[8:], uint32(len(bytes)-12))
	binary.BigEndian.PutUint32(bytes[17:], crc32.Checksum(bytes[21:], crc32.MakeTable(crc32.Castagnoli)))
	return bytes
}

func produceRequest(version int16, acks int16, topic string, batches map[int32][]byte) *kmsg.ProduceRequest {
	request := kmsg.NewPtrProduceRequest()
	request.Version, request.Acks, request.TimeoutMillis = version, acks, 10_000
	entry := kmsg.NewProduceRequestTopic()
	entry.Topic = topic
	for partition, records := range batches {
		one := kmsg.NewProduceRequestTopicPartition()
		one.Partition, one.Records = partition, records
		entry.Partitions = append(entry.Partitions, one)
	}
	request.Topics = append(request.Topics, entry)
	return request
}

// produce sends one batch to partition 0 with acks=-1 at version 9 and returns the partition's answer.
func (r *raw) produce(topic string, batch batch) kmsg.ProduceResponseTopicPartition {
	return r.produceAt(9, -1, topic, batch)
}

func (r *raw) produceAt(version, acks int16, topic string, batch batch) kmsg.ProduceResponseTopicPartition {
	request := produceRequest(version, acks, topic, map[int32][]byte{0: batch.encode(r.t)})
	response := ask[*kmsg.ProduceResponse](r, request)
	r.t.that(len(response.Topics) == 1 && len(response.Topics[0].Partitions) == 1, "Produce answers %d topics", len(response.Topics))
	return response.Topics[0].Partitions[0]
}

// fetchRequest is sessionless, at version 12, with max wait and min bytes of 0.
func fetchRequest(topic string, offsets map[int32]int64) *kmsg.FetchRequest {
	request := kmsg.NewPtrFetchRequest()
	request.Version, request.ReplicaID, request.MaxBytes, request.SessionEpoch = 12, -1, 1<<20, -1
	entry := kmsg.NewFetchRequestTopic()
	entry.Topic = topic
	for partition, offset := range offsets {
		one := kmsg.NewFetchRequestTopicPartition()
		one.Partition, one.FetchOffset, one.PartitionMaxBytes = partition, offset, 1<<20
		one.CurrentLeaderEpoch, one.LastFetchedEpoch = -1, -1
		entry.Partitions = append(entry.Partitions, one)
	}
	request.Topics = append(request.Topics, entry)
	return request
}

func (r *raw) fetch(topic string, offset int64) kmsg.FetchResponseTopicPartition {
	response := ask[*kmsg.FetchResponse](r, fetchRequest(topic, map[int32]int64{0: offset}))
	equal(r.t, 0, response.ErrorCode, "error of Fetch")
	r.t.that(len(response.Topics) == 1 && len(response.Topics[0].Partitions) == 1, "Fetch answers %d topics", len(response.Topics))
	return response.Topics[0].Partitions[0]
}

// listOffset asks at version 6 for one partition; the answer is error, timestamp, offset.
func (r *raw) listOffset(version int16, topic string, partition int32, timestamp int64, isolation int8) (int16, int64, int64) {
	request := kmsg.NewPtrListOffsetsRequest()
	request.Version, request.ReplicaID, request.IsolationLevel = version, -1, isolation
	entry := kmsg.NewListOffsetsRequestTopic()
	entry.Topic = topic
	one := kmsg.NewListOffsetsRequestTopicPartition()
	one.Partition, one.Timestamp, one.CurrentLeaderEpoch = partition, timestamp, -1
	entry.Partitions = append(entry.Partitions, one)
	request.Topics = append(request.Topics, entry)
	response := ask[*kmsg.ListOffsetsResponse](r, request)
	r.t.that(len(response.Topics) == 1 && len(response.Topics[0].Partitions) == 1, "ListOffsets answers %d topics", len(response.Topics))
	found := response.Topics[0].Partitions[0]
	return found.ErrorCode, found.Timestamp, found.Offset
}
