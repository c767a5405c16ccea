/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/unwind/reader.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util/error.h"
#include "base/util/file.h"
#include "base/util/macro.h"

int reader_init_file(Reader *reader, int fd) {
        *reader = (Reader){ .fd = fd, .next_fill = READER_WINDOW_MIN };
        reader->buffer = malloc(READER_WINDOW_MAX);
        if (!reader->buffer)
                return error_origin(-ENOMEM);
        return 0;
}

void reader_init_memory(Reader *reader, const void *data, size_t size) {
        *reader = (Reader){ .fd = -1, .memory = data, .memory_size = size };
}

void reader_deinit(Reader *reader) {
        free(reader->buffer);
        *reader = (Reader){ .fd = -1 };
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
        n = file_pread(reader->fd, reader->buffer, MAX(size, reader->next_fill), offset);
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
