/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: where a file has an interpreter of Python. Whatever its bytes are: what is found has an address, and
 * a file without one is none. Recipe of the corpus: make-python-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/python/python-program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        PythonProgram program, before;
        char byte;

        memset(&program, 0xee, sizeof(program));
        memcpy(&before, &program, sizeof(program));
        if (!python_program_read(&program, -1, data, size)) {
                if (memcmp(&program, &before, sizeof(program)))
                        abort();
                return 0;
        }
        if (!program.places[PYTHON_SYMBOL_RUNTIME].address || program.version > 0xffff)
                abort();
        /* any place may be asked for; what the file does not have is refused */
        for (unsigned i = 0; i < PYTHON_N_SYMBOLS; i++)
                dynamic_image_read(&program.image, program.places[i].address, &byte, sizeof(byte));
        return 0;
}
