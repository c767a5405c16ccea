/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A page as input: `record` writes one if it is not told otherwise, so it must not be a dead end. The page
 * has less than the profile that it was made of: times by its buckets, no build ids, attributes as text. A
 * frame's object stands where a function's file does, unless the page has lines: they are those of files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/page/page-decode.h"

enum {
        VALUE_NONE,
        VALUE_OTHERS,
        MAX_PAGE = 256 << 20,           /* bytes of the file */
        MAX_DATA = 1 << 30,
        MAX_EVENTS = 1 << 24,           /* events of all rows; then each row counts as one */
};

typedef struct Filling {
        Convert *convert;
        Window *window;
        const DecodedPage *page;
        Hashmap words;                  /* frame << 32 | line → FrameWord, as a pointer */
        Hashmap stacks;                 /* node << 32 | lines → stack + 1, as a pointer */
        struct Owner {
                uint32_t profile, set, link;
                bool is_made;
        } *owners;                      /* by context */
        FrameWord *chain;               /* frames of a stack, the innermost first */
        uint64_t n_events;
} Filling;

static int base64_value(char c) {
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* *datap is malloc()ed. Return: 0, 1 = it has another character, -ENOMEM. */
static int unpack_base64(const char *text, size_t size, uint8_t **datap, size_t *np) {
        _cleanup_(freep) uint8_t *data = malloc(size / 4 * 3 + 3);
        uint32_t bits = 0;
        size_t n = 0;

        if (!data)
                return error_origin(-ENOMEM);
        while (size && text[size - 1] == '=')
                size--;
        for (size_t i = 0; i < size; i++) {
                int value = base64_value(text[i]);

                if (value < 0)
                        return 1;
                bits = bits << 6 | (uint32_t)value;
                if (i % 4)
                        data[n++] = (uint8_t)(bits >> (6 - i % 4 * 2));
        }
        *datap = take(data);
        *np = n;
        return 0;
}

/* ---- frames ---- */

static int intern_text(Window *window, const char *text, uint32_t *stringp) {
        return window_string(window, text, strlen(text), stringp);
}

/* Interpreted code has a type of its own in pages. */
static int type_of(Window *window, const char *type, WindowFrame *frame, bool is_inlined) {
        static const char interpreted[] = "jvm interpreted";
        bool is_interpreted = !strcmp(type, interpreted);
        const char *word = is_interpreted ? "interpreted" : "inlined";
        int r = intern_text(window, is_interpreted ? "jvm" : type, &frame->type);

        if (r || (!is_interpreted && (!is_inlined || strcmp(type, "jvm"))))
                return r;
        return window_attribute_string(window, "jvm.frame.compilation", word, strlen(word),
                                       &frame->attribute);
}

static int make_word(Filling *filling, uint32_t index, uint32_t line, FrameWord *wordp) {
        const PageFrame *from = &filling->page->frames[index];
        const char *const *strings = filling->page->strings;
        bool by_file = filling->page->n_lines > 1 && strings[from->file][0];
        const char *where = strings[by_file || !strings[from->object][0] ? from->file : from->object];
        WindowFunction function = { .start_line = from->line };
        WindowFrame frame = { .line = line };
        int r = intern_text(filling->window, strings[from->name], &function.name);

        if (!r)
                r = intern_text(filling->window, where, &function.filename);
        if (!r)
                r = window_function(filling->window, &function, &frame.function);
        if (!r)
                r = type_of(filling->window, strings[from->type], &frame, from->inlined);
        return r ? r : window_frame(filling->window, &frame, wordp);
}

/* `[no stack]` stands for a stack without frames. */
static bool is_no_stack(const DecodedPage *page, uint32_t frame) {
        return !strcmp(page->strings[page->frames[frame].name], "[no stack]");
}

static int word_of(Filling *filling, uint32_t frame, uint32_t line, FrameWord *wordp) {
        uint64_t key = (uint64_t)frame << 32 | line;
        int r;

        *wordp = (FrameWord)(uintptr_t)hashmap_get(&filling->words, key);
        if (*wordp)
                return 0;
        r = make_word(filling, frame, line, wordp);
        return r ? r : error_fold(hashmap_put(&filling->words, key, (void *)(uintptr_t)*wordp));
}

/* How many of the innermost steps of a row have no line. */
static uint32_t count_without(const DecodedPage *page, const PageRow *row) {
        uint32_t n = 0;

        for (uint32_t at = row->node; at; at = page->nodes[at].parent)
                n++;
        for (uint32_t at = row->lines; at; at = page->lines[at].outer)
                n--;
        return n;
}

static int make_stack(Filling *filling, const PageRow *row, uint32_t *stackp) {
        const DecodedPage *page = filling->page;
        uint32_t lines = row->lines, without = count_without(page, row);
        size_t n = 0;
        int r = 0;

        for (uint32_t at = row->node; at && !r; at = page->nodes[at].parent) {
                uint32_t frame = page->nodes[at].frame, line = without ? 0 : page->lines[lines].line;

                if (without)
                        without--;
                else
                        lines = page->lines[lines].outer;
                if (is_no_stack(page, frame))
                        continue;
                if (n == WINDOW_MAX_DEPTH)
                        return WINDOW_E_FULL;
                r = word_of(filling, frame, line, &filling->chain[n++]);
        }
        return r ? r : window_stack(filling->window, filling->chain, n, stackp);
}

static int stack_of(Filling *filling, const PageRow *row, uint32_t *stackp) {
        uint64_t key = (uint64_t)row->node << 32 | row->lines;
        uintptr_t known = (uintptr_t)hashmap_get(&filling->stacks, key);
        int r;

        if (known) {
                *stackp = (uint32_t)(known - 1);
                return 0;
        }
        r = make_stack(filling, row, stackp);
        return r ? r : error_fold(hashmap_put(&filling->stacks, key, (void *)(uintptr_t)(*stackp + 1u)));
}

/* ---- whose a sample is ---- */

/* `NAME (NUMBER)`, or either alone. Return: the length of the name. */
static size_t split_number(const char *label, bool *has_numberp, int64_t *numberp) {
        const char *open = strrchr(label, '('), *digits = open ? open + 1 : label;
        size_t n = strspn(digits, "0123456789");
        bool is_closed = open && open > label && open[-1] == ' ' && digits[n] == ')' && !digits[n + 1];

        *has_numberp = n && n < 19 && (open ? is_closed : !digits[n]);
        if (!*has_numberp)
                return strlen(label);
        *numberp = strtoll(digits, NULL, 10);
        return open ? (size_t)(open - label) - 1 : 0;
}

/* `SERVICE · PROGRAM (PID)`, as page-contexts.c has it. */
static int resource_of(Filling *filling, uint32_t value, const char *label, uint32_t *resourcep) {
        static const char dot[] = " · ";
        uint64_t key[] = { filling->convert->n_inputs, value };
        uint32_t attributes[3];
        const char *program = label, *middle;
        size_t n = 0, size;
        bool has_pid;
        int64_t pid;
        int r = window_resource(filling->window, hash_bytes(key, sizeof(key)), resourcep);

        size = split_number(label, &has_pid, &pid);
        middle = memmem(label, size, dot, strlen(dot));
        if (middle) {
                program = middle + strlen(dot);
                size -= (size_t)(program - label);
                if (!r)
                        r = window_attribute_string(filling->window, "service.name", label,
                                                    (size_t)(middle - label), &attributes[n++]);
        }
        if (!r && size)
                r = window_attribute_string(filling->window, "process.executable.name", program, size,
                                            &attributes[n++]);
        if (!r && has_pid)
                r = window_attribute_int(filling->window, "process.pid", pid, &attributes[n++]);
        return r ? r : window_resource_attributes(filling->window, *resourcep, attributes, n);
}

static int add_thread(Filling *filling, const char *label, uint32_t *set, size_t *np) {
        bool has_id;
        int64_t id;
        size_t size = split_number(label, &has_id, &id);
        int r = 0;

        if (size)
                r = window_attribute_string(filling->window, "thread.name", label, size, &set[(*np)++]);
        if (!r && has_id)
                r = window_attribute_int(filling->window, "thread.id", id, &set[(*np)++]);
        return r;
}

/* Adds a dimension's value as an attribute. Pages write `end` for the key profile.stack.truncated. */
static int add_value(Filling *filling, const DecodedDimension *dimension, uint32_t value, uint32_t *set,
                     size_t *np) {
        const char *label = filling->page->strings[dimension->labels[value]], *key = dimension->key;

        if (!strcmp(key, "thread") && value != VALUE_OTHERS)
                return add_thread(filling, label, set, np);
        if (!strcmp(key, "end"))
                key = "profile.stack.truncated";
        return window_attribute_string(filling->window, key, label, strlen(label), &set[(*np)++]);
}

static int add_values(Filling *filling, const DecodedContext *context, struct Owner *owner,
                      uint32_t *resourcep) {
        const DecodedPage *page = filling->page;
        uint32_t set[2 * PAGE_MAX_DIMENSIONS];
        size_t n = 0;
        int r = 0;

        for (uint32_t i = 0; i < page->n_dimensions && !r; i++) {
                const DecodedDimension *dimension = &page->dimensions[i];
                uint32_t value = context->values[i];
                WindowLink link;

                if (value == VALUE_NONE)
                        continue;
                if (!dimension->labels) {
                        if (value == VALUE_OTHERS)
                                continue;
                        memcpy(&link, dimension->spans + (value - 2) * sizeof(link), sizeof(link));
                        r = window_link(filling->window, &link, &owner->link);
                } else if (!strcmp(dimension->key, "process")) {
                        r = resource_of(filling, value, page->strings[dimension->labels[value]], resourcep);
                } else {
                        r = add_value(filling, dimension, value, set, &n);
                }
        }
        return r ? r : window_attribute_set(filling->window, set, n, &owner->set);
}

static int profile_of(Filling *filling, uint32_t resource, uint32_t kind_index, uint32_t *profilep) {
        const DecodedKind *kind = &filling->page->kinds[kind_index];
        WindowProfileNames names;
        int r = intern_text(filling->window, kind->type, &names.type);

        r = r ? r : intern_text(filling->window, kind->unit, &names.unit);
        r = r ? r : intern_text(filling->window, kind->period_type, &names.period_type);
        r = r ? r : intern_text(filling->window, kind->period_unit, &names.period_unit);
        return r ? r : window_profile_named(filling->window, resource, &names, 0, profilep);
}

static int owner_of(Filling *filling, uint32_t index, struct Owner **ownerp) {
        const DecodedContext *context = &filling->page->contexts[index];
        struct Owner *owner = &filling->owners[index];
        uint64_t nothing[] = { filling->convert->n_inputs, UINT64_MAX };
        uint32_t resource = 0;
        int r;

        *ownerp = owner;
        if (owner->is_made)
                return 0;
        r = add_values(filling, context, owner, &resource);
        if (!r && !resource)
                r = window_resource(filling->window, hash_bytes(nothing, sizeof(nothing)), &resource);
        r = r ? r : profile_of(filling, resource, context->kind, &owner->profile);
        owner->is_made = !r;
        return r;
}

/* ---- rows ---- */

/* Adds a row as samples: a kind that counts samples gets an event for each. */
static int add_row(Filling *filling, const PageRow *row) {
        const DecodedPage *page = filling->page;
        bool counts = !strcmp(page->kinds[page->contexts[row->context].kind].unit, "count");
        uint64_t n = counts && row->value <= MAX_EVENTS - filling->n_events ? row->value : 1;
        int64_t value = n == row->value ? 1 : (int64_t)MIN(row->value, (uint64_t)INT64_MAX >> 24);
        bool timed = row->bucket && page->bucket_ns;
        uint64_t time_ns = timed ? page->start_ns + (row->bucket - 1) * page->bucket_ns : 0;
        struct Owner *owner;
        uint32_t stack, sample;
        int r = stack_of(filling, row, &stack);

        filling->n_events += n - (n == 1);
        r = r ? r : owner_of(filling, row->context, &owner);
        if (!r)
                r = window_sample_number(filling->window, owner->profile, stack, owner->set, owner->link,
                                         &sample);
        for (uint64_t i = 0; i < n && !r; i++)
                r = window_sample_event(filling->window, owner->profile, sample, value, time_ns, timed);
        return r;
}

/* The page knows what all samples of a kind stand for, not each: a period is their mean. */
static void set_periods(Filling *filling) {
        const DecodedPage *page = filling->page;
        double values[PAGE_MAX_KINDS] = { 0 };

        for (size_t i = 0; i < page->n_rows; i++)
                values[page->contexts[page->rows[i].context].kind] += (double)page->rows[i].value;
        for (uint32_t i = 0; i < page->n_contexts; i++) {
                const DecodedKind *kind = &page->kinds[page->contexts[i].kind];
                double period = kind->measured / values[page->contexts[i].kind];

                if (filling->owners[i].is_made && period >= 1 && period < 1e18)
                        window_set_profile_period(filling->window, filling->owners[i].profile,
                                                  (int64_t)period);
        }
}

static int fill(Filling *filling) {
        const DecodedPage *page = filling->page;
        uint32_t last = 0;
        int r = 0;

        filling->owners = calloc(page->n_contexts + 1u, sizeof(*filling->owners));
        filling->chain = calloc(WINDOW_MAX_DEPTH, sizeof(*filling->chain));
        if (!filling->owners || !filling->chain)
                r = error_origin(-ENOMEM);
        for (size_t i = 0; i < page->n_rows && !r; i++) {
                r = add_row(filling, &page->rows[i]);
                last = MAX(last, page->rows[i].bucket);
        }
        if (!r)
                set_periods(filling);
        if (!r && page->bucket_ns)
                convert_cover(filling->convert, page->start_ns, page->start_ns + last * page->bucket_ns);
        hashmap_deinit(&filling->words);
        hashmap_deinit(&filling->stacks);
        free(filling->owners);
        free(filling->chain);
        return r;
}

static const char *describe_decode(int r) {
        switch (r) {
        case PAGE_DECODE_E_COMPARISON:
                return "compares two profiles: it cannot be taken apart again";
        case PAGE_DECODE_E_VERSION:
                return "its data is damaged, or of another version of spanprof: make a .pb of it by `spanprof convert` of that version";
        default:
                return "its data is damaged";
        }
}

static int read_data(Convert *convert, const uint8_t *data, size_t size, Text *problem) {
        DecodedPage page;
        Filling filling = { .convert = convert, .window = convert->window, .page = &page };
        int r = page_decode(&page, data, size);

        if (!r)
                r = fill(&filling);
        else if (r > 0)
                text_printf(problem, "%s", describe_decode(r));
        if (r == WINDOW_E_FULL && !problem->size)
                text_printf(problem, "more than a profile can hold: what came first is in it");
        page_decode_deinit(&page);
        return r > 0 ? CONVERT_E_INPUT : r;
}

static int read_page(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *html = NULL, *packed = NULL, *data = NULL;
        size_t size, text_size, packed_size = 0, data_size;
        const char *text;
        int r = convert_read_all(source, MAX_PAGE, &html, &size, problem);

        if (r)
                return r;
        if (!page_find_data((const char *)html, size, &text, &text_size)) {
                text_printf(problem,
                            "is a web page without the data of a profile; those of `spanprof record`, "
                            "`report` and `convert` have it");
                return CONVERT_E_INPUT;
        }
        r = unpack_base64(text, text_size, &packed, &packed_size);
        r = r ? r : gzip_expand(packed, packed_size, MAX_DATA, &data, &data_size);
        if (r < 0)
                return error_fold(r);
        if (r) {
                text_printf(problem, "its data is damaged");
                return CONVERT_E_INPUT;
        }
        return read_data(convert, data, data_size, problem);
}

static bool recognize(const uint8_t *data, size_t size) {
        static const char *const begins[] = { "<!doctype html", "<html" };

        for (size_t i = 0; i < ARRAY_SIZE(begins); i++) {
                size_t n = strlen(begins[i]);

                if (size >= n && !strncasecmp((const char *)data, begins[i], n))
                        return true;
        }
        return false;
}

const ConvertReader convert_read_page = { .name = "html", .recognize = recognize, .read = read_page };
