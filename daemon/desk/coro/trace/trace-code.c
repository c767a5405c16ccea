/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows of all processes lie in one array, sorted by process and start. Two builds of a library may have been
 * mapped at one place, one after the other, so ranges overlap; `reach` is the largest end so far of the
 * process:
 *
 *      process         start    end      reach    file
 *      8569296211979   0x1000   0x9000   0x9000   libold.so
 *      8569296211979   0x2000   0x3000   0x9000   server       0x2800 lies in both: no answer
 *      8569296211979   0xa000   0xb000   0xb000   libm.so      0xa010: go back while reach > 0xa010
 *
 * A look-up goes back from the address while some earlier row reaches over it. Two rows that give different
 * answers are no answer. The same holds for a frame: when coroutines of two functions had one frame after the
 * other, it stands for neither.
 */

#include "desk/coro/trace/trace-code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

enum { MAX_STEPS = 1024 };             /* steps of a look-up; real processes have few files over each other */

typedef struct Row {
        TraceMapping mapping;
        uint64_t reach;                 /* the largest end of this and all earlier rows of the process */
} Row;

struct TraceCode {
        Row *rows;                      /* by process and start, once they are sorted */
        size_t n_rows, room;
        bool sorted;
        /* frame → StationCode of its coroutine; the TraceCode itself = there were several */
        Hashmap frames;
        Arena texts;
};

int trace_code_new(TraceCode **codep) {
        TraceCode *code = calloc(1, sizeof(*code));

        if (!code)
                return error_origin(-ENOMEM);
        *codep = code;
        return 0;
}

TraceCode *trace_code_free(TraceCode *code) {
        if (!code)
                return NULL;
        free(code->rows);
        hashmap_deinit(&code->frames);
        arena_deinit(&code->texts);
        free(code);
        return NULL;
}

int trace_code_mapping(TraceCode *code, const TraceMapping *mapping) {
        Row row = { .mapping = *mapping };
        const char **const texts[] = { &row.mapping.build_id_gnu, &row.mapping.build_id_go,
                                       &row.mapping.build_id_htlhash, &row.mapping.path };

        int r = array_reserve(&code->rows, &code->room, code->n_rows + 1, 64);

        if (r)
                return r;
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                *texts[i] = arena_string(&code->texts, *texts[i], strlen(*texts[i]));
                if (!*texts[i])
                        return error_origin(-ENOMEM);
        }
        code->rows[code->n_rows++] = row;
        code->sorted = false;
        return 0;
}

int trace_code_station(TraceCode *code, const TraceStationEnd *end) {
        StationCode *known;

        if (!end->code.process || !end->code.frame || !end->code.address)
                return 0;
        known = hashmap_get(&code->frames, end->code.frame);
        if (known == (void *)code ||
            (known && known->process == end->code.process && known->address == end->code.address))
                return 0;
        if (!known) {
                known = arena_copy(&code->texts, &end->code, sizeof(end->code));
                return known ? hashmap_put(&code->frames, end->code.frame, known) : error_origin(-ENOMEM);
        }
        return hashmap_put(&code->frames, end->code.frame, code);
}

static int compare_rows(const void *left, const void *right) {
        const TraceMapping *a = &((const Row *)left)->mapping, *b = &((const Row *)right)->mapping;

        if (a->process != b->process)
                return a->process < b->process ? -1 : 1;
        return a->start < b->start ? -1 : a->start > b->start;
}

static void sort(TraceCode *code) {
        if (code->sorted)
                return;
        if (code->n_rows)
                qsort(code->rows, code->n_rows, sizeof(*code->rows), compare_rows);
        for (size_t i = 0; i < code->n_rows; i++) {
                Row *row = &code->rows[i], *before = i ? row - 1 : NULL;

                row->reach = row->mapping.end;
                if (before && before->mapping.process == row->mapping.process)
                        row->reach = MAX(row->reach, before->reach);
        }
        code->sorted = true;
}

/* Whether both rows give the same answer for an address. */
static bool agree(const TraceMapping *a, const TraceMapping *b) {
        return !strcmp(a->build_id_gnu, b->build_id_gnu) && !strcmp(a->build_id_go, b->build_id_go) &&
                !strcmp(a->build_id_htlhash, b->build_id_htlhash) &&
                a->address - a->start == b->address - b->start;
}

static TracePlace place_in(const TraceMapping *mapping, uint64_t address) {
        return (TracePlace){ mapping, mapping->address + (address - mapping->start) };
}

/* The place of the address, if all files that lay there agree. */
static TracePlace find(const TraceCode *code, uint64_t process, uint64_t address) {
        size_t low = 0, high = code->n_rows;
        const TraceMapping *found = NULL;

        while (low < high) {            /* finds the first row behind the address */
                size_t middle = (low + high) / 2;
                const TraceMapping *m = &code->rows[middle].mapping;

                if (m->process < process || (m->process == process && m->start <= address))
                        low = middle + 1;
                else
                        high = middle;
        }
        for (size_t i = low, n = 0;
             i-- > 0 && code->rows[i].mapping.process == process && code->rows[i].reach > address; n++) {
                const TraceMapping *mapping = &code->rows[i].mapping;

                if (n == MAX_STEPS || (mapping->end > address && found && !agree(found, mapping)))
                        return (TracePlace){ 0 };
                if (mapping->end > address)
                        found = mapping;
        }
        return found ? place_in(found, address) : (TracePlace){ 0 };
}

TracePlace trace_code_find(TraceCode *code, const StationCode *of, uint64_t address) {
        sort(code);
        if (!address || !of->process)
                return (TracePlace){ 0 };
        return find(code, of->process, address == of->frame && of->address ? of->address : address);
}

void trace_code_find_all(TraceCode *code, uint64_t address,
                         bool (*func)(void *userdata, const TracePlace *place), void *userdata) {
        const StationCode *frame = hashmap_get(&code->frames, address);
        TracePlace place;

        sort(code);
        if (frame == (void *)code)
                return;
        if (frame) {
                place = find(code, frame->process, frame->address);
                if (place.mapping)
                        func(userdata, &place);
                return;
        }
        for (size_t i = 0; i < code->n_rows; i++) {
                const TraceMapping *m = &code->rows[i].mapping;

                if (address < m->start || address >= m->end)
                        continue;
                place = find(code, m->process, address);
                if (!func(userdata, &place))
                        return;
        }
}
