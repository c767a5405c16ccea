/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A look reads threads first, then the process context, so that a key map which came in between counts. The
 * mappings by their names come first, since a header that is wrong is found by its name alone; what has no
 * name is searched for as the daemon does (ring.h).
 *
 * Two ids of one record tell whether it is whole: a span belongs to one trace, so a span id that is met with
 * two trace ids was read from a record that was half written.
 */
#include "host/sampling/context/writer-check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "border/runtime_abi.h"
#include "core/base/data/hashmap.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/symbol/object/maps.h"
#include "host/sampling/context/adopt.h"
#include "host/sampling/context/ring.h"
#include "host/sampling/context/thread-look.h"
#include "host/sampling/process/memory.h"

#ifndef PR_SET_VMA              /* headers older than Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum {
        MAX_ENTRIES = 1 << 24,          /* entries of a search for what has no name */
        MAX_READS = 1 << 20,
        SEARCH_EVERY = 32,              /* looks from one search to the next */
        COPY_EVERY = 4,                 /* looks from one copy of the ring to the next */
        MAX_SLOTS = 1 << 16,            /* slots of a ring that are copied */
        MAX_SPANS = 1 << 16,            /* span ids that are remembered */
        STUCK = 10,                     /* looks in a row that meet a slot in use: its writer never ends */
        STRANGE = 3,                    /* changes of a slot that no living thread has */
        PAGE = 4096,
};

/* A mapping by its name, or by a search. */
typedef struct Place {
        uint64_t start, end;            /* start 0 = there is none */
        bool is_named, is_private, is_writable;
} Place;

/* A slot of the ring that some look has met. */
typedef struct Slot {
        uint32_t n_in_use;              /* looks in a row */
        uint32_t n_strange;
} Slot;

typedef struct Ring {
        Place place;
        uint32_t capacity;              /* 0 = its header is not right */
        Hashmap slots;                  /* number → Slot, owned */
        Hashmap tids;                   /* number → tid + 1, of this look */
        uint8_t *copy, *before;         /* MAX_SLOTS slots and the header; NULL = none yet */
        uint32_t copied_capacity;       /* of the ring that `copy` is of; 0 = of none */
        /* slots of threads that have lived since the last copy, and between that one and the one before */
        uint8_t owned[2][MAX_SLOTS / 8];
} Ring;

struct WriterCheck {
        Process *process;
        ObjectCache *objects;
        WriterRules rules;
        uint64_t n_looks;
        bool knows_clock;               /* the process has our clock of CLOCK_BOOTTIME */

        Place header;
        uint64_t n_headers, n_unfinished;       /* looks that met a header, and those that met no time */
        ProcessContext *context;        /* owned; the last that was right */
        uint8_t *payload;

        const char *unread;             /* reason why a variable is not read, at the last look */
        uint8_t form;                   /* enum abi_form, of the last look that had one */
        uint64_t n_unreadable;          /* threads whose record was not reached */
        bool lacks_key[PROCESS_CONTEXT_MAX_KEYS];

        Hashmap spans, ring_spans;      /* span id → hash of the trace id */
        Ring ring;
};

WriterRules *writer_check_rules(WriterCheck *check) {
        return &check->rules;
}

/* Clocks of a time namespace are others. */
static bool has_our_clock(const Process *process) {
        char path[64], ours[64] = "", theirs[64] = "";

        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/ns/time", process->pid);
        return readlink("/proc/self/ns/time", ours, sizeof(ours) - 1) < 0 ||
               (readlink(path, theirs, sizeof(theirs) - 1) > 0 && !strcmp(ours, theirs));
}

int writer_check_new(WriterCheck **checkp, Process *process, ObjectCache *objects) {
        _cleanup_(writer_check_freep) WriterCheck *check = calloc(1, sizeof(*check));

        if (!check)
                return error_origin(-ENOMEM);
        check->payload = malloc(SPANPROF_PROCESS_MAX_PAYLOAD);
        if (!check->payload)
                return error_origin(-ENOMEM);
        check->process = process;
        check->objects = objects;
        check->knows_clock = has_our_clock(process);
        *checkp = take(check);
        return 0;
}

WriterCheck *writer_check_free(WriterCheck *check) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!check)
                return NULL;
        while ((entry = hashmap_next(&check->ring.slots, &at)))
                free(entry->value);
        hashmap_deinit(&check->ring.slots);
        hashmap_deinit(&check->ring.tids);
        hashmap_deinit(&check->spans);
        hashmap_deinit(&check->ring_spans);
        process_context_free(check->context);
        free(check->ring.copy);
        free(check->ring.before);
        free(check->payload);
        free(check);
        return NULL;
}

/* ---- mappings ---- */

static Place place_of(const MapsEntry *entry, bool is_named) {
        return (Place){ entry->start, entry->end, is_named, !entry->shared, entry->writable };
}

static bool has_signature(const WriterCheck *check, uint64_t address) {
        struct spanprof_process_header header;

        return !memory_read((pid_t)check->process->pid, address, &header, sizeof(header)) &&
               !(process_header_faults(&header) & PROCESS_FAULT_SIGNATURE);
}

/* Of several mappings with the name, the first one with a header counts. */
static void take_named_header(WriterCheck *check, const MapsEntry *entry, bool *has_onep, uint64_t *np) {
        bool has_one = has_signature(check, entry->start);

        *np += has_one;
        if (check->header.is_named && (*has_onep || !has_one))
                return;
        check->header = place_of(entry, true);
        *has_onep = has_one;
}

static void take_entry(WriterCheck *check, const MapsEntry *entry, uint64_t context_address,
                       uint64_t ring_address) {
        if (context_address >= entry->start && context_address < entry->end) {
                check->header = place_of(entry, maps_has_prefix(entry, SPANPROF_PROCESS_NAME));
                check->header.start = context_address;
        }
        if (ring_address >= entry->start && ring_address < entry->end) {
                check->ring.place = place_of(entry, maps_has_name(entry, SPANPROF_RING_NAME));
                check->ring.place.start = ring_address;
        }
}

/* Places by the names of mappings, and of addresses that a search has found (0 = none). */
static int read_maps(WriterCheck *check, uint64_t context_address, uint64_t ring_address) {
        _cleanup_(closep) int proc = -1, fd = -1;
        _cleanup_(freep) MapsReader *reader = malloc(sizeof(*reader));
        const Process *process = check->process;
        bool has_one = false;
        MapsEntry entry;
        uint64_t n = 0;
        int r;

        if (!reader)
                return error_origin(-ENOMEM);
        r = process_open((pid_t)process->pid, process->start_time_ns, &proc);
        if (r)
                return r;
        fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ESRCH ? PROCESS_E_GONE : PROCESS_E_DENIED;
        check->header = check->ring.place = (Place){ 0 };
        maps_reader_init(reader, fd);
        while ((r = maps_reader_next(reader, &entry)) == 0 || r == MAPS_E_MALFORMED) {
                if (r)
                        continue;
                if (maps_has_prefix(&entry, SPANPROF_PROCESS_NAME))
                        take_named_header(check, &entry, &has_one, &n);
                else if (maps_has_name(&entry, SPANPROF_RING_NAME) && !check->ring.place.start)
                        check->ring.place = place_of(&entry, true);
                else
                        take_entry(check, &entry, check->header.start ? 0 : context_address,
                                   check->ring.place.start ? 0 : ring_address);
        }
        if (n > 1)
                writer_rules_violate(&check->rules, WRITER_RULE_PROCESS_SINGLE,
                                     "%" PRIu64 " mappings begin with a header", n);
        else if (n)
                writer_rules_pass(&check->rules, WRITER_RULE_PROCESS_SINGLE);
        return 0;
}

/* Return: 0, PROCESS_E_*, -errno. */
static int find_places(WriterCheck *check) {
        uint64_t context = check->header.is_named ? 0 : check->header.start;
        uint64_t ring = check->ring.place.is_named ? 0 : check->ring.place.start;
        RingBudget budget = { .n_entries = MAX_ENTRIES, .n_reads = MAX_READS };
        RingSearch search = { 0 };
        uint32_t capacity;
        int r;

        if ((!context || !ring) && check->n_looks % SEARCH_EVERY == 0) {
                r = ring_find((pid_t)check->process->pid, check->process->start_time_ns, false, &search,
                              &budget, &ring, &capacity);
                ring_search_stop(&search);
                if (r < 0)
                        return r;
                if (r == RING_E_GONE || r == RING_E_DENIED)
                        return r == RING_E_GONE ? PROCESS_E_GONE : PROCESS_E_DENIED;
                context = search.context_address ? search.context_address : context;
                ring = ring ? ring : search.invalid_address;
        }
        return read_maps(check, context, ring);
}

/* Whether the kernel shows names that a program gives to its memory. */
static bool can_name(void) {
        static int can = -1;
        void *page;

        if (can >= 0)
                return can;
        page = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        can = page != MAP_FAILED && !prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)page,
                                           (unsigned long)PAGE, (unsigned long)"spanprof");
        if (page != MAP_FAILED)
                munmap(page, PAGE);
        return can;
}

/* ---- process context ---- */

static void check_place(WriterCheck *check) {
        WriterRules *rules = &check->rules;

        if (check->header.is_named)
                writer_rules_pass(rules, WRITER_RULE_PROCESS_MAPPING);
        else
                writer_rules_violate(rules, WRITER_RULE_PROCESS_MAPPING,
                                     "the header at 0x%" PRIx64 " has no name: a search of all memory alone finds it",
                                     check->header.start);
}

static int take_payload(WriterCheck *check, const struct spanprof_process_header *header) {
        _cleanup_(process_context_freep) ProcessContext *context = NULL;
        int r = writer_rules_payload(&check->rules, check->payload, header->payload_size, &context);

        writer_rules_pass(&check->rules, WRITER_RULE_PROCESS_PAYLOAD);
        writer_rules_pass(&check->rules, WRITER_RULE_PROCESS_FINISHED);
        if (r)
                return MIN(r, 0);
        context->published_ns = header->published_ns;
        context->address = check->header.start;
        if (check->context)
                writer_rules_update(&check->rules, check->context, context);
        process_context_free(check->context);
        check->context = take(context);
        return 0;
}

static int look_at_process(WriterCheck *check) {
        struct spanprof_process_header header;
        pid_t pid = (pid_t)check->process->pid;
        int r;

        if (!check->header.start || memory_read(pid, check->header.start, &header, sizeof(header)))
                return 0;
        check_place(check);
        r = process_context_copy(pid, check->header.start, &header, check->payload);
        if (r == PROCESS_CONTEXT_E_GONE)
                return PROCESS_E_GONE;
        check->n_headers++;
        check->n_unfinished += r == PROCESS_CONTEXT_E_BUSY;
        writer_rules_process_header(&check->rules, &header,
                                    check->knows_clock ? clock_read_ns(CLOCK_BOOTTIME) : 0,
                                    check->knows_clock ? check->process->start_time_ns : 0);
        if (r == PROCESS_CONTEXT_E_MALFORMED && !(process_header_faults(&header) & PROCESS_FAULT_SIZE))
                writer_rules_violate(&check->rules, WRITER_RULE_PROCESS_PAYLOAD,
                                     "%" PRIu32 " bytes at 0x%" PRIx64 " are not all there",
                                     header.payload_size, header.payload);
        return r ? 0 : take_payload(check, &header);
}

/* ---- threads ---- */

/* A span id has one trace id. */
static int check_whole(WriterCheck *check, Hashmap *spans, WriterRule rule, const struct abi_span *span,
                       const char *what, uint64_t number) {
        /* never NULL, which is no value */
        uintptr_t trace = (uintptr_t)(span->trace_high * 0x9e3779b97f4a7c15 ^ span->trace_low) | 1;
        uintptr_t known;

        if (!span->span)
                return 0;
        known = (uintptr_t)hashmap_get(spans, span->span);
        if (known && known != trace)
                writer_rules_violate(&check->rules, rule, "%s %" PRIu64 ": span %016" PRIx64 " is there with two trace ids",
                                     what, number, span->span);
        else
                writer_rules_pass(&check->rules, rule);
        return known || spans->n_entries >= MAX_SPANS ? 0 : hashmap_put(spans, span->span, (void *)trace);
}

static void check_record(WriterCheck *check, const ThreadLook *look) {
        bool has_all = look->attributes_size == look->head.attributes_size;
        int unknown;

        writer_rules_record(&check->rules, &look->head, look->record, has_all ? look->attributes : NULL,
                            check->context, &unknown);
        if (unknown >= 0)
                check->lacks_key[unknown] = true;
        if (look->is_changed)
                writer_rules_violate(&check->rules, WRITER_RULE_THREAD_ALONE,
                                     "the record of thread %" PRIu32 " changed while its thread was stopped",
                                     look->tid);
        else
                writer_rules_pass(&check->rules, WRITER_RULE_THREAD_ALONE);
}

static int check_thread(WriterCheck *check, const ThreadLook *look) {
        if (look->outcome == THREAD_LOOK_NOT || look->outcome == THREAD_LOOK_ASLEEP)
                return 0;
        if (look->outcome == THREAD_LOOK_UNREADABLE && look->record) {
                writer_rules_violate(&check->rules, WRITER_RULE_THREAD_RECORD,
                                     "the variable of thread %" PRIu32 " leads to 0x%" PRIx64
                                     ", where no record of its form is", look->tid, look->record);
                return 0;
        }
        if (look->outcome == THREAD_LOOK_UNREADABLE) {
                check->n_unreadable++;
                return 0;
        }
        /* the way to a record of Node is as long again behind its variable */
        if (look->record || check->form != ABI_FORM_NODE)
                writer_rules_pass(&check->rules, WRITER_RULE_THREAD_ACCESS);
        if (look->record && (check->form == ABI_FORM_THREAD || check->form == ABI_FORM_NODE))
                check_record(check, look);
        else if (look->record)
                writer_rules_pass(&check->rules, WRITER_RULE_THREAD_RECORD);
        return look->outcome == THREAD_LOOK_PRESENT
                ? check_whole(check, &check->spans, WRITER_RULE_THREAD_WHOLE, &look->span, "thread", look->tid)
                : 0;
}

/* One that has the variable twice gives each reader, and each library, another one. */
static void check_single(WriterCheck *check) {
        const Mapping *first = NULL;

        for (size_t i = 0; i < check->process->n_mappings; i++) {
                const Mapping *mapping = &check->process->mappings[i];

                if (mapping->kind != MAPPING_FILE || mapping->object->thread_symbol.form != ABI_FORM_THREAD)
                        continue;
                if (first && first->object != mapping->object)
                        writer_rules_violate(&check->rules, WRITER_RULE_THREAD_SINGLE, "%s has it, and %s",
                                             first->path, mapping->path);
                else
                        first = mapping;
        }
        if (first)
                writer_rules_pass(&check->rules, WRITER_RULE_THREAD_SINGLE);
}

/* *looksp: released by thread_look_free(); NULL = no variable is there. Return: 0, -errno. */
static int look_at_threads(WriterCheck *check, ThreadLook **looksp, size_t *np) {
        ThreadContext thread = thread_context_find(check->process, &check->unread);

        *looksp = NULL;
        *np = 0;
        check_single(check);
        if (!thread.form)
                return 0;
        check->form = thread.form;
        writer_rules_pass(&check->rules, WRITER_RULE_THREAD_SYMBOL);
        return thread_look_all(check->process, &thread, looksp, np);
}

/* ---- ring ---- */

static int slot_state(Ring *ring, uint64_t number, Slot **slotp) {
        int r;

        *slotp = hashmap_get(&ring->slots, number);
        if (*slotp)
                return 0;
        *slotp = calloc(1, sizeof(**slotp));
        r = *slotp ? hashmap_put(&ring->slots, number, *slotp) : error_origin(-ENOMEM);
        if (r)
                free(*slotp);
        return r;
}

static void check_in_use(WriterCheck *check, Slot *state, const struct spanprof_ring_slot *slot,
                         uint64_t number) {
        writer_rules_ring_slot(&check->rules, slot, number);
        state->n_in_use = slot->in_use == 1 ? state->n_in_use + 1 : 0;
        if (state->n_in_use >= STUCK)
                writer_rules_violate(&check->rules, WRITER_RULE_RING_RELEASED,
                                     "slot %" PRIu64 " was in use at %" PRIu32 " looks in a row", number,
                                     state->n_in_use);
        else if (!slot->in_use)
                writer_rules_pass(&check->rules, WRITER_RULE_RING_RELEASED);
}

static int visit_slot(void *userdata, const struct abi_adoption *adoption) {
        WriterCheck *check = userdata;
        Ring *ring = &check->ring;
        uint64_t address = ring->place.start + sizeof(struct spanprof_ring_header) +
                adoption->slot * SPANPROF_RING_SLOT_SIZE;
        struct spanprof_ring_slot slot, again;
        pid_t pid = (pid_t)check->process->pid;
        uintptr_t other;
        Slot *state;
        int r;

        if (adoption->slot == ABI_ADOPTION_GONE)
                return 0;
        other = (uintptr_t)hashmap_get(&ring->tids, adoption->slot);
        if (other && other != adoption->tid + 1)
                writer_rules_violate(&check->rules, WRITER_RULE_RING_APART,
                                     "threads %" PRIu64 " and %" PRIu64 " share slot %" PRIu64,
                                     (uint64_t)other - 1, adoption->tid, adoption->slot);
        r = hashmap_put(&ring->tids, adoption->slot, (void *)((uintptr_t)adoption->tid + 1));
        if (r)
                return r;
        if (adoption->slot < MAX_SLOTS)
                ring->owned[0][adoption->slot / 8] |= (uint8_t)(1 << adoption->slot % 8);
        if (memory_read(pid, address, &slot, sizeof(slot)) ||
            memory_read(pid, address, &again, sizeof(again)))
                return 0;               /* never touched */
        r = slot_state(ring, adoption->slot, &state);
        if (r)
                return r;
        check_in_use(check, state, &slot, adoption->slot);
        if (slot.in_use || memcmp(&slot, &again, sizeof(slot)))
                return 0;
        return check_whole(check, &check->ring_spans, WRITER_RULE_RING_WHOLE,
                           &(struct abi_span){ slot.trace_id_high, slot.trace_id_low, slot.span_id }, "slot",
                           adoption->slot);
}

/* The slots that changed since the last copy, though no thread that lived meanwhile has them. */
static int check_strangers(WriterCheck *check, size_t n_slots) {
        Ring *ring = &check->ring;

        for (size_t i = 0; i < n_slots; i++) {
                size_t at = sizeof(struct spanprof_ring_header) + i * SPANPROF_RING_SLOT_SIZE;
                Slot *state;
                int r;

                if ((ring->owned[0][i / 8] | ring->owned[1][i / 8]) >> i % 8 & 1 ||
                    !memcmp(ring->copy + at, ring->before + at, SPANPROF_RING_SLOT_SIZE))
                        continue;
                r = slot_state(ring, i, &state);
                if (r)
                        return r;
                if (++state->n_strange >= STRANGE)
                        writer_rules_violate(&check->rules, WRITER_RULE_RING_SLOT,
                                             "slot %zu changes, and no living thread has such an id", i);
        }
        writer_rules_pass(&check->rules, WRITER_RULE_RING_SLOT);
        return 0;
}

static int copy_ring(WriterCheck *check) {
        Ring *ring = &check->ring;
        size_t n_slots = MIN(ring->capacity, (uint32_t)MAX_SLOTS),
               size = sizeof(struct spanprof_ring_header) + n_slots * SPANPROF_RING_SLOT_SIZE;
        const size_t room = sizeof(struct spanprof_ring_header) + MAX_SLOTS * SPANPROF_RING_SLOT_SIZE + PAGE;
        uint8_t *former = ring->before ? ring->before : calloc(1, room);
        bool is_first = ring->copied_capacity != ring->capacity;
        int r = 0;

        ring->before = ring->copy ? ring->copy : calloc(1, room);
        ring->copy = former;
        if (!ring->copy || !ring->before)
                return error_origin(-ENOMEM);
        ring->copied_capacity = ring->capacity;
        for (size_t at = 0; at < size; at += PAGE)
                if (memory_read((pid_t)check->process->pid, ring->place.start + at, ring->copy + at,
                                MIN((size_t)PAGE, size - at)))
                        memset(ring->copy + at, 0, PAGE);
        if (!is_first)
                r = check_strangers(check, n_slots);
        memcpy(ring->owned[1], ring->owned[0], sizeof(ring->owned[1]));
        memset(ring->owned[0], 0, sizeof(ring->owned[0]));
        return r;
}

static void check_ring_place(WriterCheck *check) {
        const Place *place = &check->ring.place;

        if (!place->is_named && can_name())
                writer_rules_violate(&check->rules, WRITER_RULE_RING_MAPPING,
                                     "the ring at 0x%" PRIx64 " has no name: a search of all memory alone finds it",
                                     place->start);
        else if (!place->is_private || !place->is_writable)
                writer_rules_violate(&check->rules, WRITER_RULE_RING_MAPPING, "it is %s",
                                     place->is_private ? "not writable" : "shared with other processes");
        else
                writer_rules_pass(&check->rules, WRITER_RULE_RING_MAPPING);
}

static int look_at_ring(WriterCheck *check) {
        struct spanprof_ring_header header;
        Ring *ring = &check->ring;
        int r;

        if (!ring->place.start ||
            memory_read((pid_t)check->process->pid, ring->place.start, &header, sizeof(header)))
                return 0;
        check_ring_place(check);
        writer_rules_ring_header(&check->rules, &header, ring->place.start, ring->place.end);
        if (ring_header_faults(&header, ring->place.start, ring->place.end))
                return 0;
        ring->capacity = header.capacity;
        hashmap_deinit(&ring->tids);
        r = adopt_threads(check->process->pid, ring->capacity, visit_slot, check);
        writer_rules_pass(&check->rules, WRITER_RULE_RING_APART);
        return !r && check->n_looks % COPY_EVERY == 0 ? copy_ring(check) : r;
}

/* ---- looks ---- */

int writer_check_look(WriterCheck *check) {
        ThreadLook *looks = NULL;
        size_t n = 0;
        int r = process_read_mappings(check->process, check->objects);

        if (!r)
                r = find_places(check);
        if (!r)
                r = look_at_threads(check, &looks, &n);
        if (!r)
                r = look_at_process(check);
        for (size_t i = 0; i < n && !r; i++)
                r = check_thread(check, &looks[i]);
        thread_look_free(looks, n);
        if (!r)
                r = look_at_ring(check);
        check->n_looks++;
        return r;
}

/* ---- the end ---- */

/* A process context that cannot be read has violated another rule: what it would say is not known. */
static bool is_context_known(const WriterCheck *check) {
        return check->context || !check->n_headers;
}

static void finish_threads(WriterCheck *check) {
        WriterRules *rules = &check->rules;
        const ProcessContext *context = check->context;
        bool is_threads = context && context->schema.size >= 3 && !memcmp(context->schema.data, "tls", 3);

        if (!check->form && check->unread && strncmp(check->unread, "no word", 7))
                writer_rules_violate(rules, WRITER_RULE_THREAD_SYMBOL, "%s", check->unread);
        else if (!check->form && check->unread)
                writer_rules_violate(rules, WRITER_RULE_THREAD_ACCESS, "%s", check->unread);
        else if (!check->form && (is_threads || (context && context->n_keys)))
                writer_rules_violate(rules, WRITER_RULE_THREAD_SYMBOL,
                                     "there is a schema of threads, and no file exports a variable");
        if (check->n_unreadable && rules->states[WRITER_RULE_THREAD_ACCESS] == WRITER_NOT_SEEN)
                writer_rules_violate(rules, WRITER_RULE_THREAD_ACCESS, "%s",
                                     check->form == ABI_FORM_NODE
                                             ? "V8's current frame leads to no record: another layout than is known"
                                             : "what its words say leads to no variable");
        if (check->form == ABI_FORM_THREAD && !context && is_context_known(check))
                writer_rules_violate(rules, WRITER_RULE_PROCESS_SCHEMA,
                                     "there is " SPANPROF_THREAD_SYMBOL ", and no process context with a schema");
}

static void finish_keys(WriterCheck *check) {
        const ProcessContext *context = check->context;
        size_t n_keys = context ? context->n_keys : 0;

        for (size_t i = 0; i < ARRAY_SIZE(check->lacks_key); i++)
                if (check->lacks_key[i] && i >= n_keys && is_context_known(check))
                        writer_rules_violate(&check->rules, WRITER_RULE_THREAD_KEYS,
                                             n_keys ? "index %zu has had no name until the end; the key map has %zu"
                                                    : "index %zu is used, and there is no key map", i, n_keys);
}

/* Return: whether the flags of the mapping at @address were found; *inheritedp = a child has it, too. */
static bool read_flags(FILE *file, uint64_t address, bool *inheritedp) {
        char line[PAGE];
        bool is_inside = false;

        while (fgets(line, sizeof(line), file)) {
                uint64_t start, end;

                if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
                        is_inside = address >= start && address < end;
                else if (is_inside && !strncmp(line, "VmFlags:", 8)) {
                        *inheritedp = !strstr(line, " dc");
                        return true;
                }
        }
        return false;
}

/* Reading smaps visits all pages of a process, so it is done once. */
static void finish_flags(WriterCheck *check) {
        char path[32];
        bool is_inherited;
        FILE *file;

        if (!check->header.start || !check->context)
                return;
        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/smaps", check->process->pid);
        file = fopen(path, "re");
        if (!file)
                return;
        if (read_flags(file, check->header.start, &is_inherited) && is_inherited)
                writer_rules_violate(&check->rules, WRITER_RULE_PROCESS_DONTFORK,
                                     "a child inherits the header, and what its parent said");
        else if (!feof(file))
                writer_rules_pass(&check->rules, WRITER_RULE_PROCESS_DONTFORK);
        fclose(file);
}

void writer_check_finish(WriterCheck *check) {
        if (check->n_headers > 1 && check->n_unfinished == check->n_headers)
                writer_rules_violate(&check->rules, WRITER_RULE_PROCESS_FINISHED,
                                     "there was no time at any of %" PRIu64 " looks", check->n_headers);
        finish_threads(check);
        finish_keys(check);
        finish_flags(check);
}
