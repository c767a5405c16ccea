/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Whether the daemon samples, and how fast: the kill switch, `spanprof pause`, and the limits.
 *
 *     what                        looked at            what it does
 *     /etc/spanprof/disabled      with a drain, five   pauses
 *                                 times a second
 *     `spanprof pause`            on the command       pauses, over reloads too
 *     max-memory                  each second          pauses until 10 % below the limit
 *     the control group's limit   each second          above 80 %: fewer tables, shorter windows, half the
 *       of memory                                      frequency (memory-hold.c); above 90 %: pauses
 *     sample-hosts                each second          pauses while it is other hosts' turn (host-share.c)
 *     max-cpu, and 80 % of the    each half second     if ten seconds would end above: drops the recorder's
 *       control group's limit                          ticks and ends boosts, then halves the frequency;
 *                                                      doubles it after 10 calm seconds
 *     off-cpu-max-switches        each second          reads less of waits, until half of it (switch-limit.c)
 *     max-export-rate             each whole window    ends boosts, then lowers the frequency to what fits,
 *                                                      doubles it after 4 calm windows
 *
 * Several reasons to pause can hold at once, one bit each; sampling resumes when no bit is left. The
 * frequency is the lowest of those that governor.c (CPU), volume.c (bytes) and memory-hold.c decide.
 *
 * A sample stands for the mean period of its window. So every change first drains the rings and closes the
 * window, and the next window has one frequency again.
 *
 * Boosts: some processes are sampled more often for a while, others as before.
 *
 *     POST /boost/unit/NAME/frequency/HZ/for/SECONDS
 *     POST /boost/process/PID/frequency/HZ/for/SECONDS
 *
 * All CPUs tick at a multiple of the frequency then. The rows of the boosted say so to the kernel half: it
 * exports each tick of theirs, and each n-th of others, as without a boost (bpf/sampler.bpf.c). So who is not
 * boosted pays for a look at its row at most:
 *
 *     ticks        | | | | | | | | | | |
 *     boosted      x x x x x x x x x x x       a profile of its own, whose period is that of ticks
 *     others       x         x         x       or, for a flight recorder, all of them, too
 *
 * A window ends where a boost begins or ends, as its period is one value. A boost ends with its time, with a
 * reload, and where max-cpu or max-export-rate would lower the frequency of all.
 */

#include "host/service/run/daemon-govern.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <string.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "host/sampling/sample/machine.h"
#include "host/service/control/self.h"
#include "host/service/run/daemon-flow.h"
#include "host/service/run/daemon-loop.h"
#include "host/service/run/daemon-window.h"

#define LOSSES_INTERVAL_NS (60 * NS_PER_SEC)
#define NOTED_SPARE_BYTES (UINT64_C(256) << 20)  /* of more, caches have all that they ever have */
#define LEAST_CPU_PERCENT 6             /* of 5 %, the start alone takes more than a minute */
#define NOTED_CPU_PERCENT 40
#define DISABLED_INTERVAL_NS (200 * NS_PER_MS)  /* a path whose end is not there costs as much as a drain */
/* The directory is root's: no other user can remove the file, nor can the daemon, which is not root. */
#define DISABLED_PATH "/etc/spanprof/disabled"

static const struct {
        const char *name;
        enum counter counter;
} reasons[] = {
        [DAEMON_PAUSE_DISABLED] = { "disabled", COUNTER_PAUSES_DISABLED },
        [DAEMON_PAUSE_COMMAND] = { "command", COUNTER_PAUSES_COMMAND },
        [DAEMON_PAUSE_MEMORY] = { "memory", COUNTER_PAUSES_MEMORY },
        [DAEMON_PAUSE_GROUP] = { "memory.max", COUNTER_PAUSES_MEMORY },
        [DAEMON_PAUSE_HOSTS] = { "sample-hosts", COUNTER_PAUSES_HOSTS },
};

const char *daemon_pause_reason(const Daemon *daemon) {
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (daemon->pause.reasons & 1u << i)
                        return reasons[i].name;
        return NULL;
}

static void set_pause(Daemon *daemon, enum daemon_pause reason, bool on) {
        unsigned bit = 1u << reason;

        if (on == !!(daemon->pause.reasons & bit))
                return;
        daemon->pause.reasons ^= bit;
        if (on)
                stat_add(reasons[reason].counter, 1);
}

/* A path that cannot be looked at counts as there; only these two errors say that it is not. */
static bool is_disabled(void) {
        struct stat st;

        return !lstat(DISABLED_PATH, &st) || (errno != ENOENT && errno != ENOTDIR);
}

/* Samples that were taken before the pause belong to the window that ends here. */
static int pause_now(Daemon *daemon) {
        log_write_event(LOG_LEVEL_NOTICE, LOG_EVENT_PAUSED, daemon_pause_reason(daemon),
                        "sampling is paused (%s)", daemon_pause_reason(daemon));
        sd_notifyf(0, "STATUS=paused (%s)", daemon_pause_reason(daemon));
        daemon->pause.since_ns = clock_monotonic_ns();
        sampler_pause(daemon->stages.sampler);
        daemon->pause.is_on = true;
        if (!daemon->loop.drain_timer)               /* not started yet */
                return 0;
        return daemon_drain_window(daemon);
}

static int resume_now(Daemon *daemon) {
        int r = daemon_end_window(daemon);

        if (r)
                return error_fold(r);
        log_write_event(LOG_LEVEL_NOTICE, LOG_EVENT_RESUMED, "resume", "sampling goes on");
        r = sampler_resume(daemon->stages.sampler);
        if (r)
                return r > 0 ? error_origin(-EIO) : error_fold(r);
        daemon->pause.is_on = false;
        /* the pause is no part of a period */
        daemon->window.start_ns = clock_monotonic_ns();
        daemon->window.n_cpus = sampler_n_cpus(daemon->stages.sampler);
        return 0;
}

static int apply(Daemon *daemon) {
        if (daemon->stop.time_ns || !!daemon->pause.reasons == daemon->pause.is_on)
                return 0;
        return daemon->pause.reasons ? pause_now(daemon) : resume_now(daemon);
}

int daemon_pause_by_command(Daemon *daemon, bool paused) {
        daemon->totals->paused = paused;
        set_pause(daemon, DAEMON_PAUSE_COMMAND, paused);
        return apply(daemon);
}

int daemon_check_disabled(Daemon *daemon) {
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < daemon->pause.disabled_look_ns)
                return 0;
        daemon->pause.disabled_look_ns = now_ns + DISABLED_INTERVAL_NS;
        set_pause(daemon, DAEMON_PAUSE_DISABLED, is_disabled());
        return apply(daemon);
}

/* The workers' use counts as the daemon's own. */
static uint64_t cpu_ns(const Daemon *daemon) {
        return self_cpu_ns() + (daemon->totals->zygotes ? zygotes_cpu_ns(daemon->totals->zygotes) : 0);
}

static uint64_t resident_bytes(const Daemon *daemon) {
        return self_resident_bytes() +
                (daemon->totals->zygotes ? zygotes_resident_bytes(daemon->totals->zygotes) : 0);
}

static void follow_hosts(Daemon *daemon) {
        const DaemonLimits *limits = &daemon->limits;
        uint64_t now_ns = clock_read_ns(CLOCK_REALTIME);

        set_pause(daemon, DAEMON_PAUSE_HOSTS, !host_share_has_turn(&limits->hosts, limits->host, now_ns));
}

/* The last step that leaves what is to be kept (off-cpu-keep). */
static enum abi_wait_limit last_limit(const char *keep) {
        if (!strcmp(keep, "late-stacks"))
                return WAIT_LIMIT_WALKS;
        if (!strcmp(keep, "spans"))
                return WAIT_LIMIT_LONG;
        return !strcmp(keep, "times") ? WAIT_LIMIT_SPANS : WAIT_LIMIT_ALL;
}

/* What the control group allows, where that is little. */
static void tell_group(const GroupLimit *group) {
        uint64_t memory = group_limit_memory(group), cpu = group_limit_cpu(group);

        if (memory && memory < GROUP_LIMIT_BASE_BYTES)
                log_warning("the control group may use %" PRIu64 " MiB of memory, which is too little: spanprof "
                            "has some %" PRIu64 " with nothing to do, and the kernel may kill it. Give it 64 MiB "
                            "or more (memory.max, MemoryMax= of the unit)",
                            group->memory_bytes >> 20, (uint64_t)GROUP_LIMIT_BASE_BYTES >> 20);
        else if (memory && group_limit_spare(group) < NOTED_SPARE_BYTES)
                log_notice("the control group may use %" PRIu64 " MiB of memory (memory.max): the daemon holds "
                           "itself to %d %% of it, by fewer unwind tables, shorter windows, and fewer samples",
                           group->memory_bytes >> 20, GROUP_LIMIT_PERCENT);
        if (cpu && cpu < LEAST_CPU_PERCENT)
                log_warning("the control group may use %.1f %% of one CPU (cpu.max), which is too little: "
                            "samples are lost while the daemon waits for its turn. Give it 20 %% or more",
                            group->cpu_percent);
        else if (cpu && cpu < NOTED_CPU_PERCENT)
                log_notice("the control group may use %.1f %% of one CPU (cpu.max): the daemon holds itself to "
                           "%" PRIu64 " %%, by fewer samples", group->cpu_percent, cpu);
}

void daemon_make_governor(Daemon *daemon) {
        const Config *config = daemon->config;
        const GroupLimit *group = &daemon->limits.group;
        uint64_t max_cpu = MIN(config->daemon.max_cpu ?: UINT64_MAX, group_limit_cpu(group) ?: UINT64_MAX);
        uint32_t frequency = (uint32_t)config->sampling.frequency;

        governor_init(&daemon->limits.governor, frequency, max_cpu == UINT64_MAX ? 0 : max_cpu,
                      config->daemon.max_memory_bytes, clock_monotonic_ns(), cpu_ns(daemon));
        daemon->limits.governor.has_more = config_ticks_per_sample(config) > 1;
        daemon->limits.hold = (MemoryHold){ .max_bytes = group_limit_memory(group),
                                            .nominal = frequency,
                                            .frequency = frequency };
        tell_group(group);
        volume_init(&daemon->limits.volume, frequency, config->delivery.max_rate,
                    config->delivery.interval_ns);
        daemon_begin_ticks(daemon);
        host_share_parse(config->sampling.hosts, &daemon->limits.hosts);
        daemon->limits.host = host_share_number();
        daemon->limits.switches = (SwitchLimit){
                .max = config->waits.off_cpu ? config->waits.max_switches : 0,
                .most = last_limit(config->waits.keep),
        };
        if (daemon->totals->paused)
                set_pause(daemon, DAEMON_PAUSE_COMMAND, true);
        follow_hosts(daemon);
}

/*
 * Samples that wait in the ring belong to the old window. In the next one, at a tenth of the frequency, each
 * would stand for ten times its time.
 */
static int change_frequency(Daemon *daemon) {
        const uint32_t n_ticks = daemon_ticks_per_sample(daemon);

        /* boosted ticks come from here on, before the window ends that had none */
        if (daemon->window.ticks == 1 && n_ticks > 1)
                daemon->window.tick_ns = NS_PER_SEC / daemon_tick_frequency(daemon);
        sampler_set_frequency(daemon->stages.sampler, daemon_tick_frequency(daemon), n_ticks);
        return daemon_drain_window(daemon);
}

int daemon_follow_boosts(Daemon *daemon) {
        const DaemonLimits *limits = &daemon->limits;

        daemon->limits.governor.has_more = config_ticks_per_sample(daemon->config) > 1 || limits->boosts.n;
        daemon->limits.governor.holds_more &= limits->governor.has_more;
        return targets_boost(daemon->stages.targets) ?: change_frequency(daemon);
}

/* Return: whether there were some. */
static bool cut_boosts(Daemon *daemon, const char *why) {
        uint32_t n = boosts_expire(&daemon->limits.boosts, UINT64_MAX);

        if (!n)
                return false;
        stat_add(COUNTER_BOOSTS_CUT, n);
        log_warning("%u boosts end before their time, for %s", n, why);
        return true;
}

/* Ticks beyond the frequency go, or come back. */
static int hold_ticks(Daemon *daemon) {
        const bool holds = daemon->limits.governor.holds_more;

        if (holds)
                (void)cut_boosts(daemon, "max-cpu");
        if (config_ticks_per_sample(daemon->config) > 1) {
                stat_add(COUNTER_RECORDER_HELD, holds);
                log_write_event(holds ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE, LOG_EVENT_SLOWED,
                                holds ? "max-cpu" : "calm",
                                holds ? "the flight recorder has no more samples than the export from now on: our own "
                                        "CPU time is above max-cpu, or would be"
                                      : "the flight recorder has its own frequency again");
        }
        return daemon_follow_boosts(daemon);
}

static int follow_cpu(Daemon *daemon) {
        static const char *const words[] = {
                [GOVERNOR_E_LOWERED] = "is above",
                [GOVERNOR_E_FORESEEN] = "over ten seconds would be above",
                [GOVERNOR_E_RAISED] = "is far below",
        };
        Governor *governor = &daemon->limits.governor;
        uint64_t now_ns = clock_monotonic_ns();
        uint32_t before = governor->frequency, now;
        bool is_lowered;
        /* CPU time of workers takes two system calls for each of them */
        int r = governor_is_due(governor, now_ns) ? governor_cpu(governor, now_ns, cpu_ns(daemon)) : 0;

        if (!r)
                return 0;
        now = governor->frequency;
        if (now == before)
                return hold_ticks(daemon);
        is_lowered = r != GOVERNOR_E_RAISED;
        stat_add(is_lowered ? COUNTER_FREQUENCY_LOWERED : COUNTER_FREQUENCY_RAISED, 1);
        log_write_event(is_lowered ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE, LOG_EVENT_SLOWED,
                        is_lowered ? "max-cpu" : "calm",
                        "sampling at %u Hz from now on, not %u: our own CPU time %s %" PRIu64 " %%, which is %s",
                        now, before, words[r], governor->max_cpu,
                        governor->max_cpu == daemon->config->daemon.max_cpu ? "max-cpu"
                                                                            : "80 % of the control group's cpu.max");
        return change_frequency(daemon);
}

/*
 * Judges the volume of a window that has just been closed and encoded; the next one may have another
 * frequency. The window that a change of frequency ends is too short to be judged.
 */
static int follow_volume(Daemon *daemon, uint64_t length_ns) {
        Volume *volume = &daemon->limits.volume;
        uint32_t before = volume->frequency;
        uint64_t n_bytes = exports_submitted_bytes(daemon->stages.exports) - daemon->limits.sent_bytes;
        bool lowered;
        int r;

        daemon->limits.sent_bytes += n_bytes;
        if (daemon->stop.time_ns || daemon->pause.is_on)
                return 0;
        r = volume_window(volume, length_ns, n_bytes);
        if (!r)
                return 0;
        lowered = r == VOLUME_E_LOWERED;
        if (lowered && cut_boosts(daemon, "max-export-rate")) {
                volume->frequency = before;
                /* ticks of the boosts until now: later, nobody is expected to have more than others */
                return sampler_read_counters(daemon->stages.sampler) ?: daemon_follow_boosts(daemon);
        }
        stat_add(lowered ? COUNTER_VOLUME_LOWERED : COUNTER_VOLUME_RAISED, 1);
        log_write_event(lowered ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE, LOG_EVENT_SLOWED,
                        lowered ? "volume" : "calm",
                        "sampling at %u Hz from now on, not %u: profiles are %s max-export-rate",
                        volume->frequency, before, lowered ? "above" : "far below");
        return change_frequency(daemon);
}

int daemon_end_window(Daemon *daemon) {
        uint64_t length_ns;
        int r = daemon_close_window(daemon, &length_ns);

        if (!r && !daemon->sink)
                r = follow_volume(daemon, length_ns);
        return error_fold(r);
}

int daemon_drain_window(Daemon *daemon) {
        SamplerDrained drained = { 0 };
        int r = daemon_drain(daemon, &drained);

        sampler_drained_add(&daemon->calls.drained, &drained);
        return r ? error_fold(r) : daemon_end_window(daemon);
}

static void tell_hold(const MemoryHold *hold, int verdict, uint64_t used_bytes, uint32_t before) {
        static const char *const what[] = {
                [MEMORY_STEP_NONE] = "nothing is held back any more",
                [MEMORY_STEP_TABLES] = "no more unwind tables than now",
                [MEMORY_STEP_WINDOWS] = "windows of a quarter of their length, and no more unwind tables",
                [MEMORY_STEP_FREQUENCY] = "half the samples, shorter windows, and no more unwind tables",
        };

        log_write_event(verdict == MEMORY_HOLD_E_MORE ? LOG_LEVEL_WARNING : LOG_LEVEL_NOTICE,
                        LOG_EVENT_MEMORY_LIMIT, verdict == MEMORY_HOLD_E_MORE ? "memory.max" : "calm",
                        "the control group uses %" PRIu64 " KiB of memory, and 80 %% of its limit are %" PRIu64
                        ": %s (%u Hz, before %u)",
                        used_bytes >> 10, hold->max_bytes >> 10, what[hold->step], hold->frequency, before);
}

/*
 * The kernel kills at the limit, so less is taken in before. A step frees what its kind has; a window that is
 * closed frees most.
 */
static int follow_group(Daemon *daemon) {
        static const enum counter counters[] = {
                [MEMORY_STEP_TABLES] = COUNTER_MEMORY_HELD_TABLES,
                [MEMORY_STEP_WINDOWS] = COUNTER_MEMORY_HELD_WINDOWS,
                [MEMORY_STEP_FREQUENCY] = COUNTER_MEMORY_HELD_FREQUENCY,
        };
        MemoryHold *hold = &daemon->limits.hold;
        uint32_t before = hold->frequency;
        uint64_t used = hold->max_bytes ? group_limit_used(&daemon->limits.group) : 0;
        int verdict = daemon->stop.time_ns ? 0 : memory_hold_judge(hold, used), r = 0;

        if (!verdict)
                return 0;
        tell_hold(hold, verdict, used, before);
        tables_hold(daemon->stages.tables, hold->step >= MEMORY_STEP_TABLES);
        if (verdict == MEMORY_HOLD_E_MORE)
                stat_add(counters[hold->step], 1);
        if (hold->frequency != before)
                r = change_frequency(daemon);
        else if (verdict == MEMORY_HOLD_E_MORE && hold->step == MEMORY_STEP_WINDOWS)
                r = daemon_drain_window(daemon);
        malloc_trim(0);
        return r;
}

/* A closed window has freed its memory, but the allocator keeps it: malloc_trim() gives it back. */
static int follow_memory(Daemon *daemon) {
        uint64_t resident = daemon->config->daemon.max_memory_bytes ? resident_bytes(daemon) : 0;
        Governor *governor = &daemon->limits.governor;
        bool was = governor->too_large, is = governor_memory(governor, resident);
        int r;

        if (is && !was)
                log_write_event(LOG_LEVEL_WARNING, LOG_EVENT_MEMORY_LIMIT, "max-memory",
                                "our own memory is %" PRIu64
                                " KiB, above max-memory: no samples until it is less",
                                resident >> 10);
        set_pause(daemon, DAEMON_PAUSE_MEMORY, is);
        set_pause(daemon, DAEMON_PAUSE_GROUP, daemon->limits.hold.is_full);
        follow_hosts(daemon);
        r = apply(daemon);
        if (is || daemon->limits.hold.is_full)
                malloc_trim(0);
        return r;
}

const char *daemon_waits_lack(const Daemon *daemon) {
        static const char *const what[] = {
                [WAIT_LIMIT_NONE] = NULL,
                [WAIT_LIMIT_WALKS] = "waits have no stacks, but for long ones",
                [WAIT_LIMIT_LONG] = "waits have no stacks",
                [WAIT_LIMIT_SPANS] = "waits have times and reasons alone: no stacks, no spans, no wakers",
                [WAIT_LIMIT_ALL] = "waits are not counted",
        };

        return what[daemon->limits.switches.step];
}

static int read_less_of_waits(Daemon *daemon) {
        const SwitchLimit *limit = &daemon->limits.switches;

        stat_add(COUNTER_WAITS_LESS, 1);
        log_warning("%s for a while: more than %" PRIu64
                    " switches of threads a second and CPU (off-cpu-max-switches)",
                    daemon_waits_lack(daemon), limit->max);
        if (limit->step == WAIT_LIMIT_ALL) {
                stat_add(COUNTER_WAITS_HELD, 1);
                early_waits_drop(&daemon->walks.early);
        }
        return sampler_limit_waits(daemon->stages.sampler, limit->step);
}

static int read_more_of_waits(Daemon *daemon, enum abi_wait_limit before) {
        const SwitchLimit *limit = &daemon->limits.switches;
        int r = before == WAIT_LIMIT_ALL ? early_waits_note(&daemon->walks.early, &daemon->walks.stages) : 0;

        stat_add(COUNTER_WAITS_MORE, 1);
        if (limit->step)
                log_notice("fewer switches of threads: %s", daemon_waits_lack(daemon));
        else
                log_notice("waits are counted again, with all that is known of them");
        return r ? r : sampler_limit_waits(daemon->stages.sampler, limit->step);
}

static int follow_switches(Daemon *daemon) {
        SwitchLimit *limit = &daemon->limits.switches;
        enum abi_wait_limit before = limit->step;
        uint64_t n;
        int r = limit->max && !machine_switches(&n)
                ? switch_limit_judge(limit, clock_monotonic_ns(), n,
                                     MAX(sampler_n_cpus(daemon->stages.sampler), 1u))
                : 0;

        if (!r || daemon->stop.time_ns)
                return 0;
        r = r == SWITCH_LIMIT_E_LESS ? read_less_of_waits(daemon) : read_more_of_waits(daemon, before);
        return r > 0 ? error_origin(-EIO) : error_fold(r);
}

/*
 * Losses between the kernel half and us, when they happen: the books at the stop would say so only weeks
 * later. Counters of the kernel half have just been read.
 */
static void tell_losses(Daemon *daemon) {
        uint64_t n = stat_get(COUNTER_LOST_RING_FULL), now_ns = clock_monotonic_ns();
        DaemonLosses *losses = &daemon->totals->losses;
        _cleanup_(text_deinit) Text whose = { 0 };
        SamplerLosers losers;

        if (n == losses->n_told || now_ns < losses->next_ns)
                return;
        sampler_take_losers(daemon->stages.sampler, &losers);
        if (losers.n_processes)
                text_printf(&whose, ". %" PRIu64 " are of pid %u (%s); processes that lost some: %u",
                            losers.most.n, losers.most_pid, losers.most.comm, losers.n_processes);
        log_write_event(LOG_LEVEL_WARNING, LOG_EVENT_RING_FULL, "ring_full",
                        "%" PRIu64 " samples were lost since %s: the ring to the daemon was full. It was held up, or has "
                        "too little CPU time for %u Hz and what begins here (%" PRIu64 " processes now)%s",
                        n - losses->n_told, losses->n_told ? "this was said last" : "the start",
                        daemon_frequency(daemon), (uint64_t)targets_count_all(daemon->stages.targets),
                        whose.data ? whose.data : "");
        losses->n_told = n;
        losses->next_ns = now_ns + LOSSES_INTERVAL_NS;
}

/* ---- boosts ---- */

/* Targets that a boost means. */
typedef struct Counting {
        const Boost *boost;
        uint64_t start_time_ns;         /* of the last one */
        uint32_t n;
} Counting;

static void count_boosted(void *userdata, const Process *process, SelectorReason reason) {
        Counting *counting = userdata;

        if (!boost_means(counting->boost, process))
                return;
        counting->n++;
        counting->start_time_ns = process->start_time_ns;
}

static int refuse_boost(Text *page, int status, const char *why) {
        stat_add(COUNTER_BOOSTS_REFUSED, 1);
        text_printf(page, "%s\n", why);
        return status;
}

int daemon_boost(Daemon *daemon, const char *path, Text *page) {
        const uint32_t frequency = (uint32_t)daemon->config->sampling.frequency;
        Counting counting = { 0 };
        Boost boost;

        stat_add(COUNTER_BOOSTS, 1);
        if (boost_parse(path, &boost))
                return refuse_boost(page, 400, "asked are unit/NAME or process/PID, frequency/HZ up to 1000, and for/SECONDS up "
                              "to 600, each once");
        if (boosts_ticks(&(Boosts){ { boost }, 1 }, frequency) < 2)
                return refuse_boost(page, 400, "the frequency is not above that of all: one and a half of it is the least");
        if (daemon->stop.time_ns || daemon->pause.is_on)
                return refuse_boost(page, 503, "nothing is sampled now");
        if (daemon->limits.governor.holds_more)
                return refuse_boost(page, 503, "max-cpu leaves no room for it now");
        counting.boost = &boost;
        targets_each(daemon->stages.targets, count_boosted, &counting);
        if (boost.pid && !counting.n)
                return refuse_boost(page, 404, "this process is no target");
        boost.start_time_ns = boost.pid ? counting.start_time_ns : 0;
        boost.end_ns = clock_monotonic_ns() + boost.length_ns;
        if (!boosts_add(&daemon->limits.boosts, &boost))
                return refuse_boost(page, 503, "there are four boosts already");
        if (daemon_follow_boosts(daemon) || daemon_set_timer(daemon->loop.drain_timer, 0))
                return 500;
        text_printf(page, "%" PRIu32 " processes at %" PRIu32 " Hz for %" PRIu64 " s\n", counting.n,
                    daemon_tick_frequency(daemon), boost.length_ns / NS_PER_SEC);
        log_notice("%s %s: %" PRIu32 " processes are sampled at %" PRIu32 " Hz for %" PRIu64 " s",
                   boost.pid ? "a process" : "the unit", boost.pid ? "by its id" : boost.unit, counting.n,
                   daemon_tick_frequency(daemon), boost.length_ns / NS_PER_SEC);
        return 200;
}

/* A process that ends takes its boost along. */
static int end_boosts(Daemon *daemon) {
        Boosts *boosts = &daemon->limits.boosts;

        for (uint32_t i = 0; i < boosts->n; i++)
                if (boosts->items[i].pid &&
                    targets_end_ns(daemon->stages.targets, boosts->items[i].pid) != UINT64_MAX)
                        boosts->items[i].end_ns = 0;
        if (!boosts_expire(boosts, clock_monotonic_ns()) || daemon->stop.time_ns)
                return 0;
        return daemon_follow_boosts(daemon);
}

int daemon_govern(Daemon *daemon) {
        uint64_t n_ok = stat_get(COUNTER_EXPORT_OK);
        int r;

        tell_losses(daemon);
        if (n_ok != daemon->totals->n_exported) {
                daemon->totals->n_exported = n_ok;
                daemon->totals->exported_ns = clock_monotonic_ns();
        }
        r = end_boosts(daemon);
        if (!r)
                r = follow_cpu(daemon);
        if (!r)
                r = follow_switches(daemon);
        if (!r)
                r = follow_group(daemon);
        return r ? r : follow_memory(daemon);
}
