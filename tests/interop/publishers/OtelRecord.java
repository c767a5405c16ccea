/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With sdk/java/otel, and otel-record.c: OtelRecord LIBRARY [virtual]. Prints what a thread publishes, byte for byte:
 * before it has a span, in one, in another within, in the first again, and after. `virtual`: of a virtual thread that
 * gives its carrier away in each of them, and of another that has no span.
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.util.Collections;
import java.util.concurrent.SynchronousQueue;
import spanprof.otel.Publisher;

public final class OtelRecord {
        static final SynchronousQueue<String> QUEUE = new SynchronousQueue<>();
        static boolean virtual;

        static native String read();

        static void say(String where) {
                System.out.println(where + " " + read());
        }

        /** Another thread is on the carrier in between. */
        static void look(String where) throws Exception {
                say(where);
                if (virtual) {
                        QUEUE.put(where);
                        say(where);
                }
        }

        static Span span(String trace, String span) {
                return Span.wrap(SpanContext.create(trace, span, TraceFlags.getSampled(), TraceState.getDefault()));
        }

        static void work() {
                try {
                        look("before");
                        try (Scope a = span("00112233445566778899aabbccddeeff", "0123456789abcdef").makeCurrent()) {
                                look("outer");
                                try (Scope b = span("fedcba98765432100f1e2d3c4b5a6978", "f0e1d2c3b4a59687").makeCurrent()) {
                                        look("inner");
                                }
                                look("outer");
                        }
                        look("after");
                        if (virtual)
                                QUEUE.put("end");
                } catch (Exception error) {
                        throw new IllegalStateException(error);
                }
        }

        static void other() {
                try {
                        while (!QUEUE.take().equals("end"))
                                say("other");
                } catch (InterruptedException never) {
                        throw new IllegalStateException(never);
                }
        }

        static Thread start(Runnable task) throws Exception {
                return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
        }

        public static void main(String[] arguments) throws Exception {
                virtual = arguments.length > 1;
                System.out.println("installed " + Publisher.install());
                Publisher.publishResource(Collections.singletonMap("service.name", "shop"));
                System.load(arguments[0]);
                if (!virtual) {
                        work();
                        return;
                }
                Thread other = start(OtelRecord::other);
                start(OtelRecord::work).join();
                other.join();
        }
}
