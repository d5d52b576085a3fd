import java.nio.ByteBuffer;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;

/** What a group of one protocol answers to requests of the other, step by step. */
final class RawMigrationScenarios {
    private RawMigrationScenarios() {}

    static void register(Registry all) {
        all.add("raw-consumer-group-asked-in-classic", here -> {
            String topic = coordinated(here, 1);
            List<Object> found = new ArrayList<>();
            for (int epoch : new int[] {5, -1}) found.add(here.raw().ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, beat(here.name, "m", epoch)));
            int epoch = joined(here, topic, "m", null).memberEpoch();
            found.add(here.raw().ask(ApiKeys.DESCRIBE_GROUPS, 6, new DescribeGroupsRequestData().setGroups(List.of(here.name))));
            for (int version : new int[] {8, 9})
                for (String member : List.of("m", "stranger", ""))
                    for (int given : new int[] {epoch, epoch + 1, -1}) found.add(commit(here, version, topic, member, given));
            for (int generation : new int[] {epoch, -1}) found.add(fetch(here, "m", generation));
            var changed = heard(here, beat(here.name, "m", epoch).setServerAssignor("range"));
            found.add(changed.memberEpoch() - epoch);
            found.add(leave(here, "m", null, "m", null, "stranger", null));
            return found;
        });
        all.add("raw-consumer-group-left-empty", here -> {
            String topic = coordinated(here, 1);
            var first = joined(here, topic, "m", null);
            heard(here, beat(here.name, "m", -1));
            var second = heard(here, joining(here.name, topic, "n"));
            return List.of(second.memberEpoch() - first.memberEpoch(), second.assignment().topicPartitions().size());
        });
        all.add("raw-classic-member-in-a-consumer-group", here -> {
            String topic = coordinated(here, 1);
            List<Object> found = new ArrayList<>();
            var member = classic(here, topic, null);
            found.add(here.raw().ask(ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, new ConsumerGroupDescribeRequestData().setGroupIds(List.of(here.name))));
            joined(here, topic, "m", "i");
            int epoch = joinedAgain(here, topic, member.memberId()).generationId();
            for (int version : new int[] {8, 9})
                for (int given : new int[] {epoch, epoch + 1, -1}) found.add(commit(here, version, topic, member.memberId(), given));
            for (int generation : new int[] {epoch, epoch + 1, -1}) found.add(fetch(here, member.memberId(), generation));
            found.add(leave(here, "m", "i", member.memberId(), "i", "", "x"));
            found.add(here.raw().ask(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, beat(here.name, "m", epoch).setInstanceId("i")));
            return found;
        });
    }

    /** Creates a topic and waits for the coordinator of the group. */
    static String coordinated(Here here, int partitions) throws Exception {
        String topic = here.topic(partitions);
        for (int i = 0; i < 200; i++) {
            here.raw().ask(ApiKeys.FIND_COORDINATOR, 6, new FindCoordinatorRequestData().setKeyType((byte) 0).setCoordinatorKeys(List.of(here.name)));
            if (fetch(here, null, -1).equals((short) 0)) return topic;
            Thread.sleep(50);
        }
        throw new IllegalStateException("no coordinator");
    }

    private static ConsumerGroupHeartbeatRequestData beat(String group, String member, int epoch) {
        return new ConsumerGroupHeartbeatRequestData().setGroupId(group).setMemberId(member).setMemberEpoch(epoch);
    }

    private static ConsumerGroupHeartbeatRequestData joining(String group, String topic, String member) {
        return beat(group, member, 0).setRebalanceTimeoutMs(10_000).setSubscribedTopicNames(List.of(topic)).setTopicPartitions(List.of());
    }

    private static ConsumerGroupHeartbeatResponseData heard(Here here, ConsumerGroupHeartbeatRequestData request) throws Exception {
        return (ConsumerGroupHeartbeatResponseData) here.raw().message(ApiKeys.CONSUMER_GROUP_HEARTBEAT, 1, 1, request);
    }

    /** Joins; returns when the coordinator has heard of the topic, which in Kafka may take a moment. */
    private static ConsumerGroupHeartbeatResponseData joined(Here here, String topic, String member, String instance) throws Exception {
        var joined = heard(here, joining(here.name, topic, member).setInstanceId(instance));
        var described = new ConsumerGroupDescribeRequestData().setGroupIds(List.of(here.name));
        for (int i = 0; i < 100; i++) {
            String now = here.raw().ask(ApiKeys.CONSUMER_GROUP_DESCRIBE, 1, described);
            if (now.contains("topicName='" + topic + "'")) break;
            Thread.sleep(50);
            var again = heard(here, beat(here.name, member, joined.memberEpoch()).setInstanceId(instance));
            if (again.errorCode() == 0) joined = again;
        }
        return joined;
    }

    private static JoinGroupRequestData asClassic(Here here, String topic, String member, String instance) {
        ByteBuffer metadata = ConsumerProtocol.serializeSubscription(new Subscription(List.of(topic)));
        byte[] bytes = new byte[metadata.remaining()];
        metadata.get(bytes);
        var protocols = new JoinGroupRequestData.JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestData.JoinGroupRequestProtocol().setName("range").setMetadata(bytes));
        return new JoinGroupRequestData().setGroupId(here.name).setMemberId(member).setGroupInstanceId(instance).setProtocolType("consumer")
            .setProtocols(protocols).setSessionTimeoutMs(10_000).setRebalanceTimeoutMs(10_000);
    }

    /** A member of a classic group that has been given nothing yet. */
    private static JoinGroupResponseData classic(Here here, String topic, String instance) throws Exception {
        var raw = here.raw();
        var first = (JoinGroupResponseData) raw.message(ApiKeys.JOIN_GROUP, 9, 9, asClassic(here, topic, "", instance));
        var joined = (JoinGroupResponseData) raw.message(ApiKeys.JOIN_GROUP, 9, 9, asClassic(here, topic, first.memberId(), instance));
        raw.ask(ApiKeys.SYNC_GROUP, 5, new SyncGroupRequestData().setGroupId(here.name).setMemberId(joined.memberId())
            .setGenerationId(joined.generationId()).setProtocolType("consumer").setProtocolName("range"));
        return joined;
    }

    private static JoinGroupResponseData joinedAgain(Here here, String topic, String member) throws Exception {
        return (JoinGroupResponseData) here.raw().message(ApiKeys.JOIN_GROUP, 9, 9, asClassic(here, topic, member, null));
    }

    private static Object commit(Here here, int version, String topic, String member, int generation) throws Exception {
        return here.raw().ask(ApiKeys.OFFSET_COMMIT, version, new OffsetCommitRequestData().setGroupId(here.name).setMemberId(member)
            .setGenerationIdOrMemberEpoch(generation).setTopics(List.of(new OffsetCommitRequestData.OffsetCommitRequestTopic().setName(topic)
                .setPartitions(List.of(new OffsetCommitRequestData.OffsetCommitRequestPartition().setPartitionIndex(0).setCommittedOffset(1))))));
    }

    private static Object fetch(Here here, String member, int generation) throws Exception {
        var fetched = (OffsetFetchResponseData) here.raw().message(ApiKeys.OFFSET_FETCH, 9, 9, new OffsetFetchRequestData().setGroups(List.of(
            new OffsetFetchRequestData.OffsetFetchRequestGroup().setGroupId(here.name).setMemberId(member).setMemberEpoch(generation))));
        return fetched.groups().get(0).errorCode();
    }

    /** Pairs of member and instance id; returns the error of each. */
    private static Object leave(Here here, String... pairs) throws Exception {
        var members = new ArrayList<LeaveGroupRequestData.MemberIdentity>();
        for (int i = 0; i < pairs.length; i += 2)
            members.add(new LeaveGroupRequestData.MemberIdentity().setMemberId(pairs[i]).setGroupInstanceId(pairs[i + 1]));
        var left = (LeaveGroupResponseData) here.raw().message(ApiKeys.LEAVE_GROUP, 5, 5,
            new LeaveGroupRequestData().setGroupId(here.name).setMembers(members));
        return left.members().stream().map(each -> (int) each.errorCode()).toList();
    }
}
