import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;

/** Broker configs that change while the broker runs (KIP-226): sources, synonyms, refusals. */
final class BrokerConfigScenarios {
    private static final ConfigResource ONE = new ConfigResource(Type.BROKER, "1");
    private static final ConfigResource ALL = new ConfigResource(Type.BROKER, "");
    private static final String INTERVAL = "log.index.interval.bytes";

    private BrokerConfigScenarios() {}

    static void register(Registry all) {
        all.add("broker-config-sources", here -> {
            var topic = new ConfigResource(Type.TOPIC, here.topic(1));
            var nothing = names(here, ALL).contains(INTERVAL);
            var forAll = ConfigScenarios.alter(here, ALL, INTERVAL, "5000", OpType.SET);
            here.until(() -> places(here, ONE, INTERVAL).contains("5000"));
            var described = List.of(places(here, ALL, INTERVAL), places(here, ONE, INTERVAL), places(here, topic, "index.interval.bytes"));
            var forOne = ConfigScenarios.alter(here, ONE, INTERVAL, "6000", OpType.SET);
            here.until(() -> places(here, ONE, INTERVAL).contains("6000"));
            var both = List.of(places(here, ONE, INTERVAL), places(here, topic, "index.interval.bytes"), names(here, ALL).contains(INTERVAL));
            var deleted = List.of(ConfigScenarios.alter(here, ONE, INTERVAL, "", OpType.DELETE), ConfigScenarios.alter(here, ALL, INTERVAL, "", OpType.DELETE));
            here.until(() -> places(here, ONE, INTERVAL).contains("DEFAULT_CONFIG"));
            return Here.fields("nothing", nothing, "for_all", forAll, "described", described, "for_one", forOne, "both", both,
                "deleted", deleted, "after", places(here, ONE, INTERVAL));
        });
        all.add("broker-config-of-groups", here -> {
            String name = "group.consumer.assignment.interval.ms";
            var group = new ConfigResource(Type.GROUP, here.name);
            var set = ConfigScenarios.alter(here, ALL, name, "1", OpType.SET);
            here.until(() -> places(here, ONE, name).startsWith("1 "));
            var described = List.of(places(here, ONE, name), places(here, group, "consumer.assignment.interval.ms"));
            ConfigScenarios.alter(here, group, "consumer.assignment.interval.ms", "2", OpType.SET);
            here.until(() -> places(here, group, "consumer.assignment.interval.ms").startsWith("2 "));
            var own = places(here, group, "consumer.assignment.interval.ms");
            return Here.fields("set", set, "described", described, "own", own, "deleted", ConfigScenarios.alter(here, ALL, name, "", OpType.DELETE));
        });
        all.add("broker-config-accepted", here -> validated(here, ONE, OpType.SET,
            "log.retention.ms=70000", "log.retention.ms=-1", "log.segment.bytes=1048576", "log.roll.ms=70000", "log.cleanup.policy=compact",
            "log.cleanup.policy=delete,compact", "log.cleaner.backoff.ms=100", "log.cleaner.dedupe.buffer.size=4000000",
            "log.cleaner.io.max.bytes.per.second=1e6", "message.max.bytes=2000000", "unclean.leader.election.enable=true",
            "compression.type=gzip", "producer.id.expiration.ms=5000", "transaction.partition.verification.enable=false",
            "log.message.timestamp.type=LogAppendTime", "group.consumer.assignment.interval.ms=5", "leader.replication.throttled.rate=5"));
        all.add("broker-config-bad-values", here -> validated(here, ONE, OpType.SET,
            "log.retention.ms=soon", "log.retention.ms=-5", "log.retention.ms=0", "log.segment.bytes=1000", "log.roll.ms=0", "log.cleanup.policy=shred",
            "log.cleanup.policy=", "log.cleaner.io.max.bytes.per.second=fast", "log.cleaner.backoff.ms=-1", "message.max.bytes=-1",
            "min.insync.replicas=0", "unclean.leader.election.enable=perhaps", "compression.type=zip", "producer.id.expiration.ms=0",
            "leader.replication.throttled.rate=-1", "leader.replication.throttled.rate=x", "log.retention.bytes=x", "log.roll.jitter.ms=-1",
            "log.message.timestamp.type=Never", "group.consumer.assignment.interval.ms=-1", "log.cleaner.min.cleanable.ratio=2",
            "log.cleaner.io.buffer.load.factor=x", "transaction.partition.verification.enable=x", "log.cleaner.dedupe.buffer.size=x",
            "log.cleaner.dedupe.buffer.size=1", "log.cleaner.max.compaction.lag.ms=0"));
        all.add("broker-config-not-dynamic", here -> {
            var set = validated(here, ONE, OpType.SET, "auto.create.topics.enable=false", "replica.fetch.max.bytes=1", "num.partitions=2",
                "log.retention.hours=1", "log.roll.hours=1", "node.id=1", "offsets.retention.minutes=x");
            return List.of(set, validated(here, ONE, OpType.DELETE, "num.partitions=", "no.such.config="),
                validated(here, ALL, OpType.SET, "num.partitions=2"));
        });
        all.add("broker-config-security", here -> List.of(
            validated(here, ONE, OpType.SET, "ssl.keystore.location=/x", "ssl.keystore.password=hush"),
            validated(here, ALL, OpType.SET, "ssl.keystore.location=/x", "listener.name.external.ssl.keystore.location=/x", "listeners=PLAINTEXT://:1")));
        all.add("broker-config-lists", here -> List.of(
            validated(here, ONE, OpType.APPEND, "log.cleanup.policy=compact", "message.max.bytes=1"),
            validated(here, ONE, OpType.SUBTRACT, "log.cleanup.policy=compact", "message.max.bytes=1")));
        all.add("topic-small-segments", here -> {
            var topic = new ConfigResource(Type.TOPIC, here.topic(1));
            var set = ConfigScenarios.alter(here, topic, "internal.segment.bytes", "2000", OpType.SET);
            var seen = here.until(() -> "2000".equals(ConfigScenarios.value(here, topic, "internal.segment.bytes")));
            return Here.fields("set", set, "seen", seen, "segment.bytes", ConfigScenarios.value(here, topic, "segment.bytes"),
                "named", names(here, topic).contains("internal.segment.bytes"),
                "word", ConfigScenarios.alter(here, topic, "internal.segment.bytes", "x", OpType.SET));
        });
    }

    /** Checks each "name=value" by itself, without a change. */
    private static Map<String, Object> validated(Here here, ConfigResource resource, OpType type, String... changes) {
        var options = new AlterConfigsOptions().validateOnly(true);
        Map<String, Object> found = new LinkedHashMap<>();
        for (String change : changes) {
            String[] parts = change.split("=", 2);
            List<AlterConfigOp> wanted = List.of(new AlterConfigOp(new ConfigEntry(parts[0], parts[1]), type));
            found.put(change, here.outcome(here.admin().incrementalAlterConfigs(Map.of(resource, wanted), options).all()));
        }
        return found;
    }

    private static Set<String> names(Here here, ConfigResource resource) throws Exception {
        Set<String> names = new TreeSet<>();
        here.admin().describeConfigs(List.of(resource)).all().get().get(resource).entries().forEach(entry -> names.add(entry.name()));
        return names;
    }

    /** Returns value, source, synonyms in order, and whether it can be changed. */
    private static String places(Here here, ConfigResource resource, String name) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true);
        ConfigEntry entry = here.admin().describeConfigs(List.of(resource), options).all().get().get(resource).get(name);
        if (entry == null) return "none";
        StringBuilder text = new StringBuilder(entry.value() + " " + entry.source() + (entry.isReadOnly() ? " read-only" : ""));
        entry.synonyms().forEach(each -> text.append(" | ").append(each.name()).append('=').append(each.value()).append(' ').append(each.source()));
        return text.toString();
    }
}
