import java.util.regex.Pattern;

/** Replaces what differs between two runs against the same cluster. */
final class Normal {
    private static final Pattern UUID = Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
    private static final Pattern ID = Pattern.compile("(?<![A-Za-z0-9_-])(?=[A-Za-z0-9_-]*[A-Z0-9])[A-Za-z0-9_-]{22}(?![A-Za-z0-9_-])");
    private static final Pattern TIME_MS = Pattern.compile("\\b1[0-9]{12}\\b");
    private static final Pattern DURATION = Pattern.compile("\\b[0-9]+ ?ms\\b");
    private static final Pattern COUNTED = Pattern.compile("\\b(producerId|port|subscriptionId)=-?[0-9]+");
    static volatile String bootstrap = "";
    /** What makes the names of one run new to the cluster. */
    static final String RUN = String.format("-%06x", new java.util.Random().nextInt(1 << 24));

    private Normal() {}

    static String text(String given) {
        String text = given.replace(bootstrap, "BOOTSTRAP").replace(RUN, "");
        text = DURATION.matcher(text).replaceAll("N ms");
        text = COUNTED.matcher(text).replaceAll("$1=N");
        text = UUID.matcher(text).replaceAll("UUID");
        text = ID.matcher(text).replaceAll("ID");
        return TIME_MS.matcher(text).replaceAll("TIME");
    }
}
