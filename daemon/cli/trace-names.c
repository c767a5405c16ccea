/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trace-names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/arena.h"
#include "util/error.h"
#include "util/hashmap.h"
#include "util/log.h"
#include "util/text.h"

enum { MAX_SAID = 8 };                  /* files of which it is said why they tell no names */

typedef struct Row {
        TraceMapping mapping;
        uint64_t reach;                 /* end of this or of an earlier row of the process, the largest */
        SymbolState state;              /* SYMBOL_N_STATES = nobody has asked */
} Row;

struct TraceNames {
        Symbolizer *symbolizer;
        Row *rows;                      /* by process and start, once they are sorted */
        size_t n_rows, room;
        bool sorted;
        Hashmap frames;                 /* → StationCode of the coroutine there, `names` where there were several */
        Arena texts;
        Text name;                      /* what was told last */
};

int trace_names_new(TraceNames **namesp, Symbolizer *symbolizer) {
        TraceNames *names = calloc(1, sizeof(*names));

        if (!names)
                return error_origin(-ENOMEM);
        names->symbolizer = symbolizer;
        *namesp = names;
        return 0;
}

TraceNames *trace_names_free(TraceNames *names) {
        if (!names)
                return NULL;
        free(names->rows);
        hashmap_deinit(&names->frames);
        arena_deinit(&names->texts);
        text_deinit(&names->name);
        free(names);
        return NULL;
}

int trace_names_mapping(TraceNames *names, const TraceMapping *mapping) {
        const char **texts[4];
        Row row = { .mapping = *mapping, .state = SYMBOL_N_STATES };

        if (names->n_rows == names->room) {
                size_t room = MAX(2 * names->room, (size_t)64);
                Row *rows = reallocarray(names->rows, room, sizeof(*rows));

                if (!rows)
                        return error_origin(-ENOMEM);
                names->rows = rows;
                names->room = room;
        }
        texts[0] = &row.mapping.build_id_gnu;
        texts[1] = &row.mapping.build_id_go;
        texts[2] = &row.mapping.build_id_htlhash;
        texts[3] = &row.mapping.path;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                *texts[i] = arena_string(&names->texts, *texts[i], strlen(*texts[i]));
                if (!*texts[i])
                        return error_origin(-ENOMEM);
        }
        names->rows[names->n_rows++] = row;
        names->sorted = false;
        return 0;
}

int trace_names_station(TraceNames *names, const TraceStationEnd *end) {
        StationCode *known;

        if (!end->code.process || !end->code.frame || !end->code.address)
                return 0;
        known = hashmap_get(&names->frames, end->code.frame);
        if (known == (void *)names || (known && known->process == end->code.process && known->address == end->code.address))
                return 0;
        if (!known) {
                known = arena_copy(&names->texts, &end->code, sizeof(end->code));
                return known ? hashmap_put(&names->frames, end->code.frame, known) : error_origin(-ENOMEM);
        }
        return hashmap_put(&names->frames, end->code.frame, names);
}

static int compare_rows(const void *left, const void *right) {
        const TraceMapping *a = &((const Row *)left)->mapping, *b = &((const Row *)right)->mapping;

        if (a->process != b->process)
                return a->process < b->process ? -1 : 1;
        return a->start < b->start ? -1 : a->start > b->start;
}

static void sort(TraceNames *names) {
        if (names->n_rows)
                qsort(names->rows, names->n_rows, sizeof(*names->rows), compare_rows);
        for (size_t i = 0; i < names->n_rows; i++) {
                Row *row = &names->rows[i], *before = i ? row - 1 : NULL;

                row->reach = row->mapping.end;
                if (before && before->mapping.process == row->mapping.process)
                        row->reach = MAX(row->reach, before->reach);
        }
        names->sorted = true;
}

/* Whether both say the same of an address. */
static bool agree(const TraceMapping *a, const TraceMapping *b) {
        return !strcmp(a->build_id_gnu, b->build_id_gnu) && !strcmp(a->build_id_go, b->build_id_go) &&
               !strcmp(a->build_id_htlhash, b->build_id_htlhash) && a->address - a->start == b->address - b->start;
}

/* What lay there, if there was one file only. */
static Row *find_row(TraceNames *names, uint64_t process, uint64_t address) {
        size_t low = 0, high = names->n_rows;
        Row *found = NULL;

        while (low < high) {            /* the first row behind the address */
                size_t middle = (low + high) / 2;
                const TraceMapping *m = &names->rows[middle].mapping;

                if (m->process < process || (m->process == process && m->start <= address))
                        low = middle + 1;
                else
                        high = middle;
        }
        for (size_t i = low; i-- > 0 && names->rows[i].mapping.process == process && names->rows[i].reach > address;) {
                Row *row = &names->rows[i];

                if (row->mapping.end <= address)
                        continue;
                if (found && !agree(&found->mapping, &row->mapping))
                        return NULL;
                found = row;
        }
        return found;
}

static const char *name_code(TraceNames *names, uint64_t process, uint64_t address) {
        Row *row = find_row(names, process, address);
        SymbolObject object;
        SymbolName name;

        if (!row)
                return NULL;
        object = (SymbolObject){ .path = row->mapping.path, .build_id_gnu = row->mapping.build_id_gnu,
                                 .build_id_go = row->mapping.build_id_go, .build_id_htlhash = row->mapping.build_id_htlhash };
        if (symbolizer_name(names->symbolizer, &object, row->mapping.address + (address - row->mapping.start), &name))
                return NULL;
        row->state = name.state;
        return name.name;
}

static const char *name_place(TraceNames *names, const StationCode *code, uint64_t address) {
        if (address == code->frame && code->address)
                return name_code(names, code->process, code->address);
        return name_code(names, code->process, address);
}

/* Of nobody in particular: all processes that have code there must say the same. */
static const char *name_for_all(TraceNames *names, uint64_t address) {
        const StationCode *frame = hashmap_get(&names->frames, address);
        bool first = true;

        if (frame)
                return frame == (void *)names ? NULL : name_code(names, frame->process, frame->address);
        names->name.size = 0;
        for (size_t i = 0; i < names->n_rows; i++) {
                const TraceMapping *m = &names->rows[i].mapping;
                const char *name;

                if (address < m->start || address >= m->end)
                        continue;
                name = name_code(names, m->process, address);
                if (!name || (!first && strcmp(name, names->name.data)))
                        return NULL;
                if (first)
                        text_printf(&names->name, "%s", name);
                first = false;
        }
        return first || names->name.failed ? NULL : names->name.data;
}

const char *trace_names_get(TraceNames *names, const StationCode *code, uint64_t address) {
        if (!address)
                return NULL;
        if (!names->sorted)
                sort(names);
        return code ? (code->process ? name_place(names, code, address) : NULL) : name_for_all(names, address);
}

/* The same file may lie in many processes, several times in each. */
static bool was_said(const TraceNames *names, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (names->rows[k].state == names->rows[i].state && !strcmp(names->rows[k].mapping.path, names->rows[i].mapping.path))
                        return true;
        return false;
}

void trace_names_say(const TraceNames *names) {
        unsigned n = 0;

        for (size_t i = 0; i < names->n_rows && n < MAX_SAID; i++) {
                const Row *row = &names->rows[i];

                if (row->state == SYMBOL_N_STATES || row->state == SYMBOL_STATE_NAMED || row->state == SYMBOL_STATE_DYNAMIC ||
                    was_said(names, i))
                        continue;
                log_notice("%s: %s; addresses in it have no names", row->mapping.path, symbol_state_text(row->state));
                n++;
        }
}
