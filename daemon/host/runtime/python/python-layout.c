/* SPDX-License-Identifier: Apache-2.0 */

/*
 * _Py_DebugOffsets is a list of words, and its order is fixed within a minor release:
 *
 *     0  "xdebugpy"        3  runtime: size, finalizing, interpreters.head = 632
 *     1  0x030d00f0        6  interpreter: size, id, next = 7264, threads.head = 7344, …
 *     2  free threaded    19  thread state: size, prev, next, interp, current_frame = 72, thread_id = 152, …
 *                         28  frame: size, previous = 8, executable = 0, instr_ptr = 56, …, owner = 70
 *
 * Each part begins with the size of its struct. So an order that is not that of this release shows: an offset
 * lies behind its struct, is not aligned, or is one that another field has.
 *
 * The table for older ones is from their headers (offsetof, x86-64).
 */
#include "host/runtime/python/python-layout.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/macro.h"

enum { MAX_LOCKED = 64 };               /* bytes of a lock before `locked` */

/* Offsets of all releases with the one lock, 3.8 … 3.12. */
#define OLD_OBJECTS .type = 8, .type_name = 24, .bytes_size = 16, .bytes_data = 32, .text_length = 16, \
                    .text_state = 32

static const PythonLayout old_layouts[] = {
        { .version = 0x0308, .chain = PYTHON_CHAIN_EVALUATOR, .interpreters = 32, .next_interpreter = 0,
          .threads = 8, .next_thread = 8, .thread_id = 176, .thread_frame = 24, .code = 32, .previous = 24,
          .position = 104, .owner = 16, .name = 112, .filename = 104, .line_table = 120, .first_line = 40,
          OLD_OBJECTS, .ascii_data = 48, .text_data = 72, .lock = 1152, .lock_locked = 16 },
        { .version = 0x0309, .chain = PYTHON_CHAIN_EVALUATOR, .interpreters = 32, .next_interpreter = 0,
          .threads = 8, .next_thread = 8, .thread_id = 176, .thread_frame = 24, .code = 32, .previous = 24,
          .position = 104, .owner = 16, .name = 112, .filename = 104, .line_table = 120, .first_line = 40,
          OLD_OBJECTS, .ascii_data = 48, .text_data = 72, .lock = 352, .lock_locked = 16 },
        { .version = 0x030a, .chain = PYTHON_CHAIN_OBJECTS, .interpreters = 32, .next_interpreter = 0,
          .threads = 8, .next_thread = 8, .thread_id = 176, .thread_frame = 24, .native_frame = 48,
          .native_previous = 8, .code = 32, .previous = 24, .position = 96, .owner = 16, .name = 112,
          .filename = 104, .line_table = 120, .first_line = 40, OLD_OBJECTS, .ascii_data = 48,
          .text_data = 72, .lock = 352, .lock_locked = 16 },
        { .version = 0x030b, .chain = PYTHON_CHAIN_CFRAMES, .interpreters = 40, .next_interpreter = 0,
          .threads = 16, .next_thread = 8, .thread_id = 152, .thread_frame = 56, .native_frame = 8,
          .native_previous = 16, .code = 32, .previous = 48, .position = 56, .owner = 68, .name = 128,
          .filename = 112, .line_table = 136, .first_line = 72, .instructions = 184, OLD_OBJECTS,
          .ascii_data = 48, .text_data = 72, .lock = 360, .lock_locked = 16 },
        { .version = 0x030c, .chain = PYTHON_CHAIN_CFRAME, .interpreters = 40, .next_interpreter = 0,
          .threads = 72, .next_thread = 8, .thread_id = 136, .thread_frame = 56, .native_frame = 0,
          .native_previous = 8, .code = 0, .previous = 8, .position = 56, .owner = 70, .name = 128,
          .filename = 112, .line_table = 136, .first_line = 68, .instructions = 192, OLD_OBJECTS,
          .ascii_data = 40, .text_data = 56, .lock_pointer = 384, .lock_locked = 16 },
};

static int unknown(char reason[PYTHON_MAX_REASON], uint32_t version, const char *what) {
        snprintf(reason, PYTHON_MAX_REASON, "python %u.%u: layout unknown: %s", version >> 8, version & 0xff,
                 what);
        return PYTHON_LAYOUT_E_UNKNOWN;
}

int python_layout_of(uint32_t version, PythonLayout *layout, char reason[PYTHON_MAX_REASON]) {
        for (size_t i = 0; i < ARRAY_SIZE(old_layouts); i++)
                if (old_layouts[i].version == version) {
                        *layout = old_layouts[i];
                        return 0;
                }
        return unknown(reason, version, "no such release in the table");
}

/* Indexes of the parts' first words, which are sizes. */
typedef struct Order {
        uint8_t interpreter, thread, frame, code, object, type, number, bytes, text;
        uint8_t generator;              /* 0 = this release does not tell */
        uint8_t thread_id;              /* from the thread state's size on */
        uint8_t lock;                   /* ceval_gil, from the interpreter's size on */
} Order;

static const Order order_3_13 = { 6, 19, 28, 34, 44, 46, 61, 64, 67, 0, 5, 8 };
static const Order order_3_14 = { 6, 22, 31, 39, 50, 52, 71, 74, 77, 83, 5, 9 };
static const Order order_3_15 = { 6, 22, 39, 47, 58, 60, 83, 86, 89, 99, 8, 9 };

static const Order *order_of(uint32_t version) {
        return version == PYTHON_DESCRIBED ? &order_3_13 : version == 0x030e ? &order_3_14 : &order_3_15;
}

/* A field of the part that begins with @words. */
typedef struct Field {
        const char *name;
        uint8_t part, index;            /* index of the part's first word, and of the field from there */
        uint8_t size;                   /* bytes of the field */
        uint32_t *to;
} Field;

static bool is_plausible(const uint64_t *words, const Field *field) {
        uint64_t size = words[field->part], offset = words[field->part + field->index];

        return size <= 16 << 20 && offset < size && size - offset >= field->size && !(offset % field->size);
}

static bool differ(const uint64_t *words, const Field *fields, size_t n) {
        for (size_t i = 0; i < n; i++)
                for (size_t j = 0; j < i; j++)
                        if (fields[i].part == fields[j].part &&
                            words[fields[i].part + fields[i].index] ==
                            words[fields[j].part + fields[j].index])
                                return false;
        return true;
}

/*
 * An interpreter has room for a lock of its own, of which begin, holder and `locked` are told. What is not
 * plausible is left out: waits for the lock are waits for a futex then.
 */
static void read_lock(const uint64_t *words, const Order *order, PythonLayout *layout) {
        const uint64_t *lock = words + order->interpreter + order->lock;
        uint64_t size = words[order->interpreter], pointer = lock[0], begin = lock[1], locked = lock[3],
                 holder = lock[4];

        if (!pointer || pointer % 8 || pointer > size - 8 || begin >= size || holder <= begin ||
            locked != holder + 8 || locked - begin > MAX_LOCKED)
                return;
        layout->lock_pointer = (uint32_t)pointer;
        layout->lock_locked = (uint32_t)(locked - begin);
}

/* Up to 3.13, and in builds with the lock, all threads run the same instructions. */
static void read_copies(const uint64_t *words, const Order *order, PythonLayout *layout) {
        const Field fields[] = {
                { "code_object.co_tlbc", order->code, 10, 8, &layout->copies },
                { "interpreter_frame.tlbc_index", order->frame, 7, 4, &layout->copy_index },
        };

        if (!order->generator || !is_plausible(words, &fields[0]) || !is_plausible(words, &fields[1]))
                return;
        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                *fields[i].to = (uint32_t)words[fields[i].part + fields[i].index];
}

int python_layout_read(const uint64_t words[PYTHON_N_OFFSETS], PythonLayout *layout,
                       char reason[PYTHON_MAX_REASON]) {
        const uint32_t version = (uint32_t)(words[1] >> 16) & 0xffff;
        const Order order = *order_of(version);
        const Field fields[] = {
                { "runtime.interpreters_head", 3, 2, 8, &layout->interpreters },
                { "interpreter_state.next", order.interpreter, 2, 8, &layout->next_interpreter },
                { "interpreter_state.threads_head", order.interpreter, 3, 8, &layout->threads },
                { "thread_state.next", order.thread, 2, 8, &layout->next_thread },
                { "thread_state.prev", order.thread, 1, 8, &layout->previous_thread },
                { "thread_state.current_frame", order.thread, 4, 8, &layout->thread_frame },
                { "thread_state.thread_id", order.thread, order.thread_id, 8, &layout->thread_id },
                { "interpreter_frame.previous", order.frame, 1, 8, &layout->previous },
                { "interpreter_frame.executable", order.frame, 2, 8, &layout->code },
                { "interpreter_frame.instr_ptr", order.frame, 3, 8, &layout->position },
                { "interpreter_frame.owner", order.frame, 5, 1, &layout->owner },
                { "code_object.filename", order.code, 1, 8, &layout->filename },
                { "code_object.qualname", order.code, 3, 8, &layout->name },
                { "code_object.linetable", order.code, 4, 8, &layout->line_table },
                { "code_object.firstlineno", order.code, 5, 4, &layout->first_line },
                { "code_object.co_code_adaptive", order.code, 9, 2, &layout->instructions },
                { "pyobject.ob_type", order.object, 1, 8, &layout->type },
                { "type_object.tp_name", order.type, 1, 8, &layout->type_name },
                { "bytes_object.ob_size", order.bytes, 1, 8, &layout->bytes_size },
                { "bytes_object.ob_sval", order.bytes, 2, 1, &layout->bytes_data },
                { "unicode_object.state", order.text, 1, 4, &layout->text_state },
                { "unicode_object.length", order.text, 2, 8, &layout->text_length },
                { "long_object.lv_tag", order.number, 1, 8, &layout->number_tag },
                { "long_object.ob_digit", order.number, 2, 4, &layout->number_digits },
                { "interpreter_frame.stackpointer", order.frame, 6, 8, &layout->stack_pointer },
                { "gen_object.gi_iframe", order.generator, 2, 8, &layout->generator_frame },
                { "gen_object.gi_frame_state", order.generator, 3, 1, &layout->generator_state },
        };
        size_t n = ARRAY_SIZE(fields) - (order.generator ? 0 : 3);
        uint64_t ascii = words[order.text + 3];

        if (!words[0])
                return PYTHON_LAYOUT_E_EMPTY;
        memset(layout, 0, sizeof(*layout));
        layout->version = version;
        if (words[0] != PYTHON_COOKIE || version < PYTHON_DESCRIBED || version >> 8 != 3)
                return unknown(reason, version, "no _Py_DebugOffsets in _PyRuntime");
        for (size_t i = 0; i < n; i++) {
                if (!is_plausible(words, &fields[i]))
                        return unknown(reason, version, fields[i].name);
                *fields[i].to = (uint32_t)words[fields[i].part + fields[i].index];
        }
        /* The text's own struct has three words more for texts that are not ASCII. */
        if (!differ(words, fields, n) || ascii % 8 || ascii > words[order.text] ||
            ascii < layout->text_state + 4)
                return unknown(reason, version, "fields at one place");
        layout->chain = PYTHON_CHAIN_SHIMS;
        layout->is_free_threaded = words[2];
        layout->ascii_data = (uint32_t)ascii;
        layout->text_data = layout->ascii_data + 16;
        read_lock(words, &order, layout);
        if (layout->is_free_threaded)
                read_copies(words, &order, layout);
        return 0;
}

/*
 * Behind `locked` and a number lie what threads wait for (struct _gil_runtime_state, Include/internal/):
 * condition and mutex of the lock, and those of a thread that waits until another one has taken it.
 */
static void fill_lock(const PythonLayout *layout, struct python_process *entry) {
        const size_t futexes = 2 * (sizeof(pthread_cond_t) + sizeof(pthread_mutex_t));

        entry->lock_pointer = entry->lock_begin = entry->lock_end = 0;
        if (!layout->lock_locked || layout->lock_locked > MAX_LOCKED || layout->lock_pointer > UINT16_MAX)
                return;
        entry->lock_pointer = (uint16_t)layout->lock_pointer;
        entry->lock_begin = (uint16_t)(layout->lock_locked + 16);
        entry->lock_end = (uint16_t)(entry->lock_begin + futexes);
}

bool python_layout_entry(const PythonLayout *layout, struct python_process *entry) {
        uint32_t next = MAX(layout->next_thread, layout->previous_thread);
        uint32_t thread = MAX(MAX(next, layout->thread_id), layout->thread_frame) + 8;
        uint32_t frame = MAX(MAX(layout->code, layout->previous), layout->position) + 8;
        uint32_t code = MAX(MAX(layout->name, layout->line_table), MAX(layout->type, layout->first_line)) + 8;

        frame = MAX(frame, layout->owner + 1);
        if (layout->copies)
                frame = MAX(frame, layout->copy_index + 4);
        if (thread > PYTHON_MAX_THREAD || frame > PYTHON_MAX_FRAME || code > PYTHON_MAX_CODE ||
            MAX(layout->next_interpreter, layout->threads) > UINT16_MAX ||
            MAX(layout->copies, layout->instructions) > UINT16_MAX ||
            MAX(layout->native_frame, layout->native_previous) > UINT16_MAX)
                return false;
        entry->chain = layout->chain;
        entry->next_interpreter = (uint16_t)layout->next_interpreter;
        entry->threads = (uint16_t)layout->threads;
        entry->thread_size = (uint16_t)thread;
        entry->next_thread = (uint16_t)layout->next_thread;
        entry->previous_thread = (uint16_t)layout->previous_thread;
        entry->thread_id = (uint16_t)layout->thread_id;
        entry->thread_frame = (uint16_t)layout->thread_frame;
        entry->native_frame = (uint16_t)layout->native_frame;
        entry->native_previous = (uint16_t)layout->native_previous;
        entry->frame_size = (uint16_t)frame;
        entry->code = (uint16_t)layout->code;
        entry->previous = (uint16_t)layout->previous;
        entry->position = (uint16_t)layout->position;
        entry->owner = (uint16_t)layout->owner;
        entry->code_size = (uint16_t)code;
        entry->type = (uint16_t)layout->type;
        entry->name = (uint16_t)layout->name;
        entry->line_table = (uint16_t)layout->line_table;
        entry->first_line = (uint16_t)layout->first_line;
        entry->copies = (uint16_t)layout->copies;
        entry->copy_index = (uint16_t)layout->copy_index;
        entry->instructions = (uint16_t)layout->instructions;
        fill_lock(layout, entry);
        return true;
}
