/* SPDX-License-Identifier: Apache-2.0 */

/*
 * musl-busy [WORDS [thread]]: spends its time in musl, which has no call frame information, and in callbacks
 * from it, until SIGTERM; with few WORDS its rounds are short. Built by test-scan.py with musl-gcc. Which of
 * its own functions calls which of musl's is all that it does:
 *
 *     main ─▶ do_sort ─▶ qsort ─▶ compare_words
 *          ─▶ do_print ─▶ snprintf
 *          ─▶ do_allocate ─▶ malloc, free
 *
 * With `thread`, a thread does it: in_thread() has no caller but musl's start of threads.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_WORDS = 2048, N_BLOCKS = 64, MAX_TEXT = 200 };

static volatile sig_atomic_t is_over;
static volatile long sink;
static long words[N_WORDS];
static int n_words = N_WORDS, n_blocks = N_BLOCKS;

static void end(int signal) {
        (void)signal;
        is_over = 1;
}

static int compare_words(const void *a, const void *b) {
        long x = *(const long *)a, y = *(const long *)b;

        sink += x ^ y;
        return x < y ? -1 : x > y;
}

__attribute__((noinline)) static void do_sort(void) {
        for (int i = 0; i < n_words; i++)
                words[i] = i * 7919L % 4099;
        qsort(words, (size_t)n_words, sizeof(*words), compare_words);
        sink += words[1];
}

__attribute__((noinline)) static void do_print(void) {
        char text[MAX_TEXT];

        for (int i = 0; i < n_words; i++) {
                snprintf(text, sizeof(text), "%d %s %g %lx", i, "hello", i * 1.5, i * 77L);
                sink += text[3];
        }
}

__attribute__((noinline)) static void do_allocate(void) {
        void *blocks[N_BLOCKS];

        for (int k = 0; k < n_blocks; k++) {
                for (int i = 0; i < n_blocks; i++)
                        blocks[i] = malloc(16 + 37 * (size_t)i);
                for (int i = 0; i < n_blocks; i++)
                        free(blocks[i]);
        }
}

static void *in_thread(void *unused) {
        while (!is_over) {
                do_sort();
                do_print();
                do_allocate();
        }
        return unused;
}

int main(int argc, char **argv) {
        int n = argc > 1 ? atoi(argv[1]) : 0;

        if (n > 0 && n < N_WORDS) {
                n_words = n;
                n_blocks = n < N_BLOCKS ? n : N_BLOCKS;
        }
        signal(SIGTERM, end);
        printf("pid %d\n", (int)getpid());
        fflush(stdout);
        if (argc > 2 && !strcmp(argv[2], "thread")) {
                pthread_t thread;

                return pthread_create(&thread, NULL, in_thread, NULL) || pthread_join(thread, NULL);
        }
        while (!is_over) {
                do_sort();
                do_print();
                do_allocate();
        }
        return 0;
}
