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
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.impl.MultiplierRedeliveryBackoff;

/** Key windows, retry delays and ack leases; each method tries what the Python program's of that name tries, and some what only this client has. */
final class Windows {
    private static final int MESSAGES = 5;
    private static final int GIVEN_BACK = 2;
    private static final int ACK_TIMEOUT_MS = 1_000;
    private static final int LEASE_MS = 6_000;
    private static final int ASKED_AFTER_MS = 1_000;
    private static final int EXTENSIONS = 9;
    private static final int CONNECTED_EACH_MS = 50;
    private static final int RETRY_MS = 1_500;
    private static final int RETRY_MAX_MS = 3_000;
    private static final Map<String, String> WINDOW = Map.of("keyline.key-window", "1");
    private static final Map<String, String> GROWING = Map.of("keyline.key-window", "1",
            "keyline.retry-delay-ms", String.valueOf(RETRY_MS), "keyline.retry-multiplier", "2");
    /** Without its bound the second delay would be longer than anybody waits here. */
    private static final Map<String, String> CAPPED = Map.of("keyline.key-window", "1",
            "keyline.retry-delay-ms", String.valueOf(RETRY_MS), "keyline.retry-multiplier", "100",
            "keyline.retry-delay-max-ms", String.valueOf(RETRY_MAX_MS));
    /** What either makes of the first delay and of the second. */
    private static final int[] LONGEST_DELAYS_MS = {RETRY_MS, RETRY_MAX_MS};

    static final Map<String, Probe.Trial> FEATURES = Map.of(
            "window_nack", scene -> seen(scene, WINDOW, false, Windows::soon, Consumer::negativeAcknowledge),
            "window_batch", scene -> seen(scene, WINDOW, true, Windows::soon, Consumer::negativeAcknowledge),
            "window_index", scene -> seen(scene, WINDOW, true,
                    builder -> soon(builder).enableBatchIndexAcknowledgment(true), Consumer::negativeAcknowledge),
            "window_backoff", scene -> seen(scene, WINDOW, true, Windows::backoff, Consumer::negativeAcknowledge),
            "window_timeout", scene -> seen(scene, WINDOW, false,
                    builder -> builder.ackTimeout(ACK_TIMEOUT_MS, TimeUnit.MILLISECONDS), (consumer, message) -> { }),
            "retry_growing", scene -> seen(scene, GROWING, false, Windows::soon, Consumer::negativeAcknowledge),
            "retry_capped", scene -> seen(scene, CAPPED, true, Windows::backoff, Consumer::negativeAcknowledge),
            "ack_lease", Windows::lease,
            "late_ack", scene -> lateAck(scene, false),
            "late_batch", scene -> lateAck(scene, true));

    private Windows() {
    }

    private static ConsumerBuilder<byte[]> soon(ConsumerBuilder<byte[]> builder) {
        return builder.negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS);
    }

    private static ConsumerBuilder<byte[]> backoff(ConsumerBuilder<byte[]> builder) {
        return builder.negativeAckRedeliveryBackoff(MultiplierRedeliveryBackoff.builder()
                .minDelayMs(100).maxDelayMs(1_000).multiplier(2).build());
    }

    /** What comes until all is acknowledged; nothing may come before its delay is over. */
    private static String seen(Scene scene, Map<String, String> policy, boolean batched,
            UnaryOperator<ConsumerBuilder<byte[]>> consuming,
            BiConsumer<Consumer<byte[]>, Message<byte[]>> giveBack) throws Exception {
        Consumer<byte[]> consumer =
                consuming.apply(scene.consumer(SubscriptionType.Key_Shared).properties(policy)).subscribe();
        send(scene.producer(builder -> batches(builder, batched)), 0, MESSAGES);
        List<String> seen = new ArrayList<>();
        Set<String> acknowledged = new HashSet<>();
        long notBeforeNs = System.nanoTime();
        while (acknowledged.size() < MESSAGES) {
            Message<byte[]> message = Scene.receive(consumer);
            String number = Scene.text(message);
            seen.add(number);
            long earlyNs = notBeforeNs - System.nanoTime();
            Scene.expect(earlyNs <= 0, seen + ": the last came " + earlyNs + " ns before its delay was over");
            int times = Collections.frequency(seen, number);
            if (number.equals("0") && times <= GIVEN_BACK) {
                int delayMs = policy.size() > 1 ? LONGEST_DELAYS_MS[times - 1] : 0;
                notBeforeNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(delayMs);
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

    /** What another worker has by then is acknowledged, with receipts, when the client is connected again. */
    private static String lateAck(Scene scene, boolean batched) throws Exception {
        Consumer<byte[]> late = leased(scene, "late", batched);
        Producer<byte[]> producer = scene.producer(builder -> batches(builder, batched));
        send(producer, 0, MESSAGES);
        List<Message<byte[]>> lost = Scene.receiveNumbers(late, MESSAGES, false);
        Consumer<byte[]> other = leased(scene, "other", batched);
        Scene.receiveNumbers(other, MESSAGES, false);
        waitConnected(late);
        other.getLastMessageIds(); // it asks for more time
        for (Message<byte[]> message : lost) {
            late.acknowledge(message);
        }
        late.close();
        Consumer<byte[]> again = leased(scene, "late", batched);
        send(producer, MESSAGES, 1);
        other.close();
        return String.join(" ", Scene.texts(Scene.receiveNumbers(again, MESSAGES + 1, true)));
    }

    private static Consumer<byte[]> leased(Scene scene, String name, boolean byIndex) throws Exception {
        return scene.consumer(SubscriptionType.Key_Shared).consumerName(name).isAckReceiptEnabled(true)
                .enableBatchIndexAcknowledgment(byIndex)
                .property("keyline.ack-lease-ms", String.valueOf(LEASE_MS)).subscribe();
    }

    /** Only a consumer that the gateway has is told the last message id. */
    private static void waitConnected(Consumer<byte[]> consumer) throws Exception {
        long deadlineNs = System.nanoTime() + TimeUnit.SECONDS.toNanos(Scene.RECEIVE_S);
        while (true) {
            try {
                consumer.getLastMessageIds();
                return;
            } catch (PulsarClientException error) {
                Scene.expect(System.nanoTime() < deadlineNs, "the consumer is not connected again: " + error);
                Thread.sleep(CONNECTED_EACH_MS);
            }
        }
    }

    private static void send(Producer<byte[]> producer, int first, int count) throws Exception {
        for (int number = first; number < first + count; number++) {
            producer.newMessage().key("k").value(Scene.bytes(String.valueOf(number))).sendAsync();
        }
        producer.flush();
    }

    private static void batches(ProducerBuilder<byte[]> builder, boolean batched) {
        if (batched) {
            builder.enableBatching(true).batchingMaxMessages(MESSAGES).batchingMaxPublishDelay(1, TimeUnit.MINUTES);
        }
    }
}
