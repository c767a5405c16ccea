/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of an ELF file whose symbols are to be uploaded. Whatever they are: what is made has the size
 * that was announced, and is no larger than headers and file allow. It may be read again itself.
 */

#include <stdlib.h>
#include <string.h>

#include "core/symbol/debug/no-text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Made {
        uint8_t *data;
        uint64_t size, room;
} Made;

static int keep(const void *data, size_t size, void *userdata) {
        Made *made = userdata;

        if (size > made->room - made->size)
                abort();
        memcpy(made->data + made->size, data, size);
        made->size += size;
        return 0;
}

/* Return: whether something was made. */
static bool make(const uint8_t *data, uint64_t size, Made *made) {
        NoText plan = { 0 };
        ElfImage image;
        bool is_made;

        if (elf_image_init_memory(&image, data, size))
                return false;
        is_made = !no_text_plan(&plan, &image);
        if (is_made) {
                if (plan.size / 4 > size)
                        abort();
                *made = (Made){ .data = malloc(plan.size), .room = plan.size };
                if (!made->data || no_text_write(&plan, &image, keep, made) || made->size != plan.size)
                        abort();
                no_text_deinit(&plan);
        }
        elf_image_deinit(&image);
        return is_made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Made once, again;

        if (!make(data, size, &once))
                return 0;
        if (make(once.data, once.size, &again))
                free(again.data);
        free(once.data);
        return 0;
}
