// Writes tests/golden/consumer_group_records.txt with Kafka's own Java classes: the records of a
// KIP-848 group.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/ConsumerGroupRecords.java tests/golden
// One line each: name, key in hex, value in hex or "-" for none.
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.group.modern.*;
import org.apache.kafka.coordinator.group.modern.consumer.*;

public class ConsumerGroupRecords {
    static final StringBuilder OUT = new StringBuilder();
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    static String hex(byte[] bytes) { return bytes == null ? "-" : HexFormat.of().formatHex(bytes); }

    static void written(String name, CoordinatorRecord record) {
        OUT.append(name).append(' ').append(hex(SERDE.serializeKey(record))).append(' ')
            .append(hex(SERDE.serializeValue(record))).append('\n');
    }

    public static void main(String[] arguments) throws Exception {
        Uuid flights = new Uuid(1L, 2L);
        written("epoch", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("boards", 7, -12345678901L));
        written("epoch_without_hash", GroupCoordinatorRecordHelpers.newConsumerGroupEpochRecord("boards", 7, 0L));
        written("epoch_tombstone", GroupCoordinatorRecordHelpers.newConsumerGroupEpochTombstoneRecord("boards"));
        ConsumerGroupMember plain = new ConsumerGroupMember.Builder("m-1").setMemberEpoch(6)
            .setPreviousMemberEpoch(5).setClientId("c").setClientHost("/h").setRebalanceTimeoutMs(300000)
            .setSubscribedTopicNames(List.of("a", "b")).setState(MemberState.UNREVOKED_PARTITIONS)
            .setAssignedPartitions(Map.of(flights, new TreeMap<>(Map.of(0, 3, 1, 6))))
            .setPartitionsPendingRevocation(Map.of(flights, new TreeMap<>(Map.of(2, 4)))).build();
        ConsumerGroupMember full = new ConsumerGroupMember.Builder("m-2").setInstanceId("i").setRackId("r")
            .setClientId("c").setClientHost("/h").setSubscribedTopicRegex("fl.*").setServerAssignorName("range")
            .setRebalanceTimeoutMs(1000).setSubscribedTopicNames(List.of()).setMemberEpoch(-2)
            .setPreviousMemberEpoch(9).setState(MemberState.STABLE).build();
        written("member", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("boards", plain));
        written("member_full", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("boards", full));
        written("member_classic", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("boards",
            new ConsumerGroupMember.Builder(full).setClassicMemberMetadata(
                new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(5)).build()));
        ConsumerGroupMemberMetadataValue.ClassicMemberMetadata protocols =
            new ConsumerGroupMemberMetadataValue.ClassicMemberMetadata().setSessionTimeoutMs(45000)
                .setSupportedProtocols(List.of(
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("range").setMetadata(new byte[] {0, 1, 2}),
                    new ConsumerGroupMemberMetadataValue.ClassicProtocol().setName("cooperative-sticky").setMetadata(new byte[200])));
        written("member_classic_protocols", GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionRecord("boards",
            new ConsumerGroupMember.Builder(plain).setClassicMemberMetadata(protocols).build()));
        written("member_tombstone",
            GroupCoordinatorRecordHelpers.newConsumerGroupMemberSubscriptionTombstoneRecord("boards", "m-1"));
        written("target_epoch",
            GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentMetadataRecord("boards", 7, 99L));
        written("target", GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("boards", "m-1",
            Map.of(flights, new TreeSet<>(Set.of(0, 1, 200)))));
        written("target_of_nothing",
            GroupCoordinatorRecordHelpers.newConsumerGroupTargetAssignmentRecord("boards", "m-1", Map.of()));
        written("current", GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("boards", plain));
        written("current_of_nothing",
            GroupCoordinatorRecordHelpers.newConsumerGroupCurrentAssignmentRecord("boards", full));
        written("regex", GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionRecord("boards", "fl.*",
            new ResolvedRegularExpression(new TreeSet<>(Set.of("flights", "flocks")), 17L, 1_700_000_000_000L)));
        written("regex_tombstone",
            GroupCoordinatorRecordHelpers.newConsumerGroupRegularExpressionTombstone("boards", "fl.*"));
        Files.writeString(Path.of(arguments[0]).resolve("consumer_group_records.txt"), OUT.toString());
    }
}
