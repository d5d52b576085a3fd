import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.*;

/** Offsets of partitions and of groups, as administrators see and set them. */
final class OffsetScenarios {
    private OffsetScenarios() {}

    static void register(Registry all) {
        Map<String, OffsetSpec> specs = new TreeMap<>(Map.of("earliest", OffsetSpec.earliest(), "latest", OffsetSpec.latest(),
            "max-timestamp", OffsetSpec.maxTimestamp(), "earliest-local", OffsetSpec.earliestLocal(),
            "latest-tiered", OffsetSpec.latestTiered(), "earliest-pending-upload", OffsetSpec.earliestPendingUpload(),
            "timestamp-20", OffsetSpec.forTimestamp(20), "timestamp-99", OffsetSpec.forTimestamp(99)));
        specs.forEach((name, spec) -> all.add("offsets-" + name, here -> {
            String topic = here.topic(1, "message.timestamp.before.max.ms", String.valueOf(Long.MAX_VALUE), "retention.ms", "-1");
            var partition = new TopicPartition(topic, 0);
            Object empty = looked(here, partition, spec);
            for (long time : new long[] {10, 30, 20})
                here.world.producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>(topic, 0, time, "k", "v")).get();
            return Here.fields("empty", empty, "three", looked(here, partition, spec));
        }));
        all.add("offsets-of-unknown-partitions", here -> {
            var unknown = new TopicPartition(here.topic(1), 7);
            var options = new ListOffsetsOptions().timeoutMs(1500);
            return here.outcome(here.admin().listOffsets(Map.of(unknown, OffsetSpec.latest()), options).partitionResult(unknown))
                .toString().split(":")[0];
        });
        all.add("group-offsets-altered", here -> {
            var partition = new TopicPartition(here.topic(1), 0);
            var altered = alter(here, partition, new OffsetAndMetadata(3, Optional.of(0), "note"));
            var listed = here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata().get();
            return Here.fields("altered", altered, "listed", listed.toString(), "beyond", alter(here, partition, new OffsetAndMetadata(99)),
                "unknown_topic", alter(here, new TopicPartition(here.name, 0), new OffsetAndMetadata(1)),
                "unknown_partition", alter(here, new TopicPartition(partition.topic(), 9), new OffsetAndMetadata(1)));
        });
        all.add("group-offsets-altered-in-an-active-group", here -> {
            String topic = here.topic(1);
            var consumer = here.consumer("group.id", here.name);
            consumer.subscribe(List.of(topic));
            here.poll(() -> !consumer.assignment().isEmpty(), consumer);
            return Here.fields("altered", alter(here, new TopicPartition(topic, 0), new OffsetAndMetadata(1)),
                "deleted", forget(here, new TopicPartition(topic, 0)),
                "group_deleted", here.outcome(here.admin().deleteConsumerGroups(List.of(here.name)).all()));
        });
        all.add("group-offsets-listed", here -> {
            String topic = here.topic(2);
            alter(here, new TopicPartition(topic, 0), new OffsetAndMetadata(3));
            var some = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1),
                new TopicPartition(here.name, 0)));
            var specs2 = Map.of(here.name, some, here.name + "-unknown", new ListConsumerGroupOffsetsSpec());
            var found = here.admin().listConsumerGroupOffsets(specs2);
            return Here.fields("some", here.outcome(found.partitionsToOffsetAndMetadata(here.name)).toString().contains("offset=3"),
                "size", here.outcome(() -> found.partitionsToOffsetAndMetadata(here.name).get().size()),
                "unknown", here.outcome(found.partitionsToOffsetAndMetadata(here.name + "-unknown")),
                "stable", here.outcome(here.admin().listConsumerGroupOffsets(here.name,
                    new ListConsumerGroupOffsetsOptions().requireStable(true)).partitionsToOffsetAndMetadata()));
        });
        all.add("group-offsets-deleted", here -> {
            String topic = here.topic(2);
            var partition = new TopicPartition(topic, 0);
            alter(here, partition, new OffsetAndMetadata(3));
            return Here.fields("deleted", forget(here, partition), "again", forget(here, partition),
                "none", forget(here, new TopicPartition(topic, 1)), "unknown_topic", forget(here, new TopicPartition(here.name, 0)));
        });
        all.add("group-offsets-deleted-of-an-unknown-group", here -> forget(here, new TopicPartition(here.topic(1), 0)));
        all.add("group-of-offsets-described", here -> {
            alter(here, new TopicPartition(here.topic(1), 0), new OffsetAndMetadata(3));
            return GroupText.described(here, here.name);
        });
        all.add("group-deleted", here -> {
            alter(here, new TopicPartition(here.topic(1), 0), new OffsetAndMetadata(3));
            return Here.fields("deleted", here.outcomes(here.admin().deleteConsumerGroups(List.of(here.name, here.name + "-x")).deletedGroups()),
                "again", here.outcome(here.admin().deleteConsumerGroups(List.of(here.name)).all()),
                "offsets", here.outcome(here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata()));
        });
        all.add("group-offsets-of-a-deleted-topic", here -> {
            String topic = here.topic(1);
            alter(here, new TopicPartition(topic, 0), new OffsetAndMetadata(3));
            here.admin().deleteTopics(List.of(topic)).all().get();
            return here.until(() -> here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata().get().isEmpty());
        });
    }

    private static Object looked(Here here, TopicPartition partition, OffsetSpec spec) {
        return here.outcome(() -> {
            var found = here.admin().listOffsets(Map.of(partition, spec)).partitionResult(partition).get();
            return found.offset() + " " + found.timestamp() + " " + found.leaderEpoch();
        });
    }

    static Object alter(Here here, TopicPartition partition, OffsetAndMetadata position) {
        return here.outcome(here.admin().alterConsumerGroupOffsets(here.name, Map.of(partition, position)).partitionResult(partition));
    }

    private static Object forget(Here here, TopicPartition partition) {
        return here.outcome(here.admin().deleteConsumerGroupOffsets(here.name, Set.of(partition)).partitionResult(partition));
    }
}
