/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads how PHP's own code goes from its globals to the innermost function. Registers have a meaning each,
 * and loads lead from one to the next; a jump takes the meanings along to where it leads.
 *
 *     lea   executor_globals(%rip),%rdx      rdx: globals; a library: mov slot(%rip),%rdx
 *     mov   0x1e8(%rdx),%rax                 rax: what lies at 0x1e8 there
 *     mov   0x18(%rax),%rdx                  rdx: a function, so rax is a frame, and current = 0x1e8
 *     cmpb  $1,(%rdx)                        … of C? then
 *     mov   0x30(%rax),%rax                  rax: the frame before
 *     mov   0x98(%rdx),%rax; ret             file = 0x98
 *
 * An instruction that is not known, a field of a frame in another place, or two answers end it: the layout is
 * another one than is read here.
 */
#include "host/runtime/php/php-program.h"

#include <string.h>

#include "core/base/util/macro.h"

enum {
        N_REGISTERS = 16,
        N_JUMPS = 32,
        NO_REGISTER = 0xff,
        REX_W = 8, REX_R = 4, REX_B = 1,
        COMPARE = 7,                    /* with 80 … 83 */
        TEST = 0,                       /* with f6; others have no immediate value */
};

typedef enum Meaning {
        NOTHING = 0,
        GLOBALS,
        IN_GLOBALS,                     /* the word at `offset` of the globals */
        FRAME,
        FUNCTION,
        IN_FUNCTION,                    /* the word at `offset` of a function */
} Meaning;

typedef struct Value {
        uint32_t offset;
        uint8_t meaning;
} Value;

typedef struct State {
        Value registers[N_REGISTERS];
} State;

typedef struct Jump {
        size_t to;
        State state;
} Jump;

typedef struct Instruction {
        size_t size;
        uint8_t rex, op;
        bool is_long, is_memory, is_relative;   /* op behind 0f; its operand; counted from the next one */
        uint8_t reg, base;              /* NO_REGISTER = with an index, or none */
        int32_t displacement;
        int64_t immediate;
} Instruction;

typedef struct Decoder {
        const uint8_t *code;
        size_t size;
        uint64_t at, globals;
        State state;
        bool is_reached;                /* the state counts: what is before does not end in a jump */
        Jump jumps[N_JUMPS];
        size_t n_jumps;
        PhpLayout *layout;
        uint32_t current;               /* 0 = not met */
        uint32_t result;                /* offset of the word of a function that is gone on with; 0 = none */
        bool has_previous;
} Decoder;

static bool read_number(const Decoder *decoder, size_t *atp, size_t n, int64_t *valuep) {
        int32_t word = 0;
        int64_t value = 0;

        if (n > decoder->size - *atp)
                return false;
        if (n == 8)
                memcpy(&value, decoder->code + *atp, 8);
        else {
                memcpy(&word, decoder->code + *atp, n);
                value = n == 1 ? (int8_t)word : word;
        }
        *atp += n;
        *valuep = value;
        return true;
}

/* The operand of an instruction: ModRM, SIB, displacement. */
static bool take_operand(const Decoder *decoder, size_t *atp, Instruction *to) {
        int64_t byte, displacement = 0;
        unsigned mod, low;

        if (!read_number(decoder, atp, 1, &byte))
                return false;
        mod = (unsigned)byte >> 6 & 3;
        low = (unsigned)byte & 7;
        to->reg = (uint8_t)(((unsigned)byte >> 3 & 7) | (to->rex & REX_R ? 8 : 0));
        to->base = (uint8_t)(low | (to->rex & REX_B ? 8 : 0));
        to->is_memory = mod != 3;
        to->is_relative = !mod && low == 5;
        if (to->is_memory && low == 4) {
                if (!read_number(decoder, atp, 1, &byte))
                        return false;
                to->base = (byte & 0x38) != 0x20 || (!mod && (byte & 7) == 5)
                        ? NO_REGISTER
                        : (uint8_t)((byte & 7) | (to->rex & REX_B ? 8 : 0));
                if (!mod && (byte & 7) == 5)
                        mod = 2;
        }
        if (to->is_relative || mod == 2 ? !read_number(decoder, atp, 4, &displacement)
                                        : mod == 1 && !read_number(decoder, atp, 1, &displacement))
                return false;
        to->displacement = (int32_t)displacement;
        return true;
}

/* Bytes of the immediate value of an instruction with an operand; -1 = the instruction is not known. */
static int immediate_of(const Instruction *instruction) {
        static const uint8_t plain[] = { 0x01, 0x03, 0x09, 0x0b, 0x21, 0x23, 0x29, 0x2b, 0x31, 0x33,
                                         0x38, 0x39, 0x3a, 0x3b, 0x63, 0x84, 0x85, 0x89, 0x8b, 0x8d };

        if (instruction->is_long)
                return instruction->op == 0x1e || instruction->op == 0x1f || instruction->op == 0xb6 ||
                                instruction->op == 0xb7 || (instruction->op & 0xf0) == 0x40
                        ? 0
                        : -1;
        switch (instruction->op) {
        case 0x80:
        case 0x83:
        case 0xc6:
        case 0xf6:
                return 1;
        case 0x81:
        case 0xc7:
                return 4;
        default:
                return memchr(plain, instruction->op, sizeof(plain)) ? 0 : -1;
        }
}

/* Return: whether it is a known instruction without an operand; *np: bytes of its immediate value. */
static bool is_simple(const Instruction *instruction, size_t *np) {
        uint8_t op = instruction->op;

        *np = 0;
        if (instruction->is_long) {
                *np = 4;
                return (op & 0xf0) == 0x80;     /* a jump on a condition */
        }
        if ((op & 0xf0) == 0x70 || op == 0xeb)
                *np = 1;
        else if (op == 0xe8 || op == 0xe9)
                *np = 4;
        else if ((op & 0xf8) == 0xb8)
                *np = instruction->rex & REX_W ? 8 : 4;
        else if (op != 0x90 && op != 0xc3 && (op & 0xf0) != 0x50)
                return false;
        return true;
}

static bool read_instruction(const Decoder *decoder, size_t at, Instruction *to) {
        size_t begin = at, n;
        int immediate;

        *to = (Instruction){ .base = NO_REGISTER, .reg = NO_REGISTER };
        while (at < decoder->size &&
               (decoder->code[at] == 0x66 || decoder->code[at] == 0x2e || decoder->code[at] == 0xf3))
                at++;
        if (at < decoder->size && (decoder->code[at] & 0xf0) == 0x40)
                to->rex = decoder->code[at++];
        if (at < decoder->size && decoder->code[at] == 0x0f) {
                to->is_long = true;
                at++;
        }
        if (at >= decoder->size)
                return false;
        to->op = decoder->code[at++];
        if (is_simple(to, &n)) {
                if (n && !read_number(decoder, &at, n, &to->immediate))
                        return false;
                if (!to->is_long && (to->op & 0xf8) == 0xb8)
                        to->reg = (uint8_t)((to->op & 7) | (to->rex & REX_B ? 8 : 0));
        } else {
                immediate = immediate_of(to);
                if (immediate < 0 || !take_operand(decoder, &at, to) ||
                    (to->op == 0xf6 && (to->reg & 7) != TEST) ||
                    (immediate && !read_number(decoder, &at, (size_t)immediate, &to->immediate)))
                        return false;
        }
        to->size = at - begin;
        return true;
}

/* ---- meanings ---- */

/* A word is loaded from @offset of what @from means. Return: false = that is another layout. */
static bool load(Decoder *decoder, Value *from, int32_t offset, Value *to) {
        Value value = { .offset = (uint32_t)offset };

        switch (from->meaning) {
        case GLOBALS:
                value.meaning = offset > 0 ? IN_GLOBALS : NOTHING;
                break;
        case IN_GLOBALS:
                if (offset != PHP_FRAME_FUNCTION * 8)
                        break;
                if (decoder->current && decoder->current != from->offset)
                        return false;
                decoder->current = from->offset;
                from->meaning = FRAME;
                value.meaning = FUNCTION;
                break;
        case FRAME:
                if (offset == PHP_FRAME_FUNCTION * 8)
                        value.meaning = FUNCTION;
                else if (offset == PHP_FRAME_PREVIOUS * 8) {
                        value.meaning = FRAME;
                        decoder->has_previous = true;
                } else if (offset != PHP_FRAME_OPLINE) {
                        return false;
                }
                break;
        case FUNCTION:
                if (offset <= 0 || offset > PHP_MAX_OFFSET || offset % 8 ||
                    (decoder->result && decoder->result != (uint32_t)offset))
                        return false;
                decoder->result = (uint32_t)offset;
                value.meaning = IN_FUNCTION;
                break;
        default:
                break;
        }
        *to = value;
        return true;
}

static bool apply_move(Decoder *decoder, const Instruction *instruction, uint64_t next) {
        Value *to = &decoder->state.registers[instruction->reg];
        uint64_t target = next + (uint64_t)(int64_t)instruction->displacement;
        Value globals = { .meaning = GLOBALS };

        if (!instruction->is_memory) {
                *to = decoder->state.registers[instruction->base];
                return true;
        }
        if (instruction->op == 0x8d) {
                *to = (Value){ .meaning = instruction->is_relative && target == decoder->globals ? GLOBALS
                                                                                                 : NOTHING };
                return true;
        }
        if (instruction->is_relative && decoder->layout->slot && target == decoder->layout->slot) {
                *to = globals;
                return true;
        }
        /* globals of 16 KiB at most */
        if (instruction->is_relative && target - decoder->globals < 1 << 14)
                return load(decoder, &globals, (int32_t)(target - decoder->globals), to);
        if (instruction->is_relative || instruction->base == NO_REGISTER || !(instruction->rex & REX_W)) {
                *to = (Value){ 0 };
                return true;
        }
        return load(decoder, &decoder->state.registers[instruction->base], instruction->displacement, to);
}

/* A jump to @to, which takes the state along. */
static bool apply_jump(Decoder *decoder, size_t from, size_t to) {
        if (to <= from)
                return true;
        if (to >= decoder->size || decoder->n_jumps >= N_JUMPS)
                return to >= decoder->size;
        decoder->jumps[decoder->n_jumps++] = (Jump){ to, decoder->state };
        return true;
}

/* Whether it leaves the register of its operand's first half alone: stores, comparisons, nops. */
static bool keeps_register(const Instruction *instruction) {
        static const uint8_t those[] = { 0x01, 0x09, 0x21, 0x29, 0x31, 0x38, 0x39, 0x3a, 0x3b, 0x80,
                                         0x81, 0x83, 0x84, 0x85, 0x89, 0xc6, 0xc7, 0xf6 };

        if (instruction->is_long)
                return instruction->op == 0x1e || instruction->op == 0x1f;
        return memchr(those, instruction->op, sizeof(those));
}

/* Whether its operand's second half is a register that it changes. */
static bool changes_base(const Instruction *instruction) {
        static const uint8_t those[] = { 0x01, 0x09, 0x21, 0x29, 0x31, 0x80, 0x81, 0x83, 0x89, 0xc6, 0xc7 };

        if ((instruction->op & 0xfc) == 0x80 && (instruction->reg & 7) == COMPARE)
                return false;
        return !instruction->is_long && !instruction->is_memory && instruction->base != NO_REGISTER &&
                memchr(those, instruction->op, sizeof(those));
}

/* Return: whether its meaning is known, or does not matter. */
static bool apply(Decoder *decoder, const Instruction *instruction, size_t next) {
        uint8_t op = instruction->op;
        bool is_jump = instruction->is_long ? (op & 0xf0) == 0x80
                                            : (op & 0xf0) == 0x70 || op == 0xeb || op == 0xe9;

        if (is_jump) {
                decoder->is_reached = instruction->is_long || (op & 0xf0) == 0x70;
                return apply_jump(decoder, next, next + (size_t)instruction->immediate);
        }
        if (!instruction->is_long && op == 0xc3) {
                decoder->is_reached = false;
                return true;
        }
        if (!instruction->is_long && (op == 0x8b || op == 0x8d))
                return apply_move(decoder, instruction, decoder->at + next);
        if (op == 0xe8 && !instruction->is_long)
                decoder->state = (State){ 0 };
        else if (instruction->reg != NO_REGISTER && !keeps_register(instruction))
                decoder->state.registers[instruction->reg] = (Value){ 0 };
        if (changes_base(instruction))
                decoder->state.registers[instruction->base] =
                        op == 0x89 ? decoder->state.registers[instruction->reg] : (Value){ 0 };
        return true;
}

/* Meanings at @at are those of the first jump there, where nothing falls into it. */
static void enter(Decoder *decoder, size_t at) {
        for (size_t i = 0; i < decoder->n_jumps && !decoder->is_reached; i++)
                if (decoder->jumps[i].to == at) {
                        decoder->state = decoder->jumps[i].state;
                        decoder->is_reached = true;
                }
}

bool php_layout_decode(const uint8_t *code, size_t size, uint64_t at, uint64_t globals, PhpLayout *layout) {
        Decoder decoder = { .code = code, .size = size, .at = at, .globals = globals, .layout = layout,
                            .is_reached = true };
        Instruction instruction;

        for (size_t i = 0; i < size; i += instruction.size) {
                enter(&decoder, i);
                if (!read_instruction(&decoder, i, &instruction) ||
                    (decoder.is_reached && !apply(&decoder, &instruction, i + instruction.size)))
                        return false;
        }
        if (!decoder.current || !decoder.has_previous ||
            (layout->current && layout->current != decoder.current))
                return false;
        layout->current = decoder.current;
        if (!layout->file) {
                layout->file = (uint16_t)decoder.result;
                return layout->file;
        }
        layout->ops = (uint16_t)decoder.result;
        return true;
}
