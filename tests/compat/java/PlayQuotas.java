// Plays records and waits of clients on Kafka's own sensors. Each line of the input is JSON:
//   {"kind": "rate" | "tokens", "windows": n, "seconds": n, "quota": x,
//    "steps": [[time in ms, value], ...]}
// Each line of the output has, for every step, the wait in ms that Kafka answers for it.
//   java -cp "$KAFKA_LIBS/*" PlayQuotas.java < lines
import com.fasterxml.jackson.databind.*;
import java.io.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.*;
import org.apache.kafka.common.metrics.stats.*;
import org.apache.kafka.common.utils.*;
import org.apache.kafka.server.quota.*;

public class PlayQuotas {
    public static void main(String[] arguments) throws Exception {
        ObjectMapper json = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode game = json.readTree(line);
            boolean isRate = game.get("kind").asText().equals("rate");
            Metrics metrics = new Metrics();
            Sensor sensor = metrics.sensor("clients");
            MetricConfig config = new MetricConfig()
                .timeWindow(game.get("seconds").asInt(), TimeUnit.SECONDS)
                .samples(game.get("windows").asInt())
                .quota(new Quota(game.get("quota").asDouble(), isRate));
            sensor.add(metrics.metricName("m", "g"), isRate ? new Rate() : new TokenBucket(), config);
            StringBuilder waits = new StringBuilder();
            for (JsonNode step : game.get("steps")) {
                long now = step.get(0).asLong();
                long wait = 0;
                try {
                    sensor.record(step.get(1).asDouble(), now, true);
                } catch (QuotaViolationException violation) {
                    wait = isRate
                        ? QuotaUtils.throttleTime(violation, now)
                        : Math.round(-violation.value() / violation.bound() * 1000);
                }
                waits.append(wait).append(' ');
            }
            out.println(waits.toString().trim());
            metrics.close();
        }
        out.flush();
    }
}
