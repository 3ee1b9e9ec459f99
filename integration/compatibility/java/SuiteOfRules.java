import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Range;

/** After Pulsar's tests of rules and limits of a subscription. `test_key_shared_suite.py` says which is which. */
final class SuiteOfRules {
    static final Map<String, Probe.Trial> SCENARIOS = scenarios();

    private static final int FEW = 10;
    private static final int MESSAGES = 300;
    private static final int DELAYED = 40;
    private static final int DELAY_MS = 4_000;
    private static final int EXPIRES_S = 1;
    private static final int UNACKED_MAX = 10;
    /** After this time without a message nothing comes by itself. */
    private static final int STILL_MS = 1_000;
    private static final Range ALL = Range.of(0, KeySharedPolicy.DEFAULT_HASH_RANGE_SIZE - 1);

    private SuiteOfRules() {
    }

    private static Map<String, Probe.Trial> scenarios() {
        Map<String, Probe.Trial> all = new LinkedHashMap<>();
        all.put("not_enabled", SuiteOfRules::notEnabled);
        all.put("not_cumulative", SuiteOfRules::notCumulative);
        all.put("mode_changed", scene -> modeChanged(new Team(scene)));
        all.put("mode_changed_unstored", scene -> modeChanged(new Team(scene).nonPersistent()));
        all.put("order_changed", SuiteOfRules::orderChanged);
        all.put("expired", SuiteOfRules::expired);
        all.put("delayed_between", SuiteOfRules::delayedBetween);
        all.put("unacked_limit", SuiteOfRules::unackedLimit);
        return all;
    }

    /** In a namespace that allows other subscription types only. */
    private static String notEnabled(Scene scene) throws Exception {
        try (Team team = new Team(scene).in("without")) {
            team.join("a");
        } catch (PulsarClientException.NotAllowedException expected) {
            return "refused";
        }
        throw new Scene.FailedException("it was let in");
    }

    private static String notCumulative(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            team.join("a").send(team.producer(Packing.SINGLE), FEW, place -> null);
            Message<Integer> last = team.hold("a", FEW).get(FEW - 1);
            try {
                team.acknowledgeCumulative("a", last);
            } catch (PulsarClientException.InvalidConfigurationException expected) {
                return "refused";
            }
        }
        throw new Scene.FailedException("it was taken");
    }

    /** When all have left, the next may bring another mode. */
    private static String modeChanged(Team modes) throws Exception {
        try (Team team = modes) {
            Producer<Integer> producer = team.producer(Packing.SINGLE);
            team.join("a", builder -> builder.keySharedPolicy(KeySharedPolicy.autoSplitHashRange()));
            team.send(producer, FEW, Team.turning(FEW));
            team.collect();
            team.leave("a");
            team.join("b", builder -> builder.keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(ALL)));
            try {
                team.join("c");
            } catch (PulsarClientException refused) {
                team.disconnect("c");
                team.send(producer, FEW, Team.turning(FEW));
                team.collect();
                return team.auditOrder();
            }
            throw new Scene.FailedException("two modes at a time");
        }
    }

    private static String orderChanged(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(Packing.MIXED);
            for (boolean outOfOrder : List.of(true, false)) {
                for (String name : List.of("a", "b")) {
                    team.join(name, builder -> builder.keySharedPolicy(
                            KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(outOfOrder)));
                }
                team.send(producer, MESSAGES, Team.turning(FEW));
                team.collect();
                team.leave("a", "b");
            }
            return team.auditOrder();
        }
    }

    /** The first worker keeps what it has; what expires meanwhile holds up nothing that comes later. */
    private static String expired(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(Packing.SINGLE);
            team.join("a", builder -> builder.receiverQueueSize(FEW));
            team.send(producer, MESSAGES, Team.turning(MESSAGES));
            team.hold("a", 1);
            team.join("b", builder -> builder.receiverQueueSize(FEW));
            team.join("c", builder -> builder.receiverQueueSize(FEW));
            Thread.sleep(TimeUnit.SECONDS.toMillis(EXPIRES_S + 1));
            String path = "/subscription/" + Scene.SUBSCRIPTION + "/expireMessages/" + EXPIRES_S;
            BrokerAdmin.order("POST", scene.topic, path, "");
            team.send(producer, MESSAGES, place -> "later" + place);
            for (String name : List.of("b", "c")) {
                List<Message<Integer>> next = team.hold(name, 1);
                while (next.get(0).getValue() < MESSAGES) {
                    team.acknowledge(name, next);
                    next = team.hold(name, 1);
                }
            }
            return "goes on";
        }
    }

    /** Delayed messages before others: all come, though one worker's queue is small. */
    private static String delayedBetween(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(Packing.SINGLE);
            team.join("a", builder -> builder.receiverQueueSize(FEW));
            for (int number = 0; number < DELAYED; number++) {
                team.message(producer, "d" + number).deliverAfter(DELAY_MS, TimeUnit.MILLISECONDS).send();
            }
            team.send(producer, DELAYED, place -> "k" + place);
            team.join("b", builder -> builder.receiverQueueSize(DELAYED));
            // A broker may leave delayed messages lying until something new is sent (apache/pulsar issue 21554).
            AtomicInteger more = new AtomicInteger();
            while (team.cameCount() < 2 * DELAYED + more.get()) {
                long next = System.currentTimeMillis() + STILL_MS;
                team.collect(() -> team.cameCount() >= team.sentCount() || System.currentTimeMillis() > next);
                if (team.cameCount() < team.sentCount()) {
                    team.sendEach(producer, 1, place -> "more" + more.getAndIncrement());
                }
                Scene.expect(more.get() < Scene.RECEIVE_S, "delayed messages do not come");
            }
            return team.auditCount();
        }
    }

    /** In a namespace that allows ten unacknowledged messages: who acknowledges after that gets the rest. */
    private static String unackedLimit(Scene scene) throws Exception {
        AtomicBoolean acknowledging = new AtomicBoolean();
        ConcurrentLinkedQueue<Runnable> held = new ConcurrentLinkedQueue<>();
        try (Team team = new Team(scene).in("few")) {
            for (int number = 0; number < 3; number++) {
                String name = "k" + number;
                int slot = SuiteOfRanges.slotOf(name);
                team.join(name, builder -> builder
                        .keySharedPolicy(KeySharedPolicy.stickyHashRange().ranges(Range.of(slot, slot)))
                        .messageListener((worker, message) -> {
                            Runnable acknowledge = () -> team.heard(name, worker, message);
                            if (acknowledging.get()) {
                                acknowledge.run();
                            } else {
                                held.add(acknowledge);
                            }
                        }));
            }
            // Batches that do not reach the limit alone.
            team.send(team.producer(Packing.BY_KEY, builder -> builder.batchingMaxMessages(UNACKED_MAX - 1)), MESSAGES,
                    Team.turning(3));
            int before = -1;
            while (held.isEmpty() || held.size() > before) {
                before = held.size();
                Thread.sleep(STILL_MS);
            }
            Scene.expect(held.size() < MESSAGES, "nothing limits them");
            acknowledging.set(true);
            Team.until(() -> {
                while (!held.isEmpty()) {
                    held.remove().run();
                }
                return team.cameCount() >= MESSAGES;
            }, "messages do not come");
            return team.audit();
        }
    }
}
