/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util/directory.h"

#include "base/util/text.h"

bool directory_next_number(DIR *dir, uint32_t *numberp) {
        struct dirent *entry;
        uint64_t number;

        while ((entry = readdir(dir)))
                if (!text_u64(entry->d_name, INT32_MAX, &number)) {
                        *numberp = (uint32_t)number;
                        return true;
                }
        return false;
}
