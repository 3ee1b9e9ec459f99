import static java.util.Map.entry;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Reader;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TableView;
import org.apache.pulsar.client.api.transaction.Transaction;

/** What is not Key_Shared; each method tries what the Python program's of that name tries. */
final class Others {
    static final Map<String, Probe.Trial> FEATURES = Map.ofEntries(
            entry("shared", scene -> scene.deal().type(SubscriptionType.Shared).run()),
            entry("exclusive", Others::exclusive),
            entry("failover", Others::failover),
            entry("cumulative_exclusive", Others::cumulativeExclusive),
            entry("reader", Others::reader),
            entry("table_view", Others::tableView),
            entry("exclusive_producer", Others::exclusiveProducer),
            entry("transactions", Others::transactions),
            entry("token", Others::token));

    private static final int COUNT = 10;
    /** How long a stranger tries to come in. */
    private static final int STRANGER_S = 5;
    /** Signed by nobody. */
    private static final String WRONG_TOKEN =
            "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZG1pbiJ9.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

    private Others() {
    }

    static Transaction begin(Scene scene) throws Exception {
        return scene.client.newTransaction().withTransactionTimeout(1, TimeUnit.MINUTES).build()
                .get(Scene.RECEIVE_S, TimeUnit.SECONDS);
    }

    private static String exclusive(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Exclusive).subscribe();
        try {
            scene.consumer(SubscriptionType.Exclusive).subscribe();
        } catch (PulsarClientException.ConsumerBusyException busy) {
            Scene.sendNumbers(scene.producer(), 0, COUNT);
            expectInOrder(Scene.receiveNumbers(consumer, COUNT, true));
            return "in order";
        }
        throw new Scene.FailedException("a second consumer was let in");
    }

    private static String failover(Scene scene) throws Exception {
        Map<String, Consumer<byte[]>> consumers = new LinkedHashMap<>();
        for (String name : Scene.WORKERS) {
            consumers.put(name, scene.consumer(SubscriptionType.Failover).consumerName(name).subscribe());
        }
        Producer<byte[]> producer = scene.producer();
        Scene.sendNumbers(producer, 0, 1);
        consumers.remove(whoReceives(consumers)).close();
        Scene.sendNumbers(producer, 1, 1);
        Consumer<byte[]> other = consumers.values().iterator().next();
        Scene.expect(Scene.text(Scene.receive(other)).equals("1"), "the other got something else");
        return "taken over";
    }

    private static String whoReceives(Map<String, Consumer<byte[]>> consumers) throws Exception {
        for (int turn = 0; turn < Scene.RECEIVE_S * 10; turn++) {
            for (Map.Entry<String, Consumer<byte[]>> consumer : consumers.entrySet()) {
                Message<byte[]> message = consumer.getValue().receive(50, TimeUnit.MILLISECONDS);
                if (message != null) {
                    consumer.getValue().acknowledge(message);
                    return consumer.getKey();
                }
            }
        }
        throw new Scene.FailedException("nobody got the message");
    }

    private static String cumulativeExclusive(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Exclusive).subscribe();
        Scene.sendNumbers(scene.producer(), 0, COUNT);
        consumer.acknowledgeCumulative(Scene.receiveNumbers(consumer, COUNT, false).get(COUNT - 2));
        consumer.close();
        Consumer<byte[]> again = scene.consumer(SubscriptionType.Exclusive).subscribe();
        String first = Scene.text(Scene.receive(again));
        Scene.expect(first.equals(String.valueOf(COUNT - 1)), "more than the last came again");
        return "acknowledged";
    }

    private static String reader(Scene scene) throws Exception {
        Scene.sendNumbers(scene.producer(), 0, COUNT);
        Reader<byte[]> reader = scene.client.newReader().topic(scene.topic).startMessageId(MessageId.earliest).create();
        List<Message<byte[]>> messages = new ArrayList<>();
        while (reader.hasMessageAvailable()) {
            messages.add(reader.readNext(Scene.RECEIVE_S, TimeUnit.SECONDS));
        }
        expectInOrder(messages);
        reader.seek(MessageId.earliest);
        Message<byte[]> first = reader.readNext(Scene.RECEIVE_S, TimeUnit.SECONDS);
        Scene.expect(Scene.text(first).equals("0"), "a seek did not go back");
        return "read";
    }

    private static String tableView(Scene scene) throws Exception {
        Scene.sendNumbers(scene.producer(), 0, COUNT);
        TableView<byte[]> view = scene.client.newTableView(Schema.BYTES).topic(scene.topic).create();
        Map<String, String> latest = new LinkedHashMap<>();
        view.forEach((key, value) -> latest.put(key, new String(value)));
        Scene.expect(latest.equals(Map.of("k0", "9", "k1", "7", "k2", "8")), latest.toString());
        return "is right";
    }

    private static String exclusiveProducer(Scene scene) throws Exception {
        ProducerAccessMode waiting = ProducerAccessMode.WaitForExclusive;
        Producer<byte[]> owner = scene.producer(builder -> builder.accessMode(waiting));
        CompletableFuture<Producer<byte[]>> other =
                scene.client.newProducer().topic(scene.topic).accessMode(waiting).createAsync();
        Scene.sendNumbers(owner, 0, COUNT);
        Scene.expect(!other.isDone(), "two own the topic");
        owner.close();
        Scene.sendNumbers(other.get(Scene.RECEIVE_S, TimeUnit.SECONDS), COUNT, COUNT);
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Exclusive).subscribe();
        expectInOrder(Scene.receiveNumbers(consumer, 2 * COUNT, true));
        return "one after the other";
    }

    /** What an aborted transaction wrote never shows; what a committed one took is gone. */
    private static String transactions(Scene scene) throws Exception {
        Consumer<byte[]> source = scene.consumer(SubscriptionType.Shared).subscribe();
        Consumer<byte[]> target =
                scene.consumer(Schema.BYTES, SubscriptionType.Shared).topic(scene.topic + "-target").subscribe();
        Producer<byte[]> writer = scene.client.newProducer().topic(scene.topic + "-target")
                .sendTimeout(0, TimeUnit.SECONDS).create();
        Scene.sendNumbers(scene.producer(), 0, 2);
        Message<byte[]> first = Scene.receive(source);
        for (String word : List.of("aborted", "committed")) {
            Transaction transaction = begin(scene);
            writer.newMessage(transaction).value(Scene.bytes(word)).send();
            if (word.equals("committed")) {
                source.acknowledgeAsync(first.getMessageId(), transaction).get(Scene.RECEIVE_S, TimeUnit.SECONDS);
            }
            (word.equals("committed") ? transaction.commit() : transaction.abort()).get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        }
        String seen = Scene.text(Scene.receive(target));
        Scene.expect(seen.equals("committed"), seen + " was seen first");
        source.close();
        String left = Scene.text(Scene.receive(scene.consumer(SubscriptionType.Shared).subscribe()));
        Scene.expect(left.equals("1"), left + " came again");
        return "taken and written";
    }

    private static String token(Scene scene) throws Exception {
        Scene.sendNumbers(scene.producer(), 0, 1);
        try (PulsarClient stranger = scene.place.connect(WRONG_TOKEN, STRANGER_S)) {
            stranger.newProducer().topic(scene.topic).create();
        } catch (PulsarClientException refused) {
            return "a stranger was refused";
        }
        throw new Scene.FailedException("a stranger was let in");
    }

    private static void expectInOrder(List<Message<byte[]>> messages) {
        List<String> found = Scene.texts(messages);
        Scene.expect(found.equals(Scene.numbers(0, found.size())), found + " came");
    }
}
