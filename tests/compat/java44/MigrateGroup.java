// Rolls a group of three members from the classic to the consumer protocol and back, under load.
//   java -cp "$KAFKA_CLIENTS/*" tests/compat/java44/MigrateGroup.java BOOTSTRAP ASSIGNOR [KIND [HOLD_MS]]
// KIND is "dynamic" or "static". A settled group is left alone for HOLD_MS before the next phase.
// Each member processes a record, then commits. Prints a line of JSON: records produced, processed,
// processed twice; partitions lost; commits refused; positions that went back; the longest pause of a
// partition in each phase, in milliseconds; the type of the group after each phase.
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.*;

public class MigrateGroup {
    static final int PARTITIONS = 6;
    static final int MEMBERS = 3;
    static final long SETTLE_MS_MAX = 90_000;

    static final Map<String, AtomicInteger> processed = new ConcurrentHashMap<>();
    static final Map<TopicPartition, Long> committed = new ConcurrentHashMap<>();
    static final Map<TopicPartition, Long> lastRecordMs = new ConcurrentHashMap<>();
    static final AtomicLong longestPauseMs = new AtomicLong();
    static final AtomicInteger lost = new AtomicInteger();
    static final AtomicInteger refused = new AtomicInteger();
    static final AtomicInteger wentBack = new AtomicInteger();
    static final List<String> failures = Collections.synchronizedList(new ArrayList<>());

    static String bootstrap;
    static String topic;
    static String group;
    static String assignor;
    static boolean isStatic;
    static long holdMs;

    static class Member extends Thread implements ConsumerRebalanceListener {
        final int number;
        final String protocol;
        final Map<TopicPartition, OffsetAndMetadata> pending = new HashMap<>();
        KafkaConsumer<byte[], byte[]> consumer;
        volatile boolean stops;
        volatile int partitions;

        Member(int number, String protocol) {
            this.number = number;
            this.protocol = protocol;
            start();
        }

        Map<String, Object> configs() {
            Map<String, Object> configs = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group,
                "auto.offset.reset", "earliest", "enable.auto.commit", "false", "group.protocol", protocol));
            if (isStatic) configs.put("group.instance.id", "instance-" + number);
            if (protocol.equals("classic")) {
                configs.put("partition.assignment.strategy", assignor);
                configs.put("heartbeat.interval.ms", "500");
            }
            return configs;
        }

        @Override public void run() {
            try (var opened = new KafkaConsumer<>(configs(), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                consumer = opened;
                consumer.subscribe(List.of(topic), this);
                boolean isCommitted = false;
                // A classic consumer that is closed while it rejoins loses its partitions: the client, not
                // the group, takes them (ConsumerCoordinator.onLeavePrepare). It commits only when it is not
                // rejoining, so it goes after a commit of all that it holds.
                while (!(stops && isCommitted)) {
                    boolean isLast = stops;
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                    partitions = consumer.assignment().size();
                    for (var record : records) process(record);
                    if (isLast)
                        for (TopicPartition partition : consumer.assignment())
                            pending.put(partition, new OffsetAndMetadata(consumer.position(partition)));
                    isCommitted = commit(List.copyOf(pending.keySet())) && isLast;
                }
            } catch (Exception error) {
                failures.add(protocol + " " + number + ": " + error);
            }
        }

        void process(ConsumerRecord<byte[], byte[]> record) {
            TopicPartition partition = new TopicPartition(record.topic(), record.partition());
            processed.computeIfAbsent(partition + "@" + record.offset(), key -> new AtomicInteger()).incrementAndGet();
            pending.put(partition, new OffsetAndMetadata(record.offset() + 1));
            long nowMs = System.currentTimeMillis();
            Long beforeMs = lastRecordMs.put(partition, nowMs);
            if (beforeMs != null) longestPauseMs.accumulateAndGet(nowMs - beforeMs, Math::max);
        }

        /** Returns whether all that was wanted is committed. */
        boolean commit(Collection<TopicPartition> wanted) {
            Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
            for (TopicPartition partition : wanted)
                if (pending.containsKey(partition)) offsets.put(partition, pending.get(partition));
            if (offsets.isEmpty()) return true;
            try {
                consumer.commitSync(offsets);
            } catch (RebalanceInProgressException error) {
                return false; // the next commit has these offsets too
            } catch (CommitFailedException error) {
                refused.incrementAndGet();
                return false;
            }
            offsets.forEach((partition, offset) -> {
                pending.remove(partition, offset);
                Long before = committed.put(partition, offset.offset());
                if (before != null && before > offset.offset()) wentBack.incrementAndGet();
            });
            return true;
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
            for (TopicPartition partition : assigned) {
                Long known = committed.get(partition);
                if (known != null && consumer.position(partition) < known) wentBack.incrementAndGet();
            }
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> revoked) { commit(revoked); }

        @Override public void onPartitionsLost(Collection<TopicPartition> gone) {
            lost.addAndGet(gone.size());
            gone.forEach(pending::remove);
        }
    }

    static void settle(List<Member> members) throws Exception {
        long deadlineMs = System.currentTimeMillis() + SETTLE_MS_MAX;
        while (!members.stream().allMatch(member -> member.partitions == PARTITIONS / MEMBERS)) {
            if (System.currentTimeMillis() > deadlineMs) {
                failures.add("not settled: " + members.stream().map(member -> member.protocol + " " + member.partitions).toList());
                return;
            }
            Thread.sleep(20);
        }
        Thread.sleep(holdMs);
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        assignor = "org.apache.kafka.clients.consumer." + arguments[1];
        isStatic = arguments.length > 2 && arguments[2].equals("static");
        // Of their own, so that a broker can be used again.
        topic = "migrated-" + arguments[1] + (isStatic ? "-static" : "-dynamic");
        group = "rolling-" + arguments[1] + (isStatic ? "-static" : "-dynamic");
        holdMs = arguments.length > 3 ? Long.parseLong(arguments[3]) : 0;
        Admin admin = Admin.create(Map.<String, Object>of("bootstrap.servers", bootstrap));
        admin.createTopics(List.of(new NewTopic(topic, PARTITIONS, (short) 1))).all().get();
        AtomicBoolean stops = new AtomicBoolean();
        AtomicLong produced = new AtomicLong();
        Thread load = new Thread(() -> {
            try (var producer = new KafkaProducer<>(Map.<String, Object>of("bootstrap.servers", bootstrap),
                    new ByteArraySerializer(), new ByteArraySerializer())) {
                while (!stops.get()) {
                    for (int partition = 0; partition < PARTITIONS; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, null, new byte[10])).get();
                        produced.incrementAndGet();
                    }
                    Thread.sleep(20);
                }
            } catch (Exception error) {
                failures.add("producer: " + error);
            }
        });
        load.start();
        List<Member> members = new ArrayList<>();
        for (int number = 0; number < MEMBERS; number++) members.add(new Member(number, "classic"));
        settle(members);
        List<String> phases = new ArrayList<>();
        for (String protocol : List.of("consumer", "classic")) {
            for (int number = 0; number < MEMBERS; number++) {
                longestPauseMs.set(0);
                Member former = members.get(number);
                former.stops = true;
                former.join();
                members.set(number, new Member(number, protocol));
                settle(members);
                String type = admin.listGroups().all().get().stream().filter(each -> each.groupId().equals(group))
                    .map(each -> each.type().get().toString()).findFirst().orElse("none");
                phases.add("{\"to\": \"" + protocol + "\", \"type\": \"" + type + "\", \"pause_ms\": " + longestPauseMs + "}");
            }
        }
        stops.set(true);
        load.join();
        long deadlineMs = System.currentTimeMillis() + SETTLE_MS_MAX;
        while (processed.size() < produced.get() && System.currentTimeMillis() < deadlineMs) Thread.sleep(20);
        for (Member member : members) member.stops = true;
        for (Member member : members) member.join();
        long twice = processed.values().stream().filter(times -> times.get() > 1).count();
        System.out.println("{\"produced\": " + produced + ", \"processed\": " + processed.size() + ", \"twice\": " + twice
            + ", \"lost\": " + lost + ", \"refused\": " + refused + ", \"went_back\": " + wentBack
            + ", \"failures\": \"" + String.join("; ", failures).replace('"', '\'') + "\", \"phases\": " + phases + "}");
        System.exit(0);
    }
}
