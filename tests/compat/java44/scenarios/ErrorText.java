import java.util.concurrent.*;

/** Errors as results: class and message. */
final class ErrorText {
    private ErrorText() {}

    static String text(Throwable error) {
        Throwable cause = error;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null)
            cause = cause.getCause();
        String text = cause.getClass().getSimpleName() + ": " + cause.getMessage();
        boolean wraps = cause.getClass() == org.apache.kafka.common.KafkaException.class && cause.getCause() != null;
        return wraps ? text + " / " + text(cause.getCause()) : text;
    }
}
