/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes unwind tables in steps, while nothing else is due. Before the first sample they have a moment to
 * come.
 */

#include "host/service/run/stages.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/row-cache.h"
#include "host/service/run/daemon-flow.h"

#define TABLES_FIRST_NS (500 * NS_PER_MS)
#define TABLES_POLL_MS 20
#define TABLES_STEP_BYTES 200000                /* bytes of files, about 1 ms */

enum {
        IDLE_BYTES = 64 << 20,          /* at a desk: tables of programs that are gone, … */
        IDLE_WAITING = 1024,            /* … and files, for samples that wait */
};

int daemon_step_tables(Daemon *daemon) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = tables_step(daemon->stages.tables, TABLES_STEP_BYTES);

        stat_add(COUNTER_STAGE_TABLES_NS, clock_monotonic_ns() - begin_ns);

        if (r < 0)
                return error_fold(r);
        r = sd_event_source_set_enabled(daemon->loop.tables_work,
                                        r == TABLES_E_AGAIN ? SD_EVENT_ON : SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : deferred_work_if_changed(daemon->walks.deferred);
}

static bool is_prepared(const Daemon *daemon) {
        return tables_are_ready(daemon->stages.tables) &&
                (!daemon->stages.threads || !thread_reader_is_busy(daemon->stages.threads));
}

/* Before the first sample, the tables of all targets are made, as far as this time allows. */
int daemon_prepare_tables(Daemon *daemon) {
        DaemonStages *stages = &daemon->stages;
        uint64_t deadline_ns = clock_monotonic_ns() + TABLES_FIRST_NS;

        while (!is_prepared(daemon) && clock_monotonic_ns() < deadline_ns) {
                int threads = stages->threads ? thread_reader_fd(stages->threads) : -1;
                struct pollfd fds[] = { { .fd = tables_fd(stages->tables), .events = POLLIN },
                                        { .fd = threads, .events = POLLIN } };
                int r = daemon_step_threads(daemon);

                if (!r)
                        r = tables_step(stages->tables, TABLES_STEP_BYTES);
                if (r < 0)
                        return error_fold(r);
                if (r != TABLES_E_AGAIN && !is_prepared(daemon))
                        poll(fds, ARRAY_SIZE(fds), TABLES_POLL_MS);
        }
        return 0;
}

static int on_tables_work(sd_event_source *source, void *userdata) {
        return daemon_step_tables(userdata);
}

static int on_tables_ready(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        return daemon_step_tables(userdata);
}

/* Return: 0, also without one; -ENOMEM. */
static int open_cache(Daemon *daemon) {
        const char *path = daemon->sink ? "" : daemon->config->spool.directory;
        DaemonTotals *totals = daemon->totals;
        int r;

        if (totals->rows && !strcmp(totals->rows_path, path))
                return 0;
        totals->rows = row_cache_free(totals->rows);
        free(totals->rows_path);
        totals->rows_path = NULL;
        if (!*path || !totals->zygotes)
                return 0;
        totals->rows_path = strdup(path);
        r = totals->rows_path ? row_cache_new(&totals->rows, path) : error_origin(-ENOMEM);
        if (r && r != -ENOMEM)
                log_notice("unwind rows are not kept for the next start: %s",
                           r == ROW_CACHE_E_LOCKED ? "another spanprof has the directory"
                                                   : strerror(r < 0 ? -r : errno));
        return r == -ENOMEM ? r : 0;
}

/* Table jobs have the lowest priority: samples, windows and the exporter go first. */
static int make(Daemon *daemon) {
        uint64_t spare = group_limit_spare(&daemon->limits.group);
        TablesConfig tables = {
                .array_fd = sampler_row_tables_fd(daemon->stages.sampler),
                .nodes_fd = sampler_row_nodes_fd(daemon->stages.sampler),
                .versionp = sampler_rows_version(daemon->stages.sampler),
                .max_bytes = spare == UINT64_MAX ? 0 : MIN(spare / 3, (uint64_t)TABLES_MAX_BYTES),
                .zygotes = daemon->totals->zygotes,
                .max_idle_bytes = daemon->sink ? IDLE_BYTES : 0,
                .max_idle_waiting = daemon->sink ? IDLE_WAITING : 0,
        };
        int r = open_cache(daemon);

        tables.cache = daemon->totals->rows;
        if (!r)
                r = tables_new(&daemon->stages.tables, &tables);
        if (r)
                return error_fold(r);
        r = sd_event_add_defer(daemon->loop.event, &daemon->loop.tables_work, on_tables_work, daemon);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->loop.tables_work, SD_EVENT_OFF);
        if (r >= 0)
                r = sd_event_source_set_priority(daemon->loop.tables_work, SD_EVENT_PRIORITY_IDLE);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.tables_work, true);
        if (r >= 0)
                r = sd_event_add_io(daemon->loop.event, &daemon->loop.tables_ready,
                                    tables_fd(daemon->stages.tables), EPOLLIN, on_tables_ready, daemon);
        if (r >= 0)
                r = sd_event_source_set_exit_on_failure(daemon->loop.tables_ready, true);
        return r < 0 ? error_origin(r) : 0;
}

void daemon_tables_progress(const Daemon *daemon, uint32_t *n_madep, uint32_t *np) {
        tables_progress(daemon->stages.tables, n_madep, np);
}

static void describe(Daemon *daemon, Metrics *metrics) {
        metrics->map_bytes += tables_bytes(daemon->stages.tables);
}

static void release(Daemon *daemon) {
        sd_event_source_disable_unref(daemon->loop.tables_work);
        sd_event_source_disable_unref(daemon->loop.tables_ready);
        tables_free(daemon->stages.tables);
}

/* daemon_step_tables: a disk that hangs with rows of a former daemon wakes nobody. */
const Stage stage_tables = { .name = "unwind tables", .make = make, .second = daemon_step_tables,
                             .describe = describe, .release = release };
