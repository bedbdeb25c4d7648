import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.WindowedSerdes;

/**
 * Kafka Streams reads what streamtopo wrote: it copies each topic "from-python-X" to "from-java-X", reads changelogs as
 * tables, and counts records. It runs until it is killed.
 *
 * Usage: Interop BOOTSTRAP_SERVERS STATE_DIRECTORY
 */
public class Interop {
    public static void main(String[] arguments) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> strings = copy(builder, "strings", Serdes.String());
        copy(builder, "longs", Serdes.Long());
        copy(builder, "ints", Serdes.Integer());
        copy(builder, "windowed", WindowedSerdes.timeWindowedSerdeFrom(String.class, 10_000));
        table(builder, "python-counts-changelog", "from-java-counts-table", Serdes.Long());
        table(builder, "python-prices-changelog", "from-java-prices-table", Serdes.String());
        strings.groupByKey()
            .count(Materialized.as("counts"))
            .toStream()
            .to("from-java-counts", Produced.with(Serdes.String(), Serdes.Long()));

        new KafkaStreams(builder.build(), settings(arguments[0], arguments[1])).start();
    }

    private static <K> KStream<K, String> copy(StreamsBuilder builder, String name, Serde<K> key) {
        KStream<K, String> copied = builder.stream("from-python-" + name, Consumed.with(key, Serdes.String()));
        copied.to("from-java-" + name, Produced.with(key, Serdes.String()));
        return copied;
    }

    private static <V> void table(StreamsBuilder builder, String changelog, String to, Serde<V> value) {
        builder.table(changelog, Consumed.with(Serdes.String(), value))
            .toStream()
            .to(to, Produced.with(Serdes.String(), value));
    }

    private static Properties settings(String servers, String directory) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "java");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, servers);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, directory);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, 6_000); // then the group removes a killed member
        return settings;
    }
}
