/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A virtual thread that reads its standard input, 21 calls deep: a read by native code keeps it on its carrier.
 * It prints `ready` when it reads. By reflection, so that releases without virtual threads can compile it.
 */
public class VictimVirtual {
    static int reader(int depth) throws Exception {
        return depth == 0 ? System.in.read() : reader(depth - 1);
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
        Thread thread = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
            .invoke(null, (Runnable) VictimVirtual::run);

        while (!reads()) {
            Thread.sleep(10);
        }
        Thread.sleep(500);
        System.out.println("ready");
        System.out.flush();
        thread.join();
    }
}
