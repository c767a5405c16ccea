/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A trace t.jsonl or t.csv holds events alone, one a line, as the tools of coroTracer's users read it. Two
 * more tables lie in side files, as CSV, each named after the trace without its ending (and without .gz, .zst
 * …):
 *
 *      t.jsonl             {"probe_id":94163098054944,"tid":32614,…,"station":0,"event":0,…}
 *      t.stations.csv      pid,station,probe_id,birth,dead,torn,corrupt,read,lost,…
 *                          0,0,94163098054944,8569294269531,1,0,0,42,0,…
 *      t.mappings.csv      process,pid,start,end,elf_address,build_id_gnu,…
 *                          8569296211979,32611,0x55a409b5d000,0x55a409b5e845,0x2000,a473591b3486740754e0…
 *
 * Side files stay, although a database holds the same tables in one file (trace-db.c), for three reasons.
 * JSON lines and CSV need no library and are readable up to the last line while they are written and after a
 * crash. Lines of another kind among the events would be errors to every other reader of the form. And
 * scripts name these two files. The price is that a file may be missing, or be of another trace: readers
 * check that (trace-side-files.c).
 *
 * One name serves t.jsonl and t.csv. So a new side file has no name until it is whole: `convert t.jsonl -o
 * t.csv` reads the old one while it writes. Only a file that begins as a side file does is replaced. Side
 * files are opened as all outputs are (outfile.h).
 */

#include "coro/trace/side-file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util/error.h"
#include "base/util/file.h"
#include "base/util/macro.h"
#include "coro/trace/trace-rows.h"

/* start: the beginning of the first line, the same in all versions. */
static const struct { const char *ending, *first, *start; } kinds[N_SIDE_FILES] = {
        [SIDE_FILE_STATIONS] = { "stations", TRACE_STATIONS_COLUMNS, "pid,station,probe_id," },
        [SIDE_FILE_MAPPINGS] = { "mappings", TRACE_MAPPINGS_COLUMNS, "process,pid,start,end," },
};

/* Endings of programs that pack; the first is that of none. */
static const char *const packings[] = { "", ".gz", ".zst", ".lz4", ".xz" };

/* Size of the name without the ending of a program that packs. */
static size_t unpacked_size(const char *trace) {
        size_t size = strlen(trace);

        for (size_t i = 1; i < ARRAY_SIZE(packings); i++)
                if (size > strlen(packings[i]) && !strcmp(trace + size - strlen(packings[i]), packings[i]))
                        return size - strlen(packings[i]);
        return size;
}

int side_file_name(const char *trace, SideFile which, char **namep) {
        const char *dot = memrchr(trace, '.', unpacked_size(trace));

        *namep = NULL;
        if (!dot || strchr(dot, '/') || !strcmp(trace, "-"))
                return 0;
        if (asprintf(namep, "%.*s.%s.csv", (int)(dot - trace), trace, kinds[which].ending) >= 0)
                return 0;
        *namep = NULL;
        return error_origin(-ENOMEM);
}

/* Pair with outfile_deinit(). */
static int find(const char *name, SideFile which, const OutfileOptions *options, Outfile *file) {
        int r = outfile_find(file, name, options);

        if (r == -EISDIR)
                return OUTFILE_E_KIND;
        return r ? r : outfile_expect(file, kinds[which].start, strlen(kinds[which].start));
}

int side_file_check(const char *name, SideFile which, const OutfileOptions *options) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;

        return find(name, which, options, &file);
}

int side_file_remove(const char *name, SideFile which, const OutfileOptions *options) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        int r = find(name, which, options, &file);

        return r ? r : outfile_remove(&file, "");
}

/* The stream gets a descriptor of its own: both it and the output file close theirs. */
int side_file_create(SideFileWriter *writer, SideFile which, const OutfileOptions *options) {
        _cleanup_(closep) int fd = -1;
        int r = find(writer->name, which, options, &writer->file);

        if (!r)
                r = outfile_begin(&writer->file);
        if (r)
                return r;
        fd = fcntl(writer->file.fd, F_DUPFD_CLOEXEC, 3);
        writer->stream = fd < 0 ? NULL : fdopen(fd, "w");
        if (!writer->stream)
                return -errno;
        take_fd(fd);
        fprintf(writer->stream, "%s\n", kinds[which].first);
        return 0;
}

int side_file_publish(SideFileWriter *writer) {
        FILE *stream = take(writer->stream);
        bool failed = stream && ferror(stream);

        if (!stream)
                return 0;
        if (fclose(stream) || failed)
                return errno ? -errno : -EIO;
        return outfile_finish(&writer->file);
}

void side_file_deinit(SideFileWriter *writer) {
        if (writer->stream)
                fclose(writer->stream);
        outfile_deinit(&writer->file);
        free(writer->name);
        *writer = SIDE_FILE_WRITER_NONE;
}

static bool is_same_file(const char *a, const char *b) {
        struct stat x, y;

        return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int side_file_sharer(const char *path, unsigned *i, char **namep) {
        static const char *const forms[] = { "jsonl", "ndjson", "csv" };
        const char *dot = memrchr(path, '.', unpacked_size(path));

        *namep = NULL;
        for (; dot && *i < ARRAY_SIZE(forms) * ARRAY_SIZE(packings) && !*namep; ++*i) {
                if (asprintf(namep, "%.*s.%s%s", (int)(dot - path), path, forms[*i / ARRAY_SIZE(packings)],
                             packings[*i % ARRAY_SIZE(packings)]) < 0) {
                        *namep = NULL;
                        return error_origin(-ENOMEM);
                }
                if (!strcmp(*namep, path) || access(*namep, F_OK) || is_same_file(*namep, path))
                        free(take(*namep));
        }
        return 0;
}

void side_file_note(const char *trace, OutfileReaders *readers) {
        for (int i = 0; i < N_SIDE_FILES; i++) {
                _cleanup_(freep) char *name = NULL;
                struct stat status;

                if (!side_file_name(trace, i, &name) && name && !stat(name, &status))
                        outfile_note_input(readers, &status);
        }
}

/* A trace that another user sent may come with anything of that name: the open of a pipe would wait. */
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

bool side_file_exists(const char *trace, SideFile which) {
        _cleanup_(freep) char *name = NULL;

        return !side_file_name(trace, which, &name) && name && !access(name, F_OK);
}

/*
 * *wholep: the line has room, and a newline: without one it was cut, perhaps inside a number. Return: its
 * size, -1 = there is no further line.
 */
static ssize_t next_line(FILE *file, char *line, size_t room, bool *wholep) {
        size_t size = 0;
        int c;

        while ((c = getc_unlocked(file)) != EOF && c != '\n')
                if (size++ < room)
                        line[size - 1] = (char)c;
        *wholep = c == '\n' && size <= room;
        return c == EOF && !size ? -1 : (ssize_t)MIN(size, room);
}

int side_file_read(const char *trace, SideFile which,
                   int (*func)(void *userdata, const char *line, size_t size), void *userdata) {
        _cleanup_(freep) char *name = NULL, *line = NULL;
        FILE *file;
        int r = side_file_name(trace, which, &name);
        bool first = true, whole;
        ssize_t size;

        if (r)
                return r;
        file = name ? open_old(name) : NULL;
        if (!file)
                return SIDE_FILE_E_NONE;
        line = malloc(TRACE_MAPPING_LINE);
        if (!line)
                r = error_origin(-ENOMEM);
        while (!r && (size = next_line(file, line, TRACE_MAPPING_LINE, &whole)) >= 0) {
                if (!first)
                        r = func(userdata, whole ? line : "", whole ? (size_t)size : 0);
                first = false;
        }
        fclose(file);
        return r;
}
