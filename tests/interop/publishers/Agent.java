/* SPDX-License-Identifier: Apache-2.0 */
import datadog.trace.api.CorrelationIdentifier;
import datadog.trace.api.Trace;

/**
 * Under Datadog's agent, which publishes spans through its profiler's library: {@code Agent SECONDS}. Two workers; each
 * request is a span that the agent begins and ends. Prints {@code span TRACE SPAN WHO BEGIN END}: ids as the tracer says, in hex; the
 * thread's name; two moments inside of the span (CLOCK_MONOTONIC, ns).
 */
public final class Agent {
        private static volatile long sink;

        private static void burn(long end) {
                long x = sink;

                while (System.nanoTime() < end)
                        for (int i = 0; i < 10_000; i++)
                                x = x * 6364136223846793005L + 1442695040888963407L;
                sink = x;
        }

        @Trace(operationName = "request", resourceName = "answer")
        private static void answer(int worker) {
                long begin = System.nanoTime();

                burn(begin + 150_000_000);
                System.out.println(String.format("span %s %016x worker-%d %d %d", CorrelationIdentifier.getTraceId(),
                        Long.parseUnsignedLong(CorrelationIdentifier.getSpanId()), worker, begin, System.nanoTime()));
        }

        private static void work(int worker, long end) {
                while (System.nanoTime() < end) {
                        answer(worker);
                        burn(System.nanoTime() + 10_000_000);
                }
        }

        public static void main(String[] arguments) throws InterruptedException {
                long end = System.nanoTime() + Long.parseLong(arguments[0]) * 1_000_000_000L;
                Thread[] threads = new Thread[2];

                System.out.println("ready");
                for (int i = 0; i < threads.length; i++) {
                        int worker = i + 1;

                        threads[i] = new Thread(() -> work(worker, end), "worker-" + worker);
                        threads[i].start();
                }
                for (Thread thread : threads)
                        thread.join();
        }
}
