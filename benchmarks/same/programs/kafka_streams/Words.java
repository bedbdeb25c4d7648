import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class Words {
    public static void main(String[] arguments) {
        var text = Serdes.String();
        var builder = new StreamsBuilder();
        builder.stream("sentences", Consumed.with(text, text))
            .flatMapValues(sentence -> Arrays.asList(sentence.split(" ")))
            .groupBy((nothing, word) -> word, Grouped.with(text, text))
            .count(Materialized.as("counts"))
            .toStream()
            .to("word-counts", Produced.with(text, Serdes.Long()));
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "words");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092");
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        var streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
