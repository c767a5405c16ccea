/* SPDX-License-Identifier: Apache-2.0 */

/*
 * local-busy: functions of one file that call each other, main → local_top → local_middle → local_hot, until
 * it is killed. Built by test-scan.py without call frame information, and stripped.
 */
static volatile int sink;

__attribute__((noinline)) static void local_hot(int x) {
        for (int i = 0; i < 100000; i++)
                sink += i * x;
}

__attribute__((noinline)) static int local_middle(int x) {
        volatile char room[100];

        room[x & 63] = (char)x;
        for (int i = 0; i < 100; i++)
                local_hot(i);
        return room[x & 63];
}

__attribute__((noinline)) static int local_top(int x) {
        return local_middle(x + 1) + 1;
}

int main(void) {
        for (;;)
                sink += local_top(sink);
}
