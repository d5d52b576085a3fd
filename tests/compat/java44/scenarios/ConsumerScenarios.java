import java.time.*;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;

/** A consumer without a group: positions, lookups and fetches. */
final class ConsumerScenarios {
    private ConsumerScenarios() {}

    static void register(Registry all) {
        all.add("consume-seek", here -> {
            var consumer = assigned(here, letters(here));
            List<Object> found = new ArrayList<>();
            consumer.seek(only(consumer), 2);
            found.add(here.read(consumer, 1));
            consumer.seekToBeginning(consumer.assignment());
            found.add(here.read(consumer, 1));
            consumer.seekToEnd(consumer.assignment());
            found.add(consumer.position(only(consumer)));
            consumer.seek(only(consumer), new OffsetAndMetadata(1, Optional.of(0), "m"));
            found.add(here.read(consumer, 2));
            return found;
        });
        all.add("consume-offsets-looked-up", here -> {
            var consumer = assigned(here, letters(here));
            return Here.fields("beginning", consumer.beginningOffsets(consumer.assignment()).values(),
                "end", consumer.endOffsets(consumer.assignment()).values(),
                "early", text(consumer.offsetsForTimes(Map.of(only(consumer), 0L))),
                "late", text(consumer.offsetsForTimes(Map.of(only(consumer), 4_000_000_000_000L))),
                "lag", String.valueOf(consumer.currentLag(only(consumer))));
        });
        all.add("consume-offsets-for-times", here -> {
            String topic = here.topic(1, "message.timestamp.before.max.ms", String.valueOf(Long.MAX_VALUE), "retention.ms", "-1");
            for (long time : new long[] {10, 30, 20})
                here.world.producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>(topic, 0, time, "k", "v")).get();
            var consumer = assigned(here, topic);
            List<Object> found = new ArrayList<>();
            for (long time : new long[] {0, 10, 11, 20, 30, 31}) found.add(text(consumer.offsetsForTimes(Map.of(only(consumer), time))));
            return found;
        });
        all.add("consume-unknown-topic", here -> {
            var consumer = here.consumer("default.api.timeout.ms", "1500");
            return List.of(here.outcome(() -> consumer.partitionsFor(here.name)),
                here.outcome(() -> consumer.beginningOffsets(List.of(new TopicPartition(here.name, 0)))),
                here.outcome(() -> consumer.partitionsFor("a b")));
        });
        all.add("consume-list-topics", here -> {
            String topic = here.topic(2);
            var consumer = here.consumer();
            here.until(() -> consumer.listTopics().containsKey(topic));
            return Here.fields("partitions", consumer.listTopics().get(topic).size(), "same", consumer.partitionsFor(topic).size());
        });
        all.add("consume-out-of-range-none", here -> {
            var consumer = assigned(here, letters(here), "auto.offset.reset", "none");
            consumer.seek(only(consumer), 99);
            return here.outcome(() -> ConsumerGroupScenarios.polled(consumer, 15_000));
        });
        all.add("consume-no-position-none", here -> {
            var consumer = assigned(here, letters(here), "auto.offset.reset", "none");
            return here.outcome(() -> ConsumerGroupScenarios.polled(consumer, 15_000));
        });
        all.add("consume-out-of-range-earliest", here -> {
            var consumer = assigned(here, letters(here));
            consumer.seek(only(consumer), 99);
            return here.read(consumer, 3);
        });
        all.add("consume-reset-by-duration", here -> here.read(assigned(here, letters(here), "auto.offset.reset", "by_duration:PT1H"), 3));
        all.add("consume-latest", here -> {
            String topic = letters(here);
            var consumer = assigned(here, topic, "auto.offset.reset", "latest");
            long start = consumer.position(only(consumer));
            here.send(topic, 0, "d");
            return Here.fields("start", start, "read", here.read(consumer, 1));
        });
        all.add("consume-few-at-a-time", here -> {
            var consumer = assigned(here, letters(here), "max.poll.records", "2");
            List<Integer> counts = new ArrayList<>();
            here.poll(() -> {
                int count = consumer.poll(Duration.ofMillis(100)).count();
                if (count > 0) counts.add(count);
                return counts.stream().mapToInt(each -> each).sum() == 3;
            });
            return counts;
        });
        all.add("consume-small-fetches", here -> {
            String topic = here.topic(1);
            for (int i = 0; i < 5; i++) here.send(topic, 0, "x".repeat(500));
            return here.read(assigned(here, topic, "max.partition.fetch.bytes", "100", "fetch.max.bytes", "100"), 5).size();
        });
        all.add("consume-min-bytes-waits", here -> {
            var consumer = assigned(here, letters(here), "fetch.min.bytes", "1000000", "fetch.max.wait.ms", "300");
            return here.read(consumer, 3);
        });
        all.add("consume-paused", here -> {
            var consumer = assigned(here, letters(here));
            consumer.pause(consumer.assignment());
            int before = consumer.poll(Duration.ofMillis(200)).count();
            consumer.resume(consumer.assignment());
            return Here.fields("before", before, "after", here.read(consumer, 3), "lag", String.valueOf(consumer.currentLag(only(consumer))));
        });
        all.add("consume-unknown-partition", here -> {
            var consumer = here.consumer("default.api.timeout.ms", "1000");
            consumer.assign(List.of(new TopicPartition(here.topic(1), 5)));
            return here.outcome(() -> consumer.position(new TopicPartition(here.name + "-t1", 5), Duration.ofSeconds(1)));
        });
        all.add("consume-truncated-leader-epoch", here -> {
            var consumer = assigned(here, letters(here), "auto.offset.reset", "none");
            consumer.seek(only(consumer), new OffsetAndMetadata(2, Optional.of(50), ""));
            return here.outcome(() -> ConsumerGroupScenarios.polled(consumer, 15_000));
        });
        all.add("consume-without-group", here -> {
            var consumer = assigned(here, letters(here));
            return List.of(here.failure(() -> consumer.commitSync()), here.failure(() -> consumer.subscribe(List.of("t"))),
                here.outcome(() -> consumer.committed(consumer.assignment())));
        });
        all.add("commit-and-committed", here -> {
            String topic = letters(here);
            var consumer = assigned(here, topic, "group.id", here.name);
            consumer.commitSync(Map.of(only(consumer), new OffsetAndMetadata(2, Optional.of(0), "note")));
            var next = assigned(here, topic, "group.id", here.name);
            return Here.fields("committed", String.valueOf(next.committed(next.assignment())), "read", here.read(next, 1));
        });
        all.add("commit-odd-positions", here -> {
            String topic = letters(here);
            var consumer = assigned(here, topic, "group.id", here.name, "default.api.timeout.ms", "1500");
            return List.of(commit(here, consumer, new TopicPartition(topic, 9), new OffsetAndMetadata(1)),
                commit(here, consumer, new TopicPartition(here.name, 0), new OffsetAndMetadata(1)),
                commit(here, consumer, only(consumer), new OffsetAndMetadata(99)),
                commit(here, consumer, only(consumer), new OffsetAndMetadata(1, "x".repeat(5000))));
        });
        all.add("commit-to-the-empty-group", here -> {
            var consumer = assigned(here, letters(here), "group.id", "");
            return commit(here, consumer, only(consumer), new OffsetAndMetadata(1));
        });
    }

    private static Object commit(Here here, Consumer<?, ?> consumer, TopicPartition partition, OffsetAndMetadata position) {
        return here.failure(() -> consumer.commitSync(Map.of(partition, position)));
    }

    static String letters(Here here) throws Exception {
        String topic = here.topic(1);
        here.send(topic, 0, "a", "b", "c");
        return topic;
    }

    static Consumer<String, String> assigned(Here here, String topic, String... configs) {
        var consumer = here.consumer(configs);
        consumer.assign(List.of(new TopicPartition(topic, 0)));
        return consumer;
    }

    static TopicPartition only(Consumer<?, ?> consumer) {
        return consumer.assignment().iterator().next();
    }

    private static String text(Map<TopicPartition, OffsetAndTimestamp> found) {
        return found.values().stream().map(String::valueOf).toList().toString();
    }
}
