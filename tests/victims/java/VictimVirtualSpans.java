/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Virtual threads that work for spans of Datadog's agent, for test-long-java-spans.py. Whose span a moment is of can be
 * read off the stack: each thread has a method of its own, workA, workB, workC, workX, which the agent makes a span of. In it the
 * thread computes, lets its carrier go, and computes again, on whichever carrier it gets. Between two spans: rest.
 *
 * usage: java VictimVirtualSpans           prints `ready`, and `span TRACE SPAN METHOD` for each span; ends at the end
 *                                          of its input
 */
import datadog.trace.api.CorrelationIdentifier;
import datadog.trace.api.Trace;

public class VictimVirtualSpans {
    interface Work {
        void run() throws Exception;
    }

    static volatile int sink;

    static void burn(int turns) {
        int sum = turns;

        for (int i = 0; i < turns * 1000; i++) {
            sum = sum * 31 + (i ^ sum >>> 7);
        }
        sink += sum;
    }

    static void mounted() {
        burn(700);
    }

    static void again() {
        burn(700);
    }

    static void rest() {
        burn(300);
    }

    static void say(String method) {
        System.out.println("span " + CorrelationIdentifier.getTraceId() + " " +
            Long.toHexString(Long.parseUnsignedLong(CorrelationIdentifier.getSpanId())) + " " + method);
    }

    static void work(String method) throws Exception {
        say(method);
        mounted();
        Thread.sleep(1);
        again();
        Thread.yield();
        again();
    }

    @Trace(operationName = "a", resourceName = "a")
    static void workA() throws Exception {
        work("workA");
    }

    @Trace(operationName = "b", resourceName = "b")
    static void workB() throws Exception {
        work("workB");
    }

    @Trace(operationName = "c", resourceName = "c")
    static void workC() throws Exception {
        work("workC");
    }

    @Trace(operationName = "d", resourceName = "d")
    static void workX() throws Exception {
        work("workX");
    }

    static void serve(Work work) {
        try {
            for (;;) {
                work.run();
                rest();
                Thread.sleep(1);
            }
        } catch (Exception e) {
            System.out.println("ended by " + e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Work[] works = { VictimVirtualSpans::workA, VictimVirtualSpans::workB, VictimVirtualSpans::workC,
                         VictimVirtualSpans::workX };

        for (Work work : works) {
            Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, (Runnable)() -> serve(work));
        }
        System.out.println("ready");
        System.in.read();
    }
}
