import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.admin.AlterConfigOp.OpType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.ConfigResource.Type;

/** Configs of every type of resource. The full tables of configs: test_configs_like_kafka.py. */
final class ConfigScenarios {
    private ConfigScenarios() {}

    static void register(Registry all) {
        all.add("config-topic-described", here -> described(here, new ConfigResource(Type.TOPIC, here.topic(1, "segment.ms", "70000")),
            "segment.ms", "retention.ms", "cleanup.policy", "min.insync.replicas"));
        all.add("config-topic-explained", here -> {
            var resource = new ConfigResource(Type.TOPIC, here.topic(1));
            var options = new DescribeConfigsOptions().includeDocumentation(true).includeSynonyms(true);
            var entry = here.admin().describeConfigs(List.of(resource), options).all().get().get(resource).get("segment.bytes");
            return Here.fields("documentation", entry.documentation(), "synonyms", entry.synonyms().toString(),
                "type", entry.type(), "sensitive", entry.isSensitive(), "read_only", entry.isReadOnly());
        });
        all.add("config-unknown-resources", here -> {
            List<Object> found = new ArrayList<>();
            for (var resource : List.of(new ConfigResource(Type.TOPIC, here.name), new ConfigResource(Type.TOPIC, "a b"),
                    new ConfigResource(Type.BROKER, "77"), new ConfigResource(Type.BROKER, "one"), new ConfigResource(Type.BROKER_LOGGER, "77"),
                    new ConfigResource(Type.GROUP, ""), new ConfigResource(Type.CLIENT_METRICS, ""), new ConfigResource(Type.TOPIC, "")))
                found.add(size(here, resource));
            return found;
        });
        all.add("config-broker-described", here -> described(here, new ConfigResource(Type.BROKER, "1"),
            "num.partitions", "message.max.bytes", "log.retention.hours", "compression.type", "auto.create.topics.enable"));
        all.add("config-topic-set-and-deleted", here -> {
            var resource = new ConfigResource(Type.TOPIC, here.topic(1));
            var set = alter(here, resource, "retention.ms", "60000", OpType.SET);
            var after = here.until(() -> "60000".equals(value(here, resource, "retention.ms")));
            var deleted = alter(here, resource, "retention.ms", "", OpType.DELETE);
            var reset = here.until(() -> !"60000".equals(value(here, resource, "retention.ms")));
            return Here.fields("set", set, "after", after, "deleted", deleted, "reset", reset,
                "again", alter(here, resource, "retention.ms", "", OpType.DELETE));
        });
        all.add("config-topic-lists", here -> {
            var resource = new ConfigResource(Type.TOPIC, here.topic(1));
            var appended = alter(here, resource, "cleanup.policy", "compact", OpType.APPEND);
            var both = here.until(() -> "delete,compact".equals(value(here, resource, "cleanup.policy")));
            var again = alter(here, resource, "cleanup.policy", "compact", OpType.APPEND);
            var taken = alter(here, resource, "cleanup.policy", "delete", OpType.SUBTRACT);
            var one = here.until(() -> "compact".equals(value(here, resource, "cleanup.policy")));
            return Here.fields("appended", appended, "both", both, "again", again, "taken", taken, "one", one,
                "no_list", alter(here, resource, "retention.ms", "1", OpType.APPEND));
        });
        all.add("config-topic-refused", here -> {
            var resource = new ConfigResource(Type.TOPIC, here.topic(1));
            return List.of(alter(here, resource, "no.such.config", "1", OpType.SET), alter(here, resource, "retention.ms", "soon", OpType.SET),
                alter(here, resource, "segment.bytes", "1", OpType.SET), alter(here, resource, "cleanup.policy", "x", OpType.SUBTRACT),
                alter(here, resource, "message.timestamp.type", "Never", OpType.SET),
                alter(here, resource, "no.such.config", "", OpType.DELETE),
                alter(here, new ConfigResource(Type.TOPIC, here.name), "retention.ms", "1", OpType.SET));
        });
        all.add("config-topic-only-validated", here -> {
            var resource = new ConfigResource(Type.TOPIC, here.topic(1));
            var options = new AlterConfigsOptions().validateOnly(true);
            var good = List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "60000"), OpType.SET));
            var bad = List.of(new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), OpType.SET));
            return Here.fields("good", here.outcome(here.admin().incrementalAlterConfigs(Map.of(resource, List.copyOf(good)), options).all()),
                "bad", here.outcome(here.admin().incrementalAlterConfigs(Map.of(resource, List.copyOf(bad)), options).all()),
                "value", value(here, resource, "retention.ms"));
        });
        all.add("config-broker-read-only", here -> List.of(
            alter(here, new ConfigResource(Type.BROKER, "1"), "broker.id", "7", OpType.SET),
            alter(here, new ConfigResource(Type.BROKER, "1"), "log.dirs", "/x", OpType.SET),
            alter(here, new ConfigResource(Type.BROKER, "77"), "leader.replication.throttled.rate", "1000", OpType.SET)));
        all.add("config-broker-throttle", here -> {
            var resource = new ConfigResource(Type.BROKER, "1");
            var set = alter(here, resource, "follower.replication.throttled.rate", "1000000000", OpType.SET);
            var seen = here.until(() -> "1000000000".equals(value(here, resource, "follower.replication.throttled.rate")));
            return Here.fields("set", set, "seen", seen,
                "deleted", alter(here, resource, "follower.replication.throttled.rate", "", OpType.DELETE));
        });
        all.add("config-logger", here -> {
            var resource = new ConfigResource(Type.BROKER_LOGGER, "1");
            return List.of(alter(here, resource, "no.such.Logger", "DEBUG", OpType.SET), alter(here, resource, "root", "LOUD", OpType.SET),
                alter(here, resource, "root", "INFO", OpType.APPEND));
        });
        all.add("config-group-described", here -> described(here, new ConfigResource(Type.GROUP, here.name),
            "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"));
        all.add("config-group-altered", here -> {
            var resource = new ConfigResource(Type.GROUP, here.name);
            var set = alter(here, resource, "consumer.session.timeout.ms", "50000", OpType.SET);
            var seen = here.until(() -> "50000".equals(value(here, resource, "consumer.session.timeout.ms")));
            return Here.fields("set", set, "seen", seen, "source", described(here, resource, "consumer.session.timeout.ms"),
                "deleted", alter(here, resource, "consumer.session.timeout.ms", "", OpType.DELETE));
        });
        all.add("config-group-refused", here -> {
            var resource = new ConfigResource(Type.GROUP, here.name);
            return List.of(alter(here, resource, "no.such.config", "1", OpType.SET),
                alter(here, resource, "consumer.session.timeout.ms", "soon", OpType.SET),
                alter(here, resource, "consumer.session.timeout.ms", "1", OpType.SET),
                alter(here, resource, "consumer.session.timeout.ms", "999999999", OpType.SET),
                alter(here, resource, "consumer.heartbeat.interval.ms", "1", OpType.SET),
                alter(here, resource, "consumer.heartbeat.interval.ms", "999999999", OpType.SET));
        });
        all.add("config-client-metrics", here -> {
            var resource = new ConfigResource(Type.CLIENT_METRICS, here.name);
            var set = alter(here, resource, "interval.ms", "60000", OpType.SET);
            var seen = here.until(() -> "60000".equals(value(here, resource, "interval.ms")));
            return Here.fields("set", set, "seen", seen, "low", alter(here, resource, "interval.ms", "1", OpType.SET),
                "match", alter(here, resource, "match", "no_such_selector=1", OpType.SET),
                "metrics", alter(here, resource, "metrics", "org.apache.kafka", OpType.SET),
                "unknown", alter(here, resource, "no.such.config", "1", OpType.SET));
        });
        all.add("config-resources-listed", here -> {
            var metrics = new ConfigResource(Type.CLIENT_METRICS, here.name);
            var group = new ConfigResource(Type.GROUP, here.name);
            alter(here, metrics, "interval.ms", "60000", OpType.SET);
            alter(here, group, "consumer.session.timeout.ms", "50000", OpType.SET);
            String topic = here.topic(1);
            return Here.fields("metrics", here.until(() -> listed(here, Type.CLIENT_METRICS).contains(metrics)),
                "groups", here.until(() -> listed(here, Type.GROUP).contains(group)),
                "topics", listed(here, Type.TOPIC).contains(new ConfigResource(Type.TOPIC, topic)),
                "brokers", listed(here, Type.BROKER), "loggers", listed(here, Type.BROKER_LOGGER),
                "unknown", here.outcome(here.admin().listConfigResources(Set.of(Type.UNKNOWN), new ListConfigResourcesOptions()).all()));
        });
    }

    /** Returns the number of configs, or the error. A broker that is not there is waited for. */
    private static Object size(Here here, ConfigResource resource) {
        boolean isAway = resource.name().equals("77");
        var options = new DescribeConfigsOptions().timeoutMs(isAway ? 500 : 10_000);
        Object found = here.outcome(() -> here.admin().describeConfigs(List.of(resource), options).all().get().get(resource).entries().size());
        return isAway ? Here.kind(found) : found;
    }

    private static Set<ConfigResource> listed(Here here, Type type) throws Exception {
        return new HashSet<>(here.admin().listConfigResources(Set.of(type), new ListConfigResourcesOptions()).all().get());
    }

    static Object alter(Here here, ConfigResource resource, String name, String value, OpType type) {
        List<AlterConfigOp> changes = List.of(new AlterConfigOp(new ConfigEntry(name, value), type));
        var options = new AlterConfigsOptions().timeoutMs(resource.name().equals("77") ? 500 : 10_000);
        Object altered = here.outcome(here.admin().incrementalAlterConfigs(Map.of(resource, changes), options).all());
        return resource.name().equals("77") ? Here.kind(altered) : altered;
    }

    static String value(Here here, ConfigResource resource, String name) throws Exception {
        ConfigEntry entry = here.admin().describeConfigs(List.of(resource)).all().get().get(resource).get(name);
        return entry == null ? "none" : entry.value();
    }

    private static Object described(Here here, ConfigResource resource, String... names) throws Exception {
        var config = here.admin().describeConfigs(List.of(resource)).all().get().get(resource);
        Map<String, Object> found = new TreeMap<>();
        for (String name : names) {
            ConfigEntry entry = config.get(name);
            boolean unlike = name.equals("min.insync.replicas");
            found.put(name, entry == null ? "none" : entry.value() + (unlike ? "" : " " + entry.source()) + " " + entry.type()
                + " read-only " + entry.isReadOnly() + " sensitive " + entry.isSensitive());
        }
        return found;
    }
}
