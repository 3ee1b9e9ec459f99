import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.PulsarVersion;

/**
 * Tries features of the official Java client. Arguments: service URL, prefix of topics, directory of keys, features; the
 * token is in the environment. Prints what the Python program beside it prints.
 */
public final class Probe {
    private static final int AT_ONCE = 4;
    private static final ObjectMapper JSON = new ObjectMapper();

    private Probe() {
    }

    public static void main(String[] arguments) throws Exception {
        Scene.Place place =
                new Scene.Place(arguments[0], arguments[1], arguments[2], System.getenv("KEYLINE_PROBE_TOKEN"));
        Map<String, Trial> known = new LinkedHashMap<>(KeyShared.FEATURES);
        known.putAll(Others.FEATURES);
        known.putAll(Windows.FEATURES);
        known.putAll(Transactions.FEATURES);
        known.putAll(SuiteOfKeys.SCENARIOS);
        known.putAll(SuiteOfRanges.SCENARIOS);
        known.putAll(SuiteOfWorkers.SCENARIOS);
        known.putAll(SuiteOfRules.SCENARIOS);
        report(Map.of("library", "pulsar-client " + PulsarVersion.getVersion()));
        try (Scene hello = new Scene(place, "hello")) {
            hello.producer(builder -> { });
            ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
            for (int index = 3; index < arguments.length; index++) {
                String feature = arguments[index];
                pool.execute(() -> attempt(place, feature, known.get(feature)));
            }
            pool.shutdown();
            pool.awaitTermination(1, TimeUnit.HOURS);
        }
        System.exit(0);
    }

    private static void attempt(Scene.Place place, String feature, Trial trial) {
        Map<String, Object> outcome = new LinkedHashMap<>();
        outcome.put("feature", feature);
        try (Scene scene = new Scene(place, feature)) {
            outcome.put("ok", trial == null ? null : true);
            outcome.put("detail", trial == null ? "not tried" : trial.run(scene));
        } catch (Exception error) {
            outcome.put("ok", false);
            outcome.put("detail", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        report(outcome);
    }

    private static synchronized void report(Map<String, Object> values) {
        try {
            System.out.println(JSON.writeValueAsString(values));
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    /** Tries one feature and returns what was seen. */
    interface Trial {
        String run(Scene scene) throws Exception;
    }
}
