// Measures how static members of the classic protocol come back, under load.
//   java -cp "$KAFKA_CLIENTS/*" tests/compat/java44/ReturnStatic.java BOOTSTRAP ASSIGNOR SESSION_MS
// A static member sends no LeaveGroup, so a closed one is like a crashed one. Two members share six
// partitions. Prints a line of JSON, times in milliseconds:
//   at_once      the member closes and its successor starts; until all of its partitions have records again
//   in_session   the same after half of the session timeout; from the start of the successor
//   taken_over   the member closes for good; until all of its partitions have records again
//   after_session  its successor starts then; until it has its share, and those partitions have records
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

public class ReturnStatic {
    static final int PARTITIONS = 6;
    static final long SETTLE_MS_MAX = 120_000;
    static final Map<TopicPartition, Long> lastRecordMs = new ConcurrentHashMap<>();
    static final List<String> failures = Collections.synchronizedList(new ArrayList<>());
    static String bootstrap, topic, group, assignor, sessionMs;

    static class Member extends Thread {
        final int number;
        volatile boolean stops;
        volatile Set<TopicPartition> held = Set.of();

        Member(int number) {
            this.number = number;
            start();
        }

        @Override public void run() {
            Map<String, Object> configs = Map.of("bootstrap.servers", bootstrap, "group.id", group,
                "group.instance.id", "instance-" + number, "partition.assignment.strategy", assignor,
                "session.timeout.ms", sessionMs, "auto.offset.reset", "earliest");
            try (var consumer = new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer.subscribe(List.of(topic));
                while (!stops) {
                    var records = consumer.poll(Duration.ofMillis(50));
                    held = Set.copyOf(consumer.assignment());
                    for (var record : records)
                        lastRecordMs.put(new TopicPartition(topic, record.partition()), System.currentTimeMillis());
                }
            } catch (Exception error) {
                failures.add(number + ": " + error);
            }
        }

        void close() throws Exception {
            stops = true;
            join();
        }
    }

    static void until(String what, Callable<Boolean> holds) throws Exception {
        long deadlineMs = System.currentTimeMillis() + SETTLE_MS_MAX;
        while (!holds.call()) {
            if (System.currentTimeMillis() > deadlineMs) throw new TimeoutException("not " + what + "; " + failures);
            Thread.sleep(5);
        }
    }

    static long untilRecords(Set<TopicPartition> partitions, long sinceMs) throws Exception {
        until("read", () -> partitions.stream().allMatch(each -> lastRecordMs.getOrDefault(each, 0L) > sinceMs));
        return System.currentTimeMillis() - sinceMs;
    }

    static void settle(Member... members) throws Exception {
        until("settled", () -> Arrays.stream(members).allMatch(each -> each.held.size() == PARTITIONS / members.length));
        Thread.sleep(1_000);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        assignor = "org.apache.kafka.clients.consumer." + arguments[1];
        sessionMs = arguments[2];
        // Of their own, so that two programs may run on a broker.
        topic = "returned-" + arguments[1];
        group = "returning-" + arguments[1];
        Map<String, Object> common = Map.of("bootstrap.servers", bootstrap);
        Admin.create(common).createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        Thread load = new Thread(() -> {
            try (var producer = new KafkaProducer<>(common, new ByteArraySerializer(), new ByteArraySerializer())) {
                while (true) {
                    for (int partition = 0; partition < PARTITIONS; partition++)
                        producer.send(new ProducerRecord<>(topic, partition, null, new byte[10]));
                    Thread.sleep(10);
                }
            } catch (Exception error) {
                failures.add("producer: " + error);
            }
        });
        load.setDaemon(true);
        load.start();
        Member stays = new Member(1), goes = new Member(0);
        settle(stays, goes);

        Set<TopicPartition> partitions = goes.held;
        long beganMs = System.currentTimeMillis();
        goes.close();
        long sinceMs = System.currentTimeMillis();
        goes = new Member(0);
        untilRecords(partitions, sinceMs);
        long atOnceMs = System.currentTimeMillis() - beganMs;
        settle(stays, goes);

        partitions = goes.held;
        goes.close();
        Thread.sleep(Long.parseLong(sessionMs) / 2);
        sinceMs = System.currentTimeMillis();
        goes = new Member(0);
        long inSessionMs = untilRecords(partitions, sinceMs);
        settle(stays, goes);

        partitions = goes.held;
        goes.close();
        sinceMs = System.currentTimeMillis();
        long takenOverMs = untilRecords(partitions, sinceMs);
        settle(stays);

        sinceMs = System.currentTimeMillis();
        Member successor = new Member(0);
        until("shared", () -> successor.held.size() == PARTITIONS / 2 && stays.held.size() == PARTITIONS / 2);
        untilRecords(successor.held, sinceMs);
        long afterSessionMs = System.currentTimeMillis() - sinceMs;
        System.out.println("{\"at_once\": " + atOnceMs + ", \"in_session\": " + inSessionMs + ", \"taken_over\": " + takenOverMs
            + ", \"after_session\": " + afterSessionMs + ", \"failures\": \"" + String.join("; ", failures).replace('"', '\'') + "\"}");
        System.exit(0);
    }
}
