/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Copies of Text
 *
 * Programs put a copy of their code on huge pages, in its own place. Maps show memory without a file there,
 * or a file of hugetlbfs, between what is left of the true file's mappings:
 *
 *     401000-600000 r-xp 00001000 fe:00 4711   /usr/bin/node
 *     600000-1e00000 r-xp 00000000 00:00 0                             ← a copy of 200000-1a00000 of node
 *     1e00000-1e77000 r-xp 01a00000 fe:00 4711 /usr/bin/node
 *
 * The mapping beside it says where the file's text should lie; its bytes must be the file's, else it is taken
 * for what it looks like.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/sampling/process/object.h"

enum { TEXT_COPY_PAGES = 16 };          /* pages that are compared */

/* Text of a file in an area of memory. */
typedef struct TextCopy {
        uint64_t start, end;            /* addresses in the target; pages */
        uint64_t offset;                /* in the file */
        uint64_t offset_end;            /* the segment's end in the file; it may lie within the last page */
} TextCopy;

/*
 * Pure. Whether the area [@start, @end) lies where text of @object should be, if the mapping at @beside, of
 * the file's bytes from @offset on, is of its segment @i. Two segments may share a page of the file, so each
 * one is a guess. *copyp: that text, as far as it lies in the area.
 */
bool text_copy_find(const Object *object, uint32_t i, uint64_t beside, uint64_t offset, uint64_t start,
                    uint64_t end, TextCopy *copyp);

/*
 * Whether memory of @pid has the bytes of the file: pages from the first to the last are compared,
 * TEXT_COPY_PAGES at most. @mem_fd: /proc/PID/mem. @file_fd: the file.
 */
bool text_copy_is_same(pid_t pid, int mem_fd, int file_fd, const TextCopy *copy);
