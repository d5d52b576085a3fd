import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

/** Transactions that end as they should, and how they are seen. */
final class TransactionScenarios {
    private TransactionScenarios() {}

    static void register(Registry all) {
        all.add("txn-committed", here -> {
            String topic = here.topic(1);
            var producer = begun(here, topic, "a", "b");
            var before = ConsumerScenarios.assigned(here, topic, "isolation.level", "read_committed").poll(Duration.ofMillis(300)).count();
            producer.commitTransaction();
            return Here.fields("before", before, "after", read(here, topic, "read_committed", 2));
        });
        all.add("txn-aborted", here -> {
            String topic = here.topic(1);
            var producer = begun(here, topic, "a");
            producer.abortTransaction();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "b"));
            producer.commitTransaction();
            return Here.fields("committed", read(here, topic, "read_committed", 1), "all", read(here, topic, "read_uncommitted", 2));
        });
        all.add("txn-empty", here -> {
            var producer = transactional(here, here.name);
            producer.beginTransaction();
            Object committed = here.failure(producer::commitTransaction);
            producer.beginTransaction();
            return List.of(committed, here.failure(producer::abortTransaction));
        });
        all.add("txn-last-stable-offset", here -> {
            String topic = here.topic(1);
            here.send(topic, 0, "plain");
            var producer = begun(here, topic, "a");
            var partition = new TopicPartition(topic, 0);
            var options = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
            Map<TopicPartition, OffsetSpec> latest = Map.of(partition, OffsetSpec.latest());
            Object stable = here.outcome(() -> here.admin().listOffsets(latest, options).partitionResult(partition).get().offset());
            Object end = here.outcome(() -> here.admin().listOffsets(latest).partitionResult(partition).get().offset());
            producer.commitTransaction();
            here.until(() -> here.admin().listOffsets(latest, options).partitionResult(partition).get().offset() == 3);
            return Here.fields("stable", stable, "end", end,
                "after", here.admin().listOffsets(latest, options).partitionResult(partition).get().offset());
        });
        all.add("txn-commits-offsets", here -> {
            String topic = here.topic(1);
            var consumer = ConsumerScenarios.assigned(here, topic, "group.id", here.name);
            var producer = begun(here, topic, "a");
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1, "note")), consumer.groupMetadata());
            Object before = here.outcome(here.admin().listConsumerGroupOffsets(here.name).partitionsToOffsetAndMetadata());
            producer.commitTransaction();
            boolean after = here.until(() -> consumer.committed(consumer.assignment()).toString().contains("offset=1"));
            return Here.fields("before", before, "after", after);
        });
        all.add("txn-aborts-offsets", here -> {
            String topic = here.topic(1);
            var consumer = ConsumerScenarios.assigned(here, topic, "group.id", here.name);
            var producer = begun(here, topic, "a");
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), consumer.groupMetadata());
            producer.abortTransaction();
            return String.valueOf(consumer.committed(consumer.assignment()));
        });
        for (String protocol : List.of("classic", "consumer"))
            all.add("txn-commits-offsets-of-a-member-" + protocol, here -> {
                String topic = ConsumerScenarios.letters(here);
                var member = ClassicGroupScenarios.join(here, topic, "group.protocol", protocol);
                here.read(member, 3);
                var producer = begun(here, here.topic(1), "a");
                producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(3)), member.groupMetadata());
                producer.commitTransaction();
                return here.until(() -> member.committed(member.assignment()).toString().contains("offset=3"));
            });
        all.add("txn-offsets-deleted-while-open", here -> {
            String topic = here.topic(1);
            var consumer = ConsumerScenarios.assigned(here, topic, "group.id", here.name);
            var producer = begun(here, topic, "a");
            producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), consumer.groupMetadata());
            Object group = here.outcome(here.admin().deleteConsumerGroups(List.of(here.name)).all());
            producer.commitTransaction();
            return group;
        });
        all.add("txn-described", here -> {
            String topic = here.topic(1);
            var producer = begun(here, topic, "a");
            Object ongoing = described(here, here.name);
            producer.commitTransaction();
            here.until(() -> described(here, here.name).toString().contains("CompleteCommit"));
            Object committed = described(here, here.name);
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "b")).get();
            producer.abortTransaction();
            here.until(() -> described(here, here.name).toString().contains("CompleteAbort"));
            return Here.fields("ongoing", ongoing, "committed", committed, "aborted", described(here, here.name),
                "unknown", described(here, here.name + "-x"), "empty", described(here, ""));
        });
        all.add("txn-described-before-the-first", here -> {
            transactional(here, here.name);
            return described(here, here.name);
        });
        all.add("txn-listed", here -> {
            begun(here, here.topic(1), "a");
            String pattern = here.name + ".*";
            return Here.fields("all", listed(here, new ListTransactionsOptions()),
                "ongoing", listed(here, new ListTransactionsOptions().filterStates(Set.of(TransactionState.ONGOING))),
                "empty", listed(here, new ListTransactionsOptions().filterStates(Set.of(TransactionState.EMPTY))),
                "pattern", listed(here, new ListTransactionsOptions().filterOnTransactionalIdPattern(pattern)),
                "other", listed(here, new ListTransactionsOptions().filterOnTransactionalIdPattern("x" + pattern)),
                "long", listed(here, new ListTransactionsOptions().filterOnDuration(3_600_000)),
                "other_id", listed(here, new ListTransactionsOptions().filterProducerIds(Set.of(123456789L))),
                "bad_pattern", here.outcome(here.admin().listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("(")).all()));
        });
        all.add("txn-producers-described", here -> {
            String topic = here.topic(1);
            var producer = begun(here, topic, "a", "b");
            var partition = new TopicPartition(topic, 0);
            Object open = producers(here, partition);
            producer.commitTransaction();
            here.until(() -> producers(here, partition).toString().contains("started none"));
            return Here.fields("open", open, "committed", producers(here, partition), "unknown", Here.kind(producers(here, new TopicPartition(topic, 5))));
        });
        all.add("txn-timeout-too-large", here -> {
            var producer = here.producer("transactional.id", here.name, "transaction.timeout.ms", "999999999");
            return here.failure(producer::initTransactions);
        });
        all.addSlow("txn-without-begin", here -> {
            String topic = here.topic(1);
            var producer = transactional(here, here.name);
            return List.of(here.failure(() -> producer.send(new ProducerRecord<>(topic, "v"))), here.failure(producer::commitTransaction));
        });
        all.add("txn-to-several-partitions", here -> {
            String topic = here.topic(3);
            var producer = transactional(here, here.name);
            producer.beginTransaction();
            for (int i = 0; i < 3; i++) producer.send(new ProducerRecord<>(topic, i, "k", "v" + i));
            producer.commitTransaction();
            var consumer = here.consumer("isolation.level", "read_committed");
            consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1), new TopicPartition(topic, 2)));
            return new TreeSet<>(here.read(consumer, 3));
        });
        all.add("txn-unknown-topic", here -> {
            var producer = here.producer("transactional.id", here.name, "max.block.ms", "1500");
            producer.initTransactions();
            producer.beginTransaction();
            Object sent = here.outcome(() -> producer.send(new ProducerRecord<>(here.name, "v")).get());
            return Here.fields("sent", sent, "aborted", here.failure(producer::abortTransaction));
        });
        all.add("txn-record-too-large", here -> {
            String topic = here.topic(1, "max.message.bytes", "1000");
            var producer = transactional(here, here.name);
            producer.beginTransaction();
            Object sent = here.outcome(() -> producer.send(new ProducerRecord<>(topic, "k", "x".repeat(3000))).get());
            Thread.sleep(300); // The client completes the send before it notes the failed transaction.
            Object committed = here.failure(producer::commitTransaction);
            Object aborted = here.failure(producer::abortTransaction);
            return Here.fields("sent", Here.kind(sent), "committed", Here.kind(committed), "aborted", aborted);
        });
        all.add("txn-two-phase-refused", here -> {
            var producer = here.producer("transactional.id", here.name, "transaction.two.phase.commit.enable", "true", "max.block.ms", "1000");
            return here.failure(producer::initTransactions);
        });
    }

    static KafkaProducer<String, String> transactional(Here here, String id, String... configs) {
        List<String> all = new ArrayList<>(List.of("transactional.id", id, "max.block.ms", "20000"));
        all.addAll(List.of(configs));
        var producer = here.producer(all.toArray(new String[0]));
        producer.initTransactions();
        return producer;
    }

    /** Returns a producer in a transaction that has written these values to partition 0. */
    static KafkaProducer<String, String> begun(Here here, String topic, String... values) throws Exception {
        var producer = transactional(here, here.name);
        producer.beginTransaction();
        for (String value : values) producer.send(new ProducerRecord<>(topic, 0, "k", value)).get();
        return producer;
    }

    static Object described(Here here, String id) {
        return here.outcome(() -> {
            var found = here.admin().describeTransactions(List.of(id)).description(id).get();
            return found.state() + ", timeout " + found.transactionTimeoutMs() + ", epoch " + found.producerEpoch() + ", coordinator "
                + found.coordinatorId() + ", started " + found.transactionStartTimeMs().isPresent() + ", in " + found.topicPartitions();
        });
    }

    private static Object listed(Here here, ListTransactionsOptions options) throws Exception {
        return here.admin().listTransactions(options).all().get().stream().filter(each -> each.transactionalId().equals(here.name))
            .map(each -> each.state().toString()).toList();
    }

    static Object producers(Here here, TopicPartition partition) {
        return here.outcome(() -> here.admin().describeProducers(List.of(partition), new DescribeProducersOptions().timeoutMs(partition.partition() == 5 ? 500 : 10_000)).partitionResult(partition).get().activeProducers().stream()
            .map(each -> "epoch " + each.producerEpoch() + ", sequence " + each.lastSequence() + ", coordinator " + each.coordinatorEpoch()
                + ", started " + (each.currentTransactionStartOffset().isPresent() ? each.currentTransactionStartOffset().getAsLong() : "none"))
            .sorted().toList());
    }

    private static List<String> read(Here here, String topic, String isolation, int count) {
        return here.read(ConsumerScenarios.assigned(here, topic, "isolation.level", isolation), count);
    }
}
