/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads many events at once, hashes what is not measured, and adds each event to the place of its
 * combination. The place is prefetched while the next events are read.
 */

#include "core/jfr/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_BATCH = 64,
        MAX_SEEN = 4096,                /* events of a block: more than usually fit into one read */
        START_NUMBER = 0,               /* number of JFR_SLOT_START, the first of the numbers */
};

/* An event of a batch, which is still to be looked up: its place in the table has been asked for. */
typedef struct Pending {
        uint64_t hash;
        uint32_t more;
        uint32_t class;
        uint64_t time_ns;
        int64_t value;
        uint32_t at, size;
} Pending;

struct JfrBlocks {
        JfrReader *reader;
        JfrScan scan;
        JfrBlock block;
        Pending batch[MAX_BATCH];
        uint32_t n_batch;
        bool ended;
};

static uint64_t to_ns(const JfrBlocks *blocks, const JfrField *field, uint64_t value) {
        static const uint64_t factors[] = {
                [JFR_NANOSECONDS] = 1,
                [JFR_MICROSECONDS] = 1000,
                [JFR_MILLISECONDS] = 1000000,
                [JFR_SECONDS] = 1000000000,
        };

        if (field->unit == JFR_TICKS || field->unit == JFR_UNIT_NONE)
                return jfr_clock_duration_ns(&blocks->reader->current.clock, value);
        return value * factors[field->unit];
}

/* Rounded as by llround(), which is a call. */
static int64_t to_value(double value) {
        int64_t whole;

        if (!(value < 9.2e18))
                return value > 0 ? INT64_MAX : 0;
        whole = value > 0 ? (int64_t)value : 0;
        return whole + (value - (double)whole >= 0.5);
}

static double weight_of(const JfrPlan *plan, uint64_t number) {
        double weight;

        if (!plan->weight_is_real)
                return (double)number;
        memcpy(&weight, &number, sizeof(weight));
        return isfinite(weight) ? weight : 1;
}

/* Less than nothing (a duration over which the clock was set back) is nothing. */
static int64_t not_negative(uint64_t value) {
        return MAX((int64_t)value, 0);
}

static int64_t duration_of(const JfrBlocks *blocks, const JfrField *field, uint64_t value) {
        return (int64_t)value > 0 ? (int64_t)MIN(to_ns(blocks, field, value), (uint64_t)INT64_MAX) : 0;
}

static void note_period(const JfrBlocks *blocks, const JfrPlan *plan, uint64_t value) {
        JfrClassCount *count = &blocks->reader->current.class_counts[plan->class->number];

        count->periods_ns += (double)duration_of(blocks, plan->fields[JFR_SLOT_PERIOD], value);
        count->n_periods++;
}

static int64_t rare_value_of(const JfrBlocks *blocks, const JfrPlan *plan, const uint64_t *numbers) {
        switch (plan->form) {
        case JFR_FORM_ONE:
                return 1;
        case JFR_FORM_PERIOD:
                note_period(blocks, plan, numbers[plan->value]);
                return 1;
        case JFR_FORM_DURATION:
                return duration_of(blocks, plan->fields[JFR_SLOT_DURATION], numbers[plan->value]);
        case JFR_FORM_REAL:
                return to_value(weight_of(plan, numbers[plan->value]));
        case JFR_FORM_PRODUCT:
                return to_value((double)numbers[plan->value] * weight_of(plan, numbers[plan->other]));
        default:
                return 0;
        }
}

static inline int64_t value_of(const JfrBlocks *blocks, const JfrPlan *plan, const uint64_t *numbers) {
        if (plan->form == JFR_FORM_NUMBER || (plan->form == JFR_FORM_EITHER && numbers[plan->value]))
                return not_negative(numbers[plan->value]);
        return plan->form == JFR_FORM_EITHER ? not_negative(numbers[plan->other])
                                             : rare_value_of(blocks, plan, numbers);
}

static inline uint64_t time_of(const JfrBlocks *blocks, const JfrPlan *plan, const uint64_t *numbers) {
        const JfrField *field = plan->fields[JFR_SLOT_START];

        if (!field)
                return blocks->reader->current.chunk->start_ns;
        if (field->unit == JFR_MILLISECONDS)
                return numbers[START_NUMBER] * 1000000;         /* since 1970 */
        return jfr_clock_time_ns(&blocks->reader->current.clock, numbers[START_NUMBER]);
}

static void note_short(JfrBlocks *blocks, uint32_t class, uint64_t offset) {
        blocks->reader->current.class_counts[class].n_failed++;
        jfr_mistake(blocks->reader, "byte %" PRIu64 ": the %s there is shorter than its fields",
                    blocks->reader->current.chunk->offset + offset,
                    blocks->reader->current.states[class].plan->type->name);
}

/* Adds an event of a class that has a plan to the batch. */
static _always_inline_ void add_sample(JfrBlocks *blocks, const JfrBlock *block, uint32_t class,
                                       const uint8_t *data, const uint8_t *end, uint64_t offset) {
        const JfrPlan *plan = blocks->reader->current.states[class].plan;
        uint64_t numbers[JFR_N_NUMBERS + 1], time_ns, high;
        JfrHash hash;

        blocks->reader->current.class_counts[class].n_read++;
        if (offset < blocks->reader->from) {
                blocks->reader->current.class_counts[class].n_out_of_time++;
                return;
        }
        if (!data || !jfr_plan_hash(plan, data, end, numbers, &hash)) {
                note_short(blocks, class, offset);
                return;
        }
        time_ns = time_of(blocks, plan, numbers);
        if (time_ns < blocks->reader->start_ns || time_ns >= blocks->reader->end_ns) {
                blocks->reader->current.class_counts[class].n_out_of_time++;
                return;
        }
        high = (uint64_t)(hash >> 64);
        blocks->batch[blocks->n_batch++] = (Pending){ .hash = (uint64_t)hash,
                                                      .more = (uint32_t)(high ^ high >> 32) | 1,
                                                      .class = class,
                                                      .time_ns = time_ns,
                                                      .value = value_of(blocks, plan, numbers),
                                                      .at = (uint32_t)(data - block->buffer),
                                                      .size = (uint32_t)(end - data) };
        __builtin_prefetch(
                &blocks->reader->combinations
                         .rows[jfr_known_place((uint64_t)hash, blocks->reader->combinations.bits)]);
}

static void tell_sum(JfrCombinations *table, JfrBlock *block, uint32_t place) {
        JfrCombination *row = &table->rows[place];

        if (row->n)
                block->seen[block->n++] = (JfrSeen){
                        .kind = JFR_SEEN_SUM, .place = place, .n = row->n, .value = row->value
                };
        row->n = 0;
        row->value = 0;
}

/* Sums that are not told before are told at the end of the chunk. */
static void begin_sum(JfrCombinations *table, uint32_t place) {
        if (!table->rows[place].listed)
                table->listed[table->n_listed++] = place;
        table->rows[place].listed = true;
}

/* In the first of the two; what was there takes the place of the other. */
static void tell_new(JfrBlocks *blocks, JfrBlock *block, const Pending *pending, uint32_t place) {
        JfrCombinations *table = &blocks->reader->combinations;
        JfrCombination *row = &table->rows[place];

        tell_sum(table, block, place + 1);
        tell_sum(table, block, place);
        row[1].hash = row[0].hash;
        row[1].more = row[0].more;
        row[0].hash = pending->hash;
        row[0].more = pending->more;
        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_NEW,
                                             .place = place,
                                             .class = pending->class,
                                             .n = 1,
                                             .value = pending->value,
                                             .time_ns = pending->time_ns,
                                             .at = pending->at,
                                             .size = pending->size };
}

static bool add_to_sum(JfrCombinations *table, JfrClassCount *count, uint32_t place, const Pending *pending) {
        JfrCombination *row = &table->rows[place];
        int64_t value;

        if (row->n == UINT32_MAX || __builtin_add_overflow(row->value, pending->value, &value))
                return false;
        if (!row->n++)
                begin_sum(table, place);
        row->value = value;
        count->first_ns = count->first_ns ? MIN(count->first_ns, pending->time_ns) : pending->time_ns;
        count->last_ns = MAX(count->last_ns, pending->time_ns);
        return true;
}

/* The choice between the two rows is no branch: no CPU could foresee it. */
static void look_up(JfrBlocks *blocks, JfrBlock *block) {
        bool times = blocks->reader->timed;
        JfrCombinations *table = &blocks->reader->combinations;

        for (const Pending *pending = blocks->batch, *end = pending + blocks->n_batch; pending < end;
             pending++) {
                uint32_t place = jfr_known_place(pending->hash, table->bits);
                uint32_t known = place + (table->rows[place].hash != pending->hash);
                JfrCombination *row = &table->rows[known];

                if (row->hash != pending->hash || row->more != pending->more) {
                        tell_new(blocks, block, pending, place);
                        continue;
                }
                table->n_known++;
                if ((times && blocks->reader->current.states[pending->class].timed) ||
                    !add_to_sum(table, &blocks->reader->current.class_counts[pending->class], known, pending))
                        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_TIMED,
                                                             .place = known,
                                                             .n = 1,
                                                             .value = pending->value,
                                                             .time_ns = pending->time_ns };
        }
        blocks->n_batch = 0;
}

/* Counts an event of a class without a plan, and tells it if it is about the recording. */
static void add_other(JfrBlocks *blocks, JfrBlock *block, uint32_t class, const uint8_t *data,
                      const uint8_t *end) {
        blocks->reader->current.class_counts[class].n_read++;
        if (!data || !blocks->reader->current.states[class].about)
                return;
        look_up(blocks, block);
        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_ABOUT,
                                             .class = class,
                                             .at = (uint32_t)(data - block->buffer),
                                             .size = (uint32_t)(end - data) };
}

static bool has_room(const JfrBlock *block) {
        return block->n + 3 * MAX_BATCH < MAX_SEEN;     /* each event of a batch may tell of two sums, too */
}

/* Events that are in the buffer as a whole, as nearly all are: jfr_scan_next() for many. */
static void read_buffer(JfrBlocks *blocks, JfrBlock *block) {
        JfrScan *scan = &blocks->scan;
        const uint8_t *at = scan->buffer + scan->at, *end = scan->buffer + scan->size;

        while (has_room(block) && (size_t)(end - at) >= JFR_EVENT_HEADER_MAX) {
                const uint8_t *begin = at;
                uint64_t size = (uint32_t)jfr_quick_compressed(&at), type = jfr_quick_compressed(&at);
                const JfrClass *class;

                if (size < (uint64_t)(at - begin) || size > (uint64_t)(end - begin)) {
                        at = begin;
                        break;
                }
                class = jfr_class(&blocks->reader->current.metadata, type);
                if (class && blocks->reader->current.states[class->number].plan)
                        add_sample(blocks, block, class->number, at, begin + size,
                                   scan->next - (uint64_t)(end - begin));
                else if (class)
                        add_other(blocks, block, class->number, at, begin + size);
                if (blocks->n_batch == MAX_BATCH)
                        look_up(blocks, block);
                at = begin + size;
        }
        scan->at = (size_t)(at - scan->buffer);
}

/* Tells what is still in sums. Return: whether there was any. */
static bool tell_sums(JfrBlocks *blocks, JfrBlock *block) {
        JfrCombinations *table = &blocks->reader->combinations;

        while (table->n_listed && block->n < MAX_SEEN) {
                uint32_t place = table->listed[--table->n_listed];

                table->rows[place].listed = false;
                tell_sum(table, block, place);
        }
        return block->n;
}

/*
 * Adds an event, before which the buffer may be filled again, then all events in the buffer. Return: whether
 * there was any.
 */
static bool fill(JfrBlocks *blocks, JfrBlock *block) {
        const JfrClass *class;
        JfrEvent event = { 0 };
        int r;

        block->n = 0;
        r = jfr_scan_next_slowly(&blocks->scan, &event);
        block->next = blocks->scan.next;
        if (r == JFR_SCAN_E_MALFORMED && !blocks->reader->current.chunk->cut)
                jfr_mistake(blocks->reader,
                            "byte %" PRIu64 ": no event can begin there; the rest of its chunk is left out",
                            blocks->reader->current.chunk->offset + event.offset);
        if (r)
                return tell_sums(blocks, block);
        class = jfr_class(&blocks->reader->current.metadata, event.type);
        if (class && blocks->reader->current.states[class->number].plan)
                add_sample(blocks, block, class->number, event.data, event.data + event.data_size,
                           event.offset);
        else if (class)
                add_other(blocks, block, class->number, event.data, event.data + event.data_size);
        if (blocks->reader->current.chunk->compressed)
                read_buffer(blocks, block);
        look_up(blocks, block);
        return true;
}

int jfr_blocks_new(JfrBlocks **blocksp, JfrReader *reader) {
        _cleanup_(jfr_blocks_freep) JfrBlocks *blocks = calloc(1, sizeof(*blocks));
        int r;

        if (!blocks)
                return error_origin(-ENOMEM);
        blocks->reader = reader;
        blocks->block.seen = malloc(MAX_SEEN * sizeof(*blocks->block.seen));
        r = blocks->block.seen ? jfr_scan_init(&blocks->scan, reader->input, reader->current.chunk)
                               : error_origin(-ENOMEM);
        if (r)
                return r;
        blocks->block.buffer = blocks->scan.buffer;
        *blocksp = take(blocks);
        return 0;
}

JfrBlocks *jfr_blocks_free(JfrBlocks *blocks) {
        if (!blocks)
                return NULL;
        jfr_scan_deinit(&blocks->scan);
        free(blocks->block.seen);
        free(blocks);
        return NULL;
}

const JfrBlock *jfr_blocks_next(JfrBlocks *blocks) {
        blocks->ended = blocks->ended || !fill(blocks, &blocks->block);
        return blocks->ended ? NULL : &blocks->block;
}
