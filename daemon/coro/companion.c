/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/companion.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "coro/trace-mappings.h"
#include "coro/trace-stations.h"
#include "util/error.h"
#include "util/text.h"

static const struct { const char *ending, *first; } kinds[N_COMPANIONS] = {
        [COMPANION_STATIONS] = { "stations", TRACE_STATIONS_COLUMNS },
        [COMPANION_MAPPINGS] = { "mappings", TRACE_MAPPINGS_COLUMNS },
};

int companion_name(const char *trace, Companion which, char **namep) {
        const char *dot = strrchr(trace, '.');

        *namep = NULL;
        if (!dot || !strcmp(trace, "-"))
                return 0;
        if (asprintf(namep, "%.*s.%s.csv", (int)(dot - trace), trace, kinds[which].ending) >= 0)
                return 0;
        *namep = NULL;
        return error_origin(-ENOMEM);
}

/* t.jsonl and t.csv have one name for it, and whoever converts one to the other reads the old one: so it is a new file. */
int companion_create(const char *name, Companion which, mode_t mode, FILE **filep) {
        _cleanup_(closep) int fd = -1;
        FILE *file;

        unlink(name);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        file = fd < 0 ? NULL : fdopen(fd, "w");
        if (!file)
                return COMPANION_E_FAILED;
        take_fd(fd);
        fprintf(file, "%s\n", kinds[which].first);
        *filep = file;
        return 0;
}

/* Beside a trace of a stranger may lie anything: a pipe would be waited for. */
static FILE *open_old(const char *name) {
        _cleanup_(closep) int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        struct stat st;
        FILE *file;

        if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
                return NULL;
        file = fdopen(fd, "r");
        if (file)
                take_fd(fd);
        return file;
}

int companion_read(const char *trace, Companion which, int (*func)(void *userdata, const char *line, size_t size), void *userdata) {
        _cleanup_(freep) char *name = NULL, *line = NULL;
        FILE *file;
        int r = companion_name(trace, which, &name);
        bool first = true, whole = true;

        if (r)
                return r;
        file = name ? open_old(name) : NULL;
        if (!file)
                return COMPANION_E_NONE;
        line = malloc(TRACE_MAPPING_LINE);
        if (!line)
                r = error_origin(-ENOMEM);
        while (!r && fgets(line, TRACE_MAPPING_LINE, file)) {
                size_t size = strcspn(line, "\n");
                bool begins = whole;

                whole = line[size] == '\n' || feof(file);
                if (begins && !first)
                        r = func(userdata, whole ? line : "", whole ? size : 0);
                first = first && !whole;
        }
        fclose(file);
        return r;
}

bool companion_number(const char *cell, size_t size, bool hex, uint64_t *valuep) {
        char copy[24];

        if (!size || size >= sizeof(copy))
                return false;
        memcpy(copy, cell, size);
        copy[size] = 0;
        if (!hex)
                return !text_u64(copy, UINT64_MAX, valuep);
        return size > 2 && copy[0] == '0' && copy[1] == 'x' && !text_hex(copy + 2, copy + size, valuep);
}
