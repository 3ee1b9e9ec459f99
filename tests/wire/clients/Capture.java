import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/**
 * Sends the messages of capture.py with Pulsar's own Java client, or takes and acknowledges what a broker delivers.
 * Arguments: service URL, topic, then "produce", codec, batching, lines a message, or "consume", messages to take.
 */
public final class Capture {
    private record Sent(String text, String key, String orderingKey, Map<String, String> properties, long eventTime) {
    }

    private static List<Sent> messages(int lines) {
        return List.of(
                new Sent("order 0, ".repeat(lines), "alice", null, Map.of(), 0),
                new Sent("order 1, ".repeat(lines), "bob", null, Map.of(), 0),
                new Sent("order 2, ".repeat(lines), "alice", null, Map.of("trace", "t-2"), 0),
                new Sent("order 3, ".repeat(lines), "carol", "bob", Map.of(), 0),
                new Sent("order 4, ".repeat(lines), "bob", null, Map.of(), 1_700_000_000_000L),
                new Sent("order 5, ".repeat(lines), null, null, Map.of(), 0),
                new Sent("", "carol", null, Map.of(), 0));
    }

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0]).build()) {
            if (arguments[2].equals("produce")) {
                produce(client, arguments[1], arguments[3], arguments[4], Integer.parseInt(arguments[5]));
            } else {
                consume(client, arguments[1], Integer.parseInt(arguments[3]));
            }
        }
    }

    private static void produce(PulsarClient client, String topic, String codec, String batching, int lines)
            throws Exception {
        Producer<byte[]> producer = client.newProducer()
                .topic(topic)
                .producerName("shop")
                .compressionType(CompressionType.valueOf(codec.toUpperCase()))
                .enableBatching(!batching.equals("single"))
                .batcherBuilder(batching.equals("keybased") ? BatcherBuilder.KEY_BASED : BatcherBuilder.DEFAULT)
                .batchingMaxPublishDelay(1, TimeUnit.MINUTES)
                .create();
        CompletableFuture<?> last = null;
        for (Sent sent : messages(lines)) {
            TypedMessageBuilder<byte[]> message = producer.newMessage().value(sent.text.getBytes());
            message.properties(sent.properties);
            if (sent.key != null) {
                message.key(sent.key);
            }
            if (sent.orderingKey != null) {
                message.orderingKey(sent.orderingKey.getBytes());
            }
            if (sent.eventTime > 0) {
                message.eventTime(sent.eventTime);
            }
            last = message.sendAsync();
        }
        producer.flush();
        last.get();
        producer.close();
    }

    private static void consume(PulsarClient client, String topic, int count) throws Exception {
        Consumer<byte[]> consumer = client.newConsumer()
                .topic(topic)
                .subscriptionName("audit")
                .consumerName("worker-1")
                .subscriptionType(SubscriptionType.Key_Shared)
                .receiverQueueSize(100)
                .subscribe();
        for (int taken = 0; taken < count; taken++) {
            Message<byte[]> message = consumer.receive();
            MessageId id = message.getMessageId();
            System.out.println(id + "\t" + message.getKey() + "\t" + new String(message.getData()));
            consumer.acknowledge(id);
        }
        consumer.close();
    }
}
