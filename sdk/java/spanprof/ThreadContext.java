/* SPDX-License-Identifier: Apache-2.0 */
package spanprof;

import java.io.File;

/**
 * The trace context of the calling thread, published to profilers.
 *
 * <pre>
 *     ThreadContext.initialize("ctxstorage=otel");        // once
 *     ThreadContext context = ThreadContext.current();
 *     context.put(spanId, rootSpanId);                    // this thread begins to work for a span
 *     context.clear();                                    // it no longer does
 * </pre>
 *
 * Needs libspanprof-context.so and nothing else: no agent, no compiler of C. It is looked for where the property
 * {@code spanprof.library} says (a file), else on {@code java.library.path}. A context belongs to the operating system's
 * thread: code that runs on a virtual thread sets it again after each point at which it may have been moved.
 */
public final class ThreadContext {
        /** Tags that a context has in profiler mode: {@link #setTag} takes 0 to 9. */
        public static final int TAGS = 10;

        private static final ThreadContext INSTANCE = new ThreadContext();

        static {
                String library = System.getProperty("spanprof.library");

                if (library != null)
                        System.load(new File(library).getAbsolutePath());
                else
                        System.loadLibrary("spanprof-context");
        }

        private ThreadContext() {
        }

        /** It keeps nothing itself: what it does, it does to the thread that calls. */
        public static ThreadContext current() {
                return INSTANCE;
        }

        /**
         * @param arguments words with commas between them, of which {@code ctxstorage=otel|thread|profiler} and
         *         {@code capacity=N} count; null = none. What they leave open the environment says ({@code
         *         SPANPROF_CONTEXT}), else it is profiler mode
         * @return whether contexts can be set
         */
        public static boolean initialize(String arguments) {
                return initialize0(arguments);
        }

        /** Withdraws what is published; contexts that are set from here on go nowhere. */
        public static void shutdown() {
                shutdown0();
        }

        public static boolean isInitialized() {
                return isInitialized0();
        }

        /** Whether profilers outside of this process can read contexts. */
        public static boolean isOtelMode() {
                return mode0() == 1;
        }

        /** @return the checksum that profiler mode verifies the pair by */
        public long put(long spanId, long rootSpanId) {
                return put0(spanId, rootSpanId);
        }

        /** The same with a whole trace id: its high and its low half. */
        public void put(long traceIdHigh, long traceIdLow, long spanId) {
                setOtel0(traceIdHigh, traceIdLow, spanId);
        }

        /** @return 0 = there is no context */
        public long getSpanId() {
                return getSpanId0();
        }

        /** @return 0 = there is no context; in otel mode the low half of the trace id */
        public long getRootSpanId() {
                return getRootSpanId0();
        }

        /**
         * Both ids at once. Two calls of native code, which cost less than one that fills an array; no other thread changes
         * this one's context between them.
         *
         * @param ids takes the span's id and the root span's (in otel mode the low half of the trace id), 0 where there is
         *         no context
         * @return whether there is a context
         */
        public boolean get(long[] ids) {
                ids[0] = getSpanId0();
                ids[1] = getRootSpanId0();
                return (ids[0] | ids[1]) != 0;
        }

        /** @return whether it was set: there is such a tag, and this is profiler mode */
        public boolean setTag(int index, int value) {
                return setTag0(index, value);
        }

        /** @return 0 = not set */
        public int getTag(int index) {
                return getTag0(index);
        }

        public void clear() {
                clear0();
        }

        private static native boolean initialize0(String arguments);

        private static native void shutdown0();

        private static native boolean isInitialized0();

        private static native int mode0();

        private static native long put0(long spanId, long rootSpanId);

        private static native void setOtel0(long traceIdHigh, long traceIdLow, long spanId);

        private static native long getSpanId0();

        private static native long getRootSpanId0();

        private static native boolean setTag0(int index, int value);

        private static native int getTag0(int index);

        private static native void clear0();
}
