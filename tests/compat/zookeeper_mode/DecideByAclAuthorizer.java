// Decides requests with the AclAuthorizer of Kafka 3.9.1. Input and output are those of
// java/DecideAcls.java, with a "-" for an operation that this release does not know. The ACLs of a
// world go into its cache by the method that changes from ZooKeeper go through, so it needs none.
//   java -cp "$KAFKA_3_9_1_LIBS/*" DecideByAclAuthorizer.java < lines
import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.util.*;
import kafka.security.authorizer.AclAuthorizer;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.auth.*;
import org.apache.kafka.common.utils.SecurityUtils;
import org.apache.kafka.security.authorizer.AclEntry;
import org.apache.kafka.server.authorizer.*;
import scala.jdk.javaapi.CollectionConverters;

public class DecideByAclAuthorizer {
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

    static <T> scala.collection.immutable.Set<T> scalaSet(Set<T> of) {
        return CollectionConverters.asScala(of).<T>toSet();
    }

    static void set(AclAuthorizer authorizer, String field, Object value) throws Exception {
        Field found = AclAuthorizer.class.getDeclaredField(field);
        found.setAccessible(true);
        found.set(authorizer, value);
    }

    static AclAuthorizer authorizer(JsonNode world) throws Exception {
        AclAuthorizer authorizer = new AclAuthorizer();
        // What configure() does before it connects to ZooKeeper.
        Set<KafkaPrincipal> superUsers = new HashSet<>();
        for (String name : world.get("super").asText().split(";"))
            if (!name.isEmpty()) superUsers.add(SecurityUtils.parseKafkaPrincipal(name));
        set(authorizer, "superUsers", scalaSet(superUsers));
        set(authorizer, "shouldAllowEveryoneIfNoAclIsFound",
            Boolean.parseBoolean(world.get("allow").asText()));
        Map<ResourcePattern, Set<AclEntry>> acls = new HashMap<>();
        for (JsonNode acl : world.get("acls")) {
            ResourcePattern resource = new ResourcePattern(type(acl.get(0)), acl.get(1).asText(),
                PatternType.fromCode((byte) acl.get(2).asInt()));
            acls.computeIfAbsent(resource, each -> new HashSet<>()).add(new AclEntry(
                new AccessControlEntry(acl.get(3).asText(), acl.get(4).asText(),
                    operation(acl.get(5)),
                    AclPermissionType.fromCode((byte) acl.get(6).asInt()))));
        }
        for (var each : acls.entrySet())
            authorizer.updateCache(each.getKey(),
                new AclAuthorizer.VersionedAcls(scalaSet(each.getValue()), 1));
        return authorizer;
    }

    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode world = json.readTree(line);
            AclAuthorizer authorizer = authorizer(world);
            StringBuilder decided = new StringBuilder();
            for (JsonNode ask : world.get("asks")) {
                if (operation(ask.get(2)) == AclOperation.UNKNOWN) {
                    decided.append('-');
                    continue;
                }
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
