/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/service/control/summary.h"
#include "stat-reset.h"

static cJSON *written(const Summary *summary) {
        char path[] = "/tmp/spanprof-test-summary-XXXXXX", *data;
        int fd = mkstemp(path);
        cJSON *json;
        size_t size;

        cr_assert_geq(fd, 0);
        close(fd);
        cr_assert_eq(summary_write(summary, path), 0);
        cr_assert_eq(file_read(path, 1 << 20, &data, &size), 0);
        unlink(path);
        json = cJSON_Parse(data);
        cr_assert_not_null(json, "%s", data);
        free(data);
        return json;
}

static double number(const cJSON *json, const char *name) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, name);

        cr_assert(cJSON_IsNumber(item), "%s", name);
        return item->valuedouble;
}

Test(summary, has_nothing_under_way_when_more_ended_than_was_sampled) {
        stat_reset();
        stat_add(COUNTER_TICKS, 10);
        stat_add(COUNTER_SAMPLES_DELIVERED, 6);
        stat_add(COUNTER_LOST_RING_FULL, 3);
        cr_expect_eq(stat_pending(), 1);
        stat_add(COUNTER_SAMPLES_DELIVERED, 1);
        cr_expect_eq(stat_pending(), 0);
        stat_add(COUNTER_LOST_SPOOL_AGE, 100);
        cr_expect_eq(stat_pending(), 0, "an earlier process sampled these");
}

Test(summary, writes_every_counter_once) {
        Summary summary = { .duration_ns = NS_PER_SEC, .frequency = 99, .n_cpus = 2 };
        cJSON *json, *counters;
        int n = 0;

        stat_reset();
        for (int i = 0; i < COUNTER_N; i++)
                stat_add((enum counter)i, (uint64_t)i + 1);
        json = written(&summary);
        counters = cJSON_GetObjectItemCaseSensitive(json, "counters");
        for (const cJSON *item = counters->child; item; item = item->next) {
                for (const cJSON *later = item->next; later; later = later->next)
                        cr_assert_str_neq(item->string, later->string, "a name twice");
                n += cJSON_IsObject(item) ? cJSON_GetArraySize(item) : 1;
        }
        cr_assert_eq(n, COUNTER_N);
        cr_assert_eq(number(cJSON_GetObjectItem(counters, "lost_total"), "ring_full"),
                     COUNTER_LOST_RING_FULL + 1);
        cr_assert_eq(number(cJSON_GetObjectItem(counters, "lost_total"), "stop"), COUNTER_LOST_STOP + 1);
        cr_assert_eq(number(counters, "ticks_total"), COUNTER_TICKS + 1);
        cJSON_Delete(json);
}

Test(summary, names_only_the_losses_that_happened) {
        Summary summary = { .n_cpus = 1 };
        const cJSON *losses;
        cJSON *json;

        stat_reset();
        stat_add(COUNTER_TICKS, 10);
        stat_add(COUNTER_SAMPLES_DELIVERED, 7);
        stat_add(COUNTER_LOST_STOP, 2);
        stat_add(COUNTER_LOST_RING_FULL, 1);
        json = written(&summary);
        losses = cJSON_GetObjectItemCaseSensitive(json, "lost_by_reason");
        cr_assert_eq(cJSON_GetArraySize(losses), 2);
        cr_assert_eq(number(losses, "stop"), 2);
        cr_assert_eq(number(losses, "ring_full"), 1);
        cr_assert_eq(number(json, "lost"), 3);
        cr_assert_eq(number(json, "ticks"), 10);
        cr_assert_eq(number(json, "delivered"), 7);
        cJSON_Delete(json);
}

/* 2 CPUs for 10 s at 100 Hz are 2,000 entries; 5 s of CPU time are 500 of them. */
/* A tick on a process that turned out not to be chosen is neither one of the targets' nor lost. */
Test(summary, counts_ticks_of_nobody_apart) {
        Summary summary = { .n_cpus = 1 };
        const cJSON *losses;
        cJSON *json;

        stat_reset();
        stat_add(COUNTER_TICKS, 15);
        stat_add(COUNTER_SAMPLES_DELIVERED, 9);
        stat_add(COUNTER_LOST_NOT_TARGET, 4);
        stat_add(COUNTER_LOST_STOP, 2);
        json = written(&summary);
        losses = cJSON_GetObjectItemCaseSensitive(json, "lost_by_reason");
        cr_expect_eq(number(json, "ticks"), 11);
        cr_expect_eq(number(json, "lost"), 2);
        cr_expect_eq(number(json, "not_target"), 4);
        cr_expect_eq(cJSON_GetArraySize(losses), 1);
        cr_expect_eq(number(losses, "stop"), 2);
        cJSON_Delete(json);
}

Test(summary, measures_coverage_against_the_programmed_rate) {
        Summary summary = { .duration_ns = 10 * NS_PER_SEC, .frequency = 99, .n_cpus = 2, .programmed = 2000,
                            .target_cpu_ns = 5 * NS_PER_SEC };

        stat_reset();
        stat_add(COUNTER_TICKS, 250);
        cr_assert_float_eq(summary_rate(&summary), 100.0, 1e-9);
        cr_assert_float_eq(summary_coverage(&summary), 0.5, 1e-9);
        summary.target_cpu_ns = 0;
        cr_assert_eq(summary_coverage(&summary), 0.0);
        summary.n_cpus = 0;
        cr_assert_eq(summary_rate(&summary), 0.0);
}

Test(summary, says_why_a_file_cannot_be_written) {
        Summary summary = { 0 };

        cr_assert_eq(summary_write(&summary, "/nonexistent/directory/file"), -ENOENT);
        cr_assert_eq(summary_check("/nonexistent/directory/file"), -ENOENT);
}

/* A limit on the size of files stands for the full disk. */
Test(summary, leaves_the_old_file_when_it_cannot_be_written) {
        char directory[] = "/tmp/spanprof-test-summary-XXXXXX", path[64], beside[80], *data;
        Summary summary = { 0 };
        size_t size;

        cr_assert_not_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/summary", directory);
        snprintf(beside, sizeof(beside), "%s.new", path);
        cr_assert_eq(summary_check(path), 0);
        cr_assert_neq(access(path, F_OK), 0, "a check leaves nothing behind");
        cr_assert_eq(summary_write(&summary, path), 0);
        signal(SIGXFSZ, SIG_IGN);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 10, 10 }), 0);
        cr_assert_eq(summary_write(&summary, path), -EFBIG);
        cr_assert_neq(access(beside, F_OK), 0, "nothing is left behind");
        cr_assert_eq(file_read(path, 1 << 20, &data, &size), 0);
        cr_assert_gt(size, 1000, "the old one is whole");
        free(data);
        unlink(path);
        rmdir(directory);
}
