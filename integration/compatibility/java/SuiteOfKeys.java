import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.Schema;

/** After Pulsar's KeySharedSubscriptionTest: which worker gets which key. `test_key_shared_suite.py` says which is which. */
final class SuiteOfKeys {
    static final Map<String, Probe.Trial> SCENARIOS = scenarios();

    private static final int MESSAGES = 900;
    private static final int FEW = 100;
    private static final int SLOW_TEAM = 10;
    private static final int LISTENERS = 8;
    private static final int PARTITIONS = 3;
    private static final IntFunction<String> KEYS = Team.turning(300);

    private SuiteOfKeys() {
    }

    private static Map<String, Probe.Trial> scenarios() {
        Map<String, Probe.Trial> all = new LinkedHashMap<>();
        Packing.each(all, "split", (scene, packing) -> split(new Team(scene), packing));
        Packing.each(all, "pairs", (scene, packing) -> pairs(new Team(scene), packing));
        Packing.each(all, "ordering_key", (scene, packing) -> split(new Team(scene).byOrderingKey(), packing));
        Packing.each(all, "crash", (scene, packing) -> crash(new Team(scene), packing));
        Packing.each(all, "no_key", (scene, packing) -> noKey(new Team(scene), packing));
        Packing.each(all, "slow_worker", SuiteOfKeys::slowWorker);
        for (Packing packing : Set.of(Packing.SINGLE, Packing.BY_KEY)) {
            String end = "_unstored_" + packing.name().toLowerCase(Locale.ROOT);
            all.put("split" + end, scene -> split(new Team(scene).nonPersistent(), packing));
            all.put("pairs" + end, scene -> pairs(new Team(scene).nonPersistent(), packing));
            all.put("crash" + end, scene -> crash(new Team(scene).nonPersistent(), packing));
            all.put("no_key" + end, scene -> noKey(new Team(scene).nonPersistent(), packing));
        }
        all.put("compressed", SuiteOfKeys::compressed);
        all.put("encrypted", SuiteOfKeys::encrypted);
        all.put("one_by_one", SuiteOfKeys::oneByOne);
        all.put("listener", scene -> listener(scene, 0));
        all.put("listener_partitioned", scene -> listener(scene, PARTITIONS));
        return all;
    }

    private static String split(Team team, Packing packing) throws Exception {
        try (team) {
            team.join("a", "b", "c").send(team.producer(packing), MESSAGES, KEYS);
            team.collect();
            team.expectFair();
            return team.audit();
        }
    }

    /** Two of a key in a row, so that there are batches of one key. */
    private static String pairs(Team team, Packing packing) throws Exception {
        try (team) {
            team.join("a", "b", "c").send(team.producer(packing), MESSAGES, place -> KEYS.apply(place / 2));
            team.collect();
            team.expectFair();
            return team.audit();
        }
    }

    /** Two of three leave: what follows is the third one's. */
    private static String crash(Team team, Packing packing) throws Exception {
        try (team) {
            Producer<Integer> producer = team.producer(packing);
            team.join("a", "b", "c").send(producer, MESSAGES, KEYS);
            team.collect();
            team.audit();
            team.leave("a", "b");
            int before = team.cameCount("c");
            team.send(producer, FEW, KEYS);
            team.collect();
            Scene.expect(team.cameCount("c") == before + FEW, "it did not get everything");
            return team.auditOrder();
        }
    }

    private static String noKey(Team team, Packing packing) throws Exception {
        try (team) {
            team.join("a", "b", "c").send(team.producer(packing), FEW, place -> null);
            team.collect();
            team.expectNothing();
            return team.auditCount();
        }
    }

    /** One of ten stands still: the keys of the others go on. */
    private static String slowWorker(Scene scene, Packing packing) throws Exception {
        CountDownLatch stuck = new CountDownLatch(1);
        CountDownLatch released = new CountDownLatch(1);
        try (Team team = new Team(scene)) {
            for (int number = 0; number < SLOW_TEAM; number++) {
                String name = "w" + number;
                team.join(name, builder -> builder.receiverQueueSize(1).messageListener((worker, message) -> {
                    if (Team.keyOf(message).equals("slow")) {
                        stuck.countDown();
                        await(released);
                    }
                    team.heard(name, worker, message);
                }));
            }
            Producer<Integer> producer = team.producer(packing);
            team.sendEach(producer, 1, place -> "slow");
            await(stuck);
            team.send(producer, MESSAGES, KEYS);
            Team.until(() -> team.cameCount() >= MESSAGES / 2, "the others' keys do not go on");
            Scene.expect(team.cameCount() <= MESSAGES, "no worker stands still");
            released.countDown();
            Team.until(() -> team.cameCount() >= team.sentCount(), "the rest does not come");
            return team.audit();
        } finally {
            released.countDown();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            Scene.expect(latch.await(Scene.RECEIVE_S, TimeUnit.SECONDS), "it was waited for too long");
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private static String compressed(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            ProducerBuilder<Integer> builder = scene.client.newProducer(Schema.INT32).topic(scene.topic);
            team.join("a").send(builder.compressionType(CompressionType.LZ4).create(), FEW, place -> null);
            team.collect();
            return team.audit();
        }
    }

    private static String encrypted(Scene scene) throws Exception {
        String keys = "file://" + scene.place.keys();
        try (Team team = new Team(scene)) {
            for (String name : Scene.WORKERS) {
                team.join(name, builder -> builder.defaultCryptoKeyReader(keys + "/private.pem"));
            }
            Producer<Integer> producer = scene.client.newProducer(Schema.INT32).topic(scene.topic)
                    .addEncryptionKey("app").defaultCryptoKeyReader(keys + "/public.pem").create();
            team.sendEach(producer, FEW, KEYS);
            team.collect();
            team.expectFair();
            return team.audit();
        }
    }

    /** A producer as it comes, which packs alone what it sends alone. */
    private static String oneByOne(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            team.join("a", "b", "c").sendEach(team.producer(Packing.MIXED), MESSAGES / 3, KEYS);
            team.collect();
            team.expectFair();
            return team.audit();
        }
    }

    /** One worker whose client hands out messages in eight threads. */
    private static String listener(Scene scene, int partitions) throws Exception {
        if (partitions > 0) {
            BrokerAdmin.order("PUT", scene.topic, "/partitions", String.valueOf(partitions));
        }
        try (Team team = new Team(scene).connecting(builder -> builder.listenerThreads(LISTENERS))) {
            team.join("a", builder -> builder.messageListener((worker, message) -> {
                pause(message.getValue() % 5);
                team.heard("a", worker, message);
            }));
            team.send(team.producer(Packing.MIXED), MESSAGES, Team.turning(3));
            Team.until(() -> team.cameCount() >= team.sentCount(), "messages do not come");
            return team.audit();
        }
    }

    private static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }
}
