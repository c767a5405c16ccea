/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     ranges: three tables, sorted ─▶ module ─▶ functions[], sorted ─▶ code info ─▶ three atoms
 *                                            ─▶ lines[], sorted    ─▶ line, number of the file
 *
 * The tables have no symbol. They are three structs in a row among the variables, and nothing else looks so:
 * address, number, room and a place in the middle, which lead to sorted ranges of code.
 *
 * The code in force is one of the three; the others are those before and after it. The frame's code may have
 * been loaded or purged since, so all three are asked, and its cookie is compared before and after.
 */
#include "host/runtime/beam/beam-code.h"

#include <stdio.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

/* Places in structs of OTP 25. */
enum {
        HEADER_N = 0,                   /* a module's number of functions */
        HEADER_LINES = 72,
        HEADER_FUNCTIONS = 96,
        INFO_MODULE = 16,               /* words of a function: three, the last one's low byte is the arity */
        INFO_WORDS = 3,
        LINES_FILES = 0,                /* in a table of lines */
        LINES_SIZE = 8,                 /* bytes of a location: 2 or 4 */
        LINES_LOCATIONS = 16,
        LINES_FUNCTIONS = 24,
        ATOMS_SEGMENTS = 120,           /* in the table of atoms */
        ATOM_LENGTH = 24,
        ATOM_NAME = 32,
        SCHEDULER_CURRENT = 168,
        SCHEDULER_NUMBER = 184,         /* three words: its number, 0, its number */
        PROCESS_STOP = 88,
        PROCESS_END = 136,
};

enum {
        N_TABLES = 3,
        MAX_LIKELY = 64,                /* places that may be tables, and are looked at */
        TABLE_WORDS = 4,
        PAGE = 4096,
        MAX_RANGES = 1000000,
        MAX_FUNCTIONS = 100000,
        MAX_MODULE = 1 << 30,           /* bytes of code */
        MAX_LINES = 1 << 20,            /* lines of a function */
        MAX_SCHEDULER = 128 << 10,      /* bytes of a scheduler: a cache of atoms is in it */
        SCHEDULER_ALIGN = 64,
        MAX_ATOM = 1020,
        MAX_ATOMS = 1 << 24,
        MAX_FILE = 255,
        MAX_FRAGMENTS = 64 << 10,       /* as BEAM_MAX_FRAGMENTS in bpf/runtimes/beam.bpf.h */
        TERM_ATOM = 0x0b,
        TERM_ATOM_MASK = 0x3f,
        TERM_ATOM_SHIFT = 6,
        TERM_NIL = 0x3b,
        TERM_SMALL = 0x0f,
        LINE_BITS = 24,
};

typedef struct Table {
        uint64_t first, n, room, middle;
} Table;

typedef struct Range {
        uint64_t begin, end;
} Range;

static bool read_at(const BeamReader *reader, uint64_t address, void *to, size_t size) {
        return !(address >> RUNTIME_KIND_SHIFT) && reader->read(reader->userdata, address, to, size);
}

static bool read_word(const BeamReader *reader, uint64_t address, uint64_t *word) {
        return read_at(reader, address, word, sizeof(*word));
}

/* ---- ranges ---- */

static bool read_range(const BeamReader *reader, const Table *table, uint64_t i, Range *range) {
        return read_at(reader, table->first + i * sizeof(*range), range, sizeof(*range)) &&
                range->begin < range->end && range->end - range->begin <= MAX_MODULE;
}

static bool table_may_be(const Table *table) {
        return table->n && table->n <= table->room && table->room <= MAX_RANGES && table->first &&
                !(table->first & 7) && !(table->first >> 48) && table->middle >= table->first &&
                table->middle < table->first + table->n * sizeof(Range);
}

/* Whether functions of the module in @range are where they should be: ascending, and inside it. */
static bool module_is(const BeamReader *reader, const Range *range) {
        uint64_t n, functions[2], last, before;

        return read_word(reader, range->begin + HEADER_N, &n) && n && n <= MAX_FUNCTIONS &&
                read_word(reader, range->begin + HEADER_FUNCTIONS - 8, &before) &&
                read_at(reader, range->begin + HEADER_FUNCTIONS, functions, sizeof(functions)) &&
                read_word(reader, range->begin + HEADER_FUNCTIONS + n * 8, &last) &&
                before - range->begin >= range->end - range->begin &&
                functions[0] > range->begin + HEADER_FUNCTIONS + n * 8 && functions[0] < functions[1] &&
                functions[1] <= last && last <= range->end;
}

static bool table_is(const BeamReader *reader, const Table *table) {
        Range first, last;

        return table_may_be(table) && read_range(reader, table, 0, &first) &&
                read_range(reader, table, table->n - 1, &last) && first.begin <= last.begin &&
                module_is(reader, &first) && module_is(reader, &last);
}

typedef struct Look {
        uint64_t found;                 /* address of the last hit */
        unsigned hits, likely;
} Look;

/* Looks at one page and what follows of a struct that begins there. */
static void look_for_tables(const BeamReader *reader, uint64_t at, Look *look) {
        uint64_t words[(PAGE + N_TABLES * sizeof(Table)) / 8] = { 0 };

        if (!read_at(reader, at, words, PAGE))
                return;
        /* The next page may not be there: it has never been written, and holds no table. */
        if (!read_at(reader, at + PAGE, (char *)words + PAGE, N_TABLES * sizeof(Table)))
                memset((char *)words + PAGE, 0, N_TABLES * sizeof(Table));
        for (size_t i = 0; i < PAGE / 8; i++) {
                Table tables[N_TABLES];

                memcpy(tables, words + i, sizeof(tables));
                if (!table_may_be(&tables[0]) || !table_may_be(&tables[1]) || !table_may_be(&tables[2]) ||
                    look->likely++ >= MAX_LIKELY || !table_is(reader, &tables[0]) ||
                    !table_is(reader, &tables[1]) || !table_is(reader, &tables[2]))
                        continue;
                look->found = at + i * 8;
                look->hits++;
        }
}

/* Return: 0 with *foundp, BEAM_CODE_E_LATER: there is none yet, BEAM_CODE_E_UNKNOWN: there are several. */
static int find_tables(const BeamReader *reader, const BeamOpened *opened, uint64_t bias, uint64_t *foundp) {
        uint64_t begin = (opened->data + bias) & ~(uint64_t)(PAGE - 1);
        uint64_t end = opened->data + bias + opened->data_size;
        Look look = { 0 };

        for (uint64_t at = begin; at < end; at += PAGE)
                look_for_tables(reader, at, &look);
        *foundp = look.found;
        return look.hits == 1 ? 0 : look.hits ? BEAM_CODE_E_UNKNOWN : BEAM_CODE_E_LATER;
}

/* ---- schedulers ---- */

static bool scheduler_is(const BeamReader *reader, uint64_t address, uint64_t number) {
        uint64_t words[3];

        return read_at(reader, address + SCHEDULER_NUMBER, words, sizeof(words)) && words[0] == number &&
                !words[1] && words[2] == number;
}

/* Finds the bytes from one scheduler to the next. Return: 0 = there are none that fit. */
static uint32_t find_scheduler_size(const BeamReader *reader, uint64_t first, uint32_t n) {
        if (!scheduler_is(reader, first, 1))
                return 0;
        for (uint32_t size = 4 * SCHEDULER_ALIGN; size <= MAX_SCHEDULER; size += SCHEDULER_ALIGN) {
                uint32_t i = 1;

                while (i < n && scheduler_is(reader, first + (uint64_t)i * size, i + 1))
                        i++;
                if (i == n)
                        return size;
        }
        return 0;
}

static int find_schedulers(const BeamReader *reader, const BeamOpened *opened, uint64_t bias,
                           struct beam_process *process) {
        uint64_t n = 0;

        if (!read_word(reader, opened->schedulers + bias, &process->schedulers) || !process->schedulers ||
            !read_word(reader, opened->n_schedulers + bias, &n) || !(uint32_t)n)
                return BEAM_CODE_E_LATER;
        n = (uint32_t)n;
        if (n > BEAM_MAX_SCHEDULERS)
                return BEAM_CODE_E_MANY;
        process->scheduler_size = find_scheduler_size(reader, process->schedulers, (uint32_t)n);
        if (!process->scheduler_size)
                return BEAM_CODE_E_UNKNOWN;
        process->n_schedulers = (uint16_t)n;
        for (uint32_t i = 0; i < n; i++)
                if (!read_word(reader, process->schedulers + (uint64_t)i * process->scheduler_size,
                               &process->registers[i]) ||
                    !process->registers[i])
                        return BEAM_CODE_E_LATER;
        return 0;
}

/* ---- a process ---- */

/* Whether fragments say the same of a process' stack: `mov 88(%r13),%rsp`. */
static bool has_stop(const BeamReader *reader, uint64_t bottom) {
        static const uint8_t expected[] = { 0x49, 0x8b, 0x65, PROCESS_STOP };
        uint8_t code[PAGE];

        return read_at(reader, bottom & ~(uint64_t)(PAGE - 1), code, sizeof(code)) &&
                memmem(code, sizeof(code), expected, sizeof(expected));
}

/* The lowest module is the first one of any table: modules of the machine itself are never purged. */
static int find_modules(const BeamReader *reader, struct beam_process *process) {
        Table table;
        Range first;

        if (!read_at(reader, process->ranges, &table, sizeof(table)) ||
            !read_range(reader, &table, 0, &first))
                return BEAM_CODE_E_LATER;
        process->modules = first.begin;
        if (process->modules - 1 - process->bottom >= MAX_FRAGMENTS || !has_stop(reader, process->bottom))
                return BEAM_CODE_E_UNKNOWN;
        return 0;
}

/*
 * With `+JPperf true` each frame has a saved frame pointer, which looks as an address of code does, and
 * fragments are other ones. Those stacks are walked as native ones, by these pointers.
 */
static int check_layout(const BeamReader *reader, const BeamOpened *opened, uint64_t bias) {
        uint32_t layout = 0;

        if (opened->frame_layout && !read_at(reader, opened->frame_layout + bias, &layout, sizeof(layout)))
                return BEAM_CODE_E_LATER;
        return layout ? BEAM_CODE_E_POINTERS : 0;
}

int beam_code_find(const BeamReader *reader, const BeamOpened *opened, uint64_t bias,
                   struct beam_process *process) {
        int r;

        *process = (struct beam_process){ .active = opened->active + bias,
                                          .current = SCHEDULER_CURRENT,
                                          .stop = PROCESS_STOP,
                                          .end = PROCESS_END };
        if (!read_word(reader, opened->bottom + bias, &process->bottom) || !process->bottom)
                return BEAM_CODE_E_LATER;
        r = check_layout(reader, opened, bias);
        r = r ?: find_schedulers(reader, opened, bias, process);
        r = r ?: find_tables(reader, opened, bias, &process->ranges);
        return r ?: find_modules(reader, process);
}

bool beam_code_check(const struct beam_process *process) {
        return process->current == SCHEDULER_CURRENT && process->stop == PROCESS_STOP &&
                process->end == PROCESS_END && process->n_schedulers &&
                process->n_schedulers <= BEAM_MAX_SCHEDULERS && process->scheduler_size <= MAX_SCHEDULER &&
                process->modules - 1 - process->bottom < MAX_FRAGMENTS && !process->reserved;
}

/* ---- atoms ---- */

/* Reads the text of an atom. Return: its bytes as UTF-8, 0 = it has none. */
static size_t read_atom(const BeamReader *reader, uint64_t term, char to[BEAM_MAX_TEXT]) {
        uint64_t segments, segment, atom, name, index = term >> TERM_ATOM_SHIFT;
        char bytes[MAX_ATOM];
        int16_t length;

        if ((term & TERM_ATOM_MASK) != TERM_ATOM || index >= MAX_ATOMS ||
            !read_word(reader, reader->atoms + ATOMS_SEGMENTS, &segments) ||
            !read_word(reader, segments + (index >> 10) * 8, &segment) ||
            !read_word(reader, segment + (index & 1023) * 8, &atom) ||
            !read_at(reader, atom + ATOM_LENGTH, &length, sizeof(length)) || length <= 0 ||
            length > MAX_ATOM || !read_word(reader, atom + ATOM_NAME, &name) ||
            !read_at(reader, name, bytes, (size_t)length) || !text_is_utf8(bytes, (size_t)length))
                return 0;
        memcpy(to, bytes, (size_t)length);
        to[length] = '\0';
        return (size_t)length;
}

/*
 * `lists:map/2`; modules of Elixir are atoms that begin with `Elixir.`, and are written without: `Enum.map/2`.
 * Names that are too long together are cut in the middle.
 */
static void join_name(BeamFunction *function, const char *module, const char *name, unsigned arity) {
        static const char elixir[] = "Elixir.";
        bool is_elixir = !strncmp(module, elixir, sizeof(elixir) - 1) && module[sizeof(elixir) - 1];
        const size_t half = (BEAM_MAX_TEXT - 8) / 2;
        const char *shown = module + (is_elixir ? sizeof(elixir) - 1 : 0);

        snprintf(function->name, sizeof(function->name), "%.*s%c%.*s/%u", (int)text_cut_utf8(shown, half), shown,
                 is_elixir ? '.' : ':', (int)text_cut_utf8(name, half), name, arity);
}

/* ---- lines ---- */

/* A string of Erlang is a list of its characters; here of ASCII. Return: whether it is one. */
static bool read_string(const BeamReader *reader, uint64_t list, char to[BEAM_MAX_TEXT]) {
        size_t n = 0;

        while (list != TERM_NIL) {
                uint64_t cell[2];

                if ((list & 3) != 1 || n == MAX_FILE || !read_at(reader, list - 1, cell, sizeof(cell)) ||
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

                if (!read_word(reader, first + middle * 8, &word))
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
                snprintf(file, BEAM_MAX_TEXT, "%.*s.erl", (int)text_cut_utf8(module, BEAM_MAX_TEXT - 8), module);
        else if (!read_word(reader, lines + LINES_FILES, &files) ||
                 !read_word(reader, files + (number - 1) * 8ull, &list) || !read_string(reader, list, file))
                *file = '\0';
}

/* The line of @pc, in function @i of a module. Where its table is not as it should be, there is none. */
static void read_line(const BeamReader *reader, uint64_t header, uint64_t i, uint64_t pc, const char *module,
                      BeamFunction *function) {
        uint64_t lines, size, locations, functions[2], first, n, at;
        uint32_t location = 0;

        if (!read_word(reader, header + HEADER_LINES, &lines) || !lines ||
            !read_word(reader, lines + LINES_SIZE, &size) || ((uint32_t)size != 2 && (uint32_t)size != 4) ||
            !read_word(reader, lines + LINES_LOCATIONS, &locations) ||
            !read_word(reader, lines + LINES_FUNCTIONS, &first) ||
            !read_at(reader, lines + LINES_FUNCTIONS + i * 8, functions, sizeof(functions)))
                return;
        n = (functions[1] - functions[0]) / 8;
        if (functions[0] < first || functions[1] < functions[0] || n > MAX_LINES)
                return;
        at = search(reader, functions[0], n, pc);
        if (at == n)
                return;
        at += (functions[0] - first) / 8;
        if (!read_at(reader, locations + at * (uint32_t)size, &location, (uint32_t)size))
                return;
        function->line = location & ((1u << LINE_BITS) - 1);
        if (function->line)
                read_file(reader, lines, location >> LINE_BITS, module, function->file);
}

/* ---- functions ---- */

/* Names the function of @pc in the module at @range. Return: whether it lies in one. */
static bool name_in(const BeamReader *reader, const Range *range, uint64_t pc, BeamFunction *function) {
        uint64_t header = range->begin, functions = header + HEADER_FUNCTIONS, n, end, i, info;
        char module[BEAM_MAX_TEXT], name[BEAM_MAX_TEXT];
        uint64_t terms[INFO_WORDS];

        if (!read_word(reader, header + HEADER_N, &n) || !n || n > MAX_FUNCTIONS ||
            !read_word(reader, functions + n * 8, &end) || end > range->end || pc >= end)
                return false;
        i = search(reader, functions, n, pc);
        if (i == n || !read_word(reader, functions + i * 8, &info) || info < header || info > pc ||
            !read_at(reader, info + INFO_MODULE, terms, sizeof(terms)) ||
            !read_atom(reader, terms[0], module) || !read_atom(reader, terms[1], name))
                return false;
        join_name(function, module, name, (uint8_t)terms[2]);
        read_line(reader, header, i, pc, module, function);
        return true;
}

/* The module that @pc lies in, by table @which. Return: whether there is one. */
static bool find_range(const BeamReader *reader, uint32_t which, uint64_t pc, Range *range) {
        uint64_t low = 0, high;
        Table table;

        if (!read_at(reader, reader->ranges + which * sizeof(table), &table, sizeof(table)) ||
            !table_may_be(&table))
                return false;
        high = table.n;
        while (low < high) {
                uint64_t middle = low + (high - low) / 2;

                if (!read_range(reader, &table, middle, range))
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

static bool name_by_tables(const BeamReader *reader, uint64_t pc, BeamFunction *function) {
        uint32_t active;
        Range range;

        if (!read_at(reader, reader->active, &active, sizeof(active)))
                return false;
        for (uint32_t i = 0; i < N_TABLES; i++)
                if (find_range(reader, (active % N_TABLES + i) % N_TABLES, pc, &range))
                        return name_in(reader, &range, pc, function);
        return false;
}

static bool is_same(const BeamReader *reader, uint64_t pc, uint32_t cookie) {
        uint64_t code[BEAM_COOKIE_BYTES / 8];

        return read_at(reader, pc - sizeof(code), code, sizeof(code)) &&
                beam_cookie(code[0], code[1]) == cookie;
}

int beam_code_name(const BeamReader *reader, const uint64_t *words, BeamFunction *function) {
        uint64_t pc = words[0] & RUNTIME_ADDRESS_MASK;
        uint32_t cookie = (uint32_t)(words[1] >> 32);
        bool is_exact = words[1] & BEAM_PC_EXACT;

        *function = (BeamFunction){ 0 };
        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_BEAM)
                return BEAM_CODE_E_GONE;
        if (!pc) {
                strcpy(function->name, "(scheduler)");
                return 0;
        }
        if (!is_same(reader, pc, cookie))
                return BEAM_CODE_E_GONE;
        if (reader->modules - 1 - pc < MAX_FRAGMENTS) {
                strcpy(function->name, "(runtime)");
                return 0;
        }
        return name_by_tables(reader, pc - !is_exact, function) && is_same(reader, pc, cookie)
                ? 0
                : BEAM_CODE_E_GONE;
}
