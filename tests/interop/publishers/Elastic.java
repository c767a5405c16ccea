/* SPDX-License-Identifier: Apache-2.0 */
import co.elastic.otel.UniversalProfilingCorrelation;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * With the library of Elastic's agent, which makes a thread's record and leads the variable to it: {@code Elastic SECONDS}.
 * What the agent writes into the record is written here, as its documentation has it: u16 layout = 1, u8 valid, u8 trace present, u8
 * flags, trace id, span id, transaction id. Prints lines as Agent does.
 */
public final class Elastic {
        private static final long TRACE_HIGH = 0xe1a571c000000000L;
        private static final int SIZE = 37, VALID = 2, PRESENT = 3, TRACE = 5, SPAN = 21, TRANSACTION = 29;
        private static volatile long sink;

        private static void burn(long end) {
                long x = sink;

                while (System.nanoTime() < end)
                        for (int i = 0; i < 10_000; i++)
                                x = x * 6364136223846793005L + 1442695040888963407L;
                sink = x;
        }

        private static void putIds(ByteBuffer record, long low, long span) {
                record.order(ByteOrder.BIG_ENDIAN);
                record.putLong(TRACE, TRACE_HIGH).putLong(TRACE + 8, low).putLong(SPAN, span).putLong(TRANSACTION, ~span);
        }

        private static void answer(int worker, long request) {
                ByteBuffer record = UniversalProfilingCorrelation.getCurrentThreadStorage(true, SIZE);
                long span = (long) worker << 32 | request, begin;

                record.put(VALID, (byte) 0);
                record.order(ByteOrder.nativeOrder()).putShort(0, (short) 1);
                putIds(record, worker, span);
                record.put(PRESENT, (byte) 1);
                record.put(VALID, (byte) 1);
                begin = System.nanoTime();
                burn(begin + 100_000_000);
                System.out.println(String.format("span %016x%016x %016x worker-%d %d %d", TRACE_HIGH, worker, span, worker,
                        begin, System.nanoTime()));
                record.put(PRESENT, (byte) 0);
        }

        private static void work(int worker, long end) {
                for (long request = 1; System.nanoTime() < end; request++) {
                        answer(worker, request);
                        burn(System.nanoTime() + 10_000_000);
                }
                UniversalProfilingCorrelation.removeCurrentThreadStorage();
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
