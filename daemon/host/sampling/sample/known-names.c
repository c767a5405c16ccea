/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps names in a ring, and says which name to add to the kernel's map and which one to remove.
 */

#include "host/sampling/sample/known-names.h"

#include <string.h>

#include "core/base/util/macro.h"

static bool is_known(const KnownNames *known, const char name[ABI_COMM_SIZE]) {
        for (uint32_t i = 0; i < MIN(known->n, (uint32_t)ABI_MAX_KNOWN_NAMES); i++)
                if (!memcmp(known->names[i], name, ABI_COMM_SIZE))
                        return true;
        return false;
}

bool known_names_add(KnownNames *known, const char *name, KnownNamesChange *changep) {
        char *place = known->names[known->n % ABI_MAX_KNOWN_NAMES];
        KnownNamesChange change = { 0 };

        memcpy(change.added, name, strnlen(name, ABI_COMM_SIZE - 1));
        if (!*change.added || is_known(known, change.added))
                return false;
        memcpy(change.removed, place, ABI_COMM_SIZE);
        memcpy(place, change.added, ABI_COMM_SIZE);
        known->n++;
        *changep = change;
        return true;
}
