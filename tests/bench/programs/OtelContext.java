/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sdk/java/otel adds to OpenTelemetry's contexts: ns for makeCurrent() and close(), the lowest of ten turns.
 * `java -cp classes:spanprof-otel.jar:JARS OtelContext` without, `… OtelContext install` with,
 * `… OtelContext install named` with a span of the SDK that has a name.
 * A first word `memory` instead: KiB of private memory after two thousand turns. With a heap that is touched
 * before (-Xms64m -Xmx64m -XX:+AlwaysPreTouch -XX:+UseSerialGC), and the lowest of some runs; -Xint leaves out
 * what the compilers take, which differs by more from run to run.
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;

public class OtelContext {
        static final int N = 5_000_000;

        static double turn(Context context, int n) {
                long begin = System.nanoTime();

                for (int i = 0; i < n; i++)
                        try (Scope scope = context.makeCurrent()) {
                        }
                return (System.nanoTime() - begin) / (double) n;
        }

        static long privateKiB() throws java.io.IOException {
                return Files.readAllLines(Paths.get("/proc/self/smaps_rollup")).stream()
                        .filter(line -> line.startsWith("Private_"))
                        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
        }

        public static void main(String[] arguments) throws java.io.IOException {
                SpanContext ids = SpanContext.create("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7",
                        TraceFlags.getSampled(), TraceState.getDefault());
                double lowest = Double.MAX_VALUE;

                if (Arrays.asList(arguments).contains("install"))
                        System.out.println("installed " + spanprof.otel.Publisher.install());
                if (Arrays.asList(arguments).contains("memory")) {
                        turn(Context.root().with(Span.wrap(ids)), 2000);
                        System.out.println("private KiB: " + privateKiB());
                        return;
                }
                Span span = Arrays.asList(arguments).contains("named")
                        ? SdkTracerProvider.builder().addSpanProcessor(new spanprof.otel.Names()).build().get("bench")
                                .spanBuilder("GET /cart/{id}").startSpan()
                        : Span.wrap(ids);
                for (int i = 0; i < 10; i++)
                        lowest = Math.min(lowest, turn(Context.root().with(span), N));
                System.out.printf("makeCurrent and close: %.1f ns%n", lowest);
        }
}
