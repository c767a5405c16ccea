/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layouts and names of asyncio's tasks. The words are what Debian's 3.14.10 and 3.15.2 have in their section
 * .AsyncioDebug; offsets of other structs are those of their _PyRuntime.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-task.h"

enum { TEXT_TYPE = 0xa000, NUMBER_TYPE = 0xb000, CORO = 0xc000, GENERATOR = 0xd000 };

static const uint64_t words_3_14[PYTHON_TASK_WORDS] = { 168, 136, 96,  108, 109, 128, 152,
                                                        225864, 10880, 936, 864, 872, 880 };

static PythonLayout layout_of(uint32_t version) {
        return (PythonLayout){ .version = version, .chain = PYTHON_CHAIN_SHIMS, .code = 0, .position = 56,
                               .type = 8, .text_length = 16, .text_state = 32, .ascii_data = 40,
                               .text_data = 56, .number_tag = 16, .number_digits = 24, .generator_frame = 72,
                               .generator_state = 67, .stack_pointer = 64 };
}

static bool read_layout(const uint64_t *words, const PythonLayout *layout, struct python_tasks *tasks) {
        return python_task_layout(words, layout, CORO, GENERATOR, tasks);
}

Test(python_task, layout) {
        PythonLayout layout = layout_of(0x030e);
        struct python_tasks tasks;

        cr_assert(read_layout(words_3_14, &layout, &tasks));
        cr_assert_eq(tasks.coroutine_type, CORO);
        cr_assert_eq(tasks.generator_type, GENERATOR);
        cr_assert_eq(tasks.running, 872);
        cr_assert_eq(tasks.name, 136);
        cr_assert_eq(tasks.awaited_by, 96);
        cr_assert_eq(tasks.is_set, 109);
        cr_assert_eq(tasks.coroutine, 128);
        cr_assert_eq(tasks.position, 128);
        cr_assert_eq(tasks.stack, 136);
        cr_assert_eq(tasks.suspended_for, 0xff);
        layout.version = 0x030f;
        cr_assert(read_layout(words_3_14, &layout, &tasks));
        cr_assert_eq(tasks.suspended_for, 2);
        cr_assert_eq(tasks.awaited, 16);
}

Test(python_task, layouts_that_are_not_plausible_or_not_known) {
        PythonLayout layout = layout_of(0x0310);
        uint64_t words[PYTHON_TASK_WORDS];
        struct python_tasks tasks;

        cr_assert_not(read_layout(words_3_14, &layout, &tasks));        /* what a state means there */
        layout = layout_of(0x030d);
        cr_assert_not(read_layout(words_3_14, &layout, &tasks));
        layout = layout_of(0x030e);
        layout.is_free_threaded = true;
        cr_assert_not(read_layout(words_3_14, &layout, &tasks));
        layout = layout_of(0x030e);
        for (size_t i = 0; i < PYTHON_TASK_WORDS; i++) {
                if (i == 3 || i == 6 || i == 7 || i == 8 || i == 10 || i == 12)
                        continue;       /* not used */
                memcpy(words, words_3_14, sizeof(words));
                words[i] = UINT64_MAX;
                cr_assert_not(read_layout(words, &layout, &tasks), "%zu", i);
                words[i] = 0;
                cr_assert_not(read_layout(words, &layout, &tasks), "%zu", i);
        }
        memcpy(words, words_3_14, sizeof(words));
        words[1] = words[5];
        cr_assert_not(read_layout(words, &layout, &tasks));
}

static void put(uint8_t *object, size_t at, uint64_t value, size_t size) {
        memcpy(object + at, &value, size);
}

static const char *name_of(const uint8_t *object) {
        static char name[PYTHON_MAX_TEXT];
        const PythonLayout layout = layout_of(0x030e);

        return python_task_name(object, &layout, TEXT_TYPE, NUMBER_TYPE, name) ? name : NULL;
}

Test(python_task, numbers) {
        uint8_t object[PYTHON_TASK_SIZE] = { 0 };

        put(object, 8, NUMBER_TYPE, 8);
        put(object, 16, 1 << 3 | 4, 8);         /* one digit, of a number that is never freed */
        put(object, 24, 17, 4);
        cr_assert_str_eq(name_of(object), "Task-17");
        put(object, 16, 2 << 3, 8);
        put(object, 28, 1, 4);
        cr_assert_str_eq(name_of(object), "Task-1073741841");
        put(object, 16, 1 << 3 | 2, 8);         /* below 0 */
        cr_assert_null(name_of(object));
        put(object, 16, 9 << 3, 8);
        cr_assert_null(name_of(object));
        put(object, 16, 1 << 3, 8);
        put(object, 24, 1u << 30, 4);           /* no digit */
        cr_assert_null(name_of(object));
}

Test(python_task, texts) {
        uint8_t object[PYTHON_TASK_SIZE] = { 0 };
        const uint16_t wide[] = { 'a', 0x3b3 };

        put(object, 8, TEXT_TYPE, 8);
        put(object, 16, 5, 8);
        put(object, 32, (1u | 1u << 3 | 1u << 4) << 16, 4);
        memcpy(object + 40, "alpha", 5);
        cr_assert_str_eq(name_of(object), "alpha");
        /* longer than what is there of it */
        put(object, 16, UINT64_MAX, 8);
        memset(object + 40, 'n', PYTHON_TASK_SIZE - 40);
        cr_assert_eq(strlen(name_of(object)), PYTHON_TASK_SIZE - 40);
        put(object, 16, 2, 8);
        put(object, 32, (2u | 1u << 3) << 16, 4);
        memcpy(object + 56, wide, sizeof(wide));
        cr_assert_str_eq(name_of(object), "a\xce\xb3");
        put(object, 16, 0, 8);
        cr_assert_null(name_of(object));
        put(object, 8, 0x1234, 8);              /* of another type */
        cr_assert_null(name_of(object));
}

static const char *span_name_of(const uint8_t *object, size_t size) {
        static char name[PYTHON_MAX_TEXT];
        const PythonLayout layout = layout_of(0x030e);

        return python_span_name(object, size, &layout, TEXT_TYPE, name) ? name : NULL;
}

Test(python_task, names_of_spans) {
        uint8_t object[PYTHON_NAME_SIZE] = { 0 };
        const uint16_t wide = 0x20ac;

        put(object, 8, TEXT_TYPE, 8);
        put(object, 16, 9, 8);
        put(object, 32, (1u | 1u << 3 | 1u << 4) << 16, 4);
        memcpy(object + 40, "GET /cart", 9);
        cr_assert_str_eq(span_name_of(object, sizeof(object)), "GET /cart");
        cr_assert_str_eq(span_name_of(object, 45), "GET /", "what was read of it");
        cr_assert_null(span_name_of(object, 20));
        put(object, 16, 500, 8);
        memset(object + 40, 'n', sizeof(object) - 40);
        cr_assert_eq(strlen(span_name_of(object, sizeof(object))), 128);
        /* euro signs have three bytes each: 42 fit */
        put(object, 32, (2u | 1u << 3) << 16, 4);
        for (size_t at = 56; at < sizeof(object); at += sizeof(wide))
                memcpy(object + at, &wide, sizeof(wide));
        cr_assert_eq(strlen(span_name_of(object, sizeof(object))), 126);
        put(object, 8, NUMBER_TYPE, 8);
        cr_assert_null(span_name_of(object, sizeof(object)), "a number is no name");
}
