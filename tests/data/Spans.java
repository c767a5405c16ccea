// SPDX-License-Identifier: Apache-2.0
//
// A program with known spans for Datadog's profiler: two threads work for 40 spans each, span i is 0x1000 + i % 4 with the
// local root 0x77 + i % 2, context attributes `endpoint` = /ep0, /ep1 or /ep2 and `tier` = gold.
//
//     java -cp ddprof.jar:. Spans FILE
import com.datadoghq.profiler.ContextSetter;
import com.datadoghq.profiler.JavaProfiler;
import java.util.List;

public class Spans {
    static volatile long sink;

    static int fib(int n) {
        return n < 2 ? n : fib(n - 1) + fib(n - 2);
    }

    static void work(JavaProfiler profiler, ContextSetter context) {
        profiler.addThread();
        for (int i = 1; i <= 40; i++) {
            profiler.setContext(0x1000 + i % 4, 0x77 + i % 2);
            context.setContextValue("endpoint", "/ep" + i % 3);
            context.setContextValue("tier", "gold");
            long end = System.nanoTime() + 50_000_000L;
            while (System.nanoTime() < end) {
                sink += fib(18);
                sink += new byte[5000].length;
            }
        }
        profiler.setContext(0, 0);
        profiler.removeThread();
    }

    public static void main(String[] arguments) throws Exception {
        JavaProfiler profiler = JavaProfiler.getInstance();
        profiler.execute("start,cpu=1ms,wall=5ms,filter=0,memory=65536:a,jfr,attributes=endpoint;tier,file=" + arguments[0]);
        ContextSetter context = new ContextSetter(profiler, List.of("endpoint", "tier"));
        Thread[] threads = new Thread[2];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> work(profiler, context), "worker-" + i);
            threads[i].start();
        }
        for (Thread thread : threads)
            thread.join();
        profiler.stop();
    }
}
