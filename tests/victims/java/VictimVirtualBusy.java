/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A virtual thread that burns CPU time 21 calls deep, and never leaves its carrier. By reflection, as
 * VictimVirtual.java. It prints `ready`, and ends with its standard input.
 */
public class VictimVirtualBusy {
    static volatile long sink;

    static void burn() {
        long end = System.nanoTime() + 10_000_000;

        while (System.nanoTime() < end) {
            sink++;
        }
    }

    static void deep(int depth) {
        while (depth == 0) {
            burn();
        }
        deep(depth - 1);
        sink++;
    }

    static void run() {
        deep(20);
    }

    public static void main(String[] args) throws Exception {
        Thread.class.getMethod("startVirtualThread", Runnable.class)
            .invoke(null, (Runnable) VictimVirtualBusy::run);
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
