/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps names in a ring, counts how many programs of each had nothing new in a row, and says which name
 * enters and which one leaves the kernel's map.
 */

#include "host/sampling/process/program-names.h"

#include <string.h>

#include "core/base/util/macro.h"

enum { N_PLAIN = 3 };                   /* programs until a name is settled */

static ProgramName *find(ProgramNames *names, const struct abi_settled_name *name) {
        for (uint32_t i = 0; i < MIN(names->n, (uint32_t)ABI_MAX_PROGRAM_NAMES); i++)
                if (!memcmp(&names->names[i].name, name, sizeof(*name)))
                        return &names->names[i];
        return NULL;
}

/* The new name takes the place of the oldest, which leaves the map. */
static ProgramName *add(ProgramNames *names, const struct abi_settled_name *name,
                        ProgramNamesChange *changep) {
        ProgramName *place = &names->names[names->n++ % ABI_MAX_PROGRAM_NAMES];

        if (place->is_in_map)
                changep->removed = place->name;
        *place = (ProgramName){ .name = *name };
        return place;
}

static void set_in_map(ProgramName *name, bool is_in_map, ProgramNamesChange *changep) {
        if (is_in_map && !name->is_in_map)
                changep->added = name->name;
        if (!is_in_map && name->is_in_map)
                changep->removed = name->name;
        name->is_in_map = is_in_map;
}

static bool is_change(const ProgramNamesChange *change) {
        return *change->added.comm || *change->removed.comm;
}

bool program_names_know(ProgramNames *names, const char *comm, ProgramNamesChange *changep) {
        struct abi_settled_name name = { 0 };

        *changep = (ProgramNamesChange){ 0 };
        memcpy(name.comm, comm, strnlen(comm, sizeof(name.comm) - 1));
        if (*name.comm && !find(names, &name))
                set_in_map(add(names, &name, changep), true, changep);
        return is_change(changep);
}

bool program_names_judge(ProgramNames *names, const struct abi_settled_name *name, bool is_plain,
                         ProgramNamesChange *changep) {
        ProgramName *met = find(names, name);

        *changep = (ProgramNamesChange){ 0 };
        if (!*name->comm || (met ? met->publishes : !is_plain))
                return false;
        if (!met)
                met = add(names, name, changep);
        met->n_plain = is_plain ? MIN(met->n_plain + 1, (uint32_t)N_PLAIN) : 0;
        set_in_map(met, met->n_plain == N_PLAIN, changep);
        return is_change(changep);
}

bool program_names_note_publication(ProgramNames *names, const struct abi_settled_name *name,
                                    ProgramNamesChange *changep) {
        ProgramName *met = find(names, name);

        *changep = (ProgramNamesChange){ 0 };
        if (!*name->comm)
                return false;
        if (!met)
                met = add(names, name, changep);
        met->publishes = true;
        set_in_map(met, false, changep);
        return is_change(changep);
}
