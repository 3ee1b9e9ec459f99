import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** Acknowledgements in transactions on Key_Shared: what is seen of one key before and after a transaction's end. */
final class Transactions {
    private static final int MESSAGES = 5;
    private static final int TIMEOUT_S = 5;
    private static final int QUIET_MS = 2_000;

    static final Map<String, Probe.Trial> FEATURES = Map.of(
            "transaction_window", Transactions::window,
            "transaction_whole", Transactions::wholeBatch,
            "transaction_batch", Transactions::batch,
            "transaction_twice", Transactions::twice,
            "transaction_abort", scene -> handOver(scene, "abort"),
            "transaction_commit", scene -> handOver(scene, "commit"),
            "transaction_timeout", scene -> handOver(scene, "timeout"));

    private Transactions() {
    }

    /** Two of five are acknowledged and aborted, and a key has at most two at its worker. */
    private static String window(Scene scene) throws Exception {
        Consumer<byte[]> consumer =
                scene.consumer(SubscriptionType.Key_Shared).property("keyline.key-window", "2").subscribe();
        send(scene.producer(), 0, MESSAGES);
        List<String> seen = new ArrayList<>();
        Transaction transaction = Others.begin(scene);
        for (int index = 0; index < 2; index++) {
            acknowledge(consumer, next(consumer, seen), transaction);
        }
        transaction.abort().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        for (int index = 0; index < MESSAGES; index++) {
            consumer.acknowledge(next(consumer, seen));
        }
        return String.join(" ", seen);
    }

    /** A whole batch is aborted, and committed when it has come again. */
    private static String wholeBatch(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        sendBatch(scene);
        List<String> seen = new ArrayList<>();
        Transaction aborted = Others.begin(scene);
        for (int index = 0; index < MESSAGES; index++) {
            acknowledge(consumer, next(consumer, seen), aborted);
        }
        aborted.abort().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        Transaction committed = Others.begin(scene);
        for (int index = 0; index < MESSAGES; index++) {
            acknowledge(consumer, next(consumer, seen), committed);
        }
        committed.commit().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        return String.join(" ", seen) + quiet(consumer);
    }

    /** Of a batch, two messages are committed, one is aborted, and two are acknowledged without a transaction. */
    private static String batch(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        sendBatch(scene);
        List<String> seen = new ArrayList<>();
        Transaction committed = Others.begin(scene);
        Transaction aborted = Others.begin(scene);
        acknowledge(consumer, next(consumer, seen), committed);
        acknowledge(consumer, next(consumer, seen), committed);
        acknowledge(consumer, next(consumer, seen), aborted);
        consumer.acknowledge(next(consumer, seen));
        consumer.acknowledge(next(consumer, seen));
        committed.commit().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        aborted.abort().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        consumer.acknowledge(next(consumer, seen));
        return String.join(" ", seen) + quiet(consumer);
    }

    /** What one transaction has, another does not get. */
    private static String twice(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        send(scene.producer(), 0, 1);
        Message<byte[]> message = Scene.receive(consumer);
        Transaction first = Others.begin(scene);
        acknowledge(consumer, message, first);
        try {
            acknowledge(consumer, message, Others.begin(scene));
        } catch (Exception error) {
            first.commit().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
            return error.getCause().getClass().getSimpleName();
        }
        return "acknowledged twice";
    }

    /** The first message's worker leaves with its transaction open: what another sees before its end, and after it. */
    private static String handOver(Scene scene, String end) throws Exception {
        Consumer<byte[]> first = scene.worker();
        Producer<byte[]> producer = scene.producer();
        send(producer, 0, 1);
        Transaction transaction = scene.client.newTransaction()
                .withTransactionTimeout(end.equals("timeout") ? TIMEOUT_S : Scene.RECEIVE_S, TimeUnit.SECONDS)
                .build().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        acknowledge(first, Scene.receive(first), transaction);
        Consumer<byte[]> second = scene.worker();
        first.close();
        send(producer, 1, 2);
        String before = quiet(second);
        if (end.equals("abort")) {
            transaction.abort().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        } else if (end.equals("commit")) {
            transaction.commit().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        }
        List<String> seen = new ArrayList<>();
        int left = (end.equals("commit") ? 2 : 3) - before.replace(" ", "").length();
        for (int index = 0; index < left; index++) {
            second.acknowledge(next(second, seen));
        }
        return (before + " | " + String.join(" ", seen) + quiet(second)).strip();
    }

    private static void send(Producer<byte[]> producer, int first, int count) throws Exception {
        for (int number = first; number < first + count; number++) {
            producer.newMessage().key("k").value(Scene.bytes(String.valueOf(number))).send();
        }
    }

    private static void sendBatch(Scene scene) throws Exception {
        Producer<byte[]> producer = scene.producer(builder -> builder.enableBatching(true)
                .batchingMaxMessages(MESSAGES).batchingMaxPublishDelay(1, TimeUnit.MINUTES));
        for (int number = 0; number < MESSAGES; number++) {
            producer.newMessage().key("k").value(Scene.bytes(String.valueOf(number))).sendAsync();
        }
        producer.flush();
    }

    private static Message<byte[]> next(Consumer<byte[]> consumer, List<String> seen) throws Exception {
        Message<byte[]> message = Scene.receive(consumer);
        seen.add(Scene.text(message));
        return message;
    }

    private static void acknowledge(Consumer<byte[]> consumer, Message<byte[]> message, Transaction transaction)
            throws Exception {
        consumer.acknowledgeAsync(message.getMessageId(), transaction).get(Scene.RECEIVE_S, TimeUnit.SECONDS);
    }

    /** What comes within a while, each with a space before it. */
    private static String quiet(Consumer<byte[]> consumer) throws Exception {
        StringBuilder seen = new StringBuilder();
        Message<byte[]> message;
        while ((message = consumer.receive(QUIET_MS, TimeUnit.MILLISECONDS)) != null) {
            seen.append(' ').append(Scene.text(message));
            consumer.acknowledge(message);
        }
        return seen.toString();
    }
}
