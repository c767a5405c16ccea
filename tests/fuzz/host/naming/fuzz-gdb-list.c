/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: a list of code for debuggers that nobody has made. The input is memory with the descriptor at its
 * begin, or after an `a` the answer of a worker to a question for its functions. Whatever it says, functions
 * have a place and a name, and reads come to an end. Recipe of the corpus: make-gdb-list-corpus.py.
 */
#include <stdlib.h>
#include <string.h>

#include "core/symbol/jit/code-wire.h"
#include "host/naming/gdb-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        BASE = 0x20000000,
        /* twice: the descriptor, entries, and pieces of images */
        MAX_READS = 2 * (1 + 2 * GDB_LIST_MAX_IMAGES + (GDB_LIST_MAX_BYTES >> 16)),
};

typedef struct Memory {
        const uint8_t *data;
        size_t size;
        unsigned n_reads;
} Memory;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        Memory *memory = userdata;

        if (++memory->n_reads > MAX_READS || !size || size > 64 << 10)
                abort();
        if (address < BASE || size > memory->size || address - BASE > memory->size - size)
                return false;
        memcpy(to, memory->data + (address - BASE), size);
        return true;
}

static int check_record(void *userdata, const CodeRecord *record) {
        const CodeRange *range = &record->range;
        uint32_t *n = userdata;

        if (record->is_move || !range->size || range->start + range->size < range->start ||
            !range->name_size || range->name_size > CODE_MAX_NAME || memchr(range->name, 0, range->name_size))
                abort();
        ++*n;
        return 0;
}

static void check(const GdbAnswer *answer, const uint8_t *records) {
        uint32_t n = 0;

        if (code_wire_records(records, answer->size, check_record, &n) || n != answer->n_records)
                abort();
}

static void hear(const uint8_t *data, size_t size) {
        GdbAnswer answer;

        if (size < sizeof(answer))
                return;
        memcpy(&answer, data, sizeof(answer));
        data += sizeof(answer);
        size -= sizeof(answer);
        if (gdb_wire_check(&answer, GDB_WIRE_READ) && answer.size <= size &&
            code_wire_check_records(data, answer.size, answer.n_records, CODE_FORM_MAP))
                check(&answer, data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Memory memory = { .data = data, .size = size };
        const GdbMemory reader = { .read = read_memory, .userdata = &memory };
        uint8_t *records = NULL;
        GdbAnswer answer;

        if (size && data[0] == 'a') {
                hear(data + 1, size - 1);
                return 0;
        }
        if (gdb_wire_read(&reader, BASE, &answer, &records))
                abort();
        /* What a worker makes of it passes the daemon's checks. */
        if (!gdb_wire_check(&answer, GDB_WIRE_READ) ||
            !code_wire_check_records(records, answer.size, answer.n_records, CODE_FORM_MAP))
                abort();
        check(&answer, records);
        free(records);
        return 0;
}
