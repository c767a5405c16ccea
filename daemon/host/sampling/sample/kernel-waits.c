/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits come in two ways, and each is in one of them.
 *
 *     ring     a record for each wait whose stack was drawn; it is sent when the wait ends
 *     sums     two tables, of which the kernel half fills one
 *
 * A drain takes the table that is not filled, and then changes over. Programs that began before the change
 * may still add to the other table. They run with interrupts off, so a table that has rested for REST_NS is
 * complete. Where no thread waits so long, a grace period (membarrier) ends such programs:
 *
 *     detach       both tables are taken
 *     split        at the end of a window: waits that go on are added to the table that is filled, which
 *                  then rests, and the next drain takes it
 *
 * A stack that the daemon has walked goes to the kernel half, which keeps it like one of its own. So times
 * and wakers come by the same way, and no wait is told of twice.
 */

#include "host/sampling/sample/kernel-waits.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "host/sampling/sample/machine.h"
#include "offcpu.skel.h"
#include "waker.skel.h"

#define REST_NS (10 * NS_PER_MS)

enum {
        MEAN_WAIT_BYTES = 512,
        MIN_RING_BYTES = 256 << 10,
        MAX_RING_BYTES = 16 << 20,
        SUMS_AT_ONCE = 256,
        PREALLOCATED_THREADS = 4096,    /* where elements must be preallocated (below Linux 6.1) */
        PREALLOCATED_STACKS = 512,
        PREALLOCATED_SUMS = 4096,
        MAX_WAIT_BYTES = sizeof(struct abi_wait) + sizeof(struct abi_sample) +
                WAIT_MAX_WORDS * sizeof(uint64_t) + ABI_MAX_ATTRIBUTES_SIZE +
                WAKER_MAX_WORDS * sizeof(uint64_t),
        HELD = -EAGAIN,                 /* the drain has met a record that is too young */
};

struct KernelWaits {
        struct offcpu_bpf *skeleton;
        struct waker_bpf *wakers;       /* NULL = waits have none */
        struct ring_buffer *ring;
        SamplerRecord on_wait;
        SamplerWaitSum on_sum;
        void *userdata;
        uint64_t release_ns;
        uint64_t changed_ns;            /* when the tables of sums were last changed over */
        enum abi_wait_limit limit;      /* waits that are left out */
        bool is_attached;
        bool is_split;                  /* the table at rest has the last sums of a window */
        struct abi_wait_longs longs;
        uint64_t *given;                /* room for a value of wait_given */
        size_t held_size;               /* bytes of the record that waits; 0 = none */
        uint64_t held[MAX_WAIT_BYTES / sizeof(uint64_t)];
        struct abi_wait_key keys[SUMS_AT_ONCE];
        struct abi_wait_sum values[SUMS_AT_ONCE];
};

/* ---- loading ---- */

static uint32_t ring_bytes(const SamplerConfig *config, size_t n_cpus) {
        uint64_t at_least = (uint64_t)config->wait_walks * n_cpus * MEAN_WAIT_BYTES / 2,
                 size = MIN_RING_BYTES;

        while (size < at_least && size < MAX_RING_BYTES)
                size *= 2;
        return (uint32_t)size;
}

static void configure(KernelWaits *waits, const KernelHalf *half, const SamplerConfig *config) {
        struct offcpu_bpf *skeleton = waits->skeleton;
        const KernelHalfMap maps[] = { { skeleton->maps.wait_threads, PREALLOCATED_THREADS },
                                       { skeleton->maps.wait_stacks, PREALLOCATED_STACKS },
                                       { skeleton->maps.waker_stacks, PREALLOCATED_STACKS },
                                       { skeleton->maps.wait_sums_even, PREALLOCATED_SUMS },
                                       { skeleton->maps.wait_sums_odd, PREALLOCATED_SUMS },
                                       { NULL, 0 } };

        skeleton->rodata->setting_depth = config->depth;
        skeleton->rodata->setting_default_state = config->default_state;
        skeleton->rodata->setting_self_tgid = config->self_tgid;
        skeleton->rodata->setting_namespace = kernel_half_namespace(half);
        skeleton->rodata->setting_wait_walks = config->wait_walks;
        skeleton->rodata->setting_wait_long_ns = config->wait_long_ns;
        if (config->wait_file_calls)
                memcpy((void *)skeleton->rodata->setting_file_calls, config->wait_file_calls,
                       sizeof(skeleton->rodata->setting_file_calls));
        bpf_map__set_max_entries(skeleton->maps.waits, ring_bytes(config, kernel_half_n_online(half)));
        kernel_half_preallocate(maps);
        skeleton->rodata->setting_wait_threads = bpf_map__max_entries(skeleton->maps.wait_threads);
        skeleton->rodata->setting_wait_stacks = bpf_map__max_entries(skeleton->maps.wait_stacks);
        skeleton->rodata->setting_wait_sums = bpf_map__max_entries(skeleton->maps.wait_sums_even);
}

static int load(KernelWaits *waits, KernelHalf *half, const SamplerConfig *config) {
        LIBBPF_OPTS(bpf_object_open_opts, options);
        _cleanup_(closep) int types = -1;
        char path[32];
        int r;

        options.btf_custom_path = kernel_half_open_types(config->btf_path, &types, path, sizeof(path));
        waits->skeleton = offcpu_bpf__open_opts(&options);
        if (!waits->skeleton)
                return kernel_half_refuse("open the kernel half of --off-cpu", -errno);
        configure(waits, half, config);
        r = kernel_half_join(half, waits->skeleton->obj, NULL, NULL);
        if (r)
                return r;
        r = offcpu_bpf__load(waits->skeleton);
        return r ? kernel_half_refuse("load the kernel half of --off-cpu (BPF)", r) : 0;
}

static struct waker_bpf *drop_wakers(struct waker_bpf *wakers, const char *why) {
        waker_bpf__destroy(wakers);
        log_warning("waits have no wakers: this kernel cannot %s; log-level = debug shows its reasons",
                    why);
        return NULL;
}

/* Waits are right without it, so nothing here is fatal. */
static void load_wakers(KernelWaits *waits, const KernelHalf *half, const SamplerConfig *config) {
        LIBBPF_OPTS(bpf_object_open_opts, options);
        _cleanup_(closep) int types = -1;
        struct waker_bpf *wakers;
        char path[32];

        options.btf_custom_path = kernel_half_open_types(config->btf_path, &types, path, sizeof(path));
        wakers = waker_bpf__open_opts(&options);
        if (!wakers) {
                waits->wakers = drop_wakers(NULL, "open the object of wakers");
                return;
        }
        wakers->rodata->setting_namespace = kernel_half_namespace(half);
        wakers->rodata->setting_depth = config->depth;
        if (kernel_half_join(half, wakers->obj, waits->skeleton->obj, NULL) || waker_bpf__load(wakers))
                wakers = drop_wakers(wakers, "load the object of wakers");
        waits->wakers = wakers;
}

static bool is_too_young(const KernelWaits *waits, const void *data, size_t size) {
        const struct abi_wait *wait = data;
        const struct abi_sample *sample = (const struct abi_sample *)(wait + 1);

        return size >= sizeof(*wait) + sizeof(*sample) && size <= sizeof(waits->held) &&
                sample->time_ns > waits->release_ns;
}

/* As with samples, a record that is too young ends the drain, and is kept apart. */
static int read_wait(void *context, void *data, size_t size) {
        KernelWaits *waits = context;

        if (!waits->on_wait)
                return 0;
        if (!is_too_young(waits, data, size))
                return waits->on_wait(data, size, waits->userdata);
        memcpy(waits->held, data, size);
        waits->held_size = size;
        return HELD;
}

int kernel_waits_new(KernelWaits **waitsp, KernelHalf *half, const SamplerConfig *config) {
        _cleanup_(kernel_waits_freep) KernelWaits *waits = calloc(1, sizeof(*waits));
        int r;

        if (!waits)
                return error_origin(-ENOMEM);
        r = load(waits, half, config);
        if (r)
                return r;
        load_wakers(waits, half, config);
        waits->given = calloc(1, bpf_map__value_size(waits->skeleton->maps.wait_given));
        if (!waits->given)
                return error_origin(-ENOMEM);
        waits->ring = ring_buffer__new(bpf_map__fd(waits->skeleton->maps.waits), read_wait, waits, NULL);
        if (!waits->ring)
                return error_origin(-errno);
        *waitsp = take(waits);
        return 0;
}

KernelWaits *kernel_waits_free(KernelWaits *waits) {
        if (!waits)
                return NULL;
        ring_buffer__free(waits->ring);
        waker_bpf__destroy(waits->wakers);
        offcpu_bpf__destroy(waits->skeleton);
        free(waits->given);
        free(waits);
        return NULL;
}

void kernel_waits_set_callbacks(KernelWaits *waits, SamplerRecord on_wait, SamplerWaitSum on_sum,
                                void *userdata) {
        waits->on_wait = on_wait;
        waits->on_sum = on_sum;
        waits->userdata = userdata;
}

/* ---- attaching ---- */

static int attach(struct bpf_program *program, struct bpf_link **linkp, const char *what) {
        *linkp = bpf_program__attach(program);
        return *linkp ? 0 : kernel_half_refuse(what, -errno);
}

static void attach_wakers(KernelWaits *waits) {
        if (!waits->wakers || waits->wakers->links.wait_waking || waits->limit >= WAIT_LIMIT_SPANS)
                return;
        waits->wakers->links.wait_waking = bpf_program__attach(waits->wakers->progs.wait_waking);
        if (!waits->wakers->links.wait_waking)
                waits->wakers = drop_wakers(waits->wakers, "attach the program of wakers");
}

static void detach_wakers(KernelWaits *waits) {
        if (!waits->wakers)
                return;
        bpf_link__destroy(waits->wakers->links.wait_waking);
        waits->wakers->links.wait_waking = NULL;
}

/* A waker that was told before it was left out is that of an earlier wait, by its time. */
void kernel_waits_limit(KernelWaits *waits, enum abi_wait_limit limit) {
        waits->limit = limit;
        __atomic_store_n(&waits->skeleton->bss->wait_limit, (uint32_t)limit, __ATOMIC_SEQ_CST);
        if (limit >= WAIT_LIMIT_SPANS)
                detach_wakers(waits);
        else if (waits->is_attached)
                attach_wakers(waits);
}

int kernel_waits_attach(KernelWaits *waits) {
        struct offcpu_bpf *skeleton = waits->skeleton;
        int r;

        if (waits->is_attached)
                return 0;
        waits->is_attached = true;
        __atomic_store_n(&skeleton->bss->runs_since_ns, clock_read_ns(CLOCK_BOOTTIME), __ATOMIC_SEQ_CST);
        attach_wakers(waits);
        r = attach(skeleton->progs.wait_wake, &skeleton->links.wait_wake, "watch wake-ups");
        if (!r)
                r = attach(skeleton->progs.wait_switch, &skeleton->links.wait_switch, "watch the scheduler");
        return r;
}

/* Ends the waits that go on (@closes), or counts them so far. */
static void flush(KernelWaits *waits, bool closes) {
        LIBBPF_OPTS(bpf_test_run_opts, options);
        int r;

        __atomic_store_n(&waits->skeleton->bss->wait_closes, closes, __ATOMIC_SEQ_CST);
        r = bpf_prog_test_run_opts(bpf_program__fd(waits->skeleton->progs.wait_flush), &options);
        if (r)
                log_warning("waits that go on are not counted: %s", strerror(-r));
}

static void end_programs(void) {
        if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) < 0)
                usleep(2 * REST_NS / NS_PER_US);        /* a CPU without ticks: no such barrier there */
}

void kernel_waits_detach(KernelWaits *waits) {
        struct offcpu_bpf *skeleton = waits->skeleton;

        if (!waits->is_attached)
                return;
        bpf_link__destroy(skeleton->links.wait_switch);
        bpf_link__destroy(skeleton->links.wait_wake);
        skeleton->links.wait_switch = NULL;
        skeleton->links.wait_wake = NULL;
        detach_wakers(waits);
        end_programs();
        flush(waits, true);
        waits->is_attached = false;
}

/* ---- draining ---- */

/* Takes all sums of a table that is not filled any more. */
static int take_sums(KernelWaits *waits, const struct bpf_map *map) {
        uint32_t place, *from = NULL, n;
        int end, r = 0;

        do {
                n = SUMS_AT_ONCE;
                end = bpf_map_lookup_and_delete_batch(bpf_map__fd(map), from, &place, waits->keys,
                                                      waits->values, &n, NULL);
                if (end && end != -ENOENT)
                        return error_origin(end);
                for (uint32_t i = 0; i < n && !r && waits->on_sum; i++)
                        r = waits->on_sum(&waits->keys[i], &waits->values[i], waits->userdata);
                from = &place;
        } while (!end && r >= 0);
        return MIN(r, 0);
}

/* The one of the two tables that is filled. */
static struct bpf_map *sums_of(const KernelWaits *waits, uint32_t epoch) {
        const struct offcpu_bpf *skeleton = waits->skeleton;

        return epoch & 1 ? skeleton->maps.wait_sums_odd : skeleton->maps.wait_sums_even;
}

static void change_over(KernelWaits *waits) {
        uint32_t epoch = waits->skeleton->bss->wait_epoch;

        __atomic_store_n(&waits->skeleton->bss->wait_epoch, epoch + 1, __ATOMIC_SEQ_CST);
        waits->changed_ns = clock_monotonic_ns();
}

static bool is_at_rest(const KernelWaits *waits) {
        return clock_monotonic_ns() >= waits->changed_ns + REST_NS;
}

static int drain_sums(KernelWaits *waits) {
        uint32_t epoch = waits->skeleton->bss->wait_epoch;
        int r;

        if (waits->is_split)
                end_programs();
        else if (waits->is_attached && !is_at_rest(waits))
                return 0;
        r = take_sums(waits, sums_of(waits, epoch + 1));
        if (!r && !waits->is_attached)
                r = take_sums(waits, sums_of(waits, epoch));
        if (!waits->is_split)   /* the other one has sums of the next window alone, and none is due */
                change_over(waits);
        waits->is_split = false;
        return r;
}

int kernel_waits_split(KernelWaits *waits) {
        int r;

        if (!waits->is_attached)
                return 0;
        if (!is_at_rest(waits))
                end_programs();
        r = take_sums(waits, sums_of(waits, waits->skeleton->bss->wait_epoch + 1));
        flush(waits, false);
        change_over(waits);
        waits->is_split = true;
        return r;
}

static int drain_ring(KernelWaits *waits) {
        size_t size = waits->held_size;
        int r = 0;

        if (size && is_too_young(waits, waits->held, size))
                return 0;
        waits->held_size = 0;
        if (size)
                r = waits->on_wait(waits->held, size, waits->userdata);
        if (r >= 0)
                r = ring_buffer__consume(waits->ring);
        return r == HELD ? 1 : r;
}

int kernel_waits_drain(KernelWaits *waits, uint64_t release_ns) {
        int r, n;

        waits->release_ns = release_ns;
        n = drain_ring(waits);
        r = n < 0 ? n : drain_sums(waits);
        return r < 0 ? r : n;
}

/* ---- long waits ---- */

bool kernel_waits_are_undrawn(const KernelWaits *waits) {
        return __atomic_load_n(&waits->skeleton->bss->wait_undrawn, __ATOMIC_RELAXED);
}

int kernel_waits_list_long(KernelWaits *waits, const struct abi_wait_longs **longsp) {
        LIBBPF_OPTS(bpf_test_run_opts, options);
        const uint32_t zero = 0;
        int r;

        __atomic_store_n(&waits->skeleton->bss->wait_undrawn, 0, __ATOMIC_SEQ_CST);
        r = bpf_prog_test_run_opts(bpf_program__fd(waits->skeleton->progs.wait_long), &options);
        if (!r)
                r = bpf_map_lookup_elem(bpf_map__fd(waits->skeleton->maps.wait_longs), &zero, &waits->longs);
        if (r)
                return error_origin(r);
        waits->longs.n = MIN(waits->longs.n, (uint64_t)WAIT_LONG_LISTED);
        *longsp = &waits->longs;
        return 0;
}

int kernel_waits_give(KernelWaits *waits, const struct abi_wait_long *wait, const struct abi_wait *record,
                      enum abi_wait_given *givenp) {
        uint64_t arguments[2] = { wait->task, wait->begin_ns };
        LIBBPF_OPTS(bpf_test_run_opts, options, .ctx_in = arguments, .ctx_size_in = sizeof(arguments));
        const uint32_t zero = 0;
        int r;

        memcpy(waits->given, record, record->size);
        r = bpf_map_update_elem(bpf_map__fd(waits->skeleton->maps.wait_given), &zero, waits->given, BPF_ANY);
        if (!r)
                r = bpf_prog_test_run_opts(bpf_program__fd(waits->skeleton->progs.wait_give), &options);
        if (r)
                return error_origin(r);
        *givenp = options.retval;
        return 0;
}

int kernel_waits_fd(const KernelWaits *waits) {
        return bpf_map__fd(waits->skeleton->maps.waits);
}

/* Without the maps that belong to the sampler's object. */
size_t kernel_waits_map_bytes(const KernelWaits *waits) {
        const struct offcpu_bpf *skeleton = waits->skeleton;
        const struct bpf_map *const own[] = { skeleton->maps.scratches,      skeleton->maps.wait_threads,
                                              skeleton->maps.wait_stacks,    skeleton->maps.waker_stacks,
                                              skeleton->maps.wait_sums_even,
                                              skeleton->maps.wait_sums_odd,  skeleton->maps.waits,
                                              skeleton->maps.wait_budgets,   skeleton->maps.wait_copy,
                                              skeleton->maps.wait_followed,  skeleton->maps.wait_longs,
                                              skeleton->maps.wait_given,     skeleton->maps.wait_blocks,
                                              skeleton->maps.wait_shares,    skeleton->maps.wait_sum_shares,
                                              skeleton->maps.bss };
        size_t sum = 0;

        for (size_t i = 0; i < ARRAY_SIZE(own); i++)
                sum += machine_memlock(bpf_map__fd(own[i]));
        return sum;
}
