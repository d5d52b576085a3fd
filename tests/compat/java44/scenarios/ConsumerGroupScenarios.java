import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;

/** Groups of the consumer protocol (KIP-848). */
final class ConsumerGroupScenarios {
    private ConsumerGroupScenarios() {}

    static void register(Registry all) {
        for (String assignor : List.of("uniform", "range"))
            all.add("consumer-" + assignor, here -> {
                String topic = here.topic(4);
                var first = join(here, topic, "group.remote.assignor", assignor);
                here.poll(() -> first.assignment().size() == 4, first);
                var second = join(here, topic, "group.remote.assignor", assignor);
                boolean shared = here.poll(() -> first.assignment().size() == 2 && second.assignment().size() == 2, first, second);
                Object both = GroupText.described(here, here.name).toString().replaceAll("-t1-[0-3]", "-P");
                second.close();
                return Here.fields("shared", shared, "described", both, "back", here.poll(() -> first.assignment().size() == 4, first));
            });
        all.add("consumer-unknown-assignor", here -> {
            var member = join(here, here.topic(1), "group.remote.assignor", "no-such-one");
            return here.outcome(() -> polled(member, 15_000));
        });
        all.add("consumer-described", here -> {
            var member = join(here, here.topic(1), "client.rack", "r1", "client.id", "one");
            here.poll(() -> !member.assignment().isEmpty(), member);
            return List.of(GroupText.described(here, here.name), GroupText.classic(here, here.name));
        });
        all.add("consumer-described-with-operations", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            var options = new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true);
            return new TreeSet<>(here.admin().describeConsumerGroups(List.of(here.name), options).all().get().get(here.name).authorizedOperations());
        });
        all.add("consumer-listed", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            return Here.fields("stable", GroupText.listed(here, here.name, new ListGroupsOptions()),
                "of_type", GroupText.listed(here, here.name, new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER))),
                "of_other", GroupText.listed(here, here.name, new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))),
                "consumers", GroupText.listed(here, here.name, ListGroupsOptions.forConsumerGroups()));
        });
        all.add("consumer-pattern", here -> {
            here.topic(1);
            var member = here.consumer("group.id", here.name, "group.protocol", "consumer");
            member.subscribe(new SubscriptionPattern(here.name + "-t.*"));
            boolean first = here.poll(() -> member.assignment().size() == 1, member);
            return Here.fields("first", first, "held", GroupText.partitions(member.assignment()));
        });
        all.addSlow("consumer-pattern-finds-a-new-topic", here -> {
            here.topic(1);
            var member = here.consumer("group.id", here.name, "group.protocol", "consumer");
            member.subscribe(new SubscriptionPattern(here.name + "-t.*"));
            here.poll(() -> member.assignment().size() == 1, member);
            here.topic(1);
            return here.poll(() -> member.assignment().size() == 2, member);
        });
        all.add("consumer-pattern-refused", here -> {
            List<Object> found = new ArrayList<>();
            for (String pattern : List.of("(", "(?=a)b", "a**", "[z-a]")) {
                var member = here.consumer("group.id", here.name + found.size(), "group.protocol", "consumer");
                member.subscribe(new SubscriptionPattern(pattern));
                found.add(here.outcome(() -> polled(member, 15_000)));
            }
            return found;
        });
        all.add("consumer-client-side-pattern", here -> {
            here.topic(2);
            var member = here.consumer("group.id", here.name, "group.protocol", "consumer");
            member.subscribe(java.util.regex.Pattern.compile(here.name + "-t.*"));
            return here.poll(() -> member.assignment().size() == 2, member);
        });
        all.add("consumer-static-member-comes-back", here -> {
            String topic = here.topic(2);
            var first = join(here, topic, "group.instance.id", "a");
            var second = join(here, topic, "group.instance.id", "b");
            here.poll(() -> first.assignment().size() == 1 && second.assignment().size() == 1, first, second);
            String held = GroupText.partitions(second.assignment());
            second.close();
            var again = join(here, topic, "group.instance.id", "b");
            here.poll(() -> !again.assignment().isEmpty(), first, again);
            return held.equals(GroupText.partitions(again.assignment()));
        });
        all.add("consumer-static-member-twice", here -> {
            String topic = here.topic(1);
            var first = join(here, topic, "group.instance.id", "a");
            here.poll(() -> !first.assignment().isEmpty(), first);
            var second = join(here, topic, "group.instance.id", "a");
            return here.outcome(() -> polled(second, 15_000));
        });
        all.add("consumer-static-members-removed", here -> {
            var member = join(here, here.topic(1), "group.instance.id", "a");
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.close(); // It stays in the group; a running one would join again.
            var a = new MemberToRemove("a");
            return Here.fields("known", here.outcome(here.admin().removeMembersFromConsumerGroup(here.name,
                new RemoveMembersFromConsumerGroupOptions(List.of(a))).memberResult(a)), "again",
                here.outcome(here.admin().removeMembersFromConsumerGroup(here.name, new RemoveMembersFromConsumerGroupOptions(List.of(a))).memberResult(a)));
        });
        all.add("consumer-commit-and-continue", here -> {
            String topic = ConsumerScenarios.letters(here);
            var member = join(here, topic, "max.poll.records", "2");
            var read = here.read(member, 2);
            member.commitSync();
            member.close();
            return Here.fields("read", read, "next", here.read(join(here, topic), 1));
        });
        all.add("consumer-commit-of-a-stranger", here -> {
            String topic = here.topic(1);
            var member = join(here, topic);
            here.poll(() -> !member.assignment().isEmpty(), member);
            var stranger = ConsumerScenarios.assigned(here, topic, "group.id", here.name, "group.protocol", "consumer");
            return here.failure(() -> stranger.commitSync(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1))));
        });
        all.add("consumer-group-deleted", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            Object active = here.outcome(here.admin().deleteConsumerGroups(List.of(here.name)).all());
            member.close();
            here.until(() -> GroupText.listed(here, here.name, new ListGroupsOptions()).contains("Empty"));
            Object empty = GroupText.described(here, here.name);
            return Here.fields("active", active, "empty", empty, "deleted", here.outcome(here.admin().deleteConsumerGroups(List.of(here.name)).all()),
                "then", GroupText.described(here, here.name));
        });
        all.add("consumer-topic-grows", here -> {
            String topic = here.topic(1);
            var member = join(here, topic);
            here.poll(() -> member.assignment().size() == 1, member);
            here.admin().createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            return here.poll(() -> member.assignment().size() == 3, member);
        });
        all.add("consumer-topic-created-later", here -> {
            var member = join(here, here.name + "-t1");
            here.poll(() -> member.groupMetadata().memberId() != null, member);
            member.poll(Duration.ofMillis(300));
            here.topic(2);
            return here.poll(() -> member.assignment().size() == 2, member);
        });
        all.add("consumer-changes-subscription", here -> {
            String topic = here.topic(1);
            String other = here.topic(1);
            var member = join(here, topic);
            here.poll(() -> member.assignment().size() == 1, member);
            member.subscribe(List.of(other));
            return here.poll(() -> GroupText.partitions(member.assignment()).equals(other + "-0"), member);
        });
        all.add("consumer-unsubscribe", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.unsubscribe();
            here.until(() -> GroupText.listed(here, here.name, new ListGroupsOptions()).contains("Empty"));
            return GroupText.described(here, here.name);
        });
        all.add("consumer-remains-in-the-group", here -> {
            var member = join(here, here.topic(1));
            here.poll(() -> !member.assignment().isEmpty(), member);
            member.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP));
            return GroupText.described(here, here.name);
        });
        all.add("consumer-heartbeat-interval-of-a-group", here -> {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, here.name);
            ConfigScenarios.alter(here, resource, "consumer.heartbeat.interval.ms", "6000", AlterConfigOp.OpType.SET);
            var member = join(here, here.topic(1));
            boolean joined = here.poll(() -> !member.assignment().isEmpty(), member);
            Object deleted = ConfigScenarios.alter(here, resource, "consumer.heartbeat.interval.ms", "", AlterConfigOp.OpType.DELETE);
            return Here.fields("joined", joined, "deleted", deleted);
        });
        all.add("consumer-metadata-of-a-member", here -> {
            var member = join(here, here.topic(1), "group.instance.id", "a");
            here.poll(() -> !member.assignment().isEmpty(), member);
            var found = member.groupMetadata();
            return Here.fields("group", found.groupId(), "epoch", found.generationId() > 0, "instance", found.groupInstanceId());
        });
    }

    static Object polled(Consumer<?, ?> consumer, long milliseconds) {
        long endMs = System.currentTimeMillis() + milliseconds;
        while (System.currentTimeMillis() < endMs) consumer.poll(Duration.ofMillis(100));
        return "no error";
    }

    static KafkaConsumer<String, String> join(Here here, String topic, String... configs) {
        List<String> all = new ArrayList<>(List.of("group.protocol", "consumer"));
        all.addAll(List.of(configs));
        return ClassicGroupScenarios.join(here, topic, all.toArray(new String[0]));
    }
}
