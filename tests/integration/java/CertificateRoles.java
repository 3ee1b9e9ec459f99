import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.util.Base64;
import javax.naming.AuthenticationException;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.authentication.AuthenticationDataSource;
import org.apache.pulsar.broker.authentication.AuthenticationProvider;
import org.apache.pulsar.broker.authentication.AuthenticationProviderTls;

/** Reads certificates, DER as base64, one a line; prints for each the role that a broker takes, or nothing, as base64. */
public final class CertificateRoles {
    private CertificateRoles() {
    }

    public static void main(String[] arguments) throws Exception {
        var provider = new AuthenticationProviderTls();
        provider.initialize(AuthenticationProvider.Context.builder().config(new ServiceConfiguration()).build());
        var factory = CertificateFactory.getInstance("X.509");
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            byte[] encoded = Base64.getDecoder().decode(line);
            System.out.println(role(provider, factory.generateCertificate(new ByteArrayInputStream(encoded))));
        }
    }

    private static String role(AuthenticationProviderTls provider, Certificate certificate) {
        try {
            String role = provider.authenticate(new Shown(certificate));
            return Base64.getEncoder().encodeToString(role.getBytes(StandardCharsets.UTF_8));
        } catch (AuthenticationException refused) {
            return "";
        }
    }

    private record Shown(Certificate certificate) implements AuthenticationDataSource {
        @Override
        public boolean hasDataFromTls() {
            return true;
        }

        @Override
        public Certificate[] getTlsCertificates() {
            return new Certificate[] {certificate};
        }
    }
}
