/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads an iterator over tasks that shares the sampler's maps, reads its records, and orders them by
 * process.
 */

#include "host/sampling/sample/kernel-threads.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "threads.skel.h"

enum { READ_RECORDS = 256 };

struct KernelThreads {
        struct threads_bpf *skeleton;
        struct bpf_link *link;
        uint32_t self_tgid;
};

static int load(KernelThreads *threads, const KernelHalf *half, const SamplerConfig *config) {
        struct threads_bpf *skeleton = threads_bpf__open();
        int r;

        threads->skeleton = skeleton;
        if (!skeleton)
                return kernel_half_refuse("open the BPF object that lists threads", -errno);
        skeleton->rodata->setting_self_tgid = config->self_tgid;
        skeleton->rodata->setting_namespace = kernel_half_namespace(half);
        r = kernel_half_join(half, skeleton->obj, NULL, NULL);
        if (r)
                return r;
        r = threads_bpf__load(skeleton);
        if (r)
                return kernel_half_refuse("load the BPF object that lists threads", r);
        threads->link = bpf_program__attach_iter(skeleton->progs.threads, NULL);
        return threads->link ? 0 : kernel_half_refuse("list threads (bpf_iter)", -errno);
}

int kernel_threads_new(KernelThreads **threadsp, const KernelHalf *half, const SamplerConfig *config) {
        _cleanup_(kernel_threads_freep) KernelThreads *threads = calloc(1, sizeof(*threads));
        int r;

        if (!threads)
                return error_origin(-ENOMEM);
        threads->self_tgid = config->self_tgid;
        r = load(threads, half, config);
        if (r)
                return r;
        *threadsp = take(threads);
        return 0;
}

KernelThreads *kernel_threads_free(KernelThreads *threads) {
        if (!threads)
                return NULL;
        bpf_link__destroy(threads->link);
        threads_bpf__destroy(threads->skeleton);
        free(threads);
        return NULL;
}

void kernel_threads_runtimes(const KernelHalf *half, uint32_t tgid, uint64_t generation,
                             ThreadsRuntimes *runtimes) {
        runtimes->has_hotspot = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_HOTSPOT),
                                                     &tgid, &runtimes->hotspot) &&
                runtimes->hotspot.generation == generation;
        /* The heap is read later than the stack was copied: its frames may be others by then. */
        runtimes->hotspot.chunk_tail = 0;
        runtimes->has_python = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_PYTHON),
                                                    &tgid, &runtimes->python) &&
                runtimes->python.generation == generation;
        runtimes->has_v8 = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_V8), &tgid,
                                                &runtimes->v8) &&
                runtimes->v8.generation == generation;
        runtimes->has_php = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_PHP), &tgid,
                                                 &runtimes->php) &&
                runtimes->php.generation == generation;
        runtimes->has_ruby = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_RUBY), &tgid,
                                                  &runtimes->ruby) &&
                runtimes->ruby.generation == generation;
        runtimes->has_beam = !bpf_map_lookup_elem(kernel_half_runtime_fd(half, RUNTIME_HAS_BEAM), &tgid,
                                                  &runtimes->beam) &&
                runtimes->beam.generation == generation;
}

/* Our own thread has just been given a CPU, as it has slept. */
static void take_own(ThreadsLook *look, const struct abi_thread *thread) {
        look->scheduler_ns = MAX(look->scheduler_ns, thread->arrival_ns);
}

static int keep(ThreadsLook *look, size_t *roomp, const struct abi_thread *thread) {
        int r;

        if (look->n >= KERNEL_THREADS_MAX) {
                look->n_over_cap++;
                return 0;
        }
        r = array_reserve(&look->threads, roomp, look->n + 1, READ_RECORDS);
        if (!r)
                look->threads[look->n++] = *thread;
        return r;
}

static int compare(const void *a, const void *b) {
        const struct abi_thread *x = a, *y = b;

        return x->tgid != y->tgid ? (x->tgid > y->tgid) - (x->tgid < y->tgid)
                                  : (x->tid > y->tid) - (x->tid < y->tid);
}

/* The kernel hands out whole records, and ends with 0 bytes. */
static int read_all(const KernelThreads *threads, int fd, ThreadsLook *look) {
        static struct abi_thread records[READ_RECORDS];
        size_t room = 0;
        ssize_t n;
        int r = 0;

        while (!r && (n = read(fd, records, sizeof(records))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 || n % (ssize_t)sizeof(*records))
                        return error_origin(n < 0 ? -errno : -EBADMSG);
                for (size_t i = 0; i < (size_t)n / sizeof(*records) && !r; i++) {
                        if (records[i].tgid == threads->self_tgid)
                                take_own(look, &records[i]);
                        else
                                r = keep(look, &room, &records[i]);
                }
        }
        return r;
}

int kernel_threads_look(KernelThreads *threads, ThreadsLook *look) {
        const struct timespec moment = { .tv_nsec = 100000 };
        _cleanup_(closep) int fd = bpf_iter_create(bpf_link__fd(threads->link));
        int r;

        *look = (ThreadsLook){ 0 };
        if (fd < 0)
                return error_origin(-errno);
        nanosleep(&moment, NULL);
        r = read_all(threads, fd, look);
        if (r) {
                free(look->threads);
                *look = (ThreadsLook){ 0 };
                return r;
        }
        if (look->n)
                qsort(look->threads, look->n, sizeof(*look->threads), compare);
        return 0;
}
