/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From stage to stage: what comes out of one goes into the next, and each thing that ends
 * on the way is counted here or by the stage that ended it.
 */

#include <poll.h>
#include <string.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/log.h"
#include "base/util/stat.h"
#include "formats/otlp/encode.h"
#include "formats/otlp/validate.h"
#include "sampling/sample/decode.h"
#include "service/run/daemon-private.h"

#define TABLES_FIRST_NS (500 * NS_PER_MS)
#define TABLES_POLL_MS 20
#define TABLES_STEP_BYTES 200000                /* of files, about 1 ms */
#define FINDINGS_LOGGED 10                      /* of one request, with `validate = on` */

/* ---- from the kernel half ---- */

/* Before the sample's attributes are made: which coroutine ran is one of them. */
static int join_coroutine(Daemon *daemon, const Process *process, Sample *sample) {
        const struct abi_sample *header = sample->header;
        CoroMatch match;
        int r;

        if (header->kind != ABI_KIND_CPU)
                return 0;
        r = coro_join_find(daemon->coroutines, process->pid, process->generation, header->ns_tid,
                           header->time_ns, &match);
        if (!r)
                sample->coroutine = (SampleCoroutine){ match.probe_id, match.birth_ns, match.station, true };
        return r < 0 ? error_fold(r) : 0;
}

int daemon_scan_coroutines(Daemon *daemon) {
        uint64_t wait_ns;
        int r = coro_join_scan(daemon->coroutines, &wait_ns);

        if (r || !daemon->coroutines_timer)
                return error_fold(r);
        r = sd_event_source_set_time_relative(daemon->coroutines_timer, MIN(wait_ns, NS_PER_SEC) / NS_PER_US);
        if (r >= 0)
                r = sd_event_source_set_enabled(daemon->coroutines_timer,
                                                wait_ns == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_on_sample(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        Program program;
        Sample sample;
        int r;

        if (decode_sample(data, size, &sample)) {
                stat_add(COUNTER_LOST_MALFORMED, 1);
                return 0;
        }
        if (!daemon->totals->first_sample_ns)
                daemon->totals->first_sample_ns = clock_monotonic_ns();
        r = targets_admit(daemon->targets, sample.header, &program);
        if (r > 0) {
                stat_add(COUNTER_LOST_NOT_TARGET, 1);
                return 0;
        }
        if (r)
                return error_fold(r);
        if (sample.header->context == ABI_CONTEXT_UNPUBLISHED)
                publication_count_early(program.publication, sample.header->time_ns);
        r = join_coroutine(daemon, program.process, &sample);
        return r ? r : aggregator_add(daemon->aggregator, &program, &sample);
}

int daemon_on_notice(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        const struct abi_notice *notice;
        int r;

        if (decode_notice(data, size, &notice)) {
                stat_add(COUNTER_NOTICES_MALFORMED, 1);
                return 0;
        }
        r = targets_notice(daemon->targets, notice);
        if (r || notice->kind != ABI_NOTICE_MAPPINGS || !daemon->work_timer)    /* none once we stop */
                return r;
        /* The search is due now, not at the next pass. */
        r = sd_event_source_set_time_relative(daemon->work_timer, 0);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_on_mapping(void *userdata, const SidebandRecord *record) {
        Daemon *daemon = userdata;

        switch (record->kind) {
        case SIDEBAND_MAPPING:
                return targets_mapping(daemon->targets, &record->mapping);
        case SIDEBAND_EXEC:
                return targets_exec_begins(daemon->targets, record->pid, record->comm, record->time_ns);
        case SIDEBAND_FORK:
                return targets_fork(daemon->targets, record->pid, record->parent, record->time_ns);
        default:
                targets_resync(daemon->targets);
                return 0;
        }
}

int daemon_on_mappings_end(void *userdata) {
        Daemon *daemon = userdata;

        return targets_flush_mappings(daemon->targets);
}

int daemon_set_row(void *userdata, uint32_t tgid, const struct abi_process *row) {
        Daemon *daemon = userdata;

        return sampler_set_process(daemon->sampler, tgid, row);
}

int daemon_adopt(void *userdata, const struct abi_adoption *adoption) {
        Daemon *daemon = userdata;

        return sampler_adopt(daemon->sampler, adoption);
}

int daemon_remove_row(void *userdata, uint32_t tgid) {
        Daemon *daemon = userdata;
        int r;

        tables_forget(daemon->tables, tgid);
        r = coro_join_forget(daemon->coroutines, tgid, targets_end_ns(daemon->targets, tgid));
        return r ? error_fold(r) : sampler_remove_process(daemon->sampler, tgid);
}

int daemon_on_stations(void *userdata, const Process *process) {
        Daemon *daemon = userdata;
        int r = coro_join_watch(daemon->coroutines, process->pid, process->generation);

        return r ? error_fold(r) : daemon_scan_coroutines(daemon);
}

int daemon_on_suspended(void *userdata, const CoroSuspended *suspended) {
        SampleCoroutine coroutine = { suspended->coroutine.probe_id, suspended->coroutine.birth_ns,
                                      suspended->coroutine.station, suspended->known };
        Daemon *daemon = userdata;
        Program program;
        int r = targets_program(daemon->targets, suspended->pid, suspended->generation, &program);

        if (!r)
                r = aggregator_add_suspended(daemon->aggregator, &program, &coroutine, suspended->address,
                                             suspended->value_ns, suspended->time_ns);
        stat_add(COUNTER_CORO_SUSPENSIONS_LOST, r > 0);
        return r < 0 ? error_fold(r) : 0;
}

/* ---- unwind tables: made in steps, while nothing else is due ---- */

int daemon_on_mapped(void *userdata, const Process *process) {
        Daemon *daemon = userdata;
        int r = tables_process(daemon->tables, process);

        if (r)
                return error_fold(r);
        r = sd_event_source_set_enabled(daemon->tables_work, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_step_tables(Daemon *daemon) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = tables_step(daemon->tables, TABLES_STEP_BYTES);

        stat_add(COUNTER_STAGE_TABLES_NS, clock_monotonic_ns() - begin_ns);

        if (r < 0)
                return error_fold(r);
        r = sd_event_source_set_enabled(daemon->tables_work,
                                        r == TABLES_E_AGAIN ? SD_EVENT_ON : SD_EVENT_OFF);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_step_threads(Daemon *daemon) {
        if (!daemon->threads || !thread_reader_step(daemon->threads))
                return 0;
        return error_fold(targets_resolve_waiting(daemon->targets));
}

static bool is_prepared(const Daemon *daemon) {
        return tables_are_ready(daemon->tables) &&
                (!daemon->threads || !thread_reader_is_busy(daemon->threads));
}

/* Before the first sample: those of all targets, as far as they can be made in this time. */
int daemon_prepare_tables(Daemon *daemon) {
        uint64_t deadline_ns = clock_monotonic_ns() + TABLES_FIRST_NS;

        while (!is_prepared(daemon) && clock_monotonic_ns() < deadline_ns) {
                struct pollfd fds[] = { { .fd = tables_fd(daemon->tables), .events = POLLIN },
                                        { .fd = daemon->threads ? thread_reader_fd(daemon->threads) : -1,
                                          .events = POLLIN } };
                int r = daemon_step_threads(daemon);

                if (!r)
                        r = tables_step(daemon->tables, TABLES_STEP_BYTES);
                if (r < 0)
                        return error_fold(r);
                if (r != TABLES_E_AGAIN && !is_prepared(daemon))
                        poll(fds, ARRAY_SIZE(fds), TABLES_POLL_MS);
        }
        return 0;
}

/* ---- windows ---- */

static void tell_finding(const ValidateFinding *finding, void *userdata) {
        unsigned *n = userdata;

        stat_add(finding->warning ? COUNTER_VALIDATE_WARNINGS : COUNTER_VALIDATE_ERRORS, 1);
        if ((*n)++ < FINDINGS_LOGGED)
                log_warning("validate: %s: %s%s%s [%s]", finding->warning ? "warning" : "error",
                            finding->path, *finding->path ? ": " : "", finding->text,
                            validate_rule_name(finding->rule));
}

/* It is sent all the same: what we think of it is for whoever debugs us. */
static int validate(const uint8_t *data, size_t size) {
        ValidateCounts counts;
        unsigned n = 0;
        int r = otlp_validate(data, size, tell_finding, &n, &counts);

        if (n > FINDINGS_LOGGED)
                log_warning("validate: … and %u more in this request", n - FINDINGS_LOGGED);
        stat_add(COUNTER_VALIDATED, !r);
        return r;
}

static int submit(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        Daemon *daemon = userdata;

        if (daemon->config->validate) {
                int r = validate(data, size);

                if (r)
                        return error_fold(r);
        }
        return exports_submit(daemon->exports, &(ExportRequest){ data, size, n_events, n_profiles });
}

/*
 * The mean time between two ticks of one CPU in the window that ends now: what a sample stands for. That is
 * by what was programmed, jitter included: an idle CPU does not tick on every machine (some virtual ones
 * leave it out), and entries that idle CPUs owe would make the period of the busy ones look longer. Only a
 * kernel that has throttled the samplers is asked what it let through.
 */
static int64_t mean_period_ns(Daemon *daemon, uint64_t now_ns) {
        uint64_t end_ns = daemon->stop_ns ? daemon->stop_ns : daemon->is_paused ? daemon->pause_ns : now_ns;
        uint64_t n_entries = sampler_entries(daemon->sampler);
        uint64_t length_ns = end_ns - MIN(end_ns, daemon->window_start_ns),
                 n_throttled = stat_get(COUNTER_THROTTLED);
        double n_programmed = sampler_programmed(daemon->sampler),
               n = n_programmed - daemon->window_programmed;

        if (n_throttled != daemon->window_throttled)
                n = MIN(n, (double)(n_entries - daemon->window_entries));
        daemon->window_entries = n_entries;
        daemon->window_programmed = n_programmed;
        daemon->window_throttled = n_throttled;
        if (n < 1)
                return (int64_t)(NS_PER_SEC / daemon_frequency(daemon));
        return (int64_t)((double)(length_ns * daemon->n_cpus) / n);
}

static int hand_over(Daemon *daemon, const Window *window) {
        OtlpOptions options = { .scope_version = SPANPROF_VERSION,
                                .timestamps = daemon->config->timestamps,
                                .count_cpu = true };
        uint64_t n_lost = 0, n_samples = window_n_events_of(window, PROFILE_CPU);
        int r;

        if (daemon->sink) {
                r = daemon->sink->window(daemon->sink->userdata, window, &n_lost);
                n_lost = MIN(n_lost, n_samples);        /* what is no tick may be among them */
                stat_add(COUNTER_LOST_WINDOW_FULL, n_lost);
                stat_add(COUNTER_SAMPLES_DELIVERED, n_samples - n_lost);
                return error_fold(r);
        }
        r = otlp_encode(window, &options, submit, daemon, &n_lost);
        stat_add(COUNTER_LOST_ENCODE, n_lost);
        return error_fold(r);
}

/* Closes the window and hands it to the sink, or its requests to the exporter. */
int daemon_close_window(Daemon *daemon) {
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t now_ns = clock_monotonic_ns(), begun_ns = daemon->window_start_ns;
        int r;

        r = coro_join_close(daemon->coroutines, daemon->is_paused);
        if (r)
                return error_fold(r);
        r = aggregator_rotate(daemon->aggregator, now_ns, mean_period_ns(daemon, now_ns), &window);
        if (r)
                return error_fold(r);
        daemon->window_start_ns = now_ns;
        stat_add(COUNTER_WINDOWS, 1);
        r = naming_window(daemon->naming, window);
        if (!r)
                r = hand_over(daemon, window);
        stat_add(COUNTER_STAGE_WINDOW_NS, clock_monotonic_ns() - now_ns);
        if (!r && !daemon->sink)
                r = daemon_follow_volume(daemon, window, now_ns - MIN(now_ns, begun_ns));
        return error_fold(r);
}

/* ---- other spanprofs ---- */

typedef struct Shared {
        const OtherProfilers *rivals;
        const Process *first;           /* that a rival samples too */
        size_t n;
} Shared;

static void find_shared(void *userdata, const Process *process, SelectorReason reason) {
        Shared *shared = userdata;

        if (!other_profilers_sample(shared->rivals, process->pid, process->start_time_ns))
                return;
        if (!shared->first)
                shared->first = process;
        shared->n++;
}

/* Both sides say so, since each learns of the other by itself; again when they have met anew. */
void daemon_warn_of_other_profilers(Daemon *daemon) {
        Shared shared = { .rivals = &daemon->rivals };

        other_profilers_refresh(&daemon->rivals);
        if (daemon->rivals.n)
                targets_each(daemon->targets, find_shared, &shared);
        if (shared.n && !daemon->warned_of_others)
                log_warning(
                        "another spanprof samples %zu of these processes too (pid %u, %s): they pay twice, and their "
                        "profiles are shipped twice",
                        shared.n, shared.first->pid, shared.first->comm);
        daemon->warned_of_others = shared.n;
}
