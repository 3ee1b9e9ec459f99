import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.PulsarClientException;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;

/**
 * A client that authenticates by a certificate: it sends messages and receives them on a Key_Shared subscription, then
 * prints how many came; or the name of the exception that kept it from that.
 *
 * <p>Arguments: service URL, topic, number of messages, authorities, certificate, key.
 */
public final class CertificateClient {
    private static final int PATIENCE_S = 90;

    private CertificateClient() {
    }

    public static void main(String[] arguments) throws Exception {
        int messages = Integer.parseInt(arguments[2]);
        try (PulsarClient client = PulsarClient.builder()
                .serviceUrl(arguments[0])
                .tlsTrustCertsFilePath(arguments[3])
                .enableTlsHostnameVerification(true)
                .authentication(AuthenticationFactory.TLS(arguments[4], arguments[5]))
                .operationTimeout(PATIENCE_S, TimeUnit.SECONDS)
                .build()) {
            System.out.println(exchanged(client, arguments[1], messages));
        } catch (PulsarClientException refused) {
            System.out.println(refused.getClass().getSimpleName());
        }
    }

    private static int exchanged(PulsarClient client, String topic, int messages) throws PulsarClientException {
        try (var consumer = client.newConsumer(Schema.STRING)
                .topic(topic)
                .subscriptionName("s")
                .subscriptionType(SubscriptionType.Key_Shared)
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .subscribe();
                var producer = client.newProducer(Schema.STRING).topic(topic).create()) {
            for (int number = 0; number < messages; number++) {
                producer.newMessage().key("key-" + number).value("value").send();
            }
            int received = 0;
            while (received < messages) {
                Message<String> message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                if (message == null) {
                    return received;
                }
                consumer.acknowledge(message);
                received++;
            }
            return received;
        }
    }
}
