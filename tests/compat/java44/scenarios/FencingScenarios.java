import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;

/** Transactions that others end, and producers and members that come too late. */
final class FencingScenarios {
    private FencingScenarios() {}

    static void register(Registry all) {
        all.add("fenced-by-the-next-producer", here -> {
            String topic = here.topic(1);
            var old = TransactionScenarios.begun(here, topic, "a");
            TransactionScenarios.transactional(here, here.name);
            Object sent = here.outcome(() -> old.send(new ProducerRecord<>(topic, "b")).get());
            return Here.fields("sent", Here.kind(sent), "committed", Here.kind(here.failure(old::commitTransaction)), "aborted", here.failure(old::abortTransaction),
                "state", TransactionScenarios.described(here, here.name).toString().split(",")[0]);
        });
        all.add("fenced-at-commit", here -> {
            var old = TransactionScenarios.begun(here, here.topic(1), "a");
            TransactionScenarios.transactional(here, here.name);
            return List.of(here.failure(old::commitTransaction), here.failure(old::beginTransaction));
        });
        all.add("fenced-at-abort", here -> {
            var old = TransactionScenarios.begun(here, here.topic(1), "a");
            TransactionScenarios.transactional(here, here.name);
            return here.failure(old::abortTransaction);
        });
        all.add("fenced-at-offsets", here -> {
            String topic = here.topic(1);
            var old = TransactionScenarios.begun(here, topic, "a");
            TransactionScenarios.transactional(here, here.name);
            return here.failure(() -> old.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)),
                new ConsumerGroupMetadata(here.name)));
        });
        all.add("fenced-by-an-administrator", here -> {
            String topic = here.topic(1);
            var old = TransactionScenarios.begun(here, topic, "a");
            Object fenced = here.outcome(here.admin().fenceProducers(List.of(here.name)).all());
            return Here.fields("fenced", fenced, "sent", Here.kind(here.outcome(() -> old.send(new ProducerRecord<>(topic, "b")).get())),
                "committed", Here.kind(here.failure(old::commitTransaction)));
        });
        all.add("fence-producers-unknown", here -> {
            var result = here.admin().fenceProducers(List.of(here.name));
            return Here.fields("epoch", here.outcome(result.epochId(here.name)), "state", TransactionScenarios.described(here, here.name));
        });
        all.add("txn-terminated", here -> {
            String topic = here.topic(1);
            var old = TransactionScenarios.begun(here, topic, "a");
            Object ended = here.outcome(here.admin().forceTerminateTransaction(here.name).result());
            return Here.fields("ended", ended, "sent", Here.kind(here.outcome(() -> old.send(new ProducerRecord<>(topic, "b")).get())),
                "unknown", here.outcome(here.admin().forceTerminateTransaction(here.name + "-x").result()));
        });
        all.add("txn-aborted-by-an-administrator", here -> {
            String topic = here.topic(1);
            var producer = TransactionScenarios.begun(here, topic, "a");
            var partition = new TopicPartition(topic, 0);
            var state = here.admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers().get(0);
            Object aborted = here.outcome(here.admin().abortTransaction(new AbortTransactionSpec(partition, state.producerId(),
                (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all());
            return Here.fields("aborted", aborted, "producers", TransactionScenarios.producers(here, partition));
        });
        all.add("abort-of-no-transaction", here -> {
            var partition = new TopicPartition(here.topic(1), 0);
            return List.of(here.outcome(here.admin().abortTransaction(new AbortTransactionSpec(partition, 987654321L, (short) 0, 0)).all()),
                here.outcome(here.admin().abortTransaction(new AbortTransactionSpec(new TopicPartition(here.name, 0), 1L, (short) 0, 0),
                    new AbortTransactionOptions().timeoutMs(300)).all()).toString().split(":")[0]);
        });
        for (String protocol : List.of("classic", "consumer")) {
            all.add("txn-offsets-of-an-old-generation-" + protocol, here -> {
                String topic = here.topic(1);
                var member = ClassicGroupScenarios.join(here, topic, "group.protocol", protocol);
                here.poll(() -> !member.assignment().isEmpty(), member);
                var real = member.groupMetadata();
                var stale = new ConsumerGroupMetadata(here.name, real.generationId() - 1, real.memberId(), Optional.empty());
                return offsets(here, topic, stale);
            });
            all.add("txn-offsets-of-a-future-generation-" + protocol, here -> {
                String topic = here.topic(1);
                var member = ClassicGroupScenarios.join(here, topic, "group.protocol", protocol);
                here.poll(() -> !member.assignment().isEmpty(), member);
                var real = member.groupMetadata();
                return offsets(here, topic, new ConsumerGroupMetadata(here.name, real.generationId() + 5, real.memberId(), Optional.empty()));
            });
            all.add("txn-offsets-of-a-stranger-" + protocol, here -> {
                String topic = here.topic(1);
                var member = ClassicGroupScenarios.join(here, topic, "group.protocol", protocol);
                here.poll(() -> !member.assignment().isEmpty(), member);
                return List.of(offsets(here, topic, new ConsumerGroupMetadata(here.name, 1, "stranger", Optional.empty())),
                    offsets(here, topic, new ConsumerGroupMetadata(here.name)));
            });
        }
        all.add("txn-offsets-of-a-fenced-instance", here -> {
            String topic = here.topic(1);
            var member = ClassicGroupScenarios.join(here, topic, "group.instance.id", "a");
            here.poll(() -> !member.assignment().isEmpty(), member);
            int generation = member.groupMetadata().generationId();
            return offsets(here, topic, new ConsumerGroupMetadata(here.name, generation, "other", Optional.of("a")));
        });
        all.add("txn-offsets-of-an-unknown-group", here -> {
            String topic = here.topic(1);
            return List.of(offsets(here, topic, new ConsumerGroupMetadata(here.name, 3, "stranger", Optional.empty())),
                offsets(here, topic, new ConsumerGroupMetadata(here.name + "-b")));
        });
        all.addSlow("txn-offsets-of-an-unknown-topic", here -> {
            var producer = TransactionScenarios.transactional(here, here.name, "max.block.ms", "1500");
            producer.beginTransaction();
            return Here.kind(here.failure(() -> producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(here.name, 0), new OffsetAndMetadata(1)), new ConsumerGroupMetadata(here.name))));
        });
        all.add("txn-expires", here -> {
            String topic = here.topic(1);
            var producer = TransactionScenarios.transactional(here, here.name, "transaction.timeout.ms", "1000");
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "a")).get();
            boolean aborted = here.until(() -> TransactionScenarios.described(here, here.name).toString().contains("CompleteAbort"));
            Object committed = here.failure(producer::commitTransaction);
            return Here.fields("aborted", aborted, "committed", committed, "abort", here.failure(producer::abortTransaction));
        });
    }

    /** Returns how the commit of an offset for this member ends, and the transaction after it. */
    private static Object offsets(Here here, String topic, ConsumerGroupMetadata member) throws Exception {
        var producer = TransactionScenarios.transactional(here, here.name + "-" + UUID.randomUUID(), "max.block.ms", "5000");
        producer.beginTransaction();
        Object sent = here.failure(() -> producer.sendOffsetsToTransaction(Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)), member));
        Object committed = here.failure(producer::commitTransaction);
        return List.of(sent, committed, here.failure(producer::abortTransaction));
    }
}
