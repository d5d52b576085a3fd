// Writes tests/golden/topic_regexes.txt with RE2/J, which Kafka matches SubscribedTopicRegex with.
//   java -cp "$KAFKA_LIBS/*" tests/golden/generate/TopicRegexes.java tests/golden
// The first line holds the names as a JSON array. Each other line is a JSON object: the pattern, and
// the names that it matches as a whole, or null where it does not compile.
import com.google.re2j.Pattern;
import com.google.re2j.PatternSyntaxException;
import java.nio.file.*;
import java.util.*;
import java.util.stream.Collectors;

public class TopicRegexes {
    static final String[] NAMES = {
        "", "a", "ab", "abc", "b", "flights", "Flights", "flights.eu", "flights-2", "x_1", "aaaa",
        "aab", "2", "d", "w", "a-b", "a{,2}", "{2}", "orders|eu", "Z"};

    static final String[] PATTERNS = {
        "flights", "flights.*", "flights\\..*", "^flights$", "a|b|flights.+", "(a|b)*", "a{2,4}",
        "a{2}b?", "a{1,}", "[a-c]+", "[^a-c]+", "[\\w.-]+", "\\w+", "\\W*", "\\d*", "(?:ab)+c?",
        "(?P<name>a)b", "(?<name>a)b", "(?i)FLIGHTS", "(?i)[f-g]lights", "x_\\d", "", ".",
        "a??b*?c+?", "(|a)+", "(a*)*", "[]a]+", "[a\\]]+", "[a-]+", "a{,2}", "flights\\.eu",
        "[[:alpha:]]+", "[[:^alpha:]]+", "[^[:^alpha:]]+", "\\Aflights\\z", "\\Qflights.\\Eeu",
        "\\Qa", "\\x61+", "\\x{61}+", "a(?i)B", "(?s).", "(?i-s:A)", "(?-i)A", "(?U)a+", "(?m)^a$",
        "\\pL+", "\\PL", "\\p{Greek}", "\\pN", "\\bflights\\b", "\\07", "\\012", "(?P<1>a)", "^*",
        "orders\\|eu", "a{1000}", "((a|b)?){5}", "[^\\d]+", "[[:word:]]+", "\u00e9", "[\u00e9a]",
        "(".repeat(100) + ")".repeat(100),
        "(", ")", "[", "[a", "a**", "*a", "(?=a)", "(?<!a)b", "\\1", "(a)\\1", "a{1001}", "a{3,2}",
        "[b-a]", "[[:nope:]]", "\\", "\\k", "(?z)a", "[a-\\d]", "a{2}{3}", "a*{2}", "(?P<>a)",
        "\\Z", "\\x{110000}", "\\xg", "\\ca", "[\\Qa\\E]",
        "\\C", "(?P<a>a)(?P<a>b)", "(a{1000}){2}", "((a{100}){100}){100}", "a".repeat(2000)};

    static String json(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < 32 || c > 126) out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }

    static String json(List<String> texts) {
        return texts.stream().map(TopicRegexes::json).collect(Collectors.joining(", ", "[", "]"));
    }

    static String matches(String text) {
        try {
            Pattern pattern = Pattern.compile(text);
            return json(Arrays.stream(NAMES).filter(n -> pattern.matcher(n).matches()).sorted().toList());
        } catch (PatternSyntaxException e) {
            return "null";
        }
    }

    public static void main(String[] args) throws Exception {
        StringBuilder out = new StringBuilder(json(Arrays.asList(NAMES))).append('\n');
        for (String pattern : PATTERNS) {
            out.append("{\"pattern\": ").append(json(pattern));
            out.append(", \"matches\": ").append(matches(pattern)).append("}\n");
        }
        Files.writeString(Path.of(args[0], "topic_regexes.txt"), out);
    }
}
