/* SPDX-License-Identifier: Apache-2.0 */
#include "jfr/ahead.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "util/error.h"
#include "util/macro.h"

enum {
        N_BLOCKS = 4,
        MAX_BATCH = 64,
        MAX_SEEN = 4096,                /* of a block: more than are usually in what is read at once */
        MIN_CHUNK = 1 << 20,            /* a thread costs as much as 0.1 ms of reading */
        START_NUMBER = 0,               /* of JFR_SLOT_START, with which they begin */
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

struct JfrAhead {
        /* of the reader, who changes none of them meanwhile */
        const JfrChunk *chunk;
        const JfrMetadata *metadata;
        const JfrClassState *states;
        JfrClock clock;
        uint64_t start_ns, end_ns;
        JfrClassCount *counts;          /* by class number */
        JfrCombinations *table;

        JfrScan scan;                   /* its buffer is that of the block which was filled last */
        char mistake[256];
        JfrBlock blocks[N_BLOCKS];
        uint32_t n_blocks;
        Pending batch[MAX_BATCH];
        uint32_t n_batch;
        atomic_bool times_dropped;

        bool threaded;
        pthread_t thread;
        pthread_mutex_t mutex;          /* of all that follows */
        pthread_cond_t filled, freed;
        uint32_t n_filled, n_freed;     /* blocks so far */
        bool taken, ended, stopping;
};

static uint64_t to_ns(const JfrAhead *ahead, const JfrField *field, uint64_t value) {
        static const uint64_t factors[] = {
                [JFR_NANOSECONDS] = 1, [JFR_MICROSECONDS] = 1000, [JFR_MILLISECONDS] = 1000000, [JFR_SECONDS] = 1000000000,
        };

        if (field->unit == JFR_TICKS || field->unit == JFR_UNIT_NONE)
                return jfr_clock_duration_ns(&ahead->clock, value);
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

static int64_t duration_of(const JfrAhead *ahead, const JfrField *field, uint64_t value) {
        return (int64_t)value > 0 ? (int64_t)MIN(to_ns(ahead, field, value), (uint64_t)INT64_MAX) : 0;
}

static void note_period(const JfrAhead *ahead, const JfrPlan *plan, uint64_t value) {
        JfrClassCount *count = &ahead->counts[plan->class->number];

        count->periods_ns += (double)duration_of(ahead, plan->fields[JFR_SLOT_PERIOD], value);
        count->n_periods++;
}

static int64_t rare_value_of(const JfrAhead *ahead, const JfrPlan *plan, const uint64_t *numbers) {
        switch (plan->form) {
        case JFR_FORM_ONE:
                return 1;
        case JFR_FORM_PERIOD:
                note_period(ahead, plan, numbers[plan->value]);
                return 1;
        case JFR_FORM_DURATION:
                return duration_of(ahead, plan->fields[JFR_SLOT_DURATION], numbers[plan->value]);
        case JFR_FORM_REAL:
                return to_value(weight_of(plan, numbers[plan->value]));
        case JFR_FORM_PRODUCT:
                return to_value((double)numbers[plan->value] * weight_of(plan, numbers[plan->other]));
        default:
                return 0;
        }
}

static inline int64_t value_of(const JfrAhead *ahead, const JfrPlan *plan, const uint64_t *numbers) {
        if (plan->form == JFR_FORM_NUMBER || (plan->form == JFR_FORM_EITHER && numbers[plan->value]))
                return not_negative(numbers[plan->value]);
        return plan->form == JFR_FORM_EITHER ? not_negative(numbers[plan->other]) : rare_value_of(ahead, plan, numbers);
}

static inline uint64_t time_of(const JfrAhead *ahead, const JfrPlan *plan, const uint64_t *numbers) {
        const JfrField *field = plan->fields[JFR_SLOT_START];

        if (!field)
                return ahead->chunk->start_ns;
        if (field->unit == JFR_MILLISECONDS)
                return numbers[START_NUMBER] * 1000000;         /* since 1970 */
        return jfr_clock_time_ns(&ahead->clock, numbers[START_NUMBER]);
}

static void note_short(JfrAhead *ahead, uint32_t class, uint64_t offset) {
        ahead->counts[class].n_failed++;
        if (!*ahead->mistake)
                snprintf(ahead->mistake, sizeof(ahead->mistake), "byte %" PRIu64 ": the %s there is shorter than its fields",
                         ahead->chunk->offset + offset, ahead->states[class].plan->type->name);
}

/* One event of a class that has a plan. */
static inline __attribute__((always_inline)) void add_sample(JfrAhead *ahead, const JfrBlock *block, uint32_t class,
                                                             const uint8_t *data, const uint8_t *end, uint64_t offset) {
        const JfrPlan *plan = ahead->states[class].plan;
        uint64_t numbers[JFR_N_NUMBERS + 1], time_ns, high;
        JfrHash hash;

        ahead->counts[class].n_read++;
        if (!data || !jfr_plan_hash(plan, data, end, numbers, &hash)) {
                note_short(ahead, class, offset);
                return;
        }
        time_ns = time_of(ahead, plan, numbers);
        if (time_ns < ahead->start_ns || time_ns >= ahead->end_ns) {
                ahead->counts[class].n_out_of_time++;
                return;
        }
        high = (uint64_t)(hash >> 64);
        ahead->batch[ahead->n_batch++] = (Pending){ .hash = (uint64_t)hash, .more = (uint32_t)(high ^ high >> 32) | 1, .class = class,
                                                    .time_ns = time_ns, .value = value_of(ahead, plan, numbers),
                                                    .at = (uint32_t)(data - block->buffer), .size = (uint32_t)(end - data) };
        __builtin_prefetch(&ahead->table->rows[jfr_known_place((uint64_t)hash, ahead->table->bits)]);
}

static void tell_sum(JfrCombinations *table, JfrBlock *block, uint32_t place) {
        JfrCombination *row = &table->rows[place];

        if (row->n)
                block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_SUM, .place = place, .n = row->n, .value = row->value };
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
static void tell_new(JfrAhead *ahead, JfrBlock *block, const Pending *pending, uint32_t place) {
        JfrCombinations *table = ahead->table;
        JfrCombination *row = &table->rows[place];

        tell_sum(table, block, place + 1);
        tell_sum(table, block, place);
        row[1].hash = row[0].hash;
        row[1].more = row[0].more;
        row[0].hash = pending->hash;
        row[0].more = pending->more;
        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_NEW, .place = place, .class = pending->class, .n = 1,
                                             .value = pending->value, .time_ns = pending->time_ns, .at = pending->at,
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

/* Which of the two may know it is no branch: no CPU could foresee it. */
static void look_up(JfrAhead *ahead, JfrBlock *block) {
        bool times = !atomic_load_explicit(&ahead->times_dropped, memory_order_relaxed);
        JfrCombinations *table = ahead->table;

        for (const Pending *pending = ahead->batch, *end = pending + ahead->n_batch; pending < end; pending++) {
                uint32_t place = jfr_known_place(pending->hash, table->bits);
                uint32_t known = place + (table->rows[place].hash != pending->hash);
                JfrCombination *row = &table->rows[known];

                if (row->hash != pending->hash || row->more != pending->more) {
                        tell_new(ahead, block, pending, place);
                        continue;
                }
                table->n_known++;
                if ((times && ahead->states[pending->class].timed) || !add_to_sum(table, &ahead->counts[pending->class], known, pending))
                        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_TIMED, .place = known, .n = 1, .value = pending->value,
                                                             .time_ns = pending->time_ns };
        }
        ahead->n_batch = 0;
}

/* Of a class without a plan. */
static void add_other(JfrAhead *ahead, JfrBlock *block, uint32_t class, const uint8_t *data, const uint8_t *end) {
        ahead->counts[class].n_read++;
        if (!data || !ahead->states[class].about)
                return;
        look_up(ahead, block);
        block->seen[block->n++] = (JfrSeen){ .kind = JFR_SEEN_ABOUT, .class = class, .at = (uint32_t)(data - block->buffer),
                                             .size = (uint32_t)(end - data) };
}

static bool has_room(const JfrBlock *block) {
        return block->n + 3 * MAX_BATCH < MAX_SEEN;     /* each event of a batch may tell of two sums, too */
}

/* Events that are in the buffer as a whole, as nearly all are: jfr_scan_next() for many. */
static void read_buffer(JfrAhead *ahead, JfrBlock *block) {
        JfrScan *scan = &ahead->scan;
        const uint8_t *at = scan->buffer + scan->at, *end = scan->buffer + scan->size;

        while (has_room(block) && (size_t)(end - at) >= JFR_EVENT_HEADER_MAX) {
                const uint8_t *begin = at;
                uint64_t size = (uint32_t)jfr_quick_compressed(&at), type = jfr_quick_compressed(&at);
                const JfrClass *class;

                if (size < (uint64_t)(at - begin) || size > (uint64_t)(end - begin)) {
                        at = begin;
                        break;
                }
                class = jfr_class(ahead->metadata, type);
                if (class && ahead->states[class->number].plan)
                        add_sample(ahead, block, class->number, at, begin + size, scan->next - (uint64_t)(end - begin));
                else if (class)
                        add_other(ahead, block, class->number, at, begin + size);
                if (ahead->n_batch == MAX_BATCH)
                        look_up(ahead, block);
                at = begin + size;
        }
        scan->at = (size_t)(at - scan->buffer);
}

/* What was read and is not in a block yet goes on in this one. */
static void move_rest(JfrScan *scan, JfrBlock *block) {
        if (scan->buffer == block->buffer)
                return;
        scan->size -= scan->at;
        memcpy(block->buffer, scan->buffer + scan->at, scan->size);
        scan->buffer = block->buffer;
        scan->at = 0;
}

/* Tells what is still in sums. Return: whether there was any. */
static bool tell_sums(JfrAhead *ahead, JfrBlock *block) {
        JfrCombinations *table = ahead->table;

        while (table->n_listed && block->n < MAX_SEEN) {
                uint32_t place = table->listed[--table->n_listed];

                table->rows[place].listed = false;
                tell_sum(table, block, place);
        }
        return block->n;
}

/* One event, before which the buffer may be filled anew, then what is in the buffer. Return: whether there was any. */
static bool fill(JfrAhead *ahead, JfrBlock *block) {
        const JfrClass *class;
        JfrEvent event = { 0 };
        int r;

        block->n = 0;
        move_rest(&ahead->scan, block);
        r = jfr_scan_next_slowly(&ahead->scan, &event);
        block->next = ahead->scan.next;
        if (r == JFR_SCAN_E_MALFORMED && !ahead->chunk->cut && !*ahead->mistake)
                snprintf(ahead->mistake, sizeof(ahead->mistake),
                         "byte %" PRIu64 ": no event can begin there; the rest of its chunk is left out",
                         ahead->chunk->offset + event.offset);
        if (r)
                return tell_sums(ahead, block);
        class = jfr_class(ahead->metadata, event.type);
        if (class && ahead->states[class->number].plan)
                add_sample(ahead, block, class->number, event.data, event.data + event.data_size, event.offset);
        else if (class)
                add_other(ahead, block, class->number, event.data, event.data + event.data_size);
        if (ahead->chunk->compressed)
                read_buffer(ahead, block);
        look_up(ahead, block);
        return true;
}

/* The thread. Once all blocks are full it sleeps until half of them are free: to be woken costs more than to fill one. */
static void *read_ahead(void *userdata) {
        JfrAhead *ahead = userdata;

        pthread_mutex_lock(&ahead->mutex);
        while (!ahead->stopping && !ahead->ended) {
                bool any;

                pthread_mutex_unlock(&ahead->mutex);
                any = fill(ahead, &ahead->blocks[ahead->n_filled % N_BLOCKS]);
                pthread_mutex_lock(&ahead->mutex);
                ahead->n_filled += any;
                ahead->ended = !any;
                pthread_cond_signal(&ahead->filled);
                if (ahead->n_filled - ahead->n_freed == N_BLOCKS)
                        while (!ahead->stopping && ahead->n_filled - ahead->n_freed > N_BLOCKS / 2)
                                pthread_cond_wait(&ahead->freed, &ahead->mutex);
        }
        pthread_mutex_unlock(&ahead->mutex);
        return NULL;
}

static bool is_worth_a_thread(const JfrChunk *chunk) {
        cpu_set_t cpus;

        return chunk->compressed && chunk->size >= MIN_CHUNK &&
               (sched_getaffinity(0, sizeof(cpus), &cpus) < 0 || CPU_COUNT(&cpus) > 1);
}

/* Without a thread, for whatever reason, all goes on as if it was not worth one. */
static void start(JfrAhead *ahead) {
        sigset_t all, old;

        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        ahead->threaded = !pthread_create(&ahead->thread, NULL, read_ahead, ahead);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void stop(JfrAhead *ahead) {
        pthread_mutex_lock(&ahead->mutex);
        ahead->stopping = true;
        pthread_cond_signal(&ahead->freed);
        pthread_mutex_unlock(&ahead->mutex);
        pthread_join(ahead->thread, NULL);
}

/* A scan comes with its buffer: it is the first block's. */
static int add_block(JfrAhead *ahead) {
        JfrBlock *block = &ahead->blocks[ahead->n_blocks];

        block->buffer = ahead->n_blocks ? malloc(JFR_EVENT_BUFFER + JFR_SLACK) : ahead->scan.buffer;
        block->seen = malloc(MAX_SEEN * sizeof(*block->seen));
        ahead->n_blocks++;
        return block->buffer && block->seen ? 0 : error_origin(-ENOMEM);
}

int jfr_ahead_new(JfrAhead **aheadp, JfrReader *reader) {
        _cleanup_(jfr_ahead_freep) JfrAhead *ahead = calloc(1, sizeof(*ahead));
        bool thread = is_worth_a_thread(reader->chunk);
        int r;

        if (!ahead)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&ahead->mutex, NULL);
        pthread_cond_init(&ahead->filled, NULL);
        pthread_cond_init(&ahead->freed, NULL);
        ahead->chunk = reader->chunk;
        ahead->metadata = &reader->metadata;
        ahead->states = reader->states;
        ahead->counts = reader->class_counts;
        ahead->clock = reader->clock;
        ahead->start_ns = reader->start_ns;
        ahead->end_ns = reader->end_ns;
        ahead->table = &reader->combinations;
        atomic_init(&ahead->times_dropped, !reader->timed);
        r = jfr_scan_init(&ahead->scan, reader->input, reader->chunk);
        for (int i = 0; i < (thread ? N_BLOCKS : 1) && !r; i++)
                r = add_block(ahead);
        if (r)
                return r;
        if (thread)
                start(ahead);
        *aheadp = take(ahead);
        return 0;
}

JfrAhead *jfr_ahead_free(JfrAhead *ahead) {
        if (!ahead)
                return NULL;
        if (ahead->threaded)
                stop(ahead);
        pthread_cond_destroy(&ahead->freed);
        pthread_cond_destroy(&ahead->filled);
        pthread_mutex_destroy(&ahead->mutex);
        for (uint32_t i = 0; i < ahead->n_blocks; i++) {
                free(ahead->blocks[i].buffer);
                free(ahead->blocks[i].seen);
        }
        free(ahead);
        return NULL;
}

/* Gives the last one back. */
static const JfrBlock *wait_for_block(JfrAhead *ahead) {
        const JfrBlock *block = NULL;

        pthread_mutex_lock(&ahead->mutex);
        ahead->n_freed += ahead->taken;
        if (ahead->n_filled - ahead->n_freed == N_BLOCKS / 2)
                pthread_cond_signal(&ahead->freed);
        while (ahead->n_filled == ahead->n_freed && !ahead->ended)
                pthread_cond_wait(&ahead->filled, &ahead->mutex);
        ahead->taken = ahead->n_filled != ahead->n_freed;
        if (ahead->taken)
                block = &ahead->blocks[ahead->n_freed % N_BLOCKS];
        pthread_mutex_unlock(&ahead->mutex);
        return block;
}

const JfrBlock *jfr_ahead_next(JfrAhead *ahead) {
        if (ahead->threaded)
                return wait_for_block(ahead);
        ahead->ended = ahead->ended || !fill(ahead, &ahead->blocks[0]);
        return ahead->ended ? NULL : &ahead->blocks[0];
}

void jfr_ahead_drop_times(JfrAhead *ahead) {
        atomic_store_explicit(&ahead->times_dropped, true, memory_order_relaxed);
}

const char *jfr_ahead_mistake(const JfrAhead *ahead) {
        return ahead->mistake;
}
