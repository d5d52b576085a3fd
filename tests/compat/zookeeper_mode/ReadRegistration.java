import java.nio.file.Files;
import java.nio.file.Path;

/** Prints the registration of a broker as Kafka reads it: the listeners and the rack. */
public class ReadRegistration {
    public static void main(String[] arguments) throws Exception {
        byte[] payload = Files.readAllBytes(Path.of(arguments[0]));
        var broker = kafka.zk.BrokerIdZNode.decode(7, payload).broker();
        System.out.println(broker.id() + " " + broker.endPoints().mkString(" ") + " " + broker.rack());
    }
}
