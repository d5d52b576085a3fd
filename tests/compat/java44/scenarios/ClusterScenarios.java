import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.*;

/** The cluster as a whole: nodes, features, the metadata quorum, telemetry, and groups of other kinds. */
final class ClusterScenarios {
    private ClusterScenarios() {}

    static void register(Registry all) {
        all.add("cluster-described", here -> {
            var found = here.admin().describeCluster();
            return Here.fields("nodes", found.nodes().get().toString(), "controller", found.controller().get().id(),
                "operations", String.valueOf(found.authorizedOperations().get()), "id", found.clusterId().get().length());
        });
        all.add("cluster-described-with-operations", here -> {
            var options = new DescribeClusterOptions().includeAuthorizedOperations(true);
            return new TreeSet<>(here.admin().describeCluster(options).authorizedOperations().get());
        });
        all.add("cluster-described-with-fenced-brokers", here -> {
            var options = new DescribeClusterOptions().includeFencedBrokers(true);
            return here.admin().describeCluster(options).nodes().get().stream().map(node -> node.id() + " " + node.isFenced()).toList();
        });
        all.add("features-described", here -> {
            var found = here.admin().describeFeatures().featureMetadata().get();
            Map<String, String> finalized = new TreeMap<>();
            found.finalizedFeatures().forEach((name, range) -> finalized.put(name, range.maxVersionLevel() + ""));
            return Here.fields("transactions", finalized.get("transaction.version"), "groups", finalized.get("group.version"));
        });
        all.add("features-of-kraft", here -> {
            var found = here.admin().describeFeatures().featureMetadata().get();
            return Here.fields("finalized", new TreeMap<>(found.finalizedFeatures()).keySet(),
                "supported", new TreeMap<>(found.supportedFeatures()).keySet());
        });
        all.add("features-updated", here -> here.outcome(here.admin().updateFeatures(
            Map.of("group.version", new FeatureUpdate((short) 99, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all()));
        all.add("quorum-described", here -> here.outcome(() ->
            here.admin().describeMetadataQuorum().quorumInfo().get().leaderId()));
        all.add("quorum-voter-added", here -> here.outcome(here.admin().addRaftVoter(9, new Uuid(1, 2),
            Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 1))).all()));
        all.add("quorum-voter-removed", here -> here.outcome(here.admin().removeRaftVoter(9, new Uuid(1, 2)).all()));
        all.add("broker-unregistered", here -> here.outcome(here.admin().unregisterBroker(77).all()));
        all.addSlow("telemetry-of-an-admin", here -> {
            Map<String, Object> configs = here.world.configs("enable.metrics.push", "true");
            Admin admin = here.keep(Admin.create(configs));
            return here.outcome(() -> admin.clientInstanceId(Duration.ofSeconds(5)).equals(Uuid.ZERO_UUID));
        });
        all.addSlow("telemetry-of-a-producer", here -> {
            String topic = here.topic(1);
            var producer = here.producer("enable.metrics.push", "true");
            producer.send(new org.apache.kafka.clients.producer.ProducerRecord<>(topic, "v")).get();
            return here.outcome(() -> producer.clientInstanceId(Duration.ofSeconds(5)).equals(Uuid.ZERO_UUID));
        });
        all.addSlow("telemetry-of-a-consumer", here -> {
            var consumer = here.consumer("enable.metrics.push", "true", "group.id", here.name, "group.protocol", "consumer");
            consumer.subscribe(List.of(here.topic(1)));
            consumer.poll(Duration.ofMillis(100));
            return here.outcome(() -> consumer.clientInstanceId(Duration.ofSeconds(5)).equals(Uuid.ZERO_UUID));
        });
        all.add("telemetry-switched-off", here -> {
            var producer = here.producer("enable.metrics.push", "false");
            return here.outcome(() -> producer.clientInstanceId(Duration.ofSeconds(5)));
        });
        all.add("client-metrics-resources-listed", here -> here.outcome(() ->
            here.admin().listClientMetricsResources().all().get().stream().anyMatch(each -> each.name().equals(here.name))));
        all.add("share-groups-described", here -> here.outcomes(here.admin().describeShareGroups(List.of(here.name)).describedGroups()));
        all.add("share-groups-deleted", here -> here.outcome(here.admin().deleteShareGroups(List.of(here.name)).all()));
        all.add("share-group-offsets-listed", here -> here.outcome(here.admin().listShareGroupOffsets(
            Map.of(here.name, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(here.name)));
        all.add("streams-groups-described", here -> here.outcomes(here.admin().describeStreamsGroups(List.of(here.name)).describedGroups()));
        all.add("streams-groups-deleted", here -> here.outcome(here.admin().deleteStreamsGroups(List.of(here.name)).all()));
        all.add("streams-group-offsets-listed", here -> here.outcome(here.admin().listStreamsGroupOffsets(
            Map.of(here.name, new ListStreamsGroupOffsetsSpec())).partitionsToOffsetAndMetadata(here.name)));
        all.add("groups-of-other-types-listed", here -> List.of(
            here.admin().listGroups(ListGroupsOptions.forShareGroups()).all().get().size(),
            here.admin().listGroups(ListGroupsOptions.forStreamsGroups()).all().get().size()));
    }
}
