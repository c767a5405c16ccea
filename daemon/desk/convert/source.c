/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads pieces of a plain file where they lie. Other input is unpacked into memory, or beyond a size into
 * an unnamed file, with a cap on what packed bytes may become.
 */

#include "desk/convert/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/file/unpack.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

enum {
        PIECE = 256 << 10,
        LINES_PIECE = 1 << 20,
        MAX_IN_MEMORY = 16 << 20,
};

/* Bytes that an input may unpack to, on the disk. */
#define MAX_UNPACKED ((uint64_t)16 << 30)

/*
 * Honest inputs pack 2 to 50 times smaller. A larger ratio, beyond the first bytes, is a bomb: a few KiB of
 * packed zeros must not fill the disk.
 */
#define BOMB_BYTES ((uint64_t)256 << 20)
#define BOMB_RATIO 250

size_t source_read(const Source *source, void *to, size_t size, uint64_t offset) {
        ssize_t n;

        if (offset >= source->size)
                return 0;
        size = (size_t)MIN((uint64_t)size, source->size - offset);
        if (source->fd < 0) {
                memcpy(to, source->data + offset, size);
                return size;
        }
        n = file_pread(source->fd, to, size, offset);
        return n < 0 ? 0 : (size_t)n;
}

/*
 * The lines that end in @data; without any, all of it: the last line, or the start of one that is none.
 * *usedp: their bytes. *skipp: what comes is the rest of such a one.
 */
static int take_lines(const char *data, size_t size, int (*each)(void *, const char *, size_t),
                      void *userdata, size_t *usedp, bool *skipp) {
        const char *at = data, *end = data + size, *newline;
        int r = 0;

        while (!r && (newline = memchr(at, '\n', (size_t)(end - at)))) {
                r = *skipp ? 0 : each(userdata, at, (size_t)(newline - at));
                *skipp = false;
                at = newline + 1;
        }
        if (at == data) {
                r = *skipp ? 0 : each(userdata, data, size);
                *skipp = true;
                at = end;
        }
        *usedp = (size_t)(at - data);
        return r;
}

uint64_t source_time_ns(const Source *source) {
        const struct stat *status = &source->status;

        if (!S_ISREG(status->st_mode) || status->st_mtim.tv_sec <= 0)
                return clock_read_ns(CLOCK_REALTIME);
        return (uint64_t)status->st_mtim.tv_sec * NS_PER_SEC + (uint64_t)status->st_mtim.tv_nsec;
}

int source_lines(const Source *source, int (*each)(void *userdata, const char *line, size_t size),
                 void *userdata) {
        _cleanup_(freep) char *buffer = malloc(LINES_PIECE);
        uint64_t offset = 0;
        bool skip = false;
        int r = 0;

        if (!buffer)
                return error_origin(-ENOMEM);
        while (!r && offset < source->size) {
                size_t n = source_read(source, buffer, LINES_PIECE, offset), used;

                if (!n)
                        break;
                r = take_lines(buffer, n, each, userdata, &used, &skip);
                offset += used;
        }
        return r;
}

void source_deinit(Source *source) {
        closep(&source->fd);
        free(source->data);
        *source = (Source){ .fd = -1 };
}

/* A file without a name for what is too large to keep in memory. */
static int open_scratch(Text *problem) {
        const char *directory = getenv("TMPDIR");
        int fd;

        if (!directory || !*directory)
                directory = "/tmp";
        fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd < 0)
                text_printf(problem, "needs a file in %s to be unpacked into: %s", directory,
                            strerror(errno));
        return fd;
}

typedef struct Spool {
        Source *source;
        size_t room;
        int scratch;                    /* -1 = still in memory */
        Text *problem;
} Spool;

static int spool_to_file(Spool *spool) {
        Source *source = spool->source;
        int r;

        spool->scratch = open_scratch(spool->problem);
        if (spool->scratch < 0)
                return SOURCE_E_CUT;
        r = file_write(spool->scratch, source->data, source->size);
        if (r) {
                text_printf(spool->problem, "cannot be unpacked: %s", strerror(-r));
                return SOURCE_E_CUT;
        }
        return 0;
}

static int spool_in_memory(Spool *spool, const uint8_t *data, size_t size) {
        Source *source = spool->source;

        int r = array_reserve(&source->data, &spool->room, source->size + size, PIECE);

        if (r)
                return r;
        memcpy(source->data + source->size, data, size);
        source->size += size;
        return 0;
}

/* Takes at most PIECE bytes. */
static int spool_add(const uint8_t *data, size_t size, void *userdata) {
        Spool *spool = userdata;
        Source *source = spool->source;
        int r;

        if (source->size + size > MAX_UNPACKED) {
                text_printf(spool->problem, "unpacks to more than 16 GiB");
                return SOURCE_E_CUT;
        }
        if (source->size + size > BOMB_BYTES && (source->size + size) / BOMB_RATIO > source->packed_size) {
                text_printf(spool->problem,
                            "unpacks to more than %d times its size: nothing that can be read does",
                            BOMB_RATIO);
                return SOURCE_E_CUT;
        }
        if (spool->scratch < 0 && source->size + size > MAX_IN_MEMORY) {
                r = spool_to_file(spool);
                if (r)
                        return r;
        }
        if (spool->scratch < 0)
                return spool_in_memory(spool, data, size);
        r = file_write(spool->scratch, data, size);
        if (r) {
                text_printf(spool->problem, "cannot be unpacked: %s", strerror(-r));
                return SOURCE_E_CUT;
        }
        source->size += size;
        return 0;
}

/* Fills @to unless the input ends. Return: bytes, or -errno. */
static ssize_t read_piece(int fd, uint8_t *to, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = read(fd, to + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                done += (size_t)n;
        }
        return (ssize_t)done;
}

static int unpack_all(Source *source, Spool *spool, uint8_t *piece, ssize_t n, Text *problem) {
        _cleanup_(unpack_freep) Unpack *unpack = NULL;
        int r = unpack_new(&unpack, piece, (size_t)n);

        while (!r && n > 0) {
                source->packed_size += (uint64_t)n;
                r = unpack_feed(unpack, piece, (size_t)n, spool_add, spool);
                if (!r)
                        n = read_piece(source->fd, piece, PIECE);
        }
        if (!r && n < 0) {
                text_printf(problem, "cannot be read: %s", strerror((int)-n));
                return SOURCE_E_CUT;
        }
        if (!r)
                r = unpack_end(unpack);
        if (r == UNPACK_E_MALFORMED) {
                text_printf(problem, "is damaged or cut off as %s, behind byte %llu of what is unpacked",
                            unpack_name(unpack), (unsigned long long)source->size);
                return SOURCE_E_CUT;
        }
        return r;
}

static int unpack_source(Source *source, uint8_t *piece, ssize_t n, Text *problem) {
        Spool spool = { .source = source, .scratch = -1, .problem = problem };
        int r = unpack_all(source, &spool, piece, n, problem);

        closep(&source->fd);
        source->fd = spool.scratch;
        if (spool.scratch >= 0) {
                free(source->data);
                source->data = NULL;
        }
        return r;
}

static int unreadable(Text *problem, int error) {
        text_printf(problem, "cannot be read: %s", strerror(error));
        return SOURCE_E_UNREADABLE;
}

/* @source has its descriptor. Reads what cannot be read at any offset, or is packed, from where it stands. */
static int take_bytes(Source *source, bool has_offsets, Text *problem) {
        _cleanup_(freep) uint8_t *piece = NULL;
        ssize_t n;

        if (source->fd < 0 || fstat(source->fd, &source->status) < 0)
                return unreadable(problem, errno);
        piece = malloc(PIECE);
        if (!piece)
                return error_origin(-ENOMEM);
        if (S_ISREG(source->status.st_mode) && has_offsets) {
                n = file_pread(source->fd, piece, UNPACK_MAGIC, 0);
                if (n >= 0 && !unpack_is_packed(piece, (size_t)n)) {
                        source->size = source->packed_size = (uint64_t)source->status.st_size;
                        return 0;
                }
        }
        n = read_piece(source->fd, piece, PIECE);
        return n < 0 ? unreadable(problem, (int)-n) : unpack_source(source, piece, n, problem);
}

int source_open(Source *source, const char *path, Text *problem) {
        bool from_stdin = !strcmp(path, "-");

        *source = (Source){ .name = from_stdin ? "standard input" : path };
        source->fd = from_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        return take_bytes(source, !from_stdin, problem);
}

int source_open_memory(Source *source, const char *name, const void *data, size_t size, Text *problem) {
        int r;

        *source = (Source){ .name = name, .fd = memfd_create("spanprof-input", MFD_CLOEXEC) };
        if (source->fd < 0)
                return unreadable(problem, errno);
        r = file_write(source->fd, data, size);
        if (r)
                return unreadable(problem, -r);
        if (lseek(source->fd, 0, SEEK_SET) < 0)
                return unreadable(problem, errno);
        return take_bytes(source, true, problem);
}
