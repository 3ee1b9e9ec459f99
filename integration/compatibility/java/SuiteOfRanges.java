import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/** After Pulsar's tests of STICKY hash ranges. `test_key_shared_suite.py` says which is which. */
final class SuiteOfRanges {
    static final Map<String, Probe.Trial> SCENARIOS = scenarios();

    private static final int LAST = KeySharedPolicy.DEFAULT_HASH_RANGE_SIZE - 1;
    private static final Map<String, Range> THIRDS = thirds();
    private static final int KEYS = 30;
    private static final int ROUNDS = 4;
    private static final int FEW = 100;
    private static final int PAUSE_MS = 10;

    private SuiteOfRanges() {
    }

    private static Map<String, Probe.Trial> scenarios() {
        Map<String, Probe.Trial> all = new LinkedHashMap<>();
        Packing.each(all, "ranges", (scene, packing) -> dealt(new Team(scene), packing));
        Packing.each(all, "ordering_key_ranges", (scene, packing) -> dealt(new Team(scene).byOrderingKey(), packing));
        Packing.each(all, "no_key_ranges", SuiteOfRanges::noKey);
        all.put("ranges_conflict", SuiteOfRanges::conflict);
        all.put("ranges_restart", SuiteOfRanges::restart);
        return all;
    }

    private static Map<String, Range> thirds() {
        Map<String, Range> all = new LinkedHashMap<>();
        all.put("a", Range.of(0, 20_000));
        all.put("b", Range.of(20_001, 40_000));
        all.put("c", Range.of(40_001, LAST));
        return all;
    }

    private static UnaryOperator<ConsumerBuilder<Integer>> having(Range... ranges) {
        return builder -> builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ranges));
    }

    /** Where a key is, as brokers count for ranges: 0 stands for none. */
    static int slotOf(String key) {
        int hash = Murmur3_32Hash.getInstance().makeHash(key.getBytes(StandardCharsets.UTF_8));
        return Math.max(hash % KeySharedPolicy.DEFAULT_HASH_RANGE_SIZE, 1);
    }

    private static String ownerOf(String key) {
        int slot = slotOf(key);
        return THIRDS.entrySet().stream().filter(one -> one.getValue().contains(slot)).findFirst().orElseThrow().getKey();
    }

    private static Team thirdsJoined(Team team) throws PulsarClientException {
        for (Map.Entry<String, Range> third : THIRDS.entrySet()) {
            team.join(third.getKey(), having(third.getValue()));
        }
        return team;
    }

    /** Each worker gets the keys of its range, in order; and again, in order, those that it gave back. */
    private static String dealt(Team dealer, Packing packing) throws Exception {
        try (Team team = thirdsJoined(dealer)) {
            Map<String, Integer> parts = new LinkedHashMap<>();
            for (int place = 0; place < KEYS * ROUNDS; place++) {
                parts.merge(ownerOf(Team.turning(KEYS).apply(place)), 1, Integer::sum);
            }
            team.send(team.producer(packing), KEYS * ROUNDS, Team.turning(KEYS));
            for (Map.Entry<String, Integer> part : parts.entrySet()) {
                List<Message<Integer>> held = team.hold(part.getKey(), part.getValue());
                for (Message<Integer> message : held) {
                    Scene.expect(ownerOf(Team.keyOf(message)).equals(part.getKey()), "a key is at the wrong worker");
                }
                team.expectNothing(part.getKey());
                team.giveAllBack(part.getKey());
            }
            team.collect();
            team.expectNothing();
            return team.audit();
        }
    }

    private static String noKey(Scene scene, Packing packing) throws Exception {
        try (Team team = thirdsJoined(new Team(scene))) {
            team.send(team.producer(packing), FEW, place -> null);
            team.collect();
            team.expectNothing();
            return team.auditCount();
        }
    }

    /** A range that overlaps another's is refused, for as long as that one is there. */
    private static String conflict(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            team.join("first", having(Range.of(0, 99), Range.of(400, LAST)));
            team.join("second", having(Range.of(100, 399)));
            refused(team, Range.of(0, LAST));
            refused(team, Range.of(1, 1));
            team.leave("first");
            refused(team, Range.of(0, LAST));
            refused(team, Range.of(50, 100));
            refused(team, Range.of(399, 500));
            team.join("third", having(Range.of(400, 600)));
            team.join("fourth", having(Range.of(50, 99)));
            refused(team, Range.of(600, 700));
            team.leave("second", "third", "fourth");
            team.join("all", having(Range.of(0, LAST)));
            return "refused where they overlap";
        }
    }

    private static void refused(Team team, Range range) throws PulsarClientException {
        try {
            team.join("refused", having(range));
        } catch (PulsarClientException.ConsumerAssignException expected) {
            team.disconnect("refused");
            return;
        }
        throw new Scene.FailedException(range + " overlaps another's and was taken");
    }

    /** Workers with the same ranges come after those before have left, while messages come. */
    private static String restart(Scene scene) throws Exception {
        Range[] halves = {Range.of(0, LAST / 2), Range.of(LAST / 2 + 1, LAST)};
        AtomicBoolean ended = new AtomicBoolean();
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(Packing.SINGLE);
            team.join("a", having(halves[0]));
            team.join("b", having(halves[1]));
            Thread sender = new Thread(() -> {
                try {
                    for (int place = 0; place < FEW; place++) {
                        team.sendEach(producer, 1, number -> "test" + team.sentCount());
                        Thread.sleep(PAUSE_MS);
                    }
                    ended.set(true);
                } catch (PulsarClientException | InterruptedException error) {
                    throw new IllegalStateException(error);
                }
            });
            sender.start();
            team.collect(() -> team.cameCount("a") > 1 && team.cameCount("b") > 1);
            team.leave("a", "b");
            sender.join(TimeUnit.SECONDS.toMillis(Scene.RECEIVE_S));
            Scene.expect(ended.get(), "the producer did not come to its end");
            team.join("c", having(halves[0]));
            team.join("d", having(halves[1]));
            team.collect();
            team.expectNothing();
            return team.auditOrder();
        }
    }
}
