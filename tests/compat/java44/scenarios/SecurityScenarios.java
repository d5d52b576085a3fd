import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.resource.*;

/** ACLs without an authorizer, SCRAM users, quotas and delegation tokens. */
final class SecurityScenarios {
    private SecurityScenarios() {}

    static void register(Registry all) {
        AclBinding binding = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "a", PatternType.LITERAL),
            new AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW));
        all.add("acls-described-without-authorizer", here -> here.outcome(here.admin().describeAcls(AclBindingFilter.ANY).values()));
        all.add("acls-created-without-authorizer", here -> here.outcome(here.admin().createAcls(List.of(binding)).all()));
        all.add("acls-deleted-without-authorizer", here -> here.outcome(here.admin().deleteAcls(List.of(AclBindingFilter.ANY)).all()));
        all.add("scram-users-described", here -> {
            var result = here.admin().describeUserScramCredentials(List.of(here.name));
            return Here.fields("users", here.outcome(result.users()), "unknown", here.outcome(result.description(here.name)));
        });
        all.add("scram-user-described-twice", here -> here.outcome(
            here.admin().describeUserScramCredentials(List.of(here.name, here.name)).all()));
        all.add("scram-user-altered", here -> {
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096);
            var set = scram(here, new UserScramCredentialUpsertion(here.name, info, "secret"));
            var seen = here.until(() -> here.admin().describeUserScramCredentials().all().get().containsKey(here.name));
            var found = here.outcome(here.admin().describeUserScramCredentials(List.of(here.name)).description(here.name));
            var deleted = scram(here, new UserScramCredentialDeletion(here.name, ScramMechanism.SCRAM_SHA_256));
            return Here.fields("set", set, "seen", seen, "found", found, "deleted", deleted);
        });
        all.add("scram-user-refused", here -> List.of(
            scram(here, new UserScramCredentialDeletion(here.name, ScramMechanism.SCRAM_SHA_512)),
            scram(here, new UserScramCredentialUpsertion(here.name, new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 1), "secret")),
            scram(here, new UserScramCredentialUpsertion(here.name, new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 99999), "secret")),
            scram(here, new UserScramCredentialUpsertion("", new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096), "secret"))));
        all.add("quotas-described", here -> List.of(
            here.outcome(here.admin().describeClientQuotas(ClientQuotaFilter.contains(
                List.of(ClientQuotaFilterComponent.ofEntity("client-id", here.name)))).entities()),
            here.outcome(here.admin().describeClientQuotas(ClientQuotaFilter.contains(
                List.of(ClientQuotaFilterComponent.ofEntity("no-such-type", "x")))).entities())));
        all.add("quotas-altered", here -> {
            var entity = new ClientQuotaEntity(Map.of("client-id", here.name));
            var set = quota(here, entity, "producer_byte_rate", 1e9);
            var filter = ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity("client-id", here.name)));
            var seen = here.outcome(() -> here.admin().describeClientQuotas(filter).entities().get().get(entity));
            return Here.fields("set", set, "seen", seen, "deleted", quota(here, entity, "producer_byte_rate", null));
        });
        all.add("quotas-refused", here -> {
            var client = new ClientQuotaEntity(Map.of("client-id", here.name));
            return List.of(quota(here, client, "no_such_quota", 1.0), quota(here, client, "producer_byte_rate", -1.0),
                quota(here, client, "producer_byte_rate", 0.5), quota(here, new ClientQuotaEntity(Map.of("planet", "x")), "producer_byte_rate", 1.0));
        });
        all.add("tokens-refused", here -> Here.fields("created", here.outcome(here.admin().createDelegationToken().delegationToken()),
            "described", here.outcome(here.admin().describeDelegationToken().delegationTokens()),
            "renewed", here.outcome(here.admin().renewDelegationToken(new byte[] {1}).expiryTimestamp()),
            "expired", here.outcome(here.admin().expireDelegationToken(new byte[] {1}).expiryTimestamp())));
    }

    private static Object scram(Here here, UserScramCredentialAlteration alteration) {
        return here.outcome(here.admin().alterUserScramCredentials(List.of(alteration)).all());
    }

    private static Object quota(Here here, ClientQuotaEntity entity, String name, Double value) {
        var change = new ClientQuotaAlteration(entity, List.of(new ClientQuotaAlteration.Op(name, value)));
        return here.outcome(here.admin().alterClientQuotas(List.of(change)).all());
    }
}
