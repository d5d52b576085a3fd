// Writes tests/golden/group_records.txt with Kafka's own Java classes: records as the group
// coordinator appends them, and values of every version that a log may hold.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/GroupRecords.java tests/golden
// One line each: name, key in hex, value in hex or "-" for none.
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.JoinGroupRequestData.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.*;
import org.apache.kafka.coordinator.group.classic.*;
import org.apache.kafka.coordinator.group.generated.*;

public class GroupRecords {
    static final StringBuilder OUT = new StringBuilder();
    static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    static String hex(byte[] bytes) { return bytes == null ? "-" : HexFormat.of().formatHex(bytes); }

    static void line(String name, byte[] key, byte[] value) {
        OUT.append(name).append(' ').append(hex(key)).append(' ').append(hex(value)).append('\n');
    }

    static void written(String name, CoordinatorRecord record) {
        line(name, SERDE.serializeKey(record), SERDE.serializeValue(record));
    }

    static byte[] versioned(int version, Message message) {
        return MessageUtil.toVersionPrefixedBytes((short) version, message);
    }

    static ClassicGroupMember member(String id, String instance, int rebalanceMs, int sessionMs, String metadata) {
        JoinGroupRequestProtocolCollection protocols = new JoinGroupRequestProtocolCollection();
        protocols.add(new JoinGroupRequestProtocol().setName("range").setMetadata(metadata.getBytes()));
        protocols.add(new JoinGroupRequestProtocol().setName("other").setMetadata("x".getBytes()));
        return new ClassicGroupMember(id, Optional.ofNullable(instance), "client", "/127.0.0.1",
            rebalanceMs, sessionMs, "consumer", protocols);
    }

    static OffsetAndMetadata offset(long offset, OptionalInt epoch, String metadata, OptionalLong expire) {
        return new OffsetAndMetadata(offset, epoch, metadata, 1_700_000_000_123L, expire, Uuid.ZERO_UUID);
    }

    public static void main(String[] arguments) throws Exception {
        written("offset", GroupCoordinatorRecordHelpers.newOffsetCommitRecord("boards", "flights", 3,
            offset(4711L, OptionalInt.of(5), "m\u00e9ta", OptionalLong.empty())));
        written("offset_without_epoch", GroupCoordinatorRecordHelpers.newOffsetCommitRecord("g\u00fc", "t", 0,
            offset(0L, OptionalInt.empty(), "", OptionalLong.empty())));
        written("offset_with_expire", GroupCoordinatorRecordHelpers.newOffsetCommitRecord("boards", "flights", 3,
            offset(4711L, OptionalInt.empty(), "m", OptionalLong.of(1_700_000_600_000L))));
        written("offset_tombstone", GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("boards", "flights", 3));
        written("group_tombstone", GroupCoordinatorRecordHelpers.newGroupMetadataTombstoneRecord("boards"));

        Time time = (Time) java.lang.reflect.Proxy.newProxyInstance(Time.class.getClassLoader(),
            new Class<?>[] {Time.class}, (proxy, method, given) -> 1_700_000_000_456L);
        ClassicGroup group = new ClassicGroup(new LogContext(), "boards", ClassicGroupState.EMPTY, time);
        group.add(member("m-1", null, 300000, 45000, "sub-1"));
        group.add(member("m-2", "instance-2", 60000, 10000, ""));
        group.transitionTo(ClassicGroupState.PREPARING_REBALANCE);
        group.initNextGeneration();
        written("group", GroupCoordinatorRecordHelpers.newGroupMetadataRecord(group,
            Map.of("m-1", "assigned-1".getBytes(), "m-2", new byte[0])));
        ClassicGroup left = new ClassicGroup(new LogContext(), "boards", ClassicGroupState.PREPARING_REBALANCE, time,
            7, Optional.of("connect"), Optional.of("range"), Optional.empty(), Optional.of(1L));
        left.initNextGeneration();
        written("group_empty", GroupCoordinatorRecordHelpers.newGroupMetadataRecord(left, Map.of()));

        byte[] key = versioned(2, new GroupMetadataKey().setGroup("boards"));
        byte[] offsetKey = versioned(1, new OffsetCommitKey().setGroup("boards").setTopic("flights").setPartition(3));
        for (int version = 0; version <= 4; version++) {
            line("offset_value_v" + version, offsetKey, versioned(version, new OffsetCommitValue().setOffset(12L)
                .setLeaderEpoch(version >= 3 ? 9 : -1).setMetadata("meta").setCommitTimestamp(99L)
                .setExpireTimestamp(version == 1 ? 100L : -1L)));
            line("group_value_v" + version, key, versioned(version, new GroupMetadataValue().setProtocolType("consumer")
                .setGeneration(3).setProtocol("range").setLeader("m-1").setCurrentStateTimestamp(version >= 2 ? 77L : -1L)
                .setMembers(List.of(
                    new GroupMetadataValue.MemberMetadata().setMemberId("m-1")
                        .setGroupInstanceId(version >= 3 ? "i-1" : null).setClientId("c").setClientHost("/h")
                        .setRebalanceTimeout(version >= 1 ? 20000 : -1).setSessionTimeout(10000)
                        .setSubscription("s".getBytes()).setAssignment("a".getBytes()),
                    new GroupMetadataValue.MemberMetadata().setMemberId("m-2").setClientId("c").setClientHost("/h")
                        .setRebalanceTimeout(version >= 1 ? 30000 : -1).setSessionTimeout(15000)
                        .setSubscription(new byte[0]).setAssignment(new byte[0])))));
        }
        line("newer_group_kind", versioned(11, new ShareGroupMetadataKey().setGroupId("boards")), null);
        for (String text : new String[] {"", "boards", "polygenelubricants", "gr\u00fcppe-\u65e5\u672c", "\ud83d\ude00", "connect-mirror"})
            OUT.append("hash ").append(hex(text.getBytes("UTF-8"))).append(" ").append(text.hashCode()).append(' ')
                .append(org.apache.kafka.common.utils.Utils.abs(text.hashCode()) % 50).append('\n');
        Files.writeString(Path.of(arguments[0]).resolve("group_records.txt"), OUT.toString());
    }
}
