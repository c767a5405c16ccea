/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts in a ring of names how often each had nothing new in a row, and says which names become settled or
 * unsettled.
 */

#include "host/sampling/discover/settled-names.h"

#include <string.h>

#include "core/base/util/macro.h"

enum { N_PLAIN = 3 };                   /* programs until a name is settled */

static SettledName *find(SettledNames *settled, const struct abi_settled_name *name) {
        for (uint32_t i = 0; i < MIN(settled->n, (uint32_t)ABI_MAX_SETTLED_NAMES); i++)
                if (!memcmp(&settled->names[i].name, name, sizeof(*name)))
                        return &settled->names[i];
        return NULL;
}

static bool is_settled(const SettledName *name) {
        return name->n_plain >= N_PLAIN;
}

/* In the place of the oldest, which may be settled. */
static SettledName *add(SettledNames *settled, const struct abi_settled_name *name,
                        SettledNamesChange *changep) {
        SettledName *known = &settled->names[settled->n++ % ABI_MAX_SETTLED_NAMES];

        if (is_settled(known))
                changep->removed = known->name;
        *known = (SettledName){ .name = *name };
        return known;
}

bool settled_names_judge(SettledNames *settled, const struct abi_settled_name *name, bool is_plain,
                         SettledNamesChange *changep) {
        SettledName *known = find(settled, name);

        *changep = (SettledNamesChange){ 0 };
        if (!*name->comm || (known ? known->publishes : !is_plain))
                return false;
        if (!known)
                known = add(settled, name, changep);
        if (is_plain && ++known->n_plain == N_PLAIN)
                changep->added = *name;
        if (!is_plain && is_settled(known))
                changep->removed = *name;
        known->n_plain = is_plain ? MIN(known->n_plain, (uint32_t)N_PLAIN) : 0;
        return *changep->added.comm || *changep->removed.comm;
}

bool settled_names_note_publication(SettledNames *settled, const struct abi_settled_name *name,
                                    SettledNamesChange *changep) {
        SettledName *known = find(settled, name);

        *changep = (SettledNamesChange){ 0 };
        if (!*name->comm)
                return false;
        if (!known)
                known = add(settled, name, changep);
        else if (is_settled(known))
                changep->removed = *name;
        known->n_plain = 0;
        known->publishes = true;
        return *changep->removed.comm;
}
