/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Page Faults
 *
 * With --page-faults each CPU has two events more, which count minor and major page faults and run a program
 * here at every so many of them. It weighs the fault, asks what memory it was for, and hands over to the
 * sampler, which takes the sample as it takes that of a tick: same filter, span and walk.
 *
 *     997 faults ─▶ page_fault_minor: weight, kind of memory ─ tail call ─▶ sample (─▶ sample_runtimes)
 *
 * The weight is what the event's own counter has grown by since its last sample on this CPU. So the sum of
 * all weights is the number of faults, however the daemon changes the periods (fault-events.c). Other
 * processes' faults are in it: which of them hits the period decides, and each has the chance of its share.
 * Only the count may decide. A new period makes the next fault in time a sample: that one is left out, and
 * its weight goes to the next.
 *
 *     count        0       997      1,500              2,496                3,605
 *     period      997      997      997 → 1,109        997 once more        1,109
 *                          sample   left out, too early   sample of 1,499   sample of 1,109
 *
 * The kernel runs no second program of an event while one runs on the CPU. So the tick that would come
 * meanwhile does not, no memory is shared with one, and `weight` says whose sample is being taken.
 *
 * Kinds of memory are the kernel's own: the mapping is looked up while the fault is handled. Where a writer
 * waits for the lock of the mappings, and before Linux 5.17, only the bounds of heap and first stack tell.
 */

#include "walk/registers.bpf.h"

enum {
        FAULTS_SECOND_SHIFT = 30,       /* a "second" here is 2^30 ns */
        FAULTS_PAGE_SHIFT = 12,         /* the least size; larger pages have a whole number of these */
        FAULTS_RED_ZONE = 256,          /* bytes below the stack pointer that code may use, or is about to */
        FAULTS_GROWS_DOWN = 0x00000100, /* include/linux/mm.h */
        FAULTS_SHARED = 0x00000008,
        FAULTS_HUGE_TLB = 0x00400000,
        FAULTS_HUGE = 0x20000000,       /* MADV_HUGEPAGE */
        FAULTS_NO_HUGE = 0x40000000,
        FAULTS_TMPFS = 0x01021994,      /* include/uapi/linux/magic.h */
        FAULTS_HUGETLBFS = 0x958458f6,
        /* places of runtime_sampler */
        FAULTS_SAMPLER = 1,
};

struct vm_area_struct {
        unsigned long vm_start, vm_end, vm_flags;
        struct file *vm_file;
        const void *vm_ops;             /* NULL = anonymous */
} KERNEL_TYPE;

/* Whether page faults are sampled. */
const volatile bool setting_faults = false;

/* Size of a huge page, and whether memory has them that does not ask for it. */
const volatile uint64_t setting_huge_bytes = 0;
const volatile bool setting_huge_always = false;

/* Samples of page faults that are taken, a second and CPU; the daemon aims at a tenth of it. */
const volatile uint64_t setting_fault_samples = 0;

static __always_inline bool has_find_vma(void) {
        return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma);
}

static __always_inline bool faults_is_near_stack(const struct abi_fault *fault, uint64_t sp) {
        uint64_t page = fault->address >> FAULTS_PAGE_SHIFT;

        return sp && (page == sp >> FAULTS_PAGE_SHIFT || page == (sp - FAULTS_RED_ZONE) >> FAULTS_PAGE_SHIFT);
}

/* Heap and first stack, as far as bounds tell them. */
static __always_inline uint8_t faults_by_bounds(struct task_struct *task, uint64_t address) {
        uint64_t begin = BPF_CORE_READ(task, mm, start_brk), end = BPF_CORE_READ(task, mm, brk);

        return address - begin < end - begin ? ABI_MEMORY_HEAP : ABI_MEMORY_UNKNOWN;
}

static __always_inline void faults_anonymous(const struct scratch *scratch, struct abi_fault *fault,
                                             uint64_t flags) {
        if (flags & FAULTS_GROWS_DOWN || faults_is_near_stack(fault, scratch->leaf.sp))
                fault->memory = ABI_MEMORY_STACK;
        else if (fault->memory != ABI_MEMORY_HEAP)
                fault->memory = ABI_MEMORY_ANONYMOUS;
}

/*
 * Shared memory is a file, too, of a file system that no disk is behind. Huge pages of hugetlbfs are always
 * one, private ones among them.
 */
static __always_inline void faults_file(const struct scratch *scratch, struct abi_fault *fault,
                                        const struct file *file, uint64_t flags) {
        uint64_t magic = BPF_CORE_READ(file, f_inode, i_sb, s_magic);
        bool is_memory = magic == FAULTS_TMPFS || magic == FAULTS_HUGETLBFS;

        if (magic == FAULTS_HUGETLBFS && !(flags & FAULTS_SHARED)) {
                faults_anonymous(scratch, fault, flags);
                return;
        }
        fault->memory = flags & FAULTS_SHARED && is_memory ? ABI_MEMORY_SHARED : ABI_MEMORY_FILE;
        if (fault->is_major && !is_memory)
                bpf_probe_read_kernel_str(fault->file, sizeof(fault->file),
                                          BPF_CORE_READ(file, f_path.dentry, d_name.name));
}

/* Whether the kernel may have made a huge page: all of it lies in the mapping, and the flags allow it. */
static __always_inline bool faults_may_be_huge(const struct abi_fault *fault, uint64_t begin, uint64_t end,
                                               uint64_t flags) {
        uint64_t first = fault->address & ~(setting_huge_bytes - 1);

        if (flags & FAULTS_HUGE_TLB)
                return true;
        if (!setting_huge_bytes || flags & FAULTS_NO_HUGE || !(flags & FAULTS_HUGE || setting_huge_always))
                return false;
        return first >= begin && first + setting_huge_bytes <= end;
}

/* For bpf_find_vma(): the mapping of the address. */
static long faults_in_mapping(struct task_struct *task, struct vm_area_struct *mapping, void *unused) {
        uint64_t flags = BPF_CORE_READ(mapping, vm_flags);
        const struct file *file = BPF_CORE_READ(mapping, vm_file);
        bool is_anonymous = !BPF_CORE_READ(mapping, vm_ops);
        struct abi_fault *fault;
        struct scratch *scratch;
        uint32_t zero = 0;

        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch)
                return 0;
        fault = (struct abi_fault *)scratch->frames;
        if (is_anonymous)
                faults_anonymous(scratch, fault, flags);
        else if (file)
                faults_file(scratch, fault, file, flags);
        else
                fault->memory = ABI_MEMORY_OTHER;
        if (is_anonymous || flags & FAULTS_HUGE_TLB)
                fault->is_huge = faults_may_be_huge(fault, BPF_CORE_READ(mapping, vm_start),
                                                    BPF_CORE_READ(mapping, vm_end), flags);
        return 0;
}

static __always_inline bool faults_admits(struct faults *faults) {
        uint64_t second = bpf_ktime_get_ns() >> FAULTS_SECOND_SHIFT;

        if (faults->second != second) {
                faults->second = second;
                faults->n_samples = 0;
        }
        return faults->n_samples++ < setting_fault_samples;
}

/*
 * The next sample comes by count one period after this one, or one fault earlier behind a new period. Return:
 * faults since the event's last sample on this CPU, 0 = this one comes too early.
 */
static __always_inline uint64_t faults_weigh(const volatile uint64_t *context, struct fault_book *book) {
        struct bpf_perf_event_value value = {};
        uint64_t due, weight;

        if (bpf_perf_prog_read_value((void *)context, &value, sizeof(value)))
                return 0;
        /* An event that was opened anew counts from 0. */
        if (value.enabled < book->enabled_ns || value.counter < book->counted)
                *book = (struct fault_book){};
        due = book->due;
        book->due = value.counter + context[CONTEXT_WORD_PERIOD] - 1;
        book->enabled_ns = value.enabled;
        if (value.counter < due)
                return 0;
        weight = value.counter - book->counted;
        book->counted = value.counter;
        return weight;
}

static __always_inline int faults_take(const volatile uint64_t *context, bool is_major) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct counters *counters = counters_get();
        struct abi_fault *fault;
        struct scratch *scratch;
        uint64_t weight;
        uint32_t zero = 0;

        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!counters || !scratch)
                return 0;
        weight = faults_weigh(context, &counters->faults.books[is_major]);
        if (!weight)
                return 0;
        if (!faults_admits(&counters->faults)) {
                counters->values[COUNTER_FAULTS_BUDGET] += weight;
                return 0;
        }
        fault = (struct abi_fault *)scratch->frames;
        *(uint64_t *)&fault->memory = 0;
        fault->address = context[CONTEXT_WORD_ADDRESS];
        fault->is_major = is_major;
        fault->file[0] = 0;
        fault->memory = faults_by_bounds(task, fault->address);
        scratch->leaf.sp = is_user_mode(context) ? context[CONTEXT_WORD_SP] : 0;
        if (has_find_vma())
                bpf_find_vma(task, fault->address, faults_in_mapping, NULL, 0);
        counters->faults.weight = weight;
        bpf_tail_call((void *)context, &runtime_sampler, FAULTS_SAMPLER);
        counters->faults.weight = 0;
        counters->values[COUNTER_FAULTS_UNTAKEN] += weight;
        return 0;
}

/* ---- for the sampler ---- */

/* Whether the sample that is being taken is a fault's. */
static __always_inline bool faults_is_one(const struct counters *counters) {
        return setting_faults && counters->faults.weight;
}

/* Words of the record between its head and the kernel addresses. */
static __always_inline uint64_t faults_words(const struct scratch *scratch) {
        return setting_faults && scratch->sample.kind == ABI_KIND_FAULT ? ABI_FAULT_WORDS : 0;
}

static __always_inline void faults_begin(struct scratch *scratch, struct counters *counters) {
        struct abi_sample *sample = &scratch->sample;
        const struct abi_fault *fault = (const struct abi_fault *)scratch->frames;

        sample->kind = ABI_KIND_FAULT;
        sample->value = counters->faults.weight;
        counters->values[COUNTER_FAULT_SAMPLES_UNKNOWN] += fault->memory == ABI_MEMORY_UNKNOWN;
        counters->values[COUNTER_FAULT_SAMPLES]++;
        counters->values[COUNTER_FAULTS] += sample->value;
}

/* Ends the sample: what comes next is a tick's, until a program above says otherwise. */
static __always_inline void faults_end(void) {
        struct counters *counters = setting_faults ? counters_get() : NULL;

        if (counters)
                counters->faults.weight = 0;
}
