/* SPDX-License-Identifier: Apache-2.0 */

/*
 * narrow-busy: code of 32 bits, without a library. Works in narrow_hot(), called by narrow_middle(), called
 * by narrow_outer(), until it is killed. Built by test-run-programs.py with gcc -m32; with -DBARE
 * narrow_middle() keeps no frame pointer where the others do.
 */
#ifdef BARE
#define MIDDLE __attribute__((noinline, optimize("omit-frame-pointer")))
#else
#define MIDDLE __attribute__((noinline))
#endif

static volatile unsigned int sink;

void _start(void);
void narrow_hot(void);
void narrow_middle(void);
void narrow_outer(void);

__attribute__((noinline)) void narrow_hot(void) {
        volatile unsigned int sum = 0;  /* a local variable: gcc makes no frame for a leaf without one */

        for (unsigned int i = 0; i < 1000000; i++)
                sum += i;
        sink += sum;
}

MIDDLE void narrow_middle(void) {
        narrow_hot();
        sink++;
}

__attribute__((noinline)) void narrow_outer(void) {
        for (;;)
                narrow_middle();
}

void _start(void) {
        narrow_outer();
}
