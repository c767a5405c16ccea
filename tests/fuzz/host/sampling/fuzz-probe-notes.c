/* SPDX-License-Identifier: Apache-2.0 */

/* An ELF file with notes of probes. Recipe of the corpus: make-target-corpus.py. */

#include <stdlib.h>
#include <string.h>

#include "host/sampling/process/probe-notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_argument(const struct alloc_argument *argument) {
        if (argument->place > ALLOC_MEMORY || argument->index >= ALLOC_N_REGISTERS || !argument->size ||
            argument->size > 8 || argument->is_signed > 1)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ProbeNotes notes;
        ElfImage image;

        if (elf_image_init_memory(&image, data, size))
                return 0;
        if (!probe_notes_read(&notes, &image)) {
                if (notes.n > ALLOC_MAX_FILE_PROBES || (notes.has_all_frees && !notes.notes[0].is_free))
                        abort();
                for (size_t i = 0; i < notes.n; i++) {
                        if (notes.notes[i].offset >= size || notes.notes[i].semaphore >= size)
                                abort();
                        for (size_t j = 0; j < (notes.notes[i].is_free ? 1 : ALLOC_N_ARGUMENTS); j++)
                                check_argument(&notes.notes[i].probe.arguments[j]);
                }
        }
        elf_image_deinit(&image);
        return 0;
}
