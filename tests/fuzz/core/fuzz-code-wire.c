/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What a worker that somebody has taken over may answer of a perf-map or a jitdump: a byte for the form, the
 * head, the records. What passes the checks goes into an index, whose ranges and names must be sound.
 */

#include <stdlib.h>
#include <string.h>

#include "core/symbol/jit/code-index.h"
#include "core/symbol/jit/code-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Taken {
        CodeIndex *index;
        JitdumpCodes codes;
        uint32_t n;
} Taken;

static int take_range(void *userdata, const CodeRange *range) {
        Taken *taken = userdata;

        if (!range->size || range->start + range->size < range->start || !range->name_size ||
            range->name_size > CODE_MAX_NAME || memchr(range->name, 0, range->name_size))
                abort();
        if (code_index_add(taken->index, range) < 0)
                abort();
        return 0;
}

static int take_record(void *userdata, const CodeRecord *record) {
        Taken *taken = userdata;

        taken->n++;
        return jitdump_resolve(&taken->codes, record, take_range, taken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        CodeIndexLimits limits = { .max_ranges = 600, .max_name_bytes = 64 << 10 };
        Jitdump dump = { 0 };
        Taken taken = { 0 };
        CodeAnswer answer;
        CodeForm form;

        if (size < 1 + sizeof(answer))
                return 0;
        form = data[0] % CODE_N_FORMS;
        memcpy(&answer, data + 1, sizeof(answer));
        data += 1 + sizeof(answer);
        size -= 1 + sizeof(answer);
        if (!code_wire_check_answer(&answer, form, CODE_WIRE_PIECE) || answer.size > size ||
            !code_wire_check_records(data, answer.size, answer.n_records, form))
                return 0;
        if (code_index_new(&taken.index, &limits))
                abort();
        if (code_wire_records(data, answer.size, take_record, &taken) || taken.n != answer.n_records)
                abort();
        dump.codes = taken.codes;
        jitdump_deinit(&dump);
        code_index_free(taken.index);
        return 0;
}
