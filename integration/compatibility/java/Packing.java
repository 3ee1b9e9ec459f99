import java.util.Locale;
import java.util.Map;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.ProducerBuilder;

/** How a producer puts messages into entries; the client's default is MIXED. */
enum Packing {
    SINGLE, BY_KEY, MIXED;

    private static final int PENDING_MAX = 2_000;

    <T> void onto(ProducerBuilder<T> builder) {
        builder.enableBatching(this != SINGLE).maxPendingMessages(PENDING_MAX).blockIfQueueFull(true);
        if (this == BY_KEY) {
            builder.batcherBuilder(BatcherBuilder.KEY_BASED);
        }
    }

    /** One scenario for each way, which is the end of its name. */
    static void each(Map<String, Probe.Trial> scenarios, String name, Scenario scenario) {
        for (Packing packing : values()) {
            scenarios.put(name + "_" + packing.name().toLowerCase(Locale.ROOT), scene -> scenario.run(scene, packing));
        }
    }

    /** Plays one scenario with messages that are packed so, and returns what was seen. */
    interface Scenario {
        String run(Scene scene, Packing packing) throws Exception;
    }
}
