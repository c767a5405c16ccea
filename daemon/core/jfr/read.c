/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A recording from its first chunk to its last. Each chunk is read twice at most: what it says of itself and
 * its constants, then its events in order. A chunk that is damaged costs what is damaged: its events up to
 * there, and all other chunks, are read.
 *
 *     chunk.c       where metadata and constants are; looked for, if the chunk was cut off
 *     metadata.c    the chunk's own description of its types → classes and fields
 *     pool.c        constants, kept as the bytes that they are
 *     event.c       for each type that is a sample, a list of steps through its fields
 *     blocks.c      events → known combinations of stack, thread, span … and new ones
 *     samples.c     new combinations → rows of the window, by stacks.c and constants.c
 *     profiles.c    which profiles there are; recording.c: events about the recording itself
 *
 * What makes it fast is what it does not do. A known combination costs one look-up of a hash of the numbers
 * in the event (128 bits, seeded), and frames are read once for each stack. Events whose times are not kept
 * are added up in blocks.c. Types that are no samples are passed over by their size. Events pass through
 * buffers of 256 KiB, so memory does not grow with the recording, except for times: 12 to 20 bytes each, and
 * at most a million of them unless they are asked for.
 *
 * A recording may lie. A class inside itself, or with a field of unknown class, is `broken` and its events
 * fail. Fields that take no bytes are dropped, so that passing over a value costs no more than its bytes.
 * Checkpoints must point backwards.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/jfr/profiles.h"
#include "core/jfr/recording.h"
#include "core/jfr/samples.h"

enum {
        MAX_TYPES = 1 << 16,
        MIN_COMBINATION_BITS = 10,
        MAX_COMBINATION_BITS = 16,
        USUAL_EVENT = 16,               /* bytes, rather less than more */
};

static int find_type(JfrReader *reader, const char *name, uint32_t *rowp) {
        int r = intern_add(&reader->types.names, name, strlen(name) + 1, rowp);

        if (r == INTERN_E_FULL) {
                *rowp = 0;
                return 0;
        }
        if (r < 0)
                return r;
        if (r == INTERN_E_FOUND)
                return 0;
        r = array_reserve(&reader->types.rows, &reader->types.size, *rowp + 1u, 64);
        if (!r)
                reader->types.rows[*rowp] = (JfrTypeCount){ .is_sample = jfr_event_type(name) != NULL };
        return r;
}

/* The JDK's events about the recording itself have the field, and nothing for a profile. */
static bool may_have_stack(const JfrClass *class) {
        return jfr_field(class, "stackTrace") && !jfr_recording_kind(class->name) &&
                strcmp(class->name, "jdk.ActiveRecording") != 0;
}

static int plan_class(JfrReader *reader, const JfrClass *class) {
        JfrClassState *state = &reader->current.states[class->number];
        const JfrEventType *type = jfr_event_type(class->name);
        JfrPlan *plan = &reader->current.plans[reader->current.n_plans];
        int r;

        state->about = jfr_recording_kind(class->name);
        if (type && reader->options->no_time && jfr_group_is_of_time(type->group))
                type = NULL;
        if (type && reader->current.n_plans < jfr_n_event_types) {
                if (!jfr_plan_make(plan, type, class, &reader->current.pools, reader->n_chunks)) {
                        state->plan = plan;
                        state->timed = jfr_group_is_timed(type->group);
                        reader->current.n_plans++;
                } else
                        jfr_mistake(reader, "chunk at byte %" PRIu64 ": the fields of %s cannot be made out",
                                    reader->current.chunk->offset, class->name);
        }
        r = find_type(reader, class->name, &state->count);
        if (!r)
                reader->types.rows[state->count].has_stack |= may_have_stack(class);
        return r;
}

/* Pools that fields of samples, and of events about the recording, refer to. */
static void want_classes(JfrMetadata *metadata) {
        for (uint32_t i = 0; i < metadata->n_classes; i++) {
                const JfrClass *class = metadata->classes[i];

                if (!jfr_event_type(class->name) && !jfr_recording_kind(class->name))
                        continue;
                for (uint32_t j = 0; j < class->n_fields; j++)
                        jfr_names_want(&class->fields[j]);
        }
}

static int begin_chunk(JfrReader *reader) {
        int r = 0;

        reader->current.clock = jfr_clock_make(reader->current.chunk);
        reader->current.n_plans = 0;
        reader->current.by_async = reader->current.has_execution = false;
        reader->current.states = calloc(reader->current.metadata.n_classes, sizeof(*reader->current.states));
        reader->current.class_counts = calloc(reader->current.metadata.n_classes,
                                              sizeof(*reader->current.class_counts));
        if (!reader->current.states || !reader->current.class_counts)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < reader->current.metadata.n_classes && !r; i++)
                r = plan_class(reader, reader->current.metadata.classes[i]);
        jfr_names_begin(&reader->names, &reader->current.metadata, &reader->current.pools);
        return r ? r : jfr_recording_prepare(reader);
}

static void add_counts(JfrReader *reader) {
        for (uint32_t i = 0;
             reader->current.states && reader->current.class_counts && i < reader->current.metadata.n_classes;
             i++) {
                const JfrClassCount *from = &reader->current.class_counts[i];
                JfrTypeCount *to = &reader->types.rows[reader->current.states[i].count];

                to->n_read += from->n_read;
                to->n_out_of_time += from->n_out_of_time;
                to->n_failed += from->n_failed;
                if (reader->current.states[i].plan)
                        to->n_converted += from->n_read - from->n_out_of_time - from->n_failed -
                                reader->current.states[i].n_left_out;
        }
}

static void end_chunk(JfrReader *reader) {
        jfr_profiles_end_chunk(reader);
        add_counts(reader);
        jfr_pools_deinit(&reader->current.pools);
        jfr_metadata_deinit(&reader->current.metadata);
        free(reader->current.states);
        free(reader->current.class_counts);
        reader->current.states = NULL;
        reader->current.class_counts = NULL;
}

static int read_chunk(JfrReader *reader) {
        const JfrChunk *chunk = reader->current.chunk;
        uint64_t damage;
        int r = jfr_chunk_load(reader->input, chunk, want_classes, &reader->current.metadata,
                               &reader->current.pools, &damage);

        if (chunk->cut)
                jfr_mistake(reader,
                            "chunk at byte %" PRIu64
                            " is not complete: it was cut off, or the recording still went on",
                            chunk->offset);
        if (damage)
                jfr_mistake(reader, "byte %" PRIu64 ": types or constants of the chunk are damaged there",
                            damage);
        if (r == JFR_CHUNK_E_METADATA) {
                jfr_mistake(reader, "chunk at byte %" PRIu64 " does not say what its types are",
                            chunk->offset);
                r = 0;
        } else if (!r) {
                r = begin_chunk(reader);
                if (!r)
                        r = jfr_samples_read(reader);
        }
        end_chunk(reader);
        return r;
}

/* Times given from the start of the recording are known with its first chunk. */
static void set_times(JfrReader *reader) {
        const JfrOptions *options = reader->options;

        reader->start_ns = options->start_ns;
        reader->end_ns = options->end_ns;
        if (options->start_relative)
                reader->start_ns += reader->current.chunk->start_ns;
        if (options->end_relative &&
            __builtin_add_overflow(reader->end_ns, reader->current.chunk->start_ns, &reader->end_ns))
                reader->end_ns = UINT64_MAX;
}

static void cover(JfrReader *reader, const JfrChunk *chunk) {
        JfrResult *result = reader->result;
        uint64_t end_ns;

        if (__builtin_add_overflow(chunk->start_ns, chunk->duration_ns, &end_ns))
                end_ns = chunk->start_ns;
        result->start_ns = result->end_ns ? MIN(result->start_ns, chunk->start_ns) : chunk->start_ns;
        result->end_ns = MAX(result->end_ns, end_ns);
}

static int read_chunks(JfrReader *reader) {
        uint64_t offset = 0;

        while (offset < reader->input->size) {
                JfrChunk chunk;
                int r = jfr_chunk_open(reader->input, offset, &chunk);

                if (r == JFR_CHUNK_E_END)
                        break;
                if (r == JFR_CHUNK_E_HEADER) {
                        jfr_mistake(reader, "byte %" PRIu64 ": no chunk begins there", offset);
                        break;
                }
                reader->current.chunk = &chunk;
                reader->from = reader->n_chunks ? 0 : reader->options->from;
                if (!reader->n_chunks++)
                        set_times(reader);
                if (r == JFR_CHUNK_E_VERSION)
                        jfr_mistake(reader,
                                    "chunk at byte %" PRIu64 " has version %u.%u; 2.0 and 2.1 can be read",
                                    offset, chunk.major, chunk.minor);
                else {
                        cover(reader, &chunk);
                        r = read_chunk(reader);
                        if (r)
                                return r;
                }
                offset += chunk.size;
        }
        return 0;
}

/* From when to when the events are that count. */
static void note_times(JfrReader *reader) {
        JfrResult *result = reader->result;

        for (uint32_t i = 0; i < window_n_profiles(reader->window); i++) {
                const WindowProfile *profile = window_get_profile(reader->window, i);

                if (profile->resource != reader->resource || !profile->last_ns)
                        continue;
                result->first_ns = result->last_ns ? MIN(result->first_ns, profile->first_ns)
                                                   : profile->first_ns;
                result->last_ns = MAX(result->last_ns, profile->last_ns);
        }
}

/* Events of a type that could be in a profile and are in none. */
static uint64_t n_left_of(const JfrTypeCount *type) {
        if (!type->is_sample && !type->has_stack)
                return 0;
        return type->n_read - type->n_converted - type->n_out_of_time;
}

/* Adds a type to the most frequent ones. */
static void note_left_type(JfrResult *result, const char *name, uint64_t n) {
        uint32_t at = MIN(result->n_left_types, (uint32_t)JFR_MAX_LEFT);

        while (at && result->left[at - 1].n < n)
                at--;
        result->n_left += n;
        result->n_left_types++;
        if (at == JFR_MAX_LEFT)
                return;
        memmove(&result->left[at + 1], &result->left[at], (JFR_MAX_LEFT - at - 1) * sizeof(*result->left));
        result->left[at].n = n;
        snprintf(result->left[at].name, sizeof(result->left[at].name), "%s", name);
}

static void note_left(JfrReader *reader) {
        for (uint32_t i = 0; i < reader->types.names.n_items; i++) {
                uint64_t n = n_left_of(&reader->types.rows[i]);

                if (n)
                        note_left_type(reader->result, intern_get(&reader->types.names, i)->data, n);
        }
}

/* Diagnostics */

static const JfrReader *sorted_reader;

static int by_count(const void *a, const void *b) {
        const JfrTypeCount *x = &sorted_reader->types.rows[*(const uint32_t *)a],
                           *y = &sorted_reader->types.rows[*(const uint32_t *)b];

        if (x->is_sample != y->is_sample)
                return x->is_sample ? -1 : 1;
        return x->n_read > y->n_read ? -1 : x->n_read < y->n_read;
}

/* The recording chose the name: a newline in it would begin a row, so it is masked. */
static void print_type(const JfrTypeCount *type, const char *chosen, Text *text) {
        _cleanup_(text_deinit) Text name = { 0 };

        text_append_masked(&name, chosen);
        text_printf(text, "%-44s %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 " %12" PRIu64 "\n",
                    name.data ? name.data : "", type->n_read, type->n_converted, type->n_out_of_time,
                    type->n_failed, type->n_read - type->n_converted - type->n_out_of_time - type->n_failed);
}

static void print_types(const JfrReader *reader, const uint32_t *order, uint32_t n, Text *text) {
        text_printf(text, "%-44s %12s %12s %12s %12s %12s\n", "events", "read", "converted", "out of time",
                    "failed", "no sample");
        for (uint32_t i = 0; i < n; i++) {
                const JfrTypeCount *type = &reader->types.rows[order[i]];

                if (type->n_read)
                        print_type(type, intern_get(&reader->types.names, order[i])->data, text);
        }
}

static void print_diagnostics(const JfrReader *reader, Text *text) {
        const JfrCounts *counts = &reader->counts;
        uint32_t n = reader->types.names.n_items, *order = malloc(MAX(n, 1u) * sizeof(*order));

        if (!order)
                return;
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        sorted_reader = reader;
        qsort(order, n, sizeof(*order), by_count);
        print_types(reader, order, n, text);
        free(order);
        text_printf(text,
                    "chunks: %u; stacks: %" PRIu64 " with %" PRIu64 " frames, %" PRIu64 " remote, %" PRIu64
                    " stacks truncated; samples without their stack: %" PRIu64 "; frames without theirs: %" PRIu64
                    "\n",
                    reader->n_chunks, counts->n_stacks, counts->n_frames, counts->n_remote_frames,
                    counts->n_truncated, counts->n_stacks_missing, counts->n_frames_missing);
        if (reader->periods.assumed)
                text_printf(text,
                            "periods: some are not in the recording, and the usual ones of their profiler\n");
        text_printf(text, "libraries with a build id: %u; events whose combination was known: %" PRIu64 "\n",
                    reader->n_libraries, reader->combinations.n_known);
}

/* No more places than a small recording can have events. */
static int init_combinations(JfrReader *reader) {
        JfrCombinations *table = &reader->combinations;
        size_t size;

        table->bits = MIN_COMBINATION_BITS;
        while (table->bits < MAX_COMBINATION_BITS && reader->input->size / USUAL_EVENT >> table->bits)
                table->bits++;
        size = (size_t)1 << table->bits;
        /* two that are looked at together share a line of a cache */
        table->rows = aligned_alloc(64, size * sizeof(*table->rows));
        table->listed = malloc(size * sizeof(*table->listed));
        reader->places = calloc(size, sizeof(*reader->places));
        if (!table->rows || !table->listed || !reader->places)
                return error_origin(-ENOMEM);
        memset(table->rows, 0, size * sizeof(*table->rows));
        return 0;
}

static int init(JfrReader *reader) {
        intern_init(&reader->types.names, MAX_TYPES);
        reader->current.plans = calloc(jfr_n_event_types, sizeof(*reader->current.plans));
        reader->current.sets = calloc(1 << JFR_SET_CACHE_BITS, sizeof(*reader->current.sets));
        if (!reader->current.plans || !reader->current.sets || init_combinations(reader))
                return error_origin(-ENOMEM);
        return jfr_names_init(&reader->names, reader->window, &reader->counts);
}

static void deinit(JfrReader *reader) {
        JfrRecording *about = &reader->about;
        Text *texts[] = { &about->jvm_name,       &about->jvm_version, &about->jvm_arguments,
                          &about->java_arguments, &about->os,          &about->cpu,
                          &reader->current.event };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
                text_deinit(texts[i]);
        jfr_names_deinit(&reader->names);
        intern_deinit(&reader->types.names);
        free(reader->types.rows);
        free(reader->current.plans);
        free(reader->combinations.rows);
        free(reader->combinations.listed);
        free(reader->places);
        free(reader->current.sets);
        free(reader->libraries);
}

int jfr_read(const JfrInput *input, const JfrOptions *options, Window *window, JfrResult *result,
             Text *diagnostics, Text *problem) {
        JfrReader reader = { .input = input,
                             .options = options,
                             .window = window,
                             .result = result,
                             .problem = problem,
                             .timed = options->timestamps };
        int r, q = 0;

        *result = (JfrResult){ 0 };
        r = init(&reader);
        if (!r)
                r = read_chunks(&reader);
        if (r >= 0) {
                note_times(&reader);
                note_left(&reader);
                q = jfr_recording_finish(&reader);
        }
        if (r == JFR_E_FULL)
                jfr_mistake(&reader,
                            "has more distinct stacks or strings than can be held; the rest is left out");
        result->n_stackless = reader.counts.n_stacks_missing;
        result->n_frames_missing = reader.counts.n_frames_missing;
        if (diagnostics && r >= 0)
                print_diagnostics(&reader, diagnostics);
        deinit(&reader);
        if (r || q < 0)
                return r ? r : q;
        return reader.damaged ? JFR_E_DAMAGED : 0;
}
