/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The file has 120,000 to 250,000 lines (5 to 12 MiB of text):
 *
 *     ffffffff81000000 T _text
 *     ffffffff810001c0 t __pfx_rescan_cpu
 *     ffffffffc0405000 t nft_do_chain [nf_tables]
 *
 * The kernel's own symbols come sorted, so for each function an offset (4 bytes) and its name, stored one
 * behind the other, are enough; where every 16th name starts is kept, the rest is counted off. 64,000
 * functions take 1.7 MiB. Modules' and BPF's functions come in no order: these have an offset and a place
 * of the name each. What is not a function, and the paddings in front of functions (__pfx_, __cfi_), is left
 * out.
 */
#include "host/sampling/frames/kallsyms.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        MAX_SYMBOLS = 1 << 19,          /* symbols of each kind; the rest is left out */
        MAX_NAMES = 32 << 20,
        MAX_NAME = 512,                 /* KSYM_NAME_LEN */
        BUFFER = 16 << 10,
        EVERY = 16,
        PAGE = 4096,
};

/* modules lie up to 2 GiB before or behind the kernel, on every architecture */
#define BEFORE_TEXT (UINT64_C(1) << 31)

int kallsyms_next(KallsymsCursor *cursor, KallsymsLine *linep) {
        const char *line = cursor->text + cursor->at, *end, *p, *tab;
        size_t left = cursor->size - cursor->at;
        KallsymsLine result = { 0 };

        if (!left)
                return KALLSYMS_E_EOF;
        end = memchr(line, '\n', left);
        if (!end)
                end = line + left;
        cursor->at += (size_t)(end - line) + (end < line + left);
        p = memchr(line, ' ', (size_t)(end - line));
        if (!p || text_hex(line, p, &result.address) || end - p < 4 || p[2] != ' ')
                return KALLSYMS_E_MALFORMED;
        result.type = p[1];
        result.name = p + 3;
        tab = memchr(result.name, '\t', (size_t)(end - result.name));
        result.name_size = (size_t)((tab ? tab : end) - result.name);
        if (tab) {
                if (end - tab < 4 || tab[1] != '[' || end[-1] != ']')
                        return KALLSYMS_E_MALFORMED;
                result.module = tab + 2;
                result.module_size = (size_t)(end - 1 - result.module);
        }
        if (!result.name_size || result.name_size >= MAX_NAME)
                return KALLSYMS_E_MALFORMED;
        *linep = result;
        return 0;
}

static bool is_named(const KallsymsLine *line, const char *name) {
        return line->name_size == strlen(name) && !memcmp(line->name, name, line->name_size);
}

static bool starts_with(const KallsymsLine *line, const char *prefix) {
        return line->name_size >= strlen(prefix) && !memcmp(line->name, prefix, strlen(prefix));
}

static bool is_function(const KallsymsLine *line) {
        if (!strchr("tTwW", line->type))
                return false;
        return !starts_with(line, "__pfx_") && !starts_with(line, "__cfi_") && !starts_with(line, "$") &&
               !starts_with(line, ".L");
}

/* Marks of the linker, that some function's name should hide. */
static bool is_mark(const char *name) {
        return !strcmp(name, "_text") || !strcmp(name, "_stext") || !strcmp(name, "_head") ||
               !strcmp(name, "_sinittext") || !strcmp(name, "_etext") || !strcmp(name, "_einittext");
}

static unsigned underscores(const char *name) {
        return (unsigned)strspn(name, "_");
}

/* Order of two names for one address: no mark, then a global one, then fewer underscores in front. */
static bool is_better(const char *name, char type, const char *than, char than_type) {
        if (is_mark(name) != is_mark(than))
                return is_mark(than);
        if ((type == 'T') != (than_type == 'T'))
                return type == 'T';
        return underscores(name) < underscores(than);
}

/* A table that is being filled. */
typedef struct Loading {
        Kallsyms *kallsyms;
        char last_type;                 /* type of the newest sorted symbol */
        uint32_t last_name;
        int fd;
        size_t size, at;                /* bytes in the buffer, bytes used */
        bool end;
        char buffer[BUFFER];
} Loading;

static int grow(void **itemsp, uint32_t *sizep, uint32_t need, size_t item_size) {
        uint32_t size = *sizep ? *sizep : 1024;
        void *items;

        if (need <= *sizep)
                return 0;
        while (size < need)
                size += size / 2;
        items = realloc(*itemsp, size * item_size);
        if (!items)
                return error_origin(-ENOMEM);
        *itemsp = items;
        *sizep = size;
        return 0;
}

static int add_name(Kallsyms *kallsyms, const char *name, size_t size, uint32_t *atp) {
        int r = grow((void **)&kallsyms->names, &kallsyms->names_size,
                     kallsyms->names_used + (uint32_t)size + 1, 1);

        if (r)
                return r;
        *atp = kallsyms->names_used;
        memcpy(kallsyms->names + *atp, name, size);
        kallsyms->names[*atp + size] = 0;
        kallsyms->names_used += (uint32_t)size + 1;
        return 0;
}

/* Two symbols at one address: keeps the better name, which is the newest one. */
static int replace_last(Loading *loading, const KallsymsLine *line, const char *name) {
        Kallsyms *kallsyms = loading->kallsyms;

        if (!is_better(name, line->type, kallsyms->names + loading->last_name, loading->last_type))
                return 0;
        kallsyms->names_used = loading->last_name;
        loading->last_type = line->type;
        return add_name(kallsyms, name, line->name_size, &loading->last_name);
}

static int add_sorted(Loading *loading, const KallsymsLine *line, uint32_t offset, const char *name) {
        Kallsyms *kallsyms = loading->kallsyms;
        uint32_t n = kallsyms->n_symbols, size = kallsyms->symbols_size / EVERY;
        int r;

        if (n && kallsyms->offsets[n - 1] == offset)
                return replace_last(loading, line, name);
        r = grow((void **)&kallsyms->offsets, &kallsyms->symbols_size, n + 1, sizeof(*kallsyms->offsets));
        if (!r && (!kallsyms->sixteenth || kallsyms->symbols_size / EVERY != size)) {
                size = 0;
                r = grow((void **)&kallsyms->sixteenth, &size, kallsyms->symbols_size / EVERY + 1,
                         sizeof(*kallsyms->sixteenth));
        }
        if (!r)
                r = add_name(kallsyms, name, line->name_size, &loading->last_name);
        if (r)
                return r;
        if (n % EVERY == 0)
                kallsyms->sixteenth[n / EVERY] = loading->last_name;
        kallsyms->offsets[n] = offset;
        kallsyms->n_symbols = n + 1;
        loading->last_type = line->type;
        return 0;
}

/* Names of extras lie behind those of the sorted symbols, which end with the first extra. */
static int add_extra(Kallsyms *kallsyms, const KallsymsLine *line, uint32_t offset) {
        uint32_t name;
        int r;

        if (kallsyms->n_extras >= MAX_SYMBOLS)
                return 0;
        r = grow((void **)&kallsyms->extras, &kallsyms->extras_size, kallsyms->n_extras + 1,
                 sizeof(*kallsyms->extras));
        if (!r)
                r = add_name(kallsyms, line->name, line->name_size, &name);
        if (r)
                return r;
        kallsyms->extras[kallsyms->n_extras++] = (KallsymsExtra){ offset, name };
        return 0;
}

static int add_symbol(Loading *loading, const KallsymsLine *line) {
        Kallsyms *kallsyms = loading->kallsyms;
        uint64_t offset = line->address - kallsyms->base;
        uint32_t n = kallsyms->n_symbols;
        char name[MAX_NAME];

        if (!is_function(line) || line->address < kallsyms->base || offset > UINT32_MAX ||
            kallsyms->names_used > MAX_NAMES - MAX_NAME)
                return 0;
        if (!line->module_size && line->address >= kallsyms->text_end)
                kallsyms->text_end = line->address + 1;
        if (line->module_size || kallsyms->n_extras || n >= MAX_SYMBOLS ||
            (n && offset < kallsyms->offsets[n - 1]))
                return add_extra(kallsyms, line, (uint32_t)offset);
        memcpy(name, line->name, line->name_size);
        name[line->name_size] = 0;
        return add_sorted(loading, line, (uint32_t)offset, name);
}

/* Moves the cut line at the end to the front and reads more behind it. */
static bool fill(Loading *loading) {
        ssize_t n;

        if (loading->end)
                return false;
        memmove(loading->buffer, loading->buffer + loading->at, loading->size - loading->at);
        loading->size -= loading->at;
        loading->at = 0;
        if (loading->size == BUFFER)
                loading->size = 0;      /* no kernel prints a line this long */
        do
                n = read(loading->fd, loading->buffer + loading->size, BUFFER - loading->size);
        while (n < 0 && errno == EINTR);
        loading->end = n <= 0;
        loading->size += n > 0 ? (size_t)n : 0;
        return n > 0;
}

/* Gives each line to @visit until that returns non-zero. */
static int for_each_line(Loading *loading, int (*visit)(Loading *, const KallsymsLine *)) {
        loading->size = loading->at = 0;
        loading->end = false;
        if (lseek(loading->fd, 0, SEEK_SET) < 0)
                return 0;
        while (fill(loading)) {
                char *last = memrchr(loading->buffer, '\n', loading->size);
                KallsymsCursor cursor = { loading->buffer, last ? (size_t)(last + 1 - loading->buffer) : 0,
                                          0 };
                KallsymsLine line;
                int r;

                while ((r = kallsyms_next(&cursor, &line)) != KALLSYMS_E_EOF) {
                        if (!r)
                                r = visit(loading, &line);
                        else
                                r = 0;
                        if (r)
                                return r;
                }
                loading->at = cursor.size;
        }
        return 0;
}

/*
 * Stops at _text: it is one of the first lines. arm64 does not list it, but _stext alone, which is behind the
 * image's head.
 */
static int visit_text(Loading *loading, const KallsymsLine *line) {
        Kallsyms *kallsyms = loading->kallsyms;

        if (line->module_size || !line->address)
                return 0;
        if (is_named(line, "_text")) {
                kallsyms->text = line->address;
                kallsyms->is_stext = false;
                return 1;
        }
        if (is_named(line, "_stext")) {
                kallsyms->text = line->address;
                kallsyms->is_stext = true;
        }
        return kallsyms->text && line->address > kallsyms->text;
}

static int visit_symbol(Loading *loading, const KallsymsLine *line) {
        return add_symbol(loading, line);
}

static int compare_extras(const void *a, const void *b) {
        const KallsymsExtra *x = a, *y = b;

        return x->offset < y->offset    ? -1
                : x->offset > y->offset ? 1
                : x->name < y->name     ? -1
                                        : x->name > y->name;
}

/* Gives back what growing left over. */
static void trim(Kallsyms *kallsyms) {
        void *p;

        if (kallsyms->n_symbols &&
            (p = realloc(kallsyms->offsets, kallsyms->n_symbols * sizeof(*kallsyms->offsets))))
                kallsyms->offsets = p;
        if (kallsyms->names_used && (p = realloc(kallsyms->names, kallsyms->names_used)))
                kallsyms->names = p;
        if (kallsyms->n_extras &&
            (p = realloc(kallsyms->extras, kallsyms->n_extras * sizeof(*kallsyms->extras))))
                kallsyms->extras = p;
        kallsyms->symbols_size = kallsyms->n_symbols;
        kallsyms->names_size = kallsyms->names_used;
        kallsyms->extras_size = kallsyms->n_extras;
}

int kallsyms_load(Kallsyms *kallsyms, int fd) {
        _cleanup_(freep) Loading *loading = calloc(1, sizeof(*loading));
        Kallsyms result = { 0 };
        int r;

        if (!loading)
                return error_origin(-ENOMEM);
        loading->kallsyms = &result;
        loading->fd = fd;
        for_each_line(loading, visit_text);
        if (result.text) {
                result.base = result.text > BEFORE_TEXT ? result.text - BEFORE_TEXT : 0;
                r = for_each_line(loading, visit_symbol);
                if (r) {
                        kallsyms_deinit(&result);
                        return error_fold(r);
                }
                /* the last one has a body */
                result.text_end = (result.text_end + PAGE - 1) & ~(uint64_t)(PAGE - 1);
                if (result.n_extras)
                        qsort(result.extras, result.n_extras, sizeof(*result.extras), compare_extras);
                trim(&result);
        }
        *kallsyms = result;
        return 0;
}

void kallsyms_deinit(Kallsyms *kallsyms) {
        free(kallsyms->offsets);
        free(kallsyms->sixteenth);
        free(kallsyms->extras);
        free(kallsyms->names);
        *kallsyms = (Kallsyms){ 0 };
}

/*
 * Number of the last item at or below @offset, + 1; items are @stride bytes apart and start with their
 * offset.
 */
static uint32_t count_below(const void *items, uint32_t n, size_t stride, uint32_t offset) {
        uint32_t low = 0;

        while (low < n) {
                uint32_t middle = low + (n - low) / 2, at;

                memcpy(&at, (const char *)items + middle * stride, sizeof(at));
                if (at <= offset)
                        low = middle + 1;
                else
                        n = middle;
        }
        return low;
}

static const char *sorted_name(const Kallsyms *kallsyms, uint32_t n) {
        const char *name = kallsyms->names + kallsyms->sixteenth[n / EVERY];

        for (uint32_t i = n % EVERY; i; i--)
                name += strlen(name) + 1;
        return name;
}

const char *kallsyms_find(const Kallsyms *kallsyms, uint64_t address, uint64_t *startp) {
        uint64_t offset = address - kallsyms->base;
        uint32_t sorted, extra, sorted_offset, extra_offset;

        if (!kallsyms->text || address < kallsyms->base || offset > UINT32_MAX)
                return NULL;
        sorted = count_below(kallsyms->offsets, kallsyms->n_symbols, sizeof(*kallsyms->offsets),
                             (uint32_t)offset);
        extra = count_below(kallsyms->extras, kallsyms->n_extras, sizeof(*kallsyms->extras),
                            (uint32_t)offset);
        if (!sorted && !extra)
                return NULL;
        sorted_offset = sorted ? kallsyms->offsets[sorted - 1] : 0;
        extra_offset = extra ? kallsyms->extras[extra - 1].offset : 0;
        if (extra && extra_offset >= sorted_offset) {
                *startp = kallsyms->base + extra_offset;
                return kallsyms->names + kallsyms->extras[extra - 1].name;
        }
        *startp = kallsyms->base + sorted_offset;
        return sorted_name(kallsyms, sorted - 1);
}
