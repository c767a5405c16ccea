/* SPDX-License-Identifier: Apache-2.0 */
package spanprof.otel;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.ContextStorage;
import io.opentelemetry.context.Scope;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;

/**
 * Contexts as the storage below keeps them; what is current in a thread is published, too.
 *
 * A record belongs to the thread of the operating system. A virtual thread leaves it when it blocks, and the next one on
 * that carrier would show its span: so virtual threads publish only if the JVM tells of that ({@link Virtual}).
 *
 * A carrier itself works for nobody. The agent makes contexts current there, too: the task that continues a virtual thread
 * gets that of whoever has woken it, and would show its span all the time that the virtual thread runs.
 */
final class PublishingStorage implements ContextStorage {
        private static final MethodHandle IS_VIRTUAL = findIsVirtual();
        private static final Class<?> CARRIER = findCarrier();
        private static final byte[] DIGITS = digits();

        private final ContextStorage storage;

        PublishingStorage(ContextStorage storage) {
                this.storage = storage;
        }

        @Override
        public Scope attach(Context context) {
                Scope scope = storage.attach(context);

                if (scope == Scope.noop() || !publish(context))
                        return scope;
                return new PublishedScope(storage, scope);
        }

        @Override
        public Context current() {
                return storage.current();
        }

        @Override
        public Context root() {
                return storage.root();
        }

        private static final class PublishedScope implements Scope {
                private final ContextStorage storage;
                private final Scope scope;

                PublishedScope(ContextStorage storage, Scope scope) {
                        this.storage = storage;
                        this.scope = scope;
                }

                /** Whoever closes it, in whatever order: what is current then is published. */
                @Override
                public void close() {
                        scope.close();
                        publish(storage.current());
                }
        }

        /**
         * A remote span is its service's: this thread will work for a child of it.
         *
         * @return whether this thread publishes
         */
        private static boolean publish(Context context) {
                Thread thread = Thread.currentThread();
                boolean virtual = isVirtual(thread);
                Span span = context == null ? null : Span.fromContextOrNull(context);
                SpanContext ids = span == null ? null : span.getSpanContext();

                if (virtual ? !Virtual.WATCHED : thread.getClass() == CARRIER)
                        return false;
                if (ids == null || !ids.isValid() || ids.isRemote())
                        clear(virtual);
                else
                        set(virtual, ids.getTraceId(), ids.getSpanId());
                return true;
        }

        private static void clear(boolean virtual) {
                if (virtual)
                        Native.clearVirtual();
                else
                        Native.clear();
        }

        private static void set(boolean virtual, String trace, String span) {
                long high = number(trace, 0), low = number(trace, 16), id = number(span, 0);
                LocalRoot root = LocalRoot.of(span);
                long address = root == null ? 0 : root.address, number = root == null ? 0 : root.number;

                if (virtual)
                        Native.setVirtual(Thread.currentThread(), high, low, id, address, number);
                else
                        Native.set(high, low, id, address, number);
        }

        /** Sixteen hexadecimal digits; a valid SpanContext has no others. */
        private static long number(String text, int from) {
                long value = 0;

                for (int i = from; i < from + 16; i++)
                        value = value << 4 | DIGITS[text.charAt(i) & 127];
                return value;
        }

        private static byte[] digits() {
                byte[] digits = new byte[128];

                for (int i = 0; i < 16; i++)
                        digits[Character.forDigit(i, 16)] = (byte) i;
                return digits;
        }

        /** Thread.isVirtual(), which JDKs before 21 have not. */
        private static MethodHandle findIsVirtual() {
                try {
                        /* by the method: where there is none, no handle is begun, which costs memory */
                        return MethodHandles.publicLookup().unreflect(Thread.class.getMethod("isVirtual"));
                } catch (ReflectiveOperationException none) {
                        return null;
                }
        }

        /** What carriers are since JDK 21, or null. */
        private static Class<?> findCarrier() {
                try {
                        return Class.forName("jdk.internal.misc.CarrierThread", false, null);
                } catch (ClassNotFoundException none) {
                        return null;
                }
        }

        private static boolean isVirtual(Thread thread) {
                try {
                        return IS_VIRTUAL != null && (boolean) IS_VIRTUAL.invokeExact(thread);
                } catch (Throwable never) {
                        return true;
                }
        }
}
