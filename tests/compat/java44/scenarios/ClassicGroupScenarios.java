import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;

/** Groups of the classic protocol. */
final class ClassicGroupScenarios {
    private static final String PACKAGE = "org.apache.kafka.clients.consumer.";

    private ClassicGroupScenarios() {}

    static void register(Registry all) {
        for (String assignor : List.of("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"))
            all.add("classic-" + assignor.toLowerCase(), here -> {
                String topic = here.topic(4);
                var first = join(here, topic, "partition.assignment.strategy", PACKAGE + assignor);
                here.poll(() -> first.assignment().size() == 4, first);
                var second = join(here, topic, "partition.assignment.strategy", PACKAGE + assignor);
                boolean shared = here.poll(() -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
                Object both = GroupText.described(here, here.name);
                second.close();
                boolean back = here.poll(() -> first.assignment().size() == 4, first);
                return Here.fields("shared", shared, "described", both, "back", back);
            });
        all.add("classic-listed", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            Object stable = GroupText.listed(here, here.name, new ListGroupsOptions());
            Object ofType = GroupText.listed(here, here.name, new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC)));
            Object ofOther = GroupText.listed(here, here.name, new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)));
            Object ofState = GroupText.listed(here, here.name, new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)));
            Object ofProtocol = GroupText.listed(here, here.name, new ListGroupsOptions().withProtocolTypes(Set.of("connect")));
            Object consumers = GroupText.listed(here, here.name, ListGroupsOptions.forConsumerGroups());
            member.close();
            boolean empties = here.until(() -> GroupText.listed(here, here.name, new ListGroupsOptions().inGroupStates(Set.of(GroupState.EMPTY)))
                .contains("EMPTY") || GroupText.listed(here, here.name, new ListGroupsOptions()).contains("Empty"));
            return Here.fields("stable", stable, "of_type", ofType, "of_other", ofOther, "of_state", ofState,
                "of_protocol", ofProtocol, "consumers", consumers, "empties", empties);
        });
        all.add("classic-described-as-classic", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            return GroupText.classic(here, here.name);
        });
        all.add("classic-group-unknown", here -> List.of(GroupText.described(here, here.name), GroupText.classic(here, here.name)));
        all.add("classic-static-member-comes-back", here -> {
            String topic = here.topic(2);
            var first = join(here, topic, "group.instance.id", "a");
            var second = join(here, topic, "group.instance.id", "b");
            here.poll(() -> first.assignment().size() == 1 && second.assignment().size() == 1, first, second);
            String held = GroupText.partitions(second.assignment());
            second.close();
            var again = join(here, topic, "group.instance.id", "b");
            here.poll(() -> !again.assignment().isEmpty(), first, again);
            return Here.fields("same", held.equals(GroupText.partitions(again.assignment())), "described", GroupText.described(here, here.name));
        });
        all.add("classic-static-member-fenced", here -> {
            String topic = here.topic(1);
            var first = join(here, topic, "group.instance.id", "a");
            here.poll(() -> !first.assignment().isEmpty(), first);
            var second = join(here, topic, "group.instance.id", "a");
            here.poll(() -> !second.assignment().isEmpty(), second);
            return here.outcome(() -> {
                for (int i = 0; i < 150; i++) first.poll(Duration.ofMillis(100));
                return null;
            });
        });
        all.add("classic-static-members-removed", here -> {
            String topic = here.topic(1);
            var member = join(here, topic, "group.instance.id", "a");
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.close();
            var a = new MemberToRemove("a");
            var unknown = new MemberToRemove("unknown");
            var result = here.admin().removeMembersFromConsumerGroup(here.name, new RemoveMembersFromConsumerGroupOptions(List.of(a, unknown)));
            return Here.fields("known", here.outcome(result.memberResult(a)), "unknown", here.outcome(result.memberResult(unknown)));
        });
        all.add("classic-all-members-removed", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            Object removed = here.outcome(here.admin().removeMembersFromConsumerGroup(here.name, new RemoveMembersFromConsumerGroupOptions()).all());
            return Here.fields("removed", removed, "unknown_group", here.outcome(here.admin().removeMembersFromConsumerGroup(here.name + "-x",
                new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("a")))).all()));
        });
        all.add("classic-commit-of-a-stranger", here -> {
            String topic = here.topic(1);
            var member = join(here, topic);
            here.poll(() -> !member.assignment().isEmpty(), member);
            var stranger = ConsumerScenarios.assigned(here, topic, "group.id", here.name);
            return here.failure(() -> stranger.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1))));
        });
        all.add("classic-commit-after-removal", here -> {
            String topic = here.topic(1);
            var member = join(here, topic, "heartbeat.interval.ms", "5000", "session.timeout.ms", "20000");
            here.poll(() -> !member.assignment().isEmpty(), member);
            here.admin().removeMembersFromConsumerGroup(here.name, new RemoveMembersFromConsumerGroupOptions()).all().get();
            return here.failure(() -> member.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1))));
        });
        all.add("classic-session-timeout-refused", here -> {
            var low = join(here, here.topic(1), "session.timeout.ms", "1000", "heartbeat.interval.ms", "300");
            var high = join(here, here.topic(1), "session.timeout.ms", "2000000", "group.id", here.name + "-b", "max.poll.interval.ms", "2000000");
            return List.of(here.outcome(() -> low.poll(Duration.ofSeconds(15)).count()), here.outcome(() -> high.poll(Duration.ofSeconds(15)).count()));
        });
        all.add("classic-inconsistent-protocol", here -> {
            String topic = here.topic(1);
            var first = join(here, topic, "partition.assignment.strategy", PACKAGE + "RangeAssignor");
            here.poll(() -> !first.assignment().isEmpty(), first);
            var second = join(here, topic, "partition.assignment.strategy", PACKAGE + "RoundRobinAssignor");
            return here.outcome(() -> {
                for (int i = 0; i < 150; i++) second.poll(Duration.ofMillis(100));
                return null;
            });
        });
        all.add("classic-pattern", here -> {
            String topic = here.topic(1);
            var member = here.consumer("group.id", here.name, "metadata.max.age.ms", "500");
            member.subscribe(java.util.regex.Pattern.compile(here.name + "-t.*"));
            here.poll(() -> member.assignment().size() == 1, member);
            String next = here.topic(1);
            boolean found = here.poll(() -> member.assignment().size() == 2, member);
            return Here.fields("found", found, "held", GroupText.partitions(member.assignment()));
        });
        all.add("classic-topic-grows", here -> {
            String topic = here.topic(1);
            var member = join(here, topic, "metadata.max.age.ms", "500");
            here.poll(() -> member.assignment().size() == 1, member);
            here.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            return here.poll(() -> member.assignment().size() == 3, member);
        });
        all.add("classic-unsubscribe", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.unsubscribe();
            here.until(() -> GroupText.listed(here, here.name, new ListGroupsOptions()).contains("Empty"));
            return Here.fields("held", member.assignment().size(), "described", GroupText.described(here, here.name));
        });
        all.add("classic-enforced-rebalance", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            int before = member.groupMetadata().generationId();
            member.enforceRebalance("asked");
            return here.poll(() -> member.groupMetadata().generationId() == before + 1, member);
        });
        all.add("classic-remains-in-the-group", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
            return GroupText.listed(here, here.name, new ListGroupsOptions());
        });
        all.addSlow("classic-session-expires", here -> {
            String topic = here.topic(1);
            var gone = join(here, topic, "group.instance.id", "gone", "session.timeout.ms", "6000");
            here.poll(() -> !gone.assignment().isEmpty(), gone);
            gone.close();
            var member = join(here, topic);
            return here.poll(() -> !member.assignment().isEmpty(), member);
        });
        all.add("classic-group-id-odd", here -> {
            var consumer = here.consumer("group.id", " ");
            consumer.subscribe(List.of(here.topic(1)));
            return here.outcome(() -> consumer.poll(Duration.ofSeconds(15)).count());
        });
    }

    static KafkaConsumer<String, String> join(Here here, String topic, String... configs) {
        List<String> all = new ArrayList<>(List.of("group.id", here.name));
        all.addAll(List.of(configs));
        var consumer = here.consumer(all.toArray(new String[0]));
        consumer.subscribe(List.of(topic));
        return consumer;
    }
}
