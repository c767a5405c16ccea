/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/sweep.h"
#include "stat-reset.h"

typedef struct Seen {
        unsigned n, n_self;
        int answer;
} Seen;

static int look(void *userdata, uint32_t pid) {
        Seen *seen = userdata;

        seen->n++;
        seen->n_self += pid == (uint32_t)getpid();
        return seen->answer;
}

static unsigned count_processes(void) {
        DIR *dir = opendir("/proc");
        struct dirent *entry;
        unsigned n = 0;

        while ((entry = readdir(dir)))
                n += atoi(entry->d_name) > 0;
        closedir(dir);
        return n;
}

/* Lets it work until a pass is over. Return: the time of the last step. */
static uint64_t finish_pass(Sweep *sweep, Seen *seen, uint64_t now_ns) {
        uint64_t next_ns = now_ns;

        for (unsigned i = 0; i < 10000 && (!i || sweep->dir); i++) {
                now_ns = next_ns;
                cr_assert_eq(sweep_work(sweep, now_ns, look, seen, &next_ns), 0);
                cr_assert_gt(next_ns, now_ns);
        }
        cr_assert_null(sweep->dir);
        return now_ns;
}

Test(sweep, looks_at_few_processes_each_half_minute) {
        uint64_t now_ns = NS_PER_SEC, next_ns;
        Seen seen = { 0 };
        Sweep sweep = { 0 };

        cr_assert_eq(sweep_work(&sweep, now_ns, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0, "the pass at the start has just been");
        cr_assert_eq(next_ns, now_ns + 30 * NS_PER_SEC);
        cr_assert_eq(sweep_work(&sweep, next_ns - 1, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0);
        cr_assert_eq(sweep_work(&sweep, next_ns, look, &seen, &next_ns), 0);
        cr_assert_leq(seen.n, 16);
        cr_assert_gt(seen.n, 0);
        sweep_deinit(&sweep);
}

Test(sweep, goes_over_all_processes_at_once_when_notices_were_lost) {
        uint64_t now_ns = NS_PER_SEC, next_ns;
        unsigned n = count_processes();
        Seen seen = { 0 };
        Sweep sweep = { 0 };

        stat_reset();
        sweep_resync(&sweep);
        cr_assert_eq(stat_get(COUNTER_SWEEP_RESYNCS), 1);
        now_ns = finish_pass(&sweep, &seen, now_ns);
        cr_assert_eq(seen.n_self, 1);
        cr_assert_geq(seen.n, n / 2, "others come and go meanwhile");

        /* It rests before the next one, however soon that is asked for. */
        seen = (Seen){ 0 };
        sweep_resync(&sweep);
        cr_assert_eq(sweep_work(&sweep, now_ns + 1, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0);
        cr_assert_geq(next_ns, now_ns + NS_PER_SEC);
        finish_pass(&sweep, &seen, next_ns);
        cr_assert_eq(seen.n_self, 1);
        sweep_deinit(&sweep);
}

Test(sweep, passes_up_what_a_look_says) {
        Seen seen = { .answer = -12 };
        Sweep sweep = { 0 };
        uint64_t next_ns;

        sweep_resync(&sweep);
        cr_assert_eq(sweep_work(&sweep, NS_PER_SEC, look, &seen, &next_ns), -12);
        cr_assert_eq(seen.n, 1);
        sweep_deinit(&sweep);
}
