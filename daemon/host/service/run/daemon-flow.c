/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From stage to stage: the output of one is the input of the next. Each thing that ends on the way is
 * counted, here or by the stage that ended it.
 *
 *     sampler ─▶ decode ─▶ targets_admit ─▶ coroutine ─▶ deferred ─▶ aggregator_add     a sample: at once,
 *                                                         or once rows and names are there
 *     sampler ─▶ decode ─▶ targets ─▶ rows ─▶ sampler; tables                    a notice, a mapping
 *     aggregator_rotate ─▶ naming ─▶ exports: reshape ─▶ otlp_encode ─▶ validate   a window
 *                                └▶ sink (`record`, `top`)
 *
 * daemon-window.c closes windows.
 */

#include "host/service/run/daemon-flow.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/aggregate/signal-name.h"
#include "host/sampling/aggregate/wait-reason.h"
#include "host/sampling/sample/decode.h"
#include "host/sampling/sample/sample-loss.h"

/* ---- from the kernel half ---- */

/* Adds @tick_ns to the span of @sample in @cpu, and learns its operation there. */
static int add_to_span(Daemon *daemon, SpanCpu *cpu, const Program *program, const Sample *sample,
                       uint64_t tick_ns) {
        const char *name;
        int r;

        if (!cpu)
                return 0;
        r = aggregator_span_name(daemon->stages.aggregator, program, sample, &name);
        if (!r && name)
                r = span_cpu_add_name(cpu, program, &sample->header->span, name);
        return r ? r : span_cpu_add_sample(cpu, program, sample, tick_ns);
}

/*
 * Runs between switches are more exact than ticks, where they are told. Ticks for the flight recorder alone
 * are dropped before others: with them the time would depend on how full the ring is.
 */
static int learn_span(Daemon *daemon, const Program *program, const Sample *sample) {
        const uint8_t kind = sample->header->kind;
        SpanCpu *bytes = span_cpu_has_count(sample->header) ? daemon->stages.span_bytes : NULL;
        uint64_t tick_ns = 0;
        int r;

        if (kind == ABI_KIND_CPU)
                tick_ns = NS_PER_SEC / daemon_frequency(daemon);
        else if (kind == ABI_KIND_BOOST)
                tick_ns = daemon->window.tick_ns;
        r = add_to_span(daemon, daemon->stages.span_cpu, program, sample,
                        daemon->config->waits.off_cpu ? 0 : tick_ns);
        if (!r)
                r = add_to_span(daemon, bytes, program, sample, 0);
        return r || !bytes ? r : span_cpu_add_count(bytes, program, sample);
}

/*
 * Logs a line for each crash, at most one a second. Where it was is in the profile: functions have their
 * names later.
 */
static void say_crash(const Process *process, const struct abi_sample *header) {
        const char *code = signal_code_name(header->signal, header->signal_code);
        char name[SIGNAL_NAME_SIZE], facts[48] = "", span[96] = "", others[64] = "";
        const struct abi_span *ids = &header->span;
        static LogLimit limit;
        uint64_t n_skipped;

        if (!log_limit(&limit, NS_PER_SEC, &n_skipped))
                return;
        if (signal_has_address(header->signal, header->signal_code))
                snprintf(facts, sizeof(facts), " at 0x%" PRIx64, header->value);
        else if (signal_memory_bytes(header))
                snprintf(facts, sizeof(facts), ", with %" PRIu64 " MiB in memory", signal_memory_bytes(header) >> 20);
        if (header->context == ABI_CONTEXT_PRESENT)
                snprintf(span, sizeof(span), ", in span %016" PRIx64 " of trace %016" PRIx64 "%016" PRIx64,
                         ids->span, ids->trace_high, ids->trace_low);
        if (n_skipped)
                snprintf(others, sizeof(others), "; %" PRIu64 " crashes before it were not logged", n_skipped);
        log_warning("process %" PRIu32 " (%s), thread %" PRIu32 " (%s) crashed: %s%s%s%s%s%s%s", process->pid,
                    process->comm, header->tid, header->comm, signal_name(header->signal, name),
                    code ? " (" : "", code ? code : "", code ? ")" : "", facts, span, others);
}

int daemon_on_sample(const void *data, size_t size, void *userdata) {
        const struct abi_free *freed;
        Daemon *daemon = userdata;
        Program program;
        Sample sample;
        int r;

        if (!decode_free(data, size, &freed)) {
                if (daemon->stages.live)
                        live_set_remove(daemon->stages.live, freed);
                return 0;
        }
        if (decode_sample(data, size, &sample)) {
                stat_add(COUNTER_LOST_MALFORMED, 1);
                return 0;
        }
        if (!daemon->totals->first_sample_ns)
                daemon->totals->first_sample_ns = clock_monotonic_ns();
        r = targets_admit(daemon->stages.targets, sample.header, &program);
        if (r > 0) {
                sample_lose(sample.header, SAMPLE_LOSS_NOT_TARGET);
                stat_add(COUNTER_FAULTS_NOT_TARGET, sample.fault ? sample.header->value : 0);
                deferred_drop(daemon->walks.deferred, sample.header);
                return 0;
        }
        if (r)
                return error_fold(r);
        if (sample.header->signal)
                say_crash(program.process, sample.header);
        if (sample.header->context == ABI_CONTEXT_UNPUBLISHED && sample.header->kind != ABI_KIND_FINE)
                publication_count_early(program.publication, sample.header->time_ns);
        if (sample.header->form == ABI_FORM_PYTHON && (sample.header->context == ABI_CONTEXT_UNPUBLISHED ||
                                                       sample.header->context == ABI_CONTEXT_UNREADABLE))
                runtimes_want_spans(daemon->stages.runtimes, program.process->generation,
                                    sample.header->time_ns);
        if (sample.allocation && daemon->stages.live)
                r = live_set_add(daemon->stages.live, program.process, &sample);
        if (!r)
                r = daemon_join_coroutine(daemon, &program, &sample);
        if (!r)
                r = learn_span(daemon, &program, &sample);
        if (r)
                return r;
        return deferred_sample(daemon->walks.deferred, &program, &sample, size);
}

int daemon_on_kept(const void *data, size_t size, void *userdata) {
        const enum abi_kept kept = size >= sizeof(uint64_t) ? *(const uint64_t *)data : 0;
        const struct abi_start *start;
        Daemon *daemon = userdata;

        if (kept != ABI_KEPT_START)
                return deferred_copy(daemon->walks.deferred, data, size);
        if (decode_start(data, size, &start))
                stat_add(COUNTER_STARTS_LOST, 1);
        else
                targets_start(daemon->stages.targets, start);
        return 0;
}

/* A search is due when its process is old enough, not at the next pass. */
static int search_in_time(Daemon *daemon) {
        uint64_t due_us = targets_asked_ns(daemon->stages.targets) / NS_PER_US, set_us;
        int r = sd_event_source_get_time(daemon->loop.work_timer, &set_us);

        if (r < 0 || due_us >= set_us)
                return r < 0 ? error_origin(r) : 0;
        r = sd_event_source_set_time_accuracy(daemon->loop.work_timer, NS_PER_MS / NS_PER_US);
        if (r >= 0)
                r = sd_event_source_set_time(daemon->loop.work_timer, due_us);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_on_notice(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        const struct abi_notice *notice;
        int r;

        if (decode_notice(data, size, &notice)) {
                stat_add(COUNTER_NOTICES_MALFORMED, 1);
                return 0;
        }
        r = targets_notice(daemon->stages.targets, notice);
        /* the timer is gone once we stop */
        if (r || notice->kind != ABI_NOTICE_MAPPINGS || !daemon->loop.work_timer)
                return r;
        return search_in_time(daemon);
}

int daemon_on_mapping(void *userdata, const SidebandRecord *record) {
        Daemon *daemon = userdata;

        switch (record->kind) {
        case SIDEBAND_MAPPING:
                return targets_mapping(daemon->stages.targets, &record->mapping);
        case SIDEBAND_EXEC:
                return targets_exec_begins(daemon->stages.targets, record->pid, record->comm,
                                           record->time_ns);
        case SIDEBAND_FORK:
                return targets_fork(daemon->stages.targets, record->pid, record->parent, record->time_ns);
        default:
                targets_resync(daemon->stages.targets);
                return 0;
        }
}

int daemon_on_mappings_end(void *userdata) {
        Daemon *daemon = userdata;

        targets_execs_told(daemon->stages.targets, sampler_told_ns(daemon->stages.sampler));
        return targets_flush_mappings(daemon->stages.targets);
}

static SamplerMemory read_memory(const void *userdata) {
        const GroupLimit *limit = userdata;

        return (SamplerMemory){ .limit = limit->memory_bytes, .room = group_limit_room(limit) };
}

enum runtime_walk daemon_want_runtimes(Daemon *daemon) {
        return sampler_want_runtimes(daemon->stages.sampler, read_memory, &daemon->limits.group);
}

int daemon_set_row(void *userdata, uint32_t tgid, const struct abi_process *row) {
        Daemon *daemon = userdata;

        /* the reader of labels is in the part of the kernel half that is loaded when it is needed */
        if (row->thread_form == ABI_FORM_LABELS)
                (void)daemon_want_runtimes(daemon);
        return sampler_set_process(daemon->stages.sampler, tgid, row);
}

int daemon_on_rejected_name(void *userdata, const struct abi_name *name) {
        Daemon *daemon = userdata;

        return sampler_reject_name(daemon->stages.sampler, name);
}

void daemon_on_settled_name(void *userdata, const struct abi_settled_name *name, bool is_settled) {
        Daemon *daemon = userdata;

        sampler_settle_name(daemon->stages.sampler, name, is_settled);
}

int daemon_adopt(void *userdata, const struct abi_adoption *adoption) {
        Daemon *daemon = userdata;

        return sampler_adopt(daemon->stages.sampler, adoption);
}

int daemon_remove_row(void *userdata, uint32_t tgid) {
        Daemon *daemon = userdata;
        int r;

        tables_forget(daemon->stages.tables, tgid);
        runtimes_forget(daemon->stages.runtimes, tgid);
        if (daemon->stages.live)
                live_set_forget(daemon->stages.live, tgid);
        r = coro_join_forget(daemon->stages.coroutines, tgid, targets_end_ns(daemon->stages.targets, tgid));
        if (!r)
                r = sampler_remove_process(daemon->stages.sampler, tgid);
        sampler_forget_frees(daemon->stages.sampler, tgid);
        return r < 0 ? error_fold(r) : r;
}

/* ---- waits, with --off-cpu ---- */

static int add_runs(Daemon *daemon, const Program *program, const Sample *sample, const SpanCpuRuns *runs) {
        SpanCpu *cpu = daemon->stages.span_cpu;
        int r = add_to_span(daemon, cpu, program, sample, 0);

        if (!r && cpu)
                r = span_cpu_add(cpu, program, sample->header, runs,
                                 daemon_tick_ns(daemon, program->process));
        return error_fold(r);
}

/* @n: of them. */
static int add_waits(Daemon *daemon, Sample *sample, const char *reason, const WaitTimes *times, uint64_t n,
                     const SpanCpuRuns *runs) {
        Program program;
        int r = targets_admit(daemon->stages.targets, sample->header, &program);

        if (r > 0) {
                stat_add(COUNTER_WAITS_NOT_TARGET, n);
                return 0;
        }
        if (!r)
                r = add_runs(daemon, &program, sample, runs);
        /* no wait is behind the last run of a thread */
        if (!r && times->blocked_ns + times->runnable_ns)
                r = aggregator_add_wait(daemon->stages.aggregator, &program, sample, reason, times);
        stat_add(COUNTER_WAITS_WINDOW_FULL, r > 0 ? n : 0);
        return r < 0 ? error_fold(r) : 0;
}

/* Which lock the thread of a wait in futex() has waited for, if a look has met it there. */
static const SampleLock *find_lock(const Daemon *daemon, const struct abi_wait *wait,
                                   const struct abi_sample *header) {
        const SampleLock *lock = wait_locks_find(daemon->walks.wait_locks, header->tgid, header->tid,
                                                 header->time_ns, wait->end_ns);

        stat_add(lock ? COUNTER_WAIT_LOCKS_KNOWN : COUNTER_WAIT_LOCKS_UNKNOWN, 1);
        return lock;
}

int daemon_on_wait(const void *data, size_t size, void *userdata) {
        Daemon *daemon = userdata;
        const struct abi_wait *wait;
        const char *reason;
        WakerStack stack;
        SpanCpuRuns runs = { 0 };
        WaitTimes times;
        Program program;
        Sample sample;
        int r = 0;

        if (decode_wait(data, size, &wait, &sample)) {
                stat_add(COUNTER_WAITS_MALFORMED, 1);
                return 0;
        }
        times = (WaitTimes){ .blocked_ns = wait->blocked_ns, .runnable_ns = wait->runnable_ns,
                             .end_ns = wait->end_ns, .weight = wait->weight, .waker = &wait->waker,
                             .is_long = wait->flags & WAIT_LONG, .file = wait->file };
        if (wait->n_waker) {
                r = targets_program(daemon->stages.targets, wait->waker.tgid, wait->waker_generation,
                                    &program);
                stack = (WakerStack){ &program, decode_wait_waker(wait), wait->n_waker, wait->waker_end,
                                      wait->waker_ns };
                times.waker_stack = r ? NULL : &stack;
                stat_add(COUNTER_WAKERS_GONE, r > 0);
        }
        if (r < 0)
                return error_fold(r);
        reason = wait_reason(wait->call, wait->flags);
        times.idle = thread_waits_idle(&daemon->walks.stages, wait->call, reason, &sample);
        if (wait_reason_is_futex(reason) && !times.idle)
                times.lock = find_lock(daemon, wait, sample.header);
        if (wait->run.kind == RUN_WHOLE)
                runs = (SpanCpuRuns){ .whole_ns = wait->run.ns, .n_moved = wait->run.n_moved };
        else
                runs = (SpanCpuRuns){ .split_ns = wait->run.ns };
        return add_waits(daemon, &sample, reason, &times, 1, &runs);
}

int daemon_on_wait_sum(const struct abi_wait_key *key, const struct abi_wait_sum *sum, void *userdata) {
        struct abi_sample header = { .time_ns = sum->end_ns,
                                     .start_time_ns = sum->start_time_ns,
                                     .generation = sum->generation,
                                     .tgid = key->tgid,
                                     .tid = key->tid,
                                     .ns_tid = sum->ns_tid,
                                     .kind = ABI_KIND_OFF_CPU,
                                     .stack_end = ABI_STACK_NO_USER,
                                     .context = key->context,
                                     .form = key->form,
                                     .span = key->span };
        const char *reason = wait_reason(key->call, key->flags);
        Sample sample = { .header = &header };
        Daemon *daemon = userdata;

        if (decode_wait_sum(key, sum)) {
                stat_add(COUNTER_WAITS_MALFORMED, sum->n);
                return 0;
        }
        if (wait_reason_is_futex(reason))
                stat_add(COUNTER_WAIT_LOCKS_UNKNOWN, sum->n);
        memcpy(header.comm, sum->comm, sizeof(header.comm));
        return add_waits(daemon, &sample, reason,
                         &(WaitTimes){ .blocked_ns = sum->blocked_ns, .runnable_ns = sum->runnable_ns,
                                       .end_ns = sum->end_ns, .waker = &key->waker,
                                       .is_long = key->flags & WAIT_LONG, .file = key->file },
                         sum->n,
                         &(SpanCpuRuns){ .whole_ns = sum->whole_ns, .split_ns = sum->split_ns,
                                         .n_moved = sum->n_moved, .n_split = sum->n_split,
                                         .n_inside = sum->n_inside });
}

/* ---- targets that were read ---- */

void daemon_on_found(void *userdata, const Process *process) {
        Daemon *daemon = userdata;

        runtimes_expect(daemon->stages.runtimes, process->comm);
}

/* One of all such processes is told of in a minute. */
static void say_remote(const Process *process) {
        static LogLimit limit;
        uint64_t n_skipped;

        if (*process->remote && log_limit(&limit, 60 * NS_PER_SEC, &n_skipped))
                log_warning("process %" PRIu32 " (%s) runs code of files on %s: these are not read, %s. Its "
                            "stacks end there and have no names",
                            process->pid, process->comm, process->remote, process_why_unread(process));
}

int daemon_on_mapped(void *userdata, const Process *process) {
        Daemon *daemon = userdata;
        int r = tables_process(daemon->stages.tables, process);

        if (!r)
                r = runtimes_process(daemon->stages.runtimes, process);
        if (!r)
                r = sampler_probe(daemon->stages.sampler, process);
        if (r)
                return error_fold(r);
        sampler_know_name(daemon->stages.sampler, process->comm);
        say_remote(process);
        if (tables_have_work(daemon->stages.tables))
                r = sd_event_source_set_enabled(daemon->loop.tables_work, SD_EVENT_ON);
        return r < 0 ? error_origin(r) : 0;
}

int daemon_on_looked(void *userdata, const Process *process) {
        Daemon *daemon = userdata;

        return error_fold(runtimes_process(daemon->stages.runtimes, process));
}

int daemon_on_waits(void *userdata, const Process *process) {
        Daemon *daemon = userdata;

        return error_fold(thread_reader_ask_again(daemon->stages.threads, process));
}

int daemon_drain(Daemon *daemon, SamplerDrained *drainedp) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r;

        targets_begin_turn(daemon->stages.targets);
        r = sampler_drain(daemon->stages.sampler, drainedp);
        targets_noticed(daemon->stages.targets, begin_ns);
        daemon->loop.drained_ns = begin_ns;
        stat_add(COUNTER_STAGE_DRAIN_NS, clock_monotonic_ns() - begin_ns);
        if (!r && targets_is_reading(daemon->stages.targets))
                r = MIN(sd_event_source_set_time_relative(daemon->loop.work_timer, 0), 0);
        return r;
}
