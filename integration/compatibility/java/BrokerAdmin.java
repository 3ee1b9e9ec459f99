import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** The broker's admin API, for what no client can ask; its address and a token are in the environment. */
final class BrokerAdmin {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int FAILED = 300;

    private BrokerAdmin() {
    }

    /** One order about a topic. */
    static void order(String method, String topic, String path, String body) {
        ask(method, topic, path, HttpRequest.BodyPublishers.ofString(body));
    }

    static JsonNode statistics(String topic) {
        try {
            return JSON.readTree(ask("GET", topic, "/stats", HttpRequest.BodyPublishers.noBody()));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String ask(String method, String topic, String path, HttpRequest.BodyPublisher body) {
        String url = System.getenv("KEYLINE_PROBE_ADMIN_URL") + "/admin/v2/" + topic.replace("://", "/") + path;
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).method(method, body)
                .header("Content-Type", "application/json")
                .header("Authorization", "Bearer " + System.getenv("KEYLINE_PROBE_TOKEN")).build();
        HttpResponse<String> answer = CLIENT.sendAsync(request, HttpResponse.BodyHandlers.ofString()).join();
        Scene.expect(answer.statusCode() < FAILED, method + " " + path + ": " + answer.statusCode() + answer.body());
        return answer.body();
    }
}
