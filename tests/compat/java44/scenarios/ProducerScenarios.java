import java.util.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;

/** What the producer gets back, and what is then in the log. */
final class ProducerScenarios {
    private ProducerScenarios() {}

    static void register(Registry all) {
        for (String acks : List.of("0", "1", "all"))
            all.add("produce-acks-" + acks, here -> {
                String topic = here.topic(1);
                var producer = here.producer("acks", acks, "enable.idempotence", "false");
                producer.partitionsFor(topic);
                var sent = producer.send(new ProducerRecord<>(topic, "k", "v")).get();
                return Here.fields("offset", sent.hasOffset() ? sent.offset() : "none", "partition", sent.partition(),
                    "key_bytes", sent.serializedKeySize(), "read", readBack(here, topic, 1));
            });
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd"))
            all.add("produce-" + codec, here -> {
                String topic = here.topic(1);
                var producer = here.producer("compression.type", codec, "linger.ms", "50");
                for (int i = 0; i < 20; i++) producer.send(new ProducerRecord<>(topic, "k", "value " + i));
                producer.flush();
                return readBack(here, topic, 20).size();
            });
        all.add("produce-recompressed", here -> {
            String topic = here.topic(1, "compression.type", "gzip");
            here.send(topic, 0, "a", "b");
            return readBack(here, topic, 2);
        });
        all.add("produce-idempotent", here -> {
            String topic = here.topic(1);
            var producer = here.producer("enable.idempotence", "true");
            List<Long> offsets = new ArrayList<>();
            for (int i = 0; i < 5; i++) offsets.add(producer.send(new ProducerRecord<>(topic, "v" + i)).get().offset());
            return offsets;
        });
        all.add("produce-headers-and-timestamp", here -> {
            String topic = here.topic(1, "message.timestamp.before.max.ms", String.valueOf(Long.MAX_VALUE));
            var record = new ProducerRecord<>(topic, 0, 1234L, "k", "v");
            record.headers().add("h", new byte[] {1, 2}).add("h", null);
            var sent = here.producer().send(record).get();
            var consumer = here.consumer();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            List<Object> found = new ArrayList<>();
            here.poll(() -> {
                consumer.poll(java.time.Duration.ofMillis(50)).forEach(each ->
                    found.add(each.timestamp() + " " + each.timestampType() + " " + each.headers() + " " + each.leaderEpoch()));
                return !found.isEmpty();
            });
            return Here.fields("sent", sent.timestamp(), "found", found);
        });
        all.add("produce-log-append-time", here -> {
            String topic = here.topic(1, "message.timestamp.type", "LogAppendTime");
            var sent = here.producer().send(new ProducerRecord<>(topic, 0, 1234L, "k", "v")).get();
            return sent.timestamp() > 1_600_000_000_000L;
        });
        all.add("produce-timestamp-out-of-bounds", here -> {
            String topic = here.topic(1, "message.timestamp.after.max.ms", "1000", "message.timestamp.before.max.ms", "1000");
            var producer = here.producer();
            return List.of(send(here, producer, new ProducerRecord<>(topic, 0, 1234L, "k", "v")),
                send(here, producer, new ProducerRecord<>(topic, 0, 4_000_000_000_000L, "k", "v")));
        });
        all.add("produce-too-large-for-the-client", here ->
            send(here, here.producer("max.request.size", "1000"), new ProducerRecord<>(here.topic(1), "k", "x".repeat(2000))));
        all.add("produce-too-large-for-the-topic", here ->
            send(here, here.producer(), new ProducerRecord<>(here.topic(1, "max.message.bytes", "1000"), "k", "x".repeat(2000))));
        all.add("produce-too-large-is-split", here -> {
            String topic = here.topic(1, "max.message.bytes", "1000");
            var producer = here.producer("linger.ms", "200");
            List<java.util.concurrent.Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 10; i++) sent.add(producer.send(new ProducerRecord<>(topic, "k", "x".repeat(300))));
            producer.flush();
            List<Object> offsets = new ArrayList<>();
            for (var each : sent) offsets.add(here.outcome(() -> each.get().offset()));
            return offsets;
        });
        all.add("produce-compacted-without-key", here ->
            send(here, here.producer(), new ProducerRecord<>(here.topic(1, "cleanup.policy", "compact"), null, "v")));
        all.add("produce-unknown-topic", here -> {
            var producer = here.producer("max.block.ms", "1000");
            return send(here, producer, new ProducerRecord<>(here.name, "v"));
        });
        all.add("produce-illegal-topic", here -> send(here, here.producer("max.block.ms", "1000"), new ProducerRecord<>("a b", "v")));
        all.add("produce-unknown-partition", here ->
            send(here, here.producer("max.block.ms", "1000"), new ProducerRecord<>(here.topic(1), 7, "k", "v")));
        all.add("produce-to-internal-topic", here -> {
            here.admin().createTopics(List.of(new org.apache.kafka.clients.admin.NewTopic(here.name, 1, (short) 1))).all().get();
            here.outcome(here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata());
            return send(here, here.producer("max.block.ms", "5000"), new ProducerRecord<>("__consumer_offsets", 0, "k", "v"));
        });
        all.add("produce-not-enough-replicas", here -> {
            String topic = here.topic(1, "min.insync.replicas", "2");
            var producer = here.producer("delivery.timeout.ms", "1500", "request.timeout.ms", "1000", "linger.ms", "0");
            var one = here.producer("acks", "1", "enable.idempotence", "false");
            return List.of(send(here, one, new ProducerRecord<>(topic, "v")),
                send(here, producer, new ProducerRecord<>(topic, "v")));
        });
        all.add("produce-deleted-topic", here -> {
            String topic = here.topic(1);
            var producer = here.producer("max.block.ms", "3000", "delivery.timeout.ms", "3000", "request.timeout.ms", "2000", "linger.ms", "0");
            producer.send(new ProducerRecord<>(topic, "v")).get();
            here.admin().deleteTopics(List.of(topic)).all().get();
            here.until(() -> !here.admin().listTopics().names().get().contains(topic));
            return send(here, producer, new ProducerRecord<>(topic, "v"));
        });
        all.add("produce-partitions-for", here -> {
            String topic = here.topic(3);
            List<String> found = new ArrayList<>();
            here.producer().partitionsFor(topic).forEach(each ->
                found.add(each.partition() + " " + each.leader().id() + " " + each.replicas().length + " " + each.inSyncReplicas().length));
            return new TreeSet<>(found);
        });
        all.add("produce-by-key-hash", here -> {
            String topic = here.topic(4);
            List<Integer> found = new ArrayList<>();
            for (String key : List.of("a", "b", "c", "d")) found.add(here.world.producer.send(new ProducerRecord<>(topic, key, "v")).get().partition());
            return found;
        });
    }

    private static Object send(Here here, Producer<String, String> producer, ProducerRecord<String, String> record) {
        return Here.kind(here.outcome(() -> producer.send(record).get().offset()));
    }

    private static List<String> readBack(Here here, String topic, int count) {
        var consumer = here.consumer();
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        return here.read(consumer, count);
    }
}
