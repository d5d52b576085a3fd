import java.util.*;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.StringSerializer;

/** One cluster, with the clients that all scenarios share. */
final class World implements AutoCloseable {
    static final String API_TIMEOUT_MS = "20000";
    final String bootstrap;
    final Admin admin;
    final KafkaProducer<String, String> producer;

    World(String bootstrap) {
        this.bootstrap = bootstrap;
        Normal.bootstrap = bootstrap;
        admin = Admin.create(configs("default.api.timeout.ms", API_TIMEOUT_MS, "request.timeout.ms", API_TIMEOUT_MS));
        producer = new KafkaProducer<>(configs("max.block.ms", "10000"), new StringSerializer(), new StringSerializer());
    }

    /** Returns configs of a client: what all have, then names and values. */
    Map<String, Object> configs(String... namesAndValues) {
        Map<String, Object> configs = new HashMap<>(Map.of("bootstrap.servers", bootstrap,
            "retry.backoff.ms", "20", "retry.backoff.max.ms", "200", "reconnect.backoff.ms", "20",
            "enable.metrics.push", "false"));
        for (int i = 0; i < namesAndValues.length; i += 2) configs.put(namesAndValues[i], namesAndValues[i + 1]);
        return configs;
    }

    @Override public void close() {
        producer.close();
        admin.close();
    }
}
