import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/** Key windows and ack leases; each method tries what the Python program's of that name tries, and some what only this client has. */
final class Windows {
    private static final int MESSAGES = 5;
    private static final int GIVEN_BACK = 2;
    private static final int ACK_TIMEOUT_MS = 1_000;
    private static final int LEASE_MS = 6_000;
    private static final int ASKED_AFTER_MS = 1_000;
    private static final int EXTENSIONS = 9;

    static final Map<String, Probe.Trial> FEATURES = Map.of(
            "window_nack", scene -> seen(scene, false, Windows::soon, Consumer::negativeAcknowledge),
            "window_batch", scene -> seen(scene, true, Windows::soon, Consumer::negativeAcknowledge),
            "window_index", scene -> seen(scene, true,
                    builder -> soon(builder).enableBatchIndexAcknowledgment(true), Consumer::negativeAcknowledge),
            "window_backoff", scene -> seen(scene, true, Windows::backoff, Consumer::negativeAcknowledge),
            "window_timeout", scene -> seen(scene, false,
                    builder -> builder.ackTimeout(ACK_TIMEOUT_MS, TimeUnit.MILLISECONDS), (consumer, message) -> { }),
            "ack_lease", Windows::lease);

    private Windows() {
    }

    private static ConsumerBuilder<byte[]> soon(ConsumerBuilder<byte[]> builder) {
        return builder.negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS);
    }

    private static ConsumerBuilder<byte[]> backoff(ConsumerBuilder<byte[]> builder) {
        return builder.negativeAckRedeliveryBackoff(MultiplierRedeliveryBackoff.builder()
                .minDelayMs(100).maxDelayMs(1_000).multiplier(2).build());
    }

    private static String seen(Scene scene, boolean batched, UnaryOperator<ConsumerBuilder<byte[]>> consuming,
            BiConsumer<Consumer<byte[]>, Message<byte[]>> giveBack) throws Exception {
        Consumer<byte[]> consumer = consuming.apply(
                scene.consumer(SubscriptionType.Key_Shared).property("keyline.key-window", "1")).subscribe();
        Producer<byte[]> producer = scene.producer(builder -> batches(builder, batched));
        for (int number = 0; number < MESSAGES; number++) {
            producer.newMessage().key("k").value(Scene.bytes(String.valueOf(number))).sendAsync();
        }
        producer.flush();
        List<String> seen = new ArrayList<>();
        Set<String> acknowledged = new HashSet<>();
        while (acknowledged.size() < MESSAGES) {
            Message<byte[]> message = Scene.receive(consumer);
            String number = Scene.text(message);
            seen.add(number);
            if (number.equals("0") && Collections.frequency(seen, number) <= GIVEN_BACK) {
                giveBack.accept(consumer, message);
            } else {
                consumer.acknowledge(message);
                acknowledged.add(number);
            }
        }
        return String.join(" ", seen);
    }

    private static String lease(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Key_Shared)
                .property("keyline.ack-lease-ms", String.valueOf(LEASE_MS)).subscribe();
        scene.producer(builder -> { }).newMessage().key("k").value(Scene.bytes("0")).send();
        Scene.receive(consumer);
        for (int time = 0; time < EXTENSIONS; time++) {
            if (consumer.receive(ASKED_AFTER_MS, TimeUnit.MILLISECONDS) != null) {
                return "lost though extended";
            }
            consumer.getLastMessageIds();
        }
        consumer.acknowledge(Scene.receive(consumer));
        return "extended, then lost";
    }

    private static void batches(ProducerBuilder<byte[]> builder, boolean batched) {
        if (batched) {
            builder.enableBatching(true).batchingMaxMessages(MESSAGES).batchingMaxPublishDelay(1, TimeUnit.MINUTES);
        }
    }
}
