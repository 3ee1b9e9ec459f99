import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerAccessMode;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Waits for a topic of its own with Pulsar's own Java client, says so when it has it, sends one message, and leaves when
 * its standard input ends. Arguments: service URL, topic, priority, operation timeout in seconds.
 */
public final class WaitingProducer {
    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = PulsarClient.builder()
                .serviceUrl(arguments[0])
                .operationTimeout(Integer.parseInt(arguments[3]), TimeUnit.SECONDS)
                .build()) {
            System.out.println("{\"event\": \"asking\"}");
            Producer<byte[]> producer = client.newProducer()
                    .topic(arguments[1])
                    .accessMode(ProducerAccessMode.WaitForExclusive)
                    .property("keyline.queue-priority", arguments[2])
                    .create();
            producer.send("java".getBytes());
            System.out.println("{\"event\": \"created\", \"name\": \"" + producer.getProducerName() + "\"}");
            System.in.transferTo(System.out);
            producer.close();
        } catch (Exception error) {
            System.out.println("{\"event\": \"failed\", \"name\": \"" + error.getClass().getSimpleName() + "\"}");
            System.exit(1);
        }
    }
}
