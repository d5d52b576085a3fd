// Writes tests/golden/transaction_records.txt with Kafka's own Java classes: one transactional id
// from its first producer on, each step as the transaction coordinator of 4.3 appends it.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/TransactionRecords.java tests/golden
// One line each: name, key in hex, value in hex or "-" for none.
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.coordinator.transaction.*;
import org.apache.kafka.server.common.TransactionVersion;

public class TransactionRecords {
    static final StringBuilder OUT = new StringBuilder();
    static final TransactionVersion V0 = TransactionVersion.TV_0, V2 = TransactionVersion.TV_2;
    static final TransactionState COMMIT = TransactionState.PREPARE_COMMIT, ABORT = TransactionState.PREPARE_ABORT;
    static final long START = 1_700_000_000_000L;
    static long now = START;
    static final TransactionMetadata TX = new TransactionMetadata("tx-\u00fc", 7, -1, -1, (short) -1,
        (short) -1, 60_000, TransactionState.EMPTY, Set.of(), -1, START, V0);

    static void line(String name, TxnTransitMetadata step, TransactionVersion cluster) {
        byte[] value = step == null ? null : TransactionLog.valueToBytes(step, cluster);
        OUT.append(name).append(' ').append(HexFormat.of().formatHex(TransactionLog.keyToBytes("tx-\u00fc")))
            .append(' ').append(value == null ? "-" : HexFormat.of().formatHex(value)).append('\n');
    }

    static void step(String name, TxnTransitMetadata step) {
        line(name, step, V2);
        TX.completeTransitionTo(step);
        now++;
    }

    public static void main(String[] arguments) throws Exception {
        Set<TopicPartition> first = Set.of(new TopicPartition("t", 0)), second = Set.of(new TopicPartition("u", 4));
        step("init", TX.prepareIncrementProducerEpoch(60_000, Optional.empty(), now));
        step("add", TX.prepareAddPartitions(first, now, V2));
        step("add_more", TX.prepareAddPartitions(second, now, V2));
        step("prepare_commit", TX.prepareAbortOrCommit(COMMIT, V2, -1, now, false));
        step("complete_commit", TX.prepareComplete(now));
        step("prepare_abort_of_nothing", TX.prepareAbortOrCommit(ABORT, V2, -1, now, true));
        step("complete_abort", TX.prepareComplete(now));
        step("init_again", TX.prepareIncrementProducerEpoch(30_000, Optional.of((short) 2), now));
        step("add_version_1", TX.prepareAddPartitions(first, now, V0));
        line("version_1_cluster", TX.prepareAbortOrCommit(COMMIT, V0, -1, now, false), V0);
        TX.pendingState(Optional.empty());
        step("prepare_commit_version_1", TX.prepareAbortOrCommit(COMMIT, V0, -1, now, false));
        step("complete_commit_version_1", TX.prepareComplete(now));
        TX.setProducerEpoch((short) (Short.MAX_VALUE - 1));
        step("add_at_last_epoch", TX.prepareAddPartitions(second, now, V2));
        step("prepare_commit_at_last_epoch", TX.prepareAbortOrCommit(COMMIT, V2, 8, now, false));
        step("complete_commit_new_id", TX.prepareComplete(now));
        step("rotation", TX.prepareProducerIdRotation(9, 60_000, now, false));
        line("expired", null, V2);
        Files.writeString(Path.of(arguments[0], "transaction_records.txt"), OUT);
    }
}
