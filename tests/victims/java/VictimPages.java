// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/* What a server of Java asks itself for, over the loopback device, until its CPU time is over. */
class VictimPages {
    static long cpuNs() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
                .getProcessCpuTime();
    }

    static void ask(int port, String path, String body) throws IOException {
        HttpURLConnection connection =
                (HttpURLConnection) new URL("http://127.0.0.1:" + port + path).openConnection();
        if (body != null) {
            connection.setDoOutput(true);
            connection.setRequestProperty("Content-Type", "application/json");
            try (OutputStream out = connection.getOutputStream()) {
                out.write(body.getBytes(StandardCharsets.UTF_8));
            }
        }
        if (connection.getResponseCode() != 200)
            throw new IllegalStateException(path + ": " + connection.getResponseCode());
        byte[] buffer = new byte[8192];
        try (InputStream in = connection.getInputStream()) {    // to its end: the connection is used again
            while (in.read(buffer) > 0) {
            }
        }
    }

    /* Pages are /items, /items/N, and an order is posted to /orders. Prints `ready` once each was there. */
    static void askUntil(int port, long seconds) throws IOException {
        long end = cpuNs() + seconds * 1_000_000_000L;
        for (int n = 0; cpuNs() < end; n++) {
            ask(port, "/items?from=" + n % 50, null);
            ask(port, "/items/" + n % 120, null);
            ask(port, "/orders",
                    "{\"name\": \"name " + n + "\", \"count\": " + n % 99 + ", \"items\": [1, 2, " + n % 7 + "]}");
            if (n == 0)
                System.out.println("ready");
        }
    }
}
