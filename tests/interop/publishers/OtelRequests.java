/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With OpenTelemetry's API for Java: OtelRequests SECONDS [install] [virtual]. Prints each busy stretch, as
 * otel_requests.py does; THREAD is the thread's name. `install`: without the agent, on the plain SDK.
 * `virtual`: on virtual threads.
 */
import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

public class OtelRequests {
        static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        static final long BEGIN = System.nanoTime();
        static long seconds;
        static boolean virtual;
        static Tracer tracer;

        static void burn(int ms, Span span) {
                long begin = System.nanoTime(), x = 1;
                String ids = span == null ? "- -" : span.getSpanContext().getTraceId() + " " +
                        span.getSpanContext().getSpanId();

                while (System.nanoTime() < begin + ms * 1_000_000L)
                        for (int i = 0; i < 1000; i++)
                                x = x * 6364136223846793005L + 1442695040888963407L;
                System.out.println("busy " + ids + " " + Thread.currentThread().getName() + " " + begin + " " +
                        System.nanoTime() + (x == 0 ? " " : ""));
        }

        /** Of the calling thread; virtual ones have none: half of the time. */
        static long cpu() {
                long ns = virtual ? -1 : THREADS.getCurrentThreadCpuTime();

                return ns >= 0 ? ns : (System.nanoTime() - BEGIN) / 2;
        }

        static Span start(String name) {
                return tracer.spanBuilder(name).startSpan();
        }

        static void request(ExecutorService pool) throws Exception {
                Span outer = start("outer"), inner = start("inner");

                try (Scope a = outer.makeCurrent()) {
                        burn(10, outer);
                        try (Scope b = inner.makeCurrent()) {
                                burn(10, inner);
                        }
                        burn(5, outer);
                        pool.submit(Context.current().wrap(() -> burn(10, outer))).get();
                        try (Scope c = Context.root().makeCurrent()) {
                                burn(5, null);
                        }
                        burn(5, outer);
                } finally {
                        inner.end();
                        outer.end();
                }
                burn(10, null);
                pool.submit(() -> burn(5, null)).get();
        }

        /** Half a second of CPU for each second that was asked for; the pool's threads have theirs besides. */
        static void work(int who) {
                ExecutorService pool = Executors.newSingleThreadExecutor(task -> new Thread(task, "pool-" + who));

                try {
                        while (cpu() < seconds * 500_000_000L)
                                request(pool);
                } catch (Exception error) {
                        error.printStackTrace();
                        System.exit(1);
                }
                pool.shutdown();
        }

        public static void main(String[] arguments) throws Exception {
                List<String> words = Arrays.asList(arguments);
                Thread[] threads = new Thread[2];

                seconds = Long.parseLong(arguments[0]);
                virtual = words.contains("virtual");
                if (words.contains("install"))
                        OtelPlain.install();
                tracer = GlobalOpenTelemetry.getTracer("requests");
                for (int i = 0; i < threads.length; i++) {
                        int who = i + 1;
                        Runnable task = () -> work(who);

                        if (virtual)
                                threads[i] = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                                        .invoke(null, task);
                        else
                                (threads[i] = new Thread(task, "worker-" + who)).start();
                }
                for (Thread thread : threads)
                        thread.join();
        }
}
