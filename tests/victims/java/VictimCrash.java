/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Calls crashHere() below serve(), which writes to memory that it has, until a line comes on standard input. Then it
 * writes to address 0x1234, in span 1234 of trace (4711, 4712): the JVM reports a SIGSEGV, and aborts.
 */
import java.lang.reflect.Field;
import spanprof.ThreadContext;
import sun.misc.Unsafe;

public class VictimCrash {
    static final ThreadContext CONTEXT = ThreadContext.current();
    static volatile boolean hasOrder;
    static volatile int sink;
    static Unsafe unsafe;

    static void crashHere(long address) {
        unsafe.putInt(address, 1);
        sink++;
    }

    static void serve() {
        long address = unsafe.allocateMemory(4);

        for (;;) {
            if (hasOrder) {
                CONTEXT.put(4711, 4712, 1234);
                address = 0x1234;
            }
            crashHere(address);
            sink++;
        }
    }

    public static void main(String[] arguments) throws Exception {
        Field field = Unsafe.class.getDeclaredField("theUnsafe");

        field.setAccessible(true);
        unsafe = (Unsafe) field.get(null);
        if (!ThreadContext.initialize("ctxstorage=otel") || !ThreadContext.isOtelMode()) {
            throw new IllegalStateException("contexts cannot be published");
        }
        Thread reader = new Thread(() -> {
            try {
                System.in.read();
            } catch (java.io.IOException e) {
                sink++;
            }
            hasOrder = true;
        });
        reader.setDaemon(true);
        reader.start();
        System.out.println("ready");
        serve();
    }
}
