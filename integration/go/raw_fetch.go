package main

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var rawFetchTests = []test{
	{"raw_fetch_bounds", testRawFetchBounds},
	{"raw_fetch_min_bytes_over_partitions", testRawFetchMinBytes},
	{"raw_fetch_unknown_partition", testRawFetchUnknownPartition},
	{"raw_fetch_error_answers_at_once", testRawFetchErrorAtOnce},
	{"raw_fetch_limits", testRawFetchLimits},
	{"raw_fetch_session", testRawFetchSession},
	{"raw_fetch_session_errors", testRawFetchSessionErrors},
	{"raw_fetch_epochs", testRawFetchEpochs},
	{"raw_fetch_by_id", testRawFetchByID},
	{"raw_fetch_deleted_topic", testRawFetchDeletedTopic},
	{"raw_fetch_keeps_order", testRawFetchKeepsOrder},
	{"raw_fetch_client_gone", testRawFetchClientGone},
}

func testRawFetchBounds(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	for range 3 {
		equal(t, 0, connection.produce(topic, newBatch(4)).ErrorCode, "produce")
	}
	request := kmsg.NewPtrDeleteRecordsRequest()
	fillIn(request, topic, 2, nil)
	request.Version, request.Topics[0].Partitions[0].Offset = 2, 4
	ask[*kmsg.DeleteRecordsResponse](connection, request)
	for _, one := range []struct {
		offset  int64
		code    int16
		records bool
	}{{3, 1, false}, {4, 0, true}, {5, 0, true}, {11, 0, true}, {12, 0, false}, {13, 1, false}, {-1, 1, false}, {1 << 60, 1, false}} {
		start := time.Now()
		answer := connection.fetch(topic, one.offset)
		equal(t, one.code, answer.ErrorCode, "error at %d", one.offset)
		equal(t, one.records, len(answer.RecordBatches) > 0, "records at %d", one.offset)
		t.that(answer.RecordBatches != nil, "null records at %d", one.offset)
		high, start2 := int64(12), int64(4)
		if one.code != 0 {
			high, start2 = -1, -1
		}
		equal(t, high, answer.HighWatermark, "high watermark at %d", one.offset)
		equal(t, high, answer.LastStableOffset, "last stable offset at %d", one.offset)
		equal(t, start2, answer.LogStartOffset, "log start at %d", one.offset)
		t.between(0, time.Second, time.Since(start), "time at %d", one.offset)
		// The batch is served whole, also from its middle.
		if one.offset == 5 {
			var header kmsg.RecordBatch
			t.ok(header.ReadFrom(answer.RecordBatches), "decode")
			equal(t, 4, header.FirstOffset, "first offset of the batch around 5")
		}
	}
	// An offset out of range is told at once, however long the fetch would wait.
	waiting := fetchRequest(topic, map[int32]int64{0: 13})
	waiting.MaxWaitMillis, waiting.MinBytes = 10_000, 1
	start := time.Now()
	equal(t, 1, ask[*kmsg.FetchResponse](connection, waiting).Topics[0].Partitions[0].ErrorCode, "error beyond the end")
	t.between(0, 2*time.Second, time.Since(start), "time beyond the end")
}

func testRawFetchMinBytes(t *T) {
	topic := newTopic(t, 4)
	waiter, producer := dial(t), dial(t)
	request := fetchRequest(topic, map[int32]int64{0: 0, 1: 0, 2: 0, 3: 0})
	request.MaxWaitMillis, request.MinBytes = 10_000, 100_000
	large := newBatch(1)
	large.value = make([]byte, 30_000)
	start := time.Now()
	waiter.send(request)
	for partition := range int32(3) {
		produced := produceRequest(9, -1, topic, map[int32][]byte{partition: large.encode(t)})
		equal(t, 0, ask[*kmsg.ProduceResponse](producer, produced).Topics[0].Partitions[0].ErrorCode, "produce")
	}
	waiter.silent(500*time.Millisecond, "90,000 bytes of 100,000")
	produced := produceRequest(9, -1, topic, map[int32][]byte{3: large.encode(t)})
	ask[*kmsg.ProduceResponse](producer, produced)
	enough := time.Now()
	total := 0
	for _, partition := range answer[*kmsg.FetchResponse](waiter, request).Topics[0].Partitions {
		total += len(partition.RecordBatches)
	}
	t.between(0, slack, time.Since(enough), "time from enough to the answer")
	t.between(0, 5*time.Second, time.Since(start), "time in all")
	t.that(total >= 120_000, "%d bytes", total)

	for _, one := range []struct {
		what          string
		wait, minimum int32
	}{{"max wait 0", 0, 100_000_000}, {"min bytes 0", 10_000, 0}, {"max wait negative", -1, 100_000_000}} {
		request := fetchRequest(topic, map[int32]int64{0: 1})
		request.MaxWaitMillis, request.MinBytes = one.wait, one.minimum
		start := time.Now()
		ask[*kmsg.FetchResponse](waiter, request)
		t.between(0, slack, time.Since(start), "%s", one.what)
	}
	idle := fetchRequest(topic, map[int32]int64{0: 1, 1: 1})
	idle.MaxWaitMillis, idle.MinBytes = 700, 1
	start = time.Now()
	ask[*kmsg.FetchResponse](waiter, idle)
	t.between(maxWait-early, maxWait+slack, time.Since(start), "idle")
}

// Beside a partition that can be read, an unknown one doesn't end the wait.
func testRawFetchUnknownPartition(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	both := fetchRequest(topic, map[int32]int64{0: 0, 9: 0})
	both.MaxWaitMillis, both.MinBytes = 700, 1
	start := time.Now()
	codes := map[int32]int16{}
	for _, partition := range ask[*kmsg.FetchResponse](connection, both).Topics[0].Partitions {
		codes[partition.Partition] = partition.ErrorCode
	}
	t.between(maxWait-early, maxWait+slack, time.Since(start), "unknown beside readable")
	equal(t, 0, codes[0], "error of the known partition")
	equal(t, 3, codes[9], "error of the unknown partition")

	alone := fetchRequest(topic, map[int32]int64{9: 0})
	alone.MaxWaitMillis, alone.MinBytes = 10_000, 1
	start = time.Now()
	equal(t, 3, ask[*kmsg.FetchResponse](connection, alone).Topics[0].Partitions[0].ErrorCode, "error alone")
	t.between(0, slack, time.Since(start), "unknown alone")
}

func testRawFetchErrorAtOnce(t *T) {
	topic := newTopic(t, 2)
	request := fetchRequest(topic, map[int32]int64{0: 0, 1: 5})
	request.MaxWaitMillis, request.MinBytes = 10_000, 1
	start := time.Now()
	for _, partition := range ask[*kmsg.FetchResponse](dial(t), request).Topics[0].Partitions {
		equal(t, map[int32]int16{0: 0, 1: 1}[partition.Partition], partition.ErrorCode, "error of %d", partition.Partition)
	}
	t.between(0, slack, time.Since(start), "out of range beside readable")
}

// KIP-74: the first batch comes whole, however small the limits; then the limits hold.
func testRawFetchLimits(t *T) {
	topic := newTopic(t, 3)
	connection := dial(t)
	batch := newBatch(1)
	batch.value = make([]byte, 10_000)
	size := len(batch.encode(t))
	for partition := range int32(3) {
		for range 3 {
			ask[*kmsg.ProduceResponse](connection, produceRequest(9, -1, topic, map[int32][]byte{partition: batch.encode(t)}))
		}
	}
	fetched := func(maxBytes, partitionMax int32, partitions ...int32) []int {
		request := fetchRequest(topic, nil)
		request.MaxBytes = maxBytes
		for _, partition := range partitions {
			one := kmsg.NewFetchRequestTopicPartition()
			one.Partition, one.PartitionMaxBytes, one.CurrentLeaderEpoch, one.LastFetchedEpoch = partition, partitionMax, -1, -1
			request.Topics[0].Partitions = append(request.Topics[0].Partitions, one)
		}
		var sizes []int
		for i, partition := range ask[*kmsg.FetchResponse](connection, request).Topics[0].Partitions {
			equal(t, partitions[i], partition.Partition, "order of the answer")
			sizes = append(sizes, len(partition.RecordBatches))
		}
		return sizes
	}
	check := func(what string, got []int, expected ...int) {
		equal(t, len(expected), len(got), "partitions with %s", what)
		for i := range expected {
			equal(t, expected[i], got[i], "bytes of entry %d with %s", i, what)
		}
	}
	check("limits of 1", fetched(1, 1, 0, 1, 2), size, 0, 0)
	check("partition limit of 1", fetched(1<<20, 1, 2, 1, 0), size, 0, 0)
	check("partition limit of a batch", fetched(1<<20, int32(size), 0, 1, 2), size, size, size)
	check("no limit in the way", fetched(1<<20, 1<<20, 1, 0, 2), 3*size, 3*size, 3*size)
	// What is left of max bytes goes to the next partition, and may end in the middle of a batch.
	check("a limit of four batches", fetched(int32(4*size), 1<<20, 0, 1, 2), 3*size, size, 0)
	check("a limit of four and a half", fetched(int32(4*size+size/2), 1<<20, 0, 1, 2), 3*size, size+size/2, 0)
}

func sessionRequest(topic string, id, epoch int32, offsets map[int32]int64) *kmsg.FetchRequest {
	request := fetchRequest(topic, offsets)
	request.SessionID, request.SessionEpoch = id, epoch
	if len(offsets) == 0 {
		request.Topics = nil
	}
	return request
}

func partitionsOf(response *kmsg.FetchResponse) map[int32]kmsg.FetchResponseTopicPartition {
	partitions := map[int32]kmsg.FetchResponseTopicPartition{}
	for _, topic := range response.Topics {
		for _, partition := range topic.Partitions {
			partitions[partition.Partition] = partition
		}
	}
	return partitions
}

// KIP-227, step by step.
func testRawFetchSession(t *T) {
	topic := newTopic(t, 3)
	connection, producer := dial(t), dial(t)
	full := ask[*kmsg.FetchResponse](connection, sessionRequest(topic, 0, 0, map[int32]int64{0: 0, 1: 0, 2: 0}))
	equal(t, 0, full.ErrorCode, "error of the full fetch")
	id := full.SessionID
	t.that(id != 0, "no session was made")
	equal(t, 3, len(partitionsOf(full)), "partitions of the full fetch")

	next := func(epoch int32, offsets map[int32]int64) map[int32]kmsg.FetchResponseTopicPartition {
		response := ask[*kmsg.FetchResponse](connection, sessionRequest(topic, id, epoch, offsets))
		equal(t, 0, response.ErrorCode, "error at epoch %d", epoch)
		equal(t, id, response.SessionID, "session at epoch %d", epoch)
		return partitionsOf(response)
	}
	equal(t, 0, len(next(1, nil)), "partitions when nothing has changed")
	ask[*kmsg.ProduceResponse](producer, produceRequest(9, -1, topic, map[int32][]byte{1: newBatch(2).encode(t)}))
	changed := next(2, nil)
	equal(t, 1, len(changed), "partitions after a produce to one")
	equal(t, 2, changed[1].HighWatermark, "its high watermark")
	equal(t, 1, len(next(3, nil)), "partitions when the same records are there still")
	equal(t, 0, len(next(4, map[int32]int64{1: 2})), "partitions after the position has moved")
	// Forgotten partitions don't come any more.
	forget := sessionRequest(topic, id, 5, nil)
	forgotten := kmsg.NewFetchRequestForgottenTopic()
	forgotten.Topic, forgotten.Partitions = topic, []int32{1}
	forget.ForgottenTopics = append(forget.ForgottenTopics, forgotten)
	equal(t, 0, ask[*kmsg.FetchResponse](connection, forget).ErrorCode, "error of forgetting")
	ask[*kmsg.ProduceResponse](producer, produceRequest(9, -1, topic, map[int32][]byte{1: newBatch(2).encode(t), 2: newBatch(1).encode(t)}))
	changed = next(6, nil)
	equal(t, 1, len(changed), "partitions after one was forgotten")
	equal(t, 1, changed[2].HighWatermark, "high watermark of the other")
	// The session belongs to no connection.
	response := ask[*kmsg.FetchResponse](producer, sessionRequest(topic, id, 7, nil))
	equal(t, 0, response.ErrorCode, "error on another connection")
	// Epoch -1 ends the session.
	response = ask[*kmsg.FetchResponse](connection, sessionRequest(topic, id, -1, map[int32]int64{0: 0}))
	equal(t, 0, response.ErrorCode, "error of the last")
	equal(t, 0, response.SessionID, "session of the last")
	equal(t, 70, ask[*kmsg.FetchResponse](connection, sessionRequest(topic, id, 8, nil)).ErrorCode, "error when the session is gone")
}

func testRawFetchSessionErrors(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	id := ask[*kmsg.FetchResponse](connection, sessionRequest(topic, 0, 0, map[int32]int64{0: 0})).SessionID
	for _, one := range []struct {
		what      string
		id, epoch int32
		code      int16
	}{
		{"unknown session", id ^ 0x2a5a5a, 1, 70},
		{"epoch ahead", id, 5, 71},
		{"the right epoch still", id, 1, 0},
		{"the same epoch again", id, 1, 71},
	} {
		response := ask[*kmsg.FetchResponse](connection, sessionRequest(topic, one.id, one.epoch, nil))
		equal(t, one.code, response.ErrorCode, "%s", one.what)
		if one.code != 0 {
			equal(t, 0, len(response.Topics), "topics with %s", one.what)
			equal(t, 0, response.SessionID, "session id with %s", one.what)
		}
	}
	// The session was made with names, and version 13 has ids.
	newer := sessionRequest(topic, id, 2, nil)
	newer.Version = 13
	equal(t, 106, ask[*kmsg.FetchResponse](connection, newer).ErrorCode, "names, then ids")
}

func testRawFetchEpochs(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	connection.produce(topic, newBatch(5))
	for _, one := range []struct {
		what             string
		current, fetched int32
		offset           int64
		code             int16
	}{
		{"no epochs", -1, -1, 0, 0},
		{"the right epoch", 0, -1, 0, 0},
		{"an epoch to come", 1, -1, 0, 75},
		{"last fetched epoch", -1, 0, 2, 0},
		{"last fetched epoch to come", -1, 3, 2, 1},
	} {
		request := fetchRequest(topic, map[int32]int64{0: one.offset})
		request.Topics[0].Partitions[0].CurrentLeaderEpoch = one.current
		request.Topics[0].Partitions[0].LastFetchedEpoch = one.fetched
		answer := ask[*kmsg.FetchResponse](connection, request).Topics[0].Partitions[0]
		equal(t, one.code, answer.ErrorCode, "error with %s", one.what)
	}
}

func testRawFetchByID(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	connection.produce(topic, newBatch(5))
	id := metadataOf(connection, 12, topic).TopicID
	for version := int16(13); version <= 18; version++ {
		request := fetchRequest(topic, map[int32]int64{0: 0})
		request.Version, request.Topics[0].TopicID = version, id
		response := ask[*kmsg.FetchResponse](connection, request)
		equal(t, id, response.Topics[0].TopicID, "id at v%d", version)
		equal(t, 0, response.Topics[0].Partitions[0].ErrorCode, "error at v%d", version)
		equal(t, 5, response.Topics[0].Partitions[0].HighWatermark, "high watermark at v%d", version)
		request.Topics[0].TopicID = [16]byte{7}
		response = ask[*kmsg.FetchResponse](connection, request)
		equal(t, 100, response.Topics[0].Partitions[0].ErrorCode, "unknown id at v%d", version)
		if version >= 13 {
			produced := produceRequest(13, -1, "", map[int32][]byte{0: newBatch(1).encode(t)})
			produced.Topics[0].TopicID = [16]byte{7}
			equal(t, 100, ask[*kmsg.ProduceResponse](connection, produced).Topics[0].Partitions[0].ErrorCode, "Produce to an unknown id")
		}
	}
	produced := produceRequest(13, -1, "", map[int32][]byte{0: newBatch(1).encode(t)})
	produced.Topics[0].TopicID = id
	equal(t, 5, ask[*kmsg.ProduceResponse](connection, produced).Topics[0].Partitions[0].BaseOffset, "Produce by id")
}

func testRawFetchDeletedTopic(t *T) {
	for _, version := range []int16{12, 13, 17} {
		topic := newTopic(t, 1)
		connection := dial(t)
		request := fetchRequest(topic, map[int32]int64{0: 0})
		request.Version, request.MaxWaitMillis, request.MinBytes = version, 10_000, 1
		request.Topics[0].TopicID = metadataOf(connection, 12, topic).TopicID
		connection.send(request)
		connection.silent(300*time.Millisecond, "idle fetch")
		_, err := admin(t).DeleteTopic(limited(t), topic)
		t.ok(err, "delete")
		start := time.Now()
		code := answer[*kmsg.FetchResponse](connection, request).Topics[0].Partitions[0].ErrorCode
		t.between(0, slack, time.Since(start), "time from deletion to the answer")
		equal(t, 3, code, "error at v%d", version)
	}
}

// While a fetch waits, later requests of its connection wait too, and their answers come in order.
func testRawFetchKeepsOrder(t *T) {
	topic := newTopic(t, 1)
	connection := dial(t)
	request := fetchRequest(topic, map[int32]int64{0: 0})
	request.MaxWaitMillis, request.MinBytes = 700, 1
	start := time.Now()
	connection.send(request)
	connection.send(metadataRequest(9, topic))
	connection.correlation--
	answer[*kmsg.FetchResponse](connection, request)
	t.between(maxWait-early, maxWait+slack, time.Since(start), "fetch")
	connection.correlation++
	answer[*kmsg.MetadataResponse](connection, metadataRequest(9, topic))
}

// A client that goes away while its fetch waits is no trouble for those that stay.
func testRawFetchClientGone(t *T) {
	topic := newTopic(t, 1)
	for range 20 {
		connection := dial(t)
		request := fetchRequest(topic, map[int32]int64{0: 0})
		request.MaxWaitMillis, request.MinBytes = 1<<31-1, 1
		connection.send(request)
		_ = connection.conn.Close()
	}
	connection := dial(t)
	equal(t, 0, connection.produce(topic, newBatch(1)).ErrorCode, "produce")
	equal(t, 1, connection.fetch(topic, 0).HighWatermark, "high watermark")
}
