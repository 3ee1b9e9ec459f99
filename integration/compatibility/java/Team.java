import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.TypedMessageBuilder;
import org.apache.pulsar.client.impl.ConsumerBase;

/**
 * The workers of one scenario, and what they got. Each has a client of its own, which knows one of the service URL's
 * addresses, in turn: through several replicas, two workers that join one after the other are at different ones.
 */
final class Team implements AutoCloseable {
    private static final int POLL_MS = 20;

    final Scene scene;
    private final Map<String, PulsarClient> clients = new LinkedHashMap<>();
    private final Map<String, Consumer<Integer>> workers = new LinkedHashMap<>();
    private final Map<String, List<Integer>> sent = new LinkedHashMap<>();
    private final List<Came> came = Collections.synchronizedList(new ArrayList<>());
    private UnaryOperator<ClientBuilder> connecting = builder -> builder;
    private boolean byOrderingKey;
    private int joinedCount;
    private final AtomicInteger sentCount = new AtomicInteger();

    Team(Scene scene) {
        this.scene = scene;
    }

    /** A message that a worker has acknowledged. */
    record Came(String worker, String key, int number) {
    }

    @Override
    public void close() throws PulsarClientException {
        for (PulsarClient client : clients.values()) {
            client.shutdown();
        }
    }

    /** Messages have an ordering key, which counts, beside one and the same key. */
    Team byOrderingKey() {
        byOrderingKey = true;
        return this;
    }

    /** On a topic of the same name that is not stored. */
    Team nonPersistent() {
        scene.topic = scene.topic.replaceFirst("^persistent", "non-persistent");
        return this;
    }

    /** By clients of which something else is asked, too. */
    Team connecting(UnaryOperator<ClientBuilder> options) {
        connecting = options;
        return this;
    }

    /** In another namespace. */
    Team in(String namespace) {
        scene.topic = scene.topic.replaceFirst("public/default", "public/" + namespace);
        return this;
    }

    Team join(String... names) throws PulsarClientException {
        for (String name : names) {
            join(name, builder -> builder);
        }
        return this;
    }

    Consumer<Integer> join(String name, UnaryOperator<ConsumerBuilder<Integer>> options) throws PulsarClientException {
        Scene.Place place = scene.place.at(joinedCount++);
        ClientBuilder connection = place.builder(place.token(), Scene.RECEIVE_S).enableTransaction(false);
        PulsarClient client = connecting.apply(connection).build();
        PulsarClient before = clients.put(name, client);
        Scene.expect(before == null, name + " has not left");
        Consumer<Integer> worker = options.apply(Scene.consumer(client, Schema.INT32, SubscriptionType.Key_Shared)
                .topic(scene.topic).consumerName(name)).subscribe();
        workers.put(name, worker);
        return worker;
    }

    /** Close a worker, and its client. */
    void leave(String... names) throws PulsarClientException {
        for (String name : names) {
            workers.remove(name).close();
            clients.remove(name).close();
        }
    }

    /** End the client of one that could not join. */
    void disconnect(String name) throws PulsarClientException {
        clients.remove(name).close();
    }

    Producer<Integer> producer(Packing packing) throws PulsarClientException {
        return producer(packing, builder -> builder);
    }

    Producer<Integer> producer(Packing packing, UnaryOperator<ProducerBuilder<Integer>> options)
            throws PulsarClientException {
        ProducerBuilder<Integer> builder =
                scene.client.newProducer(Schema.INT32).topic(scene.topic).sendTimeout(Scene.RECEIVE_S, TimeUnit.SECONDS);
        packing.onto(builder);
        return options.apply(builder).create();
    }

    /** Send so many more numbers, each with the key that its place has; null is none. Returns when all are stored. */
    void send(Producer<Integer> producer, int count, IntFunction<String> keyOf) throws Exception {
        if (scene.topic.startsWith("non-persistent")) {
            awaitPermits();
            sendEach(producer, count, keyOf);
            return;
        }
        List<CompletableFuture<?>> receipts = new ArrayList<>();
        for (int place = 0; place < count; place++) {
            receipts.add(message(producer, keyOf.apply(place)).sendAsync());
        }
        producer.flush();
        CompletableFuture.allOf(receipts.toArray(new CompletableFuture<?>[0])).get(Scene.RECEIVE_S, TimeUnit.SECONDS);
    }

    /** The same, each only when the one before is stored. */
    void sendEach(Producer<Integer> producer, int count, IntFunction<String> keyOf) throws PulsarClientException {
        for (int place = 0; place < count; place++) {
            message(producer, keyOf.apply(place)).send();
        }
    }

    /** The next number, to be sent. */
    TypedMessageBuilder<Integer> message(Producer<Integer> producer, String key) {
        int number = sentCount.getAndIncrement();
        sent.computeIfAbsent(String.valueOf(key), one -> new ArrayList<>()).add(number);
        TypedMessageBuilder<Integer> message = producer.newMessage().value(number);
        if (key != null && byOrderingKey) {
            message.key("any").orderingKey(key.getBytes(StandardCharsets.UTF_8));
        } else if (key != null) {
            message.key(key);
        }
        return message;
    }

    /** Of so many keys, in turn. */
    static IntFunction<String> turning(int keys) {
        return place -> "k" + place % keys;
    }

    /** How many have been sent. */
    int sentCount() {
        return sentCount.get();
    }

    /** What workers have acknowledged. */
    int cameCount() {
        return came.size();
    }

    /** What one worker has acknowledged. */
    int cameCount(String worker) {
        synchronized (came) {
            return (int) came.stream().filter(one -> one.worker().equals(worker)).count();
        }
    }

    /** Receive and acknowledge until everything that was sent has come. */
    void collect() throws PulsarClientException {
        collect(() -> cameCount() >= sentCount());
    }

    /** Receive and acknowledge until something is so. */
    void collect(BooleanSupplier reached) throws PulsarClientException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Scene.RECEIVE_S);
        while (!reached.getAsBoolean()) {
            Scene.expect(System.nanoTime() < deadline, cameCount() + " of " + sentCount() + " messages came");
            for (String name : workers.keySet()) {
                Message<Integer> message;
                while ((message = workers.get(name).receive(Scene.SLICE_MS, TimeUnit.MILLISECONDS)) != null) {
                    acknowledge(name, message);
                }
            }
        }
    }

    /** What a worker takes and does not acknowledge yet. */
    List<Message<Integer>> hold(String name, int count) throws PulsarClientException {
        List<Message<Integer>> held = new ArrayList<>();
        while (held.size() < count) {
            held.add(Scene.receive(workers.get(name)));
        }
        return held;
    }

    /** Everything that a worker has not acknowledged comes again. */
    void giveAllBack(String name) {
        workers.get(name).redeliverUnacknowledgedMessages();
    }

    void acknowledge(String name, List<Message<Integer>> messages) throws PulsarClientException {
        for (Message<Integer> message : messages) {
            acknowledge(name, message);
        }
    }

    /** A listener may do so, too. */
    void acknowledge(String name, Message<Integer> message) throws PulsarClientException {
        came.add(new Came(name, keyOf(message), message.getValue()));
        workers.get(name).acknowledge(message);
    }

    /** As `acknowledge`, by a listener, whose worker may not have returned from subscribing. */
    void heard(String name, Consumer<Integer> worker, Message<Integer> message) {
        came.add(new Came(name, keyOf(message), message.getValue()));
        worker.acknowledgeAsync(message);
    }

    static String keyOf(Message<Integer> message) {
        return message.hasOrderingKey()
                ? new String(message.getOrderingKey(), StandardCharsets.UTF_8) : String.valueOf(message.getKey());
    }

    void acknowledgeCumulative(String name, Message<Integer> message) throws PulsarClientException {
        workers.get(name).acknowledgeCumulative(message);
    }

    /** Wait until so many lie in a worker's queue. */
    void queued(String name, int count) throws InterruptedException {
        until(() -> queueOf(name) >= count, name + " never had " + count + " messages");
    }

    /** Wait until so many lie in all workers' queues. */
    void queuedByAll(int count) throws InterruptedException {
        until(() -> workers.keySet().stream().mapToInt(this::queueOf).sum() >= count, "they never had " + count);
    }

    /** Who has most in its queue. */
    String fullest() {
        return Collections.max(workers.keySet(), Comparator.comparingInt(this::queueOf));
    }

    private int queueOf(String name) {
        return ((ConsumerBase<Integer>) workers.get(name)).getTotalIncomingMessages();
    }

    /** The broker drops what a worker on such a topic has not asked for yet. */
    private void awaitPermits() throws Exception {
        until(() -> {
            JsonNode found = BrokerAdmin.statistics(scene.topic).at("/subscriptions/" + Scene.SUBSCRIPTION + "/consumers");
            return found.size() == workers.size()
                    && found.findValues("availablePermits").stream().allMatch(permits -> permits.asInt() > 0);
        }, "the broker does not see all workers");
    }

    static void until(BooleanSupplier reached, String otherwise) throws InterruptedException {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(Scene.RECEIVE_S);
        while (!reached.getAsBoolean()) {
            Scene.expect(System.nanoTime() < deadline, otherwise);
            Thread.sleep(POLL_MS);
        }
    }

    /** Nothing that was not acknowledged is left, or comes twice. */
    void expectNothing() throws PulsarClientException {
        for (String name : workers.keySet()) {
            expectNothing(name);
        }
    }

    void expectNothing(String name) throws PulsarClientException {
        Message<Integer> message = workers.get(name).receive(POLL_MS, TimeUnit.MILLISECONDS);
        Scene.expect(message == null, name + " got one too many");
    }

    /** Each key came whole, in order and once, to one worker; with keys, every worker got its part. */
    String audit() {
        Map<String, Set<String>> owners = new LinkedHashMap<>();
        for (Came one : came) {
            owners.computeIfAbsent(one.key(), key -> new HashSet<>()).add(one.worker());
        }
        long split = owners.values().stream().filter(names -> names.size() > 1).count();
        Scene.expect(split == 0, split + " of " + owners.size() + " keys were at two workers");
        return auditOrder();
    }

    /** Each key came whole, in order and once, to whomever. */
    String auditOrder() {
        Map<String, List<Integer>> found = new LinkedHashMap<>();
        for (Came one : came) {
            found.computeIfAbsent(one.key(), key -> new ArrayList<>()).add(one.number());
        }
        long wrong = sent.entrySet().stream().filter(one -> !one.getValue().equals(found.get(one.getKey()))).count();
        Scene.expect(wrong == 0, wrong + " of " + sent.size() + " keys did not come whole and in order");
        return cameCount() + " messages";
    }

    /** Every message came, once, in whatever order. */
    String auditCount() {
        long distinct = came.stream().map(Came::number).distinct().count();
        Scene.expect(distinct == sentCount() && cameCount() == sentCount(),
                cameCount() + " came, " + distinct + " of " + sentCount() + " that were sent");
        return cameCount() + " messages";
    }

    /** No worker was left out. */
    void expectFair() {
        for (String name : workers.keySet()) {
            int part = cameCount(name);
            Scene.expect(part * workers.size() * 3 >= cameCount(), name + " got " + part + " of " + cameCount());
        }
    }
}
