/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All maps of the object that the sampler's object has are the sampler's: rows, contexts, counters and the
 * ring. Working memory of a CPU is its own: with PREEMPT_RT a tick may come while it is in use
 * (bpf/crash.bpf.c), and at a probe always. So each of the two copies has one program and its maps.
 *
 * The kernel lets CAP_SYS_ADMIN alone open events of probes, which the daemon has given up. From Linux 6.6 on
 * a link of BPF does the same without an event. Headers and libraries of the build may be older: it is
 * written down here.
 */

#include "host/sampling/sample/kernel-events.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "crash.skel.h"
#include "host/sampling/sample/machine.h"

enum {
        LINK_CREATE = 28,               /* include/uapi/linux/bpf.h */
        TRACE_UPROBE_MULTI = 48,
};

/* The kernel's union bpf_attr, for such a link. */
struct link_attr {
        uint32_t program, target, kind, flags;
        uint64_t path, offsets, semaphores, cookies;
        uint32_t n, more_flags, pid, reserved;
};

/* A probe that is attached to, by either way. */
typedef struct ProbeLink {
        struct bpf_link *event;         /* NULL = none */
        int fd;                         /* 0 = none: it is never that of a link */
} ProbeLink;

struct KernelEvents {
        struct crash_bpf *skeleton;
        ProbeLink probes[ALLOC_MAX_PROBES];
};

static bool has_probe_links(void) {
        return machine_version() >= MACHINE_VERSION(6, 6);
}

static const char *const of_crashes[] = { "crashed", "crash_budgets" };
static const char *const of_allocations[] = { "alloc_probes", "alloc_budgets", "alloc_states", "free_losses" };

static bool is_among(const char *name, const char *const names[], size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!strcmp(name, names[i]))
                        return true;
        return false;
}

static bool is_own(const struct bpf_map *map) {
        const char *name = bpf_map__name(map);

        return is_among(name, of_crashes, ARRAY_SIZE(of_crashes)) ||
                is_among(name, of_allocations, ARRAY_SIZE(of_allocations)) ||
                (bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY && strcmp(name, "counters"));
}

/* The program that runs at a probe. */
static struct bpf_program *program_of(const struct crash_bpf *skeleton, bool is_free) {
        return is_free ? skeleton->progs.freed : skeleton->progs.allocation;
}

/* Leaves out the other kind. */
static void choose(struct crash_bpf *skeleton, KernelEventsKind kind) {
        const bool is_crashes = kind == KERNEL_EVENTS_CRASHES;
        struct bpf_map *map;

        bpf_program__set_autoload(skeleton->progs.crash, is_crashes);
        for (int is_free = 0; is_free < 2; is_free++) {
                struct bpf_program *program = program_of(skeleton, is_free);

                bpf_program__set_autoload(program, !is_crashes);
                if (has_probe_links())
                        bpf_program__set_expected_attach_type(program,
                                                              (enum bpf_attach_type)TRACE_UPROBE_MULTI);
        }
        bpf_object__for_each_map(map, skeleton->obj)
                if (is_crashes ? is_among(bpf_map__name(map), of_allocations, ARRAY_SIZE(of_allocations))
                               : is_among(bpf_map__name(map), of_crashes, ARRAY_SIZE(of_crashes)))
                        bpf_map__set_autocreate(map, false);
}

int kernel_events_new(KernelEvents **eventsp, KernelEventsKind kind, const KernelHalf *half,
                      const SamplerConfig *config) {
        static const char *const what[][2] = {
                [KERNEL_EVENTS_CRASHES] = { "open the kernel half of --crashes",
                                            "load the kernel half of --crashes (BPF)" },
                [KERNEL_EVENTS_ALLOCATIONS] = { "open the kernel half of --allocations",
                                                "load the kernel half of --allocations (BPF)" },
        };
        _cleanup_(kernel_events_freep) KernelEvents *events = calloc(1, sizeof(*events));
        LIBBPF_OPTS(bpf_object_open_opts, options);
        _cleanup_(closep) int types = -1;
        char path[32];
        int r;

        if (!events)
                return error_origin(-ENOMEM);
        options.btf_custom_path = kernel_half_open_types(config->btf_path, &types, path, sizeof(path));
        events->skeleton = crash_bpf__open_opts(&options);
        if (!events->skeleton)
                return kernel_half_refuse(what[kind][0], -errno);
        events->skeleton->rodata->setting_depth = config->depth;
        events->skeleton->rodata->setting_namespace = kernel_half_namespace(half);
        choose(events->skeleton, kind);
        r = kernel_half_join(half, events->skeleton->obj, NULL, is_own);
        if (r)
                return r;
        r = crash_bpf__load(events->skeleton);
        if (r)
                return kernel_half_refuse(what[kind][1], r);
        *eventsp = take(events);
        return 0;
}

KernelEvents *kernel_events_free(KernelEvents *events) {
        if (!events)
                return NULL;
        for (uint32_t i = 0; i < ALLOC_MAX_PROBES; i++)
                kernel_events_detach_probe(events, i);
        crash_bpf__destroy(events->skeleton);
        free(events);
        return NULL;
}

int kernel_events_attach_crashes(KernelEvents *events) {
        struct crash_bpf *skeleton = events->skeleton;

        if (skeleton->links.crash)
                return 0;
        skeleton->links.crash = bpf_program__attach(skeleton->progs.crash);
        return skeleton->links.crash ? 0 : kernel_half_refuse("watch signals", -errno);
}

void kernel_events_detach_crashes(KernelEvents *events) {
        bpf_link__destroy(events->skeleton->links.crash);
        events->skeleton->links.crash = NULL;
}

static int attach_link(const KernelEvents *events, uint32_t index, const char *path, const ProbeNote *note) {
        const uint64_t offset = note->offset, semaphore = note->semaphore, cookie = index;
        const struct link_attr attr = {
                .program = (uint32_t)bpf_program__fd(program_of(events->skeleton, note->is_free)),
                .kind = TRACE_UPROBE_MULTI,
                .path = (uintptr_t)path,
                .offsets = (uintptr_t)&offset,
                .semaphores = semaphore ? (uintptr_t)&semaphore : 0,
                .cookies = (uintptr_t)&cookie,
                .n = 1,
        };
        int fd = (int)syscall(SYS_bpf, LINK_CREATE, &attr, sizeof(attr));

        return fd < 0 ? -errno : fd;
}

/* The kernel follows the path to the very file whose note the daemon has read. */
int kernel_events_attach_probe(KernelEvents *events, uint32_t index, int fd, const ProbeNote *note) {
        LIBBPF_OPTS(bpf_uprobe_opts, options, .bpf_cookie = index, .ref_ctr_offset = note->semaphore);
        ProbeLink *link = &events->probes[index];
        char path[32];
        int r = bpf_map__update_elem(events->skeleton->maps.alloc_probes, &index, sizeof(index),
                                     &note->probe, sizeof(note->probe), BPF_ANY);

        if (r)
                return r;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        if (has_probe_links()) {
                r = attach_link(events, index, path, note);
                link->fd = MAX(r, 0);
                return MIN(r, 0);
        }
        link->event = bpf_program__attach_uprobe_opts(program_of(events->skeleton, note->is_free), -1, path,
                                                      note->offset, &options);
        return link->event ? 0 : -errno;
}

void kernel_events_detach_probe(KernelEvents *events, uint32_t index) {
        ProbeLink *link = &events->probes[index];

        bpf_link__destroy(link->event);
        if (link->fd)
                close(link->fd);
        *link = (ProbeLink){ 0 };
}

uint64_t kernel_events_lost_frees(const KernelEvents *events, uint32_t tgid, uint64_t start_time_ns) {
        struct alloc_losses losses;

        if (bpf_map__lookup_elem(events->skeleton->maps.free_losses, &tgid, sizeof(tgid), &losses,
                                 sizeof(losses), 0) || losses.start_time_ns != start_time_ns)
                return 0;
        return losses.n;
}

void kernel_events_forget_frees(KernelEvents *events, uint32_t tgid) {
        (void)bpf_map__delete_elem(events->skeleton->maps.free_losses, &tgid, sizeof(tgid), 0);
}

size_t kernel_events_map_bytes(const KernelEvents *events) {
        const struct bpf_map *map;
        size_t sum = 0;

        bpf_object__for_each_map(map, events->skeleton->obj)
                if (is_own(map) && bpf_map__fd(map) >= 0)
                        sum += machine_memlock(bpf_map__fd(map));
        return sum;
}
