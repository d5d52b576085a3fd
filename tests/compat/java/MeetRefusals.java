import java.io.FileReader;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TopicAuthorizationException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's clients on a secured listener.
 *
 *   java MeetRefusals.java refused NAME PROPERTIES...   what an admin client is told, a line for each
 *   java MeetRefusals.java read TOPIC PROPERTIES        "value V" and "denied TOPICS", until it is killed
 *   java MeetRefusals.java transact TOPIC PAUSE_MS PROPERTIES   one transaction with a pause in it
 */
public class MeetRefusals {
    public static void main(String[] arguments) throws Exception {
        switch (arguments[0]) {
            case "refused" -> {
                for (int at = 1; at < arguments.length; at += 2) refused(arguments[at], load(arguments[at + 1]));
            }
            case "read" -> read(arguments[1], load(arguments[2]));
            case "transact" -> transact(arguments[1], Long.parseLong(arguments[2]), load(arguments[3]));
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static Properties load(String file) throws Exception {
        var found = new Properties();
        try (var reader = new FileReader(file)) {
            found.load(reader);
        }
        return found;
    }

    static void refused(String name, Properties config) throws InterruptedException {
        try (var admin = Admin.create(config)) {
            admin.describeCluster().nodes().get();
            System.out.println(name + "|welcome|");
        } catch (ExecutionException error) {
            var cause = error.getCause();
            System.out.println(name + "|" + cause.getClass().getSimpleName() + "|" + cause.getMessage());
        }
    }

    static void read(String topic, Properties config) {
        config.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        var strings = new StringDeserializer();
        try (var consumer = new KafkaConsumer<>(config, strings, strings)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            boolean denied = false;
            while (true) {
                try {
                    for (var record : consumer.poll(Duration.ofMillis(200))) {
                        System.out.println("value " + record.value());
                        denied = false;
                    }
                } catch (TopicAuthorizationException error) {
                    if (!denied) System.out.println("denied " + error.unauthorizedTopics());
                    denied = true;
                }
            }
        }
    }

    static void transact(String topic, long pauseMs, Properties config) throws Exception {
        config.put("transactional.id", "alice-" + topic);
        var strings = new StringSerializer();
        try (var producer = new KafkaProducer<>(config, strings, strings)) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "0")).get();
            Thread.sleep(pauseMs);
            producer.send(new ProducerRecord<>(topic, "1")).get();
            producer.commitTransaction();
        }
    }
}
