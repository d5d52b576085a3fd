// Writes tests/golden/messages/*.txt with Kafka's own Java classes: a request and a response of
// every version of every API that brokers of 4.4 serve to clients, as whole frames (header too);
// those that Heliograph will not have (share and streams groups, KRaft) are left out. AlterPartition,
// which brokers ask each other, is there as well.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/Messages.java tests/golden/messages
// One line each: kind ("request" or "response"), version, variant, frame in hex, body as JSON
// as Kafka's own converter reads it. Variant "full" gives every field of the version a value of its own,
// two elements to the outermost arrays and one to those inside; "untagged" is the same without
// tagged fields; "bare" has empty arrays, and null wherever null is allowed.
import com.fasterxml.jackson.core.json.JsonWriteFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.*;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.*;
import org.apache.kafka.common.protocol.*;
import org.apache.kafka.common.protocol.types.*;
import org.apache.kafka.common.record.*;
import org.apache.kafka.common.record.internal.*;

public class Messages {
    static final JsonNodeFactory JSON = JsonNodeFactory.instance;
    static final JsonMapper ASCII = JsonMapper.builder().enable(JsonWriteFeature.ESCAPE_NON_ASCII).build();
    static final int CORRELATION_ID = 4711;
    static final String CLIENT_ID = "golden-cl\u00efent";

    static byte[] records() {
        MemoryRecords batch = MemoryRecords.withRecords(RecordBatch.CURRENT_MAGIC_VALUE, 0L,
            Compression.NONE, TimestampType.CREATE_TIME,
            new SimpleRecord(1_700_000_000_000L, "k".getBytes(), "v".getBytes()));
        byte[] out = new byte[batch.buffer().remaining()];
        batch.buffer().get(out);
        return out;
    }

    static String camel(String snake) {
        StringBuilder out = new StringBuilder();
        boolean upper = false;
        for (char c : snake.toCharArray()) {
            if (c == '_') upper = true;
            else { out.append(upper ? Character.toUpperCase(c) : c); upper = false; }
        }
        return out.toString();
    }

    static class Filler {
        final boolean full, tagged;
        int count = 0;

        Filler(String variant) {
            full = !variant.equals("bare");
            tagged = variant.equals("full");
        }

        JsonNode struct(Schema schema, int depth) {
            ObjectNode out = JSON.objectNode();
            for (BoundField bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields optional) {
                    if (tagged)
                        for (Field field : optional.fields().values())
                            out.set(camel(field.name), value(field.name, field.type, depth));
                } else {
                    out.set(camel(bound.def.name), value(bound.def.name, bound.def.type, depth));
                }
            }
            return out;
        }

        JsonNode value(String name, Type type, int depth) {
            if (type.isNullable() && !full) return JSON.nullNode();
            if (type.isArray()) {
                ArrayNode out = JSON.arrayNode();
                int length = full ? (depth == 0 ? 2 : 1) : 0;
                for (int index = 0; index < length; index++)
                    out.add(value(name, type.arrayElementType().get(), depth + 1));
                return out;
            }
            if (type instanceof Schema schema) return struct(schema, depth);
            count++;
            String kind = type.toString();
            if (kind.endsWith("STRING")) return JSON.textNode(full ? name + "-" + count + "-\u00fc" : "");
            if (kind.endsWith("BYTES")) return JSON.binaryNode(full ? ("bytes" + count).getBytes() : new byte[0]);
            if (kind.endsWith("RECORDS")) return JSON.binaryNode(records());
            long small = full ? count % 100 + 1 : 0;
            switch (kind) {
                case "BOOLEAN": return JSON.booleanNode(full);
                case "INT8": case "INT16": case "UINT16": return JSON.numberNode(small);
                case "INT32": return JSON.numberNode(full ? 70_000 + count : 0);
                case "UINT32": return JSON.numberNode(full ? 3_000_000_000L + count : 0L);
                case "INT64": return JSON.numberNode(full ? 1_700_000_000_000L + count : 0L);
                case "FLOAT64": return JSON.numberNode(full ? count + 0.5 : 0.0);
                case "UUID": return JSON.textNode((full ? new Uuid(0x1122334455667788L, count) : Uuid.ZERO_UUID).toString());
                default: throw new IllegalStateException(kind + " of " + name);
            }
        }
    }

    /** Reads JSON as the message, by the generated converter. */
    static ApiMessage read(String className, JsonNode json, short version) throws Exception {
        return (ApiMessage) Class.forName(className + "JsonConverter")
            .getMethod("read", JsonNode.class, short.class).invoke(null, json, version);
    }

    static byte[] bytes(Message header, int headerVersion, Message body, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        int size = header.size(cache, (short) headerVersion) + body.size(cache, version);
        ByteBufferAccessor out = new ByteBufferAccessor(ByteBuffer.allocate(size));
        header.write(out, cache, (short) headerVersion);
        body.write(out, cache, version);
        if (out.buffer().hasRemaining()) throw new IllegalStateException("size is not what was written");
        return out.buffer().array();
    }

    public static void main(String[] arguments) throws Exception {
        Path directory = Path.of(arguments[0]);
        List<ApiKeys> apis = new ArrayList<>(ApiKeys.clientApis());
        apis.add(ApiKeys.ALTER_PARTITION);
        for (ApiKeys api : apis) {
            if (api.id > ApiKeys.DESCRIBE_TOPIC_PARTITIONS.id || api == ApiKeys.DESCRIBE_QUORUM) continue;
            StringBuilder out = new StringBuilder();
            ApiMessageType type = api.messageType;
            for (boolean request : new boolean[] {true, false}) {
                String className = (request ? type.newRequest() : type.newResponse()).getClass().getName();
                Schema[] schemas = request ? type.requestSchemas() : type.responseSchemas();
                for (short version = api.oldestVersion(); version <= api.latestVersion(); version++) {
                    for (String variant : new String[] {"full", "untagged", "bare"}) {
                        JsonNode json = new Filler(variant).struct(schemas[version], 0);
                        ApiMessage body = read(className, json, version);
                        Message header = request
                            ? new RequestHeaderData().setRequestApiKey(api.id).setRequestApiVersion(version)
                                .setCorrelationId(CORRELATION_ID).setClientId(CLIENT_ID)
                            : new ResponseHeaderData().setCorrelationId(CORRELATION_ID);
                        int headerVersion = request ? api.requestHeaderVersion(version) : api.responseHeaderVersion(version);
                        out.append(request ? "request " : "response ").append(version).append(' ').append(variant).append(' ')
                            .append(HexFormat.of().formatHex(bytes(header, headerVersion, body, version))).append(' ')
                            .append(ASCII.writeValueAsString(json)).append('\n');
                    }
                }
            }
            String name = "%02d_%s.txt".formatted(api.id, api.name().toLowerCase(Locale.ROOT));
            Files.writeString(directory.resolve(name), out.toString());
        }
    }
}
