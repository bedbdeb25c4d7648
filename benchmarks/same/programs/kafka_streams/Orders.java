import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

public class Orders {
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

    static JsonNode merged(JsonNode order, JsonNode customer) {
        ObjectNode both = order.deepCopy();
        return both.setAll((ObjectNode) customer);
    }

    public static void main(String[] arguments) {
        var text = Serdes.String();
        Serde<JsonNode> json = Serdes.serdeFrom((topic, node) -> write(node), (topic, bytes) -> read(bytes));
        var builder = new StreamsBuilder();
        var history = Stores.persistentVersionedKeyValueStore("customers", Duration.ofHours(1));
        var customers = builder.table("customers", Consumed.with(text, json), Materialized.as(history));
        builder.stream("orders", Consumed.with(text, json))
            .join(customers, Orders::merged, Joined.with(text, json, json, "enrich", Duration.ofSeconds(10)))
            .to("enriched", Produced.with(text, json));
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "orders");
        properties.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092");
        properties.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        var streams = new KafkaStreams(builder.build(), properties);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
    }
}
