import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/** Requests for groups that no client of 4.4 sends. */
final class RawGroupScenarios {
    private RawGroupScenarios() {}

    static void register(Registry all) {
        all.add("raw-delete-groups-3", here -> {
            String topic = here.topic(1);
            var member = ClassicGroupScenarios.join(here, topic);
            here.poll(() -> !member.assignment().isEmpty(), member);
            return List.of(here.raw().ask(ApiKeys.DELETE_GROUPS, 3, new DeleteGroupsRequestData().setGroupsNames(
                List.of(here.name)))
                , here.raw().ask(ApiKeys.DELETE_GROUPS, 3, new DeleteGroupsRequestData().setGroupsNames(List.of(here.name + "-x"))),
                here.raw().ask(ApiKeys.DELETE_GROUPS, 3, new DeleteGroupsRequestData().setGroupsNames(List.of(""))), here.raw().ask(ApiKeys.DELETE_GROUPS, 3, new DeleteGroupsRequestData()));
        });
        all.add("raw-txn-offset-commit-6", here -> {
            String topic = here.topic(1);
            Uuid id = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            var producer = TransactionScenarios.begun(here, topic, "a");
            var partition = new org.apache.kafka.common.TopicPartition(topic, 0);
            var state = here.admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            List<Object> found = new ArrayList<>();
            for (Uuid each : List.of(id, new Uuid(7, 7), Uuid.ZERO_UUID))
                found.add(here.raw().ask(ApiKeys.TXN_OFFSET_COMMIT, 6, commit(here, state.producerId(), state.producerEpoch(), each, 0)));
            found.add(here.raw().ask(ApiKeys.TXN_OFFSET_COMMIT, 6, commit(here, state.producerId(), state.producerEpoch(), id, 9)));
            found.add(here.raw().ask(ApiKeys.TXN_OFFSET_COMMIT, 6, commit(here, state.producerId(), state.producerEpoch() + 5, id, 0)));
            producer.commitTransaction();
            found.add(here.until(() -> here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata().get().size() == 1));
            return found;
        });
        all.add("raw-offset-commit-10", here -> {
            String topic = here.topic(1);
            Uuid id = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            List<Object> found = new ArrayList<>();
            for (Uuid each : List.of(id, new Uuid(7, 7), Uuid.ZERO_UUID))
                found.add(here.raw().ask(ApiKeys.OFFSET_COMMIT, 10, new OffsetCommitRequestData().setGroupId(here.name).setTopics(List.of(
                    new OffsetCommitRequestData.OffsetCommitRequestTopic().setTopicId(each).setPartitions(List.of(
                        new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(0).setCommittedOffset(1)))))));
            return found;
        });
        all.add("raw-offset-fetch-10", here -> {
            String topic = here.topic(1);
            Uuid id = here.admin().describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
            List<Object> found = new ArrayList<>();
            for (Uuid each : List.of(id, new Uuid(7, 7), Uuid.ZERO_UUID))
                found.add(here.raw().ask(ApiKeys.OFFSET_FETCH, 10, new OffsetFetchRequestData().setGroups(List.of(
                    new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(here.name).setTopics(List.of(
                        new OffsetFetchRequestData.OffsetFetchRequestTopics().setTopicId(each).setPartitionIndexes(List.of(0))))))));
            found.add(here.raw().ask(ApiKeys.OFFSET_FETCH, 9, new OffsetFetchRequestData().setGroups(List.of(
                new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(here.name).setMemberId("stranger").setMemberEpoch(4)))));
            return found;
        });
        all.add("raw-find-coordinator", here -> {
            List<Object> found = new ArrayList<>();
            for (int type : new int[] {0, 1, 2, 3, -1})
                found.add(here.raw().ask(ApiKeys.FIND_COORDINATOR, 6, new FindCoordinatorRequestData().setKeyType((byte) type)
                    .setCoordinatorKeys(List.of(here.name, ""))).replaceAll("port=[0-9]+", "port=N"));
            found.add(here.raw().ask(ApiKeys.FIND_COORDINATOR, 3, new FindCoordinatorRequestData().setKeyType((byte) 0).setKey("")));
            return found;
        });
        all.add("raw-join-group-odd", here -> List.of(join(here, "", "consumer", "range"), join(here, here.name, "", "range"),
            join(here, here.name, "consumer"), join(here, here.name + "-b", "consumer", "range")));
        all.add("raw-member-requests-of-strangers", here -> {
            List<Object> found = new ArrayList<>();
            for (String group : List.of("", here.name)) {
                found.add(here.raw().ask(ApiKeys.HEARTBEAT, 4, new HeartbeatRequestData().setGroupId(group).setMemberId("m").setGenerationId(1)));
                found.add(here.raw().ask(ApiKeys.SYNC_GROUP, 5, new SyncGroupRequestData().setGroupId(group).setMemberId("m").setGenerationId(1)
                    .setProtocolType("consumer").setProtocolName("range")));
                found.add(here.raw().ask(ApiKeys.LEAVE_GROUP, 5, new LeaveGroupRequestData().setGroupId(group).setMembers(List.of(
                    new LeaveGroupRequestData.MemberIdentity().setMemberId("m"), new LeaveGroupRequestData.MemberIdentity().setGroupInstanceId("i")))));
            }
            return found;
        });
        all.add("raw-consumer-heartbeat-odd", here -> {
            String topic = RawMigrationScenarios.coordinated(here, 1);
            List<Object> found = new ArrayList<>();
            for (var request : List.of(
                    heartbeat("", "m", 0).setSubscribedTopicNames(List.of(topic)),
                    heartbeat(here.name, "", 0).setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of()),
                    heartbeat(here.name, "m", 0).setTopicPartitions(List.of()),
                    heartbeat(here.name, "m", 0).setSubscribedTopicNames(List.of()).setTopicPartitions(List.of()),
                    heartbeat(here.name, "m", 0).setSubscribedTopicNames(List.of(topic)),
                    heartbeat(here.name, "m", 0).setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of()).setRebalanceTimeoutMs(-1),
                    heartbeat(here.name, "m", -3),
                    heartbeat(here.name, "m", -2),
                    heartbeat(here.name, "m", 5),
                    heartbeat(here.name, "m", -1),
                    heartbeat(here.name, "m", 0).setInstanceId("").setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of()),
                    heartbeat(here.name, "m", 0).setRackId("").setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of()),
                    heartbeat(here.name, "m", 0).setServerAssignor("nobody").setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of())))
                found.add(here.raw().ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, request));
            return found;
        });
        all.add("raw-consumer-member-step-by-step", here -> {
            String topic = RawMigrationScenarios.coordinated(here, 2);
            Raw raw = here.raw();
            List<Object> found = new ArrayList<>();
            var full = heartbeat(here.name, "m", 0).setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of());
            var joined = (ConsumerGroupHeartbeatResponseData) raw.message(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, 1, full);
            // Kafka's coordinator may hear of a new topic after its first member.
            for (int i = 0; i < 100 && (joined.assignment() == null || joined.assignment().topicPartitions().isEmpty()); i++) {
                Thread.sleep(50);
                var again = heartbeat(here.name, "m", joined.memberEpoch());
                joined = (ConsumerGroupHeartbeatResponseData) raw.message(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, 1, again);
            }
            int epoch = joined.memberEpoch(); // the first epoch is the broker's affair
            for (var request : List.of(heartbeat(here.name, "m", epoch), full, heartbeat(here.name, "m", epoch + 9),
                    heartbeat(here.name, "m", -2), heartbeat(here.name, "n", epoch), heartbeat(here.name, "m", -1), heartbeat(here.name, "m", epoch)))
                found.add(raw.ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, request).replaceAll("topicId=[^,]*", "topicId=ID")
                    .replaceAll("memberEpoch=" + epoch + "\\b", "memberEpoch=E").replace("(" + epoch + ")", "(E)").replace("(" + (epoch + 9) + ")", "(E+9)"));
            return found;
        });
        all.add("raw-groups-described", here -> List.of(
            here.raw().ask(ApiKeys.DESCRIBE_GROUPS, 6, new DescribeGroupsRequestData().setGroups(List.of(here.name))),
            here.raw().ask(ApiKeys.DESCRIBE_GROUPS, 6, new DescribeGroupsRequestData().setGroups(List.of(""))),
            here.raw().ask(ApiKeys.DESCRIBE_GROUPS, 5, new DescribeGroupsRequestData().setGroups(List.of(here.name))),
            here.raw().ask(ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, new ConsumerGroupDescribeRequestData().setGroupIds(List.of(here.name))),
            here.raw().ask(ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, new ConsumerGroupDescribeRequestData().setGroupIds(List.of(""))),
            here.raw().ask(ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, new ConsumerGroupDescribeRequestData())));
        all.add("raw-groups-listed-odd", here -> List.of(
            here.raw().ask(ApiKeys.LIST_GROUPS, 5, new ListGroupsRequestData().setStatesFilter(List.of("Nowhere"))),
            here.raw().ask(ApiKeys.LIST_GROUPS, 5, new ListGroupsRequestData().setTypesFilter(List.of("planet")))));
        all.add("raw-offset-delete", here -> {
            var topics = new OffsetDeleteRequestData.OffsetDeleteRequestTopicCollection();
            topics.add(new OffsetDeleteRequestData.OffsetDeleteRequestTopic().setName(here.topic(1)).setPartitions(List.of(
                new OffsetDeleteRequestData.OffsetDeleteRequestPartition().setPartitionIndex(0))));
            return List.of(here.raw().ask(ApiKeys.OFFSET_DELETE, 0, new OffsetDeleteRequestData().setGroupId(here.name).setTopics(topics)),
                here.raw().ask(ApiKeys.OFFSET_DELETE, 0, new OffsetDeleteRequestData().setGroupId("")));
        });
    }

    static Object join(Here here, String group, String type, String... protocols) throws Exception {
        var collection = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        for (String protocol : protocols)
            collection.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName(protocol).setMetadata(new byte[] {0, 0}));
        return here.raw().ask(ApiKeys.JOIN_GROUP, 9, new JoinGroupRequestData().setGroupId(group).setMemberId("")
            .setProtocolType(type).setProtocols(collection).setSessionTimeoutMs(10_000).setRebalanceTimeoutMs(10_000));
    }

    private static ConsumerGroupHeartbeatRequestData heartbeat(String group, String member, int epoch) {
        return new ConsumerGroupHeartbeatRequestData().setGroupId(group).setMemberId(member).setMemberEpoch(epoch).setRebalanceTimeoutMs(10_000);
    }

    private static TxnOffsetCommitRequestData commit(Here here, long producer, int epoch, Uuid topic, int partition) {
        return new TxnOffsetCommitRequestData().setTransactionalId(here.name).setGroupId(here.name).setProducerId(producer)
            .setProducerEpoch((short) epoch).setTopics(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic().setTopicId(topic)
                .setPartitions(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition().setPartitionIndex(partition).setCommittedOffset(1)))));
    }
}
