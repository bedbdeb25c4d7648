import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.WindowedSerdes;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;

/** The workloads on Kafka Streams: java Streams.java WORKLOAD APPLICATION COMMIT-AT,... name=value... */
public class Streams {
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final Serde<String> TEXT = Serdes.String();
    static final Serde<Long> NUMBER = Serdes.Long();
    static final Serde<JsonNode> JSON = Serdes.serdeFrom(
        (topic, node) -> attempt(() -> MAPPER.writeValueAsBytes(node)),
        (topic, bytes) -> attempt(() -> bytes == null ? null : MAPPER.readTree(bytes)));

    public static void main(String[] arguments) throws Exception {
        var properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        properties.put("internal.leave.group.on.close", "true"); // otherwise the next start waits for the session's end
        for (var option : Arrays.asList(arguments).subList(3, arguments.length)) {
            properties.put(option.substring(0, option.indexOf('=')), option.substring(option.indexOf('=') + 1));
        }
        var commitAt = Arrays.stream(arguments[2].split(",")).map(Long::valueOf).collect(Collectors.toList());
        var builder = new StreamsBuilder();
        describe(builder, arguments[0], commitAt);
        var streams = new KafkaStreams(builder.build(), properties);
        var ended = new CountDownLatch(1);
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            System.out.printf("late: %.0f%n", total(streams, "dropped-records-total"));
            streams.close(Duration.ofSeconds(30));
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    static double total(KafkaStreams streams, String metric) {
        return streams.metrics().values().stream().filter(found -> found.metricName().name().equals(metric))
            .mapToDouble(found -> ((Number) found.metricValue()).doubleValue()).sum();
    }

    static void describe(StreamsBuilder builder, String workload, List<Long> commitAt) {
        if (workload.equals("word-count")) {
            wordCount(builder, commitAt);
            return;
        }
        if (workload.equals("backlog")) {
            backlog(builder);
            return;
        }
        KStream<String, JsonNode> events =
            builder.stream("events", Consumed.with(TEXT, JSON)).processValues(requests(commitAt, 1));
        KGroupedStream<String, JsonNode> grouped = events.groupByKey(Grouped.with(TEXT, JSON));
        switch (workload) {
            case "map-filter" -> events.filter((key, event) -> event.get("amount").doubleValue() >= 50000)
                .mapValues(Streams::inCents).to("large", Produced.with(TEXT, JSON));
            case "latency" -> events.mapValues(Streams::inCents).to("mapped", Produced.with(TEXT, JSON));
            case "keyed-count", "every-update", "restore" -> grouped
                .count(Materialized.as("counts")).toStream().to("counted", Produced.with(TEXT, NUMBER));
            case "tumbling-count" -> grouped
                .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofSeconds(10)))
                .count(Materialized.as("counts")).toStream()
                .to("counted", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 10000), NUMBER));
            case "stream-table-join" -> events
                .join(builder.table("names", Consumed.with(TEXT, TEXT)), Streams::named, Joined.with(TEXT, JSON, TEXT))
                .to("joined", Produced.with(TEXT, JSON));
            default -> throw new IllegalArgumentException(workload);
        }
    }

    static void wordCount(StreamsBuilder builder, List<Long> commitAt) {
        builder.stream("sentences", Consumed.with(TEXT, TEXT))
            .processValues(requests(commitAt, 1))
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .mapValues(word -> word.toLowerCase())
            .selectKey((nothing, word) -> word)
            .repartition(Repartitioned.with(TEXT, TEXT))
            .processValues(requests(commitAt, 8))
            .groupByKey(Grouped.with(TEXT, TEXT))
            .count(Materialized.as("counts")).toStream().to("word-counts", Produced.with(TEXT, NUMBER));
    }

    static void backlog(StreamsBuilder builder) {
        builder.stream("events", Consumed.with(TEXT, JSON))
            .groupBy((nothing, event) -> event.get("user").asText(), Grouped.with(TEXT, JSON))
            .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(5)))
            .count(Materialized.as("counts")).toStream()
            .to("counted", Produced.with(WindowedSerdes.timeWindowedSerdeFrom(String.class, 1000), NUMBER));
    }

    static JsonNode inCents(JsonNode event) {
        ObjectNode made = MAPPER.createObjectNode();
        made.set("user", event.get("user"));
        made.set("ts", event.get("ts"));
        return made.put("cents", Math.round(event.get("amount").doubleValue() * 100));
    }

    static JsonNode named(JsonNode event, String name) {
        ObjectNode made = event.deepCopy();
        return made.put("name", name);
    }

    /** Requests a commit after the last input: at least once, the next one might be 30 s later. */
    static <V> FixedKeyProcessorSupplier<String, V, V> requests(List<Long> at, int each) {
        Set<Long> counts = at.stream().map(count -> count * each).collect(Collectors.toSet());
        long[] seen = {0}; // shared by all tasks, which run in one thread
        return () -> new FixedKeyProcessor<>() {
            FixedKeyProcessorContext<String, V> context;

            @Override
            public void init(FixedKeyProcessorContext<String, V> context) {
                this.context = context;
            }

            @Override
            public void process(FixedKeyRecord<String, V> record) {
                context.forward(record);
                if (counts.contains(++seen[0])) {
                    context.commit();
                }
            }
        };
    }

    interface Risky<T> {
        T run() throws Exception;
    }

    static <T> T attempt(Risky<T> risky) {
        try {
            return risky.run();
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
