package main

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var rawVersionTests = []test{
	{"raw_api_versions", testRawAPIVersions},
	{"raw_api_versions_newer", testRawAPIVersionsNewer},
	{"raw_api_versions_bad_software_name", testRawAPIVersionsBadName},
	{"raw_every_version", testRawEveryVersion},
	{"raw_unknown_requests", testRawUnknownRequests},
}

type versions struct{ low, high int16 }

// What Apache Kafka 4.1.0 serves of the APIs that these tests use. Produce 0 to 2
// are advertised only: librdkafka would drop compression otherwise.
var served = map[kmsg.Key]versions{
	kmsg.Produce: {0, 13}, kmsg.Fetch: {4, 18}, kmsg.ListOffsets: {1, 10}, kmsg.Metadata: {0, 13},
	kmsg.ApiVersions: {0, 4}, kmsg.CreateTopics: {2, 7}, kmsg.DeleteTopics: {1, 6}, kmsg.DeleteRecords: {0, 2},
	kmsg.InitProducerID: {0, 5}, kmsg.OffsetForLeaderEpoch: {2, 4}, kmsg.CreatePartitions: {0, 3},
	kmsg.DescribeCluster: {0, 2}, kmsg.DescribeTopicPartitions: {0, 0},
}

func apiVersions(version int16) *kmsg.ApiVersionsRequest {
	request := kmsg.NewPtrApiVersionsRequest()
	request.Version, request.ClientSoftwareName, request.ClientSoftwareVersion = version, "huld-integration", "1.0"
	return request
}

func testRawAPIVersions(t *T) {
	connection := dial(t)
	for version := range int16(5) {
		response := ask[*kmsg.ApiVersionsResponse](connection, apiVersions(version))
		equal(t, 0, response.ErrorCode, "error at v%d", version)
		advertised := map[kmsg.Key]versions{}
		for _, api := range response.ApiKeys {
			advertised[kmsg.Key(api.ApiKey)] = versions{api.MinVersion, api.MaxVersion}
		}
		equal(t, len(response.ApiKeys), len(advertised), "number of different APIs")
		for key, expected := range served {
			equal(t, expected, advertised[key], "%s advertised at v%d", key.Name(), version)
		}
	}
}

// A version that the broker doesn't know is answered in the format of version 0,
// with the range of ApiVersions alone, so that the client can ask again.
func testRawAPIVersionsNewer(t *T) {
	connection := dial(t)
	connection.send(apiVersions(5))
	frame, err := connection.receive()
	t.ok(err, "answer")
	response := kmsg.NewPtrApiVersionsResponse()
	t.ok(response.ReadFrom(frame[4:]), "decode as v0")
	equal(t, 35, response.ErrorCode, "error")
	equal(t, 1, len(response.ApiKeys), "APIs")
	equal(t, kmsg.ApiVersionsResponseApiKey{ApiKey: 18, MinVersion: 0, MaxVersion: 4}.MaxVersion, response.ApiKeys[0].MaxVersion, "highest version")
	equal(t, 18, response.ApiKeys[0].ApiKey, "API")
	equal(t, 0, ask[*kmsg.ApiVersionsResponse](connection, apiVersions(4)).ErrorCode, "error of the next")
}

func testRawAPIVersionsBadName(t *T) {
	request := apiVersions(3)
	request.ClientSoftwareName = "a b"
	equal(t, 42, ask[*kmsg.ApiVersionsResponse](dial(t), request).ErrorCode, "error")
}

// Every version of every API above gives an answer that its schema can read.
func testRawEveryVersion(t *T) {
	topic := newTopic(t, 1)
	batch := newBatch(3).encode(t)
	for key, range_ := range served {
		for version := range_.low; version <= range_.high; version++ {
			if key == kmsg.Produce && version < 3 {
				continue
			}
			request := key.Request()
			fillIn(request, topic, version, batch)
			request.SetVersion(version)
			connection := dial(t)
			connection.send(request)
			response := answer[kmsg.Response](connection, request)
			if code := firstError(response); code != 0 && code != 3 && code != 100 {
				t.fatalf("%s v%d: error %d", key.Name(), version, code)
			}
		}
	}
}

// fillIn makes a small request that names the topic where the version has names;
// where it has ids, it carries the zero id, which nothing has.
func fillIn(request kmsg.Request, topic string, version int16, batch []byte) {
	switch request := request.(type) {
	case *kmsg.ProduceRequest:
		*request = *produceRequest(version, -1, topic, map[int32][]byte{0: batch})
	case *kmsg.FetchRequest:
		*request = *fetchRequest(topic, map[int32]int64{0: 0})
	case *kmsg.ListOffsetsRequest:
		request.ReplicaID = -1
		entry := kmsg.NewListOffsetsRequestTopic()
		entry.Topic = topic
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Timestamp, one.CurrentLeaderEpoch = -1, -1
		entry.Partitions = append(entry.Partitions, one)
		request.Topics = append(request.Topics, entry)
	case *kmsg.MetadataRequest:
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = &topic
		request.Topics = append(request.Topics, one)
	case *kmsg.ApiVersionsRequest:
		*request = *apiVersions(version)
	case *kmsg.CreateTopicsRequest:
		request.TimeoutMillis = 5000
		one := kmsg.NewCreateTopicsRequestTopic()
		one.Topic, one.NumPartitions, one.ReplicationFactor = topicName(), 1, 1
		request.Topics = append(request.Topics, one)
	case *kmsg.DeleteTopicsRequest:
		request.TimeoutMillis = 5000
		name := topicName()
		one := kmsg.NewDeleteTopicsRequestTopic()
		one.Topic = &name
		request.TopicNames, request.Topics = []string{name}, append(request.Topics, one)
	case *kmsg.DeleteRecordsRequest:
		request.TimeoutMillis = 5000
		entry := kmsg.NewDeleteRecordsRequestTopic()
		entry.Topic = topic
		entry.Partitions = append(entry.Partitions, kmsg.NewDeleteRecordsRequestTopicPartition())
		request.Topics = append(request.Topics, entry)
	case *kmsg.OffsetForLeaderEpochRequest:
		request.ReplicaID = -1
		entry := kmsg.NewOffsetForLeaderEpochRequestTopic()
		entry.Topic = topic
		one := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		one.CurrentLeaderEpoch = -1
		entry.Partitions = append(entry.Partitions, one)
		request.Topics = append(request.Topics, entry)
	case *kmsg.CreatePartitionsRequest:
		request.TimeoutMillis = 5000
		one := kmsg.NewCreatePartitionsRequestTopic()
		one.Topic, one.Count = topicName(), 2
		request.Topics = append(request.Topics, one)
	case *kmsg.DescribeTopicPartitionsRequest:
		one := kmsg.NewDescribeTopicPartitionsRequestTopic()
		one.Topic = topic
		request.Topics = append(request.Topics, one)
		request.ResponsePartitionLimit = 10
	}
}

// firstError is the code of the first entry of an answer that has one.
func firstError(response kmsg.Response) int16 {
	switch response := response.(type) {
	case *kmsg.ProduceResponse:
		return response.Topics[0].Partitions[0].ErrorCode
	case *kmsg.FetchResponse:
		return response.Topics[0].Partitions[0].ErrorCode
	case *kmsg.ListOffsetsResponse:
		return response.Topics[0].Partitions[0].ErrorCode
	case *kmsg.MetadataResponse:
		return response.Topics[0].ErrorCode
	case *kmsg.ApiVersionsResponse:
		return response.ErrorCode
	case *kmsg.CreateTopicsResponse:
		return response.Topics[0].ErrorCode
	case *kmsg.DeleteTopicsResponse:
		return response.Topics[0].ErrorCode
	case *kmsg.DeleteRecordsResponse:
		return response.Topics[0].Partitions[0].ErrorCode
	case *kmsg.InitProducerIDResponse:
		return response.ErrorCode
	case *kmsg.OffsetForLeaderEpochResponse:
		return response.Topics[0].Partitions[0].ErrorCode
	case *kmsg.CreatePartitionsResponse:
		return response.Topics[0].ErrorCode
	case *kmsg.DescribeClusterResponse:
		return response.ErrorCode
	case *kmsg.DescribeTopicPartitionsResponse:
		return response.Topics[0].ErrorCode
	}
	return -1
}

// What the broker can't know ends that connection, and that one only.
func testRawUnknownRequests(t *T) {
	healthy := dial(t)
	ask[*kmsg.ApiVersionsResponse](healthy, apiVersions(4))
	header := func(key, version int16) []byte {
		frame := binary.BigEndian.AppendUint32(nil, 10)
		frame = binary.BigEndian.AppendUint16(frame, uint16(key))
		frame = binary.BigEndian.AppendUint16(frame, uint16(version))
		frame = binary.BigEndian.AppendUint32(frame, 1)
		return binary.BigEndian.AppendUint16(frame, 0)
	}
	for _, bad := range []struct {
		what  string
		bytes []byte
	}{
		{"an unknown API", header(999, 0)},
		{"a negative API", header(-1, 0)},
		{"Metadata v99", header(3, 99)},
		{"Produce v2", header(0, 2)},
		{"Fetch v3", header(1, 3)},
		{"LeaderAndIsr", header(4, 0)},
		{"a negative length", []byte{0xff, 0xff, 0xff, 0xff}},
		{"a length of 2^31-1", []byte{0x7f, 0xff, 0xff, 0xff, 0, 3}},
		{"a length of 0", []byte{0, 0, 0, 0}},
		{"an HTTP request", []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")},
		{"a TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}},
	} {
		connection := dial(t)
		connection.write(bad.bytes)
		connection.closed("%s", bad.what)
	}
	ask[*kmsg.ApiVersionsResponse](healthy, apiVersions(4))
}
