import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;

/** Where replicas are: reassignments, elections and log directories; and records that are deleted. */
final class PlacementScenarios {
    private PlacementScenarios() {}

    static void register(Registry all) {
        all.add("reassign-to-the-same-broker", here -> reassign(here, new TopicPartition(here.topic(1), 0), 1));
        all.add("reassign-to-an-unknown-broker", here -> reassign(here, new TopicPartition(here.topic(1), 0), 77));
        all.add("reassign-to-odd-replicas", here -> {
            TopicPartition partition = new TopicPartition(here.topic(1), 0);
            return List.of(reassign(here, partition), reassign(here, partition, 1, 1), reassign(here, partition, -1));
        });
        all.add("reassign-an-unknown-partition", here -> List.of(reassign(here, new TopicPartition(here.name, 0), 1),
            reassign(here, new TopicPartition(here.topic(1), 9), 1)));
        all.add("reassign-nothing-to-cancel", here -> {
            TopicPartition partition = new TopicPartition(here.topic(1), 0);
            return here.outcomes(here.admin().alterPartitionReassignments(Map.of(partition, Optional.empty())).values());
        });
        all.add("reassignments-listed", here -> {
            TopicPartition partition = new TopicPartition(here.topic(1), 0);
            return List.of(here.outcome(here.admin().listPartitionReassignments(Set.of(partition)).reassignments()),
                here.outcome(here.admin().listPartitionReassignments(Set.of(new TopicPartition(here.name, 3))).reassignments()));
        });
        all.add("elect-preferred", here -> elect(here, ElectionType.PREFERRED, new TopicPartition(here.topic(1), 0)));
        all.add("elect-unclean", here -> elect(here, ElectionType.UNCLEAN, new TopicPartition(here.topic(1), 0)));
        all.add("elect-unknown", here -> List.of(elect(here, ElectionType.PREFERRED, new TopicPartition(here.name, 0)),
            elect(here, ElectionType.UNCLEAN, new TopicPartition(here.topic(1), 9))));
        all.add("log-dirs-described", here -> {
            String topic = here.topic(2);
            here.send(topic, 0, "a");
            Map<String, Object> found = new TreeMap<>();
            for (var directory : here.admin().describeLogDirs(List.of(1)).allDescriptions().get().get(1).values()) {
                found.put("error", String.valueOf(directory.error()));
                found.put("cordoned", directory.isCordoned());
                found.put("has_bytes", directory.totalBytes().isPresent() && directory.usableBytes().isPresent());
                directory.replicaInfos().forEach((partition, replica) -> {
                    if (partition.topic().equals(topic))
                        found.put(partition.toString(), replica.offsetLag() + " " + replica.isFuture() + " " + (replica.size() > 0));
                });
            }
            return found;
        });
        all.add("log-dirs-of-replicas", here -> {
            String topic = here.topic(1);
            var known = new TopicPartitionReplica(topic, 0, 1);
            var unknown = new TopicPartitionReplica(here.name, 0, 1);
            var found = here.admin().describeReplicaLogDirs(List.of(known, unknown)).all().get();
            return Here.fields("lag", found.get(known).getCurrentReplicaOffsetLag(), "future", found.get(known).getFutureReplicaLogDir(),
                "unknown", String.valueOf(found.get(unknown).getCurrentReplicaLogDir()));
        });
        all.add("log-dirs-moved-to-an-unknown-one", here -> {
            var known = new TopicPartitionReplica(here.topic(1), 0, 1);
            var unknown = new TopicPartitionReplica(here.name, 0, 1);
            return List.of(here.outcomes(here.admin().alterReplicaLogDirs(Map.of(known, "/no/such/directory")).values()),
                here.outcomes(here.admin().alterReplicaLogDirs(Map.of(known, "relative")).values()),
                here.outcomes(here.admin().alterReplicaLogDirs(Map.of(unknown, "/no/such/directory")).values()));
        });
        all.add("records-deleted", here -> {
            String topic = here.topic(1);
            here.send(topic, 0, "a", "b", "c");
            var partition = new TopicPartition(topic, 0);
            var to2 = here.outcome(() -> delete(here, partition, 2).get().lowWatermark());
            var back = here.outcome(() -> delete(here, partition, 1).get().lowWatermark());
            var all3 = here.outcome(() -> delete(here, partition, -1).get().lowWatermark());
            return Here.fields("to_2", to2, "back_to_1", back, "all", all3, "beyond", here.outcome(delete(here, partition, 9)),
                "negative", here.outcome(delete(here, partition, -7)));
        });
        all.add("records-deleted-unknown", here -> {
            var partition = new TopicPartition(here.name, 0);
            var options = new DeleteRecordsOptions().timeoutMs(300);
            return Here.kind(here.outcome(here.admin().deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(0)), options).all()));
        });
        all.add("records-deleted-compacted", here -> {
            String topic = here.topic(1, "cleanup.policy", "compact");
            here.send(topic, 0, "a");
            return here.outcome(delete(here, new TopicPartition(topic, 0), 1));
        });
        all.add("records-deleted-are-gone", here -> {
            String topic = here.topic(1);
            here.send(topic, 0, "a", "b", "c");
            delete(here, new TopicPartition(topic, 0), 2).get();
            var consumer = here.consumer();
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return Here.fields("read", here.read(consumer, 1), "beginning", consumer.beginningOffsets(consumer.assignment()).values());
        });
    }

    private static KafkaFuture<DeletedRecords> delete(Here here, TopicPartition partition, long before) {
        var options = new DeleteRecordsOptions().timeoutMs(5000);
        return here.admin().deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(before)), options).lowWatermarks().get(partition);
    }

    private static Object reassign(Here here, TopicPartition partition, Integer... replicas) {
        try {
            var wanted = Optional.of(new NewPartitionReassignment(List.of(replicas)));
            return here.outcomes(here.admin().alterPartitionReassignments(Map.of(partition, wanted)).values());
        } catch (IllegalArgumentException refusedByTheClient) {
            return ErrorText.text(refusedByTheClient);
        }
    }

    private static Object elect(Here here, ElectionType type, TopicPartition partition) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        here.admin().electLeaders(type, Set.of(partition)).partitions().get()
            .forEach((key, error) -> found.put(key.toString(), error.map(ErrorText::text).orElse("elected")));
        return found;
    }
}
