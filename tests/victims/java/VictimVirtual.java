/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A virtual thread that reads its standard input, 21 calls deep: a read by native code keeps it on its
 * carrier. With a number of milliseconds it sleeps so long before, off its carrier. It prints `ready` when it
 * reads. By reflection, so that releases without virtual threads can compile it.
 */
public class VictimVirtual {
    static long millis;

    static int reader(int depth) throws Exception {
        if (depth == 0) {
            if (millis > 0) {
                Thread.sleep(millis);
            }
            return System.in.read();
        }
        return reader(depth - 1);
    }

    static void run() {
        try {
            reader(20);
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    static boolean reads() {
        for (StackTraceElement[] stack : Thread.getAllStackTraces().values()) {
            for (StackTraceElement frame : stack) {
                if (frame.getMethodName().equals("runContinuation")) {
                    return true;
                }
            }
        }
        return false;
    }

    public static void main(String[] args) throws Exception {
        millis = args.length > 0 ? Long.parseLong(args[0]) : 0;
        Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
            .invoke(null, (Runnable) VictimVirtual::run);

        while (!reads()) {
            Thread.sleep(10);
        }
        Thread.sleep(500 + millis);
        System.out.println("ready");
        System.out.flush();
        thread.join();
    }
}
