/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java that works for spans, for test-java-spans.py: whose span a moment is of can be read off the stack. Three threads
 * publish by sdk/java; the span's id has the thread in its upper half and the work in the next byte, from 1 on:
 *
 *     serve   publishes, calls one of workA, workB (leaves by an exception), workC; clears; rest
 *     workC   nest publishes another span, calls inner, publishes the former one again
 *
 * usage: java VictimJavaSpans          prints `ready` once it is warm, ends at the end of its input
 */
import java.util.Random;
import spanprof.ThreadContext;

public class VictimJavaSpans {
    static final int WARM_ROUNDS = 60;
    static final long TRACE = 0x5ca1ab1eL;
    static final ThreadContext CONTEXT = ThreadContext.current();
    static final Work[] WORKS = { new A(), new B(), new C() };
    static volatile int sink;

    interface Work {
        void run(long span);
    }

    static void burn(int turns) {
        int sum = turns;

        for (int i = 0; i < turns * 1000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        sink = sum;
    }

    static void workA() {
        burn(300);
    }

    static void workB() {
        burn(200);
        throw new IllegalStateException();
    }

    static void workC(long span) {
        burn(100);
        nest(span);
        burn(100);
    }

    static void inner() {
        burn(200);
    }

    static void nest(long span) {
        CONTEXT.put(TRACE, span >>> 32, span & ~(0xffL << 24) | 4L << 24);
        inner();
        CONTEXT.put(TRACE, span >>> 32, span);
    }

    static void rest() {
        burn(100);
    }

    /** Each is compiled for itself: `serve` calls three kinds. */
    static class A implements Work {
        public void run(long span) {
            workA();
        }
    }

    static class B implements Work {
        public void run(long span) {
            workB();
        }
    }

    static class C implements Work {
        public void run(long span) {
            workC(span);
        }
    }

    static void serve(long thread, int serial, int which) {
        long span = thread << 32 | (which + 1L) << 24 | serial & 0xffffff;

        CONTEXT.put(TRACE, thread, span);
        try {
            WORKS[which].run(span);
        } catch (IllegalStateException e) {
            sink++;
        }
        CONTEXT.clear();
        rest();
    }

    static void work(long thread) {
        Random random = new Random(thread);

        for (int serial = 0;; serial++) {
            serve(thread, serial, random.nextInt(WORKS.length));
            if (serial == WARM_ROUNDS) {
                System.out.println("ready");
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (!ThreadContext.initialize("ctxstorage=otel") || !ThreadContext.isOtelMode()) {
            throw new IllegalStateException("contexts cannot be published");
        }
        for (int i = 1; i <= 3; i++) {
            long number = i;
            Thread thread = new Thread(() -> work(number), "worker-" + i);

            thread.setDaemon(true);
            thread.start();
        }
        System.in.read();
    }
}
