import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;

/** Descriptions of groups as results. */
final class GroupText {
    private GroupText() {}

    static Object described(Here here, String group) {
        return here.outcome(() -> {
            var found = here.admin().describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
            return Here.fields("state", found.groupState(), "type", found.type(), "assignor", found.partitionAssignor(),
                "simple", found.isSimpleConsumerGroup(), "coordinator", found.coordinator().id(),
                "epochs", found.groupEpoch().isPresent() + " " + found.targetAssignmentEpoch().isPresent(),
                "members", found.members().stream().map(GroupText::member).sorted().toList());
        });
    }

    static Object classic(Here here, String group) {
        return here.outcome(() -> {
            var found = here.admin().describeClassicGroups(List.of(group)).describedGroups().get(group).get();
            return Here.fields("state", found.state(), "protocol", found.protocol(), "data", found.protocolData(),
                "members", found.members().stream().map(GroupText::member).sorted().toList());
        });
    }

    private static String member(MemberDescription member) {
        return "instance " + member.groupInstanceId().orElse("none") + ", rack " + member.rackId().orElse("none")
            + ", host " + member.host() + ", holds " + partitions(member.assignment())
            + ", target " + member.targetAssignment().map(GroupText::partitions).orElse("none")
            + ", epoch " + member.memberEpoch().isPresent() + ", upgraded " + member.upgraded();
    }

    static String partitions(MemberAssignment assignment) {
        return partitions(assignment.topicPartitions());
    }

    static String partitions(Collection<TopicPartition> partitions) {
        return partitions.stream().map(TopicPartition::toString).sorted().collect(Collectors.joining(" "));
    }

    /** Returns type, state and protocol of a group as listed, or "none". */
    static String listed(Here here, String group, ListGroupsOptions options) throws Exception {
        return here.admin().listGroups(options).all().get().stream().filter(each -> each.groupId().equals(group))
            .map(each -> each.type() + " " + each.groupState() + " " + each.protocol() + " " + each.isSimpleConsumerGroup())
            .findFirst().orElse("none");
    }
}
