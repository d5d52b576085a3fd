import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.serialization.*;

/** What one scenario works with: names of its own, and clients that are closed at its end. */
final class Here implements AutoCloseable {
    private static final long WAIT_MS_MAX = 30_000;
    final World world;
    final String name;
    private final Deque<AutoCloseable> opened = new ArrayDeque<>();
    private int topics;

    Here(World world, String name) {
        this.world = world;
        this.name = name;
    }

    Admin admin() {
        return world.admin;
    }

    /** Creates a topic of one replica, and waits until it is led. */
    String topic(int partitions, String... configs) throws Exception {
        String topic = name + "-t" + ++topics;
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < configs.length; i += 2) values.put(configs[i], configs[i + 1]);
        NewTopic wanted = new NewTopic(topic, partitions, (short) 1).configs(values);
        admin().createTopics(List.of(wanted)).all().get();
        Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
        for (int i = 0; i < partitions; i++) ends.put(new TopicPartition(topic, i), OffsetSpec.latest());
        until(() -> outcome(admin().listOffsets(ends).all()) instanceof Map);
        return topic;
    }

    /** Appends values to a partition, each with the key "k". */
    void send(String topic, int partition, String... values) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (String value : values) sent.add(world.producer.send(new ProducerRecord<>(topic, partition, "k", value)));
        for (Future<RecordMetadata> each : sent) each.get();
    }

    KafkaProducer<String, String> producer(String... configs) {
        return keep(new KafkaProducer<>(world.configs(configs), new StringSerializer(), new StringSerializer()));
    }

    /** Returns a consumer that does not commit by itself and starts at the earliest offset. */
    KafkaConsumer<String, String> consumer(String... configs) {
        Map<String, Object> all = world.configs("enable.auto.commit", "false", "auto.offset.reset", "earliest",
            "fetch.max.wait.ms", "100");
        all.putAll(world.configs(configs));
        if (!"consumer".equals(all.get("group.protocol"))) {
            all.put("group.protocol", "classic");
            all.putIfAbsent("heartbeat.interval.ms", "300");
        }
        return keep(new KafkaConsumer<>(all, new StringDeserializer(), new StringDeserializer()));
    }

    <T extends AutoCloseable> T keep(T client) {
        opened.push(client);
        return client;
    }

    Raw raw() throws Exception {
        return keep(new Raw(world.bootstrap));
    }

    /** Polls until `count` values have come, or the time is up; returns the values. */
    List<String> read(Consumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadlineMs = System.currentTimeMillis() + WAIT_MS_MAX;
        while (values.size() < count && System.currentTimeMillis() < deadlineMs)
            for (var record : consumer.poll(Duration.ofMillis(100))) values.add(record.value());
        return values;
    }

    /** Polls the consumers in turn until the condition holds. Returns whether it did. */
    @SafeVarargs
    final boolean poll(BooleanSupplier until, Consumer<String, String>... consumers) {
        long deadlineMs = System.currentTimeMillis() + WAIT_MS_MAX;
        while (!until.getAsBoolean()) {
            if (System.currentTimeMillis() > deadlineMs) return false;
            for (var consumer : consumers) consumer.poll(Duration.ofMillis(20));
        }
        return true;
    }

    /** Waits until the condition holds. Returns whether it did. */
    boolean until(Callable<Boolean> condition) throws Exception {
        long deadlineMs = System.currentTimeMillis() + WAIT_MS_MAX;
        while (!condition.call()) {
            if (System.currentTimeMillis() > deadlineMs) return false;
            Thread.sleep(30);
        }
        return true;
    }

    /** Returns the value of a call, or its error as text. A call without a value gives "done". */
    Object outcome(Callable<?> call) {
        try {
            Object value = call.call();
            return value == null ? "done" : value;
        } catch (Throwable error) {
            return ErrorText.text(error);
        }
    }

    /** Returns the outcome with errors as types alone: for words that are the broker's own or a client's. */
    static Object kind(Object outcome) {
        if (outcome instanceof List<?> list) return list.stream().map(Here::kind).toList();
        return outcome instanceof String text ? text.replaceAll(": [^/]*( / )?", "$1") : outcome;
    }

    Object outcome(KafkaFuture<?> future) {
        return outcome((Callable<?>) future::get);
    }

    Object failure(Executable call) {
        return outcome(() -> {
            call.run();
            return null;
        });
    }

    interface Executable {
        void run() throws Exception;
    }

    /** Returns the outcome of each future under its key. */
    Map<String, Object> outcomes(Map<?, ? extends KafkaFuture<?>> futures) {
        Map<String, Object> found = new TreeMap<>();
        futures.forEach((key, future) -> found.put(key.toString(), outcome(future)));
        return found;
    }

    static Map<String, Object> fields(Object... keysAndValues) {
        Map<String, Object> fields = new TreeMap<>();
        for (int i = 0; i < keysAndValues.length; i += 2) fields.put((String) keysAndValues[i], keysAndValues[i + 1]);
        return fields;
    }

    @Override public void close() {
        while (!opened.isEmpty()) {
            AutoCloseable client = opened.pop();
            try {
                if (client instanceof KafkaConsumer<?, ?> consumer) consumer.close(CloseOptions.timeout(Duration.ofSeconds(5)));
                else if (client instanceof KafkaProducer<?, ?> producer) producer.close(Duration.ofSeconds(5));
                else client.close();
            } catch (Exception error) {
                // The result of the scenario is there already.
            }
        }
    }
}
