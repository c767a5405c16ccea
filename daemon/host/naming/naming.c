/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way of two names. A target runs parse() of /usr/lib/libfoo.so, and a function that its JIT has made:
 *
 *     t = 0 s   sample: frame libfoo.so + 0x1200       object-names.c: not known → a job for the thread
 *               sample: frame 0x7f31c0001040, no file  code-names.c: not known → a look at the target's files
 *     + 50 ms   A thread (name-job.c, thread/worker.h) opens libfoo.so as the target maps it, also in a
 *               container or deleted. A worker without rights reads its symbols (symbol-session.c).
 *               Another thread reads on in /tmp/perf-PID.map from where its last look ended. A worker
 *               without rights reads the lines; the ranges go into an index (core/symbol/jit/code-index.c).
 *     t = 1 s   sample: frame 0x7f31c0001040           known: the stack gets the name while it is made
 *     t = 5 s   the window is closed                   libfoo.so + 0x1200 becomes "parse", in all its stacks
 *
 * The two kinds differ in when a name is given. A function in a file keeps its address. So frames take their
 * names when the window is closed, and a late answer serves the next window. Code of a JIT moves: the same
 * memory may hold another function a moment later. So a stack is named while it is made, by the code that was
 * there at the time of its sample, and the count of changes to that code is part of the key of the cache of
 * stacks. Such a name may come a second late. Until then the frame has the name of the earlier code, or none.
 *
 * A thread that hangs (a file on FUSE) is left behind with its job after time_limit_ns, and a new one goes
 * on. Without `symbols = local` and without targets that run in memory without a file, no thread exists.
 */
#include "host/naming/naming.h"

#include <errno.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "host/naming/code-names.h"
#include "host/naming/late-names.h"
#include "host/naming/name-job.h"
#include "host/naming/object-names.h"

struct Naming {
        ObjectNames *objects;           /* NULL = not wanted */
        CodeNames *code;                /* NULL = not wanted */
        /* NULL = not wanted */
        int (*see)(void *userdata, const Process *process, const Mapping *mapping);
        void *userdata;
};

int naming_new(Naming **namingp, const NamingConfig *config) {
        _cleanup_(naming_freep) Naming *naming = calloc(1, sizeof(*naming));
        const ObjectNamesLimits objects = { .time_limit_ns = config->time_limit_ns };
        const CodeNamesLimits code = { .time_limit_ns = config->time_limit_ns, .keep_roots = config->late };
        int r = 0;

        if (!naming)
                return error_origin(-ENOMEM);
        naming->see = config->see;
        naming->userdata = config->userdata;
        if (config->objects)
                r = object_names_new(&naming->objects, &objects, config->zygotes);
        if (!r && config->objects)
                object_names_set_remote(naming->objects, &config->remote);
        if (!r && config->objects && config->lines)
                r = object_names_want_lines(naming->objects);
        if (!r && config->code)
                r = code_names_new(&naming->code, &code, config->zygotes);
        if (r)
                return error_fold(r);
        if (naming->code)
                code_names_set_made(naming->code, config->made, config->made_userdata);
        *namingp = take(naming);
        return 0;
}

Naming *naming_free(Naming *naming) {
        if (!naming)
                return NULL;
        object_names_free(naming->objects);
        code_names_free(naming->code);
        free(naming);
        return NULL;
}

/* ---- while stacks are made ---- */

static int name_code(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                     const char **namep, size_t *sizep, bool *is_pastp) {
        static const enum counter counters[] = {
                COUNTER_CODE_FRAMES_NAMED,
                [CODE_NAMES_E_NONE] = COUNTER_CODE_FRAMES_NONE,
                [CODE_NAMES_E_LATER] = COUNTER_CODE_FRAMES_LATER,
        };
        Naming *naming = userdata;
        uint64_t start;
        int r = code_names_find(naming->code, process, address, time_ns, namep, sizep, &start, is_pastp);

        if (r < 0)
                return error_fold(r);
        stat_add(counters[r], 1);
        return r == CODE_NAMES_E_NONE ? FRAMES_E_UNNAMED : r == CODE_NAMES_E_LATER ? FRAMES_E_LATER : 0;
}

static int code_start(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                      uint64_t *startp) {
        Naming *naming = userdata;
        const char *name;
        bool is_past = false;
        size_t size;
        int r = code_names_find(naming->code, process, address, time_ns, &name, &size, startp, &is_past);

        if (r < 0)
                return error_fold(r);
        return r == CODE_NAMES_E_LATER ? FRAMES_E_LATER : r || is_past ? FRAMES_E_UNNAMED : 0;
}

static int code_serial(void *userdata, const Process *process, uint64_t *serialp) {
        Naming *naming = userdata;
        int r = code_names_serial(naming->code, process, serialp);

        return r ? error_fold(r) : 0;
}

static int want_names(void *userdata, const Window *window, const Process *process, const FileFrame *frames,
                      size_t n) {
        Naming *naming = userdata;
        int r = 0;

        for (size_t i = 0; i < n && naming->see && !r; i++)
                r = naming->see(naming->userdata, process, frames[i].mapping);
        if (!r && naming->objects)
                r = object_names_want(naming->objects, window, process, frames, n);
        return r ? error_fold(r) : 0;
}

FramesNaming naming_hooks(Naming *naming) {
        return (FramesNaming){ .code = naming->code ? name_code : NULL,
                               .start = naming->code ? code_start : NULL,
                               .serial = naming->code ? code_serial : NULL,
                               .files = naming->objects || naming->see ? want_names : NULL,
                               .userdata = naming };
}

/* ---- between samples, and at the end of a window ---- */

int naming_work(Naming *naming, bool sends_all, uint64_t left_ns, uint64_t told_ns) {
        int r = 0;

        if (naming->objects)
                r = object_names_work(naming->objects, sends_all, left_ns);
        if (!r && naming->code)
                r = code_names_work(naming->code, told_ns);
        return r ? error_fold(r) : 0;
}

int naming_window(Naming *naming, Window *window, uint64_t told_ns) {
        uint64_t begin_ns = clock_monotonic_ns();
        int r = naming_work(naming, true, UINT64_MAX, told_ns);

        if (!r && naming->objects)
                r = object_names_apply(naming->objects, window);
        if (!r && naming->objects)
                object_names_count(naming->objects, window);
        stat_add(COUNTER_STAGE_NAMING_NS, clock_monotonic_ns() - begin_ns);
        return r ? error_fold(r) : 0;
}

int naming_wait(Naming *naming, uint64_t end_ns) {
        int r = naming->objects ? object_names_wait(naming->objects, end_ns) : 0;

        if (naming->code)
                code_names_wait(naming->code, end_ns);
        return r ? error_fold(r) : 0;
}

int naming_note(Naming *naming, const Process *process) {
        int r = naming->code ? code_names_note(naming->code, process) : 0;

        return r ? error_fold(r) : 0;
}

int naming_late(Naming *naming, Window *window, uint64_t end_ns, uint32_t *n_namedp) {
        int r;

        *n_namedp = 0;
        if (!naming->code || !code_names_n_processes(naming->code))
                return 0;
        r = code_names_look_again(naming->code);
        if (r)
                return error_fold(r);
        code_names_wait(naming->code, end_ns);
        r = late_names_apply(naming->code, window, n_namedp);
        return r ? error_fold(r) : 0;
}

NamingState naming_state(const Naming *naming) {
        NamingState state = { .objects = naming->objects, .code = naming->code };

        if (naming->objects) {
                state.n_waiting = object_names_n_waiting(naming->objects);
                state.memory = object_names_memory(naming->objects);
                state.table_bytes = object_names_table_bytes(naming->objects);
                state.max_table_bytes = NAME_MAX_TABLE_BYTES;
        }
        if (naming->code) {
                state.n_processes = code_names_n_processes(naming->code);
                state.memory += code_names_memory(naming->code);
        }
        return state;
}
