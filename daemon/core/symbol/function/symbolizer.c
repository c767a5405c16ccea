/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps a table of functions for each object, found by file or by build id, and answers with the name that
 * covers an address. The oldest tables go when all are over the cap.
 */

#include "core/symbol/function/symbolizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/data/hashmap.h"
#include "core/symbol/function/debug-file.h"
#include "core/symbol/function/symbol-session.h"
#include "core/symbol/function/object-symbols.h"
#include "core/symbol/function/symbols.h"
#include "core/symbol/line/line-cache.h"

enum {
        DEFAULT_MAX_OBJECTS = 1024,
        DEFAULT_MAX_BYTES = 256 << 20,
        DEFAULT_LINES_MS = 120000,
};

/* Objects that cannot be read are remembered too, so that each is tried once. */
typedef struct Entry {
        char *path, *gnu, *go, *htlhash;        /* the key, with `file` */
        uint64_t file;                  /* the key, with the four above */
        SymbolTable *table;             /* NULL = none */
        SymbolState state;
        SymbolGo go_state;
        bool is_foreign;                /* a session reads it, names too (symbol-session.h) */
        Hashmap readable;               /* name in the table → demangled name, or the same */
        Arena readable_texts;
        LineCache lines;
        LinesState lines_state;
        size_t bytes;                   /* memory, as counted in the symbolizer */
        uint64_t last_use;
} Entry;

struct Symbolizer {
        char *debug_directory;
        uint32_t max_objects;
        size_t max_bytes, bytes;
        Entry **entries;
        uint32_t n_entries;
        Hashmap by_key;                 /* hash of the key → the entry that had it last */
        DemangleStyle style;
        bool want_lines;
        LinesOptions lines;
        const SymbolRemote *remote;     /* with `zygotes`; NULL = none */
        Zygotes *zygotes;
        uint64_t lines_left_ns;
        char readable[DEMANGLE_MAX_OUTPUT];
        Entry *latest;                  /* frames of one object often follow each other */
        uint64_t clock, aged;           /* counts uses; as it was at the last symbolizer_age() */
        SymbolizerStats stats;
};

static Entry *entry_free(Entry *entry) {
        if (!entry)
                return NULL;
        symbol_table_free(entry->table);
        hashmap_deinit(&entry->readable);
        arena_deinit(&entry->readable_texts);
        line_cache_deinit(&entry->lines);
        free(entry->path);
        free(entry->gnu);
        free(entry->go);
        free(entry->htlhash);
        free(entry);
        return NULL;
}
DEFINE_CLEANUP(Entry, entry_free)

static void take_options(Symbolizer *symbolizer, const SymbolizerOptions *options) {
        uint32_t lines_ms = options->lines_ms ? options->lines_ms : DEFAULT_LINES_MS;

        symbolizer->max_objects = options->max_objects ? options->max_objects : DEFAULT_MAX_OBJECTS;
        symbolizer->max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES;
        symbolizer->style = options->style;
        symbolizer->want_lines = options->want_lines;
        symbolizer->lines = options->lines;
        symbolizer->remote = options->remote;
        symbolizer->zygotes = options->zygotes;
        symbolizer->lines_left_ns = lines_ms * NS_PER_MS;
        symbolizer->debug_directory = strdup(options->debug_directory ? options->debug_directory
                                                                      : "/usr/lib/debug");
        symbolizer->entries = calloc(symbolizer->max_objects, sizeof(*symbolizer->entries));
}

int symbolizer_new(Symbolizer **symbolizerp, const SymbolizerOptions *options) {
        static const SymbolizerOptions none;
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));

        if (!symbolizer)
                return error_origin(-ENOMEM);
        take_options(symbolizer, options ? options : &none);
        if (!symbolizer->debug_directory || !symbolizer->entries)
                return error_origin(-ENOMEM);
        *symbolizerp = take(symbolizer);
        return 0;
}

Symbolizer *symbolizer_free(Symbolizer *symbolizer) {
        if (!symbolizer)
                return NULL;
        for (uint32_t i = 0; i < symbolizer->n_entries; i++)
                entry_free(symbolizer->entries[i]);
        free(symbolizer->entries);
        hashmap_deinit(&symbolizer->by_key);
        free(symbolizer->debug_directory);
        free(symbolizer);
        return NULL;
}

/* An object that is read here. */
typedef struct Reading {
        const Symbolizer *symbolizer;
        const SymbolObject *object;
        SymbolTable **tablep;
} Reading;

static int open_debug(void *userdata, const ElfImage *own, SymbolFile *file) {
        const Reading *reading = userdata;
        int r = debug_file_open(file, reading->object, own, reading->symbolizer->debug_directory,
                                DEBUG_FOR_SYMBOLS);

        return r < 0 ? error_fold(r) : r;
}

static int take_list(void *userdata, const SymbolList *list) {
        const Reading *reading = userdata;
        int r = symbol_table_new_list(reading->tablep, list);

        return r ? error_fold(r) : 0;
}

static int read_object(const Symbolizer *symbolizer, const SymbolObject *object, SymbolTable **tablep,
                       SymbolState *statep, SymbolGo *gop) {
        Reading reading = { symbolizer, object, tablep };
        const ObjectSymbols to = { .open_debug = open_debug, .sink = take_list, .userdata = &reading };
        _cleanup_(symbol_file_deinit) SymbolFile own = SYMBOL_FILE_NULL;
        int r = symbol_file_open(&own, object, statep);

        if (r >= 0)
                r = object_symbols_read(&to, r ? NULL : &own, statep, gop);
        return r ? error_fold(r) : 0;
}

static size_t entry_memory(const Entry *entry) {
        return (entry->table ? symbol_table_memory(entry->table) : 0) + entry->readable_texts.total +
               entry->readable.n_slots * sizeof(HashmapEntry) + line_cache_memory(&entry->lines);
}

static const char *text_of(const char *text) {
        return text ? text : "";
}

static int entry_new(Entry **entryp, const SymbolObject *object) {
        _cleanup_(entry_freep) Entry *entry = calloc(1, sizeof(*entry));

        if (!entry)
                return error_origin(-ENOMEM);
        line_cache_init(&entry->lines);
        entry->file = object->file;
        entry->path = strdup(object->path);
        entry->gnu = strdup(text_of(object->build_id_gnu));
        entry->go = strdup(text_of(object->build_id_go));
        entry->htlhash = strdup(text_of(object->build_id_htlhash));
        if (!entry->path || !entry->gnu || !entry->go || !entry->htlhash)
                return error_origin(-ENOMEM);
        *entryp = take(entry);
        return 0;
}

static uint64_t add_hash(uint64_t hash, const char *text) {
        return hash * UINT64_C(0x9e3779b97f4a7c15) + hash_bytes(text, strlen(text));
}

static uint64_t key_of(uint64_t file, const char *path, const char *gnu, const char *go,
                       const char *htlhash) {
        return add_hash(add_hash(add_hash(add_hash(file, path), gnu), go), htlhash);
}

static uint64_t key_of_entry(const Entry *entry) {
        return key_of(entry->file, entry->path, entry->gnu, entry->go, entry->htlhash);
}

static void drop(Symbolizer *symbolizer, uint32_t index) {
        Entry *entry = symbolizer->entries[index];
        uint64_t key = key_of_entry(entry);

        if (hashmap_get(&symbolizer->by_key, key) == entry)
                hashmap_remove(&symbolizer->by_key, key);
        symbolizer->bytes -= entry->bytes;
        entry_free(entry);
        symbolizer->entries[index] = symbolizer->entries[--symbolizer->n_entries];
        symbolizer->latest = NULL;
}

/* Drops the least recently used entry, but not @kept. Return: whether there was one. */
static bool drop_oldest(Symbolizer *symbolizer, const Entry *kept) {
        uint32_t oldest = UINT32_MAX;

        for (uint32_t i = 0; i < symbolizer->n_entries; i++)
                if (symbolizer->entries[i] != kept &&
                    (oldest == UINT32_MAX ||
                     symbolizer->entries[i]->last_use < symbolizer->entries[oldest]->last_use))
                        oldest = i;
        if (oldest == UINT32_MAX)
                return false;
        drop(symbolizer, oldest);
        symbolizer->stats.n_evicted++;
        return true;
}

void symbolizer_age(Symbolizer *symbolizer) {
        for (uint32_t i = symbolizer->n_entries; i-- > 0;)
                if (symbolizer->entries[i]->last_use <= symbolizer->aged) {
                        drop(symbolizer, i);
                        symbolizer->stats.n_aged++;
                }
        symbolizer->aged = symbolizer->clock;
}

/* An object that is larger than the cap is kept alone: without it nothing could be named. */
static void account(Symbolizer *symbolizer, Entry *entry) {
        size_t bytes = entry_memory(entry);

        symbolizer->bytes += bytes - entry->bytes;
        entry->bytes = bytes;
        while (symbolizer->bytes > symbolizer->max_bytes && drop_oldest(symbolizer, entry))
                ;
}

static int insert(Symbolizer *symbolizer, Entry *entry) {
        int r = hashmap_put(&symbolizer->by_key, key_of_entry(entry), entry);

        if (r)
                return error_fold(r);
        if (symbolizer->n_entries == symbolizer->max_objects)
                drop_oldest(symbolizer, NULL);
        symbolizer->entries[symbolizer->n_entries++] = entry;
        account(symbolizer, entry);
        symbolizer->stats.n_objects[entry->state]++;
        symbolizer->stats.n_go[entry->go_state]++;
        symbolizer->stats.n_cut += entry->table && symbol_table_n_left_out(entry->table);
        return 0;
}

static bool matches(const Entry *entry, const SymbolObject *object) {
        return entry->file == object->file && !strcmp(entry->gnu, text_of(object->build_id_gnu)) &&
                !strcmp(entry->go, text_of(object->build_id_go)) && !strcmp(entry->path, object->path) &&
                !strcmp(entry->htlhash, text_of(object->build_id_htlhash));
}

/*
 * If two keys have one hash, the later one takes the place, and the earlier is read again when it is needed.
 */
static Entry *lookup(Symbolizer *symbolizer, const SymbolObject *object) {
        Entry *entry = symbolizer->latest;

        if (entry && matches(entry, object))
                return entry;
        entry = hashmap_get(&symbolizer->by_key,
                            key_of(object->file, object->path, text_of(object->build_id_gnu),
                                   text_of(object->build_id_go), text_of(object->build_id_htlhash)));
        return entry && matches(entry, object) ? entry : NULL;
}

void symbolizer_forget(Symbolizer *symbolizer, const SymbolObject *object) {
        for (uint32_t i = symbolizer->n_entries; i-- > 0;)
                if (matches(symbolizer->entries[i], object))
                        drop(symbolizer, i);
}

/*
 * Lets a worker read a file that a server has sent. *entryp: NULL = no worker could. Names are made readable
 * here, as those of payloads are.
 */
static int read_foreign(Symbolizer *symbolizer, const SymbolObject *object, Entry **entryp) {
        WorkerSessionCounts counts = { 0 };
        int r = symbol_session_run(symbolizer->zygotes, symbolizer, object, NULL, 0, &counts);

        *entryp = r ? NULL : lookup(symbolizer, object);
        if (*entryp)
                (*entryp)->is_foreign = false;
        return r < 0 ? error_fold(r) : 0;
}

static int get_entry(Symbolizer *symbolizer, const SymbolObject *object, Entry **entryp) {
        _cleanup_(entry_freep) Entry *new = NULL;
        Entry *entry = lookup(symbolizer, object);
        int r;

        if (!entry && symbolizer->remote && strcmp(object->path, "[vdso]")) {
                r = read_foreign(symbolizer, object, &entry);
                if (r)
                        return error_fold(r);
        }
        if (!entry) {
                symbolizer->stats.n_misses++;
                r = entry_new(&new, object);
                if (!r)
                        r = read_object(symbolizer, object, &new->table, &new->state, &new->go_state);
                if (!r)
                        r = insert(symbolizer, new);
                if (r)
                        return error_fold(r);
                entry = take(new);
        }
        entry->last_use = ++symbolizer->clock;
        symbolizer->latest = entry;
        *entryp = entry;
        return 0;
}

/* @size: 0 = the name stays as it is in the file. */
static int keep_readable(Symbolizer *symbolizer, Entry *entry, const char *name, const char *text,
                         size_t size) {
        const char *readable = size ? arena_string(&entry->readable_texts, text, size) : name_in_file(name);
        int r;

        if (!readable)
                return error_origin(-ENOMEM);
        r = hashmap_put(&entry->readable, (uint64_t)(uintptr_t)name, (void *)readable);
        if (r)
                return error_fold(r);
        account(symbolizer, entry);
        return 0;
}

/* Each name of a table is demangled once. */
static int make_readable(Symbolizer *symbolizer, Entry *entry, const char *name, const char **readablep) {
        size_t n;
        int r;

        *readablep = name_in_file(name);
        if (!demangle_may(name) || symbolizer->style == DEMANGLE_NONE)
                return 0;
        *readablep = hashmap_get(&entry->readable, (uint64_t)(uintptr_t)name);
        if (!*readablep && entry->is_foreign)
                *readablep = name_in_file(name);
        if (*readablep)
                return 0;
        n = demangle(name, symbolizer->style, symbolizer->readable, sizeof(symbolizer->readable));
        r = keep_readable(symbolizer, entry, name, symbolizer->readable, n);
        *readablep = r ? NULL : hashmap_get(&entry->readable, (uint64_t)(uintptr_t)name);
        return r ? error_fold(r) : 0;
}

int symbolizer_name(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, SymbolName *name) {
        SymbolName found = { 0 };
        Entry *entry = NULL;
        int r = get_entry(symbolizer, object, &entry);

        if (r)
                return error_fold(r);
        found.state = entry->state;
        if (entry->table)
                found.linkage_name = symbol_table_find(entry->table, address, &found.offset);
        if (found.linkage_name)
                r = make_readable(symbolizer, entry, found.linkage_name, &found.name);
        if (found.linkage_name)
                found.linkage_name = name_in_file(found.linkage_name);
        if (r)
                return error_fold(r);
        *name = found;
        return 0;
}

bool symbolizer_knows(Symbolizer *symbolizer, const SymbolObject *object) {
        return lookup(symbolizer, object);
}

int symbolizer_put(Symbolizer *symbolizer, const SymbolObject *object, SymbolTable *table, SymbolState state,
                   SymbolGo go) {
        _cleanup_(entry_freep) Entry *new = NULL;
        int r = entry_new(&new, object);

        if (r) {
                symbol_table_free(table);
                return error_fold(r);
        }
        new->table = table;
        new->state = state;
        new->go_state = go;
        new->is_foreign = true;
        new->last_use = ++symbolizer->clock;
        r = insert(symbolizer, new);
        if (r)
                return error_fold(r);
        new = NULL;
        symbolizer->stats.n_misses++;
        return 0;
}

const char *symbolizer_unread(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address) {
        const Entry *entry = lookup(symbolizer, object);
        const char *name;
        uint64_t offset;

        if (!entry || !entry->table || symbolizer->style == DEMANGLE_NONE)
                return NULL;
        name = symbol_table_find(entry->table, address, &offset);
        return name && demangle_may(name) && !hashmap_get(&entry->readable, (uint64_t)(uintptr_t)name) ? name
                                                                                                       : NULL;
}

int symbolizer_put_readable(Symbolizer *symbolizer, const SymbolObject *object, const char *name,
                            const char *text, size_t size) {
        Entry *entry = lookup(symbolizer, object);
        int r = entry ? keep_readable(symbolizer, entry, name, text, size) : 0;

        return r ? error_fold(r) : 0;
}

/* The object itself if it has DWARF, or is Go's, else its debug file. Return: 0, 1 = neither has, -ENOMEM. */
static int open_dwarf(const Symbolizer *symbolizer, const SymbolObject *object, SymbolFile *file) {
        _cleanup_(symbol_file_deinit) SymbolFile own = SYMBOL_FILE_NULL;
        SymbolState state;
        int r = symbol_file_open(&own, object, &state);
        bool is_here = r == 0;

        if (is_here && elf_image_has_lines(&own.image)) {
                *file = own;
                own = (SymbolFile)SYMBOL_FILE_NULL;
                return 0;
        }
        if (r >= 0)
                r = debug_file_open(file, object, is_here ? &own.image : NULL, symbolizer->debug_directory,
                                    DEBUG_FOR_LINES);
        return r < 0 ? error_fold(r) : r;
}

/* Lines that did not come by the deadline are not asked for again: the next answer would take as long. */
static LinesState state_after(int r) {
        static const LinesState states[] = {
                [0] = LINES_STATE_READ,
                [LINES_E_TIMEOUT] = LINES_STATE_TIMEOUT,
                [LINES_E_FAILED] = LINES_STATE_FAILED,
                [LINES_E_PARTS] = LINES_STATE_PARTS,
                [LINES_E_ZSTD] = LINES_STATE_ZSTD,
        };

        return states[r];
}

/* A file of a server is not even looked into: the process that reads its lines is another. */
static int open_lines(const Symbolizer *symbolizer, const SymbolObject *object, SymbolFile *file) {
        const SymbolRemote *remote = symbolizer->remote;
        const char *id = object->build_id_gnu;
        uint64_t size;
        int r = open_dwarf(symbolizer, object, file);

        if (r == 1 && remote && id && *id)
                r = remote->fetch(remote, id, &file->fd, &size);
        return r < 0 ? error_fold(r) : r;
}

static int ask(Symbolizer *symbolizer, Entry *entry, const SymbolObject *object, const uint64_t *addresses,
               uint32_t n) {
        _cleanup_(symbol_file_deinit) SymbolFile file = SYMBOL_FILE_NULL;
        uint64_t start_ns = clock_monotonic_ns(), took_ns;
        LinesOptions options = symbolizer->lines;
        int r = open_lines(symbolizer, object, &file);

        if (r) {
                entry->lines_state = LINES_STATE_ABSENT;
                return r < 0 ? error_fold(r) : 0;
        }
        if (symbolizer->lines_left_ns < NS_PER_MS) {
                entry->lines_state = LINES_STATE_TIMEOUT;
                return 0;
        }
        options.timeout_ms = (uint32_t)MIN(options.timeout_ms ? options.timeout_ms : LINES_DEFAULT_TIMEOUT_MS,
                                           symbolizer->lines_left_ns / NS_PER_MS);
        r = line_cache_fill(&entry->lines, file.fd, addresses, n, &options);
        if (r < 0)
                return error_fold(r);
        entry->lines_state = state_after(r);
        took_ns = clock_monotonic_ns() - start_ns;
        symbolizer->lines_left_ns -= MIN(took_ns, symbolizer->lines_left_ns);
        symbolizer->stats.n_line_runs++;
        return 0;
}

/* Selects the addresses that were not asked for yet. Return: 0 with *newp owned by the caller, -ENOMEM. */
static int select_new(const Entry *entry, const uint64_t *addresses, uint32_t n, uint64_t **newp,
                      uint32_t *n_newp) {
        uint64_t *new = reallocarray(NULL, n ? n : 1, sizeof(*new));

        if (!new)
                return error_origin(-ENOMEM);
        *n_newp = 0;
        for (uint32_t i = 0; i < n; i++)
                if (!line_cache_find(&entry->lines, addresses[i]))
                        new[(*n_newp)++] = addresses[i];
        *newp = new;
        return 0;
}

int symbolizer_lines(Symbolizer *symbolizer, const SymbolObject *object, const uint64_t *addresses,
                     uint32_t n, LinesSink sink, void *userdata, LinesState *statep) {
        _cleanup_(freep) uint64_t *new = NULL;
        uint32_t n_new = 0;
        Entry *entry = NULL;
        int r = get_entry(symbolizer, object, &entry);

        if (!r)
                r = select_new(entry, addresses, n, &new, &n_new);
        if (!r && n_new &&
            (entry->lines_state == LINES_STATE_UNKNOWN || entry->lines_state == LINES_STATE_READ ||
             entry->lines_state == LINES_STATE_PARTS)) {
                r = ask(symbolizer, entry, object, new, n_new);
                symbolizer->stats.n_lines[entry->lines_state]++;
        }
        if (r < 0)
                return error_fold(r);
        for (uint32_t i = 0; i < n && !r; i++)
                r = line_cache_give(&entry->lines, addresses[i], i, sink, userdata);
        *statep = entry->lines_state;
        account(symbolizer, entry);
        return r ? error_fold(r) : 0;
}

const char *symbolizer_lines_object(const Symbolizer *symbolizer, uint32_t index, LinesState *statep) {
        if (index >= symbolizer->n_entries)
                return NULL;
        *statep = symbolizer->entries[index]->lines_state;
        return symbolizer->entries[index]->path ?: "";
}

const char *symbol_state_text(SymbolState state) {
        static const char *const texts[SYMBOL_N_STATES] = {
                [SYMBOL_STATE_NAMED] = "symbols",
                [SYMBOL_STATE_DYNAMIC] = "only exported symbols here",
                [SYMBOL_STATE_NO_ID] = "no build id in the profile",
                [SYMBOL_STATE_ABSENT] = "not on this machine",
                [SYMBOL_STATE_OTHER] = "another build on this machine",
                [SYMBOL_STATE_UNREADABLE] = "not readable here",
                [SYMBOL_STATE_STRIPPED] = "stripped",
                [SYMBOL_STATE_LARGE] = "too large",
        };

        return texts[state];
}

void symbolizer_set_remote(Symbolizer *symbolizer, const SymbolRemote *remote, Zygotes *zygotes) {
        symbolizer->remote = remote;
        symbolizer->zygotes = zygotes;
}

const SymbolRemote *symbolizer_remote(const Symbolizer *symbolizer) {
        return symbolizer->remote;
}

const char *symbolizer_debug_directory(const Symbolizer *symbolizer) {
        return symbolizer->debug_directory;
}

DemangleStyle symbolizer_style(const Symbolizer *symbolizer) {
        return symbolizer->style;
}

bool symbolizer_wants_lines(const Symbolizer *symbolizer) {
        return symbolizer->want_lines;
}

size_t symbolizer_memory(const Symbolizer *symbolizer) {
        return symbolizer->bytes;
}

uint32_t symbolizer_n_objects(const Symbolizer *symbolizer) {
        return symbolizer->n_entries;
}

const SymbolizerStats *symbolizer_stats(const Symbolizer *symbolizer) {
        return &symbolizer->stats;
}
