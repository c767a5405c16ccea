/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Call Frame Instructions
 *
 * An example, as `readelf -wf` shows it. The CIE says that on entry the CFA is
 * rsp + 8 and the return address lies at CFA - 8; then, for `push %rbp; mov
 * %rsp,%rbp; ...; leave; ret`:
 *
 *      bytes       instruction                   row that it ends or changes
 *      41          advance_loc 1                 [start, start + 1): CFA = rsp + 8
 *      0e 10       def_cfa_offset 16             the push has moved rsp
 *      86 02       offset rbp at CFA - 16        2 times the data alignment of -8
 *      43          advance_loc 3                 [start + 1, start + 4): CFA = rsp + 16, rbp at CFA - 16
 *      0d 06       def_cfa_register rbp          from here rsp may move freely
 *
 * An instruction changes the current row; only `advance` writes it out. So a rule
 * is made once a row, and not once an instruction.
 */

#include "host/sampling/unwind/cfi/program.h"

#include "host/sampling/unwind/cfi/arch.h"

enum {
        OP_ADVANCE_LOC = 0x40,          /* with the next two: an operand in the low six bits */
        OP_OFFSET = 0x80,
        OP_RESTORE = 0xc0,
        OP_HIGH = 0xc0,
        OP_LOW = 0x3f,
        OP_NOP = 0x00,
        OP_SET_LOC = 0x01,
        OP_ADVANCE_LOC1 = 0x02,
        OP_ADVANCE_LOC2 = 0x03,
        OP_ADVANCE_LOC4 = 0x04,
        OP_OFFSET_EXTENDED = 0x05,
        OP_RESTORE_EXTENDED = 0x06,
        OP_UNDEFINED = 0x07,
        OP_SAME_VALUE = 0x08,
        OP_REGISTER = 0x09,
        OP_REMEMBER_STATE = 0x0a,
        OP_RESTORE_STATE = 0x0b,
        OP_DEF_CFA = 0x0c,
        OP_DEF_CFA_REGISTER = 0x0d,
        OP_DEF_CFA_OFFSET = 0x0e,
        OP_DEF_CFA_EXPRESSION = 0x0f,
        OP_EXPRESSION = 0x10,
        OP_OFFSET_EXTENDED_SF = 0x11,
        OP_DEF_CFA_SF = 0x12,
        OP_DEF_CFA_OFFSET_SF = 0x13,
        OP_VAL_OFFSET = 0x14,
        OP_VAL_OFFSET_SF = 0x15,
        OP_VAL_EXPRESSION = 0x16,
        OP_MIPS_ADVANCE_LOC8 = 0x1d,    /* in the vendors' range, but used by every processor */
        OP_GNU_ARGS_SIZE = 0x2e,
        OP_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
        EXPRESSION_BREG0 = 0x70,
        EXPRESSION_BREG31 = 0x8f,
};

typedef struct Program {
        const Cie *cie;
        const Encoded *where;
        Cursor *code;
        uint64_t pc, end;
        CfiState state;
        CfiState remembered[PROGRAM_MAX_NESTING];
        unsigned n_remembered;
        RowList *list;                  /* NULL in a CIE: there is no row to write */
        CfiCounts *counts;
        int problem;
} Program;

static void fail(Program *program, CfiProblem problem) {
        if (!program->problem)
                program->problem = (int)problem;
}

/* Writes the current row; one that starts where the last one did replaces it. */
static void emit(Program *program) {
        RowList *list = program->list;

        if (list->n > 0 && list->rows[list->n - 1].address == program->pc)
                list->n--;
        if (list->n == PROGRAM_MAX_ROWS) {
                fail(program, CFI_PROBLEM_ROWS);
                return;
        }
        list->rows[list->n++] = (Row){
                .address = program->pc,
                .rule = arch_rule(&program->state, program->cie->is_signal, program->counts),
        };
}

static void advance_to(Program *program, uint64_t pc) {
        if (pc == program->pc)
                return;
        if (!program->list || pc < program->pc || pc > program->end) {
                fail(program, CFI_PROBLEM_ADVANCE);
                return;
        }
        emit(program);
        program->pc = pc;
}

static void advance(Program *program, uint64_t delta) {
        uint64_t n;

        if (__builtin_mul_overflow(delta, program->cie->code_align, &n) || n > UINT64_MAX - program->pc)
                fail(program, CFI_PROBLEM_ADVANCE);
        else
                advance_to(program, program->pc + n);
}

/* Place for the rule of a register; NULL = a register that no walk needs. */
static Saved *saved_of(Program *program, uint64_t reg) {
        if (reg >= ARCH_N_REGISTERS || arch_slots[reg] < 0)
                return NULL;
        return &program->state.saved[arch_slots[reg]];
}

static void save(Program *program, uint64_t reg, SavedKind kind, int64_t offset) {
        Saved *saved = saved_of(program, reg);

        if (saved)
                *saved = (Saved){ .kind = (uint8_t)kind, .offset = offset };
}

static void save_in_register(Program *program, uint64_t reg, uint64_t other) {
        Saved *saved = saved_of(program, reg);

        if (saved)
                *saved = (Saved){ .kind = SAVED_IN_REGISTER,
                                  .reg = other < STATE_NO_REGISTER ? (uint8_t)other : STATE_NO_REGISTER };
}

/*
 * Factored offsets: a product that overflows belongs to no real frame, and becomes one that no rule can say.
 */
static int64_t factored(const Program *program, int64_t n) {
        int64_t offset;

        return __builtin_mul_overflow(n, program->cie->data_align, &offset) ? INT64_MAX : offset;
}

static int64_t unsigned_offset(Program *program) {
        uint64_t n = encoding_uleb(program->code);

        return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static void restore(Program *program, uint64_t reg) {
        Saved *saved = saved_of(program, reg);

        if (saved)
                *saved = program->cie->initial.saved[arch_slots[reg]];
}

static void set_cfa_register(Program *program, uint64_t reg) {
        if (reg == ARCH_LANDING_REGISTER && program->list)
                program->list->may_land = true;
        program->state.cfa_kind = CFA_REGISTER;
        program->state.cfa_reg = reg < STATE_NO_REGISTER ? (uint8_t)reg : STATE_NO_REGISTER;
}

static const uint8_t *take_block(Program *program, size_t *sizep) {
        uint64_t size = encoding_uleb(program->code);

        *sizep = (size_t)size;
        return cursor_take(program->code, (size_t)size);
}

/*
 * The register is in memory at a register + offset: the one pattern that compilers write (realigned frames).
 */
static void set_expression(Program *program, uint64_t reg) {
        Saved *saved = saved_of(program, reg);
        size_t size;
        const uint8_t *code = take_block(program, &size);
        Cursor cursor;
        uint8_t op;

        if (!saved || !code)
                return;
        cursor = cursor_make(code, size);
        op = cursor_u8(&cursor);
        *saved = (Saved){ .kind = SAVED_AT_REGISTER, .reg = (uint8_t)(op - EXPRESSION_BREG0) };
        saved->offset = encoding_sleb(&cursor);
        if (cursor.failed || cursor.at != size || op < EXPRESSION_BREG0 || op > EXPRESSION_BREG31)
                *saved = (Saved){ .kind = SAVED_OTHER };
}

static void set_cfa_expression(Program *program) {
        size_t size;
        const uint8_t *code = take_block(program, &size);

        if (code)
                arch_cfa_expression(&program->state, code, size);
}

static void remember(Program *program) {
        if (program->n_remembered == PROGRAM_MAX_NESTING)
                fail(program, CFI_PROBLEM_NESTING);
        else
                program->remembered[program->n_remembered++] = program->state;
}

static void recall(Program *program) {
        if (program->n_remembered == 0)
                fail(program, CFI_PROBLEM_NESTING);
        else
                program->state = program->remembered[--program->n_remembered];
}

/* Instructions that say where a row begins. */
static bool run_location(Program *program, uint8_t op) {
        switch (op) {
        case OP_SET_LOC:
                advance_to(program, encoding_pointer(program->code, program->cie->encoding, program->where));
                return true;
        case OP_ADVANCE_LOC1:
                advance(program, cursor_u8(program->code));
                return true;
        case OP_ADVANCE_LOC2:
                advance(program, cursor_u16(program->code));
                return true;
        case OP_ADVANCE_LOC4:
                advance(program, cursor_u32(program->code));
                return true;
        case OP_MIPS_ADVANCE_LOC8:
                advance(program, cursor_u64(program->code));
                return true;
        }
        return false;
}

/* Instructions that say where the CFA is. */
static bool run_cfa(Program *program, uint8_t op) {
        Cursor *code = program->code;

        switch (op) {
        case OP_DEF_CFA:
                set_cfa_register(program, encoding_uleb(code));
                program->state.cfa_offset = unsigned_offset(program);
                return true;
        case OP_DEF_CFA_SF:
                set_cfa_register(program, encoding_uleb(code));
                program->state.cfa_offset = factored(program, encoding_sleb(code));
                return true;
        case OP_DEF_CFA_REGISTER:
                set_cfa_register(program, encoding_uleb(code));
                return true;
        case OP_DEF_CFA_OFFSET:
                program->state.cfa_offset = unsigned_offset(program);
                return true;
        case OP_DEF_CFA_OFFSET_SF:
                program->state.cfa_offset = factored(program, encoding_sleb(code));
                return true;
        case OP_DEF_CFA_EXPRESSION:
                set_cfa_expression(program);
                return true;
        }
        return false;
}

/* Instructions about one register; the register is their first operand. */
static bool run_register(Program *program, uint8_t op) {
        Cursor *code = program->code;
        uint64_t reg = encoding_uleb(code);

        switch (op) {
        case OP_OFFSET_EXTENDED:
                save(program, reg, SAVED_AT_CFA, factored(program, unsigned_offset(program)));
                return true;
        case OP_OFFSET_EXTENDED_SF:
                save(program, reg, SAVED_AT_CFA, factored(program, encoding_sleb(code)));
                return true;
        case OP_GNU_NEGATIVE_OFFSET_EXTENDED:
                save(program, reg, SAVED_AT_CFA, factored(program, -unsigned_offset(program)));
                return true;
        case OP_RESTORE_EXTENDED:
                restore(program, reg);
                return true;
        case OP_UNDEFINED:
                save(program, reg, SAVED_UNDEFINED, 0);
                return true;
        case OP_SAME_VALUE:
                save(program, reg, SAVED_SAME, 0);
                return true;
        case OP_EXPRESSION:
                set_expression(program, reg);
                return true;
        case OP_REGISTER:
                save_in_register(program, reg, encoding_uleb(code));
                return true;
        case OP_VAL_OFFSET:
        case OP_VAL_OFFSET_SF:          /* as many bytes, whatever the sign */
                encoding_uleb(code);
                save(program, reg, SAVED_OTHER, 0);
                return true;
        case OP_VAL_EXPRESSION:
                cursor_take(code, encoding_uleb(code));
                save(program, reg, SAVED_OTHER, 0);
                return true;
        }
        return false;
}

static void run_extended(Program *program, uint8_t op) {
        if (op == OP_NOP || arch_is_note(op))
                return;
        if (op == OP_REMEMBER_STATE)
                remember(program);
        else if (op == OP_RESTORE_STATE)
                recall(program);
        else if (op == OP_GNU_ARGS_SIZE)
                encoding_uleb(program->code);
        else if (!run_location(program, op) && !run_cfa(program, op) && !run_register(program, op))
                fail(program, CFI_PROBLEM_OPCODE);
}

static void run_one(Program *program) {
        uint8_t op = cursor_u8(program->code);

        switch (op & OP_HIGH) {
        case OP_ADVANCE_LOC:
                advance(program, op & OP_LOW);
                break;
        case OP_OFFSET:
                save(program, op & OP_LOW, SAVED_AT_CFA, factored(program, unsigned_offset(program)));
                break;
        case OP_RESTORE:
                restore(program, op & OP_LOW);
                break;
        default:
                run_extended(program, op);
        }
}

/* Instructions at the function's very end describe nothing: pc == end stops the program. */
static void run(Program *program) {
        while (cursor_left(program->code) > 0 && !program->problem &&
               (!program->list || program->pc < program->end))
                run_one(program);
        if (program->code->failed)
                fail(program, CFI_PROBLEM_TRUNCATED);
}

int program_run_initial(Cie *cie, Cursor *code, const Encoded *where, CfiCounts *counts) {
        Program program = { .cie = cie, .where = where, .code = code, .counts = counts };

        run(&program);
        cie->initial = program.state;
        return program.problem;
}

int program_run(const Fde *fde, RowList *list, CfiCounts *counts) {
        Cursor code = cursor_make(fde->code, fde->code_size);
        Encoded where = { .address = fde->code_address, .function_base = fde->start };
        Program program;

        program.cie = fde->cie;
        program.where = &where;
        program.code = &code;
        program.pc = fde->start;
        program.end = fde->end;
        program.state = fde->cie->initial;
        program.n_remembered = 0;       /* the stack itself needs no clearing */
        program.list = list;
        program.counts = counts;
        program.problem = 0;
        list->n = 0;
        list->may_land = false;
        run(&program);
        if (!program.problem && program.pc < program.end)
                emit(&program);
        return program.problem;
}
