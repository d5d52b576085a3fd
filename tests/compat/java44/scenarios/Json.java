import java.util.*;
import java.util.stream.Collectors;

/** Writes results as JSON: the keys of maps sorted, what differs from run to run replaced. */
final class Json {
    private Json() {}

    static String text(Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) return String.valueOf(value);
        if (value instanceof Optional<?> optional) return text(optional.orElse(null));
        if (value instanceof Map<?, ?> map)
            return map.entrySet().stream()
                .map(entry -> text(String.valueOf(entry.getKey())) + ": " + text(entry.getValue()))
                .sorted().collect(Collectors.joining(", ", "{", "}"));
        if (value instanceof Set<?> set)
            return set.stream().map(Json::text).sorted().collect(Collectors.joining(", ", "[", "]"));
        if (value instanceof Collection<?> list)
            return list.stream().map(Json::text).collect(Collectors.joining(", ", "[", "]"));
        return quoted(Normal.text(value.toString()));
    }

    private static String quoted(String plain) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : plain.toCharArray()) {
            if (c == '"' || c == '\\') out.append('\\').append(c);
            else if (c < ' ' || c > '~') out.append(String.format("\\u%04x", (int) c));
            else out.append(c);
        }
        return out.append('"').toString();
    }
}
