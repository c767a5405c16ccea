/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go's own unwinder asks .gopclntab how large the frame is at a pc, so that the return address lies at rsp +
 * size (core/base/elf/go-values.h). That is exact at each instruction, since goroutines are stopped anywhere.
 * So a range of the stream is a row:
 *
 *     stream        code                     row
 *     0 … 1    0    push %rbp                CFA = rsp + 8
 *     1 … 8    8    mov, sub $16,%rsp        CFA = rsp + 16, rbp at CFA - 16
 *     8 …      24   …                        CFA = rsp + 32, rbp at CFA - 16
 *
 * Some functions, all of them assembly, are not what their stream says, and flags tell:
 *
 *     TOP        have no caller (goexit, mstart, rt0_go): the stack ends. But not at sigtramp, where
 *                Go's unwinder ends, too: the kernel has called it, and its frame leads to what was
 *                interrupted.
 *     SP_WRITE   they go to another stack and come back (systemstack, asmcgocall, nanotime1 for the vdso):
 *                their stream tells of the other stack. From Go 1.21 on their frame pointer tells of the one
 *                they come from, from the prologue on. Without such a prologue (gogo; before Go 1.21 nearly
 *                all) the walk ends there.
 *     morestack  goes to the scheduler's stack to get a larger one for the goroutine, which it has written
 *                down in g: the kernel half reads it (walk/rules.bpf.h). So does systemstack before Go 1.21.
 *     mcall      goes to the scheduler's stack for ever: once it has pushed its argument there, the goroutine
 *                that it leaves does not run any more. That stack begins here.
 *
 *     asyncPreempt, sigpanic   Go's signal handlers make it seem that these were called from where the
 *                program was interrupted. No call is in front of that place, so it is exact.
 *
 * What a signal handler returns to has made no call: the kernel's frame lies there. Its row begins one byte
 * early, in the padding, as a return address is looked up at the byte before it.
 */
#include "host/sampling/unwind/go/go-rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/elf/go-functions.h"
#include "core/base/elf/go-values.h"
#include "core/base/util/error.h"
#include "host/sampling/unwind/go/go-arch.h"

enum { COST_FUNCTION = 64 };            /* as that of cfi.c */

struct GoRows {
        Reader code;
        ElfImage image;
        GoFunctions functions;
        Layout layout;
        CfiCounts counts;
        uint32_t next, n;
        uint64_t last;                  /* end of the function before */
        uint32_t n_rows;
        Row rows[PROGRAM_MAX_ROWS];     /* the last field, as in cfi.c */
};

/* A function that is being read. */
typedef struct Work {
        GoFunction function;
        GoRecord record;
        uint64_t address;
        GoValues sizes;
        bool is_saved;                  /* the function saves the frame pointer where Go's compiler does */
        bool is_switch;
        uint64_t top;                   /* rule where the stack is highest; 0 = as elsewhere */
        int32_t highest;
} Work;

GoRows *go_rows_free(GoRows *rows) {
        if (!rows)
                return NULL;
        go_functions_deinit(&rows->functions);
        elf_image_deinit(&rows->image);
        reader_deinit(&rows->code);
        free(rows);
        return NULL;
}

/* Takes @rows over, of which the reader and the image are ready. Return: 0, GO_ROWS_E_NONE, -ENOMEM. */
static int start(GoRows **rowsp, GoRows *rows, uint32_t max_functions) {
        int r = layout_read(&rows->layout, &rows->code, LAYOUT_CFI_FIRST);

        if (!r || r == LAYOUT_E_NO_CFI)
                r = go_functions_init(&rows->functions, &rows->image, 0, GO_ROWS_MAX_BYTES, false);
        if (r) {
                go_rows_free(rows);
                return r < 0 ? error_fold(r) : GO_ROWS_E_NONE;
        }
        rows->n = MIN(rows->functions.table.n, max_functions);
        rows->counts.problems[CFI_PROBLEM_OVER_CAP] = rows->functions.table.n - rows->n;
        *rowsp = rows;
        return 0;
}

static GoRows *allocate(void) {
        GoRows *rows = malloc(sizeof(*rows));

        if (rows)
                memset(rows, 0, offsetof(GoRows, rows));
        return rows;
}

int go_rows_new(GoRows **rowsp, int fd, uint32_t max_functions) {
        GoRows *rows = allocate();
        struct stat st;
        int r;

        if (!rows)
                return error_origin(-ENOMEM);
        r = reader_init_file(&rows->code, fd);
        if (!r)
                /* fstat() itself is another system call in some versions of libc, which kills a worker */
                r = syscall(SYS_fstat, fd, &st) ? IMAGE_E_UNREADABLE
                                                : elf_image_init(&rows->image, fd, 0, (uint64_t)st.st_size);
        if (r) {
                go_rows_free(rows);
                return r < 0 ? error_fold(r) : GO_ROWS_E_NONE;
        }
        return start(rowsp, rows, max_functions);
}

int go_rows_new_memory(GoRows **rowsp, const void *data, size_t size, uint32_t max_functions) {
        GoRows *rows = allocate();
        int r;

        if (!rows)
                return error_origin(-ENOMEM);
        reader_init_memory(&rows->code, data, size);
        r = elf_image_init_memory(&rows->image, data, size);
        if (r) {
                go_rows_free(rows);
                return r < 0 ? error_fold(r) : GO_ROWS_E_NONE;
        }
        return start(rowsp, rows, max_functions);
}

/* GO_ARCH_CODE bytes at @address. Return: NULL = the file does not have them. */
static const uint8_t *read_code(GoRows *rows, uint64_t address) {
        uint64_t offset, size;

        if (!layout_find(&rows->layout, address, &offset, &size) || size < GO_ARCH_CODE)
                return NULL;
        return reader_bytes(&rows->code, offset, GO_ARCH_CODE);
}

static bool is_name(const GoFunction *function, const char *name) {
        return strlen(name) == function->n_name && !memcmp(function->name, name, function->n_name);
}

/* Whether a signal handler makes it seem that this was called. */
static bool is_injected(const GoFunction *function) {
        static const char *const names[] = { "runtime.asyncPreempt", "runtime.sigpanic", "runtime.sigpanic0",
                                             "runtime.debugCallV2" };

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (is_name(function, names[i]))
                        return true;
        return false;
}

static void add(GoRows *rows, uint64_t address, uint64_t rule) {
        if (rows->n_rows < PROGRAM_MAX_ROWS)
                rows->rows[rows->n_rows++] = (Row){ .address = address, .rule = rule };
}

static void add_one(GoRows *rows, const Work *work, uint64_t rule) {
        add(rows, work->address, rule);
}

/* Whether assembly saves the frame pointer where the compiler's own functions do: its code tells. */
static bool saves(GoRows *rows, const Work *work) {
        GoValues sizes = work->sizes;
        const uint8_t *code;

        while (go_values_next(&sizes) && sizes.end <= work->function.size) {
                if (sizes.value == 0)
                        continue;
                if (sizes.value == GO_ARCH_WORD) {
                        code = sizes.start ? read_code(rows, work->address + sizes.start - 1) : NULL;
                        return code && go_arch_is_prologue(code);
                }
                code = read_code(rows, work->address + sizes.start);
                return code && sizes.value > GO_ARCH_WORD && sizes.value <= GO_ARCH_MAX_SIZE &&
                        go_arch_is_store(code, sizes.value);
        }
        return false;
}

/* Whether it begins with the prologue that lets its frame be found from another stack. */
static bool is_switch(GoRows *rows, const Work *work) {
        const uint8_t *code = read_code(rows, work->address);

        return code && go_arch_is_prologue(code);
}

/* Reads no more ranges than a function may have: many functions may share one endless stream. */
static int32_t find_highest(const Work *work) {
        GoValues sizes = work->sizes;
        int32_t highest = 0;
        uint32_t left = PROGRAM_MAX_ROWS;

        while (left-- && go_values_next(&sizes) && sizes.end <= work->function.size)
                highest = MAX(highest, sizes.value);
        return highest;
}

/* Adds the row, or rows, of one range of the stream. @is_first: the first range with a frame. */
static void add_range(GoRows *rows, const Work *work, const GoValues *range, bool is_first) {
        uint64_t from = work->address + range->start;
        bool is_pushed = range->value == GO_ARCH_WORD;

        if (work->top && range->value == work->highest) {
                add(rows, from, work->top);
        } else if (work->is_switch && range->value) {
                if (range->start < GO_ARCH_PROLOGUE)
                        add(rows, from, go_arch_rule(GO_ARCH_SAVED, range->value));
                if (range->end > GO_ARCH_PROLOGUE)
                        add(rows, MAX(from, work->address + GO_ARCH_PROLOGUE),
                            go_arch_rule(GO_ARCH_SWITCH, range->value));
        } else if (!range->value) {
                add(rows, from, go_arch_rule(GO_ARCH_ENTRY, 0));
        } else if (!work->is_saved) {
                add(rows, from, go_arch_rule(GO_ARCH_LOST, range->value));
        } else {
                uint32_t store = is_first && !is_pushed ? go_arch_store_size(range->value) : 0;

                if (store)
                        add(rows, from, go_arch_rule(GO_ARCH_ENTRY, range->value));
                if (store < range->end - range->start)
                        add(rows, from + store, go_arch_rule(GO_ARCH_SAVED, range->value));
        }
}

/* Return: whether the stream is sound; *endp is where it ends. */
static bool add_ranges(GoRows *rows, Work *work, uint64_t *endp) {
        uint64_t size = work->function.size;
        bool is_first = true;

        work->highest = work->top ? find_highest(work) : 0;
        while (go_values_next(&work->sizes)) {
                const GoValues *range = &work->sizes;

                if (range->end > size || range->value < 0 || range->value > GO_ARCH_MAX_SIZE ||
                    rows->n_rows + 2 > PROGRAM_MAX_ROWS)
                        return false;
                add_range(rows, work, range, is_first);
                is_first = is_first && !range->value;
                *endp = work->address + range->end;
        }
        return rows->n_rows > 0;
}

/* A function that goes to another stack. Return: false = it cannot be understood. */
static bool prepare_switch(GoRows *rows, Work *work) {
        work->is_switch = is_switch(rows, work);
        if (is_name(&work->function, "runtime.mcall")) {
                work->top = go_arch_end();
                return true;
        }
        return work->is_switch;
}

/* Rows of one function. Return: whether it was understood; *endp is where its code ends. */
static bool describe(GoRows *rows, Work *work, uint64_t *endp) {
        uint8_t flags = work->record.flags;
        bool is_handler = is_name(&work->function, "runtime.sigtramp") ||
                is_name(&work->function, "runtime.cgoSigtramp");

        if (flags & GO_FLAG_TOP && !is_handler) {
                add_one(rows, work, go_arch_end());
                return true;
        }
        if (!go_values_init(&work->sizes, &rows->functions.table, work->record.sizes))
                return false;
        if (flags & GO_FLAG_SP_WRITE && !prepare_switch(rows, work)) {
                bool is_noted = is_name(&work->function, "runtime.morestack") ||
                        is_name(&work->function, "runtime.systemstack");

                rows->counts.unsupported[CFI_UNSUPPORTED_GO_STACK] += !is_noted;
                add_one(rows, work, is_noted ? go_arch_goroutine() : go_arch_bad());
                return true;
        }
        work->is_saved = !(flags & GO_FLAG_ASSEMBLY) || saves(rows, work);
        if (add_ranges(rows, work, endp)) {
                if (is_injected(&work->function))
                        for (uint32_t i = 0; i < rows->n_rows; i++)
                                rows->rows[i].rule = go_arch_injected(rows->rows[i].rule);
                return true;
        }
        rows->counts.problems[CFI_PROBLEM_GO_SIZES]++;
        return false;
}

/* Describes the function that a signal handler returns to. Return: whether the function is that. */
static bool describe_restorer(GoRows *rows, Work *work, uint64_t *startp) {
        const uint8_t *code;

        if (!is_name(&work->function, "runtime.sigreturn__sigaction") &&
            !is_name(&work->function, "runtime.sigreturn"))
                return false;
        code = read_code(rows, work->address);
        if (!code || !go_arch_is_signal_return(code))
                return false;
        if (work->address > rows->last) {
                code = read_code(rows, work->address - 1);
                *startp -= code && go_arch_is_padding(code[0]);
        }
        add(rows, *startp, go_arch_signal());
        return true;
}

/* Return: whether function number @index is one whose place is known. */
static bool read_function(GoRows *rows, uint32_t index, CfiFunction *to) {
        const GoTable *table = &rows->functions.table;
        Work work = { 0 };
        uint64_t start, end;

        if (!go_table_function(table, index, &work.function) ||
            !go_table_record(table, index, &work.record)) {
                rows->counts.problems[CFI_PROBLEM_GO_SIZES]++;
                return false;
        }
        if (!work.function.size)
                return false;           /* a mark of the linker's */
        start = work.address = rows->functions.text + work.function.start;
        end = start + work.function.size;
        if (start < rows->last || start < rows->layout.text_low || end > rows->layout.text_high) {
                rows->counts.problems[CFI_PROBLEM_RANGE]++;
                return false;
        }
        rows->n_rows = 0;
        if (!describe_restorer(rows, &work, &start) && !describe(rows, &work, &end))
                rows->n_rows = 0;
        *to = (CfiFunction){ .start = start, .end = end, .rows = rows->rows, .n_rows = rows->n_rows };
        return true;
}

int go_rows_next(GoRows *rows, uint64_t *budgetp, CfiFunction *functionp) {
        while (rows->next < rows->n) {
                rows->counts.n_entries++;
                *budgetp -= MIN(*budgetp, (uint64_t)COST_FUNCTION);
                if (!read_function(rows, rows->next++, functionp))
                        continue;
                *budgetp -= MIN(*budgetp, functionp->n_rows * (uint64_t)2);
                rows->counts.n_rows += functionp->n_rows;
                rows->last = functionp->end;
                return 0;
        }
        return GO_ROWS_E_END;
}

const Layout *go_rows_layout(const GoRows *rows) {
        return &rows->layout;
}

const CfiCounts *go_rows_counts(const GoRows *rows) {
        return &rows->counts;
}
