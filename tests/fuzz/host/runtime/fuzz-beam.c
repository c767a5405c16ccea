/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: an Erlang that nobody has made. The input is a letter, then words of a frame and memory with modules
 * (n), memory with the variables of a process in its first page (f), or a FunctionSaid with texts (s); N and
 * F mean the layout of OTP 29 instead of that of 25. A name is UTF-8 with an end, a line is none or positive,
 * and a process that was found is one that may be so. Recipe of the corpus: make-beam-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "host/runtime/beam/beam-wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        BASE = 0x20000000,
        FILE_VARIABLES = 0x1000,
        FRAME_LAYOUT = 24,              /* in the variables, as the next ones */
        ACTIVE = 0x20,
        RANGES = 0x40,
        ATOMS = 0x100,
        ATOMS_TEXT = 0x1f0,
        MODULES = 0x4000,               /* in memory */
        MAX_READS = 200000,
};

static const uint8_t *memory;
static size_t memory_size, n_reads;

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (++n_reads > MAX_READS)
                abort();
        if (address < BASE || size > memory_size || address - BASE > memory_size - size)
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static BeamReader reader = { .read = read_memory,
                             .ranges = BASE + RANGES,
                             .active = BASE + ACTIVE,
                             .modules = BASE + MODULES,
                             .atoms = BASE + ATOMS };

static void check(const ReaderFunction *function) {
        if (!*function->name || strnlen(function->name, BEAM_MAX_TEXT) == BEAM_MAX_TEXT ||
            strnlen(function->file, BEAM_MAX_TEXT) == BEAM_MAX_TEXT ||
            !text_is_utf8(function->name, strlen(function->name)) ||
            !text_is_utf8(function->file, strlen(function->file)) || function->line > INT32_MAX)
                abort();
}

static void name(const uint8_t *data, size_t size) {
        ReaderFunction function;
        uint64_t words[2];

        if (size < sizeof(words))
                return;
        memcpy(words, data, sizeof(words));
        words[0] &= RUNTIME_ADDRESS_MASK;
        words[0] |= (uint64_t)RUNTIME_BEAM << RUNTIME_KIND_SHIFT;
        memory = data + sizeof(words);
        memory_size = size - sizeof(words);
        if (!beam_code_name(&reader, words, &function))
                check(&function);
        if (!beam_code_task(&reader, words[1], &function))
                check(&function);
}

static void find(const uint8_t *data, size_t size) {
        const BeamOpened opened = { .atoms = FILE_VARIABLES + ATOMS_TEXT,
                                    .frame_layout = FILE_VARIABLES + FRAME_LAYOUT,
                                    .data = FILE_VARIABLES,
                                    .data_size = 0x2000,
                                    .release = reader.layout->release };
        BeamFound found;

        memory = data;
        memory_size = size;
        if (!beam_find(&reader, &opened, BASE - FILE_VARIABLES, &found) && !beam_found_check(&found))
                abort();
}

static void hear(const uint8_t *data, size_t size) {
        ReaderFunction function;
        FunctionSaid said;

        if (size < sizeof(said))
                return;
        memcpy(&said, data, sizeof(said));
        if (beam_wire_check(&said, BEAM_WIRE_NAME) && !said.result &&
            size - sizeof(said) >= (size_t)said.n_name + said.n_file &&
            function_wire_take(&function, &said, (const char *)data + sizeof(said)))
                check(&function);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        n_reads = 0;
        if (!size)
                return 0;
        reader.layout = beam_layout(data[0] == 'N' || data[0] == 'F' ? 29 : 25);
        if (data[0] == 'n' || data[0] == 'N')
                name(data + 1, size - 1);
        else if (data[0] == 'f' || data[0] == 'F')
                find(data + 1, size - 1);
        else if (data[0] == 's')
                hear(data + 1, size - 1);
        return 0;
}
