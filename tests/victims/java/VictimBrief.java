// SPDX-License-Identifier: Apache-2.0
// A program that is over after some seconds of CPU time: the same work each time, in one chain of calls.
//
// usage: java VictimBrief        some 3 s
public class VictimBrief {
    static final int ROUNDS = 20000;

    static int burn(int n) {
        int total = n;
        for (int i = 0; i < 200000; i++)
            total = (total * 31 + i) & 0xffff;
        return total;
    }

    static int step(int n) {
        return burn(n) + 1;
    }

    static int deep(int depth, int n) {
        return depth == 0 ? step(n) : deep(depth - 1, n) + 1;
    }

    public static void main(String[] arguments) {
        int total = 0;
        for (int i = 0; i < ROUNDS; i++)
            total += deep(10, total);
        System.out.println(total);
    }
}
