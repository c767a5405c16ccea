/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An instruction is: prefixes, opcode of one of four maps, ModRM, SIB, displacement, immediate value (Intel
 * SDM 2, chapter 2 and appendix A). VEX and EVEX name the map in their own prefix. What has no known length
 * is refused, and so is what may be something else on another processor.
 */
#include "host/sampling/unwind/scan/scan-arch.h"

#include <string.h>

#include "border/unwind_abi.h"

enum {
        RBX = 3, RSP = 4, RBP = 5, NO_REGISTER = 16,
        BH = 7,                         /* among registers of bytes, without REX */
        FORM_INVALID = 1, FORM_MODRM = 2, FORM_BYTE = 4, FORM_WORD = 8,        /* FORM_WORD: 4 bytes, or 2 */
        FORM_ADDRESS = 16,              /* 8 bytes */
        BASE_RIP = 17, BASE_NONE = 18,
};

typedef struct Work {
        const uint8_t *code;
        size_t size, at;
        uint64_t address;
        bool is_short;                  /* operands of 16 bits */
        bool has_rex, is_vex;
        uint8_t rex;                    /* W R X B as in a REX prefix */
        uint8_t vector;                 /* register of VEX.vvvv */
        uint8_t map, opcode;
        bool has_modrm, is_memory;
        uint8_t digit;                  /* ModRM's middle, as it is */
        uint8_t reg, rm;                /* numbers of registers */
        uint8_t base, index, scale;
        int64_t displacement, immediate;
} Work;

static bool take(Work *work, size_t size, int64_t *to) {
        uint64_t value = 0;

        if (size > work->size - work->at)
                return false;
        memcpy(&value, work->code + work->at, size);
        work->at += size;
        *to = size == 1 ? (int8_t)value : size == 2 ? (int16_t)value :
                size == 4 ? (int32_t)value : (int64_t)value;
        return true;
}

static bool take_byte(Work *work, uint8_t *to) {
        if (work->at >= work->size)
                return false;
        *to = work->code[work->at++];
        return true;
}

static bool take_vex(Work *work, uint8_t first) {
        uint8_t a, b = 0, c = 0;

        if (!take_byte(work, &a) || (first != 0xc5 && !take_byte(work, &b)) ||
            (first == 0x62 && !take_byte(work, &c)))
                return false;
        work->is_vex = true;
        work->has_rex = true;
        work->rex = (uint8_t)(~a >> 5 & 7);
        if (first == 0xc5) {
                work->rex = (uint8_t)(~a >> 5 & 4);
                work->map = 1;
                b = a;
        } else {
                work->map = a & (first == 0x62 ? 7 : 31);
                work->rex |= b >> 4 & 8;
        }
        work->vector = ~b >> 3 & 15;
        return work->map >= 1 && (work->map <= 3 || (first == 0x62 && (work->map == 5 || work->map == 6)));
}

static bool take_opcode(Work *work) {
        uint8_t byte;

        for (;;) {
                if (work->at > SCAN_MAX_SIZE || !take_byte(work, &byte))
                        return false;
                if (byte == 0x67)
                        return false;   /* addresses of 32 bits */
                if (byte == 0x66)
                        work->is_short = true;
                else if (byte != 0xf2 && byte != 0xf3 && byte != 0x2e && byte != 0x36 && byte != 0x3e &&
                        byte != 0x26 && byte != 0x64 &&
                         byte != 0x65 && byte != 0xf0)
                        break;
        }
        if (byte >= 0x40 && byte <= 0x4f) {
                work->has_rex = true;
                work->rex = byte & 15;
                if (!take_byte(work, &byte))
                        return false;
        }
        if (byte == 0xc4 || byte == 0xc5 || byte == 0x62)
                return !work->has_rex && take_vex(work, byte) && take_byte(work, &work->opcode);
        if (byte == 0x0f) {
                if (!take_byte(work, &byte))
                        return false;
                work->map = byte == 0x38 ? 2 : byte == 0x3a ? 3 : 1;
                if (work->map > 1 && !take_byte(work, &byte))
                        return false;
        }
        work->opcode = byte;
        return true;
}

static uint8_t find_form_first(uint8_t op, uint8_t digit) {
        if (op < 0x40) {
                static const uint8_t forms[8] = { FORM_MODRM, FORM_MODRM, FORM_MODRM, FORM_MODRM, FORM_BYTE,
                                                  FORM_WORD, FORM_INVALID, FORM_INVALID };

                return forms[op & 7];
        }
        switch (op) {
        case 0x60 ... 0x62: case 0x82: case 0x9a: case 0xce: case 0xd4 ... 0xd6: case 0xea: case 0xf1:
        case 0x67: case 0xca: case 0xcb: case 0xcf:
                return FORM_INVALID;
        case 0xa0 ... 0xa3:
                return FORM_ADDRESS;
        case 0x8f:
                return digit ? FORM_INVALID : FORM_MODRM;
        case 0x63: case 0x84 ... 0x8e: case 0xd0 ... 0xd3: case 0xd8 ... 0xdf: case 0xfe: case 0xff:
                return FORM_MODRM;
        case 0x69: case 0x81: case 0xc7:
                return FORM_MODRM | FORM_WORD;
        case 0x6b: case 0x80: case 0x83: case 0xc0: case 0xc1: case 0xc6:
                return FORM_MODRM | FORM_BYTE;
        case 0xf6:
                return FORM_MODRM | (digit < 2 ? FORM_BYTE : 0);
        case 0xf7:
                return FORM_MODRM | (digit < 2 ? FORM_WORD : 0);
        case 0x68: case 0xa9: case 0xb8 ... 0xbf:
                return FORM_WORD;
        case 0x6a: case 0x70 ... 0x7f: case 0xa8: case 0xb0 ... 0xb7: case 0xcd: case 0xe0 ... 0xe7:
        case 0xeb:
                return FORM_BYTE;
        case 0xe8: case 0xe9:
                return FORM_WORD;
        default:
                return 0;
        }
}

static uint8_t find_form_second(const Work *work) {
        switch (work->opcode) {
        case 0x04: case 0x0a: case 0x0c: case 0x0e: case 0x0f: case 0x24 ... 0x27: case 0x36:
        case 0x38 ... 0x3f:
        case 0xa6: case 0xa7:
                return FORM_INVALID;
        case 0x78: case 0x79: case 0x7a: case 0x7b:
                return work->is_vex ? FORM_MODRM : FORM_INVALID;
        case 0x05: case 0x06: case 0x07: case 0x08: case 0x09: case 0x0b: case 0x30 ... 0x35: case 0x37:
        case 0xa0 ... 0xa2: case 0xa8 ... 0xaa: case 0xc8 ... 0xcf:
                return 0;
        case 0x77:
                return 0;
        case 0x80 ... 0x8f:
                return FORM_WORD;
        case 0x70 ... 0x73: case 0xa4: case 0xac: case 0xba: case 0xc2: case 0xc4: case 0xc5: case 0xc6:
                return FORM_MODRM | FORM_BYTE;
        default:
                return FORM_MODRM;
        }
}

static uint8_t find_form(const Work *work) {
        uint8_t digit = work->at < work->size ? work->code[work->at] >> 3 & 7 : 0;

        switch (work->map) {
        case 0:
                return find_form_first(work->opcode, digit);
        case 1:
                if (work->is_vex && work->opcode >= 0x80 && work->opcode <= 0x8f)
                        return FORM_INVALID;    /* opmask jumps do not exist */
                if (work->is_vex && work->opcode >= 0x90 && work->opcode <= 0x9f)
                        return FORM_MODRM;
                return find_form_second(work);
        case 3:
                return FORM_MODRM | FORM_BYTE;
        default:
                return FORM_MODRM;
        }
}

static bool take_memory(Work *work, uint8_t mod, uint8_t rm) {
        uint8_t sib = 0;
        int64_t none;

        work->is_memory = true;
        work->base = (uint8_t)(rm | (work->rex & 1) << 3);
        work->index = NO_REGISTER;
        if (rm == RSP) {
                if (!take_byte(work, &sib))
                        return false;
                work->base = (uint8_t)((sib & 7) | (work->rex & 1) << 3);
                work->index = (uint8_t)((sib >> 3 & 7) | (work->rex & 2) << 2);
                work->scale = sib >> 6;
                if (work->index == RSP)
                        work->index = NO_REGISTER;
                if ((sib & 7) == RBP && mod == 0)
                        work->base = BASE_NONE;
        } else if (rm == RBP && mod == 0) {
                work->base = BASE_RIP;
        }
        if (mod == 1)
                return take(work, 1, &work->displacement);
        if (mod == 2 || work->base == BASE_NONE || work->base == BASE_RIP)
                return take(work, 4, &work->displacement);
        return take(work, 0, &none);
}

static bool take_modrm(Work *work) {
        uint8_t byte;

        if (!take_byte(work, &byte))
                return false;
        work->has_modrm = true;
        work->digit = byte >> 3 & 7;
        work->reg = (uint8_t)(work->digit | (work->rex & 4) << 1);
        work->rm = (uint8_t)((byte & 7) | (work->rex & 1) << 3);
        return byte >> 6 == 3 || take_memory(work, byte >> 6, byte & 7);
}

static bool take_immediate(Work *work, uint8_t form) {
        bool is_near = work->map == 0 ? work->opcode == 0xe8 || work->opcode == 0xe9
                                      : (work->opcode & 0xf0) == 0x80;
        size_t size = work->is_short && !is_near ? 2 : 4;

        if (work->map == 0 && work->opcode >= 0xb8 && work->opcode <= 0xbf && work->rex & 8)
                size = 8;
        if (work->map == 0 && work->rex & 8 && size == 2)
                size = 4;
        if (work->map == 0 && work->opcode == 0xc2)
                return take(work, 2, &work->immediate);
        if (work->map == 0 && work->opcode == 0xc8)
                return take(work, 2, &work->immediate) && take(work, 1, &work->displacement);
        if (form & FORM_ADDRESS)
                return take(work, 8, &work->immediate);
        if (form & FORM_BYTE)
                return take(work, 1, &work->immediate);
        return !(form & FORM_WORD) || take(work, size, &work->immediate);
}

/* Whether ModRM's register (or else its other operand) is a general one that is written. */
static bool writes_reg(const Work *work) {
        uint8_t op = work->opcode;

        if (work->map == 0)
                return (op < 0x38 && (op & 6) == 2) || op == 0x63 || op == 0x69 || op == 0x6b || op == 0x8a ||
                        op == 0x8b || op == 0x8d || op == 0x86 || op == 0x87;
        if (work->map == 1 && !work->is_vex)
                return (op >= 0x40 && op <= 0x4f) || op == 0xaf || (op >= 0xb6 && op <= 0xb8) ||
                        (op >= 0xbc && op <= 0xbf) || op == 0x02 || op == 0x03 || op == 0xc0 || op == 0xc1 ||
                        op == 0x2c || op == 0x2d || op == 0x50 || op == 0xd7 || op == 0xc5;
        if (work->map == 1)
                return op == 0x2c || op == 0x2d || op == 0x50 || op == 0xd7 || op == 0xc5 || op == 0x93 ||
                        op == 0x78 || op == 0x79;
        if (work->map == 2)
                return op == 0xf0 || op == 0xf1 || op == 0xf2 || (op >= 0xf5 && op <= 0xf9);
        return work->map == 3 && op == 0xf0;
}

static bool writes_rm(const Work *work) {
        uint8_t op = work->opcode;

        if (work->map == 0)
                return (op < 0x38 && (op & 6) == 0) || (op >= 0x80 && op <= 0x83 && work->digit != 7) ||
                        op == 0x86 || op == 0x87 || op == 0x88 || op == 0x89 || op == 0x8c || op == 0x8f ||
                        op == 0xc0 || op == 0xc1 || op == 0xc6 || op == 0xc7 || (op >= 0xd0 && op <= 0xd3) ||
                        ((op == 0xf6 || op == 0xf7) && (work->digit == 2 || work->digit == 3)) ||
                        ((op == 0xfe || op == 0xff) && work->digit < 2);
        if (work->map == 1)
                return !work->is_vex ? (op >= 0x90 && op <= 0x9f) || op == 0x00 || op == 0x01 || op == 0x20 ||
                                op == 0x21 || op == 0x7e || op == 0xa4 || op == 0xa5 || op == 0xab ||
                                op == 0xac || op == 0xad || op == 0xae || op == 0xb0 || op == 0xb1 ||
                                op == 0xb3 || op == 0xba || op == 0xbb || op == 0xc0 || op == 0xc1 ||
                                        op == 0xc7
                                     : op == 0x7e;
        return work->map == 3 && op >= 0x14 && op <= 0x17;
}

/* Without REX, the numbers of rsp and rbp mean ah and ch there. */
static bool is_of_bytes(const Work *work) {
        uint8_t op = work->opcode;

        if (work->has_rex || work->map > 1)
                return false;
        if (work->map)
                return (op >= 0x90 && op <= 0x9f) || op == 0xb0 || op == 0xc0;
        return (op < 0x40 && (op & 5) == 0) || op == 0x80 || op == 0x86 || op == 0x88 || op == 0x8a ||
                (op >= 0xb0 && op <= 0xb7) || op == 0xc0 || op == 0xc6 || op == 0xd0 || op == 0xd2 ||
                op == 0xf6 || op == 0xfe;
}

/* Whether the instruction may write @reg, one of rsp and rbp. */
static bool writes(const Work *work, uint8_t reg) {
        uint8_t op = work->opcode;

        if (is_of_bytes(work))
                return false;
        if (work->map == 0 && !work->has_modrm) {
                uint8_t low = (uint8_t)((op & 7) | (work->rex & 1) << 3);

                return ((op >= 0x91 && op <= 0x97) || (op >= 0xb8 && op <= 0xbf) || (op == 0x90 && low)) &&
                        low == reg;
        }
        if (work->map == 1 && op >= 0xc8 && op <= 0xcf)
                return ((op & 7) | (work->rex & 1) << 3) == reg;
        if (!work->has_modrm)
                return false;
        if (work->is_vex && work->map == 2 && op == 0xf3)
                return work->vector == reg;
        if (work->is_vex && work->map == 2 && op == 0xf6 && work->vector == reg)
                return true;
        return (writes_reg(work) && work->reg == reg) ||
                (writes_rm(work) && !work->is_memory && work->rm == reg);
}

/* Whether it may write rbx, or a byte of it. */
static bool writes_base(const Work *work) {
        uint8_t op = work->opcode, low = op & 7;

        if (work->map == 1 && !work->is_vex && op == 0xa2)
                return true;            /* cpuid */
        if (!is_of_bytes(work))
                return writes(work, RBX);
        if (!work->has_modrm)
                return low == RBX || low == BH;
        return (writes_reg(work) && (work->reg == RBX || work->reg == BH)) ||
                (writes_rm(work) && !work->is_memory && (work->rm == RBX || work->rm == BH));
}

static ScanRegister name(uint8_t reg) {
        return reg == RBP ? SCAN_FRAME : reg == RBX ? SCAN_BASE : SCAN_OTHER;
}

static void effect(ScanInstruction *to, ScanEffect what, int64_t value) {
        to->effect = what;
        to->value = value;
}

static void explain_stack(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode;

        to->effect = SCAN_LOSE_STACK;
        if (work->map || !(work->rex & 8) || work->is_short)
                return;
        if ((op == 0x81 || op == 0x83) && !work->is_memory && work->digit == 0)
                effect(to, SCAN_ADD, work->immediate);
        else if ((op == 0x81 || op == 0x83) && !work->is_memory && work->digit == 5)
                effect(to, SCAN_ADD, -work->immediate);
        else if (op == 0x8d && work->base == RSP && work->index == NO_REGISTER)
                effect(to, SCAN_ADD, work->displacement);
        else if (op == 0x8d && work->base == RBP && work->index == NO_REGISTER)
                effect(to, SCAN_FROM_FRAME, work->displacement);
        else if ((op == 0x89 && !work->is_memory && work->reg == RBP) ||
                 (op == 0x8b && !work->is_memory && work->rm == RBP))
                effect(to, SCAN_FROM_FRAME, 0);
        else if (op == 0x8d && work->base == RBX && work->index == NO_REGISTER)
                effect(to, SCAN_FROM_BASE, work->displacement);
        else if ((op == 0x89 && !work->is_memory && work->reg == RBX) ||
                 (op == 0x8b && !work->is_memory && work->rm == RBX))
                effect(to, SCAN_FROM_BASE, 0);
}

static void explain_frame(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode;

        to->effect = SCAN_LOSE_FRAME;
        if (!work->map && (op == 0x31 || op == 0x33) && !work->is_memory && work->reg == work->rm)
                to->effect = SCAN_TOP;
        if (work->map || !(work->rex & 8) || work->is_short)
                return;
        if ((op == 0x89 && !work->is_memory && work->reg == RSP) ||
            (op == 0x8b && !work->is_memory && work->rm == RSP))
                effect(to, SCAN_SET_FRAME, 0);
        else if (op == 0x8d && work->base == RSP && work->index == NO_REGISTER)
                effect(to, SCAN_SET_FRAME, work->displacement);
}

/* OpenBLAS' kernels put the stack pointer by in rbx before they align it. */
static void explain_base(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode;

        to->effect = SCAN_LOSE_BASE;
        if (work->map || !(work->rex & 8) || work->is_short)
                return;
        if ((op == 0x89 && !work->is_memory && work->reg == RSP) ||
            (op == 0x8b && !work->is_memory && work->rm == RSP))
                effect(to, SCAN_SET_BASE, 0);
        else if (op == 0x8d && work->base == RSP && work->index == NO_REGISTER)
                effect(to, SCAN_SET_BASE, work->displacement);
}

static bool is_stack_slot(const Work *work) {
        return !work->map && work->rex & 8 && !work->is_short && work->is_memory && work->base == RSP &&
                work->index == NO_REGISTER && (work->reg == RBP || work->reg == RBX);
}

/* Pushes, pops, calls, returns: what moves the stack pointer by itself. Return: whether it is one. */
static bool explain_implied(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode, low = (uint8_t)((op & 7) | (work->rex & 1) << 3);

        if (work->map == 1 && !work->is_vex && (op == 0xa0 || op == 0xa8)) {
                to->effect = SCAN_PUSH;
                return true;
        }
        if (work->map == 1 && !work->is_vex && (op == 0xa1 || op == 0xa9)) {
                to->effect = SCAN_POP;
                return true;
        }
        if (work->map)
                return false;
        if (op >= 0x50 && op <= 0x57) {
                to->effect = SCAN_PUSH;
                to->reg = name(low);
        } else if (op >= 0x58 && op <= 0x5f) {
                to->effect = low == RSP ? SCAN_LOSE_STACK : SCAN_POP;
                to->reg = name(low);
        } else if (op == 0x68 || op == 0x6a || op == 0x9c || (op == 0xff && work->digit == 6)) {
                to->effect = SCAN_PUSH;
        } else if (op == 0x9d || (op == 0x8f && (work->is_memory || work->rm != RSP))) {
                to->effect = SCAN_POP;
                to->reg = op == 0x8f && !work->is_memory ? name(work->rm) : SCAN_OTHER;
        } else if (op == 0xc9) {
                to->effect = SCAN_LEAVE;
        } else if (op == 0xc8) {
                to->effect = SCAN_LOSE_STACK;
        } else {
                return false;
        }
        if (work->is_short)
                to->effect = SCAN_LOSE_STACK;
        return true;
}

static void explain_table(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode;

        if (work->map)
                return;
        if (((op == 0x81 || op == 0x83) && work->digit == 7) || op == 0x3d || op == 0x3c ||
            (op == 0x80 && work->digit == 7)) {
                to->table = SCAN_COMPARE;
                to->value = op == 0x3c || op == 0x80 ? (uint8_t)work->immediate : work->immediate;
        } else if (op == 0x8d && work->base == BASE_RIP && work->is_memory) {
                to->table = SCAN_ADDRESS;
                to->target = work->address + work->at + (uint64_t)work->displacement;
        } else if (op == 0x63 && work->is_memory && work->index != NO_REGISTER && work->scale == 2 &&
                   work->displacement == 0 && work->base != BASE_NONE) {
                to->table = SCAN_ENTRY;
        }
}

/* Only of those instructions that compilers put between the load of an address and its use. */
static uint8_t find_written(const Work *work) {
        uint8_t op = work->opcode;

        if (work->map)
                return SCAN_MANY;
        if ((op >= 0x50 && op <= 0x57) || (op == 0xff && work->digit == 4))
                return 0;
        if (op >= 0x58 && op <= 0x5f)
                return (uint8_t)((op & 7) | (work->rex & 1) << 3) + 1;
        if (op == 0x8b || op == 0x8d || op == 0x63)
                return work->reg + 1;
        if (op == 0x89 || op == 0x83 || op == 0x81)
                return work->is_memory ? 0 : work->rm + 1;
        return SCAN_MANY;
}

static bool explain_branch(const Work *work, ScanInstruction *to) {
        uint64_t target = work->address + work->at + (uint64_t)work->immediate;
        uint8_t op = work->opcode, condition = op & 15;

        if ((!work->map && op >= 0x70 && op <= 0x7f) || (work->map == 1 && op >= 0x80 && op <= 0x8f)) {
                to->flow = SCAN_BRANCH;
                to->table = condition == 7 ? SCAN_UP_TO : condition == 6 ? SCAN_ABOVE : SCAN_NO_TABLE;
        } else if (!work->map && op >= 0xe0 && op <= 0xe3) {
                to->flow = SCAN_BRANCH;
        } else if (!work->map && (op == 0xe9 || op == 0xeb)) {
                to->flow = SCAN_JUMP;
        } else if (!work->map && op == 0xe8) {
                to->flow = SCAN_CALL;
        } else {
                return false;
        }
        to->target = target;
        return !work->is_short || work->rex & 8;
}

static bool explain_flow(const Work *work, ScanInstruction *to) {
        uint8_t op = work->opcode;

        if (explain_branch(work, to))
                return true;
        if (to->flow)
                return false;           /* a branch with an operand prefix: processors differ */
        if (work->map == 1 && !work->is_vex && op == 0x0b)
                to->flow = SCAN_STOP;
        if (work->map)
                return true;
        if (op == 0xc3)
                to->flow = SCAN_RETURN;
        else if (op == 0xf4 || op == 0xcc)
                to->flow = SCAN_STOP;
        else if (op == 0xc2 || (op == 0xff && (work->digit == 3 || work->digit == 5 || work->digit == 7)))
                return false;
        else if (op == 0xff && work->digit == 2)
                to->flow = SCAN_CALL;
        else if (op == 0xff && work->digit == 4)
                to->flow = SCAN_INDIRECT;
        if (to->flow == SCAN_INDIRECT && !work->is_memory)
                to->used = work->rm + 1;
        if (to->flow == SCAN_INDIRECT && work->is_memory && work->base == BASE_NONE &&
            work->index != NO_REGISTER && work->scale == 3) {
                to->table = SCAN_ABSOLUTE;
                to->target = (uint64_t)work->displacement;
        }
        return true;
}

bool scan_decode(const uint8_t *code, size_t size, uint64_t address, ScanInstruction *to) {
        Work work = { .code = code, .size = size < SCAN_MAX_SIZE ? size : SCAN_MAX_SIZE, .address = address,
                      .base = BASE_NONE, .index = NO_REGISTER };
        uint8_t form;

        *to = (ScanInstruction){ 0 };
        if (!take_opcode(&work))
                return false;
        form = find_form(&work);
        if (form & FORM_INVALID || (form & FORM_MODRM && !take_modrm(&work)) || !take_immediate(&work, form))
                return false;
        to->size = (uint8_t)work.at;
        to->written = find_written(&work);
        if (!explain_flow(&work, to))
                return false;
        if (to->flow != SCAN_NEXT || explain_implied(&work, to))
                return true;
        if (work.map == 1 && !work.is_vex && work.opcode == 0x05) {
                to->effect = SCAN_KERNEL;
                return true;
        }
        explain_table(&work, to);
        if (writes(&work, RSP)) {
                explain_stack(&work, to);
        } else if (is_stack_slot(&work) && (work.opcode == 0x89 || work.opcode == 0x8b)) {
                effect(to, work.opcode == 0x89 ? SCAN_STORE : SCAN_LOAD, work.displacement);
                to->reg = name(work.reg);
        } else if (writes(&work, RBP)) {
                explain_frame(&work, to);
        } else if (writes_base(&work)) {
                explain_base(&work, to);
        }
        return true;
}

bool scan_arch_is_known(void) {
        return true;
}

/* As glibc's _start: `lea main(%rip),%rdi` or `mov $main,%rdi`, and the call of __libc_start_main(). */
uint64_t scan_main(const uint8_t *code, size_t size, uint64_t address) {
        static const uint8_t lea[] = { 0x48, 0x8d, 0x3d }, mov[] = { 0x48, 0xc7, 0xc7 };
        uint64_t function = 0;
        ScanInstruction now;

        for (size_t at = 0; scan_decode(code + at, size - at, address + at, &now); at += now.size) {
                int32_t number;

                if (now.flow != SCAN_NEXT)
                        return now.flow == SCAN_CALL ? function : 0;
                function = 0;
                if (now.size != sizeof(lea) + sizeof(number))
                        continue;
                memcpy(&number, code + at + sizeof(lea), sizeof(number));
                if (!memcmp(code + at, lea, sizeof(lea)))
                        function = address + at + now.size + (uint64_t)(int64_t)number;
                else if (!memcmp(code + at, mov, sizeof(mov)))
                        function = (uint64_t)(int64_t)number;
        }
        return 0;
}

bool scan_is_restorer(const uint8_t *code) {
        static const uint8_t restorer[SCAN_RESTORER] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };

        return !memcmp(code, restorer, sizeof(restorer));
}

uint64_t scan_rule(int32_t depth, int32_t frame, int32_t base, int32_t rbp, int32_t rbx) {
        bool is_rbp_far = rbp == SCAN_LOST || rbp > INT16_MAX, is_rbx_far = rbx < 0 ||
                rbx > 8 * UNWIND_RBX_MAX;

        return unwind_rule(depth           ? UNWIND_CFA_RSP
                                   : frame ? UNWIND_CFA_RBP
                                           : UNWIND_CFA_RBX,
                           depth           ? depth
                                   : frame ? frame
                                           : base,
                           is_rbp_far ? UNWIND_RBP_LOST : rbp ? UNWIND_RBP_AT_CFA : UNWIND_RBP_SAME,
                           (int16_t)(is_rbp_far ? 0 : -rbp),
                           is_rbx_far || rbx % 8 ? UNWIND_RBX_LOST : (uint32_t)rbx / 8);
}

uint64_t scan_rule_top(void) {
        return unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0);
}
