/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Compares the first bytes with a table of formats that are no profiles.
 */

#include "desk/convert/foreign.h"

#include <string.h>

#include "core/base/util/macro.h"

enum { HEAD = 4096 };

static const struct {
        const char *bytes;
        size_t size;
        const char *name;
} starts[] = {
#define START(_bytes, _name) { _bytes, sizeof(_bytes) - 1, _name }
        START("PERFILE2", "a recording of perf; what `perf script` makes of it is read"),
        START("\177ELF", "a program, a library or a core dump (ELF); `spanprof record -- PROGRAM` profiles one"),
        START("\211PNG", "a picture; of what spanprof writes for people, only pages (.html) have the data in them"),
        START("PK\003\004", "an archive (ZIP or JAR)"),
        START("\312\376\272\276", "a class of Java"),
        START("JAVA PROFILE ", "a heap dump of Java"),
        START("%PDF", "a document (PDF)"),
};

static bool has_word(const char *head, size_t size, const char *word) {
        return memmem(head, size, word, strlen(word)) != NULL;
}

static bool is_text(const char *head, size_t size) {
        for (size_t i = 0; i < size; i++)
                if ((unsigned char)head[i] < ' ' && !strchr("\t\n\r", head[i]))
                        return false;
        return size && !memchr(head, 0, size);
}

/* JSON of profiles has a better message: where its mistake is. */
static const char *text_name(const char *head, size_t size) {
        char first = head[strspn(head, " \t\r\n")];

        if (has_word(head, size, "\"nodes\"") && has_word(head, size, "\"callFrame\""))
                return "a CPU profile of V8 (.cpuprofile), a form that is not read";
        if (has_word(head, size, "<svg"))
                return "a picture (SVG); of what spanprof writes for people, only pages (.html) have the data in them";
        if (first == '{' || first == '[' || first == '<')
                return NULL;
        return "text; folded stacks, which are read, have lines as `main;work 12`";
}

const char *foreign_name(const Source *source) {
        char head[HEAD + 1];
        size_t n = source_read(source, head, HEAD, 0);

        head[n] = 0;
        for (size_t i = 0; i < ARRAY_SIZE(starts); i++)
                if (n >= starts[i].size && !memcmp(head, starts[i].bytes, starts[i].size))
                        return starts[i].name;
        return is_text(head, n) ? text_name(head, n) : NULL;
}
