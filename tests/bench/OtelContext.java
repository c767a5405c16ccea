/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sdk/java/otel adds to OpenTelemetry's contexts: ns for makeCurrent() and close(), the lowest of ten turns.
 * `java -cp classes:spanprof-otel.jar:JARS OtelContext` without, `… OtelContext install` with.
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;

public class OtelContext {
        static final int N = 5_000_000;

        static double turn(Context context) {
                long begin = System.nanoTime();

                for (int i = 0; i < N; i++)
                        try (Scope scope = context.makeCurrent()) {
                        }
                return (System.nanoTime() - begin) / (double) N;
        }

        public static void main(String[] arguments) {
                SpanContext ids = SpanContext.create("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7",
                        TraceFlags.getSampled(), TraceState.getDefault());
                double lowest = Double.MAX_VALUE;

                if (arguments.length > 0)
                        System.out.println("installed " + spanprof.otel.Publisher.install());
                for (int i = 0; i < 10; i++)
                        lowest = Math.min(lowest, turn(Context.root().with(Span.wrap(ids))));
                System.out.printf("makeCurrent and close: %.1f ns%n", lowest);
        }
}
