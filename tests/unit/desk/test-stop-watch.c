/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include "desk/live/stop-watch.h"

typedef struct Heard {
        sem_t any;
        StopWish wish;
        int number;
} Heard;

static void hear(void *userdata, StopWish wish, int number) {
        Heard *heard = userdata;

        heard->wish = wish;
        heard->number = number;
        sem_post(&heard->any);
}

static bool is_pending(int number) {
        sigset_t pending;

        sigpending(&pending);
        return sigismember(&pending, number) == 1;
}

static void block(void) {
        sigset_t set;

        stop_signals_fill(&set);
        sigprocmask(SIG_BLOCK, &set, NULL);
}

Test(stop_watch, hears_signals_until_it_is_freed_and_none_after) {
        StopSignals signals = { 0 };
        StopWatch *watch = NULL;
        Heard heard;

        block();
        sem_init(&heard.any, 0, 0);
        cr_assert_eq(stop_watch_new(&watch, &signals, hear, &heard), 0);
        kill(getpid(), SIGINT);
        sem_wait(&heard.any);
        cr_assert_eq(heard.wish, STOP_WISH_FIRST);
        cr_assert_eq(heard.number, SIGINT);
        watch = stop_watch_free(watch);
        cr_assert_eq(signals.number, SIGINT);
        kill(getpid(), SIGTERM);
        cr_assert(is_pending(SIGTERM), "it is the next one's who looks");
}

Test(stop_watch, goes_on_from_what_was_taken_before) {
        StopSignals signals = { .number = SIGTERM };    /* when the clock began: long ago */
        StopWatch *watch = NULL;
        Heard heard;

        block();
        sem_init(&heard.any, 0, 0);
        kill(getpid(), SIGHUP);                         /* before there is anybody */
        cr_assert_eq(stop_watch_new(&watch, &signals, hear, &heard), 0);
        sem_wait(&heard.any);
        watch = stop_watch_free(watch);
        cr_assert_eq(heard.wish, STOP_WISH_IMPATIENT);
        cr_assert_eq(heard.number, SIGHUP);
        cr_assert_eq(signals.number, SIGTERM);
}
