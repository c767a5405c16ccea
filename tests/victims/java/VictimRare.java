/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Java that computes for long without a place that has debug information, and then calls `rare` in one of 16,384
 * turns. `rare` is inlined, and its call is the next described place in the code; test-run-hotspot.py.
 *
 * usage: java VictimRare       prints `ready` once it is warm, ends with its input
 */
public class VictimRare {
    static final int WARM = 400_000;
    static int sink;

    static void rare() {
        Thread.yield();
    }

    static int work(int n) {
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        n = n * 31 + (n >>> 7);
        if ((n & 0x3fff) == 7) {
            rare();
        }
        return n;
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0;; i++) {
            sink += work(i);
            if (i == WARM) {
                System.out.println("ready");
            }
            if ((i & 0xfffff) == 0 && System.in.available() > 0) {
                return;
            }
        }
    }
}
