/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Crashes
 *
 * The last stack of a target that a signal ends, with its span. The kernel passes signal_deliver as it takes
 * a signal for a thread, in that thread, before a core is written: memory and registers are as the fault has
 * left them. An object of its own, loaded with --crashes; --allocations loads it once more, with the program
 * of allocation.bpf.h alone.
 *
 *     SIGSEGV, SIGABRT … with no handler   told by the thread that they are for
 *     SIGPIPE, SIGUSR1 …                   the kernel gives SIGKILL to each thread of the process, and keeps
 *                                          the number as its exit code. The signal stays in the queue of the
 *                                          thread that it is for, which tells it; or in the process' queue,
 *                                          and the first thread to come tells it
 *     SIGKILL                              told by the first thread to come
 *     the kernel was out of memory         as SIGKILL; the process has lent its memory to the reaper
 *     SIGTERM, SIGINT, SIGHUP              the end was asked for: no crash
 *
 * A process is told of once. A CPU tells of CRASH_BUDGET crashes a second, in shares, so that a storm of them
 * takes the ring from nobody's ticks, and the stack from no other's crash.
 *
 * The kernel has the lock of signals there. With PREEMPT_RT that is no spinning lock, and a tick may come in
 * between. So the program has all its working memory to itself (kernel-events.c), and adds to its counters
 * with atomic instructions.
 */

#define KERNEL_LOADS
#define COUNTS_ATOMICALLY
#include "walk/allocation.bpf.h"
#include "walk/entry-walk.bpf.h"
#include "walk/settings.bpf.h"
#include "walk/share-budget.bpf.h"
#include "walk/wake.bpf.h"

char LICENSE[] SEC("license") = "GPL";

enum {
        CRASH_BUDGET = 32,              /* a control group has half of it */
        CRASH_MAX_PROCESSES = 1024,
        SIGNAL_GROUP_EXIT = 0x04,       /* include/linux/sched/signal.h; the same values since 2.6.26 */
        SIGNAL_UNKILLABLE = 0x40,
        HANDLER_DEFAULT = 0,            /* SIG_DFL */
};

/* By number of the signal, bit N - 1; include/uapi/asm-generic/signal.h, and signal(7). */
#define BIT(number) (1ull << ((number) - 1))
#define ASKED (BIT(1) | BIT(2) | BIT(15))                               /* HUP, INT, TERM */
#define IGNORED (BIT(17) | BIT(18) | BIT(23) | BIT(28))                 /* CHLD, CONT, URG, WINCH */
#define STOPPING (BIT(19) | BIT(20) | BIT(21) | BIT(22))                /* STOP, TSTP, TTIN, TTOU */
/* QUIT, ILL, TRAP, ABRT, BUS, FPE, SEGV, XCPU, XFSZ, SYS */
#define WITH_CORE \
        (BIT(3) | BIT(4) | BIT(5) | BIT(6) | BIT(7) | BIT(8) | BIT(11) | BIT(24) | BIT(25) | BIT(31))
#define KILL 9

struct sigaction {
        void *sa_handler;
} KERNEL_TYPE;

struct k_sigaction {
        struct sigaction sa;
} KERNEL_TYPE;

/* Counters of pages by their kind, include/linux/mm_types_task.h; the same values since 4.5. */
enum { PAGES_OF_FILES, PAGES_ANONYMOUS, PAGES_SWAPPED, PAGES_SHARED, PAGES_N };

/* Since 6.2. What CPUs have counted lately is not in it: 32 pages of each, or two for each CPU. */
struct percpu_counter {
        int64_t count;
} KERNEL_TYPE;

struct mm_struct___counters {
        struct percpu_counter rss_stat[PAGES_N];
} KERNEL_TYPE;

/* Before. */
struct mm_rss_stat {
        atomic64_t count[PAGES_N];
} KERNEL_TYPE;

struct mm_struct___numbers {
        struct mm_rss_stat rss_stat;
} KERNEL_TYPE;

/* Begin of the kernel's siginfo: as programs have it, so it does not move. */
struct signal_facts {
        int number, error, code, padding;
        uint64_t address;               /* address of the memory; or ids of the sender */
};

/* Processes that were told of. The least used may go: it would be told of twice. */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, CRASH_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, uint64_t);        /* start of the leader */
} crashed SEC(".maps");

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct share_budget);
} crash_budgets SEC(".maps");

/* Signal that ends the process, of a thread that gets SIGKILL; 0 = none does, or another thread tells. */
static __always_inline uint32_t crash_of_group(struct task_struct *task, const struct signal_struct *group) {
        uint32_t number = BPF_CORE_READ(group, group_exit_code) & 0x7f;
        uint64_t queued;

        if (!(BPF_CORE_READ(group, flags) & SIGNAL_GROUP_EXIT) || !number || number > 64)
                return 0;
        if (number == KILL)
                return number;
        queued = BPF_CORE_READ(task, pending.signal.sig[0]) |
                BPF_CORE_READ(group, shared_pending.signal.sig[0]);
        return BIT(number) & queued & ~WITH_CORE ? number : 0;
}

static __always_inline bool crash_has_handler(const struct k_sigaction *action) {
        return (uint64_t)BPF_CORE_READ(action, sa.sa_handler) != HANDLER_DEFAULT;
}

/* Return: the number of a signal that is a crash of the current process, or 0. */
static __always_inline uint32_t crash_signal(struct task_struct *task, const uint64_t *arguments) {
        const struct signal_struct *group = (const void *)(uint64_t)KERNEL_POINTER(task, signal);
        uint32_t number = (uint32_t)arguments[0];

        if (number == KILL)
                number = crash_of_group(task, group);
        else if (!number || number > 64 || crash_has_handler((const void *)arguments[2]) ||
                 BPF_CORE_READ(group, flags) & SIGNAL_UNKILLABLE)
                return 0;
        return number && BIT(number) & (ASKED | IGNORED | STOPPING) ? 0 : number;
}

/* Return: false = it was told of before, or there are too many. */
static __always_inline bool crash_admit(const struct identity *identity) {
        const uint64_t *start = bpf_map_lookup_elem(&crashed, &identity->tgid);
        uint32_t zero = 0;

        if (start && *start == identity->start_time_ns)
                return false;
        bpf_map_update_elem(&crashed, &identity->tgid, &identity->start_time_ns, BPF_ANY);
        counters_add(COUNTER_CRASHES);
        if (budget_take(bpf_map_lookup_elem(&crash_budgets, &zero), CRASH_BUDGET))
                return true;
        counters_add(COUNTER_CRASHES_OVER_BUDGET);
        return false;
}

/* Pages that a process has in memory; 0 = this kernel counts them in another form. */
static __always_inline uint64_t crash_pages(const void *memory) {
        const struct mm_struct___counters *counters = memory;
        const struct mm_struct___numbers *numbers = memory;
        int64_t n = 0;

        if (bpf_core_field_exists(struct mm_struct___counters, rss_stat[PAGES_OF_FILES].count))
                n = BPF_CORE_READ(counters, rss_stat[PAGES_OF_FILES].count) +
                        BPF_CORE_READ(counters, rss_stat[PAGES_ANONYMOUS].count) +
                        BPF_CORE_READ(counters, rss_stat[PAGES_SHARED].count);
        else if (bpf_core_field_exists(struct mm_struct___numbers, rss_stat.count[PAGES_OF_FILES].counter))
                n = BPF_CORE_READ(numbers, rss_stat.count[PAGES_OF_FILES].counter) +
                        BPF_CORE_READ(numbers, rss_stat.count[PAGES_ANONYMOUS].counter) +
                        BPF_CORE_READ(numbers, rss_stat.count[PAGES_SHARED].counter);
        return n > 0 ? (uint64_t)n : 0;
}

/* Says which signal it was. What is delivered as SIGKILL has no facts. */
static __always_inline void crash_facts(struct task_struct *task, uint32_t number, const uint64_t *arguments,
                                        struct abi_sample *sample) {
        const struct signal_struct *group = (const void *)(uint64_t)KERNEL_POINTER(task, signal);
        struct signal_facts facts;
        const void *memory;

        sample->kind = ABI_KIND_CRASH;
        sample->value = 0;
        sample->signal = (uint8_t)number;
        sample->signal_code = 0;
        if ((uint32_t)arguments[0] == KILL && number != KILL) {
                sample->signal_code = ABI_CRASH_NO_CODE;
        } else if (number == KILL) {
                memory = BPF_CORE_READ(group, oom_mm);
                sample->signal_code = memory ? ABI_CRASH_NO_MEMORY : 0;
                sample->value = memory ? crash_pages(memory) : 0;
        } else if (!bpf_probe_read_kernel(&facts, sizeof(facts), (const void *)arguments[1])) {
                sample->signal_code = (int8_t)facts.code;
                sample->value = facts.address;
        }
}

static __always_inline void crash_emit(struct scratch *scratch, struct counters *counters) {
        uint64_t n = scratch->unwind.n_frames, size;

        if (n > UNWIND_MAX_FRAMES)
                n = UNWIND_MAX_FRAMES;
        size = n * sizeof(uint64_t) + attributes_part(scratch, n, counters) + sizeof(scratch->sample);
        if (bpf_ringbuf_output(&samples, &scratch->sample, size,
                               wake_for_sample(counters, WAKE_CALL_AT_ONCE)))
                counters_add(COUNTER_CRASHES_RING_FULL);
}

SEC("raw_tp/signal_deliver")
int crash(const struct bpf_raw_tracepoint_args *context) {
        const uint64_t arguments[3] = { context->args[0], context->args[1], context->args[2] };
        struct task_struct *task = bpf_get_current_task_btf();
        struct counters *counters = counters_get();
        const struct abi_process *row;
        struct scratch *scratch;
        uint32_t number, zero = 0;

        number = crash_signal(task, arguments);
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        /* the kernel's own threads in the process, of io_uring and vhost, have no stack of the program */
        if (!number || task->flags & KERNEL_PF_WORKERS || !scratch || !counters ||
            !identity_read(task, &scratch->identity))
                return 0;
        row = bpf_map_lookup_elem(&processes, &scratch->identity.tgid);
        if (!row || row->state != ABI_STATE_TARGET ||
            !select_copy(row, scratch->identity.start_time_ns, &scratch->process) ||
            !crash_admit(&scratch->identity))
                return 0;
        record_begin(&scratch->sample, task, &scratch->identity, &scratch->process, identity_innermost(task));
        scratch->sample.n_kernel = 0;
        scratch->sample.is_copied = 0;
        crash_facts(task, number, arguments, &scratch->sample);
        context_read(&scratch->process, scratch);
        sdk_span_part(&scratch->sample);
        obi_part(&scratch->process, &scratch->sample);
        entry_walk(task, &scratch->process, scratch, 0, setting_depth);
        crash_emit(scratch, counters);
        return 0;
}
