import java.util.HexFormat;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.Checkpoint;
import org.apache.kafka.connect.mirror.Heartbeat;

/** Prints records of MirrorMaker 2's topics as its own classes write them: "name key value" in hex. */
public class Mm2Records {
    public static void main(String[] args) throws Exception {
        System.out.println("# connect-mirror 4.3.0, by Mm2Records.java: name, key, value in hex");
        // OffsetSync is package-private since 4.0; its bytes are reached by reflection.
        Class<?> sync = Class.forName("org.apache.kafka.connect.mirror.OffsetSync");
        var constructor = sync.getDeclaredConstructor(TopicPartition.class, long.class, long.class);
        constructor.setAccessible(true);
        Object instance = constructor.newInstance(new TopicPartition("topic1", 3), 100L, 42L);
        print("offset-sync", call(sync, instance, "recordKey"), call(sync, instance, "recordValue"));
        checkpoint("checkpoint", "g1", "A.topic1", 3, 100, 43, "");
        checkpoint("checkpoint-metadata", "gr\u00fc\u00dfe", "A.t", 0, 1L << 40, 1L << 41, "m\u00e9ta");
        Heartbeat beat = new Heartbeat("A", "B", 1_700_000_000_000L);
        print("heartbeat", call(Heartbeat.class, beat, "recordKey"), call(Heartbeat.class, beat, "recordValue"));
    }

    static void checkpoint(String name, String group, String topic, int partition, long up, long down, String metadata)
            throws Exception {
        Checkpoint value = new Checkpoint(group, new TopicPartition(topic, partition), up, down, metadata);
        print(name, call(Checkpoint.class, value, "recordKey"), call(Checkpoint.class, value, "recordValue"));
    }

    static byte[] call(Class<?> type, Object instance, String name) throws Exception {
        var method = type.getDeclaredMethod(name);
        method.setAccessible(true);
        return (byte[]) method.invoke(instance);
    }

    static void print(String name, byte[] key, byte[] value) {
        System.out.println(name + " " + HexFormat.of().formatHex(key) + " " + HexFormat.of().formatHex(value));
    }
}
