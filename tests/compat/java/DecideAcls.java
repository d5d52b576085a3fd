// Decides requests with Kafka's own StandardAuthorizer. Each line of the input is JSON:
//   {"super": "User:a;User:b", "allow": false, "acls": [[type, name, pattern, principal, host,
//    operation, permission], ...], "asks": [[principal, host, operation, type, name], ...]}
// where a null name asks for any resource of the type. Each line of the output has a 1 (allowed) or
// 0 (denied) per question.
//   java -cp "$KAFKA_LIBS/*" DecideAcls.java < lines
import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.net.InetAddress;
import java.util.*;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.metadata.authorizer.*;
import org.apache.kafka.server.authorizer.*;

public class DecideAcls {
    record Asking(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.PLAINTEXT; }
        public int requestType() { return 3; }
        public int requestVersion() { return 12; }
        public String clientId() { return "asking"; }
        public int correlationId() { return 1; }
    }

    static ResourceType type(JsonNode code) { return ResourceType.fromCode((byte) code.asInt()); }

    static AclOperation operation(JsonNode code) {
        return AclOperation.fromCode((byte) code.asInt());
    }

    public static void main(String[] arguments) throws Exception {
        StandardAuthorizer authorizer = new StandardAuthorizer();
        authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
        authorizer.completeInitialLoad();
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode world = json.readTree(line);
            authorizer.configure(Map.of(
                StandardAuthorizer.SUPER_USERS_CONFIG, world.get("super").asText(),
                StandardAuthorizer.ALLOW_EVERYONE_IF_NO_ACL_IS_FOUND_CONFIG,
                world.get("allow").asText()));
            Map<Uuid, StandardAcl> acls = new HashMap<>();
            for (JsonNode acl : world.get("acls"))
                acls.put(Uuid.randomUuid(), new StandardAcl(
                    type(acl.get(0)), acl.get(1).asText(),
                    PatternType.fromCode((byte) acl.get(2).asInt()),
                    acl.get(3).asText(), acl.get(4).asText(), operation(acl.get(5)),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt())));
            authorizer.loadSnapshot(acls);
            StringBuilder decided = new StringBuilder();
            for (JsonNode ask : world.get("asks")) {
                String[] who = ask.get(0).asText().split(":", 2);
                Asking asking = new Asking(new KafkaPrincipal(who[0], who[1]),
                    InetAddress.getByName(ask.get(1).asText()));
                AuthorizationResult result = ask.get(4).isNull()
                    ? authorizer.authorizeByResourceType(
                        asking, operation(ask.get(2)), type(ask.get(3)))
                    : authorizer.authorize(asking, List.of(new Action(operation(ask.get(2)),
                        new ResourcePattern(type(ask.get(3)), ask.get(4).asText(),
                            PatternType.LITERAL), 1, true, true))).get(0);
                decided.append(result == AuthorizationResult.ALLOWED ? '1' : '0');
            }
            out.println(decided);
        }
        out.flush();
    }
}
