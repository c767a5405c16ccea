/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With sdk/java/otel: threads that work for a span and end, one after the other. Prints by how many KiB the
 * private memory of the process grew from the first thousand to the end of two thousand more, each of which has
 * had a page for its record. The heap must be touched before (-XX:+AlwaysPreTouch).
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Arrays;
import spanprof.otel.Publisher;

public final class OtelThreads {
        private static long privateKiB() throws Exception {
                return Files.readAllLines(Paths.get("/proc/self/smaps_rollup")).stream()
                        .filter(line -> line.startsWith("Private_"))
                        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
        }

        private static Thread start(Runnable task, boolean virtual) throws Exception {
                Thread thread = new Thread(task);

                if (virtual)
                        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, task);
                thread.start();
                return thread;
        }

        private static void live(int n, boolean virtual) throws Exception {
                for (int i = 1; i <= n; i++) {
                        SpanContext ids = SpanContext.create(String.format("%032x", i), String.format("%016x", i),
                                        TraceFlags.getSampled(), TraceState.getDefault());

                        start(() -> {
                                try (Scope scope = Span.wrap(ids).makeCurrent()) {
                                        Thread.yield();
                                }
                        }, virtual).join();
                }
        }

        public static void main(String[] arguments) throws Exception {
                boolean virtual = Arrays.asList(arguments).contains("virtual");
                long before;

                if (!Publisher.install())
                        System.exit(1);
                live(virtual ? 20_000 : 1000, virtual);
                before = privateKiB();
                live(virtual ? 200_000 : 2000, virtual);
                System.out.println("grew " + (privateKiB() - before));
        }
}
