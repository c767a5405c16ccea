/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds where a file's text should lie by one mapping of the file, and compares pages that lie there with the
 * file's.
 */

#include "host/sampling/process/text-copy.h"

#include <string.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/memory.h"

enum {
        PAGE = 4096,
        PF_EXECUTE = 1,
};

static uint64_t page_of(uint64_t address) {
        return address & ~(uint64_t)(PAGE - 1);
}

/* @bias: what was added to ELF addresses. */
static bool find_in_segment(const Segment *text, uint64_t bias, uint64_t start, uint64_t end,
                            TextCopy *copyp) {
        uint64_t low = bias + page_of(text->address), high = bias + text->address + text->file_size;

        if (!(text->flags & PF_EXECUTE) || high < low || start >= high || end <= low)
                return false;
        copyp->start = MAX(start, low);
        copyp->end = MIN(end, page_of(high + PAGE - 1));
        copyp->offset = page_of(text->offset) + (copyp->start - low);
        copyp->offset_end = text->offset + text->file_size;
        return true;
}

/* Whether a mapping of @offset may be of that segment; ld.so leaves holes behind the first one. */
static bool may_be_of(const Object *object, uint32_t i, uint64_t offset) {
        const Segment *segment = &object->segments[i];

        return offset >= page_of(segment->offset) && (!i || offset < segment->offset + segment->file_size);
}

bool text_copy_find(const Object *object, uint32_t i, uint64_t beside, uint64_t offset, uint64_t start,
                    uint64_t end, TextCopy *copyp) {
        uint64_t bias = beside - offset - (object->segments[i].address - object->segments[i].offset);

        if (!may_be_of(object, i, offset))
                return false;
        for (uint32_t k = 0; k < object->n_segments; k++)
                if (find_in_segment(&object->segments[k], bias, start, end, copyp))
                        return true;
        return false;
}

bool text_copy_is_same(pid_t pid, int mem_fd, int file_fd, const TextCopy *copy) {
        uint64_t n_pages = (copy->end - copy->start) / PAGE, n = MIN(n_pages, (uint64_t)TEXT_COPY_PAGES);
        uint8_t memory[PAGE], file[PAGE];

        for (uint64_t i = 0; i < n; i++) {
                uint64_t at = n > 1 ? i * (n_pages - 1) / (n - 1) * PAGE : 0;
                size_t size = MIN(copy->offset_end - (copy->offset + at), (uint64_t)PAGE);

                if (pread(file_fd, file, size, (off_t)(copy->offset + at)) != (ssize_t)size ||
                    memory_read_opened(pid, mem_fd, copy->start + at, memory, size) != 0 ||
                    memcmp(memory, file, size))
                        return false;
        }
        return n > 0;
}
