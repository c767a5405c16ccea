/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks again and again until the time is over or the process has ended. A look stops each thread for a
 * moment, one after the other; the pause behind it is at least as long as it took.
 */
#include "host/cli/contexts-check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"
#include "host/coro/region-check.h"
#include "host/runtime/go/label-check.h"
#include "host/sampling/context/writer-check.h"

enum {
        USUAL_SECONDS = 3,
        PAUSE_MS = 20,                  /* between two looks, at least */
};

/* All that is looked at again and again. */
typedef struct Checks {
        WriterCheck *writer;
        RegionCheck *regions;
        LabelCheck *labels;
} Checks;

static int checks_init(Checks *checks, Process *process, ObjectCache *objects) {
        WriterRules *rules;
        int r = writer_check_new(&checks->writer, process, objects);

        if (r)
                return r;
        rules = writer_check_rules(checks->writer);
        r = region_check_new(&checks->regions, (pid_t)process->pid, rules);
        return r ? r : label_check_new(&checks->labels, process, rules);
}

static void checks_deinit(Checks *checks) {
        label_check_free(checks->labels);
        region_check_free(checks->regions);
        writer_check_free(checks->writer);
}

static int look(Checks *checks) {
        int r = writer_check_look(checks->writer);

        if (!r)
                r = region_check_look(checks->regions);
        return r ? r : label_check_look(checks->labels);
}

static void pause_ns(uint64_t ns) {
        struct timespec time = { .tv_sec = (time_t)(ns / NS_PER_SEC), .tv_nsec = (long)(ns % NS_PER_SEC) };

        nanosleep(&time, NULL);
}

/* Return: as look(); a process that ends after the first look ends the others alone. */
static int look_for(Checks *checks, uint64_t duration_ns, uint64_t *np) {
        uint64_t begin_ns = clock_read_ns(CLOCK_MONOTONIC), now_ns = begin_ns, look_ns;
        int r = 0;

        for (*np = 0; !r && (!*np || now_ns - begin_ns < duration_ns); ++*np) {
                look_ns = now_ns;
                r = look(checks);
                now_ns = clock_read_ns(CLOCK_MONOTONIC);
                pause_ns(MIN(MAX(PAUSE_MS * NS_PER_MS, now_ns - look_ns), duration_ns));
                now_ns = clock_read_ns(CLOCK_MONOTONIC);
        }
        return *np > 1 && r > 0 ? 0 : r;
}

static void print(const Process *process, const WriterRules *rules, uint64_t n_looks, size_t counts[]) {
        static const char *const words[] = { [WRITER_NOT_SEEN] = "not seen", [WRITER_OK] = "ok" };

        printf("pid %" PRIu32 " (", process->pid);
        text_print(process->comm, strlen(process->comm), stdout);
        printf("), %" PRIu64 " looks\n", n_looks);
        for (WriterRule i = 0; i < WRITER_RULES_N; i++) {
                counts[rules->states[i]]++;
                if (rules->states[i] == WRITER_VIOLATED)
                        printf("%-20s violated: %s. Rule: %s\n", writer_rule_name(i), rules->sentences[i],
                               writer_rule_text(i));
                else
                        printf("%-20s %s\n", writer_rule_name(i), words[rules->states[i]]);
        }
        printf("%zu rules ok, %zu violated, %zu not seen\n", counts[WRITER_OK], counts[WRITER_VIOLATED],
               counts[WRITER_NOT_SEEN]);
}

int contexts_check(Process *process, ObjectCache *objects, uint64_t duration_ns, bool *is_seenp,
                   bool *is_heldp) {
        size_t counts[WRITER_VIOLATED + 1] = { 0 };
        Checks checks = { 0 };
        uint64_t n_looks;
        int r = checks_init(&checks, process, objects);

        if (!r)
                r = look_for(&checks, duration_ns ? duration_ns : USUAL_SECONDS * NS_PER_SEC, &n_looks);
        if (!r) {
                writer_check_finish(checks.writer);
                r = region_check_finish(checks.regions);
        }
        if (!r)
                print(process, writer_check_rules(checks.writer), n_looks, counts);
        checks_deinit(&checks);
        *is_seenp = counts[WRITER_OK] || counts[WRITER_VIOLATED];
        *is_heldp = counts[WRITER_OK] && !counts[WRITER_VIOLATED];
        return r;
}
