/* SPDX-License-Identifier: Apache-2.0 */
/*
 * context-stress FORM [samples=100000] [workers=64] [capacity=65536] [brief=0] [seconds=200] [frequency=4999]
 * [lie=0]
 *
 * Samples a victim of its own with the kernel half, and judges every sample by the log that the victim's
 * threads keep (context-stress.h). FORM: ring, thread (both written by the SDK), both (the same context
 * twice), plain (a ring that nobody clears when a thread ends), obi (a map as OBI's, which keeps what threads
 * leave; @capacity entries). Wrong is, with WRONG_*:
 *
 *     mixed       ids of two changes
 *     owner       another thread's
 *     time        not the one at that time
 *     missed      none, busy, stale or unreadable in the middle of a context that stood
 *     shared      ambiguous although no two threads share a slot
 *
 * With lie=1 some samples are changed before they are judged, so that each of the first four must be found.
 * Samples whose entries are overwritten before they are looked at are `late`, and not judged. Prints NAME
 * NUMBER a line; exit status 0, 1 = a wrong one, or fewer samples than asked for in the time, 78 = not
 * possible on this kernel.
 */
#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "context-stress.h"
#include "host/sampling/context/ring.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"
#include "host/sampling/context/thread-context.h"
#include "host/sampling/sample/decode.h"
#include "host/sampling/sample/sampler.h"

enum {
        EXIT_UNUSABLE = 78,
        DRAIN_US = 3000,
        /*
         * Between the clock of a thread and the kernel's at its interrupt. They are one clock, but for the
         * moments at which the rate is adjusted; long contexts are 100,000 ns.
         */
        SLACK_NS = 20000,
        CLOSE_NS = 1000,
};

enum { WRONG_MIXED, WRONG_OWNER, WRONG_TIME, WRONG_MISSED, WRONG_SHARED, WRONG_N };

static bool is_unusable;

static const char *const wrong_names[] = { "mixed", "owner", "time", "missed", "shared" };
static const char *const outcome_names[ABI_CONTEXT_N] = { "unpublished", "present", "none",       "busy",
                                                          "ambiguous",   "stale",   "unreadable", "invalid" };

static struct {
        StressShared *shared;
        StressOptions options;
        uint32_t tgid;
        bool lies;
        uint64_t n_samples, n_late, n_not_close, outcomes[ABI_CONTEXT_N], wrong[WRONG_N];
} judge;

static void count_wrong(int kind, const struct abi_sample *sample, const StressEntry *entry) {
        if (judge.wrong[kind]++ < 5)
                fprintf(stderr,
                        "wrong (%s): tid %u time %" PRIu64 " outcome %u span %" PRIx64 " trace %" PRIx64
                        "%016" PRIx64 "; entry %" PRIu64 " of tid %u, %" PRIu64 " … %" PRIu64 ", span %u\n",
                        wrong_names[kind], sample->ns_tid, sample->time_ns, sample->context,
                        sample->span.span, sample->span.trace_high, sample->span.trace_low, entry->n,
                        entry->tid, entry->before, entry->after, entry->has_span);
}

/* Return: whether it was still there, whole. */
static bool read_entry(uint32_t worker, uint64_t n, StressEntry *to) {
        const StressEntry *entry = &judge.shared->logs[worker].entries[n % STRESS_ENTRIES];

        if (__atomic_load_n(&entry->n, __ATOMIC_SEQ_CST) != n)
                return false;
        to->n = n;
        to->before = entry->before;
        to->after = __atomic_load_n(&entry->after, __ATOMIC_SEQ_CST);
        to->tid = entry->tid;
        to->has_span = entry->has_span;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        return __atomic_load_n(&entry->n, __ATOMIC_SEQ_CST) == n;
}

static void judge_present(const struct abi_sample *sample) {
        uint64_t span = sample->span.span, n = span & ((UINT64_C(1) << 56) - 1);
        uint32_t worker = (uint32_t)(span >> 56);
        StressEntry entry = { 0 }, next;

        if (worker >= judge.options.n_workers || sample->span.trace_high != stress_mix(span) ||
            sample->span.trace_low != stress_mix(sample->span.trace_high)) {
                count_wrong(WRONG_MIXED, sample, &entry);
        } else if (!read_entry(worker, n, &entry)) {
                judge.n_late++;
        } else if (entry.tid != sample->ns_tid || !entry.has_span) {
                count_wrong(WRONG_OWNER, sample, &entry);
        } else if (sample->time_ns + SLACK_NS < entry.before) {
                count_wrong(WRONG_TIME, sample, &entry);
        } else if (read_entry(worker, n + 1, &next) && next.tid == entry.tid && next.after &&
                   sample->time_ns > next.after + CLOSE_NS) {
                judge.n_not_close++;
                if (sample->time_ns > next.after + SLACK_NS)
                        count_wrong(WRONG_TIME, sample, &entry);
        }
}

/* The latest entry that began before @time_ns. Return: whether the log still says so. */
static bool find_entry(uint32_t worker, uint64_t time_ns, StressEntry *found) {
        uint64_t high = __atomic_load_n(&judge.shared->logs[worker].n, __ATOMIC_SEQ_CST);
        uint64_t low = high > STRESS_ENTRIES ? high - STRESS_ENTRIES + 1 : 1;
        StressEntry entry;

        if (!high || !read_entry(worker, low, &entry) || entry.before > time_ns)
                return false;
        while (low < high) {
                uint64_t middle = low + (high - low + 1) / 2;

                if (!read_entry(worker, middle, &entry))
                        return false;
                if (entry.before <= time_ns)
                        low = middle;
                else
                        high = middle - 1;
        }
        return read_entry(worker, low, found);
}

/*
 * No context was found: was there none? Only where one stood before and after for longer than clocks may
 * differ.
 */
static void judge_absent(const struct abi_sample *sample) {
        uint8_t worker = judge.shared->worker_of[sample->ns_tid % STRESS_TIDS];
        StressEntry entry, next;

        if (!worker || !find_entry(worker - 1U, sample->time_ns, &entry)) {
                judge.n_late += worker > 0;
                return;
        }
        if (entry.tid != sample->ns_tid || !entry.has_span || !entry.after ||
            sample->time_ns < entry.after + SLACK_NS || !read_entry(worker - 1U, entry.n + 1, &next) ||
            sample->time_ns + SLACK_NS > next.before)
                return;
        count_wrong(WRONG_MISSED, sample, &entry);
}

/* What a reader that does it wrong would have found. */
static void lie(struct abi_sample *sample) {
        uint64_t step = judge.n_samples % 40;

        if (!judge.lies || sample->context != ABI_CONTEXT_PRESENT)
                return;
        if (step == 0)
                sample->span.trace_low ^= UINT64_C(1) << 63;
        else if (step == 10)
                sample->ns_tid++;
        else if (step == 20 && (sample->span.span & 0xffffff) > 4096)
                sample->span.span -= 4096;
        else if (step == 30)
                sample->context = ABI_CONTEXT_NONE;
        if (step == 20) {
                sample->span.trace_high = stress_mix(sample->span.span);
                sample->span.trace_low = stress_mix(sample->span.trace_high);
        }
}

static int on_sample(const void *data, size_t size, void *userdata) {
        struct abi_sample copy, *header = &copy;
        Sample sample;

        if (decode_sample(data, size, &sample))
                return -EBADMSG;
        copy = *sample.header;
        lie(&copy);
        if (header->tgid != judge.tgid || header->ns_tid == judge.shared->tid)
                return 0;
        judge.n_samples++;
        judge.outcomes[header->context]++;
        if (header->context == ABI_CONTEXT_PRESENT)
                judge_present(header);
        else if (header->context != ABI_CONTEXT_AMBIGUOUS)
                judge_absent(header);
        else if (judge.options.capacity == 65536)
                count_wrong(WRONG_SHARED, header, &(StressEntry){ 0 });
        return 0;
}

static int on_notice(const void *data, size_t size, void *userdata) {
        return 0;
}

/* Finds what the victim publishes as the daemon does, and tells the kernel half. */
static int set_row(Sampler *sampler, ObjectCache *objects) {
        RingBudget budget = { .n_entries = 1 << 24, .n_reads = 1 << 20 };
        _cleanup_(process_freep) Process *process = NULL;
        struct abi_process row = { .generation = 1, .state = ABI_STATE_TARGET };
        RingSearch search = { 0 };
        ThreadContext thread;
        const char *unread;
        int r = process_new(&process, (pid_t)judge.tgid);

        if (!r)
                r = process_read_mappings(process, objects);
        if (r)
                return r;
        thread = thread_context_find(process, &unread);
        if (judge.options.form == STRESS_THREAD || judge.options.form == STRESS_BOTH) {
                row.thread_form = thread.form;
                row.thread_model = thread.model;
                row.thread_module = thread.module;
                row.thread_offset = thread.offset;
        }
        row.start_time_ns = process->start_time_ns;
        if (judge.options.form != STRESS_THREAD && judge.options.form != STRESS_OBI)
                r = ring_find((pid_t)judge.tgid, process->start_time_ns, false, &search, &budget,
                              &row.ring_address, &row.ring_capacity);
        if (!r && row.ring_address)
                r = sampler_adopt(sampler, &(struct abi_adoption){ judge.tgid, abi_adoption_share(1, 1),
                                                                   ABI_ADOPTION_SHARE });
        if (!r)
                r = sampler_set_process(sampler, judge.tgid, &row);
        if (!r && row.ring_address)
                r = sampler_adopt(sampler,
                                  &(struct abi_adoption){ judge.tgid, judge.tgid,
                                                          judge.shared->tid % row.ring_capacity });
        return r;
}

#define OBI_DIRECTORY "/tmp"
#define OBI_PIN OBI_DIRECTORY "/traces_ctx_v1"

/* A map as OBI makes it, pinned in a file system that only this process and its children see. */
static int make_map(void) {
        union bpf_attr attr;

        if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
            mount("bpf", OBI_DIRECTORY, "bpf", 0, NULL))
                return -errno;
        memset(&attr, 0, sizeof(attr));
        attr.map_type = BPF_MAP_TYPE_LRU_HASH;
        attr.key_size = 8;
        attr.value_size = 24;
        attr.max_entries = judge.options.capacity;
        judge.options.map = (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
        memset(&attr, 0, sizeof(attr));
        attr.pathname = (uintptr_t)OBI_PIN;
        attr.bpf_fd = (uint32_t)judge.options.map;
        return judge.options.map < 0 || syscall(SYS_bpf, BPF_OBJ_PIN, &attr, sizeof(attr)) ? -errno : 0;
}

static uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise) {
        for (int i = 2; i < argc; i++)
                if (strncmp(argv[i], name, strlen(name)) == 0 && argv[i][strlen(name)] == '=')
                        return strtoull(argv[i] + strlen(name) + 1, NULL, 10);
        return otherwise;
}

static bool take_form(const char *name) {
        static const char *const names[] = { [STRESS_RING] = "ring",
                                             [STRESS_THREAD] = "thread",
                                             [STRESS_BOTH] = "both",
                                             [STRESS_PLAIN] = "plain",
                                             [STRESS_OBI] = "obi" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (name && strcmp(names[i], name) == 0) {
                        judge.options.form = (StressForm)i;
                        return true;
                }
        return false;
}

/*
 * In a PID namespace of its own, where it may choose ids of threads. By a process in between, since one that
 * has asked for a namespace can have no more threads. Return: the one in between; judge.tgid is the victim.
 */
static pid_t start_victim(void) {
        pid_t pid = fork(), victim;

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (unshare(CLONE_NEWPID))
                        _exit(1);
                victim = fork();
                if (victim == 0)
                        stress_victim(judge.shared, &judge.options);
                judge.shared->pid = (uint32_t)victim;
                __atomic_store_n(&judge.shared->go, 1, __ATOMIC_SEQ_CST);
                waitpid(victim, NULL, 0);
                _exit(0);
        }
        while (pid > 0 && __atomic_load_n(&judge.shared->go, __ATOMIC_SEQ_CST) != 2 &&
               !waitpid(pid, NULL, WNOHANG))
                usleep(1000);
        judge.tgid = judge.shared->pid;
        return pid;
}

static int sample(Sampler *sampler, uint64_t n_samples, uint64_t limit_ns) {
        uint64_t end_ns = clock_read_ns(CLOCK_MONOTONIC) + limit_ns, next_ns = 0;
        SamplerDrained drained;
        int r = 0;

        __atomic_store_n(&judge.shared->go, 3, __ATOMIC_SEQ_CST);
        while (!r && judge.n_samples < n_samples && clock_read_ns(CLOCK_MONOTONIC) < end_ns) {
                usleep(DRAIN_US);
                r = sampler_drain(sampler, &drained);
                if (!r && clock_read_ns(CLOCK_MONOTONIC) > next_ns) {
                        r = sampler_read_counters(sampler) ?: sampler_jitter(sampler);
                        sampler_follow_obi(sampler);
                        next_ns = clock_read_ns(CLOCK_MONOTONIC) + 1000000000;
                }
        }
        sampler_stop(sampler);
        return r ? r : sampler_drain(sampler, &drained);
}

static void print_result(void) {
        uint64_t n_changes = 0;

        for (int i = 0; i < STRESS_WORKERS; i++)
                n_changes += judge.shared->logs[i].n;
        printf("samples %" PRIu64 "\nlate %" PRIu64 "\nlost %" PRIu64 "\nnot_close %" PRIu64
               "\nchanges %" PRIu64 "\nthreads %" PRIu64 "\nreused %" PRIu64 "\n",
               judge.n_samples, judge.n_late, stat_lost(), judge.n_not_close, n_changes,
               judge.shared->n_threads, judge.shared->n_reused);
        for (int i = 0; i < ABI_CONTEXT_N; i++)
                printf("%s %" PRIu64 "\n", outcome_names[i], judge.outcomes[i]);
        for (int i = 0; i < WRONG_N; i++)
                printf("wrong_%s %" PRIu64 "\n", wrong_names[i], judge.wrong[i]);
}

static int run(uint64_t n_samples, uint64_t limit_ns, uint32_t frequency) {
        const SamplerConfig config = {
                .frequency = frequency, .depth = 1, .jitter = true, .self_tgid = (uint32_t)getpid(),
                .obi_map = judge.options.form == STRESS_OBI ? OBI_PIN : NULL,
        };
        _cleanup_(object_cache_freep) ObjectCache *objects = NULL;
        _cleanup_(sampler_freep) Sampler *sampler = NULL;
        pid_t pid = start_victim();
        int r = pid > 0 && judge.tgid ? object_cache_new(&objects, 64) : -ECHILD;

        if (!r) {
                r = sampler_new(&sampler, &config);
                is_unusable = r == SAMPLER_E_UNUSABLE;
        }
        if (!r) {
                sampler_set_callbacks(sampler, on_sample, on_notice, NULL);
                r = sampler_start(sampler);
        }
        if (!r)
                r = set_row(sampler, objects);
        if (!r)
                r = sample(sampler, n_samples, limit_ns);
        __atomic_store_n(&judge.shared->stop, 1, __ATOMIC_SEQ_CST);
        if (!r)
                sampler_read_counters(sampler);
        if (pid > 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        }
        return r;
}

int main(int argc, char **argv) {
        uint64_t n_samples = option(argc, argv, "samples", 100000), n_wrong = 0;
        int r;

        judge.options.n_workers = (uint32_t)option(argc, argv, "workers", STRESS_WORKERS);
        judge.options.capacity = (uint32_t)option(argc, argv, "capacity", 65536);
        judge.options.brief = option(argc, argv, "brief", 0);
        judge.lies = option(argc, argv, "lie", 0);
        judge.shared = mmap(NULL, sizeof(*judge.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                            -1, 0);
        if (!take_form(argc > 1 ? argv[1] : NULL) || judge.options.n_workers > STRESS_WORKERS ||
            judge.shared == MAP_FAILED) {
                fprintf(stderr,
                        "usage: context-stress ring|thread|both|plain|obi [samples=N] [workers=1…64] [capacity=N] [brief=0|1] [seconds=N] [frequency=HZ]\n");
                return 2;
        }
        r = judge.options.form == STRESS_OBI ? make_map() : 0;
        if (!r)
                r = run(n_samples, option(argc, argv, "seconds", 200) * 1000000000,
                        (uint32_t)option(argc, argv, "frequency", 4999));
        if (r) {
                fprintf(stderr, "context-stress: %d\n", r);
                return is_unusable ? EXIT_UNUSABLE : 1;
        }
        print_result();
        for (int i = 0; i < WRONG_N; i++)
                n_wrong += judge.wrong[i];
        return n_wrong || judge.n_samples < n_samples;
}
