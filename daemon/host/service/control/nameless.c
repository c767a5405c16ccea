/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adds up the counters of samples without a name, and puts each reason into words, with a command that says
 * more.
 */

#include "host/service/control/nameless.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

static const struct {
        enum counter counter;
        /* @fix: NULL = there is none: counts are sound, and names that were never there cannot be had */
        const char *text, *fix;
} reasons[] = {
        { COUNTER_NAMELESS_READER, "their runtime was not read yet",
          "spanprof status | grep -A9 ^runtimes   # who is not walked, and why; starts pass, a machine without idle time stays so" },
        { COUNTER_NAMELESS_RUNTIME, "this release of their runtime is not read",
          "spanprof status | grep -A9 ^runtimes   # which one it is; RUNTIMES.md says how a program writes a perf map" },
        { COUNTER_NAMELESS_UNLOADED, "their runtime had dropped the function", NULL },
        { COUNTER_NAMELESS_CODE, "code made at run time that no file names",
          "ls -l /tmp/perf-*.map   # node --perf-basic-prof, DOTNET_PerfMapEnabled=1 … write one (OPERATING.md)" },
        { COUNTER_NAMELESS_FILE, "their file could not be read",
          "spanprof targets --verbose   # on FUSE or a network filesystem: remote-files = on" },
        { COUNTER_NAMELESS_UNMAPPED, "outside of all that is mapped", NULL },
        { COUNTER_NAMELESS_GONE, "their process had ended before it was looked at", NULL },
        { COUNTER_NAMELESS_LATE, "symbols of their file were not read yet",
          "spanprof status | grep ^names   # how many wait; starts pass, a machine without idle time stays so" },
        { COUNTER_NAMELESS_STRIPPED, "their file has no symbols there",
          "spanprof config show | grep debuginfod   # on: servers have debug files; or install -dbgsym packages" },
        { COUNTER_NAMELESS_UNREAD, "their symbols could not be read",
          "spanprof status --json | grep nameless   # names_total of /metrics says why: another build, too large, failed" },
        { COUNTER_NAMELESS_NO_ROOM, "a cap was met",
          "journalctl -u spanprof | grep 'more than its share'   # who fills it; CAPS.md has each cap" },
};

Nameless nameless_count(void) {
        Nameless nameless = { 0 };

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                nameless.n += stat_get(reasons[i].counter);
        for (enum counter counter = 0; counter < COUNTER_N; counter++)
                if (!strcmp(stat_metric(counter), "stacks_total") && counter != COUNTER_STACKS_NO_USER)
                        nameless.n_samples += stat_get(counter);
        return nameless;
}

double nameless_ratio(const Nameless *nameless) {
        return nameless->n_samples ? MIN((double)nameless->n / (double)nameless->n_samples, 1.0) : 0;
}

/* Whether reason @a comes before @b. */
static bool goes_before(size_t a, size_t b) {
        uint64_t n_a = stat_get(reasons[a].counter), n_b = stat_get(reasons[b].counter);

        return n_a > n_b || (n_a == n_b && a < b);
}

void nameless_append_reasons(Text *text) {
        const Nameless nameless = nameless_count();

        for (size_t place = 0; place < ARRAY_SIZE(reasons); place++)
                for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                        uint64_t n = stat_get(reasons[i].counter);
                        size_t n_before = 0;

                        for (size_t j = 0; j < ARRAY_SIZE(reasons); j++)
                                n_before += goes_before(j, i);
                        if (n && n_before == place)
                                text_printf(text, "%s %.1f %% %s", place ? "," : "",
                                            100.0 * (double)n / (double)MAX(nameless.n_samples, UINT64_C(1)),
                                            reasons[i].text);
                }
}

const char *nameless_fix_in(const char *line) {
        const char *first = NULL, *fix = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                const char *at = strstr(line, reasons[i].text);

                if (at && reasons[i].fix && (!first || at < first)) {
                        first = at;
                        fix = reasons[i].fix;
                }
        }
        return fix;
}

/* The number in `6.0 % REASON`, of which @at is the reason. */
static double percent_before(const char *line, const char *at) {
        while (at > line && strchr(" %", at[-1]))
                at--;
        while (at > line && strchr("0123456789.", at[-1]))
                at--;
        return strtod(at, NULL);
}

double nameless_curable_in(const char *line) {
        double percent = strtod(line, NULL);

        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
                const char *at = reasons[i].fix ? NULL : strstr(line, reasons[i].text);

                percent -= at ? percent_before(line, at) : 0;
        }
        return MAX(percent, 0.0);
}
