/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "symbol/image.h"
#include "symbol/symbols.h"
#include "util/error.h"

enum {
        DEFAULT_MAX_OBJECTS = 1024,
        DEFAULT_MAX_BYTES = 256 << 20,
        MAX_PATH = 4096,
        VDSO_MAX_BYTES = 16 << 10,      /* x86-64: two pages; reads stop at the end of its mapping */
};

/* Objects that cannot be read are remembered too, so that each is tried once. */
typedef struct Entry {
        char *path, *gnu, *go;          /* the key */
        SymbolTable *table;             /* NULL = none */
        SymbolState state;
        uint64_t last_use;
} Entry;

struct Symbolizer {
        char *debug_directory;
        uint32_t max_objects;
        size_t max_bytes, bytes;
        Entry **entries;
        uint32_t n_entries;
        DemangleStyle style;
        char readable[DEMANGLE_MAX_OUTPUT];
        Entry *latest;                  /* frames of one object come in rows */
        uint64_t clock;
};

static Entry *entry_free(Entry *entry) {
        if (!entry)
                return NULL;
        symbol_table_free(entry->table);
        free(entry->path);
        free(entry->gnu);
        free(entry->go);
        free(entry);
        return NULL;
}
DEFINE_CLEANUP(Entry, entry_free)

int symbolizer_new(Symbolizer **symbolizerp, const SymbolizerOptions *options) {
        static const SymbolizerOptions none;
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = calloc(1, sizeof(*symbolizer));
        const char *directory;

        if (!symbolizer)
                return error_origin(-ENOMEM);
        options = options ? options : &none;
        directory = options->debug_directory ? options->debug_directory : "/usr/lib/debug/.build-id";
        symbolizer->max_objects = options->max_objects ? options->max_objects : DEFAULT_MAX_OBJECTS;
        symbolizer->max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_MAX_BYTES;
        symbolizer->style = options->style;
        symbolizer->debug_directory = strdup(directory);
        symbolizer->entries = calloc(symbolizer->max_objects, sizeof(*symbolizer->entries));
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
        free(symbolizer->debug_directory);
        free(symbolizer);
        return NULL;
}

/* A FIFO or a device would block or act on open(): look first (O_PATH touches neither), then open what was seen. */
static int open_regular(const char *path, int *fdp, uint64_t *sizep, SymbolState *statep) {
        _cleanup_(closep) int seen = open(path, O_PATH | O_CLOEXEC);
        char link[64];
        struct stat st;

        *statep = SYMBOL_STATE_ABSENT;
        if (seen < 0)
                return 1;
        *statep = SYMBOL_STATE_UNREADABLE;
        if (fstat(seen, &st) < 0 || !S_ISREG(st.st_mode))
                return 1;
        snprintf(link, sizeof(link), "/proc/self/fd/%d", seen);
        *fdp = open(link, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        *sizep = (uint64_t)st.st_size;
        return *fdp < 0;
}

/* Whether the ids agree: by the GNU id if the profile has one, else by Go's. */
static bool is_same(const SymbolObject *object, const ImageIds *ids) {
        if (object->build_id_gnu[0])
                return !strcmp(object->build_id_gnu, ids->gnu);
        return !strcmp(object->build_id_go, ids->go);
}

/* Return: 0, -ENOMEM; *statep NAMED or DYNAMIC and the table, or why not. */
static int read_table(const SymbolObject *object, int fd, uint64_t base, uint64_t size, SymbolTable **tablep,
                      SymbolState *statep) {
        _cleanup_(elf_image_deinit) ElfImage image = { .fd = -1 };
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        ImageIds ids;
        int r;

        *statep = SYMBOL_STATE_UNREADABLE;
        r = elf_image_init(&image, fd, base, size);
        if (r)
                return r < 0 ? error_fold(r) : 0;
        r = elf_image_ids(&image, &ids);
        if (r)
                return error_fold(r);
        if (!is_same(object, &ids)) {
                *statep = SYMBOL_STATE_OTHER;
                return 0;
        }
        r = symbol_table_new(&table, &image, NULL);
        if (r)
                return r < 0 ? error_fold(r) : 0;
        *statep = SYMBOL_STATE_STRIPPED;
        if (!symbol_table_n_symbols(table))
                return 0;
        *statep = symbol_table_is_full(table) ? SYMBOL_STATE_NAMED : SYMBOL_STATE_DYNAMIC;
        *tablep = take(table);
        return 0;
}

/* What a source hands out may be anything too, and its size is needed. */
static int open_source(const SymbolSource *source, int *fdp, uint64_t *sizep, SymbolState *statep) {
        _cleanup_(closep) int fd = source->open(source->userdata);
        struct stat st;

        *statep = SYMBOL_STATE_ABSENT;
        if (fd < 0)
                return 1;
        *statep = SYMBOL_STATE_UNREADABLE;
        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 1;
        *fdp = take_fd(fd);
        *sizep = (uint64_t)st.st_size;
        return 0;
}

static int open_object(const SymbolObject *object, int *fdp, uint64_t *sizep, SymbolState *statep) {
        char path[MAX_PATH];

        if (object->source && object->source->open)
                return open_source(object->source, fdp, sizep, statep);
        if (!object->source || !object->source->root)
                return open_regular(object->path, fdp, sizep, statep);
        *statep = SYMBOL_STATE_ABSENT;
        if ((size_t)snprintf(path, sizeof(path), "%s%s", object->source->root, object->path) >= sizeof(path))
                return 1;
        return open_regular(path, fdp, sizep, statep);
}

static int read_own_file(const SymbolObject *object, SymbolTable **tablep, SymbolState *statep) {
        _cleanup_(closep) int fd = -1;
        uint64_t size;
        int r;

        if (open_object(object, &fd, &size, statep))
                return 0;
        r = read_table(object, fd, 0, size, tablep, statep);
        return r ? error_fold(r) : 0;
}

static int read_file(const SymbolObject *object, const char *path, SymbolTable **tablep, SymbolState *statep) {
        _cleanup_(closep) int fd = -1;
        uint64_t size;
        int r;

        if (open_regular(path, &fd, &size, statep))
                return 0;
        r = read_table(object, fd, 0, size, tablep, statep);
        return r ? error_fold(r) : 0;
}

static int read_vdso(const SymbolObject *object, SymbolTable **tablep, SymbolState *statep) {
        _cleanup_(closep) int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        uint64_t base = getauxval(AT_SYSINFO_EHDR);
        int r;

        *statep = SYMBOL_STATE_ABSENT;
        if (fd < 0 || !base)
                return 0;
        r = read_table(object, fd, base, VDSO_MAX_BYTES, tablep, statep);
        return r ? error_fold(r) : 0;
}

/* A debug file of the right name with another build id is no debug file: the state of the object stays. */
static int read_debug_file(const Symbolizer *symbolizer, const SymbolObject *object, SymbolTable **tablep,
                           SymbolState *statep) {
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        const char *id = object->build_id_gnu;
        char path[MAX_PATH];
        SymbolState state;
        int r;

        /* The id names a file, and it comes from a payload. */
        if (strlen(id) < 4 || strspn(id, "0123456789abcdef") != strlen(id))
                return 0;
        r = snprintf(path, sizeof(path), "%s/%.2s/%s.debug", symbolizer->debug_directory, id, id + 2);
        if (r < 0 || (size_t)r >= sizeof(path))
                return 0;
        r = read_file(object, path, &table, &state);
        if (r)
                return error_fold(r);
        if (state == SYMBOL_STATE_NAMED) {
                symbol_table_free(*tablep);
                *tablep = take(table);
                *statep = state;
        }
        return 0;
}

static int read_object(const Symbolizer *symbolizer, const SymbolObject *object, SymbolTable **tablep,
                       SymbolState *statep) {
        int r = 0;

        *statep = SYMBOL_STATE_NO_ID;
        if (!object->build_id_gnu[0] && !object->build_id_go[0])
                return 0;
        *statep = SYMBOL_STATE_ABSENT;
        if (!strcmp(object->path, "[vdso]"))
                r = read_vdso(object, tablep, statep);
        else if (object->path[0] == '/')
                r = read_own_file(object, tablep, statep);
        if (!r && *statep != SYMBOL_STATE_NAMED)
                r = read_debug_file(symbolizer, object, tablep, statep);
        return r ? error_fold(r) : 0;
}

static size_t entry_memory(const Entry *entry) {
        return entry->table ? symbol_table_memory(entry->table) : 0;
}

static int entry_new(Entry **entryp, const Symbolizer *symbolizer, const SymbolObject *object) {
        _cleanup_(entry_freep) Entry *entry = calloc(1, sizeof(*entry));
        int r;

        if (!entry)
                return error_origin(-ENOMEM);
        entry->path = strdup(object->path);
        entry->gnu = strdup(object->build_id_gnu);
        entry->go = strdup(object->build_id_go);
        if (!entry->path || !entry->gnu || !entry->go)
                return error_origin(-ENOMEM);
        r = read_object(symbolizer, object, &entry->table, &entry->state);
        if (r)
                return error_fold(r);
        *entryp = take(entry);
        return 0;
}

static void drop_oldest(Symbolizer *symbolizer) {
        uint32_t oldest = 0;

        for (uint32_t i = 1; i < symbolizer->n_entries; i++)
                if (symbolizer->entries[i]->last_use < symbolizer->entries[oldest]->last_use)
                        oldest = i;
        symbolizer->bytes -= entry_memory(symbolizer->entries[oldest]);
        entry_free(symbolizer->entries[oldest]);
        symbolizer->entries[oldest] = symbolizer->entries[--symbolizer->n_entries];
        symbolizer->latest = NULL;
}

/* One table that is larger than the cap is kept alone: without it nothing could be named. */
static void insert(Symbolizer *symbolizer, Entry *entry) {
        size_t bytes = entry_memory(entry);

        while (symbolizer->n_entries &&
               (symbolizer->n_entries == symbolizer->max_objects || symbolizer->bytes + bytes > symbolizer->max_bytes))
                drop_oldest(symbolizer);
        symbolizer->entries[symbolizer->n_entries++] = entry;
        symbolizer->bytes += bytes;
        symbolizer->latest = entry;
}

static bool matches(const Entry *entry, const SymbolObject *object) {
        return !strcmp(entry->gnu, object->build_id_gnu) && !strcmp(entry->go, object->build_id_go) &&
               !strcmp(entry->path, object->path);
}

static Entry *lookup(Symbolizer *symbolizer, const SymbolObject *object) {
        if (symbolizer->latest && matches(symbolizer->latest, object))
                return symbolizer->latest;
        for (uint32_t i = 0; i < symbolizer->n_entries; i++)
                if (matches(symbolizer->entries[i], object))
                        return symbolizer->latest = symbolizer->entries[i];
        return NULL;
}

int symbolizer_name(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, SymbolName *name) {
        Entry *entry = lookup(symbolizer, object);
        SymbolName found = { 0 };
        int r;

        if (!entry) {
                r = entry_new(&entry, symbolizer, object);
                if (r)
                        return error_fold(r);
                insert(symbolizer, entry);
        }
        entry->last_use = ++symbolizer->clock;
        found.state = entry->state;
        if (entry->table)
                found.linkage_name = symbol_table_find(entry->table, address, &found.offset);
        found.name = found.linkage_name;
        if (found.name && demangle(found.name, symbolizer->style, symbolizer->readable, sizeof(symbolizer->readable)))
                found.name = symbolizer->readable;
        *name = found;
        return 0;
}

int symbolizer_find(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, const char **namep,
                    uint64_t *offsetp, SymbolState *statep) {
        SymbolName name;
        int r = symbolizer_name(symbolizer, object, address, &name);

        if (r)
                return error_fold(r);
        if (name.name)
                *offsetp = name.offset;
        *namep = name.name;
        *statep = name.state;
        return 0;
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
        };

        return texts[state];
}

size_t symbolizer_memory(const Symbolizer *symbolizer) {
        return symbolizer->bytes;
}

uint32_t symbolizer_n_objects(const Symbolizer *symbolizer) {
        return symbolizer->n_entries;
}
