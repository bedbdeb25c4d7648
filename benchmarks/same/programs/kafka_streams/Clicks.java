import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;

public class Clicks {
    static final ObjectMapper MAPPER = new ObjectMapper();

    static byte[] write(JsonNode node) {
        try {
            return MAPPER.writeValueAsBytes(node);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    static JsonNode read(byte[] bytes) {
        try {
            return MAPPER.readTree(bytes);
        } catch (Exception error) {
            throw new RuntimeException(error);
        }
    }

    public static void main(String[] arguments) {
        var text = Serdes.String();
        Serde<JsonNode> json = Serdes.serdeFrom((topic, node) -> write(node), (topic, bytes) -> read(bytes));
        var builder = new StreamsBuilder();
        builder.stream("clicks", Consumed.with(text, json))
            .groupBy((nothing, click) -> click.get("user").asText(), Grouped.with(text, json))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(10)))
            .emitStrategy(EmitStrategy.onWindowClose())
            .count(Materialized.as("per-minute"))
            .toStream()
            .map((window, count) -> KeyValue.pair(window.key(), (JsonNode) MAPPER.createObjectNode()
                .put("start", window.window().start()).put("count", count)))
            .to("clicks-per-minute", Produced.with(text, json));
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "clicks");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092");
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        var streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
