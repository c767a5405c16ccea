/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Variables need no symbol: OTP 29 exports none. Each is known by what it is.
 *
 *     variables   three tables of ranges in a row, which lead to modules
 *                 a pointer to scheduler 1; behind it lie the others, each with its number
 *                 the same of each kind of dirty schedulers; where there is room
 *                 the table of atoms, which has a name; its first atoms are `false` and `true`
 *     fragments   `erts_beamasm:normal_exit/0`, the code that ends the stack of each process
 *     (code of    mov $active,%rdi … mov (%rdi),%r12d: a process begins to run, by the code in force
 *     no module)  mov 88(%r13),%rsp: where a process keeps its stack
 *
 * What is found several times, or not as it should be, is not believed: the process is not walked.
 */
#include "host/runtime/beam/beam-find.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        MAX_LIKELY = 64,                /* places that may be tables or functions, and are looked at */
        MAX_POINTERS = 1 << 16,         /* words that may point to a scheduler, and are looked at */
        PAGE = 4096,
        MAX_SCHEDULER = 128 << 10,      /* bytes of a scheduler: a cache of atoms is in it */
        WORD = 8,
        INFO_BYTES = WORD * BEAM_INFO_WORDS,
        MAX_FRONTS = 64,                /* modules that fragments may end at, and are looked at */
        RANGES_AT_ONCE = 256,
        AROUND = 32,                    /* bytes in front of a use of an address, in which it is loaded */
};

typedef enum SchedulerKind {
        NORMAL,
        DIRTY_CPU,
        DIRTY_IO,
        N_KINDS,
} SchedulerKind;

typedef struct Look {
        const BeamReader *reader;
        uint64_t atoms_name;            /* address of that text */
        uint64_t ranges, atoms;         /* places that were found */
        uint64_t schedulers[N_KINDS];   /* the first one of each kind */
        unsigned n_ranges, n_atoms;     /* in how many places */
        unsigned n_schedulers[N_KINDS];
        unsigned n_likely, n_pointers, n_names; /* places that were looked at */
} Look;

/* ---- variables ---- */

/* Whether functions of the module in @range are where they should be: ascending, and inside it. */
static bool module_is(const BeamReader *reader, const BeamRange *range) {
        uint64_t n, functions[2], last, before, first = range->begin + reader->layout->functions;

        return beam_read_word(reader, range->begin + BEAM_HEADER_N, &n) && n && n <= BEAM_MAX_FUNCTIONS &&
                beam_read_word(reader, first - WORD, &before) &&
                beam_read(reader, first, functions, sizeof(functions)) &&
                beam_read_word(reader, first + n * WORD, &last) &&
                before - range->begin >= range->end - range->begin && functions[0] > first + n * WORD &&
                functions[0] < functions[1] && functions[1] <= last && last <= range->end;
}

static bool table_is(const BeamReader *reader, const BeamTable *table) {
        BeamRange first, last;

        return beam_table_may_be(table) && beam_read_range(reader, table, 0, &first) &&
                beam_read_range(reader, table, table->n - 1, &last) && first.begin <= last.begin &&
                module_is(reader, &first) && module_is(reader, &last);
}

static void look_for_tables(Look *look, const uint64_t *words, uint64_t at) {
        BeamTable tables[BEAM_TABLES];

        memcpy(tables, words, sizeof(tables));
        if (!beam_table_may_be(&tables[0]) || !beam_table_may_be(&tables[1]) ||
            !beam_table_may_be(&tables[2]) || look->n_likely++ >= MAX_LIKELY ||
            !table_is(look->reader, &tables[0]) || !table_is(look->reader, &tables[1]) ||
            !table_is(look->reader, &tables[2]))
                return;
        look->ranges = at;
        look->n_ranges++;
}

/* The kind of the scheduler at @address, if it has this number there; else N_KINDS. It is read once. */
static SchedulerKind scheduler_kind(const BeamReader *reader, uint64_t address, uint64_t number) {
        uint64_t words[4];

        if (!beam_read(reader, address + BEAM_SCHEDULER_KIND, words, sizeof(words)))
                return N_KINDS;
        if ((uint32_t)words[0] == NORMAL)
                return words[1] == number && !words[2] && (uint32_t)words[3] == number ? NORMAL : N_KINDS;
        return (uint32_t)words[0] < N_KINDS && !words[1] && words[2] == number && !(uint32_t)words[3]
                ? (SchedulerKind)(uint32_t)words[0]
                : N_KINDS;
}

static bool scheduler_is(const BeamReader *reader, uint64_t address, SchedulerKind kind, uint64_t number) {
        return scheduler_kind(reader, address, number) == kind;
}

/* Several variables may point to scheduler 1. */
static void look_for_schedulers(Look *look, uint64_t word) {
        SchedulerKind kind;

        if (!word || word % BEAM_SCHEDULER_ALIGN || word >> 47 || word == look->schedulers[NORMAL] ||
            look->n_pointers++ >= MAX_POINTERS)
                return;
        kind = scheduler_kind(look->reader, word, 1);
        if (kind == N_KINDS || word == look->schedulers[kind])
                return;
        look->schedulers[kind] = word;
        look->n_schedulers[kind]++;
}

static bool atom_is(const BeamReader *reader, uint64_t number, const char *expected) {
        char text[BEAM_MAX_TEXT];

        return beam_read_atom(reader, number << BEAM_TERM_ATOM_SHIFT | BEAM_TERM_ATOM, text) &&
                !strcmp(text, expected);
}

static void look_for_atoms(Look *look, uint64_t word, uint64_t at) {
        BeamReader reader = *look->reader;

        if (word != look->atoms_name || look->n_names++ >= MAX_LIKELY)
                return;
        reader.atoms = at - BEAM_ATOMS_NAME;
        if (!atom_is(&reader, 0, "false") || !atom_is(&reader, 1, "true"))
                return;
        look->atoms = reader.atoms;
        look->n_atoms++;
}

/* Looks at one page and what follows of a struct that begins there. */
static void look_at_page(Look *look, uint64_t at) {
        uint64_t words[(PAGE + BEAM_TABLES * sizeof(BeamTable)) / WORD] = { 0 };

        if (!beam_read(look->reader, at, words, PAGE))
                return;
        /* The next page may not be there: it has never been written, and holds no table. */
        if (!beam_read(look->reader, at + PAGE, (char *)words + PAGE, BEAM_TABLES * sizeof(BeamTable)))
                memset((char *)words + PAGE, 0, BEAM_TABLES * sizeof(BeamTable));
        for (size_t i = 0; i < PAGE / WORD; i++) {
                look_for_tables(look, words + i, at + i * WORD);
                look_for_schedulers(look, words[i]);
                look_for_atoms(look, words[i], at + i * WORD);
        }
}

/* Return: 0, BEAM_CODE_E_LATER: something is not there yet, BEAM_CODE_E_UNKNOWN: something is there twice. */
static int look_at_variables(Look *look, const BeamOpened *opened, uint64_t bias) {
        uint64_t end = opened->data + bias + opened->data_size;

        for (uint64_t at = (opened->data + bias) & ~(uint64_t)(PAGE - 1); at < end; at += PAGE)
                look_at_page(look, at);
        if (look->n_ranges > 1 || look->n_schedulers[NORMAL] > 1 || look->n_atoms > 1)
                return BEAM_CODE_E_UNKNOWN;
        return look->n_ranges && look->n_schedulers[NORMAL] && look->n_atoms ? 0 : BEAM_CODE_E_LATER;
}

/* ---- schedulers ---- */

/* Finds the bytes from one scheduler to the next. Return: 0 = there is only one. */
static uint32_t find_scheduler_size(const BeamReader *reader, SchedulerKind kind, uint64_t first) {
        const uint32_t align = BEAM_SCHEDULER_ALIGN;

        for (uint32_t size = 4 * align; first && size <= MAX_SCHEDULER; size += align)
                if (scheduler_is(reader, first + size, kind, 2))
                        return size;
        return 0;
}

/* Return: 0, BEAM_CODE_E_LATER: one has not begun, BEAM_CODE_E_MANY. */
static int find_schedulers(const BeamReader *reader, struct beam_process *process) {
        uint32_t size = find_scheduler_size(reader, NORMAL, process->schedulers), n = 0;
        uint64_t at = process->schedulers;

        for (; !n || (size && scheduler_is(reader, at, NORMAL, n + 1)); at += size) {
                if (n == BEAM_MAX_SCHEDULERS)
                        return BEAM_CODE_E_MANY;
                if (!beam_read_word(reader, at, &process->registers[n]) || !process->registers[n])
                        return BEAM_CODE_E_LATER;
                n++;
        }
        process->n_schedulers = (uint16_t)n;
        process->scheduler_size = size;
        return 0;
}

/*
 * Adds dirty schedulers, which do long work, to @process, behind the others. Those for which there is no room
 * are left out: their threads have no functions of Erlang. Return: 0, BEAM_CODE_E_LATER: one has not begun.
 */
static int add_dirty(const BeamReader *reader, const Look *look, struct beam_process *process) {
        uint32_t n = process->n_schedulers;

        for (SchedulerKind kind = DIRTY_CPU; kind < N_KINDS; kind++) {
                uint32_t size = process->scheduler_size;
                uint64_t at = look->n_schedulers[kind] == 1 ? look->schedulers[kind] : 0, thread;

                if (!size)              /* all kinds have the same */
                        size = find_scheduler_size(reader, kind, at);
                for (uint64_t number = 1; at && n < BEAM_MAX_SCHEDULERS; number++, at += size) {
                        if (!scheduler_is(reader, at, kind, number) ||
                            !beam_read_word(reader, at + BEAM_SCHEDULER_THREAD, &thread))
                                break;
                        if (!thread)
                                return BEAM_CODE_E_LATER;
                        process->registers[n++] = beam_dirty(at, thread);
                        if (!size)
                                break;
                }
        }
        return 0;
}

/* ---- fragments ---- */

/* Code in front of the first module of its block: @n bytes, which end at @end. */
typedef struct Fragments {
        const uint8_t *code;
        uint64_t n, end;
} Fragments;

static uint64_t word_at(const uint8_t *code) {
        uint64_t word;

        memcpy(&word, code, sizeof(word));
        return word;
}

/* Reads all of it, from @modules back to where no code is. */
static Fragments read_fragments(const BeamReader *reader, uint64_t modules) {
        static uint8_t code[BEAM_MAX_CODE_AHEAD];
        uint64_t n = 0;

        while (n < sizeof(code)) {
                uint64_t page = (modules - n - 1) & ~(uint64_t)(PAGE - 1);
                uint64_t size = MIN(modules - n - page, sizeof(code) - n);

                if (!beam_read(reader, modules - n - size, code + sizeof(code) - n - size, size))
                        break;
                n += size;
        }
        return (Fragments){ .code = code + sizeof(code) - n, .n = n, .end = modules };
}

/* Whether the code at @at is that of `erts_beamasm:normal_exit/0`. */
static bool exit_is(const BeamReader *reader, const uint8_t *at, unsigned *n_likelyp) {
        uint64_t module = word_at(at - INFO_BYTES), function = word_at(at - INFO_BYTES + WORD);
        char text[BEAM_MAX_TEXT];

        return !word_at(at - WORD) && (module & BEAM_TERM_ATOM_MASK) == BEAM_TERM_ATOM &&
                (function & BEAM_TERM_ATOM_MASK) == BEAM_TERM_ATOM && (*n_likelyp)++ < MAX_LIKELY &&
                beam_read_atom(reader, module, text) && !strcmp(text, "erts_beamasm") &&
                beam_read_atom(reader, function, text) && !strcmp(text, "normal_exit");
}

/* Return: the code that ends stacks; 0 = there is not exactly one such. */
static uint64_t find_exit(const BeamReader *reader, const Fragments *fragments) {
        uint64_t found = 0, begin = fragments->end - fragments->n;
        unsigned n_likely = 0, n = 0;

        for (uint64_t at = -begin % WORD + INFO_BYTES; at < fragments->n; at += WORD)
                if (exit_is(reader, fragments->code + at, &n_likely)) {
                        found = begin + at;
                        n++;
                }
        return n == 1 ? found : 0;
}

/* The address that code in front of @at has loaded to rdi last; 0 = none. */
static uint64_t loaded(const uint8_t *at) {
        for (const uint8_t *code = at - 10; code >= at - AROUND; code--)
                if (code[0] == 0x48 && code[1] == 0xbf)
                        return word_at(code + 2);
        for (const uint8_t *code = at - 5; code >= at - AROUND; code--)
                if (code[0] == 0xbf)
                        return (uint32_t)word_at(code + 1);
        return 0;
}

/* Return: address of the index of the code in force; 0 = code does not agree on one. */
static uint64_t find_active(const Fragments *fragments) {
        uint64_t found = 0;

        for (uint64_t at = AROUND; at + 3 <= fragments->n; at++) {
                const uint8_t *code = fragments->code + at;
                uint64_t address = code[0] == 0x44 && code[1] == 0x8b && code[2] == 0x27 ? loaded(code) : 0;

                if (address && found && address != found)
                        return 0;
                found = address ?: found;
        }
        return found;
}

/* Whether fragments say the same of a process' stack: `mov 88(%r13),%rsp`. */
static bool has_stop(const Fragments *fragments) {
        static const uint8_t expected[] = { 0x49, 0x8b, 0x65, BEAM_PROCESS_STOP };

        return memmem(fragments->code, fragments->n, expected, sizeof(expected));
}

/*
 * With `+JPperf true` each frame has a saved frame pointer, which looks as an address of code does, and
 * fragments are other ones: `mov 88(%r13),%rsp; mov 96(%r13),%rbp`. Those stacks are walked as native ones,
 * by these pointers. A variable says so, too, where it has a symbol: in OTP 25 fragments lie elsewhere then.
 */
static bool has_pointers(const Fragments *fragments) {
        static const uint8_t expected[] = { 0x49, 0x8b, 0x65, BEAM_PROCESS_STOP, 0x49, 0x8b, 0x6d };

        return memmem(fragments->code, fragments->n, expected, sizeof(expected));
}

static int look_at_fragments(const BeamReader *reader, const BeamOpened *opened, uint64_t bias,
                             struct beam_process *process) {
        const Fragments fragments = read_fragments(reader, process->modules);
        uint32_t layout = 0;

        if (opened->frame_layout && !beam_read(reader, opened->frame_layout + bias, &layout, sizeof(layout)))
                return BEAM_CODE_E_LATER;
        if (layout || has_pointers(&fragments))
                return BEAM_CODE_E_POINTERS;
        process->bottom = find_exit(reader, &fragments);
        process->active = find_active(&fragments);
        return process->bottom && process->active - bias - opened->data < opened->data_size &&
                        has_stop(&fragments)
                ? 0
                : BEAM_CODE_E_UNKNOWN;
}

/* ---- a process ---- */

/* Modules that may be the first one behind the fragments. */
typedef struct Fronts {
        uint64_t begins[MAX_FRONTS];
        unsigned n;
} Fronts;

/* Adds modules with so much room in front of them. @end: of the one before; 0 = there is none. */
static int add_fronts(Fronts *fronts, const BeamRange *ranges, uint64_t n, uint64_t *end) {
        for (uint64_t i = 0; i < n; i++) {
                uint64_t begin = ranges[i].begin;

                if (!*end || (begin > *end && begin - *end > BEAM_MAX_CODE_AHEAD)) {
                        if (fronts->n == MAX_FRONTS)
                                return BEAM_CODE_E_UNKNOWN;
                        fronts->begins[fronts->n++] = begin;
                }
                *end = ranges[i].end;
        }
        return 0;
}

/* Code lies in blocks; the one that was made first has the fragments, and is mostly not the lowest one. */
static int find_fronts(const BeamReader *reader, const BeamTable *table, Fronts *fronts) {
        BeamRange ranges[RANGES_AT_ONCE];
        uint64_t end = 0;

        for (uint64_t i = 0, n; i < table->n; i += n) {
                n = MIN(table->n - i, (uint64_t)RANGES_AT_ONCE);
                if (!beam_read(reader, table->first + i * sizeof(*ranges), ranges, n * sizeof(*ranges)))
                        return BEAM_CODE_E_LATER;
                if (add_fronts(fronts, ranges, n, &end))
                        return BEAM_CODE_E_UNKNOWN;
        }
        return 0;
}

/*
 * The module behind the fragments is in any table: modules of the machine itself are never purged. Where no
 * fragments are in front of any, look_at_fragments() says why.
 */
static int find_modules(const BeamReader *reader, struct beam_process *process) {
        Fronts fronts = { 0 };
        unsigned n_found = 0;
        BeamTable table;
        BeamRange first;
        int r;

        if (!beam_read(reader, process->ranges, &table, sizeof(table)) || !beam_table_may_be(&table) ||
            !beam_read_range(reader, &table, 0, &first))
                return BEAM_CODE_E_LATER;
        r = find_fronts(reader, &table, &fronts);
        process->modules = first.begin;
        for (unsigned i = 0; i < fronts.n && !r; i++) {
                const Fragments fragments = read_fragments(reader, fronts.begins[i]);

                if (!find_exit(reader, &fragments))
                        continue;
                process->modules = fronts.begins[i];
                n_found++;
        }
        return r ?: n_found > 1 ? BEAM_CODE_E_UNKNOWN : 0;
}

int beam_find(const BeamReader *reader, const BeamOpened *opened, uint64_t bias, BeamFound *found) {
        BeamReader own = { .read = reader->read, .userdata = reader->userdata,
                           .layout = beam_layout(opened->release) };
        Look look = { .reader = &own, .atoms_name = opened->atoms + bias };
        struct beam_process *process = &found->process;
        int r;

        *found = (BeamFound){ 0 };
        r = own.layout ? look_at_variables(&look, opened, bias) : BEAM_CODE_E_UNKNOWN;
        if (r)
                return r;
        found->atoms = own.atoms = look.atoms;
        *process = (struct beam_process){ .ranges = look.ranges,
                                          .schedulers = look.schedulers[NORMAL],
                                          .current = BEAM_SCHEDULER_CURRENT,
                                          .stop = BEAM_PROCESS_STOP,
                                          .end = own.layout->end,
                                          .pc = own.layout->pc,
                                          .registered = own.layout->registered,
                                          .initial = own.layout->initial };
        r = find_modules(&own, process);
        r = r ?: look_at_fragments(&own, opened, bias, process);
        r = r ?: find_schedulers(&own, process);
        return r ?: add_dirty(&own, &look, process);
}

bool beam_found_check(const BeamFound *found) {
        const struct beam_process *process = &found->process;

        return process->current == BEAM_SCHEDULER_CURRENT && process->stop == BEAM_PROCESS_STOP &&
                beam_layout_has_process(process->end, process->pc, process->registered, process->initial) &&
                process->n_schedulers &&
                process->n_schedulers <= BEAM_MAX_SCHEDULERS && process->scheduler_size <= MAX_SCHEDULER &&
                process->modules - 1 - process->bottom < BEAM_MAX_CODE_AHEAD;
}
