/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The verifier follows a runtime's walk for as long as all the rest of the kernel half together, and a host
 * without runtimes would pay that at each start. So bpf/sampler.bpf.c is loaded in two parts:
 *
 *     loop                               thread "runtime-walk"               each CPU's tick
 *     start: load(sample)                                                    sample: rows
 *     libjvm.so in a process: want ────▶ load(sample_runtimes), with the     sample: rows
 *     ring drained, windows closed…      maps that are there
 *                                        runtime_sampler[0] = it
 *                                        runtimes_on = 1 ──────────────────▶ sample ─▶ sample_runtimes
 *     attached: its entry in the map                                         …over Java
 *
 * The load may take 100 ms on a slow machine, in which the rings would not be read: hence the thread. Both
 * parts are programs of one object, and the second one is verified against the same maps, with the same
 * constants. A runtime that is there at the start is wanted before the first tick, and waited for
 * (sampler_start). Once on, it stays: what came once comes again.
 *
 * Where the kernel refuses the second part, runtimes are walked natively, as on a host where none is known,
 * and each such process says so (host/sampling/runtime/). So it is where our control group has no room for
 * what the verifier takes meanwhile: the kernel would kill the daemon. The group may use less later, so who
 * wants the walk then has the room looked at again.
 */

#include "host/sampling/sample/runtime-walk.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"

/* Memory that the verifier was seen to take for a load, and some more (Linux 6.18: 26 MiB). */
#define LOAD_BYTES (UINT64_C(32) << 20)
#define LEAST_LIMIT (UINT64_C(64) << 20)        /* limit with which a daemon with a walk can do */
#define RETRY_NS (30 * NS_PER_SEC)              /* from one look at the room to the next */

struct RuntimeWalk {
        KernelHalf *half;
        Thread *thread;                 /* NULL = not begun, or collected */
        int result;                     /* the thread's; a negative code of the loader */
        uint64_t begin_ns, took_ns;
        uint64_t looked_ns;             /* when there was no room; 0 = not so yet */
        enum runtime_walk state;
};

int runtime_walk_new(RuntimeWalk **walkp, KernelHalf *half) {
        RuntimeWalk *walk = calloc(1, sizeof(*walk));

        if (!walk)
                return error_origin(-ENOMEM);
        walk->half = half;
        *walkp = walk;
        return 0;
}

RuntimeWalk *runtime_walk_free(RuntimeWalk *walk) {
        if (!walk)
                return NULL;
        thread_join(walk->thread);
        free(walk);
        return NULL;
}

static void load(void *userdata) {
        RuntimeWalk *walk = userdata;

        walk->result = kernel_half_load_runtimes(walk->half);
        walk->took_ns = clock_monotonic_ns() - walk->begin_ns;
}

static void finish(RuntimeWalk *walk) {
        char text[128];

        walk->state = walk->result ? RUNTIME_WALK_REFUSED : RUNTIME_WALK_ON;
        if (!walk->result)
                log_debug("the walk over runtimes' frames was loaded in %llu ms",
                          (unsigned long long)(walk->took_ns / NS_PER_MS));
        else
                log_warning(
                        "frames of runtimes are not walked: this kernel cannot load the walk over them (%s); log-level = debug shows its reasons",
                        kernel_half_error_text(walk->result, text, sizeof(text)));
}

/* Without a thread the loop loads: its rings are large enough for that once. */
static void begin(RuntimeWalk *walk) {
        const ThreadConfig config = { .name = "runtime-walk", .run = load, .userdata = walk };

        walk->begin_ns = clock_monotonic_ns();
        walk->state = RUNTIME_WALK_LOADING;
        if (!thread_new(&walk->thread, &config))
                return;
        load(walk);
        finish(walk);
}

/* Advises what is enough for what the group uses now, in steps of 16 MiB. */
static void say_no_room(const SamplerMemory *memory) {
        const uint64_t used = memory->limit - MIN(memory->limit, memory->room), step = 16 << 20,
                       enough = MAX((used + LOAD_BYTES + step - 1) / step * step, LEAST_LIMIT);

        log_warning("frames of runtimes are not walked: to load the walk takes the kernel %" PRIu64 " MiB, and the "
                    "control group uses %" PRIu64 " of its %" PRIu64 " MiB (memory.max). Give it %" PRIu64 " MiB or "
                    "more (MemoryMax= of the unit); programs that start once there is room are walked",
                    LOAD_BYTES >> 20, used >> 20, memory->limit >> 20, enough >> 20);
}

static bool has_room(RuntimeWalk *walk, SamplerReadMemory read, const void *userdata) {
        uint64_t now_ns = clock_monotonic_ns();
        SamplerMemory memory;

        if (!read)
                return true;
        if (walk->looked_ns && now_ns - walk->looked_ns < RETRY_NS)
                return false;
        memory = read(userdata);
        if (memory.room >= LOAD_BYTES)
                return true;
        if (!walk->looked_ns)
                say_no_room(&memory);
        walk->looked_ns = now_ns;
        return false;
}

enum runtime_walk runtime_walk_want(RuntimeWalk *walk, SamplerReadMemory read, const void *userdata) {
        if (walk->state != RUNTIME_WALK_UNWANTED)
                runtime_walk_wait(walk, 0);
        else if (has_room(walk, read, userdata))
                begin(walk);
        else
                return RUNTIME_WALK_REFUSED;
        return walk->state;
}

void runtime_walk_wait(RuntimeWalk *walk, uint64_t end_ns) {
        if (!walk->thread || !thread_wait(walk->thread, end_ns))
                return;
        walk->thread = thread_join(walk->thread);
        finish(walk);
}
