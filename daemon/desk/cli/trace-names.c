/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the mapping that an address of a trace lay in, checks that the file here is the same build, and
 * names the function. Files that fail are said once.
 */

#include "desk/cli/trace-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/text.h"

enum { MAX_SAID = 8 };                  /* files of which it is said why they tell no names */

struct TraceNames {
        Symbolizer *symbolizer;
        TraceCode *code;
        struct {
                const char *path;       /* path of a mapping of `code` */
                SymbolState state;
        } failed[MAX_SAID];
        size_t n_failed;
        Text name;                      /* the name returned last */
};

int trace_names_new(TraceNames **namesp, Symbolizer *symbolizer) {
        _cleanup_(trace_names_freep) TraceNames *names = calloc(1, sizeof(*names));
        int r;

        if (!names)
                return error_origin(-ENOMEM);
        names->symbolizer = symbolizer;
        r = trace_code_new(&names->code);
        if (r)
                return error_fold(r);
        *namesp = take(names);
        return 0;
}

TraceNames *trace_names_free(TraceNames *names) {
        if (!names)
                return NULL;
        trace_code_free(names->code);
        text_deinit(&names->name);
        free(names);
        return NULL;
}

TraceCode *trace_names_code(TraceNames *names) {
        return names->code;
}

/* The same file may lie in many processes, several times in each. */
static void note_failed(TraceNames *names, const char *path, SymbolState state) {
        if (state == SYMBOL_STATE_NAMED || state == SYMBOL_STATE_DYNAMIC || names->n_failed == MAX_SAID)
                return;
        for (size_t i = 0; i < names->n_failed; i++)
                if (names->failed[i].state == state && !strcmp(names->failed[i].path, path))
                        return;
        names->failed[names->n_failed].path = path;
        names->failed[names->n_failed++].state = state;
}

static const char *name_place(TraceNames *names, const TracePlace *place) {
        const TraceMapping *mapping = place->mapping;
        SymbolObject object;
        SymbolName name;

        if (!mapping)
                return NULL;
        object = (SymbolObject){ .path = mapping->path,
                                 .build_id_gnu = mapping->build_id_gnu,
                                 .build_id_go = mapping->build_id_go,
                                 .build_id_htlhash = mapping->build_id_htlhash };
        if (symbolizer_name(names->symbolizer, &object, place->address, &name))
                return NULL;
        note_failed(names, mapping->path, name.state);
        return name.name;
}

typedef struct Common {
        TraceNames *names;
        bool any, differ;
} Common;

static bool take_place(void *userdata, const TracePlace *place) {
        Common *common = userdata;
        const char *name = name_place(common->names, place);
        Text *known = &common->names->name;

        common->differ = !name || (common->any && strcmp(name, known->data ? known->data : ""));
        if (!common->differ && !common->any)
                text_printf(known, "%s", name);
        common->any = true;
        return !common->differ && !known->failed;
}

/* A name without a coroutine: all processes that have code at the address must agree on it. */
static const char *name_for_all(TraceNames *names, uint64_t address) {
        Common common = { .names = names };

        names->name.size = 0;
        trace_code_find_all(names->code, address, take_place, &common);
        return !common.any || common.differ || names->name.failed ? NULL
                : names->name.data                                ? names->name.data
                                                                  : "";
}

const char *trace_names_get(TraceNames *names, const StationCode *of, uint64_t address) {
        TracePlace place;

        if (!address)
                return NULL;
        if (!of)
                return name_for_all(names, address);
        place = trace_code_find(names->code, of, address);
        return name_place(names, &place);
}

void trace_names_say(const TraceNames *names) {
        for (size_t i = 0; i < names->n_failed; i++)
                log_notice("%s: %s; addresses in it have no names", names->failed[i].path,
                           symbol_state_text(names->failed[i].state));
}
