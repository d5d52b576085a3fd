// A Kafka Streams application, exactly_once_v2: counts how often each word was the value of a
// record of "words", over a repartition topic and a RocksDB store with its changelog, and writes
// every new count to "counts". It runs until it is killed.
//   java -cp "$KAFKA_LIBS/*" CountWords.java BOOTSTRAP STATE_DIRECTORY [PROPERTIES]
// Configs of the file PROPERTIES come first.
import java.io.FileReader;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.*;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.*;

public class CountWords {
    public static void main(String[] arguments) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, "count-words");
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, arguments[1]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 2);
        // Every count is written, none is held back until the next commit: a repeated or a lost
        // one shows in the output.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG), 6_000);
        config.put(StreamsConfig.consumerPrefix(ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG), 1_000);
        config.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        config.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        if (arguments.length > 2) {
            try (FileReader reader = new FileReader(arguments[2])) {
                config.load(reader);
            }
        }
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words")
            .selectKey((key, word) -> word)
            .groupByKey()
            .count(Materialized.as("count-store"))
            .toStream()
            .mapValues(String::valueOf)
            .to("counts");
        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> System.err.println("state " + now));
        streams.start();
    }
}
