import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.transaction.Transaction;

/**
 * Pulsar's own Java client as a worker of a Key_Shared subscription, told on its standard input what to do, a word a
 * line: join, begin, receive, ack (what was received last, in the transaction), plain (the same without), commit, abort,
 * leave. It prints one line of JSON for each. Arguments: service URL, topic; and a service URL for transactions.
 */
public final class TransactionalWorker {
    private static final int PATIENCE_S = 60;
    private static final int SOON_S = 3;
    private static final int TRANSACTION_S = 240;

    public static void main(String[] arguments) throws Exception {
        try (PulsarClient client = connect(arguments[0]); PulsarClient coordinator = connect(arguments[2])) {
            Map<String, Object> has = new HashMap<>();
            BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            String order;
            while ((order = orders.readLine()) != null) {
                String said;
                try {
                    said = obey(order, client, coordinator, arguments[1], has);
                } catch (Exception error) {
                    Throwable cause = error.getCause() == null ? error : error.getCause();
                    said = cause.getClass().getSimpleName();
                }
                System.out.println("{\"said\": \"" + said + "\"}");
            }
        }
    }

    private static PulsarClient connect(String url) throws Exception {
        return PulsarClient.builder().serviceUrl(url).enableTransaction(true)
                .operationTimeout(PATIENCE_S, TimeUnit.SECONDS).build();
    }

    @SuppressWarnings("unchecked")
    private static String obey(String order, PulsarClient client, PulsarClient coordinator, String topic,
            Map<String, Object> has) throws Exception {
        Consumer<byte[]> consumer = (Consumer<byte[]>) has.get("consumer");
        Transaction transaction = (Transaction) has.get("transaction");
        Message<byte[]> message = (Message<byte[]>) has.get("message");
        switch (order) {
            case "join":
                has.put("consumer", client.newConsumer().topic(topic).subscriptionName("s")
                        .subscriptionType(SubscriptionType.Key_Shared)
                        .acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS).enableBatchIndexAcknowledgment(true)
                        .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest).subscribe());
                return "joined";
            case "leave":
                consumer.close();
                return "left";
            case "begin":
                has.put("transaction", coordinator.newTransaction()
                        .withTransactionTimeout(TRANSACTION_S, TimeUnit.SECONDS).build().get(PATIENCE_S, TimeUnit.SECONDS));
                return "begun";
            case "receive":
                message = consumer.receive(PATIENCE_S, TimeUnit.SECONDS);
                break;
            case "soon":
                message = consumer.receive(SOON_S, TimeUnit.SECONDS);
                break;
            case "ack":
                consumer.acknowledgeAsync(message.getMessageId(), transaction).get(PATIENCE_S, TimeUnit.SECONDS);
                return "acknowledged";
            case "plain":
                consumer.acknowledgeAsync(message.getMessageId()).get(PATIENCE_S, TimeUnit.SECONDS);
                return "acknowledged";
            case "commit":
                transaction.commit().get(PATIENCE_S, TimeUnit.SECONDS);
                return "committed";
            case "abort":
                transaction.abort().get(PATIENCE_S, TimeUnit.SECONDS);
                return "aborted";
            default:
                throw new IllegalArgumentException(order);
        }
        has.put("message", message);
        return message == null ? "nothing" : new String(message.getValue(), StandardCharsets.UTF_8);
    }
}
