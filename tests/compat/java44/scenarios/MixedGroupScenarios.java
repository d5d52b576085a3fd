import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.*;

/** Groups whose members speak both protocols. Rolling changes under load: MigrateGroup.java. */
final class MixedGroupScenarios {
    private MixedGroupScenarios() {}

    static void register(Registry all) {
        for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor"))
            all.add("mixed-consumer-joins-" + assignor.toLowerCase(), here -> {
                String topic = here.topic(4);
                var classic = ClassicGroupScenarios.join(here, topic, "partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
                here.poll(() -> classic.assignment().size() == 4, classic);
                var newcomer = ConsumerGroupScenarios.join(here, topic);
                boolean shared = here.poll(() -> classic.assignment().size() == 2 && newcomer.assignment().size() == 2, classic, newcomer);
                String listed = GroupText.listed(here, here.name, new ListGroupsOptions());
                Object described = GroupText.described(here, here.name).toString().replaceAll("-t1-[0-3]", "-P");
                newcomer.close();
                boolean back = here.poll(() -> classic.assignment().size() == 4, classic);
                return Here.fields("shared", shared, "listed", listed, "described", described, "back", back,
                    "then", GroupText.listed(here, here.name, new ListGroupsOptions()));
            });
        all.add("mixed-classic-joins-consumer", here -> {
            String topic = here.topic(2);
            var member = ConsumerGroupScenarios.join(here, topic);
            here.poll(() -> member.assignment().size() == 2, member);
            var classic = ClassicGroupScenarios.join(here, topic);
            boolean shared = here.poll(() -> member.assignment().size() == 1 && classic.assignment().size() == 1, member, classic);
            return Here.fields("shared", shared, "listed", GroupText.listed(here, here.name, new ListGroupsOptions()));
        });
        all.add("mixed-static-member-changes-protocol", here -> {
            String topic = here.topic(2);
            var classic = ClassicGroupScenarios.join(here, topic, "group.instance.id", "a");
            here.poll(() -> classic.assignment().size() == 2, classic);
            classic.close();
            var member = ConsumerGroupScenarios.join(here, topic, "group.instance.id", "a");
            boolean held = here.poll(() -> member.assignment().size() == 2, member);
            return Here.fields("held", held, "listed", GroupText.listed(here, here.name, new ListGroupsOptions()));
        });
        all.add("mixed-empty-classic-becomes-consumer", here -> {
            String topic = ConsumerScenarios.letters(here);
            var classic = ClassicGroupScenarios.join(here, topic, "max.poll.records", "2");
            here.read(classic, 2);
            classic.commitSync();
            classic.close();
            var member = ConsumerGroupScenarios.join(here, topic);
            return Here.fields("read", here.read(member, 1), "listed", GroupText.listed(here, here.name, new ListGroupsOptions()));
        });
        all.add("mixed-empty-consumer-becomes-classic", here -> {
            String topic = ConsumerScenarios.letters(here);
            var member = ConsumerGroupScenarios.join(here, topic, "max.poll.records", "2");
            here.read(member, 2);
            member.commitSync();
            member.close();
            var classic = ClassicGroupScenarios.join(here, topic);
            return Here.fields("read", here.read(classic, 1), "listed", GroupText.listed(here, here.name, new ListGroupsOptions()));
        });
        all.add("mixed-offsets-of-a-consumer-group-altered", here -> {
            String topic = here.topic(1);
            var member = ConsumerGroupScenarios.join(here, topic);
            here.poll(() -> !member.assignment().isEmpty(), member);
            Object active = OffsetScenarios.alter(here, new TopicPartition(topic, 0), new OffsetAndMetadata(1));
            member.close();
            here.until(() -> GroupText.listed(here, here.name, new ListGroupsOptions()).contains("Empty"));
            return Here.fields("active", active, "empty", OffsetScenarios.alter(here, new TopicPartition(topic, 0), new OffsetAndMetadata(1)));
        });
        all.add("mixed-other-protocol-type", here -> {
            String topic = here.topic(1);
            var member = ConsumerGroupScenarios.join(here, topic);
            here.poll(() -> !member.assignment().isEmpty(), member);
            return RawGroupScenarios.join(here, here.name, "connect", "default");
        });
    }
}
