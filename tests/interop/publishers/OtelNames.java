/* SPDX-License-Identifier: Apache-2.0 */
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.util.Arrays;

/**
 * With otel-record.c: OtelNames LIBRARY [install] [virtual]. Spans whose names change; prints what the thread
 * publishes at each step. Names that come late are waited for, five seconds at most.
 */
public final class OtelNames {
        private static Tracer tracer;

        private static void say(String step) {
                System.out.println(step + " " + OtelRecord.read());
        }

        private static void sayLate(String step, String before) throws InterruptedException {
                boolean comes = System.getenv("SPANPROF_SPAN_NAMES") == null;

                for (int i = 0; comes && i < 500 && OtelRecord.read().equals(before); i++)
                        Thread.sleep(10);
                say(step);
        }

        /** A request of its own; more of them have names than a process publishes. */
        private static void sayOf(String name, String step) {
                Span entry = tracer.spanBuilder(name).startSpan();
                try (Scope a = entry.makeCurrent()) {
                        if (step != null)
                                say(step);
                }
                entry.end();
        }

        private static void work() {
                try {
                        Span entry = tracer.spanBuilder("GET").startSpan();
                        try (Scope a = entry.makeCurrent()) {
                                say("entry");
                                Span inner = tracer.spanBuilder("query").startSpan();
                                try (Scope b = inner.makeCurrent()) {
                                        say("inner");
                                        inner.updateName("other query");
                                        inner.setAttribute("http.route", "/inner");
                                        Thread.sleep(100);
                                        say("inner-renamed");
                                        String before = OtelRecord.read();
                                        entry.setAttribute("http.route", "/cart/{id}");
                                        sayLate("route", before);
                                        entry.updateName("cart");
                                        Span next = tracer.spanBuilder("next").startSpan();
                                        say("renamed-at-the-start-of-another");
                                        next.end();
                                        inner.end();
                                }
                                entry.updateName("cart at the end");
                                entry.end();
                        }
                        say("none");
                        SpanContext caller = SpanContext.createFromRemoteParent("00000000000000000000000000000005",
                                        "0000000000000006", TraceFlags.getSampled(), TraceState.getDefault());
                        entry = tracer.spanBuilder("order").setParent(Context.root().with(Span.wrap(caller)))
                                        .setAttribute("http.route", "/order").startSpan();
                        try (Scope a = entry.makeCurrent()) {
                                say("remote-parent");
                        }
                        entry.end();
                        for (int i = 0; i < 1000; i++)
                                sayOf("name " + i, null);
                        sayOf("one too many", "over-the-bound");
                        sayOf("name 1", "known-before");
                } catch (InterruptedException never) {
                        throw new IllegalStateException(never);
                }
        }

        public static void main(String[] arguments) throws Exception {
                if (Arrays.asList(arguments).contains("install"))
                        OtelPlain.install();
                System.load(arguments[0]);
                tracer = GlobalOpenTelemetry.getTracer("names");
                if (Arrays.asList(arguments).contains("virtual"))
                        OtelRecord.start(OtelNames::work).join();
                else
                        work();
        }
}
