import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * Pulsar's own Java client with one token after the other, each a line of its standard input: with the first it connects
 * and produces, with the second it has a worker join on the connection that it has. Arguments: service URL, topic.
 */
public final class RenewedToken {
    private static final int PATIENCE_S = 120;

    private static volatile String token;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        try (PulsarClient client = PulsarClient.builder().serviceUrl(arguments[0])
                .operationTimeout(PATIENCE_S, TimeUnit.SECONDS)
                .authentication(AuthenticationFactory.token(() -> token)).build()) {
            System.out.println("started");
            token = input.readLine();
            Producer<byte[]> producer = client.newProducer().topic(arguments[1]).create();
            System.out.println("connected");
            token = input.readLine();
            Consumer<byte[]> worker = client.newConsumer().topic(arguments[1]).subscriptionName("s")
                    .subscriptionType(SubscriptionType.Key_Shared).subscribe();
            producer.newMessage().key("k").value("java".getBytes(StandardCharsets.UTF_8)).send();
            worker.acknowledge(worker.receive(PATIENCE_S, TimeUnit.SECONDS));
            System.out.println("received");
        }
    }
}
