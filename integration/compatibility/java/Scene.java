import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import java.util.function.Function;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.ClientBuilder;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/** One feature's own client and topics, and keyed messages dealt to two workers. */
final class Scene implements AutoCloseable {
    static final int KEYS = 20;
    static final int ROUNDS = 3;
    static final String SUBSCRIPTION = "s";
    static final List<String> WORKERS = List.of("a", "b");
    /** Patience with every answer and every message: only a fault exhausts it, however busy the machine. */
    static final int RECEIVE_S = 120;
    /** How long one of several consumers is listened to before the next. */
    static final int SLICE_MS = 10;

    final Place place;
    final PulsarClient client;
    String topic;

    Scene(Place place, String feature) throws PulsarClientException {
        this.place = place;
        this.topic = place.prefix() + feature;
        this.client = place.connect(place.token(), RECEIVE_S);
    }

    @Override
    public void close() throws PulsarClientException {
        client.shutdown();
    }

    ConsumerBuilder<byte[]> consumer(SubscriptionType type) {
        return consumer(Schema.BYTES, type).topic(topic);
    }

    <T> ConsumerBuilder<T> consumer(Schema<T> schema, SubscriptionType type) {
        return consumer(client, schema, type);
    }

    /** Of any client. */
    static <T> ConsumerBuilder<T> consumer(PulsarClient client, Schema<T> schema, SubscriptionType type) {
        // Acknowledgements that are on their way when a consumer closes or seeks would blur what came of it.
        return client.newConsumer(schema).subscriptionName(SUBSCRIPTION).subscriptionType(type)
                .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest);
    }

    Consumer<byte[]> worker() throws PulsarClientException {
        return consumer(SubscriptionType.Key_Shared).subscribe();
    }

    Producer<byte[]> producer(java.util.function.Consumer<ProducerBuilder<byte[]>> options)
            throws PulsarClientException {
        ProducerBuilder<byte[]> builder = client.newProducer().topic(topic).enableBatching(false)
                .sendTimeout(RECEIVE_S, TimeUnit.SECONDS);
        options.accept(builder);
        return builder.create();
    }

    Producer<byte[]> producer() throws PulsarClientException {
        return producer(builder -> { });
    }

    static void sendNumbers(Producer<byte[]> producer, int first, int count) throws PulsarClientException {
        for (int number = first; number < first + count; number++) {
            producer.newMessage().key("k" + number % 3).value(bytes(String.valueOf(number))).send();
        }
    }

    static <T> Message<T> receive(Consumer<T> consumer) throws PulsarClientException {
        Message<T> message = consumer.receive(RECEIVE_S, TimeUnit.SECONDS);
        expect(message != null, "a message did not come");
        return message;
    }

    static List<Message<byte[]>> receiveNumbers(Consumer<byte[]> consumer, int count, boolean acknowledge)
            throws PulsarClientException {
        List<Message<byte[]>> messages = new ArrayList<>();
        for (int index = 0; index < count; index++) {
            Message<byte[]> message = receive(consumer);
            messages.add(message);
            if (acknowledge) {
                consumer.acknowledge(message);
            }
        }
        return messages;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(Message<byte[]> message) {
        String text = new String(message.getValue(), StandardCharsets.UTF_8);
        int end = text.indexOf('.');
        return end < 0 ? text : text.substring(0, end);
    }

    static List<String> texts(List<Message<byte[]>> messages) {
        return messages.stream().map(Scene::text).toList();
    }

    static List<String> numbers(int first, int last) {
        return java.util.stream.IntStream.range(first, last).mapToObj(String::valueOf).toList();
    }

    static void expect(boolean condition, String text) {
        if (!condition) {
            throw new FailedException(text);
        }
    }

    /** Keyed messages for two workers of the scene's own topic. */
    Deal<byte[]> deal() {
        return new Deal<>(Schema.BYTES, Scene::bytes, Scene::text);
    }

    <T> Deal<T> deal(Schema<T> schema, Function<String, T> encode, Function<Message<T>, String> decode) {
        return new Deal<>(schema, encode, decode);
    }

    /** Where to connect, and as whom. */
    record Place(String serviceUrl, String prefix, String keys, String token) {
        /** The same by one of the service URL's addresses alone, in turn. */
        Place at(int index) {
            int start = serviceUrl.indexOf("://") + "://".length();
            String[] addresses = serviceUrl.substring(start).split(",");
            String url = serviceUrl.substring(0, start) + addresses[index % addresses.length];
            return new Place(url, prefix, keys, token);
        }

        PulsarClient connect(String token, int patienceS) throws PulsarClientException {
            return builder(token, patienceS).build();
        }

        ClientBuilder builder(String token, int patienceS) {
            return PulsarClient.builder().serviceUrl(serviceUrl).enableTransaction(true)
                    .operationTimeout(patienceS, TimeUnit.SECONDS)
                    .authentication(AuthenticationFactory.token(token));
        }
    }

    /** The feature did not do what it is for. */
    static final class FailedException extends RuntimeException {
        private static final long serialVersionUID = 1L;

        FailedException(String text) {
            super(text);
        }
    }

    /** Sends keyed messages to two workers: each key must come whole, in order, to one of them, and both get some. */
    final class Deal<T> {
        private final Schema<T> schema;
        private final Function<String, T> encode;
        private final Function<Message<T>, String> decode;
        private final List<Received> received = new ArrayList<>();
        private SubscriptionType type = SubscriptionType.Key_Shared;
        private List<String> topics = List.of(topic);
        private java.util.function.Consumer<ProducerBuilder<T>> producing = builder -> { };
        private BiConsumer<String, ConsumerBuilder<T>> consuming = (name, builder) -> builder.topic(topic);
        private int keys = KEYS;
        private boolean ordered = true;

        private Deal(Schema<T> schema, Function<String, T> encode, Function<Message<T>, String> decode) {
            this.schema = schema;
            this.encode = encode;
            this.decode = decode;
        }

        /** Of any type, so that neither keys nor order are asked for. */
        Deal<T> type(SubscriptionType other) {
            type = other;
            ordered = false;
            return this;
        }

        /** Where to produce; each topic has keys of its own. */
        Deal<T> topics(List<String> names) {
            topics = names;
            return this;
        }

        Deal<T> producing(java.util.function.Consumer<ProducerBuilder<T>> options) {
            producing = options;
            return this;
        }

        /** Options by the worker's name, beside the scene's topic. */
        Deal<T> consuming(BiConsumer<String, ConsumerBuilder<T>> options) {
            consuming = (name, builder) -> options.accept(name, builder.topic(topic));
            return this;
        }

        /** Like `consuming`, without a topic. */
        Deal<T> subscribing(java.util.function.Consumer<ConsumerBuilder<T>> options) {
            consuming = (name, builder) -> options.accept(builder);
            return this;
        }

        Deal<T> keys(int count) {
            keys = count;
            return this;
        }

        String run() throws Exception {
            Map<String, Consumer<T>> workers = new LinkedHashMap<>();
            for (String name : WORKERS) {
                ConsumerBuilder<T> builder = consumer(schema, type).consumerName(name);
                consuming.accept(name, builder);
                workers.put(name, builder.subscribe());
            }
            send();
            collect(workers);
            if (ordered) {
                audit();
            }
            return received.size() + " messages";
        }

        private void send() throws Exception {
            List<Producer<T>> producers = new ArrayList<>();
            for (String name : topics) {
                ProducerBuilder<T> builder = client.newProducer(schema).topic(name).enableBatching(false)
                        .sendTimeout(RECEIVE_S, TimeUnit.SECONDS);
                producing.accept(builder);
                producers.add(builder.create());
            }
            List<CompletableFuture<?>> sent = new ArrayList<>();
            for (int number = 0; number < ROUNDS; number++) {
                for (int key = 0; key < keys; key++) {
                    T value = encode.apply(String.valueOf(number));
                    sent.add(producers.get(key % producers.size()).newMessage().key("k" + key).value(value).sendAsync());
                }
            }
            for (Producer<T> producer : producers) {
                producer.flush();
            }
            CompletableFuture.allOf(sent.toArray(new CompletableFuture<?>[0])).get(RECEIVE_S, TimeUnit.SECONDS);
        }

        private void collect(Map<String, Consumer<T>> workers) throws Exception {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(RECEIVE_S);
            int count = keys * ROUNDS;
            while (received.size() < count) {
                expect(System.nanoTime() < deadline, received.size() + " of " + count + " messages came");
                for (Map.Entry<String, Consumer<T>> worker : workers.entrySet()) {
                    Message<T> message;
                    while ((message = worker.getValue().receive(SLICE_MS, TimeUnit.MILLISECONDS)) != null) {
                        received.add(new Received(worker.getKey(), message.getKey(), decode.apply(message)));
                        worker.getValue().acknowledge(message);
                    }
                }
            }
        }

        private void audit() {
            Map<String, Set<String>> owners = new LinkedHashMap<>();
            Map<String, List<String>> found = new LinkedHashMap<>();
            Set<String> busy = new HashSet<>();
            for (Received one : received) {
                owners.computeIfAbsent(one.key(), key -> new HashSet<>()).add(one.worker());
                found.computeIfAbsent(one.key(), key -> new ArrayList<>()).add(one.number());
                busy.add(one.worker());
            }
            long split = owners.values().stream().filter(names -> names.size() > 1).count();
            long wrong = found.values().stream().filter(one -> !one.equals(numbers(0, ROUNDS))).count();
            expect(owners.size() == keys, owners.size() + " of " + keys + " keys came");
            expect(split == 0, split + " of " + keys + " keys were at two workers");
            expect(wrong == 0, wrong + " of " + keys + " keys were out of order");
            expect(busy.size() == WORKERS.size(), "one worker got nothing");
        }
    }

    private record Received(String worker, String key, String number) {
    }
}
