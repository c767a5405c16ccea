/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Splits the head of a sample from the left: the command may hold blanks, so the number of the thread is the
 * first one that a CPU, a time or an event follows. Splits a frame from the right: a demangled name may hold
 * blanks and brackets, and the file is in the last pair of them. A frame that perf could not name is named
 * after its file, as `[libc.so.6]`: an address alone would be looked up in a file that is another by now.
 */

#include "desk/folded/perf-script.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/macro.h"

enum {
        MAX_HEAD_LINES = 4096,          /* comments of --header before the first sample */
        MAX_EVENT = 128,
};

/* A part of a line; not terminated. */
typedef struct Word {
        const char *at;
        size_t size;
} Word;

typedef struct Head {
        Word comm, event, rest;         /* rest: behind the event; of a sample without a stack, its frame */
        uint64_t pid, tid, period;      /* pid: 0 = not printed; period: 0 = the same */
        bool is_over;                   /* the period is above 63 bits */
        bool has_time;
} Head;

static bool is_blank(char c) {
        return c == ' ' || c == '\t';
}

static Word trim(const char *at, const char *end) {
        while (at < end && is_blank(*at))
                at++;
        while (at < end && (is_blank(end[-1]) || end[-1] == '\r'))
                end--;
        return (Word){ at, (size_t)(end - at) };
}

static Word next_word(const char **atp, const char *end) {
        const char *at = *atp, *start;

        while (at < end && is_blank(*at))
                at++;
        start = at;
        while (at < end && !is_blank(*at))
                at++;
        *atp = at;
        return (Word){ start, (size_t)(at - start) };
}

/* Return: bytes that are digits of a number, which saturates. */
static size_t take_digits(Word word, uint64_t *valuep) {
        size_t n = 0;

        *valuep = 0;
        for (; n < word.size && word.at[n] >= '0' && word.at[n] <= '9'; n++)
                if (__builtin_mul_overflow(*valuep, 10, valuep) ||
                    __builtin_add_overflow(*valuep, (uint64_t)(word.at[n] - '0'), valuep))
                        *valuep = UINT64_MAX;
        return n;
}

static bool is_number(Word word, uint64_t *valuep) {
        return word.size && take_digits(word, valuep) == word.size;
}

/* 815 or 812/815. */
static bool is_thread(Word word, uint64_t *pidp, uint64_t *tidp) {
        size_t n = take_digits(word, tidp);

        *pidp = 0;
        if (!n || *tidp > INT32_MAX)
                return false;
        if (n == word.size)
                return true;
        *pidp = *tidp;
        return word.at[n] == '/' && is_number((Word){ word.at + n + 1, word.size - n - 1 }, tidp) &&
                *tidp <= INT32_MAX;
}

static bool is_cpu(Word word) {
        uint64_t cpu;

        return word.size > 2 && word.at[0] == '[' && word.at[word.size - 1] == ']' &&
                is_number((Word){ word.at + 1, word.size - 2 }, &cpu);
}

/* 54552.427157: */
static bool is_time(Word word) {
        uint64_t number;
        size_t n = take_digits(word, &number);

        return n && n + 2 < word.size && word.at[n] == '.' && word.at[word.size - 1] == ':' &&
                is_number((Word){ word.at + n + 1, word.size - n - 2 }, &number);
}

static bool is_event(Word word) {
        return word.size > 1 && word.size <= MAX_EVENT && word.at[word.size - 1] == ':' &&
                isalpha((unsigned char)word.at[0]);
}

/* What follows the thread: [CPU] time: period event: frame, of which the event alone must be there. */
static bool parse_tail(Head *head, const char *at, const char *end) {
        Word word = next_word(&at, end);

        if (is_cpu(word))
                word = next_word(&at, end);
        head->has_time = is_time(word);
        if (head->has_time)
                word = next_word(&at, end);
        if (is_number(word, &head->period)) {
                head->is_over = head->period > INT64_MAX;
                head->period = MIN(head->period, (uint64_t)INT64_MAX);
                word = next_word(&at, end);
        }
        if (!is_event(word))
                return false;
        head->event = (Word){ word.at, word.size - 1 };
        head->rest = trim(at, end);
        return true;
}

/* Without the letters behind its last colon: `cpu-clock:pppH` is cpu-clock, `sched:sched_switch` itself. */
static Word event_name(Word event) {
        const char *colon = memrchr(event.at, ':', event.size);
        size_t n = colon ? (size_t)(event.at + event.size - colon) - 1 : 0;

        for (size_t i = 0; i < n; i++)
                if (!strchr("ukhIGHpPSDWe", colon[1 + i]))
                        return event;
        return colon ? (Word){ event.at, (size_t)(colon - event.at) } : event;
}

static bool parse_head(const char *line, size_t size, Head *head) {
        const char *at = line, *end = line + size;

        for (bool is_first = true;; is_first = false) {
                Word word = next_word(&at, end);

                *head = (Head){ 0 };
                if (!word.size)
                        return false;
                head->comm = trim(line, word.at);
                if (!is_first && is_thread(word, &head->pid, &head->tid) && parse_tail(head, at, end)) {
                        head->event = event_name(head->event);
                        return true;
                }
        }
}

/* `15c1a hash+0x58a (/usr/bin/shop)`; the address is not kept. Return: whether it is a frame. */
static bool parse_frame(const char *line, size_t size, Word *namep, Word *filep) {
        static const char deleted[] = " (deleted))";
        Word all = trim(line, line + size), address;
        const char *at = all.at, *end = all.at + all.size, *open, *plus;
        size_t n_behind = sizeof(deleted) - 1;

        address = next_word(&at, end);
        for (size_t i = 0; i < address.size; i++)
                if (!isxdigit((unsigned char)address.at[i]))
                        return false;
        if (!address.size || at == end || end[-1] != ')')
                return false;
        if (all.size > n_behind && !memcmp(end - n_behind, deleted, n_behind))
                open = memrchr(at, '(', (size_t)(end - at) - n_behind);
        else
                open = memrchr(at, '(', (size_t)(end - at));
        if (!open || open == at || !is_blank(open[-1]))
                return false;
        *filep = (Word){ open + 1, (size_t)(end - open) - 2 };
        *namep = trim(at, open);
        plus = memrchr(namep->at, '+', namep->size);
        if (plus && plus + 2 < namep->at + namep->size && plus[1] == '0' && plus[2] == 'x')
                namep->size = (size_t)(plus - namep->at);
        return true;
}

static bool is_word(Word word, const char *text) {
        return word.size == strlen(text) && !memcmp(word.at, text, word.size);
}

/* ---- rows ---- */

static int full(int r) {
        return r == WINDOW_E_FULL ? PERF_SCRIPT_E_FULL : r;
}

static int put_string(PerfScript *script, Word word, uint32_t *indexp) {
        return window_string(script->window, word.at, word.size, indexp);
}

/* The name of a frame that perf had none for. */
static int put_unknown(PerfScript *script, Word file, uint32_t *indexp) {
        const char *slash = memrchr(file.at, '/', file.size);
        char text[80] = "[unknown]";

        if (slash)
                file = (Word){ slash + 1, (size_t)(file.at + file.size - slash) - 1 };
        if (slash && file.size)
                snprintf(text, sizeof(text), "[%.*s]", (int)MIN(file.size, sizeof(text) - 3), file.at);
        return window_string(script->window, text, strlen(text), indexp);
}

/* The file itself has no place: a mapping without a build id would name another file of that path. */
static int put_type(PerfScript *script, Word file, uint32_t *typep) {
        bool is_kernel = is_word(file, "[kernel.kallsyms]") || is_word(file, "[guest.kernel.kallsyms]") ||
                (file.size > 3 && !memcmp(file.at + file.size - 3, ".ko", 3));

        if (is_kernel)
                return window_string(script->window, "kernel", 6, typep);
        return file.size && *file.at == '/' ? window_string(script->window, "native", 6, typep) : 0;
}

static int flush_frame(PerfScript *script) {
        int r;

        if (!script->is_held)
                return 0;
        script->is_held = false;
        if (script->n_frames == PERF_SCRIPT_MAX_FRAMES)
                return 0;
        r = window_function(script->window, &script->held_function, &script->held.function);
        r = r ? r : window_frame(script->window, &script->held, &script->frames[script->n_frames]);
        script->n_frames += !r;
        return r;
}

static int add_frame(PerfScript *script, Word name, Word file) {
        int r = flush_frame(script);

        if (r)
                return r;
        if (script->n_frames == PERF_SCRIPT_MAX_FRAMES && !script->is_cut) {
                script->is_cut = true;
                script->n_cut++;
        }
        script->held = (WindowFrame){ 0 };
        script->held_function = (WindowFunction){ 0 };
        r = is_word(name, "[unknown]") || !name.size ? put_unknown(script, file, &script->held_function.name)
                                                     : put_string(script, name, &script->held_function.name);
        r = r ? r : put_type(script, file, &script->held.type);
        script->is_held = !r;
        return r;
}

/* `  table.c:74`, which -F +srcline prints below a frame. Return: whether it is one. */
static bool add_line(PerfScript *script, const char *line, size_t size, int *rp) {
        Word all = trim(line, line + size);
        const char *colon = memrchr(all.at, ':', all.size);
        uint64_t number;

        if (!script->is_held || !colon || colon == all.at || all.at == line ||
            !is_number((Word){ colon + 1, (size_t)(all.at + all.size - colon) - 1 }, &number))
                return false;
        script->held.line = (int64_t)MIN(number, (uint64_t)INT32_MAX);
        *rp = put_string(script, (Word){ all.at, (size_t)(colon - all.at) }, &script->held_function.filename);
        return true;
}

/* A clock's period is time, and any other's a number of its events. */
static int find_profile(PerfScript *script, const Head *head, uint32_t resource) {
        bool is_clock = is_word(head->event, "cpu-clock") || is_word(head->event, "task-clock");
        bool is_time = is_clock && head->period;
        WindowProfileNames names = { 0 };
        int r = is_clock ? window_string(script->window, is_time ? "cpu" : "samples", is_time ? 3 : 7, &names.type)
                         : put_string(script, head->event, &names.type);

        r = r ? r : window_string(script->window, is_time ? "nanoseconds" : "count", is_time ? 11 : 5, &names.unit);
        names.period_type = names.type;
        names.period_unit = names.unit;
        return r ? r : window_profile_named(script->window, resource, &names, 0, &script->profile);
}

static int find_resource(PerfScript *script, uint64_t pid, uint32_t *resourcep) {
        const uint64_t key[] = { script->key, pid };
        uint32_t n = window_n_resources(script->window), attribute;
        int r = window_resource(script->window, hash_bytes(key, sizeof(key)), resourcep);

        if (r || *resourcep != n || !pid)
                return r;
        r = window_attribute_int(script->window, "process.pid", (int64_t)pid, &attribute);
        return r ? r : window_resource_attributes(script->window, *resourcep, &attribute, 1);
}

static int find_thread(PerfScript *script, const Head *head) {
        uint32_t attributes[2];
        int r = window_attribute_int(script->window, "thread.id", (int64_t)head->tid, &attributes[0]);

        r = r ? r : window_attribute_string(script->window, "thread.name", head->comm.at, head->comm.size,
                                            &attributes[1]);
        return r ? r : window_attribute_set(script->window, attributes, 2, &script->attributes);
}

static int begin_sample(PerfScript *script, const Head *head) {
        uint32_t resource;
        Word name, file;
        int r = find_resource(script, head->pid, &resource);

        r = r ? r : find_profile(script, head, resource);
        r = r ? r : find_thread(script, head);
        if (r)
                return r;
        script->is_open = true;
        script->n_frames = 0;
        script->is_cut = false;
        script->n_over += head->is_over;
        script->value = head->period ? (int64_t)head->period : 1;
        return parse_frame(head->rest.at, head->rest.size, &name, &file) ? add_frame(script, name, file) : 0;
}

static int end_sample(PerfScript *script) {
        uint32_t stack;
        int r = flush_frame(script);

        if (r || !script->is_open)
                return r;
        script->is_open = false;
        r = window_stack(script->window, script->frames, script->n_frames, &stack);
        r = r ? r : window_sample_untimed(script->window, script->profile, stack, script->attributes, 0,
                                          script->value);
        script->n_samples += !r;
        return r;
}

int perf_script_end(PerfScript *script) {
        return full(end_sample(script));
}

int perf_script_add_line(PerfScript *script, const char *line, size_t size) {
        bool is_head, is_frame;
        Word name, file;
        Head head;
        int r = 0;

        if (!trim(line, line + size).size)
                return full(end_sample(script));
        if (*line == '#')
                return 0;
        is_head = parse_head(line, size, &head);        /* of a command `a`, which may be an address, too */
        is_frame = script->is_open && is_blank(*line) && parse_frame(line, size, &name, &file);
        if (is_frame && !(is_head && head.has_time))
                return full(add_frame(script, name, file));
        if (is_head) {
                r = end_sample(script);
                return full(r ? r : begin_sample(script, &head));
        }
        if (script->is_open && add_line(script, line, size, &r))
                return full(r);
        return PERF_SCRIPT_E_MALFORMED;
}

bool perf_script_recognize(const uint8_t *data, size_t size) {
        const char *line = (const char *)data, *end = line + size;
        bool has_head = false;
        Word name, file;
        Head head;

        for (unsigned i = 0; i < MAX_HEAD_LINES && line < end; i++) {
                const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
                size_t n = (size_t)(stop - line);

                if (n && *line != '#' && trim(line, stop).size) {
                        if (has_head)
                                return is_blank(*line) && parse_frame(line, n, &name, &file);
                        if (!parse_head(line, n, &head))
                                return false;
                        has_head = true;
                        if (parse_frame(head.rest.at, head.rest.size, &name, &file))
                                return true;
                }
                line = stop + 1;
        }
        return false;
}
