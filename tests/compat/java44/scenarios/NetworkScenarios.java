import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

/** Bootstrap servers, and connections that break. */
final class NetworkScenarios {
    private static final String DEAD = "127.0.0.1:1";

    private NetworkScenarios() {}

    static void register(Registry all) {
        all.add("bootstrap-with-a-dead-server", here -> {
            String topic = here.topic(1);
            var producer = here.producer("bootstrap.servers", DEAD + "," + here.world.bootstrap);
            return producer.send(new ProducerRecord<>(topic, "v")).get().offset();
        });
        all.add("bootstrap-only-dead", here -> {
            var admin = here.keep(Admin.create(here.world.configs("bootstrap.servers", DEAD, "default.api.timeout.ms", "1000", "request.timeout.ms", "900")));
            return here.outcome(admin.listTopics().names()).toString().split(":")[0];
        });
        all.add("bootstrap-through-a-proxy", here -> {
            var proxy = here.keep(new Proxy(here.world.bootstrap));
            String topic = here.topic(1);
            var producer = here.producer("bootstrap.servers", proxy.address());
            List<Object> found = new ArrayList<>();
            found.add(producer.send(new ProducerRecord<>(topic, "a")).get().offset());
            proxy.cut();
            found.add(producer.send(new ProducerRecord<>(topic, "b")).get().offset());
            return found;
        });
        for (String strategy : List.of("none", "rebootstrap"))
            all.add("recovery-" + strategy, here -> {
                String topic = here.topic(1);
                var producer = here.producer("metadata.recovery.strategy", strategy, "metadata.recovery.rebootstrap.trigger.ms", "2000",
                    "metadata.max.age.ms", "300");
                List<Object> found = new ArrayList<>();
                for (int i = 0; i < 3; i++) {
                    found.add(producer.send(new ProducerRecord<>(topic, "v")).get().offset());
                    Thread.sleep(400);
                }
                return found;
            });
        all.add("cluster-check-on", here -> {
            String topic = here.topic(1);
            var producer = here.producer("metadata.cluster.check.enable", "true");
            return here.outcome(() -> producer.send(new ProducerRecord<>(topic, "v")).get().offset());
        });
        all.add("idle-connection-closed-by-the-client", here -> {
            String topic = here.topic(1);
            var producer = here.producer("connections.max.idle.ms", "300");
            List<Object> found = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                found.add(producer.send(new ProducerRecord<>(topic, "v")).get().offset());
                Thread.sleep(700);
            }
            return found;
        });
        all.add("request-times-out", here -> {
            var consumer = ConsumerScenarios.assigned(here, here.topic(1), "fetch.min.bytes", "1000", "fetch.max.wait.ms", "500", "request.timeout.ms", "600");
            return consumer.poll(Duration.ofMillis(1500)).count();
        });
        all.add("client-metrics-are-there", here -> {
            String topic = here.topic(1);
            var producer = here.producer();
            producer.send(new ProducerRecord<>(topic, "v")).get();
            return producer.metrics().keySet().stream().anyMatch(each -> each.name().equals("record-send-total"));
        });
        all.add("controllers-as-bootstrap", here -> {
            var admin = here.keep(Admin.create(Map.<String, Object>of("bootstrap.controllers", here.world.bootstrap,
                "default.api.timeout.ms", "1500", "request.timeout.ms", "1000")));
            return here.outcome(admin.describeCluster().nodes());
        });
    }
}
