import java.io.File;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A key distribution centre on 127.0.0.1 by TCP, until its input ends.
 *
 *   java RunKdc.java DIRECTORY REALM PORT PRINCIPAL...
 *
 * It writes the keys of each principal into DIRECTORY/NAME.keytab, where "/" of a name is "_". Then it
 * prints "ready". A line "new PRINCIPAL" gives the principal another key, and writes its file again.
 */
public class RunKdc {
    public static void main(String[] arguments) throws Exception {
        var directory = new File(arguments[0]);
        var kdc = new SimpleKdcServer();
        kdc.setWorkDir(directory);
        kdc.setKdcRealm(arguments[1]);
        kdc.setKdcHost("127.0.0.1");
        kdc.setAllowUdp(false);
        kdc.setKdcTcpPort(Integer.parseInt(arguments[2]));
        kdc.getKdcConfig().setLong(KdcConfigKey.MINIMUM_TICKET_LIFETIME, 1L);
        kdc.init();
        kdc.start();
        for (int at = 3; at < arguments.length; at++) {
            kdc.createPrincipal(arguments[at]);
            export(kdc, directory, arguments[at]);
        }
        System.out.println("ready");
        var input = new java.io.BufferedReader(new java.io.InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            var principal = line.split(" ")[1];
            kdc.deletePrincipal(principal);
            kdc.createPrincipal(principal);
            export(kdc, directory, principal);
            System.out.println("done");
        }
        kdc.stop();
        System.exit(0);
    }

    static void export(SimpleKdcServer kdc, File directory, String principal) throws Exception {
        var file = new File(directory, principal.replace('/', '_') + ".keytab");
        var made = new File(directory, "new.keytab");
        made.delete();
        kdc.exportPrincipal(principal, made);
        if (!made.renameTo(file)) throw new IllegalStateException("cannot write " + file);
    }
}
