/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads files through a window, and keeps the page cache as it was. The cache is at the expense of our
 * control group: tables of a compiler and its libraries are some ten MiB, beside a daemon that takes ten in
 * all. So nothing is read ahead, and pages that were not in the cache before leave it again. Pages that were
 * there stay for those who need them:
 *
 *     preadv2(RWF_DONTCACHE)   from Linux 6.14 on, where the filesystem has it: that is what it does
 *
 *     preadv2(RWF_NOWAIT)      else; 64 KiB: all of it was in the cache, and stays
 *     preadv2(RWF_NOWAIT)      EAGAIN → pread(), posix_fadvise(DONTNEED)
 *
 * The second way is not sure: RWF_NOWAIT begins to read what is not there, and a disk that is fast enough has
 * read it before the call looks again. Then it stays in the cache as if it had been there.
 */
#include "host/sampling/unwind/cfi/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80              /* linux/fs.h of 6.14 */
#endif

int reader_init_file(Reader *reader, int fd) {
        *reader = (Reader){ .fd = fd, .next_fill = READER_WINDOW_MIN };
        reader->buffer = malloc(READER_WINDOW_MAX);
        if (!reader->buffer)
                return error_origin(-ENOMEM);
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
        return 0;
}

void reader_init_memory(Reader *reader, const void *data, size_t size) {
        *reader = (Reader){ .fd = -1, .memory = data, .memory_size = size };
}

void reader_deinit(Reader *reader) {
        free(reader->buffer);
        *reader = (Reader){ .fd = -1 };
}

/* As file_pread(), for kernels and filesystems without RWF_DONTCACHE. */
static ssize_t read_and_drop(int fd, void *data, size_t size, uint64_t offset) {
        const struct iovec to = { data, size };
        ssize_t n_cached = preadv2(fd, &to, 1, (off_t)offset, RWF_NOWAIT), n;
        bool was_cold = n_cached >= 0 || errno == EAGAIN;

        if (n_cached == (ssize_t)size)
                return n_cached;
        n = file_pread(fd, data, size, offset);
        /* A filesystem that cannot tell is left alone; at the end of the file both are short. */
        if (n > 0 && n != n_cached && was_cold)
                (void)posix_fadvise(fd, (off_t)offset, n, POSIX_FADV_DONTNEED);
        return n;
}

/* As file_pread(). */
static ssize_t read_once(Reader *reader, void *data, size_t size, uint64_t offset) {
        ssize_t n = reader->has_no_uncached
                            ? -EOPNOTSUPP
                            : file_pread_flags(reader->fd, data, size, offset, RWF_DONTCACHE);

        if (n >= 0)
                return n;
        reader->has_no_uncached = true;
        return read_and_drop(reader->fd, data, size, offset);
}

/*
 * A read that goes on where the window ends is a scan: doubling the fill makes it
 * few system calls. A jump begins small again, so that a crafted file that jumps
 * with each entry costs 4 KiB a jump and not 64.
 */
static void fill(Reader *reader, uint64_t offset, size_t size) {
        ssize_t n;

        if (offset >= reader->at && offset - reader->at <= reader->size)
                reader->next_fill = MIN(reader->next_fill * 2, READER_WINDOW_MAX);
        else
                reader->next_fill = READER_WINDOW_MIN;
        reader->at = offset;
        reader->size = 0;
        reader->n_reads++;
        n = read_once(reader, reader->buffer, MAX(size, reader->next_fill), offset);
        if (n > 0)
                reader->size = (size_t)n;
}

const uint8_t *reader_bytes(Reader *reader, uint64_t offset, size_t size) {
        if (reader->fd < 0) {
                if (offset > reader->memory_size || size > reader->memory_size - offset)
                        return NULL;
                return reader->memory + offset;
        }
        if (size > READER_WINDOW_MAX || offset > INT64_MAX - READER_WINDOW_MAX)
                return NULL;
        if (offset < reader->at || offset - reader->at > reader->size ||
            size > reader->size - (offset - reader->at))
                fill(reader, offset, size);
        if (size > reader->size)
                return NULL;
        return reader->buffer + (offset - reader->at);
}
