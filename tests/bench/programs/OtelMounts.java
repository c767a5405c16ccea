/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sdk/java/otel adds to virtual threads (JDK 21 and newer): ns for makeCurrent() and close() of a span, for
 * a Thread.yield(), which is an unmount and a mount, for handing something over to another virtual thread, and
 * for a whole thread; and bytes of private memory for each of twenty thousand that wait. The lowest of ten turns.
 * OPTIONS: -Djdk.virtualThreadScheduler.parallelism=1 -Xms512m -Xmx512m -XX:+AlwaysPreTouch -XX:+UseSerialGC.
 *
 *     java OPTIONS -cp classes:JARS OtelMounts                              the JVM alone
 *     java -javaagent:ANY-AGENT … OtelMounts                                what any agent costs
 *     java OPTIONS -cp classes:JARS:spanprof-otel.jar OtelMounts install    with spans that are published
 */
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.TraceFlags;
import io.opentelemetry.api.trace.TraceState;
import io.opentelemetry.context.Scope;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.SynchronousQueue;

public final class OtelMounts {
        static final SpanContext IDS = SpanContext.create("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7",
                TraceFlags.getSampled(), TraceState.getDefault());
        static final SynchronousQueue<Integer> QUEUE = new SynchronousQueue<>();

        interface Task {
                void run() throws Exception;
        }

        static Thread start(Task task) throws Exception {
                Runnable inSpan = () -> {
                        try (Scope scope = Span.wrap(IDS).makeCurrent()) {
                                task.run();
                        } catch (Exception error) {
                                throw new IllegalStateException(error);
                        }
                };

                return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, inSpan);
        }

        static void yield(int n) throws Exception {
                start(() -> {
                        for (int i = 0; i < n; i++)
                                Thread.yield();
                }).join();
        }

        static void handOver(int n) throws Exception {
                Thread giver = start(() -> {
                        for (int i = 0; i < n; i++)
                                QUEUE.put(i);
                });

                start(() -> {
                        for (int i = 0; i < n; i++)
                                QUEUE.take();
                }).join();
                giver.join();
        }

        static void live(int n) throws Exception {
                for (int i = 0; i < n; i++)
                        start(() -> {
                        }).join();
        }

        static void activate(int n) throws Exception {
                start(() -> {
                        for (int i = 0; i < n; i++)
                                try (Scope scope = Span.wrap(IDS).makeCurrent()) {
                                }
                }).join();
        }

        interface Turn {
                void run(int n) throws Exception;
        }

        static void time(String name, int n, Turn turn) throws Exception {
                double lowest = Double.MAX_VALUE;

                for (int i = 0; i < 10; i++) {
                        long begin = System.nanoTime();

                        turn.run(n);
                        lowest = Math.min(lowest, (System.nanoTime() - begin) / (double) n);
                }
                System.out.printf("%s: %.0f ns%n", name, lowest);
        }

        static long privateKiB() throws java.io.IOException {
                return Files.readAllLines(Paths.get("/proc/self/smaps_rollup")).stream()
                        .filter(line -> line.startsWith("Private_"))
                        .mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
        }

        static void memory(int n) throws Exception {
                CountDownLatch end = new CountDownLatch(1);
                List<Thread> threads = new ArrayList<>();
                long before = privateKiB();

                for (int i = 0; i < n; i++)
                        threads.add(start(end::await));
                Thread.sleep(500);
                System.out.printf("a thread that waits: %d bytes%n", (privateKiB() - before) * 1024 / n);
                end.countDown();
                for (Thread thread : threads)
                        thread.join();
        }

        public static void main(String[] arguments) throws Exception {
                if (Arrays.asList(arguments).contains("install"))
                        System.out.println("installed " + spanprof.otel.Publisher.install());
                time("makeCurrent and close", 1_000_000, OtelMounts::activate);
                time("yield", 300_000, OtelMounts::yield);
                time("hand over", 100_000, OtelMounts::handOver);
                time("start and end", 30_000, OtelMounts::live);
                memory(20_000);
        }
}
