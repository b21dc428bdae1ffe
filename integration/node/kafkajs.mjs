// kafkajs.

import zlib from "node:zlib";
import { BOOTSTRAP, CODECS, MAX_MESSAGE_BYTES, START_MS, Watched, check, checkLongPoll, equal, fails, range, require, settled,
  test as declare, topicName } from "./tap.mjs";

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel, PartitionAssigners } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const { lz4Compress, lz4Decompress } = require("@platformatic/wasm-utils");

// kafkajs brings gzip alone; the others are plugged in, as its documentation says.
CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => lz4Compress(encoder.buffer),
  decompress: async buffer => Buffer.from(lz4Decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer),
});

// What was read is uncompressed by the codec that it is stored with.
const uncompressed = new Map();
for (const [type, make] of Object.entries(CompressionCodecs)) {
  const codec = make();
  const decompress = async buffer => {
    uncompressed.set(Number(type), (uncompressed.get(Number(type)) ?? 0) + 1);
    return codec.decompress(buffer);
  };
  CompressionCodecs[type] = () => ({ compress: codec.compress, decompress });
}

const kafka = new Kafka({ brokers: [BOOTSTRAP], logLevel: logLevel.NOTHING, retry: { retries: 3 } });
const test = (name, run) => declare(`kafkajs_${name}`, run);

async function connected(cleanup, client) {
  await client.connect();
  cleanup.add(() => client.disconnect());
  return client;
}

const administrator = cleanup => connected(cleanup, kafka.admin());
const producer = (cleanup, settings) => connected(cleanup, kafka.producer(settings));

async function created(cleanup, numPartitions = 1) {
  const topic = topicName();
  const admin = await administrator(cleanup);
  equal(await admin.createTopics({ topics: [{ topic, numPartitions }], waitForLeaders: true }), true, "created");
  return topic;
}

const second = number => ({ value: String(number), timestamp: String(START_MS + 1000 * number) });

async function filled(cleanup, count, partitions = 1) {
  const topic = await created(cleanup, partitions);
  const sender = await producer(cleanup);
  for (const partition of range(0, partitions)) {
    const messages = range(0, count).map(number => ({ ...second(number), partition }));
    const [report] = await sender.send({ topic, messages });
    equal([report.partition, report.errorCode, report.baseOffset], [partition, 0, "0"], "report");
  }
  return topic;
}

// A consumer that collects; kafkajs has none without a group.
class Member extends Watched {
  messages = [];
  assigned = [];

  static async join(cleanup, topic, { groupId = topicName(), autoCommit = false, ...settings } = {}) {
    const member = new Member();
    member.consumer = kafka.consumer({
      groupId, heartbeatInterval: 100, maxWaitTimeInMs: 200, sessionTimeout: 10_000, ...settings,
    });
    member.consumer.on(member.consumer.events.GROUP_JOIN, ({ payload }) => {
      member.assigned = payload.memberAssignment[topic] ?? [];
      member.changed();
    });
    await member.consumer.connect();
    cleanup.add(() => member.leave());
    await member.consumer.subscribe({ topic, fromBeginning: true });
    await member.consumer.run({
      autoCommit,
      eachMessage: async ({ partition, message }) => {
        member.messages.push({ ...message, partition });
        member.changed();
      },
    });
    return member;
  }

  take(count) {
    return this.until(`${count} messages`, () => this.messages.length >= count);
  }

  leave() {
    this.left ??= this.consumer.disconnect();
    return this.left;
  }
}

async function read(cleanup, topic, count) {
  const member = await Member.join(cleanup, topic);
  await member.take(count);
  equal(member.messages.length, count, "messages");
  return member.messages;
}

test("create_topic", async cleanup => {
  const topic = await created(cleanup, 3);
  const admin = await administrator(cleanup);
  check((await admin.listTopics()).includes(topic), "the topic is not listed");
  const [{ partitions }] = (await admin.fetchTopicMetadata({ topics: [topic] })).topics;
  equal(partitions.map(each => each.partitionId).sort(), [0, 1, 2], "partitions");
  check(partitions.every(each => each.leader >= 0), "a partition has no leader");
  equal(await admin.createTopics({ topics: [{ topic }] }), false, "second creation");
});

test("create_partitions", async cleanup => {
  const topic = await created(cleanup);
  const admin = await administrator(cleanup);
  await admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] });
  const count = async () => (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length;
  await settled(count, 4, "partitions");
  const sender = await producer(cleanup);
  const [report] = await sender.send({ topic, messages: [{ ...second(0), partition: 3 }] });
  equal([report.partition, report.errorCode, report.baseOffset], [3, 0, "0"], "report");
  equal((await read(cleanup, topic, 1))[0].partition, 3, "partition of the record");
});

test("usable_after_creation", async cleanup => {
  for (const _ of range(0, 5)) {
    const topic = await created(cleanup, 3);
    const sender = await producer(cleanup);
    const [report] = await sender.send({ topic, messages: [{ ...second(0), partition: 2 }] });
    equal([report.errorCode, report.baseOffset], [0, "0"], "report");
    equal(String((await read(cleanup, topic, 1))[0].value), "0");
  }
});

test("delete_topic", async cleanup => {
  const topic = await created(cleanup);
  const admin = await administrator(cleanup);
  await admin.deleteTopics({ topics: [topic] });
  check(!(await admin.listTopics()).includes(topic), "the topic is still listed");
  await fails(() => admin.deleteTopics({ topics: [topic] }), each => each.cause?.type === "UNKNOWN_TOPIC_OR_PARTITION",
    "second deletion");
});

test("configs", async cleanup => {
  const topic = await created(cleanup);
  const admin = await administrator(cleanup);
  const of = { type: ConfigResourceTypes.TOPIC, name: topic };
  const names = ["cleanup.policy", "retention.ms"];
  const described = async () => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [{ ...of, configNames: names }] });
    return Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]));
  };
  const alter = value => admin.alterConfigs({
    validateOnly: false, resources: [{ ...of, configEntries: [{ name: "retention.ms", value }] }],
  });
  equal({ ...await described() }, { "cleanup.policy": "delete", "retention.ms": "604800000" }, "configs of the new topic");
  await alter("200000");
  await settled(described, { "cleanup.policy": "delete", "retention.ms": "200000" }, "altered configs");
  await fails(() => alter("soon"), each => each.type === "INVALID_CONFIG", "a bad value");
});

test("auto_creation", async cleanup => {
  const topic = topicName();
  const sender = await producer(cleanup);
  await sender.send({ topic, messages: [{ value: "value" }] });
  equal(String((await read(cleanup, topic, 1))[0].value), "value");
});

for (const [attribute, codec] of CODECS.entries()) {
  test(`round_trip_${codec}`, async cleanup => {
    const topic = await created(cleanup);
    const sent = [
      { key: "key", value: "value", headers: { h: ["1", "2"], e: "" } },
      { key: null, value: "no key", headers: {} },
      { key: "", value: "", headers: {} },
      { key: "no value", value: null, headers: { h: Buffer.from([0, 255]) } },
      { key: "snö", value: "long ".repeat(20_000), headers: { "unicode ✓": "✓" } },
      ...range(0, 300).map(n => ({ key: `k${n}`, value: `value ${n} `.repeat(10), headers: { n: String(n) } })),
    ].map((each, number) => ({ ...each, timestamp: String(START_MS + number * 7), partition: 0 }));
    const sender = await producer(cleanup);
    const [report] = await sender.send({ topic, messages: sent, compression: attribute });
    equal([report.errorCode, report.baseOffset], [0, "0"], "report");
    uncompressed.clear();
    const got = await read(cleanup, topic, sent.length);
    equal([...uncompressed.keys()], attribute === 0 ? [] : [attribute], "codecs stored");
    const bytes = value => (value === null ? null : Buffer.from(value));
    for (const [number, message] of got.entries()) {
      equal([message.offset, message.timestamp], [String(number), sent[number].timestamp], `offset and timestamp ${number}`);
      equal([message.key, message.value], [bytes(sent[number].key), bytes(sent[number].value)], `key and value ${number}`);
      const headers = Object.entries(sent[number].headers)
        .map(([name, value]) => [name, Array.isArray(value) ? value.map(bytes) : bytes(value)]);
      equal(Object.entries(message.headers), headers, `headers ${number}`);
    }
  });
}

for (const [name, acks] of [["0", 0], ["1", 1], ["all", -1]]) {
  test(`acks_${name}`, async cleanup => {
    const topic = await created(cleanup);
    const sender = await producer(cleanup);
    for (const number of range(0, 20)) await sender.send({ topic, acks, messages: [second(number)] });
    equal((await read(cleanup, topic, 20)).map(each => Number(each.value)), range(0, 20));
  });
}

test("idempotence", async cleanup => {
  const topic = await created(cleanup, 2);
  const sender = await producer(cleanup, { idempotent: true, maxInFlightRequests: 1 });
  for (const start of range(0, 20)) {
    const messages = range(start * 10, start * 10 + 10).map(number => ({ ...second(number), partition: number % 2 }));
    await sender.send({ topic, messages });
  }
  const got = await read(cleanup, topic, 200);
  for (const partition of [0, 1]) {
    const values = got.filter(each => each.partition === partition).map(each => Number(each.value));
    equal(values, range(0, 100).map(number => number * 2 + partition), `partition ${partition}`);
  }
});

test("offsets_for_times", async cleanup => {
  const topic = await filled(cleanup, 10);
  const admin = await administrator(cleanup);
  for (const [after, offset] of [[-1000, "0"], [0, "0"], [1, "1"], [4_999, "5"], [9_000, "9"], [9_001, "10"]]) {
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, START_MS + after);
    // Where no record is that late, the client asks for the end instead.
    equal(found, [{ partition: 0, offset }], `${after} ms after the start`);
  }
  equal(await admin.fetchTopicOffsets(topic), [{ partition: 0, offset: "10", high: "10", low: "0" }], "watermarks");
});

test("seek", async cleanup => {
  const topic = await filled(cleanup, 100);
  const member = await Member.join(cleanup, topic);
  await member.take(100);
  for (const offset of [50, 3, 99]) {
    member.consumer.pause([{ topic }]);
    member.messages = [];
    member.consumer.seek({ topic, partition: 0, offset: String(offset) });
    member.consumer.resume([{ topic }]);
    await member.until(`seek to ${offset}`, it => it.messages.some(each => Number(each.offset) === 99));
    equal(member.messages.map(each => Number(each.offset)), range(offset, 100), `after a seek to ${offset}`);
  }
});

test("delete_records", async cleanup => {
  const topic = await filled(cleanup, 100);
  const admin = await administrator(cleanup);
  // The client deletes only where it has seen the leader.
  await admin.fetchTopicOffsets(topic);
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "50" }] });
  equal(await admin.fetchTopicOffsets(topic), [{ partition: 0, offset: "100", high: "100", low: "50" }], "watermarks");
  equal((await read(cleanup, topic, 50))[0].offset, "50", "first offset");
});

test("long_poll_idle", async cleanup => {
  const topic = await created(cleanup);
  const member = await Member.join(cleanup, topic, { minBytes: 100_000, maxWaitTimeInMs: 700 });
  const fetches = [];
  member.consumer.on(member.consumer.events.REQUEST, ({ payload }) => {
    // The client's `duration` begins when the request is written already, which can be late on a busy machine.
    if (payload.apiName === "Fetch") fetches.push(payload.pendingDuration + payload.duration);
    member.changed();
  });
  await member.until("three fetches", () => fetches.length >= 3);
  fetches.forEach(each => checkLongPoll(each, 700));
});

test("long_poll_wakes", async cleanup => {
  const topic = await created(cleanup);
  const sender = await producer(cleanup);
  const reader = await Member.join(cleanup, topic, { minBytes: 100_000, maxWaitTimeInMs: 8_000 });
  await reader.until("assignment", it => it.assigned.length === 1);
  const began = performance.now();
  for (const _ of [1, 2]) await sender.send({ topic, messages: [{ value: "x".repeat(60_000) }] });
  await reader.take(2);
  check(performance.now() - began < 3_000, `woke after ${performance.now() - began} ms`);
});

test("large_message", async cleanup => {
  const topic = await created(cleanup);
  const sender = await producer(cleanup);
  const value = Buffer.alloc(MAX_MESSAGE_BYTES - 100);
  await sender.send({ topic, messages: [{ value }] });
  equal((await read(cleanup, topic, 1))[0].value.length, value.length, "bytes");
});

test("message_too_large", async cleanup => {
  const topic = await created(cleanup);
  const sender = await producer(cleanup);
  const tooLarge = { topic, messages: [{ value: Buffer.alloc(MAX_MESSAGE_BYTES + 1) }] };
  await fails(() => sender.send(tooLarge), each => each.type === "MESSAGE_TOO_LARGE", "sending it");
  equal((await sender.send({ topic, messages: [{ value: "next" }] }))[0].baseOffset, "0", "offset of the next record");
});

test("group_eager", async cleanup => {
  const topic = await filled(cleanup, 5, 4);
  const settings = { groupId: topicName(), partitionAssigners: [PartitionAssigners.roundRobin] };
  const first = await Member.join(cleanup, topic, settings);
  await first.until("alone", it => it.assigned.length === 4 && it.messages.length === 20);
  const other = await Member.join(cleanup, topic, settings);
  await other.until("second", it => it.assigned.length === 2);
  await first.until("first", it => it.assigned.length === 2);
  equal([...first.assigned, ...other.assigned].sort(), [0, 1, 2, 3], "assigned to both");
  await other.leave();
  await first.until("alone again", it => it.assigned.length === 4);
});

test("group_manual_commit", async cleanup => {
  const topic = await filled(cleanup, 10);
  const groupId = topicName();
  const first = await Member.join(cleanup, topic, { groupId });
  await first.take(10);
  await first.consumer.commitOffsets([{ topic, partition: 0, offset: "4", metadata: "note ✓" }]);
  await first.leave();
  const other = await Member.join(cleanup, topic, { groupId });
  await other.take(6);
  equal(other.messages.map(each => each.offset), ["4", "5", "6", "7", "8", "9"], "resumed");
  const admin = await administrator(cleanup);
  const [{ partitions }] = await admin.fetchOffsets({ groupId, topics: [topic] });
  equal(partitions, [{ partition: 0, offset: "4", metadata: "note ✓" }], "committed");
});

test("group_automatic_commit", async cleanup => {
  const topic = await filled(cleanup, 10);
  const groupId = topicName();
  const first = await Member.join(cleanup, topic, { groupId, autoCommit: true });
  await first.take(10);
  await first.leave();
  await (await producer(cleanup)).send({ topic, messages: [second(10)] });
  const other = await Member.join(cleanup, topic, { groupId });
  await other.take(1);
  equal(other.messages[0].offset, "10", "resumed");
});

test("group_admin", async cleanup => {
  const topic = await filled(cleanup, 1);
  const groupId = topicName();
  const member = await Member.join(cleanup, topic, { groupId });
  await member.take(1);
  const admin = await administrator(cleanup);
  const described = async () => (await admin.describeGroups([groupId])).groups[0];
  const { state, protocolType, protocol, members } = await described();
  equal([state, protocolType, protocol, members.length], ["Stable", "consumer", "RoundRobinAssigner", 1], "description");
  check((await admin.listGroups()).groups.some(each => each.groupId === groupId), "the group is not listed");
  await member.leave();
  equal((await described()).state, "Empty", "state without members");
  await admin.deleteGroups([groupId]);
  equal((await described()).state, "Dead", "state after deletion");
});
