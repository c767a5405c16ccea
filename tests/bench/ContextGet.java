/* SPDX-License-Identifier: Apache-2.0 */
import java.util.Arrays;
import spanprof.ThreadContext;

/**
 * What reading the own context back costs in Java: ns a call, the median of 21 rounds of a million each, in turns with
 * the two calls that it stands for, and with a call of native code that says the mode and nothing else.
 *
 * <pre>
 *     javac -d CLASSES sdk/java/spanprof/ThreadContext.java tests/bench/ContextGet.java
 *     java -Dspanprof.library=build/sdk/libspanprof-context.so -cp CLASSES ContextGet
 * </pre>
 */
public final class ContextGet {
        private static final int ROUNDS = 21, CALLS = 1_000_000;
        private static final ThreadContext CONTEXT = ThreadContext.current();
        private static final long[] IDS = new long[2];
        private static long sink;

        private interface Variant {
                long call();
        }

        private ContextGet() {
        }

        private static double time(Variant variant) {
                long begin = System.nanoTime();

                for (int i = 0; i < CALLS; i++)
                        sink += variant.call();
                return (System.nanoTime() - begin) / (double) CALLS;
        }

        public static void main(String[] arguments) {
                String[] names = { "get(ids)", "getSpanId() + getRootSpanId()", "isOtelMode()" };
                Variant[] variants = { () -> CONTEXT.get(IDS) ? IDS[0] + IDS[1] : 0,
                        () -> CONTEXT.getSpanId() + CONTEXT.getRootSpanId(), () -> CONTEXT.isOtelMode() ? 1 : 0 };
                double[][] results = new double[variants.length][ROUNDS];

                if (!ThreadContext.initialize("ctxstorage=otel"))
                        throw new IllegalStateException("contexts cannot be published");
                CONTEXT.put(1, 2);
                for (int round = -3; round < ROUNDS; round++)           /* three to warm up */
                        for (int i = 0; i < variants.length; i++)
                                results[i][Math.max(round, 0)] = time(variants[i]);
                for (int i = 0; i < variants.length; i++) {
                        Arrays.sort(results[i]);
                        System.out.printf("%-32s min %6.1f  median %6.1f  max %6.1f ns%n", names[i], results[i][0],
                                        results[i][ROUNDS / 2], results[i][ROUNDS - 1]);
                }
        }
}
