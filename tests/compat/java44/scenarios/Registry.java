import java.util.*;

/** The scenarios by name, in order. */
final class Registry {
    private final Map<String, Scenario> scenarios = new LinkedHashMap<>();
    private final Set<String> slow = new HashSet<>();

    Registry() {
        TopicScenarios.register(this);
        PlacementScenarios.register(this);
        ConfigScenarios.register(this);
        BrokerConfigScenarios.register(this);
        ClusterScenarios.register(this);
        SecurityScenarios.register(this);
        ProducerScenarios.register(this);
        ConsumerScenarios.register(this);
        OffsetScenarios.register(this);
        ClassicGroupScenarios.register(this);
        ConsumerGroupScenarios.register(this);
        MixedGroupScenarios.register(this);
        TransactionScenarios.register(this);
        FencingScenarios.register(this);
        NetworkScenarios.register(this);
        RawClusterScenarios.register(this);
        RawGroupScenarios.register(this);
        RawMigrationScenarios.register(this);
    }

    void add(String name, Scenario scenario) {
        if (scenarios.put(name, scenario) != null) throw new IllegalStateException(name + " is there twice");
    }

    /** Adds a scenario that waits for more than 5 s: the normal suite leaves it out. */
    void addSlow(String name, Scenario scenario) {
        add(name, scenario);
        slow.add(name);
    }

    /** Returns the scenarios whose names match, without the slow ones if `quick`. */
    Map<String, Scenario> chosen(boolean quick, String pattern) {
        Map<String, Scenario> found = new LinkedHashMap<>(scenarios);
        found.keySet().removeIf(name -> quick && slow.contains(name) || !name.matches(pattern));
        return found;
    }
}
