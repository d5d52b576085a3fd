import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.DefaultReplicationPolicy;
import org.apache.kafka.connect.mirror.MirrorClient;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Asks MirrorMaker 2's client about a target cluster; prints "question answer" lines. */
public class AskMirrorClient {
    public static void main(String[] args) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", args[0]);
        String source = args[1];
        String group = args[2];
        System.out.println("replicationHops " + RemoteClusterUtils.replicationHops(config, source));
        System.out.println("heartbeatTopics " + new TreeSet<>(RemoteClusterUtils.heartbeatTopics(config)));
        System.out.println("checkpointTopics " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(config)));
        System.out.println("upstreamClusters " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(config)));
        var offsets = new TreeMap<String, Long>();
        RemoteClusterUtils.translateOffsets(config, source, group, Duration.ofSeconds(20))
            .forEach((at, position) -> offsets.put(at.toString(), position.offset()));
        System.out.println("translateOffsets " + offsets);
        try (var client = new MirrorClient(config)) {
            System.out.println("remoteTopics " + new TreeSet<>(client.remoteTopics(source)));
            System.out.println("allRemoteTopics " + new TreeSet<>(client.remoteTopics()));
        }
        var hiding = new HashMap<>(config);
        hiding.put("replication.policy.class", HeliographReplicationPolicy.class);
        try (var client = new MirrorClient(hiding)) {
            System.out.println("allWithPolicy " + new TreeSet<>(client.remoteTopics()));
        }
    }

    /** As docs/operations/groups.md has it. */
    public static class HeliographReplicationPolicy extends DefaultReplicationPolicy {
        @Override
        public boolean isInternalTopic(String topic) {
            return super.isInternalTopic(topic)
                || topic.startsWith("heliograph-") && topic.endsWith(".internal");
        }
    }
}
