import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.KeySharedPolicy;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClientException;

/** After Pulsar's tests of workers that come and go with messages. `test_key_shared_suite.py` says which is which. */
final class SuiteOfWorkers {
    static final Map<String, Probe.Trial> SCENARIOS = scenarios();

    private static final int TEN = 10;
    private static final int FEW = 100;
    private static final int MANY = 1_000;
    private static final int KEYS = 300;
    private static final int HELD = 3;
    private static final int HELD_BACK_MS = 500;

    private SuiteOfWorkers() {
    }

    private static Map<String, Probe.Trial> scenarios() {
        Map<String, Probe.Trial> all = new LinkedHashMap<>();
        Packing.each(all, "added", SuiteOfWorkers::added);
        Packing.each(all, "first_removed", SuiteOfWorkers::firstRemoved);
        all.put("same_name", SuiteOfWorkers::sameName);
        Packing.each(all, "ack_holes", SuiteOfWorkers::ackHoles);
        Packing.each(all, "late_in_order", (scene, packing) -> late(scene, packing, false));
        Packing.each(all, "late_out_of_order", (scene, packing) -> late(scene, packing, true));
        Packing.each(all, "reconnected", SuiteOfWorkers::reconnected);
        Packing.each(all, "rest_delivered", SuiteOfWorkers::restDelivered);
        return all;
    }

    private static UnaryOperator<ConsumerBuilder<Integer>> queueOf(int count) {
        return builder -> builder.receiverQueueSize(count);
    }

    /** What lay in the first worker's queue when it left is the second one's, before what came later. */
    private static String added(Scene scene, Packing packing) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(packing);
            team.join("a").send(producer, TEN, Team.turning(TEN));
            team.queued("a", TEN);
            team.join("b").send(producer, TEN, Team.turning(TEN + TEN / 2));
            team.leave("a");
            team.collect();
            return team.auditOrder();
        }
    }

    /** While the first worker has messages of the keys, the second one gets nothing. */
    private static String firstRemoved(Scene scene, Packing packing) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(packing);
            team.join("a", queueOf(TEN));
            team.send(producer, TEN, Team.turning(TEN));
            team.queued("a", TEN);
            Consumer<Integer> second = team.join("b", queueOf(TEN));
            team.send(producer, TEN, Team.turning(TEN));
            Message<Integer> early = second.receive(HELD_BACK_MS, TimeUnit.MILLISECONDS);
            Scene.expect(early == null, "the second worker got a message of a key that the first one has");
            team.leave("a");
            team.collect();
            return team.auditOrder();
        }
    }

    /** Three workers of one name: one leaves with messages, which go to the others. */
    private static String sameName(Scene scene) throws Exception {
        try (Team team = new Team(scene)) {
            for (String one : List.of("a", "b", "c")) {
                team.join(one, builder -> builder.consumerName("same"));
            }
            team.send(team.producer(Packing.SINGLE), FEW, Team.turning(FEW));
            team.queuedByAll(FEW);
            String leaving = team.fullest();
            team.hold(leaving, HELD);
            team.leave(leaving);
            team.collect();
            team.expectNothing();
            return team.auditCount();
        }
    }

    /** A worker joins while another has messages that it does not acknowledge, and then leaves with them. */
    private static String ackHoles(Scene scene, Packing packing) throws Exception {
        try (Team team = new Team(scene)) {
            team.join("a", queueOf(TEN));
            team.join("b", queueOf(TEN));
            team.send(team.producer(packing), FEW, Team.turning(KEYS));
            List<Message<Integer>> acknowledged = team.hold("a", TEN);
            team.hold("b", HELD);
            team.acknowledge("a", acknowledged);
            team.join("c", queueOf(MANY));
            team.leave("b");
            team.collect();
            team.expectNothing();
            return team.auditOrder();
        }
    }

    /** One worker acknowledges, one holds what it has, one leaves and one joins late: the first does not stand still. */
    private static String late(Scene scene, Packing packing, boolean outOfOrder) throws Exception {
        UnaryOperator<ConsumerBuilder<Integer>> policy = builder -> builder.keySharedPolicy(
                KeySharedPolicy.autoSplitHashRange().setAllowOutOfOrderDelivery(outOfOrder));
        try (Team team = new Team(scene)) {
            for (String one : List.of("a", "b", "c")) {
                team.join(one, builder -> policy.apply(builder).receiverQueueSize(TEN));
            }
            Producer<Integer> producer = team.producer(packing);
            team.send(producer, FEW, Team.turning(KEYS));
            team.hold("b", HELD);
            List<Message<Integer>> held = team.hold("c", HELD);
            team.acknowledge("a", team.hold("a", HELD));
            team.join("d", builder -> policy.apply(builder).receiverQueueSize(MANY));
            team.leave("b");
            team.send(producer, FEW, place -> "l" + place);
            boolean goesOn = false;
            while (!goesOn) {
                List<Message<Integer>> next = team.hold("a", 1);
                goesOn = next.get(0).getValue() >= FEW;
                team.acknowledge("a", next);
            }
            team.acknowledge("c", held);
            team.collect();
            team.expectNothing();
            return outOfOrder ? team.auditCount() : team.auditOrder();
        }
    }

    /** Workers leave with full queues and come again under their names, while others take over and leave as well. */
    private static String reconnected(Scene scene, Packing packing) throws Exception {
        try (Team team = new Team(scene)) {
            UnaryOperator<ConsumerBuilder<Integer>> paused = builder -> builder.receiverQueueSize(TEN).startPaused(true);
            List<Consumer<Integer>> others = new ArrayList<>();
            others.add(team.join("a", paused));
            team.join("b", queueOf(MANY / 2));
            others.add(team.join("c", paused));
            Producer<Integer> producer = team.producer(packing);
            team.send(producer, MANY, Team.turning(KEYS));
            team.queued("b", 1);
            team.leave("b");
            others.forEach(Consumer::resume);
            team.queued("a", 1);
            team.queued("c", 1);
            List<Consumer<Integer>> again = new ArrayList<>();
            again.add(listening(team, "b"));
            for (String name : List.of("a", "c")) {
                team.leave(name);
                again.add(listening(team, name));
            }
            team.send(producer, MANY, Team.turning(KEYS));
            again.forEach(Consumer::resume);
            Team.until(() -> team.cameCount() >= team.sentCount(), "messages do not come");
            return team.auditOrder();
        }
    }

    private static Consumer<Integer> listening(Team team, String name) throws PulsarClientException {
        return team.join(name, builder -> builder.receiverQueueSize(TEN).startPaused(true)
                .messageListener((worker, message) -> team.heard(name, worker, message)));
    }

    /** Workers with small queues come one after the other, each while those before hold all they may: none is stuck. */
    private static String restDelivered(Scene scene, Packing packing) throws Exception {
        try (Team team = new Team(scene)) {
            Producer<Integer> producer = team.producer(packing);
            Map<String, List<Message<Integer>>> held = new LinkedHashMap<>();
            for (String name : List.of("a", "b", "c", "d")) {
                team.join(name, queueOf(TEN));
                team.send(producer, FEW, place -> name + place);
                held.put(name, team.hold(name, HELD));
            }
            for (Map.Entry<String, List<Message<Integer>>> one : held.entrySet()) {
                team.acknowledge(one.getKey(), one.getValue());
            }
            team.collect();
            team.expectNothing();
            return team.auditOrder();
        }
    }
}
