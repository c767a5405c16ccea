/* SPDX-License-Identifier: Apache-2.0 */
import spanprof.ThreadContext;

/**
 * Three workers that answer requests, each request a span of its own. From a checkout, without any build step:
 *
 * <pre>
 *     java -Dspanprof.library=build/sdk/libspanprof-context.so -cp CLASSES Requests [SECONDS] [ARGUMENTS]
 * </pre>
 *
 * where CLASSES is made by {@code javac -d CLASSES sdk/java/spanprof/ThreadContext.java sdk/example/java/Requests.java}.
 * Prints {@code ready MODE}; a profile then shows for the worker N spans whose id is N · 2^32 and the number of the
 * request, on the trace (or local root span) 0x5ca1ab1e · 2^32 + N.
 */
public final class Requests {
        private static final long ROOT = 0x5ca1ab1eL << 32;
        private static volatile long sink;

        private Requests() {
        }

        private static void answer() {
                long x = sink;

                for (int i = 0; i < 200_000; i++)
                        x = x * 6364136223846793005L + 1442695040888963407L;
                sink = x;
        }

        private static void work(long worker, long end) {
                ThreadContext context = ThreadContext.current();
                long[] ids = new long[2];

                for (long request = 1; System.nanoTime() < end; request++) {
                        context.put(worker << 32 | request, ROOT + worker);
                        if (!context.get(ids) || ids[0] != (worker << 32 | request) || ids[1] != ROOT + worker)
                                throw new IllegalStateException("another context than was put");
                        answer();
                        context.clear();
                        if (context.getSpanId() != 0 || context.get(ids))
                                throw new IllegalStateException("a context after clear()");
                }
        }

        public static void main(String[] arguments) throws InterruptedException {
                long end = System.nanoTime() + (arguments.length > 0 ? Long.parseLong(arguments[0]) : 10) * 1_000_000_000L;
                Thread[] threads = new Thread[3];

                if (!ThreadContext.initialize(arguments.length > 1 ? arguments[1] : "ctxstorage=otel"))
                        throw new IllegalStateException("contexts cannot be published");
                for (int i = 0; i < threads.length; i++) {
                        long worker = i + 1;

                        threads[i] = new Thread(() -> work(worker, end), "worker-" + worker);
                        threads[i].start();
                }
                System.out.println("ready " + (ThreadContext.isOtelMode() ? "otel" : "profiler"));
                for (Thread thread : threads)
                        thread.join();
                ThreadContext.shutdown();
                System.out.println("done");
        }
}
