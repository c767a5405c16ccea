/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: which virtual machine of Java a file is of. Whatever its bytes are: what it says is printable and
 * ends in its room. Recipe of the corpus: make-other-jvm-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "host/runtime/jvm/other-jvm.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char says[OBJECT_MAX_SAYS] = "";

        if (!other_jvm_find(&(OtherJvmInput){ .fd = -1, .data = data, .size = size }, says))
                return 0;
        if (!*says || strnlen(says, sizeof(says)) == sizeof(says))
                abort();
        for (const char *c = says; *c; c++)
                if (*c < ' ' || *c > '~')
                        abort();
        return 0;
}
