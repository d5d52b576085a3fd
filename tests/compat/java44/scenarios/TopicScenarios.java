import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;

/** Topics: created, described, listed, grown and deleted. */
final class TopicScenarios {
    private TopicScenarios() {}

    static void register(Registry all) {
        all.add("topic-create-with-defaults", here -> {
            var result = here.admin().createTopics(List.of(new NewTopic(here.name, Optional.empty(), Optional.empty())));
            return Here.fields("partitions", result.numPartitions(here.name).get(),
                "replicas", result.replicationFactor(here.name).get());
        });
        all.add("topic-create-returns-configs", here -> {
            var topic = new NewTopic(here.name, 3, (short) 1).configs(Map.of("cleanup.policy", "compact", "segment.ms", "60000"));
            var config = here.admin().createTopics(List.of(topic)).config(here.name).get();
            return Here.fields("policy", entry(config.get("cleanup.policy")), "segment", entry(config.get("segment.ms")),
                "retention", entry(config.get("retention.ms")), "bytes", entry(config.get("max.message.bytes")));
        });
        all.add("topic-create-only-validated", here -> {
            var options = new CreateTopicsOptions().validateOnly(true);
            var created = here.outcome(here.admin().createTopics(List.of(new NewTopic(here.name, 2, (short) 1)), options).all());
            return Here.fields("created", created, "known", here.admin().listTopics().names().get().contains(here.name));
        });
        all.add("topic-create-exists", here -> create(here, new NewTopic(here.topic(1), 1, (short) 1)));
        all.add("topic-create-name-collides", here -> {
            create(here, new NewTopic(here.name + ".a", 1, (short) 1));
            return create(here, new NewTopic(here.name + "_a", 1, (short) 1));
        });
        all.add("topic-create-illegal-names", here -> {
            List<Object> found = new ArrayList<>();
            for (String name : List.of("", ".", "..", "a b", "a/b", "x".repeat(250)))
                found.add(create(here, new NewTopic(name, 1, (short) 1)));
            return found;
        });
        all.add("topic-create-internal", here -> create(here, new NewTopic("__cluster_metadata", 1, (short) 1)));
        all.add("topic-create-odd-partitions", here -> {
            List<Object> found = new ArrayList<>();
            for (int count : new int[] {0, -2}) found.add(create(here, new NewTopic(here.name, count, (short) 1)));
            return found;
        });
        all.add("topic-create-odd-replicas", here -> List.of(create(here, new NewTopic(here.name, 1, (short) 0)),
            create(here, new NewTopic(here.name, 1, (short) -3))));
        all.add("topic-create-odd-configs", here -> {
            List<Object> found = new ArrayList<>();
            for (var config : List.of(Map.of("no.such.config", "1"), Map.of("cleanup.policy", "shred"), Map.of("segment.bytes", "many"),
                    Map.of("min.insync.replicas", "0"), Map.of("compression.type", "rar"), Map.of("retention.ms", "-2")))
                found.add(create(here, new NewTopic(here.name, 1, (short) 1).configs(config)));
            return found;
        });
        all.add("topic-create-by-assignment", here -> {
            var topic = new NewTopic(here.name, Map.of(0, List.of(1), 1, List.of(1)));
            var result = here.admin().createTopics(List.of(topic));
            return Here.fields("partitions", result.numPartitions(here.name).get(),
                "replicas", result.replicationFactor(here.name).get());
        });
        all.add("topic-create-odd-assignments", here -> List.of(
            create(here, new NewTopic(here.name, Map.of(0, List.of(77)))),
            create(here, new NewTopic(here.name, Map.of(1, List.of(1)))),
            create(here, new NewTopic(here.name, Map.of(0, List.of(1, 1)))),
            create(here, new NewTopic(here.name, Map.of(0, List.of()))),
            create(here, new NewTopic(here.name, Map.of(0, List.of(1), 1, List.of())))));
        all.add("topic-create-good-and-bad", here -> here.outcomes(here.admin().createTopics(List.of(
            new NewTopic(here.name + "-good", 1, (short) 1), new NewTopic(here.name + " bad", 1, (short) 1))).values()));
        all.add("topic-describe", here -> {
            String topic = here.topic(2);
            var found = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            return Here.fields("internal", found.isInternal(), "operations", String.valueOf(found.authorizedOperations()),
                "has_id", !found.topicId().equals(Uuid.ZERO_UUID), "partitions", partitions(found));
        });
        all.add("topic-describe-operations", here -> {
            String topic = here.topic(1);
            var options = new DescribeTopicsOptions().includeAuthorizedOperations(true);
            var found = here.admin().describeTopics(List.of(topic), options).allTopicNames().get().get(topic);
            return new TreeSet<>(found.authorizedOperations());
        });
        all.add("topic-describe-by-id", here -> {
            String topic = here.topic(1);
            Uuid id = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            return here.admin().describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id).name();
        });
        all.add("topic-describe-unknown", here -> Here.fields(
            "by_name", here.outcome(here.admin().describeTopics(List.of(here.name)).allTopicNames()),
            "by_id", here.outcome(here.admin().describeTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).allTopicIds()),
            "illegal", here.outcome(here.admin().describeTopics(List.of("a b")).allTopicNames())));
        all.add("topic-describe-in-pages", here -> {
            List<String> topics = List.of(here.topic(3), here.topic(2));
            var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(2);
            Map<String, Object> found = new TreeMap<>();
            here.admin().describeTopics(topics, options).allTopicNames().get()
                .forEach((name, topic) -> found.put(name, partitions(topic)));
            return found;
        });
        all.add("topic-list", here -> {
            String topic = here.topic(1);
            boolean listed = here.until(() -> here.admin().listTopics().names().get().contains(topic));
            Set<String> plain = here.admin().listTopics().names().get();
            return Here.fields("listed", listed, "internal", plain.stream().anyMatch(name -> name.startsWith("__")));
        });
        all.add("topic-grow", here -> {
            String topic = here.topic(1);
            var grown = here.outcome(here.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all());
            boolean seen = here.until(() -> count(here, topic) == 3);
            return Here.fields("grown", grown, "seen", seen);
        });
        all.add("topic-grow-only-validated", here -> {
            String topic = here.topic(1);
            var options = new CreatePartitionsOptions().validateOnly(true);
            var grown = here.outcome(here.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3)), options).all());
            return Here.fields("grown", grown, "partitions", count(here, topic));
        });
        all.add("topic-grow-refused", here -> {
            String topic = here.topic(2);
            List<Object> found = new ArrayList<>();
            for (var wanted : List.of(NewPartitions.increaseTo(2), NewPartitions.increaseTo(1), NewPartitions.increaseTo(-1),
                    NewPartitions.increaseTo(3, List.of(List.of(77))), NewPartitions.increaseTo(3, List.of(List.of(1, 1))),
                    NewPartitions.increaseTo(4, List.of(List.of(1))), NewPartitions.increaseTo(3, List.of(List.of()))))
                found.add(here.outcome(here.admin().createPartitions(Map.of(topic, wanted)).all()));
            found.add(here.outcome(here.admin().createPartitions(Map.of(here.name, NewPartitions.increaseTo(3))).all()));
            return found;
        });
        all.add("topic-delete", here -> {
            String topic = here.topic(1);
            var gone = here.outcome(here.admin().deleteTopics(List.of(topic)).all());
            boolean unlisted = here.until(() -> !here.admin().listTopics().names().get().contains(topic));
            return Here.fields("deleted", gone, "unlisted", unlisted, "again", here.outcome(here.admin().deleteTopics(List.of(topic)).all()));
        });
        all.add("topic-delete-by-id", here -> {
            String topic = here.topic(1);
            Uuid id = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            return List.of(here.outcome(here.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all()),
                here.outcome(here.admin().deleteTopics(TopicCollection.ofTopicIds(List.of(new Uuid(7, 7)))).all()));
        });
        all.add("topic-delete-illegal-name", here -> here.outcome(here.admin().deleteTopics(List.of("a b")).all()));
        all.add("topic-created-again", here -> {
            String topic = here.topic(1);
            here.send(topic, 0, "old");
            here.admin().deleteTopics(List.of(topic)).all().get();
            boolean created = here.until(() -> "done".equals(create(here, new NewTopic(topic, 1, (short) 1))));
            here.send(topic, 0, "new");
            var consumer = here.consumer();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return Here.fields("created", created, "read", here.read(consumer, 1));
        });
    }

    static Object create(Here here, NewTopic topic) {
        return here.outcome(here.admin().createTopics(List.of(topic)).all());
    }

    static int count(Here here, String topic) throws Exception {
        return here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
    }

    static String entry(ConfigEntry entry) {
        return entry.value() + " " + entry.source();
    }

    private static List<String> partitions(TopicDescription topic) {
        List<String> found = new ArrayList<>();
        for (var partition : topic.partitions())
            found.add(partition.partition() + " leader " + partition.leader().id() + " replicas " + partition.replicas().size()
                + " isr " + partition.isr().size() + " elr " + partition.elr() + " last " + partition.lastKnownElr());
        return found;
    }
}
