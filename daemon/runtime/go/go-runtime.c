/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/go/go-runtime.h"

#include <stdio.h>

#include "base/elf/machine.h"
#include "runtime/go/go-layout.h"
#include "runtime/go/go-program.h"

static bool recognises(int fd, uint64_t size, char says[OBJECT_MAX_SAYS]) {
        return go_program_is(&(GoInput){ .fd = fd, .size = size });
}

static int refuse(char text[RUNTIMES_MAX_TEXT], const GoProgram *program, const char *why) {
        snprintf(text, RUNTIMES_MAX_TEXT, "%s: labels are not read: %s",
                 program && *program->version ? program->version : "go", why);
        return RUNTIME_E_UNKNOWN;
}

static int attach(RuntimeSubject *subject, void **statep, void *entry, char text[RUNTIMES_MAX_TEXT]) {
        struct go_process *process = entry;
        GoProgram program;

        if (!go_program_read(&(GoInput){ .fd = subject->fd, .size = subject->size }, &program))
                return refuse(text, NULL, "its file was changed");
        if (ELF_MACHINE != EM_X86_64)
                return refuse(text, &program, "goroutines are known on x86-64 only");
        if (!program.minor)
                return refuse(text, &program, "the version is not told");
        if (!go_layout(program.minor, process))
                return refuse(text, &program, "layout of goroutines unknown");
        if (program.tls == GO_TLS_UNKNOWN)
                return refuse(text, &program, "no place of goroutines found in a stripped program with C");
        process->generation = subject->generation;
        process->tls_offset = program.tls_offset;
        snprintf(text, RUNTIMES_MAX_TEXT, "%s: labels of goroutines", program.version);
        return 0;
}

const RuntimeOps go_runtime = {
        .name = "go",
        .frame_type = "go",
        .entry_size = sizeof(struct go_process),
        .bit = RUNTIME_HAS_GO,
        .recognises = recognises,
        .attach = attach,
};
