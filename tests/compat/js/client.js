// kafkajs through everything that it can do with a broker; ends with an error at the first surprise.
//   node client.js BOOTSTRAP TOPIC_PREFIX
// With KAFKA_CA it connects by TLS. With KAFKA_USER and KAFKA_PASSWORD it logs in by SCRAM-SHA-512; with
// KAFKA_CERTIFICATE and KAFKA_KEY it shows a certificate. With --topics as the prefix it prints the
// names of the topics, and ends. What a user does while its rights or its session end:
//   node client.js BOOTSTRAP --read TOPIC
//   node client.js BOOTSTRAP --transaction TOPIC PAUSE_MS
// Leaves PREFIX-CODEC with the values 0..99 in it for each codec, for others to read.
const assert = require("node:assert");
const fs = require("node:fs");
const lz4 = require("lz4js");
const xxh32 = require("lz4js/xxh32.js");
const snappy = require("kafkajs-snappy");
const zstd = require("@bokuweb/zstd-wasm");
const { Kafka, CompressionTypes, CompressionCodecs, ConfigResourceTypes, logLevel } = require("kafkajs");

const RECORDS = 100;
const [bootstrap, prefix, ...more] = process.argv.slice(2);
const { KAFKA_CA, KAFKA_CERTIFICATE, KAFKA_KEY, KAFKA_USER, KAFKA_PASSWORD } = process.env;
const ca = KAFKA_CA && [fs.readFileSync(KAFKA_CA)];
// By default it authenticates again before each request in the last 10 s of a session. Of a shorter
// session that is at once, and a broker refuses it within a second of the last time.
const byPassword = KAFKA_USER && {
  reauthenticationThreshold: 1000,
  ...(ca && { ssl: { ca } }),
  sasl: { mechanism: "scram-sha-512", username: KAFKA_USER, password: KAFKA_PASSWORD },
};
const byCertificate = KAFKA_CERTIFICATE && {
  retry: { retries: 1 },
  ssl: { ca, cert: fs.readFileSync(KAFKA_CERTIFICATE), key: fs.readFileSync(KAFKA_KEY) },
};
const security = byCertificate || byPassword;
const kafka = new Kafka({ clientId: "kafkajs", brokers: [bootstrap], logLevel: logLevel.ERROR, ...security });
const numbers = Array.from({ length: RECORDS }, (_, index) => String(index));
const messages = (values) => values.map((value) => ({ key: `key-${value % 7}`, value, headers: { n: value } }));
const sorted = (values) => [...values].sort((a, b) => a - b);

CompressionCodecs[CompressionTypes.Snappy] = snappy;
// Kafka takes only frames that say that their blocks are independent; lz4js does not say it of the
// one block that it writes.
function independent(frame) {
  frame[4] |= 0x20;
  frame[6] = (xxh32.hash(0, frame, 4, 2) >> 8) & 0xff;
  return frame;
}

CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => independent(Buffer.from(lz4.compress(encoder.buffer))),
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

// Everything that a group reads until it has seen so many values.
async function consume(groupId, topic, count, visit = async () => {}) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 6000, heartbeatInterval: 500 });
  const seen = [];
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
    consumer.run({
      eachMessage: async (entry) => {
        assert.strictEqual(entry.message.headers.n.toString(), entry.message.value.toString());
        await visit(entry);
        seen.push(entry.message.value.toString());
        if (seen.length === count) resolve();
      },
    }).catch(reject);
  });
  await consumer.disconnect();
  return seen;
}

async function codecs(admin) {
  for (const [name, compression] of Object.entries(CompressionTypes)) {
    const topic = `${prefix}-${name.toLowerCase()}`;
    await admin.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }], waitForLeaders: true });
    const producer = kafka.producer({ idempotent: true });
    await producer.connect();
    for (let first = 0; first < RECORDS; first += 20)
      await producer.send({ topic, compression, messages: messages(numbers.slice(first, first + 20)) });
    await producer.disconnect();
    assert.deepStrictEqual(sorted(await consume(`${prefix}-readers`, topic, RECORDS)), numbers);
  }
}

async function transactions(admin) {
  const [input, output, groupId] = [`${prefix}-none`, `${prefix}-copied`, `${prefix}-copiers`];
  await admin.createTopics({ topics: [{ topic: output, numPartitions: 1, replicationFactor: 1 }], waitForLeaders: true });
  const producer = kafka.producer({ transactionalId: `${prefix}-copier`, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const aborted = await producer.transaction();
  await aborted.send({ topic: output, messages: messages(["999"]) });
  await aborted.abort();
  let transaction = await producer.transaction();
  let held = 0;
  await consume(groupId, input, RECORDS, async ({ topic, partition, message }) => {
    await transaction.send({ topic: output, messages: [message] });
    const next = String(BigInt(message.offset) + 1n);
    await transaction.sendOffsets({ consumerGroupId: groupId, topics: [{ topic, partitions: [{ partition, offset: next }] }] });
    if (++held % 25 === 0) {
      await transaction.commit();
      transaction = await producer.transaction();
    }
  });
  await transaction.abort();
  await producer.disconnect();
  assert.deepStrictEqual(sorted(await consume(`${prefix}-readers`, output, RECORDS)), numbers);
}

async function administration(admin) {
  const topic = `${prefix}-admin`;
  assert.strictEqual(await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1, configEntries: [{ name: "retention.ms", value: "77777" }] }], waitForLeaders: true }), true);
  assert.strictEqual(await admin.createTopics({ topics: [{ topic }] }), false);
  assert.ok((await admin.listTopics()).includes(topic));
  assert.strictEqual((await admin.describeCluster()).brokers.length, 1);
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const retention = async () => (await admin.describeConfigs({ resources: [{ ...resource, configNames: ["retention.ms"] }] })).resources[0].configEntries[0].configValue;
  assert.strictEqual(await retention(), "77777");
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "88888" }] }] });
  assert.strictEqual(await retention(), "88888");
  await admin.createPartitions({ topicPartitions: [{ topic, count: 2 }] });
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: numbers.map((value) => ({ value, partition: 0, timestamp: String(1700000000000 + Number(value)), headers: { n: value } })) });
  await producer.disconnect();
  const ends = async () => (await admin.fetchTopicOffsets(topic)).find((each) => each.partition === 0);
  assert.strictEqual((await ends()).high, String(RECORDS));
  assert.strictEqual((await admin.fetchTopicOffsetsByTimestamp(topic, 1700000000042)).find((each) => each.partition === 0).offset, "42");
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "10" }] });
  assert.strictEqual((await ends()).low, "10");
  const groupId = `${prefix}-group`;
  assert.strictEqual((await consume(groupId, topic, RECORDS - 10)).length, RECORDS - 10);
  const committed = async () => (await admin.fetchOffsets({ groupId, topics: [topic] }))[0].partitions.find((each) => each.partition === 0).offset;
  assert.strictEqual(await committed(), String(RECORDS));
  await admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "20" }] });
  assert.strictEqual(await committed(), "20");
  assert.ok((await admin.listGroups()).groups.some((each) => each.groupId === groupId));
  assert.strictEqual((await admin.describeGroups([groupId])).groups[0].state, "Empty");
  await admin.deleteGroups([groupId]);
  assert.ok(!(await admin.listGroups()).groups.some((each) => each.groupId === groupId));
  await admin.deleteTopics({ topics: [topic] });
  assert.ok(!(await admin.listTopics()).includes(topic));
}

// Prints each value, and "denied" whenever the right to read is missing. A consumer ends with that; after
// what it may try again it restarts by itself.
async function readOn(topic) {
  const seen = new Set();
  for (;;) {
    const consumer = kafka.consumer({ groupId: `alice-${topic}`, sessionTimeout: 6000, retry: { retries: 0 } });
    const crashed = new Promise((resolve) =>
      consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || resolve(payload.error)));
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    const eachMessage = async ({ message }) => {
      if (!seen.has(message.offset)) console.log(message.value.toString());
      seen.add(message.offset);
    };
    await consumer.run({ eachMessage });
    const error = await crashed;
    const denied = [error, error.cause].some((each) => each && each.type === "TOPIC_AUTHORIZATION_FAILED");
    if (!denied) throw error;
    console.log("denied");
    await consumer.disconnect();
  }
}

// Writes "0" and "1" in one transaction, with a pause between them.
async function transact(topic, pause) {
  const producer = kafka.producer({ transactionalId: `alice-${topic}`, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  const transaction = await producer.transaction();
  await transaction.send({ topic, messages: [{ value: "0" }] });
  await new Promise((resolve) => setTimeout(resolve, pause));
  await transaction.send({ topic, messages: [{ value: "1" }] });
  await transaction.commit();
  await producer.disconnect();
}

async function main() {
  if (prefix === "--read") return readOn(more[0]);
  if (prefix === "--transaction") return transact(more[0], Number(more[1]));
  await zstd.init();
  const admin = kafka.admin();
  await admin.connect();
  if (prefix === "--topics") {
    for (const topic of await admin.listTopics()) console.log(topic);
    await admin.disconnect();
    return;
  }
  await codecs(admin);
  await transactions(admin);
  await administration(admin);
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
