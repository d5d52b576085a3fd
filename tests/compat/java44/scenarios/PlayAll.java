import java.util.*;
import java.util.concurrent.*;

/**
 * Plays all scenarios against one cluster, a few at a time, and prints a line of JSON for each.
 *   java -cp CLASSES:KAFKA_CLIENTS PlayAll BOOTSTRAP all|quick [PATTERN]
 */
public final class PlayAll {
    private static final int SCENARIOS_AT_ONCE = 12;
    private static final long SCENARIO_SECONDS_MAX = 90;

    public static void main(String[] arguments) throws Exception {
        String pattern = arguments.length > 2 ? arguments[2] : ".*";
        Map<String, Scenario> chosen = new Registry().chosen(arguments[1].equals("quick"), pattern);
        ExecutorService players = Executors.newFixedThreadPool(SCENARIOS_AT_ONCE, PlayAll::daemon);
        ScheduledExecutorService watch = Executors.newScheduledThreadPool(1, PlayAll::daemon);
        try (World world = new World(arguments[0])) {
            List<Future<?>> played = new ArrayList<>();
            chosen.forEach((name, scenario) -> played.add(players.submit(() -> {
                Thread player = Thread.currentThread();
                Future<?> alarm = watch.schedule(player::interrupt, SCENARIO_SECONDS_MAX, TimeUnit.SECONDS);
                long startMs = System.currentTimeMillis();
                Object result = play(world, name, scenario);
                alarm.cancel(false);
                Thread.interrupted();
                print(name, result, System.currentTimeMillis() - startMs);
            })));
            for (Future<?> each : played) each.get();
        }
        System.exit(0);
    }

    private static Object play(World world, String name, Scenario scenario) {
        try (Here here = new Here(world, name + Normal.RUN)) {
            return scenario.play(here);
        } catch (Throwable error) {
            if (System.getenv("TRACES") != null) error.printStackTrace();
            return ErrorText.text(error);
        }
    }

    private static synchronized void print(String name, Object result, long tookMs) {
        System.out.println("{\"scenario\": " + Json.text(name) + ", \"took_ms\": " + tookMs + ", \"result\": " + Json.text(result) + "}");
    }

    private static Thread daemon(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        return thread;
    }
}
