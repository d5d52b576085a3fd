// Writes the record batches in tests/golden/record_batch_*.hex with Kafka's own Java classes.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/RecordBatches.java tests/golden
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.HexFormat;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.internal.*;

public class RecordBatches {
    static byte[] bytes(String text) { return text == null ? null : text.getBytes(StandardCharsets.UTF_8); }

    static SimpleRecord record(int index) {
        String key = index % 3 == 0 ? null : "key-" + index;
        String value = index % 5 == 4 ? null : "value-" + index + "-" + "x".repeat(index * 7);
        Header[] headers = index % 2 == 0 ? new Header[0]
            : new Header[] {new RecordHeader("trace", bytes("t" + index)), new RecordHeader("none", (byte[]) null)};
        return new SimpleRecord(1_700_000_000_000L + (index % 4) * 1000L - index, bytes(key), bytes(value), headers);
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        SimpleRecord[] records = new SimpleRecord[40];
        for (int index = 0; index < records.length; index++) records[index] = record(index);
        Compression[] codecs = {Compression.NONE, Compression.gzip().build(), Compression.snappy().build(),
            Compression.lz4().build(), Compression.zstd().build()};
        String[] names = {"none", "gzip", "snappy", "lz4", "zstd"};
        for (int index = 0; index < codecs.length; index++) {
            MemoryRecords batch = MemoryRecords.withIdempotentRecords(RecordBatch.CURRENT_MAGIC_VALUE, 1234L,
                codecs[index], 4711L, (short) 3, 17, 9, records);
            ByteBuffer buffer = batch.buffer();
            byte[] out = new byte[buffer.remaining()];
            buffer.get(out);
            Files.writeString(directory.resolve("record_batch_" + names[index] + ".hex"), HexFormat.of().formatHex(out) + "\n");
        }
        MemoryRecords marker = MemoryRecords.withEndTransactionMarker(77L, 1_700_000_000_000L, 5, 4711L, (short) 3,
            new EndTransactionMarker(ControlRecordType.COMMIT, 2));
        byte[] out = new byte[marker.buffer().remaining()];
        marker.buffer().get(out);
        Files.writeString(directory.resolve("record_batch_commit_marker.hex"), HexFormat.of().formatHex(out) + "\n");
    }
}
