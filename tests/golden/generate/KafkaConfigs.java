// Writes local_cluster/kafka_configs/kafka_4_4_configs.json with Kafka's own Java classes: every config
// of brokers, topics, groups and client metrics that DescribeConfigs may show.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/KafkaConfigs.java local_cluster/kafka_configs
import com.fasterxml.jackson.databind.*;
import com.fasterxml.jackson.databind.node.*;
import java.nio.file.*;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.*;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

public class KafkaConfigs {
    static final ObjectMapper JSON = new ObjectMapper();

    static ObjectNode written(ConfigDef.ConfigKey key) {
        ObjectNode node = JSON.createObjectNode();
        node.put("type", key.type().name());
        node.put("default", key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
        if (key.validator != null) {
            node.put("validator", key.validator.getClass().getSimpleName());
            node.put("valid", key.validator.toString());
        }
        node.put("documentation", key.documentation);
        return node;
    }

    static ObjectNode table(Map<String, ConfigDef.ConfigKey> keys) {
        ObjectNode table = JSON.createObjectNode();
        new TreeMap<>(keys).forEach((name, key) -> {
            if (!key.internalConfig) table.set(name, written(key));
        });
        return table;
    }

    static void setSynonyms(ObjectNode table, String name, List<String> synonyms) {
        if (table.has(name) && !synonyms.isEmpty()) {
            ArrayNode names = ((ObjectNode) table.get(name)).putArray("synonyms");
            synonyms.forEach(names::add);
        }
    }

    public static void main(String[] arguments) throws Exception {
        ObjectNode brokers = table(AbstractKafkaConfig.CONFIG_DEF.configKeys());
        brokers.fieldNames().forEachRemaining(name -> {
            List<String> synonyms = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (synonyms.size() > 1) setSynonyms(brokers, name, synonyms);
            if (DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS.contains(name)) ((ObjectNode) brokers.get(name)).put("dynamic", true);
        });
        ObjectNode topics = table(LogConfig.configKeys());
        topics.fieldNames().forEachRemaining(name -> {
            List<String> synonyms = new ArrayList<>();
            for (ConfigSynonym synonym : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.getOrDefault(name, List.of()))
                synonyms.add(synonym.name());
            setSynonyms(topics, name, synonyms);
        });
        ObjectNode groups = table(GroupConfig.CONFIG_DEF.configKeys());
        groups.fieldNames().forEachRemaining(name ->
            setSynonyms(groups, name, GroupConfig.brokerSynonym(name).stream().toList()));

        ObjectNode all = JSON.createObjectNode();
        all.set("broker", brokers);
        all.set("topic", topics);
        all.set("group", groups);
        all.set("client_metrics", table(ClientMetricsConfigs.configDef().configKeys()));
        Files.writeString(Path.of(arguments[0], "kafka_4_4_configs.json"),
            JSON.writerWithDefaultPrettyPrinter().writeValueAsString(all) + "\n");
    }
}
