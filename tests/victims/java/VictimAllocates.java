/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java whose spans allocate known bytes, for test-run-operations.py: how much is what the JVM says of the thread
 * (getThreadAllocatedBytes). Each of two threads goes through its spans in order:
 *
 *     /large   arrays of 64 KiB
 *     /small   objects of some bytes
 *     none     arrays of 32 KiB
 *     /still   nothing is allocated
 *
 * In each it computes first and last without allocating, so that ticks meet the thread before the first byte and
 * behind the last one.
 *
 * usage: java VictimAllocates MILLISECONDS
 *     prints `ready`. Each line of its input is a round, with MILLISECONDS of CPU time in each span. Then it
 *     prints `ok LARGE SMALL NONE STILL ALL`: bytes of both threads in each, and in all. Ends with its input
 */
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CyclicBarrier;

public class VictimAllocates {
    static final int LARGE = 0, SMALL = 1, NONE = 2, SPANS = 4, THREADS = 2;
    static final com.sun.management.ThreadMXBean BEAN =
        (com.sun.management.ThreadMXBean)ManagementFactory.getThreadMXBean();
    static final CyclicBarrier BEGIN = new CyclicBarrier(THREADS + 1), END = new CyclicBarrier(THREADS + 1);
    static final long[][] SUMS = new long[THREADS][SPANS];
    static final long[] IDS = new long[THREADS];
    static long cpu;
    static volatile Object sink;
    static volatile int number;

    static class Small {
        Object next;
        int value;
    }

    static native int publish();

    static native void enter(long span, int operation);

    static native void leave();

    static void burn(int turns) {
        int sum = turns;

        for (int i = 0; i < turns * 1000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        number = sum;
    }

    static void allocate(int which) {
        if (which == LARGE || which == NONE) {
            sink = new byte[which == LARGE ? 65536 : 32768];
        }
        for (int i = 0; which == SMALL && i < 100; i++) {
            Small small = new Small();

            small.next = new int[6];
            sink = small;
        }
    }

    /* What is looked at 50 times a ms of CPU takes the kernel some of it, and Java most. */
    static void spend(int which, long nanoseconds) {
        long end = BEAN.getCurrentThreadCpuTime() + nanoseconds;

        while (BEAN.getCurrentThreadCpuTime() < end) {
            allocate(which);
            burn(20);
        }
    }

    static void serve(int thread, int which, int serial) {
        long before = BEAN.getThreadAllocatedBytes(IDS[thread]);

        if (which != NONE) {
            enter((thread + 1L) << 32 | (which + 1) << 24 | serial, which);
        }
        spend(SPANS - 1, cpu / 4);
        spend(which, cpu / 2);
        spend(SPANS - 1, cpu / 4);
        if (which != NONE) {
            leave();
        }
        SUMS[thread][which] = BEAN.getThreadAllocatedBytes(IDS[thread]) - before;
    }

    static void work(int thread) {
        IDS[thread] = Thread.currentThread().getId();
        try {
            for (int serial = 0;; serial++) {
                BEGIN.await();
                for (int which = 0; which < SPANS; which++) {
                    serve(thread, which, serial);
                }
                END.await();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    static long all() {
        return BEAN.getThreadAllocatedBytes(IDS[0]) + BEAN.getThreadAllocatedBytes(IDS[1]);
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));

        System.load(System.getProperty("victim.library"));
        if (publish() != 0) {
            throw new IllegalStateException("contexts cannot be published");
        }
        cpu = Long.parseLong(arguments[0]) * 1000000;
        for (int i = 0; i < THREADS; i++) {
            int number = i;
            Thread thread = new Thread(() -> work(number), "worker-" + i);

            thread.setDaemon(true);
            thread.start();
        }
        System.out.println("ready");
        while (input.readLine() != null) {
            BEGIN.await();
            long before = all();
            END.await();
            long all = all() - before;
            StringBuilder line = new StringBuilder("ok");

            for (int which = 0; which < SPANS; which++) {
                line.append(' ').append(SUMS[0][which] + SUMS[1][which]);
            }
            System.out.println(line.append(' ').append(all));
        }
    }
}
