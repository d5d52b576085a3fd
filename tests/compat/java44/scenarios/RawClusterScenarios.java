import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/** Requests for the cluster and its data that no client of 4.4 sends. */
final class RawClusterScenarios {
    private RawClusterScenarios() {}

    static void register(Registry all) {
        all.add("raw-api-versions-other-cluster", here -> {
            List<Object> found = new ArrayList<>();
            String id = here.admin().describeCluster().clusterId().get();
            String[] clusters = {null, id, "other", id, id, "other", ""};
            int[] nodes = {-1, 1, 1, 77, -1, -1, 1};
            for (int i = 0; i < nodes.length; i++) {
                var request = new ApiVersionsRequestData().setClientSoftwareName("raw").setClientSoftwareVersion("1")
                    .setClusterId(clusters[i]).setNodeId(nodes[i]);
                var response = (ApiVersionsResponseData) here.raw().message(ApiKeys.API_VERSIONS, 5, 5, request);
                found.add(response == null ? "closed" : response.errorCode() + " with apis " + !response.apiKeys().isEmpty()
                    + " " + response.apiKeys().stream().filter(each -> each.apiKey() == 18).toList());
            }
            return found;
        });
        all.add("raw-api-versions-goes-on-after-a-mismatch", here -> {
            Raw raw = here.raw();
            var request = new ApiVersionsRequestData().setClientSoftwareName("raw").setClientSoftwareVersion("1").setClusterId("other").setNodeId(1);
            var first = (ApiVersionsResponseData) raw.message(ApiKeys.API_VERSIONS, 5, 5, request);
            Object then = here.outcome(() -> raw.message(ApiKeys.METADATA, 13, 13, new MetadataRequestData().setTopics(List.of())) != null);
            return List.of(first.errorCode(), then);
        });
        all.add("raw-api-versions-unknown-version", here -> {
            var response = (ApiVersionsResponseData) here.raw().message(ApiKeys.API_VERSIONS, 99, 0, new ApiVersionsRequestData());
            return response.errorCode() + " " + response.apiKeys();
        });
        all.add("raw-api-versions-odd-software", here -> {
            List<Object> found = new ArrayList<>();
            for (String name : List.of("", "a b", "-a", "ok")) {
                var request = new ApiVersionsRequestData().setClientSoftwareName(name).setClientSoftwareVersion("1");
                found.add(((ApiVersionsResponseData) here.raw().message(ApiKeys.API_VERSIONS, 4, 4, request)).errorCode());
            }
            return found;
        });
        all.add("raw-metadata-13", here -> {
            String topic = here.topic(1);
            var request = new MetadataRequestData().setTopics(List.of(new MetadataRequestData.MetadataRequestTopic().setName(topic),
                new MetadataRequestData.MetadataRequestTopic().setName(here.name)));
            var response = (MetadataResponseData) here.raw().message(ApiKeys.METADATA, 13, 13, request);
            List<String> topics = new ArrayList<>();
            response.topics().forEach(each -> topics.add(each.name() + " " + each.errorCode() + " " + each.partitions()));
            return Here.fields("error", response.errorCode(), "topics", topics, "cluster", response.clusterId().length());
        });
        all.add("raw-describe-cluster", here -> {
            List<Object> found = new ArrayList<>();
            for (int type : new int[] {1, 2, 3}) {
                var response = (DescribeClusterResponseData) here.raw().message(ApiKeys.DESCRIBE_CLUSTER, 2, 2,
                    new DescribeClusterRequestData().setEndpointType((byte) type));
                found.add(response.errorCode() + " " + response.errorMessage() + " " + response.brokers().size());
            }
            return found;
        });
        all.add("raw-describe-topic-partitions-cursor", here -> {
            String topic = here.topic(3);
            List<Object> found = new ArrayList<>();
            for (int index : new int[] {0, 2, 3, -1}) {
                var request = new DescribeTopicPartitionsRequestData().setResponsePartitionLimit(1)
                    .setTopics(List.of(new DescribeTopicPartitionsRequestData.TopicRequest().setName(topic)))
                    .setCursor(new DescribeTopicPartitionsRequestData.Cursor().setTopicName(topic).setPartitionIndex(index));
                found.add(here.raw().ask(ApiKeys.DESCRIBE_TOPIC_PARTITIONS, 0, request));
            }
            return found;
        });
        all.add("raw-list-offsets-odd", here -> {
            String topic = here.topic(1);
            List<Object> found = new ArrayList<>();
            for (long time : new long[] {-1, -2, -3, -4, -5, -6, -7, -99})
                found.add(here.raw().ask(ApiKeys.LIST_OFFSETS, 11, new ListOffsetsRequestData().setReplicaId(-1).setTimeoutMs(1000).setTopics(List.of(
                    new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(List.of(
                        new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(0).setTimestamp(time).setCurrentLeaderEpoch(-1)))))));
            return found;
        });
        all.add("raw-list-offsets-leader-epochs", here -> {
            String topic = here.topic(1);
            List<Object> found = new ArrayList<>();
            for (int epoch : new int[] {-1, 0, 5})
                found.add(here.raw().ask(ApiKeys.LIST_OFFSETS, 10, new ListOffsetsRequestData().setReplicaId(-1).setTopics(List.of(
                    new ListOffsetsRequestData.ListOffsetsTopic().setName(topic).setPartitions(List.of(
                        new ListOffsetsRequestData.ListOffsetsPartition().setPartitionIndex(0).setTimestamp(-1).setCurrentLeaderEpoch(epoch)))))));
            return found;
        });
        all.add("raw-telemetry", here -> {
            List<Object> found = new ArrayList<>();
            var first = (GetTelemetrySubscriptionsResponseData) here.raw().message(
                ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, new GetTelemetrySubscriptionsRequestData());
            found.add(first.clientInstanceId().equals(Uuid.ZERO_UUID));
            Uuid[] ids = {new Uuid(3, 4), new Uuid(3, 4), new Uuid(-3, 1L << 63)};
            int subscription = 0;
            for (Uuid id : ids) {
                var got = (GetTelemetrySubscriptionsResponseData) here.raw().message(
                    ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, new GetTelemetrySubscriptionsRequestData().setClientInstanceId(id));
                found.add(String.valueOf(got));
                if (got.errorCode() == 0)
                    subscription = got.subscriptionId();
            }
            Uuid last = ids[2];
            record Push(Uuid id, int subscription, int codec, int size, boolean terminating) {}
            for (Push each : List.of(
                new Push(new Uuid(0, 0), 0, 0, 0, false), new Push(new Uuid(0, 1), 0, 0, 0, false),
                new Push(new Uuid(7, 8), 5, 0, 0, false), new Push(new Uuid(7, 8), 5, 0, 0, false),
                new Push(last, subscription, 9, 0, false), new Push(last, subscription, 4, 0, false),
                new Push(last, subscription, 4, 3_000_000, true), new Push(last, subscription, 4, 0, true)))
                found.add(here.raw().ask(ApiKeys.PUSH_TELEMETRY, 0, new PushTelemetryRequestData().setClientInstanceId(each.id)
                    .setSubscriptionId(each.subscription).setCompressionType((byte) each.codec).setTerminating(each.terminating)
                    .setMetrics(java.nio.ByteBuffer.allocate(each.size))));
            Uuid other = new Uuid(9, 9);
            subscription = ((GetTelemetrySubscriptionsResponseData) here.raw().message(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0,
                new GetTelemetrySubscriptionsRequestData().setClientInstanceId(other))).subscriptionId();
            for (boolean terminating : new boolean[] {false, false, true, false, false})
                found.add(here.raw().ask(ApiKeys.PUSH_TELEMETRY, 0, new PushTelemetryRequestData().setClientInstanceId(other)
                    .setSubscriptionId(subscription).setTerminating(terminating).setMetrics(java.nio.ByteBuffer.allocate(0))));
            found.add(here.raw().ask(ApiKeys.GET_TELEMETRY_SUBSCRIPTIONS, 0, new GetTelemetrySubscriptionsRequestData().setClientInstanceId(other)));
            return found;
        });
        all.add("raw-offset-for-leader-epoch", here -> {
            String topic = here.topic(1);
            List<Object> found = new ArrayList<>();
            for (int epoch : new int[] {-1, 0, 9}) {
                var topics = new OffsetForLeaderEpochRequestData.OffsetForLeaderTopicCollection();
                topics.add(new OffsetForLeaderEpochRequestData.OffsetForLeaderTopic().setTopic(topic).setPartitions(List.of(
                    new OffsetForLeaderEpochRequestData.OffsetForLeaderPartition().setPartition(0).setLeaderEpoch(epoch))));
                found.add(here.raw().ask(ApiKeys.OFFSET_FOR_LEADER_EPOCH, 4, new OffsetForLeaderEpochRequestData().setReplicaId(-1).setTopics(topics)));
            }
            return found;
        });
        all.add("raw-init-producer-id", here -> {
            List<Object> found = new ArrayList<>();
            String[] ids = {null, "", here.name, here.name, here.name, here.name};
            int[] timeouts = {1000, 1000, 0, -1, 60000, 60000};
            long[] producers = {-1, -1, -1, -1, 5, -1};
            int[] epochs = {-1, -1, -1, -1, -1, 3};
            for (int i = 0; i < ids.length; i++)
                found.add(here.raw().ask(ApiKeys.INIT_PRODUCER_ID, 5, new InitProducerIdRequestData().setTransactionalId(ids[i])
                    .setTransactionTimeoutMs(timeouts[i]).setProducerId(producers[i]).setProducerEpoch((short) epochs[i]))
                    .replaceAll("producerId=[0-9]+", "producerId=N"));
            return found;
        });
        all.add("raw-end-txn-odd", here -> {
            List<Object> found = new ArrayList<>();
            for (int version : new int[] {0, 4, 5})
                for (String id : List.of("", here.name))
                    found.add(here.raw().ask(ApiKeys.END_TXN, version,
                        new EndTxnRequestData().setTransactionalId(id).setProducerId(7).setProducerEpoch((short) 0).setCommitted(true)));
            return found;
        });
        all.add("raw-add-partitions-odd", here -> {
            String topic = here.topic(1);
            List<Object> found = new ArrayList<>();
            for (List<Integer> partitions : List.of(List.of(0), List.of(9))) {
                var topics = new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopicCollection();
                topics.add(new AddPartitionsToTxnRequestData.AddPartitionsToTxnTopic().setName(topic).setPartitions(partitions));
                found.add(here.raw().ask(ApiKeys.ADD_PARTITIONS_TO_TXN, 3, new AddPartitionsToTxnRequestData()
                    .setV3AndBelowTransactionalId(here.name).setV3AndBelowProducerId(7).setV3AndBelowProducerEpoch((short) 0).setV3AndBelowTopics(topics)));
            }
            return found;
        });
        all.add("raw-unserved", here -> {
            List<Object> found = new ArrayList<>();
            for (ApiKeys api : List.of(ApiKeys.VOTE, ApiKeys.FETCH_SNAPSHOT, ApiKeys.BROKER_HEARTBEAT, ApiKeys.CONTROLLER_REGISTRATION))
                found.add(here.outcome(() -> here.raw().message(api, 0, 0, ApiMessageType.fromApiKey(api.id).newRequest())));
            return found;
        });
        all.add("raw-version-out-of-range", here -> {
            List<Object> found = new ArrayList<>();
            found.add(here.outcome(() -> here.raw().ask(ApiKeys.METADATA, 99, new MetadataRequestData())));
            found.add(here.outcome(() -> here.raw().ask(ApiKeys.FIND_COORDINATOR, 99, new FindCoordinatorRequestData())));
            return found;
        });
    }
}
