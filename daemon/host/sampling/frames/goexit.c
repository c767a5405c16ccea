/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go starts a goroutine on a stack that it has made: the return address of its first function is one byte
 * behind the start of goexit, as if goexit had called it (objdump of a program of Go 1.26, the same since Go
 * 1.0):
 *
 *     482000  90                nop                     a return address minus one, where our walk ends
 *     482001  e8 3a 23 00 00    call runtime.goexit1    the return address
 *     482006  90                nop
 *
 * A compiler's return address stands behind a call, never behind a nop at the start of a function.
 */
#include "host/sampling/frames/goexit.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/file/file.h"

enum {
        GOEXIT_SIZE = 7,
        /* Go aligns functions to 16 bytes on x86-64 at least, to 32 since Go 1.16 */
        FUNCTION_ALIGN = 16,
        NOP = 0x90,
        CALL = 0xe8,
};

/*
 * The file of an ended process may still be where it was, for us too. If not, that was no look: another
 * process with the same file will tell.
 */
static bool read_code(const Mapping *mapping, const Process *process, uint64_t offset, uint8_t *code,
                      size_t size) {
        _cleanup_(closep) int proc_fd = -1, fd = -1;
        bool is_gone = process_open_living((pid_t)process->pid, process->start_time_ns, &proc_fd, NULL) != 0;

        if (is_gone)
                proc_fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (object_reopen(mapping->object, proc_fd, mapping->start, mapping->end, mapping->path, &fd) != 0) {
                mapping->object->n_goexit_looks += !is_gone;
                return false;
        }
        mapping->object->n_goexit_looks++;
        return file_pread(fd, code, size, offset) == (ssize_t)size;
}

/* @address of a segment → its place in the file. */
static bool find_offset(const Object *object, uint64_t address, uint64_t *offsetp) {
        for (uint32_t i = 0; i < object->n_segments; i++) {
                const Segment *segment = &object->segments[i];

                if (address >= segment->address && address - segment->address < segment->file_size) {
                        *offsetp = segment->offset + (address - segment->address);
                        return true;
                }
        }
        return false;
}

bool goexit_begins(const Mapping *mapping, const Process *process, uint64_t address) {
        Object *object = mapping->object;
        uint8_t code[GOEXIT_SIZE];
        uint64_t offset;

        if (address == object->goexit)
                return address != 0;
        if (object->goexit || mapping->kind != MAPPING_FILE || address % FUNCTION_ALIGN ||
            object->n_goexit_looks == GOEXIT_MAX_LOOKS || !find_offset(object, address, &offset))
                return false;
        if (!read_code(mapping, process, offset, code, sizeof(code)) ||
            code[0] != NOP || code[1] != CALL || code[6] != NOP)
                return false;
        object->goexit = address;
        return true;
}
