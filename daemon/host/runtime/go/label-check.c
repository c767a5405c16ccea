/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The runtime is attached once, as by `run`, and its list of goroutines is kept; each look then reads some of
 * the list, and goes on behind them in the next one.
 */
#include "host/runtime/go/label-check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "host/runtime/go/go-runtime.h"
#include "host/runtime/go/goroutine-look.h"

enum { MAX_LOOK = 1024 };               /* goroutines of one look */

struct LabelCheck {
        const Process *process;
        WriterRules *rules;
        GoGoroutines where;             /* list 0 = it is not known, or the program is none of Go */
        uint64_t next;
        bool is_attached;
        GoroutineLook look;
};

static int attach_and_keep(RuntimeSubject *subject, void **statep, void *entry,
                           char text[RUNTIMES_MAX_TEXT]) {
        static GoWants wants = { .goroutines = true };
        LabelCheck *check = subject->userdata;
        int r;

        subject->userdata = &wants;
        r = go_runtime.attach(subject, statep, entry, text);
        subject->userdata = check;
        if (!r && *statep)
                check->where = *(const GoGoroutines *)*statep;
        return r;
}

int label_check_new(LabelCheck **checkp, const Process *process, WriterRules *rules) {
        LabelCheck *check = calloc(1, sizeof(*check));

        if (!check)
                return error_origin(-ENOMEM);
        check->process = process;
        check->rules = rules;
        *checkp = check;
        return 0;
}

LabelCheck *label_check_free(LabelCheck *check) {
        free(check);
        return NULL;
}

/* With the first look, whose mappings are known. */
static int attach(LabelCheck *check) {
        _cleanup_(runtimes_freep) Runtimes *runtimes = NULL;
        RuntimeDescription description;
        RuntimeOps ops = go_runtime;
        int r = runtimes_new(&runtimes, NULL, NULL);

        ops.attach = attach_and_keep;
        if (!r)
                r = runtimes_register(runtimes, &ops, -1, check);
        check->is_attached = true;
        return r ? r : runtimes_describe(runtimes, check->process, &description);
}

static int look_at_some(LabelCheck *check) {
        GoroutineLook *look = &check->look;
        int r = 0;

        for (unsigned n = 0; n < MAX_LOOK && !r; n += GOROUTINE_LOOK_BATCH) {
                look->n_wanted = GOROUTINE_LOOK_BATCH;
                for (uint32_t i = 0; i < GOROUTINE_LOOK_BATCH; i++)
                        look->wanted[i] = check->next + i;
                r = goroutine_look(look);
                if (r || look->result || !look->n_read)
                        break;
                for (uint32_t i = 0; i < look->n_read; i++)
                        if (!look->results[i])
                                writer_rules_labels(check->rules, look->found[i].labels,
                                                    look->found[i].labels_size);
                check->next += look->n_read;
                if (check->next >= look->n) {
                        check->next = 0;
                        break;
                }
        }
        return MIN(r, 0);
}

int label_check_look(LabelCheck *check) {
        _cleanup_(closep) int proc = -1, memory = -1, pagemap = -1;
        int r = check->is_attached ? 0 : attach(check);

        if (r || !check->where.list)
                return r;
        if (process_open((pid_t)check->process->pid, check->process->start_time_ns, &proc))
                return 0;
        memory = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
        pagemap = openat(proc, "pagemap", O_RDONLY | O_CLOEXEC);
        if (memory < 0 || pagemap < 0)
                return 0;
        check->look.pid = (pid_t)check->process->pid;
        check->look.memory_fd = memory;
        check->look.pagemap_fd = pagemap;
        check->look.where = check->where;
        return look_at_some(check);
}
