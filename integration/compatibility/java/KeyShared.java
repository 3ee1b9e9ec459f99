import static java.util.Map.entry;

import java.util.Comparator;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.DeadLetterPolicy;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/** What a worker of a Key_Shared subscription does; each method tries what the Python program's of that name tries. */
final class KeyShared {
    static final Map<String, Probe.Trial> FEATURES = Map.ofEntries(
            entry("key_shared", scene -> scene.deal().run()),
            entry("mixed_batches", scene -> scene.deal().producing(KeyShared::inBatches).run()),
            entry("key_batches", KeyShared::keyBatches),
            entry("lz4", scene -> compressed(scene, CompressionType.LZ4)),
            entry("zlib", scene -> compressed(scene, CompressionType.ZLIB)),
            entry("zstd", scene -> compressed(scene, CompressionType.ZSTD)),
            entry("snappy", scene -> compressed(scene, CompressionType.SNAPPY)),
            entry("chunks", KeyShared::chunks),
            entry("partitioned", scene -> scene.deal().run()),
            entry("topics", KeyShared::topics),
            entry("pattern", KeyShared::pattern),
            entry("sticky", KeyShared::sticky),
            entry("out_of_order", KeyShared::outOfOrder),
            entry("negative_ack", KeyShared::negativeAck),
            entry("ack_timeout", KeyShared::ackTimeout),
            entry("dead_letter", KeyShared::deadLetter),
            entry("retry_letter", KeyShared::retryLetter),
            entry("delayed", KeyShared::delayed),
            entry("seek_id", KeyShared::seekId),
            entry("seek_time", KeyShared::seekTime),
            entry("unsubscribe", KeyShared::unsubscribe),
            entry("last_message_id", KeyShared::lastMessageId),
            entry("schema_string", KeyShared::schemaString),
            entry("schema_json", scene -> typed(scene, Schema.JSON(Numbered.class))),
            entry("schema_avro", scene -> typed(scene, Schema.AVRO(Numbered.class))),
            entry("encryption", KeyShared::encryption),
            entry("cumulative_ack", KeyShared::cumulativeAck),
            entry("transactional_ack", KeyShared::transactionalAck),
            entry("non_persistent", KeyShared::nonPersistent));

    private static final int BATCH = 7;
    private static final int CHUNKED_BYTES = 300_000;
    private static final int CHUNKED_KEYS = 8;
    private static final int ACK_TIMEOUT_MS = 1_000;
    private static final int DELAY_MS = 4_000;
    /** The broker looks at delayed messages once a second, and gives out what is due until the next look. */
    private static final int EARLY_MS = 2_000;
    private static final int LATE_MS_MAX = Scene.RECEIVE_S * 1_000;

    private KeyShared() {
    }

    private static <T> void inBatches(ProducerBuilder<T> builder) {
        builder.enableBatching(true).batchingMaxMessages(BATCH).batchingMaxPublishDelay(1, TimeUnit.SECONDS);
    }

    private static String keyBatches(Scene scene) throws Exception {
        return scene.deal().producing(builder -> {
            inBatches(builder);
            builder.batcherBuilder(BatcherBuilder.KEY_BASED);
        }).run();
    }

    private static String compressed(Scene scene, CompressionType codec) throws Exception {
        return filled(scene, 200).producing(builder -> builder.compressionType(codec)).run();
    }

    private static String chunks(Scene scene) throws Exception {
        return filled(scene, CHUNKED_BYTES).keys(CHUNKED_KEYS).producing(builder -> builder.enableChunking(true)).run();
    }

    private static Scene.Deal<byte[]> filled(Scene scene, int bytes) {
        return scene.deal(Schema.BYTES, text -> Scene.bytes(text + ".".repeat(bytes)), Scene::text);
    }

    private static String topics(Scene scene) throws Exception {
        List<String> names = List.of(scene.topic + "-1", scene.topic + "-2");
        return scene.deal().topics(names).subscribing(builder -> builder.topics(names)).run();
    }

    private static String pattern(Scene scene) throws Exception {
        List<String> names = List.of(scene.topic + "-1", scene.topic + "-2");
        for (String name : names) {
            scene.client.newProducer().topic(name).create().close();
        }
        Pattern pattern = Pattern.compile(scene.topic + "-.*");
        return scene.deal().topics(names).subscribing(builder -> builder.topicsPattern(pattern)).run();
    }

    private static String sticky(Scene scene) throws Exception {
        Map<String, Range> halves = Map.of("a", Range.of(0, 32_767), "b", Range.of(32_768, 65_535));
        return scene.deal().consuming((name, builder) ->
                builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(halves.get(name)))).run();
    }

    private static String outOfOrder(Scene scene) throws Exception {
        return scene.deal().consuming((name, builder) -> builder.keySharedPolicy(
                KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(true))).run();
    }

    private static String negativeAck(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Key_Shared)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS).subscribe();
        Scene.sendNumbers(scene.producer(), 0, 1);
        consumer.negativeAcknowledge(Scene.receive(consumer));
        return again(consumer);
    }

    private static String ackTimeout(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Key_Shared)
                .ackTimeout(ACK_TIMEOUT_MS, TimeUnit.MILLISECONDS).subscribe();
        Scene.sendNumbers(scene.producer(), 0, 1);
        Scene.receive(consumer);
        return again(consumer);
    }

    private static String again(Consumer<byte[]> consumer) throws Exception {
        Message<byte[]> message = Scene.receive(consumer);
        Scene.expect(message.getRedeliveryCount() > 0, "its redelivery count is " + message.getRedeliveryCount());
        consumer.acknowledge(message);
        return "came again";
    }

    private static String deadLetter(Scene scene) throws Exception {
        String dead = scene.topic + "-dead";
        Consumer<byte[]> graves = scene.consumer(Schema.BYTES, SubscriptionType.Shared).topic(dead).subscribe();
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Key_Shared)
                .negativeAckRedeliveryDelay(100, TimeUnit.MILLISECONDS)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(1).deadLetterTopic(dead).build())
                .subscribe();
        Scene.sendNumbers(scene.producer(), 0, 1);
        for (int attempt = 0; attempt < 2; attempt++) {
            consumer.negativeAcknowledge(Scene.receive(consumer));
        }
        long deadline = System.currentTimeMillis() + LATE_MS_MAX;
        while (System.currentTimeMillis() < deadline) {
            Message<byte[]> message = consumer.receive(200, TimeUnit.MILLISECONDS);
            if (message != null) {
                consumer.negativeAcknowledge(message);
            }
            Message<byte[]> grave = graves.receive(200, TimeUnit.MILLISECONDS);
            if (grave != null) {
                return Scene.text(grave) + " is dead";
            }
        }
        throw new Scene.FailedException("nothing came to the dead letter topic");
    }

    private static String retryLetter(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.consumer(SubscriptionType.Key_Shared).enableRetry(true)
                .deadLetterPolicy(DeadLetterPolicy.builder().maxRedeliverCount(3)
                        .retryLetterTopic(scene.topic + "-retry").deadLetterTopic(scene.topic + "-dead").build())
                .subscribe();
        Scene.sendNumbers(scene.producer(), 0, 1);
        consumer.reconsumeLater(Scene.receive(consumer), 0, TimeUnit.SECONDS);
        Message<byte[]> message = Scene.receive(consumer);
        Scene.expect(message.getTopicName().endsWith("-retry"), "it came from " + message.getTopicName());
        consumer.acknowledge(message);
        return "came again";
    }

    private static String delayed(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Producer<byte[]> producer = scene.producer();
        long sent = System.currentTimeMillis();
        producer.newMessage().key("a").value(Scene.bytes("late")).deliverAfter(DELAY_MS, TimeUnit.MILLISECONDS).send();
        String came = "";
        while (!came.equals("late")) {
            Scene.expect(System.currentTimeMillis() - sent < LATE_MS_MAX, "it never came");
            producer.newMessage().key("b").value(Scene.bytes("now")).send();
            came = Scene.texts(Scene.receiveNumbers(consumer, 1, true)).get(0);
        }
        Scene.expect(System.currentTimeMillis() - sent > DELAY_MS - EARLY_MS, "it came at once");
        return "came later";
    }

    private static String seekId(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Scene.sendNumbers(scene.producer(), 0, 10);
        List<Message<byte[]>> messages = Scene.receiveNumbers(consumer, 10, false);
        messages.sort(Comparator.comparingInt(message -> Integer.parseInt(Scene.text(message))));
        consumer.seek(messages.get(4).getMessageId());
        expectAll(Scene.receiveNumbers(consumer, 5, false), 5, 10);
        consumer.seek(MessageId.earliest);
        expectAll(Scene.receiveNumbers(consumer, 10, true), 0, 10);
        return "went back";
    }

    private static String seekTime(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Producer<byte[]> producer = scene.producer();
        Scene.sendNumbers(producer, 0, 5);
        long last = Scene.receiveNumbers(consumer, 5, false).stream().mapToLong(Message::getPublishTime).max().orElse(0);
        while (System.currentTimeMillis() <= last) {
            Thread.sleep(1);
        }
        long between = System.currentTimeMillis();
        Scene.sendNumbers(producer, 5, 5);
        Scene.receiveNumbers(consumer, 5, false);
        consumer.seek(between);
        expectAll(Scene.receiveNumbers(consumer, 5, true), 5, 10);
        return "went back";
    }

    private static void expectAll(List<Message<byte[]>> messages, int first, int last) {
        List<String> found = Scene.texts(messages);
        Scene.expect(new HashSet<>(found).equals(new HashSet<>(Scene.numbers(first, last))), found + " came");
    }

    private static String unsubscribe(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Scene.sendNumbers(scene.producer(), 0, 3);
        Scene.receiveNumbers(consumer, 3, true);
        consumer.unsubscribe();
        expectAll(Scene.receiveNumbers(scene.worker(), 3, true), 0, 3);
        return "began anew";
    }

    private static String lastMessageId(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Producer<byte[]> producer = scene.producer();
        producer.newMessage().key("a").value(Scene.bytes("0")).send();
        MessageIdAdv sent = (MessageIdAdv) producer.newMessage().key("a").value(Scene.bytes("1")).send();
        MessageIdAdv found = (MessageIdAdv) consumer.getLastMessageIds().get(0);
        boolean same = found.getLedgerId() == sent.getLedgerId() && found.getEntryId() == sent.getEntryId();
        Scene.expect(same, found + " is not " + sent);
        return "is the broker's";
    }

    private static String schemaString(Scene scene) throws Exception {
        return scene.deal(Schema.STRING, text -> text, Message::getValue).run();
    }

    private static String typed(Scene scene, Schema<Numbered> schema) throws Exception {
        return scene.deal(schema, Numbered::new, message -> message.getValue().number).run();
    }

    private static String encryption(Scene scene) throws Exception {
        String keys = "file://" + scene.place.keys();
        return scene.deal()
                .producing(builder -> builder.addEncryptionKey("app").defaultCryptoKeyReader(keys + "/public.pem"))
                .consuming((name, builder) -> builder.defaultCryptoKeyReader(keys + "/private.pem")).run();
    }

    private static String cumulativeAck(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Scene.sendNumbers(scene.producer(), 0, 3);
        consumer.acknowledgeCumulative(Scene.receiveNumbers(consumer, 3, false).get(1));
        consumer.close();
        Scene.expect(Scene.text(Scene.receive(scene.worker())).equals("2"), "the first two came again");
        return "acknowledged";
    }

    private static String transactionalAck(Scene scene) throws Exception {
        Consumer<byte[]> consumer = scene.worker();
        Scene.sendNumbers(scene.producer(), 0, 1);
        Transaction transaction = Others.begin(scene);
        consumer.acknowledgeAsync(Scene.receive(consumer).getMessageId(), transaction)
                .get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        transaction.commit().get(Scene.RECEIVE_S, TimeUnit.SECONDS);
        return "acknowledged";
    }

    private static String nonPersistent(Scene scene) throws Exception {
        scene.topic = scene.topic.replaceFirst("^persistent", "non-persistent");
        return scene.deal().run();
    }

    /** What is sent with a schema. */
    public static final class Numbered {
        public String number;

        public Numbered() {
        }

        Numbered(String number) {
            this.number = number;
        }
    }
}
