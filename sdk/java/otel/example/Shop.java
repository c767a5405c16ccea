/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with OpenTelemetry's API, on the plain SDK, whose spans profilers see. Under the agent the call of
 * install() is not needed; there it finds that the agent's extension does it.
 *
 *     javac -cp spanprof-otel.jar:opentelemetry-… -d classes Shop.java
 *     sudo spanprof record -- java -cp classes:spanprof-otel.jar:opentelemetry-… Shop
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.util.Collections;
import spanprof.otel.Publisher;

public final class Shop {
        private static long checkout(long seconds) {
                long end = System.nanoTime() + seconds * 1_000_000_000L, receipt = 1;

                while (System.nanoTime() < end)
                        for (int i = 0; i < 1000; i++)
                                receipt = receipt * 6364136223846793005L + 1442695040888963407L;
                return receipt;
        }

        public static void main(String[] arguments) {
                SpanContext ids = SpanContext.create("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7",
                                TraceFlags.getSampled(), TraceState.getDefault());

                Publisher.install();
                Publisher.publishResource(Collections.singletonMap("service.name", "shop"));
                try (Scope current = Span.wrap(ids).makeCurrent()) {
                        System.out.println(checkout(5));
                }
        }
}
