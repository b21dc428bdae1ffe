// @platformatic/kafka.

import { tracingChannel } from "node:diagnostics_channel";
import { BOOTSTRAP, CODECS, MAX_MESSAGE_BYTES, START_MS, Watched, check, checkLongPoll, equal, fails, range, require, settled,
  test as declare, topicName } from "./tap.mjs";

const { Admin, ConfigResourceTypes, Consumer, IncrementalAlterConfigOperationTypes, Producer } =
  require("@platformatic/kafka");

const base = { clientId: "platformatic", bootstrapBrokers: [BOOTSTRAP], retries: 3, strict: true };
const test = (name, run) => declare(`platformatic_${name}`, run);
const utf8 = value => (value === undefined || value === null ? value : String(value));

function closing(cleanup, client) {
  cleanup.add(() => (client instanceof Admin ? client.close() : client.close(true)));
  return client;
}

const administrator = cleanup => closing(cleanup, new Admin(base));
const producer = (cleanup, settings) => closing(cleanup, new Producer({ ...base, ...settings }));
const bare = (cleanup, settings) => closing(cleanup, new Consumer({ ...base, groupId: topicName(), ...settings }));
const hasError = apiId => error => error.errors?.some(each => each.apiId === apiId || hasError(apiId)(each)) ?? false;

async function created(cleanup, partitions = 1) {
  const topic = topicName();
  await administrator(cleanup).createTopics({ topics: [topic], partitions, replicas: 1 });
  return topic;
}

const second = (topic, number, partition = 0) => ({
  topic, partition, value: Buffer.from(String(number)), timestamp: BigInt(START_MS + 1000 * number),
});

async function filled(cleanup, count, partitions = 1, settings = {}) {
  const topic = await created(cleanup, partitions);
  const sender = producer(cleanup, settings);
  for (const partition of range(0, partitions)) {
    const { offsets } = await sender.send({ messages: range(0, count).map(number => second(topic, number, partition)) });
    equal(offsets.map(each => [each.partition, each.offset]), [[partition, 0n]], "offsets");
  }
  return topic;
}

// A consumer that collects from its stream.
class Member extends Watched {
  messages = [];

  static async join(cleanup, topic, { mode = "earliest", offsets, groupId = topicName(), ...settings } = {}) {
    const member = new Member();
    member.topic = topic;
    member.consumer = new Consumer({
      ...base, groupId, heartbeatInterval: 100, sessionTimeout: 10_000, maxWaitTime: 200, autocommit: false, ...settings,
    });
    cleanup.add(() => member.leave());
    member.consumer.on("consumer:group:join", () => member.changed());
    const stream = await member.consumer.consume({ topics: [topic], mode, offsets });
    stream.on("error", error => {
      member.error = error;
      member.changed();
    });
    stream.on("autocommit", (_, offsets) => {
      member.committed = offsets?.at(-1)?.offset ?? member.committed;
      member.changed();
    });
    stream.on("data", message => {
      member.messages.push(message);
      member.changed();
    });
    return member;
  }

  get assigned() {
    return this.consumer.assignments?.find(each => each.topic === this.topic)?.partitions ?? [];
  }

  async take(count) {
    await this.until(`${count} messages`, () => this.error || this.messages.length >= count);
    if (this.error) throw this.error;
    equal(this.messages.length, count, "messages");
    return this.messages;
  }

  leave() {
    this.left ??= this.consumer.close(true);
    return this.left;
  }
}

const read = async (cleanup, topic, count, settings) => (await Member.join(cleanup, topic, settings)).take(count);

test("create_topic", async cleanup => {
  const topic = await created(cleanup, 3);
  const admin = administrator(cleanup);
  check((await admin.listTopics()).includes(topic), "the topic is not listed");
  const partitions = async () => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitions;
  const found = await partitions();
  equal(found.length, 3, "partitions");
  check(found.every(each => each.leader >= 0), "a partition has no leader");
  await fails(() => admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }), hasError("TOPIC_ALREADY_EXISTS"),
    "second creation");
});

test("create_partitions", async cleanup => {
  const topic = await created(cleanup);
  const admin = administrator(cleanup);
  const partitions = async () => (await admin.metadata({ topics: [topic], forceUpdate: true })).topics.get(topic).partitions;
  const [{ leader }] = await partitions();
  const assignments = range(1, 4).map(() => ({ brokerIds: [leader] }));
  await admin.createPartitions({ topics: [{ name: topic, count: 4, assignments }] });
  await settled(async () => (await partitions()).length, 4, "partitions");
  const { offsets } = await producer(cleanup).send({ messages: [second(topic, 0, 3)] });
  equal(offsets.map(each => [each.partition, each.offset]), [[3, 0n]], "offsets");
  equal((await read(cleanup, topic, 1))[0].partition, 3, "partition of the record");
});

test("usable_after_creation", async cleanup => {
  for (const _ of range(0, 5)) {
    const topic = await created(cleanup, 3);
    const { offsets } = await producer(cleanup).send({ messages: [second(topic, 0, 2)] });
    equal(offsets.map(each => [each.partition, each.offset]), [[2, 0n]], "offsets");
    equal(String((await read(cleanup, topic, 1))[0].value), "0");
  }
});

test("delete_topic", async cleanup => {
  const topic = await created(cleanup);
  const admin = administrator(cleanup);
  await admin.deleteTopics({ topics: [topic] });
  check(!(await admin.listTopics()).includes(topic), "the topic is still listed");
  await fails(() => admin.deleteTopics({ topics: [topic] }), hasError("UNKNOWN_TOPIC_OR_PARTITION"), "second deletion");
});

test("configs", async cleanup => {
  const topic = await created(cleanup);
  const admin = administrator(cleanup);
  const of = { resourceType: ConfigResourceTypes.TOPIC, resourceName: topic };
  const described = async () => {
    const configurationKeys = ["cleanup.policy", "retention.ms"];
    const [{ configs }] = await admin.describeConfigs({ resources: [{ ...of, configurationKeys }] });
    return Object.fromEntries(configs.map(each => [each.name, each.value]));
  };
  const alter = (name, configOperation, value) =>
    admin.incrementalAlterConfigs({ resources: [{ ...of, configs: [{ name, configOperation, ...value }] }] });
  const { SET, APPEND, DELETE } = IncrementalAlterConfigOperationTypes;
  await alter("retention.ms", SET, { value: "200000" });
  await alter("cleanup.policy", APPEND, { value: "compact" });
  await settled(described, { "cleanup.policy": "delete,compact", "retention.ms": "200000" }, "altered configs");
  await alter("cleanup.policy", DELETE);
  await alter("retention.ms", DELETE);
  await settled(described, { "cleanup.policy": "delete", "retention.ms": "604800000" }, "configs in the end");
  await fails(() => alter("retention.ms", SET, { value: "soon" }), hasError("INVALID_CONFIG"), "a bad value");
});

test("auto_creation", async cleanup => {
  const topic = topicName();
  const sender = producer(cleanup, { autocreateTopics: true });
  await sender.send({ messages: [{ topic, value: Buffer.from("value") }] });
  equal(String((await read(cleanup, topic, 1))[0].value), "value");
});

for (const codec of CODECS) {
  test(`round_trip_${codec}`, async cleanup => {
    const topic = await created(cleanup);
    const bytes = text => (text === null ? null : Buffer.from(text));
    const sent = [
      { key: "key", value: "value", headers: { h: "1", e: "" } },
      { key: null, value: "no key", headers: {} },
      { key: "", value: "", headers: {} },
      { key: "no value", value: null, headers: { h: "x".repeat(200) } },
      { key: "snö", value: "long ".repeat(20_000), headers: { "unicode ✓": "✓" } },
      ...range(0, 300).map(n => ({ key: `k${n}`, value: `value ${n} `.repeat(10), headers: { n: String(n) } })),
    ];
    const messages = sent.map(({ key, value, headers }, number) => ({
      topic, partition: 0, key: bytes(key), value: bytes(value), timestamp: BigInt(START_MS + number * 7),
      headers: new Map(Object.entries(headers).map(each => each.map(bytes))),
    }));
    const { offsets } = await producer(cleanup, { compression: codec }).send({ messages });
    equal(offsets, [{ topic, partition: 0, offset: 0n }], "offsets");
    for (const [number, got] of (await read(cleanup, topic, sent.length)).entries()) {
      const { key, value, headers } = sent[number];
      equal([got.offset, got.timestamp], [BigInt(number), BigInt(START_MS + number * 7)], `offset and timestamp ${number}`);
      equal([utf8(got.key) ?? null, utf8(got.value) ?? null], [key, value], `key and value ${number}`);
      equal(got.headerEntries.map(each => each.map(utf8)), Object.entries(headers), `headers ${number}`);
    }
    const client = bare(cleanup);
    const { id } = (await client.metadata({ topics: [topic] })).topics.get(topic);
    client.topics.track(topic);
    const partition = { partition: 0, currentLeaderEpoch: -1, fetchOffset: 0n, lastFetchedEpoch: -1, partitionMaxBytes: 1_000_000 };
    const [{ leader }] = (await client.metadata({ topics: [topic] })).topics.get(topic).partitions;
    const answer = await client.fetch({ node: leader, topics: [{ topicId: id, partitions: [partition] }] });
    const stored = new Set(answer.responses[0].partitions[0].records.map(batch => batch.attributes & 7));
    equal([...stored], [CODECS.indexOf(codec)], "codecs stored");
  });
}

for (const [name, acks] of [["0", 0], ["1", 1], ["all", -1]]) {
  test(`acks_${name}`, async cleanup => {
    const topic = await created(cleanup);
    const sender = producer(cleanup, { acks });
    for (const number of range(0, 20)) await sender.send({ messages: [second(topic, number)] });
    equal((await read(cleanup, topic, 20)).map(each => Number(each.value)), range(0, 20));
  });
}

test("idempotence", async cleanup => {
  const topic = await created(cleanup, 2);
  const sender = producer(cleanup, { idempotent: true });
  for (const start of range(0, 20)) {
    await sender.send({ messages: range(start * 10, start * 10 + 10).map(number => second(topic, number, number % 2)) });
  }
  const got = await read(cleanup, topic, 200);
  for (const partition of [0, 1]) {
    const values = got.filter(each => each.partition === partition).map(each => Number(each.value));
    equal(values, range(0, 100).map(number => number * 2 + partition), `partition ${partition}`);
  }
});

test("offsets_for_times", async cleanup => {
  const topic = await filled(cleanup, 10, 1, { compression: "zstd" });
  const client = bare(cleanup);
  for (const [after, offset] of [[-1000, 0n], [0, 0n], [1, 1n], [4_999, 5n], [9_000, 9n], [9_001, -1n]]) {
    const found = await client.listOffsets({ topics: [topic], timestamp: BigInt(START_MS + after) });
    equal(found.get(topic), [offset], `${after} ms after the start`);
  }
  equal((await client.listOffsets({ topics: [topic], timestamp: -1n })).get(topic), [10n], "end");
  equal((await client.listOffsets({ topics: [topic], timestamp: -2n })).get(topic), [0n], "beginning");
});

test("seek", async cleanup => {
  const topic = await filled(cleanup, 100);
  for (const offset of [50, 3, 99]) {
    const offsets = [{ topic, partition: 0, offset: BigInt(offset) }];
    const got = await read(cleanup, topic, 100 - offset, { mode: "manual", offsets });
    equal(got.map(each => Number(each.value)), range(offset, 100), `from ${offset}`);
  }
  const latest = await Member.join(cleanup, topic, { mode: "latest" });
  await producer(cleanup).send({ messages: [second(topic, 100)] });
  equal((await latest.take(1))[0].offset, 100n, "at the end");
});

test("delete_records", async cleanup => {
  const topic = await filled(cleanup, 100);
  const answer = await administrator(cleanup)
    .deleteRecords({ topics: [{ name: topic, partitions: [{ partition: 0, offset: 50n }] }] });
  equal(answer, [{ name: topic, partitions: [{ partition: 0, lowWatermark: 50n }] }], "answer");
  equal((await read(cleanup, topic, 50))[0].offset, 50n, "first offset");
});

// How long the client's fetches take.
function fetchTimes(cleanup, member) {
  const channel = tracingChannel("plt:kafka:consumer:fetches");
  const began = new WeakMap();
  const times = [];
  const subscriber = {
    start: context => context.client === member.consumer && began.set(context, performance.now()),
    asyncStart: context => {
      if (began.has(context)) times.push(performance.now() - began.get(context));
      member.changed();
    },
  };
  channel.subscribe(subscriber);
  cleanup.add(() => channel.unsubscribe(subscriber));
  return times;
}

test("long_poll_idle", async cleanup => {
  const topic = await created(cleanup);
  const member = await Member.join(cleanup, topic, { minBytes: 100_000, maxWaitTime: 700 });
  const times = fetchTimes(cleanup, member);
  await member.until("three fetches", () => times.length >= 3);
  times.forEach(each => checkLongPoll(Math.round(each), 700));
});

test("long_poll_wakes", async cleanup => {
  const topic = await created(cleanup);
  const sender = producer(cleanup);
  const member = await Member.join(cleanup, topic, { minBytes: 100_000, maxWaitTime: 8_000 });
  const began = performance.now();
  for (const _ of [1, 2]) await sender.send({ messages: [{ topic, value: Buffer.alloc(60_000) }] });
  await member.take(2);
  check(performance.now() - began < 3_000, `woke after ${performance.now() - began} ms`);
});

test("large_message", async cleanup => {
  const topic = await created(cleanup);
  const value = Buffer.alloc(MAX_MESSAGE_BYTES - 100);
  await producer(cleanup).send({ messages: [{ topic, value }] });
  equal((await read(cleanup, topic, 1))[0].value.length, value.length, "bytes");
});

test("message_too_large", async cleanup => {
  const topic = await created(cleanup);
  const sender = producer(cleanup);
  const send = value => sender.send({ messages: [{ topic, value }] });
  await fails(() => send(Buffer.alloc(MAX_MESSAGE_BYTES + 1)), hasError("MESSAGE_TOO_LARGE"), "sending it");
  equal((await send(Buffer.from("next"))).offsets[0].offset, 0n, "offset of the next record");
});

async function rebalances(cleanup, settings = {}) {
  const topic = await filled(cleanup, 5, 4);
  const shared = { groupId: topicName(), ...settings };
  const first = await Member.join(cleanup, topic, shared);
  await first.until("alone", it => it.assigned.length === 4 && it.messages.length === 20);
  const other = await Member.join(cleanup, topic, shared);
  await other.until("second", it => it.assigned.length === 2);
  await first.until("first", it => it.assigned.length === 2);
  equal([...first.assigned, ...other.assigned].sort(), [0, 1, 2, 3], "assigned to both");
  await other.leave();
  await first.until("alone again", it => it.assigned.length === 4);
}

test("group_eager", cleanup => rebalances(cleanup));

test("group_cooperative", cleanup =>
  rebalances(cleanup, { protocols: [{ name: "cooperative-sticky", version: 1 }] }));

test("group_manual_commit", async cleanup => {
  const topic = await filled(cleanup, 10);
  const groupId = topicName();
  const first = await Member.join(cleanup, topic, { groupId });
  await first.take(10);
  await first.consumer.commit({ offsets: [{ topic, partition: 0, offset: 4n, leaderEpoch: 0 }] });
  await first.leave();
  const other = await Member.join(cleanup, topic, { groupId, mode: "committed" });
  equal((await other.take(6)).map(each => Number(each.offset)), range(4, 10), "resumed");
  await other.messages[5].commit();
  const [{ topics }] = await administrator(cleanup).listConsumerGroupOffsets({ groups: [groupId] });
  equal(topics.map(each => [each.name, each.partitions[0].committedOffset]), [[topic, 10n]], "committed");
});

test("group_automatic_commit", async cleanup => {
  const topic = await filled(cleanup, 10);
  const groupId = topicName();
  const first = await Member.join(cleanup, topic, { groupId, autocommit: 100 });
  await first.until("commit", it => it.committed === 10n);
  await first.leave();
  await producer(cleanup).send({ messages: [second(topic, 10)] });
  equal((await read(cleanup, topic, 1, { groupId, mode: "committed" }))[0].offset, 10n, "resumed");
});

test("group_static_member", async cleanup => {
  const topic = await filled(cleanup, 1, 2);
  const groupId = topicName();
  const first = await Member.join(cleanup, topic, { groupId, groupInstanceId: "one" });
  await first.until("assignment", it => it.assigned.length === 2);
  const { members } = (await administrator(cleanup).describeGroups({ groups: [groupId] })).get(groupId);
  equal([...members.values()].map(each => each.groupInstanceId), ["one"], "instances");
});

test("group_admin", async cleanup => {
  const topic = await filled(cleanup, 1);
  const groupId = topicName();
  const member = await Member.join(cleanup, topic, { groupId, clientId: "described" });
  await member.take(1);
  const admin = administrator(cleanup);
  const described = async () => (await admin.describeGroups({ groups: [groupId] })).get(groupId);
  const { state, protocolType, members } = await described();
  equal([state, protocolType], ["Stable", "consumer"], "description");
  equal([...members.values()].map(each => each.clientId), ["described"], "members");
  equal((await admin.listGroups({ states: ["STABLE"] })).get(groupId)?.groupType, "classic", "listed");
  check(!(await admin.listGroups({ states: ["EMPTY"] })).has(groupId), "the filter lets it through");
  await member.leave();
  equal((await described()).state, "Empty", "state without members");
  await admin.deleteGroups({ groups: [groupId] });
  check(!(await admin.listGroups()).has(groupId), "the deleted group is listed");
});
