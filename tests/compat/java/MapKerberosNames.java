import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.security.kerberos.KerberosName;
import org.apache.kafka.common.security.kerberos.KerberosShortNamer;

/**
 * Kafka's names of principals. A line of the input is REALM, PRINCIPAL and RULES, with tabs between
 * all; it prints a line for each: "name NAME", "none" or "invalid".
 */
public class MapKerberosNames {
    public static void main(String[] arguments) throws Exception {
        var input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(answer(line.split("\t", -1)));
        }
    }

    static String answer(String[] parts) {
        KerberosShortNamer namer;
        try {
            namer = KerberosShortNamer.fromUnparsedRules(parts[0], Arrays.asList(parts).subList(2, parts.length));
        } catch (RuntimeException error) {
            return "invalid";
        }
        try {
            return "name " + namer.shortName(KerberosName.parse(parts[1]));
        } catch (Exception error) {
            return "none";
        }
    }
}
