/* SPDX-License-Identifier: Apache-2.0 */

/*
 * All maps of the object that the sampler's object has are the sampler's: rows, contexts, counters and the ring.
 * Working memory of a CPU is its own: with PREEMPT_RT a tick may come while it is in use (bpf/crash.bpf.c).
 */

#include "host/sampling/sample/kernel-crashes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "crash.skel.h"
#include "host/sampling/sample/machine.h"

struct KernelCrashes {
        struct crash_bpf *skeleton;
};

static bool is_own(const struct bpf_map *map) {
        const char *name = bpf_map__name(map);

        return !strcmp(name, "crashed") ||
                (bpf_map__type(map) == BPF_MAP_TYPE_PERCPU_ARRAY && strcmp(name, "counters"));
}

int kernel_crashes_new(KernelCrashes **crashesp, const KernelHalf *half, const SamplerConfig *config) {
        _cleanup_(kernel_crashes_freep) KernelCrashes *crashes = calloc(1, sizeof(*crashes));
        LIBBPF_OPTS(bpf_object_open_opts, options);
        _cleanup_(closep) int types = -1;
        char path[32];
        int r;

        if (!crashes)
                return error_origin(-ENOMEM);
        options.btf_custom_path = kernel_half_open_types(config->btf_path, &types, path, sizeof(path));
        crashes->skeleton = crash_bpf__open_opts(&options);
        if (!crashes->skeleton)
                return kernel_half_refuse("open the kernel half of --crashes", -errno);
        crashes->skeleton->rodata->setting_depth = config->depth;
        crashes->skeleton->rodata->setting_namespace = kernel_half_namespace(half);
        r = kernel_half_join(half, crashes->skeleton->obj, NULL, is_own);
        if (r)
                return r;
        r = crash_bpf__load(crashes->skeleton);
        if (r)
                return kernel_half_refuse("load the kernel half of --crashes (BPF)", r);
        *crashesp = take(crashes);
        return 0;
}

KernelCrashes *kernel_crashes_free(KernelCrashes *crashes) {
        if (!crashes)
                return NULL;
        crash_bpf__destroy(crashes->skeleton);
        free(crashes);
        return NULL;
}

int kernel_crashes_attach(KernelCrashes *crashes) {
        struct crash_bpf *skeleton = crashes->skeleton;

        if (skeleton->links.crash)
                return 0;
        skeleton->links.crash = bpf_program__attach(skeleton->progs.crash);
        return skeleton->links.crash ? 0 : kernel_half_refuse("watch signals", -errno);
}

void kernel_crashes_detach(KernelCrashes *crashes) {
        bpf_link__destroy(crashes->skeleton->links.crash);
        crashes->skeleton->links.crash = NULL;
}

size_t kernel_crashes_map_bytes(const KernelCrashes *crashes) {
        const struct bpf_map *map;
        size_t sum = 0;

        bpf_object__for_each_map(map, crashes->skeleton->obj)
                if (is_own(map))
                        sum += machine_memlock(bpf_map__fd(map));
        return sum;
}
