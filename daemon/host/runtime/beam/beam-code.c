/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     ranges: three tables, sorted ─▶ module ─▶ functions[], sorted ─▶ code info ─▶ three atoms
 *                                            ─▶ lines[], sorted    ─▶ line, number of the file
 *
 * The code in force is one of the three; the others are those before and after it. The frame's code may have
 * been loaded or purged since, so all three are asked, and its cookie is compared before and after.
 */
#include "host/runtime/beam/beam-code.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum {
        LINES_FILES = 0,                /* in a table of lines */
        LINES_SIZE = 8,                 /* bytes of a location: 2 or 4 */
        LINES_LOCATIONS = 16,
        LINES_FUNCTIONS = 24,
        MAX_LINES = 1 << 20,            /* lines of a function */
        MAX_ATOM = 1020,
        MAX_ATOMS = 1 << 24,
        MAX_FILE = 255,
        TERM_NIL = 0x3b,
        TERM_SMALL = 0x0f,
        TERM_PID = 0x03,
        TERM_PID_BITS = 4,
        SHORT_NUMBER_BITS = 15,
        SHORT_SERIAL_BITS = 13,
        LONG_PID_BITS = 31,
        TERM_TAG_MASK = 3,
        TERM_BOXED = 2,
        LINE_BITS = 24,
};

static const BeamLayout layouts[] = {
        { .release = 25, .functions = 96, .end = 136, .pc = 256, .registered = 48, .initial = 448,
          .has_short_pids = true },
        { .release = 27, .functions = 136, .end = 200, .pc = 248, .registered = 32, .initial = 440 },
        { .release = 29, .functions = 152, .end = 200, .pc = 248, .registered = 32, .initial = 440,
          .has_terms = true },
};

const BeamLayout *beam_layout(uint32_t release) {
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
                if (layouts[i].release == release)
                        return &layouts[i];
        return NULL;
}

bool beam_layout_has_process(uint16_t end, uint16_t pc, uint16_t registered, uint16_t initial) {
        for (size_t i = 0; i < ARRAY_SIZE(layouts); i++)
                if (layouts[i].end == end && layouts[i].pc == pc &&
                    layouts[i].registered == registered &&
                    layouts[i].initial == initial)
                        return true;
        return false;
}

bool beam_read(const BeamReader *reader, uint64_t address, void *to, size_t size) {
        return !(address >> RUNTIME_KIND_SHIFT) && reader->read(reader->userdata, address, to, size);
}

bool beam_read_word(const BeamReader *reader, uint64_t address, uint64_t *word) {
        return beam_read(reader, address, word, sizeof(*word));
}

/* ---- ranges ---- */

bool beam_read_range(const BeamReader *reader, const BeamTable *table, uint64_t i, BeamRange *range) {
        return beam_read(reader, table->first + i * sizeof(*range), range, sizeof(*range)) &&
                range->begin < range->end && range->end - range->begin <= BEAM_MAX_MODULE;
}

bool beam_table_may_be(const BeamTable *table) {
        return table->n && table->n <= table->room && table->room <= BEAM_MAX_RANGES && table->first &&
                !(table->first & 7) && !(table->first >> 48) && table->middle >= table->first &&
                table->middle < table->first + table->n * sizeof(BeamRange);
}

/* ---- atoms ---- */

/*
 * The address of an atom's @length bytes of text. In OTP 29 a term says where it is: a binary in the
 * heap of no process. Return: 0 = it is not as it should be.
 */
static uint64_t find_text(const BeamReader *reader, uint64_t atom, int16_t length) {
        uint64_t name, bits;

        if (!beam_read_word(reader, atom + BEAM_ATOM_NAME, &name))
                return 0;
        if (!reader->layout->has_terms)
                return name;
        return (name & TERM_TAG_MASK) == TERM_BOXED &&
                        beam_read_word(reader, name - TERM_BOXED + BEAM_BINARY_BITS, &bits) &&
                        bits == (uint64_t)length * 8
                ? name - TERM_BOXED + BEAM_BINARY_TEXT
                : 0;
}

size_t beam_read_atom(const BeamReader *reader, uint64_t term, char to[BEAM_MAX_TEXT]) {
        uint64_t segments, segment, atom, text, index = term >> BEAM_TERM_ATOM_SHIFT;
        char bytes[MAX_ATOM];
        int16_t length;

        if ((term & BEAM_TERM_ATOM_MASK) != BEAM_TERM_ATOM || index >= MAX_ATOMS ||
            !beam_read_word(reader, reader->atoms + BEAM_ATOMS_SEGMENTS, &segments) ||
            !beam_read_word(reader, segments + (index >> 10) * 8, &segment) ||
            !beam_read_word(reader, segment + (index & 1023) * 8, &atom) ||
            !beam_read(reader, atom + BEAM_ATOM_LENGTH, &length, sizeof(length)) || length <= 0 ||
            length > MAX_ATOM)
                return 0;
        text = find_text(reader, atom, length);
        if (!text || !beam_read(reader, text, bytes, (size_t)length) || !text_is_utf8(bytes, (size_t)length))
                return 0;
        memcpy(to, bytes, (size_t)length);
        to[length] = '\0';
        return (size_t)length;
}

/*
 * The function that made one without a name, in its name: `-total/2-fun-0-` is one of `total/2`. Return:
 * bytes behind the `-`; 0 = it has a name.
 */
static size_t made_by(const char *name) {
        const char *end = strstr(name, "-fun-");
        size_t n = end && *name == '-' && end > name + 1 ? (size_t)(end - name - 1) : 0, n_digits;

        if (!n || !memchr(name + 1, '/', n))
                return 0;
        n_digits = strspn(end + 5, "0123456789");
        return n_digits && !strcmp(end + 5 + n_digits, "-") ? n : 0;
}

/* Whether Elixir writes a function's name without quotes: an identifier, or an operator. */
static bool is_plain(const char *name) {
        static const char operators[] = "!@#$%&*+-./:<=>?\\^|~";
        size_t n = 0;

        if (name[strspn(name, operators)] == '\0')
                return true;
        while ((name[n] >= 'a' && name[n] <= 'z') || (name[n] >= 'A' && name[n] <= 'Z' && n) ||
               (name[n] >= '0' && name[n] <= '9' && n) || name[n] == '_' || (unsigned char)name[n] >= 0x80)
                n++;
        return n && (!name[n] || ((name[n] == '?' || name[n] == '!') && !name[n + 1]));
}

/* As Exception.format_mfa() of Elixir: `Enum.map/2`, `anonymous fn/1 in Cart.total/2`, `Enum."-map/2-…"/2`. */
static void join_elixir(ReaderFunction *function, const char *module, const char *name, unsigned arity) {
        const size_t half = (BEAM_MAX_TEXT - 32) / 2, n = made_by(name);
        int n_module = (int)text_cut_utf8(module, half);
        const char *quote = is_plain(name) ? "" : "\"";

        if (n)
                snprintf(function->name, sizeof(function->name), "anonymous fn/%u in %.*s.%.*s", arity, n_module,
                         module, (int)MIN(n, text_cut_utf8(name + 1, half)), name + 1);
        else
                snprintf(function->name, sizeof(function->name), "%.*s.%s%.*s%s/%u", n_module, module, quote,
                         (int)text_cut_utf8(name, half), name, quote, arity);
}

/*
 * `lists:map/2`; modules of Elixir are atoms that begin with `Elixir.`, and are written without. Names that
 * are too long together are cut in the middle.
 */
static void join_name(ReaderFunction *function, const char *module, const char *name, unsigned arity) {
        static const char elixir[] = "Elixir.";
        const size_t half = (BEAM_MAX_TEXT - 8) / 2;

        if (!strncmp(module, elixir, sizeof(elixir) - 1) && module[sizeof(elixir) - 1])
                join_elixir(function, module + sizeof(elixir) - 1, name, arity);
        else
                snprintf(function->name, sizeof(function->name), "%.*s:%.*s/%u",
                         (int)text_cut_utf8(module, half), module, (int)text_cut_utf8(name, half), name,
                         arity);
}

/* ---- lines ---- */

/* A string of Erlang is a list of its characters; here of ASCII. Return: whether it is one. */
static bool read_string(const BeamReader *reader, uint64_t list, char to[BEAM_MAX_TEXT]) {
        size_t n = 0;

        while (list != TERM_NIL) {
                uint64_t cell[2];

                if ((list & 3) != 1 || n == MAX_FILE || !beam_read(reader, list - 1, cell, sizeof(cell)) ||
                    (cell[0] & 0xf) != TERM_SMALL || cell[0] >> 4 < ' ' || cell[0] >> 4 > '~')
                        return false;
                to[n++] = (char)(cell[0] >> 4);
                list = cell[1];
        }
        to[n] = '\0';
        return n;
}

/* The place of the last of @n sorted words at @first that is not above @pc; @n = there is none. */
static uint64_t search(const BeamReader *reader, uint64_t first, uint64_t n, uint64_t pc) {
        uint64_t low = 0, high = n;

        while (low < high) {
                uint64_t middle = low + (high - low) / 2, word;

                if (!beam_read_word(reader, first + middle * 8, &word))
                        return n;
                if (word <= pc)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? low - 1 : n;
}

/* The file that is number 0 is named after its module. */
static void read_file(const BeamReader *reader, uint64_t lines, uint32_t number, const char *module,
                      char file[BEAM_MAX_TEXT]) {
        uint64_t files, list;

        if (!number)
                snprintf(file, BEAM_MAX_TEXT, "%.*s.erl", (int)text_cut_utf8(module, BEAM_MAX_TEXT - 8),
                         module);
        else if (!beam_read_word(reader, lines + LINES_FILES, &files) ||
                 !beam_read_word(reader, files + (number - 1) * 8ull, &list) ||
                 !read_string(reader, list, file))
                *file = '\0';
}

/* The line of @pc, in function @i of a module. Where its table is not as it should be, there is none. */
static void read_line(const BeamReader *reader, uint64_t header, uint64_t i, uint64_t pc, const char *module,
                      ReaderFunction *function) {
        uint64_t lines, size, locations, functions[2], first, n, at;
        uint32_t location = 0;

        if (!beam_read_word(reader, header + BEAM_HEADER_LINES, &lines) || !lines ||
            !beam_read_word(reader, lines + LINES_SIZE, &size) ||
            ((uint32_t)size != 2 && (uint32_t)size != 4) ||
            !beam_read_word(reader, lines + LINES_LOCATIONS, &locations) ||
            !beam_read_word(reader, lines + LINES_FUNCTIONS, &first) ||
            !beam_read(reader, lines + LINES_FUNCTIONS + i * 8, functions, sizeof(functions)))
                return;
        n = (functions[1] - functions[0]) / 8;
        if (functions[0] < first || functions[1] < functions[0] || n > MAX_LINES)
                return;
        at = search(reader, functions[0], n, pc);
        if (at == n)
                return;
        at += (functions[0] - first) / 8;
        if (!beam_read(reader, locations + at * (uint32_t)size, &location, (uint32_t)size))
                return;
        function->line = location & ((1u << LINE_BITS) - 1);
        if (function->line)
                read_file(reader, lines, location >> LINE_BITS, module, function->file);
}

/* ---- functions ---- */

/* Names the function of @pc in the module at @range. Return: whether it lies in one. */
static bool name_in(const BeamReader *reader, const BeamRange *range, uint64_t pc, ReaderFunction *function) {
        uint64_t header = range->begin, functions = header + reader->layout->functions, n, end, i, info;
        char module[BEAM_MAX_TEXT], name[BEAM_MAX_TEXT];
        uint64_t terms[BEAM_INFO_WORDS];

        if (!beam_read_word(reader, header + BEAM_HEADER_N, &n) || !n || n > BEAM_MAX_FUNCTIONS ||
            !beam_read_word(reader, functions + n * 8, &end) || end > range->end || pc >= end)
                return false;
        i = search(reader, functions, n, pc);
        if (i == n || !beam_read_word(reader, functions + i * 8, &info) || info < header || info > pc ||
            !beam_read(reader, info + BEAM_INFO_MODULE, terms, sizeof(terms)) ||
            !beam_read_atom(reader, terms[0], module) || !beam_read_atom(reader, terms[1], name))
                return false;
        join_name(function, module, name, (uint8_t)terms[2]);
        read_line(reader, header, i, pc, module, function);
        return true;
}

/* The module that @pc lies in, by table @which. Return: whether there is one. */
static bool find_range(const BeamReader *reader, uint32_t which, uint64_t pc, BeamRange *range) {
        uint64_t low = 0, high;
        BeamTable table;

        if (!beam_read(reader, reader->ranges + which * sizeof(table), &table, sizeof(table)) ||
            !beam_table_may_be(&table))
                return false;
        high = table.n;
        while (low < high) {
                uint64_t middle = low + (high - low) / 2;

                if (!beam_read_range(reader, &table, middle, range))
                        return false;
                if (pc < range->begin)
                        high = middle;
                else if (pc >= range->end)
                        low = middle + 1;
                else
                        return true;
        }
        return false;
}

static bool name_by_tables(const BeamReader *reader, uint64_t pc, ReaderFunction *function) {
        uint32_t active;
        BeamRange range;

        if (!beam_read(reader, reader->active, &active, sizeof(active)))
                return false;
        for (uint32_t i = 0; i < BEAM_TABLES; i++)
                if (find_range(reader, (active % BEAM_TABLES + i) % BEAM_TABLES, pc, &range))
                        return name_in(reader, &range, pc, function);
        return false;
}

static bool is_same(const BeamReader *reader, uint64_t pc, uint32_t cookie) {
        uint64_t code[BEAM_COOKIE_BYTES / 8];

        return beam_read(reader, pc - sizeof(code), code, sizeof(code)) &&
                beam_cookie(code[0], code[1]) == cookie;
}

int beam_code_name(const BeamReader *reader, const uint64_t *words, ReaderFunction *function) {
        uint64_t pc = words[0] & RUNTIME_ADDRESS_MASK;
        uint32_t cookie = (uint32_t)(words[1] >> 32);
        bool is_exact = words[1] & BEAM_PC_EXACT;

        *function = (ReaderFunction){ 0 };
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_BEAM)
                return BEAM_CODE_E_GONE;
        if (!pc) {
                strcpy(function->name, "(scheduler)");
                return 0;
        }
        if (!is_same(reader, pc, cookie))
                return BEAM_CODE_E_GONE;
        if (reader->modules - 1 - pc < BEAM_MAX_CODE_AHEAD) {
                strcpy(function->name, "(runtime)");
                return 0;
        }
        return name_by_tables(reader, pc - !is_exact, function) && is_same(reader, pc, cookie)
                ? 0
                : BEAM_CODE_E_GONE;
}

/* ---- processes of Erlang ---- */

static uint64_t atom_of(uint64_t word) {
        return (word & ((1u << BEAM_ATOM_BITS) - 1)) << BEAM_TERM_ATOM_SHIFT | BEAM_TERM_ATOM;
}

int beam_code_task(const BeamReader *reader, uint64_t task, ReaderFunction *function) {
        char module[BEAM_MAX_TEXT], name[BEAM_MAX_TEXT];

        *function = (ReaderFunction){ 0 };
        if (task & BEAM_TASK_REGISTERED)
                return beam_read_atom(reader, atom_of(task), function->name) ? 0 : BEAM_CODE_E_GONE;
        if (!beam_read_atom(reader, atom_of(task >> BEAM_TASK_MODULE_SHIFT), module) ||
            !beam_read_atom(reader, atom_of(task >> BEAM_TASK_FUNCTION_SHIFT), name))
                return BEAM_CODE_E_GONE;
        join_name(function, module, name, (uint8_t)task);
        return 0;
}

bool beam_code_pid(const BeamLayout *layout, uint64_t term, char to[BEAM_MAX_PID]) {
        uint64_t number = term >> TERM_PID_BITS, serial = 0;

        *to = '\0';
        if ((term & ((1u << TERM_PID_BITS) - 1)) != TERM_PID)
                return false;
        if (layout->has_short_pids) {   /* its place in a table is behind it */
                serial = number >> SHORT_NUMBER_BITS & ((1u << SHORT_SERIAL_BITS) - 1);
                number &= (1u << SHORT_NUMBER_BITS) - 1;
        } else if (number & 7 || number >> LONG_PID_BITS) {
                return false;           /* a second number: where it lies was not shown */
        } else {
                number >>= 3;
        }
        snprintf(to, BEAM_MAX_PID, "<0.%" PRIu64 ".%" PRIu64 ">", number, serial);
        return true;
}
