/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Virtual threads that leave their carrier and come back, again and again, 21 calls deep. One kind computes in the
 * innermost call (`deep`), before and after it sleeps. The other sleeps there and computes in each call as that one
 * returns (`up`), so that its frames come back from the heap one after the other. By reflection, as VictimVirtual.java.
 * It prints `ready` once it is warm, and ends with its standard input.
 */
public class VictimMount {
    static final int DEPTH = 20;
    static volatile long sink;
    static volatile int rounds;

    static void burn(long nanos) {
        long end = System.nanoTime() + nanos;

        while (System.nanoTime() < end) {
            sink++;
        }
    }

    static int deep(int depth) throws Exception {
        if (depth == 0) {
            for (int i = 0; i < 20; i++) {
                burn(1_000_000);
                Thread.sleep(2);
                burn(1_000_000);
            }
            return 1;
        }
        int below = deep(depth - 1);

        sink++;
        return below + 1;
    }

    static int up(int depth) throws Exception {
        if (depth == 0) {
            Thread.sleep(2);
            return 1;
        }
        int below = up(depth - 1);

        burn(200_000);
        return below + 1;
    }

    static void runDeep() {
        try {
            while (deep(DEPTH) > 0) {
                rounds++;
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    static void runUp() {
        try {
            while (up(DEPTH) > 0) {
                rounds++;
            }
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    public static void main(String[] args) throws Exception {
        for (int i = 0; i < 3; i++) {
            for (Runnable runnable : new Runnable[] { VictimMount::runDeep, VictimMount::runUp }) {
                Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, runnable);
            }
        }
        while (rounds < 30) {
            Thread.sleep(10);
        }
        System.out.println("ready");
        System.out.flush();
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
