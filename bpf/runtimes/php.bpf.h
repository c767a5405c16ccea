/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * PHP
 *
 * PHP runs its functions in execute_ex(), one run of it for all functions that call each other without C
 * between them. Its frames are a chain, from the innermost one on, in which the outermost frame of each run
 * is marked (TOP):
 *
 *     current ─▶ callback [TOP] ─▶ array_map ─▶ mid ─▶ top ─▶ main [TOP] ─▶ NULL
 *
 *     native   execute_ex()        zif_array_map    execute_ex()             main()
 *
 * So the chain is joined with the native stack as Python's are (python.bpf.h): frames up to a mark take the
 * place of one native frame of the evaluator, which is known by its code. C functions of PHP have frames in
 * both: their code, and behind it their name.
 *
 * Runs and native frames of the evaluator are counted. While a run begins or ends, one more of either is
 * there; then the walk is made again without that one (python_again()), so that no frame gets another one's
 * place.
 *
 * A fiber has a native stack of its own. The chain goes on with who has resumed it, behind a frame of a
 * function without a name: native frames end there.
 *
 * What a line is read from, an op, is stored in a frame as it calls another function. The innermost one has a
 * stale one; but the interpreter keeps frame and op in r14 and r15. Where they belong together, and the
 * innermost native frame of the evaluator was met by rows, the leaf's line is that of r15; else it is not
 * known. There is one thread with frames: that of the process' own id.
 *
 * From 8.4 on some functions of C are called without a frame of PHP (frameless), by ops of their own. Where
 * the op of a frame is such a one, the function is put in front of it, and stays if the native frame that the
 * evaluator has called goes on right behind a call of such a function. Else it has returned: an op is stored
 * until another one calls.
 *
 * Includes nothing, as python.bpf.h, behind which it is included.
 */

enum {
        PHP_REGISTER_FRAME = 14,
        PHP_REGISTER_OP = 15,
        PHP_HEAD_SIZE = PHP_FUNCTION_SCOPE + 8,        /* bytes of a function that are read at once */
};

static inline uint64_t php_hash(uint64_t string) {
        uint64_t hash = 0;

        if (string)
                python_read(string + PHP_STRING_HASH, &hash);
        return hash;
}

/* The cookie of a function of PHP, whose first three words were read. */
static inline bool php_read_cookie(const struct php_process *process, uint64_t function, const uint64_t *head,
                                   uint32_t *cookiep) {
        uint64_t name = php_hash(head[PHP_FUNCTION_NAME / 8]), scope = head[PHP_FUNCTION_SCOPE / 8];
        uint64_t class = 0, file = 0, line = 0;

        if (scope && !python_read(scope + PHP_CLASS_NAME, &class))
                return false;
        if ((uint8_t)head[0] != PHP_FUNCTION_INTERNAL &&
            (!python_read(function + process->file, &file) ||
             !python_read(function + process->file + 8, &line)))
                return false;
        *cookiep = php_cookie(name, php_hash(class), php_hash(file), (uint32_t)line);
        return true;
}

/* Whether there is a function; *knownp: its kind << 32 | its cookie. */
static inline bool php_read_function(struct python *python, const struct php_process *process,
                                     uint64_t function, uint64_t *knownp) {
        uint32_t at = (uint32_t)(function >> 4 ^ function >> 9) & (PYTHON_N_KNOWN - 1), cookie = 0;
        const uint64_t *head = (const uint64_t *)python->code_bytes;
        uint8_t type;

        barrier_var(at);
        at &= PYTHON_N_KNOWN - 1;
        if (function & 7)
                return false;           /* 1 is where none is known */
        if (function == python->known[at].code) {
                *knownp = python->known[at].cookie;
                return true;
        }
        if (function >> PHP_FUNCTION_SHIFT ||
            bpf_probe_read_user(python->code_bytes, PHP_HEAD_SIZE, (const void *)function))
                return false;
        type = (uint8_t)head[0];
        if ((type != PHP_FUNCTION_INTERNAL && type != PHP_FUNCTION_USER && type != PHP_FUNCTION_EVAL) ||
            !php_read_cookie(process, function, head, &cookie))
                return false;
        if (head[PHP_FUNCTION_NAME / 8])
                type |= PHP_FUNCTION_NAMED;
        *knownp = cookie | (uint64_t)type << 32;
        python->known[at].code = function;
        python->known[at].cookie = *knownp;
        return true;
}

/* Part of an op, from PHP_OP_EXTRA on. */
struct php_op {
        uint32_t extra, line;
        uint8_t code, types[3];
};

/* Reads the op at @at. If it cannot be, its line is 0. */
static inline void php_read_op(uint64_t at, struct php_op *op) {
        if (bpf_probe_read_user(op, sizeof(*op), (const void *)(at + PHP_OP_EXTRA)))
                *op = (struct php_op){ 0 };
}

/* The line of the op at @at; 0 = it cannot be read. */
static inline uint32_t php_line(uint64_t at) {
        struct php_op op;

        php_read_op(at, &op);
        return op.line;
}

/* The line at which the innermost function is, if the registers of frame 0 say so; else 0. */
static inline uint32_t php_leaf_line(const struct php_process *process, uint64_t frame, uint64_t function,
                                     const uint64_t *registers) {
        uint64_t op = registers[PHP_REGISTER_OP], ops = 0;
        uint32_t n = 0;

        if (UNWIND_ARM64 || !process->ops || registers[PHP_REGISTER_FRAME] != frame ||
            !python_read(function + process->ops, &ops) ||
            bpf_probe_read_user(&n, sizeof(n), (const void *)(function + process->ops - 8)))
                return 0;
        op -= ops;
        return op % PHP_OP_SIZE == 0 && op / PHP_OP_SIZE < n ? php_line(ops + op) : 0;
}

static inline void php_add(struct python *python, uint64_t function, uint64_t known, uint32_t line) {
        python->n_frames++;
        python_add(python,
                   (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT | known >> 32 << PHP_FUNCTION_SHIFT | function,
                   known << 32 | line);
}

/* A frame without a function: one of a generator stands for those that delegate to it. */
static inline void php_add_generators(struct python *python, const struct php_process *process,
                                      const uint64_t *frame) {
        uint64_t generators = 0, class = 0;

        if ((frame[PHP_FRAME_INFO] & PHP_INFO_TYPE) == PHP_TYPE_OBJECT && process->generators &&
            python_read(process->generators, &generators) &&
            python_read(frame[PHP_FRAME_THIS] + PHP_OBJECT_CLASS, &class) && class == generators && class)
                php_add(python, 0, 0, 0);
}

/* Puts the function that @op calls without a frame in front of the op's own, as far as is known here. */
static inline void php_add_frameless(struct python *python, const struct php_process *process,
                                     const struct php_op *op) {
        uint64_t table = 0, function = 0, known = 0;

        if (!process->frameless || (uint8_t)(op->code - PHP_OP_FRAMELESS) > 3 ||
            op->extra >= PHP_MAX_FRAMELESS || python->n > PYTHON_MAX_CHAIN - 3 ||
            !python_read(process->frameless, &table) ||
            !python_read(table + 8 * (uint64_t)op->extra, &function) ||
            !php_read_function(python, process, function, &known) ||
            known >> 32 != (PHP_FUNCTION_INTERNAL | PHP_FUNCTION_NAMED))
                return;
        if (!python->n)
                python->call_line = op->line;
        php_add(python, function, known | (uint64_t)PHP_FUNCTION_FRAMELESS << 32, 0);
}

/* Takes a frame with a function. Return: whether there is one. */
static inline bool php_take(struct python *python, const struct php_process *process, uint64_t at,
                            const uint64_t *frame, const uint64_t *registers) {
        uint64_t function = frame[PHP_FRAME_FUNCTION], known = 0;
        struct php_op op = { 0 };
        bool is_internal;

        if (!php_read_function(python, process, function, &known))
                return false;
        is_internal = known >> 32 & PHP_FUNCTION_INTERNAL;
        if (known >> 32 == PHP_FUNCTION_INTERNAL) {
                python->is_resumed = 1;
                return true;
        }
        if (!is_internal) {
                php_read_op(frame[PHP_FRAME_OPLINE], &op);
                if (!python->n) {
                        python->leaf_line = php_leaf_line(process, at, function, registers);
                        php_add_frameless(python, process, &op);
                        op.line = 0;
                } else if (python->n == python->last_mark) {
                        php_add_frameless(python, process, &op);
                }
        }
        php_add(python, function, known, op.line);
        if (is_internal || !(frame[PHP_FRAME_INFO] & PHP_INFO_TOP))
                return true;
        if (!python->is_resumed)
                python->n_runs++;
        python_add_mark(python, PYTHON_MARK_EVALUATOR);
        return true;
}

/* Copies one frame of the chain. Return: whether there is another one. */
static inline bool php_chain_step(struct python *python, const struct php_process *process,
                                  const uint64_t *registers) {
        const uint64_t *frame = (const uint64_t *)python->frame_bytes;
        uint64_t at = python->frame;

        if (!at) {
                python->is_cut = 0;
                return false;
        }
        if (python_is_full(python) || (at & 7) ||
            bpf_probe_read_user(python->frame_bytes, PHP_FRAME_WORDS * 8, (const void *)at))
                return false;
        python->frame = frame[PHP_FRAME_PREVIOUS];
        if (frame[PHP_FRAME_FUNCTION])
                return php_take(python, process, at, frame, registers);
        php_add_generators(python, process, frame);
        return true;
}

/* Goes to the innermost frame. Return: whether there is one. */
static inline bool php_chain_begin(struct python *python, const struct php_process *process) {
        python_clear(python);
        python->evaluator = process->evaluator;
        python->evaluator_size = process->evaluator_size;
        python->cold = process->cold;
        python->cold_size = process->cold_size;
        for (uint32_t i = 0; i < PHP_MAX_CALLS; i++)
                python->calls[i] = process->calls[i];
        python->is_counted = 1;
        python->mark = PYTHON_NO_MARK;
        python->last_mark = 0;
        python->is_cut = 1;             /* until its end was met */
        python->frame = 0;
        return python_read(process->current, &python->frame) && python->frame;
}
