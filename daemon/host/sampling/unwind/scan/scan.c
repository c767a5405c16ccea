/* SPDX-License-Identifier: Apache-2.0 */

/*
 * At its beginning a function's CFA is rsp + 8. Each instruction that moves the stack changes that, and a
 * branch hands it to both of its ends:
 *
 *     push %rbx              rsp + 8
 *     sub  $16,%rsp          rsp + 16, rbx at CFA - 16
 *     test; je 1f            rsp + 32
 *     add  $16,%rsp
 *     pop  %rbx              rsp + 16
 *     ret                    rsp + 8: as it must be
 *  1: …                      rsp + 32, handed over by the branch
 *
 * Code is not believed because it can be read, but because it fits: where two paths meet they must agree, no
 * path may run into the middle of an instruction, and each return must find rsp + 8. Else all functions that
 * the paths lead through are given up. A jump by a table is followed if the code compares the index before.
 *
 * Beginnings are symbols, the file's entry, main() and targets of calls. An address that is loaded or
 * relocated may be one, too, or a label: it counts only where no path of the others leads. When a call's
 * target turns out to be a beginning, the gap is followed again with it, so that code behind a call that
 * never returns is not taken for its continuation.
 *
 * A thread's first function may never return, and no code calls it by its name. It is known by who makes
 * threads: code that loads its address and calls what asks the kernel for a thread, which calls it with no
 * caller above (clone).
 */
#include "host/sampling/unwind/scan/scan.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "host/sampling/unwind/scan/scan-arch.h"

enum {
        MAX_ROUNDS = 8,
        MAX_SPREADS = 64,
        MAX_VISITS = 16,                /* times that each byte may be followed, on average */
        MAX_DEPTH = 1 << 24,            /* bytes of a frame */
        MAX_ENTRIES = 1024,             /* entries of a jump table */
        MAX_PIECE = 8192,               /* rows handed out at a time */
        MAX_STRAIGHT = 64,              /* bytes of a callee elsewhere */
        SPARSE = 4,                     /* entries read for each one that counts */
};

typedef enum Kind { UNKNOWN, BEGIN, INSIDE } Kind;

enum { MARK_START = 1, MARK_LABEL = 2, MARK_THREAD = 4 };

enum { RETURNS = SCAN_MAX_GAP + 1 };    /* a callee elsewhere that is known to */

/* State before the instruction at this byte. */
typedef struct State {
        int32_t depth;                  /* CFA - stack pointer; 0 = not known */
        uint32_t owner;                 /* number of its function */
        int16_t frame;                  /* CFA - frame pointer; 0 = not one */
        int16_t base;                   /* CFA - rbx; 0 = it holds something else */
        int16_t rbp, rbx;               /* CFA - their place; 0 = kept, SCAN_LOST */
        uint8_t kind;                   /* Kind */
        bool is_top;
        bool is_from_kernel;            /* file's entry, or behind a system call: no caller */
} State;

/* Traits of a jump table that the path has shown. */
typedef struct Hint {
        uint64_t table;                 /* ELF address; 0 = none */
        uint8_t holder;                 /* register with that address; 0 = not any more */
        uint32_t compared, bound;       /* 0 = none */
        bool has_entry;
} Hint;

typedef struct Item {
        uint32_t at;
        Hint hint;
} Item;

/* A function, or the code behind one of its calls. */
typedef struct Owner {
        uint32_t with;                  /* the one that it is joined with; itself = none */
        uint32_t parent;                /* owner of the call before; itself = none */
        uint32_t callee;                /* byte of the gap it leads to, + 1; RETURNS; 0 = not known */
        uint32_t tail;                  /* byte of a function that it jumps to instead of a call, + 1 */
        bool is_bad;
        bool is_proven;                 /* a path ends as a function must */
        bool needs_proof;
        bool returns;
        bool returns_as_called;         /* a return with its caller's registers */
        bool loads_label, makes_threads;
} Owner;

/* A label whose address a function loads, or a function that it calls. */
typedef struct Mention {
        uint64_t address;
        uint32_t owner;
        bool is_call;
} Mention;

typedef struct Later {
        uint32_t at;
        uint32_t callee;                /* as of Owner */
        State state;
} Later;

struct Scan {
        Reader reader;
        Layout layout;
        uint64_t *starts, *labels;      /* ELF addresses from the file, in order */
        uint32_t n_starts, n_labels, room_starts, room_labels;
        uint64_t entry;                 /* entry point of the file */
        uint64_t entries_left;          /* symbols and relocations that may be read still */
        uint64_t n_bytes, n_refused;

        /* the gap in work */
        uint64_t address;
        uint32_t size, out;
        uint8_t *code, *marks;
        State *states;
        Owner *owners;
        uint32_t n_owners, room_owners;
        Item *items;
        uint32_t n_items, room_items;
        Later *later;                   /* code behind calls */
        uint32_t n_later, room_later;
        Mention *mentions;
        uint32_t n_mentions, room_mentions;
        uint64_t left;                  /* instructions that may be followed still */
        bool is_over;                   /* no memory, or too much work */
        bool is_new;                    /* a beginning was found that was not known */
        Row rows[MAX_PIECE];
};

/* ---- beginnings that the file tells ---- */

static int add_address(uint64_t **list, uint32_t *n, uint32_t *room, uint64_t address) {
        int r;

        if (*n == SCAN_MAX_STARTS)
                return 0;
        r = array_reserve(list, room, *n + 1u, 256);
        if (!r)
                (*list)[(*n)++] = address;
        return r;
}

static int add_start(Scan *scan, uint64_t address) {
        return add_address(&scan->starts, &scan->n_starts, &scan->room_starts, address);
}

static int add_label(Scan *scan, uint64_t address) {
        return add_address(&scan->labels, &scan->n_labels, &scan->room_labels, address);
}

static bool is_text(const Scan *scan, uint64_t address) {
        return address >= scan->layout.text_low && address < scan->layout.text_high;
}

static int read_symbol(Scan *scan, const uint8_t *data) {
        Elf64_Sym symbol;
        uint8_t type;

        memcpy(&symbol, data, sizeof(symbol));
        type = ELF64_ST_TYPE(symbol.st_info);
        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbol.st_shndx == SHN_UNDEF ||
            !is_text(scan, symbol.st_value))
                return 0;
        /* a local symbol may be a part that the compiler has moved away (`.cold`), in the middle of a frame */
        return ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ? add_label(scan, symbol.st_value)
                                                          : add_start(scan, symbol.st_value);
}

static int read_relocation(Scan *scan, const uint8_t *data) {
        Elf64_Rela relocation;

        memcpy(&relocation, data, sizeof(relocation));
        if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_RELATIVE ||
            !is_text(scan, (uint64_t)relocation.r_addend))
                return 0;
        return add_label(scan, (uint64_t)relocation.r_addend);
}

/* Go's functions change stacks; what its own table does not tell is left to its frame pointers. */
static bool is_of_go(Scan *scan, const Elf64_Shdr *names, const Elf64_Shdr *section) {
        static const char note[] = ".note.go.buildid", table[] = ".gopclntab";
        const uint8_t *data;

        if (section->sh_name > names->sh_size || names->sh_offset > INT64_MAX)
                return false;
        data = reader_bytes(&scan->reader, names->sh_offset + section->sh_name, sizeof(note));
        return data && (!memcmp(data, note, sizeof(note)) || !memcmp(data, table, sizeof(table)));
}

static bool read_header(Scan *scan, const Elf64_Ehdr *header, uint32_t i, Elf64_Shdr *section) {
        const uint8_t *data = reader_bytes(&scan->reader, header->e_shoff + i * sizeof(*section),
                                           sizeof(*section));

        if (data)
                memcpy(section, data, sizeof(*section));
        return data;
}

static int read_section(Scan *scan, const Elf64_Shdr *section) {
        bool is_symbols = section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM;
        size_t size = is_symbols ? sizeof(Elf64_Sym) : sizeof(Elf64_Rela);
        int r = 0;

        if ((!is_symbols && section->sh_type != SHT_RELA) || section->sh_offset > INT64_MAX / 2 ||
            section->sh_size > INT64_MAX / 2)
                return 0;
        for (uint64_t i = 0; !r && scan->entries_left && i < section->sh_size / size; i++) {
                const uint8_t *data = reader_bytes(&scan->reader, section->sh_offset + i * size, size);

                scan->entries_left--;
                if (!data)
                        break;
                r = is_symbols ? read_symbol(scan, data) : read_relocation(scan, data);
        }
        return r;
}

/* The code at an address, as far as it is followed. Return: NULL = there is none. */
static const uint8_t *straight_code(Scan *scan, uint64_t address, uint64_t *sizep) {
        uint64_t offset;

        if (!layout_find(&scan->layout, address, &offset, sizep))
                return NULL;
        *sizep = MIN(*sizep, (uint64_t)MAX_STRAIGHT);
        return reader_bytes(&scan->reader, offset, *sizep);
}

/*
 * Call frame information describes what C libraries begin a program with, so that nothing follows that code.
 * It hands main() on, whose symbol may be gone, and main() calls local functions.
 */
static int read_main(Scan *scan) {
        uint64_t size, function = 0;
        const uint8_t *code = straight_code(scan, scan->entry, &size);

        if (code)
                function = scan_main(code, size, scan->entry);
        return function && is_text(scan, function) ? add_start(scan, function) : 0;
}

static int read_file(Scan *scan) {
        const uint8_t *data = reader_bytes(&scan->reader, 0, sizeof(Elf64_Ehdr));
        Elf64_Shdr names, section;
        Elf64_Ehdr header;
        int r;

        if (!data)
                return SCAN_E_NONE;
        memcpy(&header, data, sizeof(header));
        scan->entry = header.e_entry;
        scan->entries_left = SCAN_MAX_STARTS * SPARSE;
        r = header.e_entry ? add_start(scan, header.e_entry) : 0;
        r = r || !header.e_entry ? r : read_main(scan);
        if (header.e_shentsize != sizeof(Elf64_Shdr) || header.e_shoff > INT64_MAX)
                return r;
        if (!read_header(scan, &header, header.e_shstrndx, &names))
                return r;
        for (uint32_t i = 0; !r && i < MIN(header.e_shnum, LAYOUT_MAX_SECTIONS); i++) {
                if (!read_header(scan, &header, i, &section))
                        break;
                r = is_of_go(scan, &names, &section) ? SCAN_E_NONE : read_section(scan, &section);
        }
        return r;
}

static void forget_gap(Scan *scan) {
        free(scan->code);
        free(scan->marks);
        free(scan->states);
        free(scan->owners);
        free(scan->items);
        free(scan->later);
        free(scan->mentions);
        scan->code = scan->marks = NULL;
        scan->later = NULL;
        scan->mentions = NULL;
        scan->states = NULL;
        scan->owners = NULL;
        scan->items = NULL;
        scan->room_owners = scan->room_items = scan->room_later = scan->room_mentions = 0;
        scan->size = scan->out = 0;
}

Scan *scan_free(Scan *scan) {
        if (!scan)
                return NULL;
        forget_gap(scan);
        free(scan->starts);
        free(scan->labels);
        reader_deinit(&scan->reader);
        free(scan);
        return NULL;
}

static void sift(uint64_t *list, uint32_t root, uint32_t n) {
        uint64_t value = list[root];

        for (uint32_t child; (child = 2 * root + 1) < n; root = child) {
                child += child + 1 < n && list[child + 1] > list[child];
                if (list[child] <= value)
                        break;
                list[root] = list[child];
        }
        list[root] = value;
}

/* Not qsort(): the C library's asks for the size of memory, which a worker may not. */
static void sort(uint64_t *list, uint32_t n) {
        for (uint32_t i = n / 2; i-- > 0;)
                sift(list, i, n);
        for (uint32_t i = n; i-- > 1;) {
                uint64_t largest = list[0];

                list[0] = list[i];
                list[i] = largest;
                sift(list, 0, i);
        }
}

static int start(Scan **scanp, Scan *scan) {
        int r = layout_read(&scan->layout, &scan->reader, LAYOUT_CFI_FIRST);

        r = (r && r != LAYOUT_E_NO_CFI) || !scan_arch_is_known() ? SCAN_E_NONE : read_file(scan);
        if (r) {
                scan_free(scan);
                return r < 0 ? error_fold(r) : r;
        }
        sort(scan->starts, scan->n_starts);
        sort(scan->labels, scan->n_labels);
        *scanp = scan;
        return 0;
}

static Scan *allocate(void) {
        Scan *scan = malloc(sizeof(*scan));

        if (scan)
                memset(scan, 0, offsetof(Scan, rows));
        return scan;
}

int scan_new(Scan **scanp, int fd) {
        Scan *scan = allocate();
        int r;

        if (!scan)
                return error_origin(-ENOMEM);
        r = reader_init_file(&scan->reader, fd);
        if (r) {
                free(scan);
                return error_fold(r);
        }
        return start(scanp, scan);
}

int scan_new_memory(Scan **scanp, const void *data, size_t size) {
        Scan *scan = allocate();

        if (!scan)
                return error_origin(-ENOMEM);
        reader_init_memory(&scan->reader, data, size);
        return start(scanp, scan);
}

/* ---- functions that paths join ---- */

static uint32_t find_owner(Scan *scan, uint32_t owner) {
        while (scan->owners[owner].with != owner) {
                scan->owners[owner].with = scan->owners[scan->owners[owner].with].with;
                owner = scan->owners[owner].with;
        }
        return owner;
}

static void join(Scan *scan, uint32_t a, uint32_t b) {
        Owner *from, *to;

        a = find_owner(scan, a);
        b = find_owner(scan, b);
        if (a == b)
                return;
        from = &scan->owners[a];
        to = &scan->owners[b];
        to->is_bad |= from->is_bad;
        to->is_proven |= from->is_proven;
        to->returns |= from->returns;
        to->returns_as_called |= from->returns_as_called;
        to->tail = to->tail ?: from->tail;
        to->needs_proof &= from->needs_proof;
        from->with = b;
}

static void refuse(Scan *scan, uint32_t owner) {
        scan->owners[find_owner(scan, owner)].is_bad = true;
}

static void prove(Scan *scan, uint32_t owner) {
        scan->owners[find_owner(scan, owner)].is_proven = true;
}

static bool is_trusted(Scan *scan, uint32_t owner) {
        const Owner *of = &scan->owners[find_owner(scan, owner)];

        return !of->is_bad && (of->is_proven || !of->needs_proof);
}

/* @parent: UINT32_MAX = none. */
static bool new_owner(Scan *scan, uint32_t parent, bool needs_proof, uint32_t *ownerp) {
        if (array_reserve(&scan->owners, &scan->room_owners, scan->n_owners + 1u, 1024)) {
                scan->is_over = true;
                return false;
        }
        *ownerp = scan->n_owners++;
        scan->owners[*ownerp] = (Owner){ .with = *ownerp,
                                         .parent = parent == UINT32_MAX ? *ownerp : parent,
                                         .needs_proof = needs_proof };
        return true;
}

static bool does_return(Scan *scan, uint32_t callee) {
        if (callee == RETURNS)
                return true;
        return callee && scan->states[callee - 1].kind == BEGIN &&
                scan->owners[find_owner(scan, scan->states[callee - 1].owner)].returns;
}

/*
 * Code behind a call falls with the call. The call returns to it if the callee returns. Else it needs a proof
 * of its own, which says nothing of the code before: behind a call that never returns is another function,
 * and be it with a frame of the same size.
 */
static bool spread_one(Scan *scan, uint32_t i) {
        uint32_t self = find_owner(scan, i), before = find_owner(scan, scan->owners[i].parent);
        Owner *owner = &scan->owners[self], *parent = &scan->owners[before];
        bool is_changed = false;

        if (parent->is_bad && !owner->is_bad)
                owner->is_bad = is_changed = true;
        if (!owner->returns && does_return(scan, owner->tail))
                owner->returns = is_changed = true;
        if (self == before || !does_return(scan, scan->owners[i].callee))
                return is_changed;
        if (owner->needs_proof && is_trusted(scan, before)) {
                owner->needs_proof = false;
                is_changed = true;
        }
        if (owner->returns && !parent->returns && is_trusted(scan, self))
                parent->returns = is_changed = true;
        return is_changed;
}

/* Return: whether something has changed. */
static bool spread(Scan *scan) {
        bool is_changed = false;

        for (uint32_t i = 0; i < scan->n_owners; i++)
                is_changed |= spread_one(scan, i);
        for (uint32_t i = scan->n_owners; i-- > 0;)
                is_changed |= spread_one(scan, i);
        return is_changed;
}

/* ---- paths ---- */

static void put(Scan *scan, uint32_t at, const Hint *hint) {
        if (array_reserve(&scan->items, &scan->room_items, scan->n_items + 1u, 256)) {
                scan->is_over = true;
                return;
        }
        scan->items[scan->n_items++] = (Item){ .at = at, .hint = *hint };
}

static void put_later(Scan *scan, uint32_t at, uint32_t callee, const State *state) {
        if (at >= scan->size || scan->marks[at])
                return;                 /* a call that never returns */
        if (array_reserve(&scan->later, &scan->room_later, scan->n_later + 1u, 256)) {
                scan->is_over = true;
                return;
        }
        scan->later[scan->n_later++] = (Later){ .at = at, .callee = callee, .state = *state };
}

static bool is_as_called(const State *state) {
        return state->depth == SCAN_WORD && !state->rbp && !state->rbx && !state->is_top;
}

/* Two paths meet. Return: whether @to has changed; *fitp = they do not contradict each other. */
static bool merge(State *to, const State *from, bool *fitp) {
        State before = *to;

        *fitp = to->is_top == from->is_top;
        to->is_from_kernel &= from->is_from_kernel;
        if (to->frame != from->frame)
                to->frame = 0;
        if (to->base != from->base)
                to->base = 0;
        if (to->depth != from->depth)
                to->depth = 0;
        if (to->rbp != from->rbp)
                to->rbp = SCAN_LOST;
        if (to->rbx != from->rbx)
                to->rbx = SCAN_LOST;
        if (!to->depth && !to->frame && !to->base)
                *fitp = false;
        return to->depth != before.depth || to->frame != before.frame || to->base != before.base ||
                to->rbp != before.rbp || to->rbx != before.rbx;
}

/* A jump instead of a call. */
static void jump_away(Scan *scan, uint32_t owner, uint32_t at) {
        scan->owners[find_owner(scan, owner)].tail = at + 1;
        prove(scan, owner);
}

/* The path goes on at byte @at of the gap. */
static void reach(Scan *scan, uint32_t at, const State *from, const Hint *hint) {
        State *to = &scan->states[at];
        bool fits = true, is_changed = false;

        if (scan->marks[at] & MARK_START && (to->kind != BEGIN || is_as_called(from))) {
                is_as_called(from) ? jump_away(scan, from->owner, at) : refuse(scan, from->owner);
                return;
        }
        if (to->kind == UNKNOWN) {
                *to = *from;
                to->kind = BEGIN;
                put(scan, at, hint);
                return;
        }
        join(scan, to->owner, from->owner);
        if (to->kind == BEGIN)
                is_changed = merge(to, from, &fits);
        if (!fits || to->kind != BEGIN)
                refuse(scan, from->owner);
        else if (is_changed)
                put(scan, at, hint);
}

/* A jump out of the gap leads to another function, or to an unknown place. */
static void reach_address(Scan *scan, uint64_t address, const State *from, const Hint *hint) {
        if (address >= scan->address && address - scan->address < scan->size)
                reach(scan, (uint32_t)(address - scan->address), from, hint);
        else if (!is_as_called(from))
                refuse(scan, from->owner);
}

/* A register's place that the stack has left is no place any more. */
static void drop_places(State *state) {
        if (!state->depth)
                return;
        if (state->rbp > state->depth)
                state->rbp = SCAN_LOST;
        if (state->rbx > state->depth)
                state->rbx = SCAN_LOST;
}

static void move_stack(State *state, int64_t by) {
        if (!state->depth)
                return;
        if (by > MAX_DEPTH || by < -MAX_DEPTH || state->depth - by > MAX_DEPTH || state->depth - by <= 0)
                state->depth = 0;
        else
                state->depth -= (int32_t)by;
        if (by > 0)
                drop_places(state);
}

static int16_t *place_of(State *state, ScanRegister reg) {
        return reg == SCAN_FRAME ? &state->rbp : reg == SCAN_BASE ? &state->rbx : NULL;
}

static void store(State *state, ScanRegister reg, int64_t place) {
        int16_t *at = place_of(state, reg);

        if (at && *at == 0 && !(reg == SCAN_FRAME && state->frame) && place > SCAN_WORD && place <= INT16_MAX)
                *at = (int16_t)place;
}

static void load(State *state, ScanRegister reg, int64_t place) {
        int16_t *at = place_of(state, reg);

        if (reg == SCAN_FRAME)
                state->frame = 0;
        if (reg == SCAN_BASE)
                state->base = 0;
        if (at && *at == place)
                *at = 0;
        else if (at && *at == 0)
                *at = SCAN_LOST;
}

static void set_frame(State *state, int64_t value) {
        int64_t frame = state->depth - value;

        state->frame = state->depth && frame > 0 && frame <= INT16_MAX ? (int16_t)frame : 0;
        if (!state->rbp)
                state->rbp = SCAN_LOST;
}

static void set_base(State *state, int64_t value) {
        int64_t base = state->depth - value;

        state->base = state->depth && base > 0 && base <= INT16_MAX ? (int16_t)base : 0;
        if (!state->rbx)
                state->rbx = SCAN_LOST;
}

/* @from: CFA - the register that the stack pointer is made of; 0 = not known. */
static void from_register(State *state, int16_t from, int64_t value) {
        int64_t depth = from - value;

        state->depth = from && depth > 0 && depth <= MAX_DEPTH ? (int32_t)depth : 0;
        drop_places(state);
}

static void pop(State *state, ScanRegister reg) {
        if (reg && state->depth)
                load(state, reg, state->depth);
        else if (reg == SCAN_FRAME)
                load(state, reg, -2);
        move_stack(state, SCAN_WORD);
}

static void apply(State *state, const ScanInstruction *instruction) {
        switch ((ScanEffect)instruction->effect) {
        case SCAN_NOTHING:
                break;
        case SCAN_PUSH:
                move_stack(state, -SCAN_WORD);
                if (state->depth)
                        store(state, instruction->reg, state->depth);
                break;
        case SCAN_POP:
                pop(state, instruction->reg);
                break;
        case SCAN_ADD:
                move_stack(state, instruction->value);
                break;
        case SCAN_LOSE_STACK:
                state->depth = 0;
                break;
        case SCAN_LOSE_FRAME:
                load(state, SCAN_FRAME, -2);
                break;
        case SCAN_SET_FRAME:
                set_frame(state, instruction->value);
                break;
        case SCAN_FROM_FRAME:
                from_register(state, state->frame, instruction->value);
                break;
        case SCAN_SET_BASE:
                set_base(state, instruction->value);
                break;
        case SCAN_FROM_BASE:
                from_register(state, state->base, instruction->value);
                break;
        case SCAN_LOSE_BASE:
                state->base = 0;
                break;
        case SCAN_LEAVE:
                from_register(state, state->frame, 0);
                pop(state, SCAN_FRAME);
                break;
        case SCAN_STORE:
                if (state->depth)
                        store(state, instruction->reg, state->depth - instruction->value);
                break;
        case SCAN_LOAD:
                load(state, instruction->reg, state->depth ? state->depth - instruction->value : -2);
                break;
        case SCAN_KERNEL:
                state->is_from_kernel = true;
                break;
        case SCAN_TOP:
                state->is_top = state->is_top || (state->is_from_kernel && !state->rbp && !state->frame);
                load(state, SCAN_FRAME, -2);
                break;
        }
}

static void note(Hint *hint, const ScanInstruction *instruction) {
        uint32_t compared = hint->compared;

        hint->compared = 0;
        if (instruction->written == hint->holder || instruction->written == SCAN_MANY)
                hint->holder = 0;
        switch ((ScanTable)instruction->table) {
        case SCAN_COMPARE:
                if (instruction->value >= 0 && instruction->value < MAX_ENTRIES)
                        hint->compared = (uint32_t)instruction->value + 1;
                break;
        case SCAN_UP_TO:
                hint->bound = compared;
                break;
        case SCAN_ADDRESS:
                hint->table = instruction->target;
                hint->holder = instruction->written;
                hint->has_entry = false;
                break;
        case SCAN_ENTRY:
                hint->has_entry = hint->table != 0;
                break;
        case SCAN_ABSOLUTE:
        case SCAN_ABOVE:
        case SCAN_NO_TABLE:
                break;
        }
}

/* Return: whether all entries of the table lead into the gap. */
static bool follow_table(Scan *scan, const State *state, uint64_t table, uint32_t n, bool is_absolute) {
        const Hint hint = { 0 };
        size_t width = is_absolute ? sizeof(uint64_t) : sizeof(int32_t);
        uint64_t offset, size;

        if (!layout_find(&scan->layout, table, &offset, &size) || size / width < n)
                return false;
        for (uint32_t i = 0; i < n; i++) {
                const uint8_t *data = reader_bytes(&scan->reader, offset + i * width, width);
                uint64_t target = 0;
                int32_t relative;

                if (!data)
                        return false;
                if (is_absolute) {
                        memcpy(&target, data, sizeof(target));
                } else {
                        memcpy(&relative, data, sizeof(relative));
                        target = table + (uint64_t)(int64_t)relative;
                }
                if (target < scan->address || target - scan->address >= scan->size)
                        return false;
                reach(scan, (uint32_t)(target - scan->address), state, &hint);
        }
        return true;
}

static void mark(Scan *scan, uint64_t address, uint8_t what) {
        uint8_t *at;

        if (address < scan->address || address - scan->address >= scan->size)
                return;
        at = &scan->marks[address - scan->address];
        if (*at & what)
                return;
        *at |= what;
        scan->is_new = true;
}

static void mention(Scan *scan, uint32_t owner, uint64_t address, bool is_call) {
        if (array_reserve(&scan->mentions, &scan->room_mentions, scan->n_mentions + 1u, 1024)) {
                scan->is_over = true;
                return;
        }
        scan->mentions[scan->n_mentions++] = (Mention){ .owner = owner, .is_call = is_call,
                                                        .address = address };
}

/*
 * Whether the code there goes straight to a system call, clears the frame pointer and calls what it was
 * given: clone, in the new thread. Branches are where it ends in the old one.
 */
static bool makes_thread(Scan *scan, uint64_t address) {
        bool is_from_kernel = false, is_top = false;
        uint64_t size = 0;
        const uint8_t *code = straight_code(scan, address, &size);

        for (size_t at = 0; code && at < size;) {
                ScanInstruction instruction;

                if (!scan_decode(code + at, size - at, address + at, &instruction))
                        return false;
                if (instruction.flow == SCAN_CALL)
                        return is_top && !instruction.target;
                if (instruction.flow != SCAN_NEXT && instruction.flow != SCAN_BRANCH)
                        return false;
                is_from_kernel |= instruction.effect == SCAN_KERNEL;
                is_top |= is_from_kernel && instruction.effect == SCAN_TOP;
                at += instruction.size;
        }
        return false;
}

/* Labels that a function loads between two of its calls, of which the second makes a thread. */
static void mark_threads(Scan *scan) {
        for (uint32_t i = 0; i < scan->n_mentions; i++)
                if (!scan->mentions[i].is_call)
                        scan->owners[find_owner(scan, scan->mentions[i].owner)].loads_label = true;
        for (uint32_t i = 0; i < scan->n_mentions; i++) {
                Owner *owner = &scan->owners[find_owner(scan, scan->mentions[i].owner)];

                if (scan->mentions[i].is_call && owner->loads_label && !owner->makes_threads)
                        owner->makes_threads = makes_thread(scan, scan->mentions[i].address);
        }
        for (uint32_t i = 0; i < scan->n_mentions; i++)
                if (!scan->mentions[i].is_call &&
                    scan->owners[find_owner(scan, scan->mentions[i].owner)].makes_threads)
                        mark(scan, scan->mentions[i].address, MARK_THREAD);
}

static void follow_indirect(Scan *scan, const State *state, const Hint *hint,
                            const ScanInstruction *instruction) {
        bool is_absolute = instruction->table == SCAN_ABSOLUTE;

        if (is_as_called(state) && hint->holder && hint->holder == instruction->used)
                mark(scan, hint->table, MARK_START);
        if (is_absolute && hint->bound)
                follow_table(scan, state, instruction->target, hint->bound, true);
        else if (!is_absolute && hint->bound && hint->has_entry)
                follow_table(scan, state, hint->table, hint->bound, false);
}

/* Where the path goes from here, besides the next instruction. Return: whether it goes on there. */
static bool branch(Scan *scan, const State *state, Hint *hint, uint32_t compared,
                   const ScanInstruction *instruction) {
        Hint there = *hint;

        switch ((ScanFlow)instruction->flow) {
        case SCAN_NEXT:
                return true;
        case SCAN_BRANCH:
                if (instruction->table == SCAN_ABOVE)
                        there.bound = compared;
                reach_address(scan, instruction->target, state, &there);
                return true;
        case SCAN_CALL:
                if (instruction->target)
                        mark(scan, instruction->target, MARK_START);
                if (instruction->target)
                        mention(scan, state->owner, instruction->target, true);
                *hint = (Hint){ 0 };
                return true;
        case SCAN_JUMP:
                reach_address(scan, instruction->target, state, hint);
                return false;
        case SCAN_RETURN:
                if (state->depth != SCAN_WORD || state->is_top)
                        refuse(scan, state->owner);
                scan->owners[find_owner(scan, state->owner)].returns = true;
                if (is_as_called(state)) {
                        scan->owners[find_owner(scan, state->owner)].returns_as_called = true;
                        prove(scan, state->owner);
                }
                return false;
        case SCAN_INDIRECT:
                follow_indirect(scan, state, hint, instruction);
                return false;
        case SCAN_STOP:
                return false;
        }
        return false;
}

/* Marks the bytes of an instruction. Return: false = another one begins among them. */
static bool cover(Scan *scan, uint32_t at, uint32_t size) {
        for (uint32_t i = 1; i < size; i++) {
                State *state = &scan->states[at + i];

                if (state->kind == BEGIN) {
                        join(scan, state->owner, scan->states[at].owner);
                        return false;
                }
                state->kind = INSIDE;
                state->owner = scan->states[at].owner;
        }
        return true;
}

/* Whether the code outside of the gap goes straight to its return, as `_init` of a program without it does. */
static bool returns_at_once(Scan *scan, uint64_t address) {
        uint64_t size = 0;
        const uint8_t *code = straight_code(scan, address, &size);

        for (size_t at = 0; code && at < size;) {
                ScanInstruction instruction;

                if (!scan_decode(code + at, size - at, address + at, &instruction))
                        return false;
                if (instruction.flow != SCAN_NEXT)
                        return instruction.flow == SCAN_RETURN;
                at += instruction.size;
        }
        return false;
}

static uint32_t find_callee(Scan *scan, uint64_t address) {
        if (address >= scan->address && address - scan->address < scan->size)
                return (uint32_t)(address - scan->address) + 1;
        return address && returns_at_once(scan, address) ? RETURNS : 0;
}

static void follow(Scan *scan, Item item) {
        Hint hint = item.hint;
        uint32_t at = item.at;

        for (;;) {
                State state = scan->states[at];
                ScanInstruction instruction;
                uint32_t compared = hint.compared, next;

                if (scan->is_over || !scan->left--) {
                        scan->is_over = true;
                        return;
                }
                if (scan->size - at >= SCAN_RESTORER && scan_is_restorer(scan->code + at)) {
                        refuse(scan, state.owner);
                        return;
                }
                if (!scan_decode(scan->code + at, scan->size - at, scan->address + at, &instruction) ||
                    !cover(scan, at, instruction.size)) {
                        refuse(scan, state.owner);
                        return;
                }
                note(&hint, &instruction);
                if (instruction.table == SCAN_ADDRESS) {
                        mark(scan, instruction.target, MARK_LABEL);
                        if (is_text(scan, instruction.target))
                                mention(scan, state.owner, instruction.target, false);
                }
                apply(&state, &instruction);
                if (!state.depth && !state.frame && !state.base && !state.is_top)
                        return;
                next = at + instruction.size;
                if (!branch(scan, &state, &hint, compared, &instruction))
                        return;
                if (instruction.flow == SCAN_CALL) {
                        state.is_from_kernel = false;
                        put_later(scan, next, find_callee(scan, instruction.target), &state);
                        return;
                }
                if (next >= scan->size) {
                        refuse(scan, state.owner);
                        return;
                }
                if (scan->marks[next] && scan->owners[find_owner(scan, state.owner)].needs_proof)
                        return;         /* through padding behind a call that never returns */
                if (scan->states[next].kind != UNKNOWN || scan->marks[next] & MARK_START) {
                        reach(scan, next, &state, &hint);
                        return;
                }
                scan->states[next] = state;
                scan->states[next].kind = BEGIN;
                at = next;
        }
}

static void follow_items(Scan *scan) {
        while (scan->n_items && !scan->is_over)
                follow(scan, scan->items[--scan->n_items]);
}

/*
 * Code behind a call, which may never return: what comes then belongs to another function. So it is followed
 * when all else is known, and believed only if a path of its own ends as it must.
 */
static void follow_later(Scan *scan, const Later *later) {
        State *to = &scan->states[later->at];
        const Hint hint = { 0 };

        if (to->kind == BEGIN && to->depth == later->state.depth && to->frame == later->state.frame &&
            to->base == later->state.base) {
                bool fits;

                /* no join: the call may not lead here */
                if (merge(to, &later->state, &fits))
                        put(scan, later->at, &hint);
        } else if (to->kind == UNKNOWN) {
                State state = later->state;

                if (!new_owner(scan, later->state.owner, true, &state.owner))
                        return;
                scan->owners[state.owner].callee = later->callee;
                *to = state;
                to->kind = BEGIN;
                put(scan, later->at, &hint);
        }
        follow_items(scan);
}

static void follow_all_later(Scan *scan) {
        for (uint32_t i = 0; i < scan->n_later && !scan->is_over; i++) {
                Later later = scan->later[i];

                follow_later(scan, &later);
        }
        scan->n_later = 0;
}

/*
 * Whether a label begins with a jump by a register. Nothing here has loaded that, so who came here has: it is
 * a parameter, and the label a function (musl's wrapper_cmp, by which qsort() calls its caller back).
 */
static bool hands_on(Scan *scan, uint32_t at) {
        ScanInstruction instruction;

        return scan_decode(scan->code + at, scan->size - at, scan->address + at, &instruction) &&
                instruction.flow == SCAN_INDIRECT && instruction.used;
}

/*
 * Where described code ends and a frame is made at once (`push %rbp; mov %rsp,%rbp`) a function begins: no
 * path comes from before, and no frame is made in the middle of one.
 */
static bool begins_frame(const Scan *scan, uint32_t at) {
        ScanInstruction first, second;

        return at == 0 && scan_decode(scan->code, scan->size, scan->address, &first) &&
                first.effect == SCAN_PUSH && first.reg == SCAN_FRAME &&
                scan_decode(scan->code + first.size, scan->size - first.size, scan->address + first.size,
                            &second) &&
                second.effect == SCAN_SET_FRAME && second.value == 0;
}

/* The kernel enters a file at its entry: no return address lies there, but the number of arguments. */
static void follow_from(Scan *scan, uint32_t at, bool is_label) {
        bool is_entry = scan->address + at == scan->entry;
        State *state = &scan->states[at];
        const Hint hint = { 0 };
        uint32_t owner;

        if (state->kind == INSIDE)
                refuse(scan, state->owner);
        if (state->kind != UNKNOWN ||
            !new_owner(scan, UINT32_MAX,
                       is_label && !(scan->marks[at] & MARK_THREAD) && !hands_on(scan, at) &&
                               !begins_frame(scan, at),
                       &owner))
                return;
        *state = (State){ .depth = SCAN_WORD, .owner = owner, .kind = BEGIN,
                          .is_top = is_entry, .is_from_kernel = is_entry };
        put(scan, at, &hint);
        follow_items(scan);
}

/* Goes once over the gap, with all beginnings that are known. */
static void follow_all(Scan *scan) {
        memset(scan->states, 0, scan->size * sizeof(*scan->states));
        scan->n_owners = scan->n_items = scan->n_later = scan->n_mentions = 0;
        scan->is_new = false;
        for (uint32_t i = 0; i < scan->size && !scan->is_over; i++)
                if (scan->marks[i] & MARK_START)
                        follow_from(scan, i, false);
        follow_all_later(scan);
        mark_threads(scan);
        for (uint32_t i = 0; i < scan->size && !scan->is_over; i++)
                if (scan->marks[i] & MARK_LABEL && scan->states[i].kind == UNKNOWN)
                        follow_from(scan, i, true);
        follow_all_later(scan);
}

/* The part of the gap that the file has. Return: false = none. */
static bool read_code(Scan *scan, uint64_t start, uint64_t end) {
        uint64_t offset, size;

        if (!layout_find(&scan->layout, start, &offset, &size))
                return false;
        scan->size = (uint32_t)MIN(end - start, size);
        for (uint32_t at = 0; at < scan->size;) {
                uint32_t n = MIN(scan->size - at, (uint32_t)READER_WINDOW_MIN);
                const uint8_t *data = reader_bytes(&scan->reader, offset + at, n);

                if (!data)
                        return false;
                memcpy(scan->code + at, data, n);
                at += n;
        }
        return true;
}

static void mark_list(Scan *scan, const uint64_t *list, uint32_t n, uint8_t what) {
        uint32_t low = 0;

        for (uint32_t left = n; left;) {
                uint32_t half = left / 2;

                if (list[low + half] < scan->address) {
                        low += half + 1;
                        left -= half + 1;
                } else {
                        left = half;
                }
        }
        for (; low < n && list[low] - scan->address < scan->size; low++)
                mark(scan, list[low], what);
}

/* What the code of one gap calls in others is a beginning there. Return: 0, -ENOMEM. */
static int keep_calls(Scan *scan) {
        uint32_t n = scan->n_starts, n_left = 0;
        int r = 0;

        for (uint32_t i = 0; i < scan->n_mentions && !r; i++) {
                const Mention *call = &scan->mentions[i];

                if (call->is_call && is_text(scan, call->address) &&
                    call->address - scan->address >= scan->size)
                        r = add_start(scan, call->address);
        }
        if (r || scan->n_starts == n)
                return r;
        sort(scan->starts, scan->n_starts);
        for (uint32_t i = 0; i < scan->n_starts; i++)
                if (!n_left || scan->starts[i] != scan->starts[n_left - 1])
                        scan->starts[n_left++] = scan->starts[i];
        scan->n_starts = n_left;
        return 0;
}

static bool mark_known(Scan *scan) {
        mark_list(scan, scan->starts, scan->n_starts, MARK_START);
        mark_list(scan, scan->labels, scan->n_labels, MARK_LABEL);
        return scan->is_new;
}

int scan_gap(Scan *scan, uint64_t start, uint64_t end) {
        forget_gap(scan);
        if (end <= start || end - start > SCAN_MAX_GAP)
                return 0;
        scan->address = start;
        scan->code = malloc(end - start);
        scan->marks = calloc(end - start, 1);
        if (!scan->code || !scan->marks)
                return error_origin(-ENOMEM);
        scan->is_new = scan->is_over = false;
        if (!read_code(scan, start, end) || !mark_known(scan)) {
                scan->size = 0;
                return 0;
        }
        scan->states = malloc(scan->size * sizeof(*scan->states));
        if (!scan->states)
                return error_origin(-ENOMEM);
        scan->left = (uint64_t)scan->size * MAX_VISITS;
        for (int i = 0; i < MAX_ROUNDS && scan->is_new && !scan->is_over; i++)
                follow_all(scan);
        for (int i = 0; spread(scan) && !scan->is_over; i++)
                scan->is_over = i == MAX_SPREADS;
        if (scan->is_over)
                scan->size = 0;         /* code that was not followed may contradict the rest */
        for (uint32_t i = 0; scan->size && i < scan->n_owners; i++)
                scan->n_refused += !is_trusted(scan, i);
        return scan->size ? keep_calls(scan) : 0;
}

/* ---- rows ---- */

static uint64_t rule_at(Scan *scan, uint32_t at) {
        const State *state = &scan->states[at];

        if (state->kind != BEGIN || !is_trusted(scan, state->owner))
                return 0;
        if (scan->size - at > SCAN_RESTORER && scan_is_restorer(scan->code + at + 1))
                return 0;               /* a return address is looked up at the byte before it */
        if (state->is_top)
                return scan_rule_top();
        if (!state->depth && !state->frame && !state->base)
                return 0;
        return scan_rule(state->depth, state->frame, state->base, state->rbp, state->rbx);
}

int scan_next(Scan *scan, CfiFunction *functionp) {
        uint32_t n = 0, from = scan->out, at = from;

        if (at >= scan->size)
                return SCAN_E_END;
        for (; at < scan->size; at++) {
                uint64_t rule;

                if (at > from && scan->states[at].kind == INSIDE)
                        continue;
                rule = rule_at(scan, at);
                if (n && scan->rows[n - 1].rule == rule)
                        continue;
                if (n == MAX_PIECE)
                        break;
                scan->rows[n++] = (Row){ .address = scan->address + at, .rule = rule };
        }
        for (uint32_t i = 0; i < n; i++)
                if (scan->rows[i].rule)
                        scan->n_bytes += (i + 1 < n ? scan->rows[i + 1].address : scan->address + at) -
                                scan->rows[i].address;
        scan->out = at;
        *functionp = (CfiFunction){ .start = scan->address + from, .end = scan->address + at,
                                    .rows = scan->rows, .n_rows = n };
        return 0;
}

/* Whether the code of @owner is that of @ancestor, or is behind a call of it. */
static bool comes_from(Scan *scan, uint32_t owner, uint32_t ancestor) {
        while (find_owner(scan, owner) != ancestor && scan->owners[owner].parent != owner)
                owner = scan->owners[owner].parent;
        return find_owner(scan, owner) == ancestor;
}

bool scan_returns(Scan *scan) {
        uint32_t first;

        if (!scan->size || scan->states[0].kind != BEGIN)
                return false;
        first = find_owner(scan, scan->states[0].owner);
        for (uint32_t i = 0; i < scan->n_owners; i++)
                if (scan->owners[find_owner(scan, i)].returns_as_called && is_trusted(scan, i) &&
                    comes_from(scan, i, first))
                        return true;
        return false;
}

const Layout *scan_layout(const Scan *scan) {
        return &scan->layout;
}

uint64_t scan_n_bytes(const Scan *scan) {
        return scan->n_bytes;
}

uint64_t scan_n_refused(const Scan *scan) {
        return scan->n_refused;
}
