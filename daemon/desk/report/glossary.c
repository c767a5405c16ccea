/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has a table of the reasons for which stacks end, with a term and a meaning for each, and a table of terms
 * for each form of report.
 */

#include "desk/report/glossary.h"

#include <string.h>

#include "core/base/util/macro.h"

typedef struct End {
        const char *reason, *words, *meaning;
} End;

static const End ends[] = {
        { "no_mapping", "code of no known file",
          "The walk came to an address that no file of the process covers." },
        { "no_rows", "code without unwind information",
          "The function has no call frame information: start-up code, assembly, or a file that could not be read." },
        { "fault", "unreadable memory", "A part of the stack was not in memory at that moment." },
        { "bad_cfa", "a frame that leads nowhere", "The next frame would lie below the one before." },
        { "unsupported", "an unknown unwind rule or 32-bit code",
          "The call frame information uses a rule that the walk does not know, or the code is of 32 bits: of that, "
          "callers are known by frame pointers alone, as far as each function keeps one." },
        { "depth", "more frames than are kept", "The stack is deeper than the limit; --depth of `record` and `run` raises it." },
        { "fp_end", "the end of frame pointers",
          "The code has no unwind information, and its frame pointers ended: -fno-omit-frame-pointer helps." },
        { "stale", "tables that changed meanwhile", "The process changed its mappings during the walk." },
        { "internal", "a fault of spanprof", "An error of ours: please report it." },
        { "pending", "tables that were not loaded yet", "A process or a library was new, and its unwind tables came later." },
        { "long", "a stack longer than its copy", "The stack was copied to be walked later, and is longer than the copy." },
        { "malformed", "a word that is no address", "Where an address should stand stands something else." },
        { "runtime", "code of a runtime", "The runtime does not describe this place in its own code." },
        { "unproved", "code that may keep no frame pointer",
          "The code was made at run time, and the frame pointer may be that of one of its callers: an option of its "
          "compiler may keep one." },
};

static const End *find_end(const char *reason) {
        for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
                if (!strcmp(ends[i].reason, reason))
                        return &ends[i];
        return NULL;
}

const char *glossary_end(const char *reason) {
        const End *end = find_end(reason);

        return end ? end->words : reason;
}

const char *glossary_explain_end(const char *reason) {
        const End *end = find_end(reason);

        return end ? end->meaning : NULL;
}

void glossary_explain_report(const Sheet *sheet) {
        static const char *const terms[][2] = {
                { "self", "what was measured in the function itself" },
                { "total", "what was measured in the function and in all that it calls" },
                { "with span", "the part whose thread worked for a span of your tracing" },
                { "coroutine", "the part that ran in a coroutine" },
                { "incomplete", "the part whose stack ends before the thread's first function, and where it ends" },
                { "one every", "the time between two samples, which is the time that each stands for" },
                { "off_cpu", "time that threads waited; off_cpu_waker: the same under the stacks of who ended it" },
                { "page_faults", "times that a thread met a page of memory that was not there yet: memory grows so" },
                { "alloc_space", "bytes that were allocated, freed or not; alloc_objects: how many allocations; inuse_space: what is not freed yet" },
                { "about", "bytes of anonymous memory: pages of the usual size, one for each fault" },
                { "goroutines", "goroutines that waited, once for each second in which they did" },
                { "crashes", "last stacks of processes that a signal has ended" },
                { "blocked", "a wait until its end; runnable: what the thread then waited for a CPU" },
                { "ended by", "who ended the wait, and behind it in which function" },
                { "object", "the program, library or kernel that the function is in" },
                { "build id", "the number that tells one build of a file from all others" },
                { "names", "where functions of the file got their names, or why they have none" },
        };

        sheet_title(sheet, "What the words mean");
        for (size_t i = 0; i < ARRAY_SIZE(terms); i++)
                sheet_fact(sheet, SHEET_INDENT, terms[i][0], "%s", terms[i][1]);
}

void glossary_explain_diff(const Sheet *sheet) {
        static const char *const terms[][2] = {
                { "change", "share after minus share before, in points of the whole: 10 % → 12 % is +2.0" },
                { "before", "what was measured before, and its share of all that was measured then" },
                { "after", "the same after" },
                { "function", "matched by its name and the name of its file, without folders" },
        };

        sheet_title(sheet, "What the words mean");
        for (size_t i = 0; i < ARRAY_SIZE(terms); i++)
                sheet_fact(sheet, SHEET_INDENT, terms[i][0], "%s", terms[i][1]);
}

bool glossary_is_system_library(const char *path) {
        static const char *const names[] = { "libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "[kernel",
                                             "[vdso]", "libstdc++" };
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!strncmp(name, names[i], strlen(names[i])))
                        return true;
        return false;
}
