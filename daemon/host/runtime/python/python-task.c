/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The section has the offsets of three structs, each behind its size:
 *
 *      0  task: size 168, name 136, awaited_by 96, is_task, awaited_by_is_set 109, coro 128, node
 *      7  interpreter: size, tasks_head
 *      9  thread state: size 936, running_loop 864, running_task 872, tasks_head
 *
 * A task that was given no name keeps a number in its place until it is asked for.
 */
#include "host/runtime/python/python-task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "host/runtime/python/python-text.h"

enum {
        TASK = 0, TASK_NAME = 1, TASK_AWAITED_BY = 2, TASK_IS_SET = 4, TASK_COROUTINE = 5,
        THREAD = 9, THREAD_RUNNING = 11,
        MAX_STRUCT = UINT16_MAX,
        DIGIT_BITS = 30,
        MAX_DIGITS = 2,
};

static bool is_pointer(const uint64_t *words, unsigned part, unsigned field) {
        uint64_t size = words[part], offset = words[field];

        return size >= 8 && size <= MAX_STRUCT && offset && offset <= size - 8 && !(offset & 7);
}

/*
 * Sets facts that no release tells of itself: values of a coroutine's state (it is suspended; it awaits what
 * is on its stack), and where on its stack that is. 3.15 has a word more behind it. Return: whether the
 * release is known.
 */
static bool set_states(uint32_t version, struct python_tasks *tasks) {
        if (version != 0x030e && version != 0x030f)
                return false;
        tasks->suspended = version == 0x030e ? (uint8_t)-2 : 1;
        tasks->suspended_for = version == 0x030e ? (uint8_t)-1 : 2;
        tasks->awaited = version == 0x030e ? 8 : 16;
        return true;
}

bool python_task_layout(const uint64_t words[PYTHON_TASK_WORDS], const PythonLayout *layout,
                        uint64_t coroutine, uint64_t generator, struct python_tasks *tasks) {
        uint32_t frame = layout->generator_frame;
        uint32_t last = MAX(MAX(frame + layout->code, frame + layout->position),
                            MAX(frame + layout->stack_pointer, layout->type));

        if (!frame || !layout->generator_state || layout->is_free_threaded ||
            !is_pointer(words, TASK, TASK_NAME) || !is_pointer(words, TASK, TASK_AWAITED_BY) ||
            !is_pointer(words, TASK, TASK_COROUTINE) || !is_pointer(words, THREAD, THREAD_RUNNING) ||
            !words[TASK_IS_SET] || words[TASK_IS_SET] >= words[TASK] ||
            words[TASK_NAME] == words[TASK_COROUTINE] || words[TASK_NAME] == words[TASK_AWAITED_BY] ||
            words[TASK_COROUTINE] == words[TASK_AWAITED_BY] || frame > PYTHON_MAX_GENERATOR ||
            last > PYTHON_MAX_GENERATOR - 8 || layout->generator_state >= PYTHON_MAX_GENERATOR)
                return false;
        *tasks = (struct python_tasks){ .coroutine_type = coroutine,
                                        .generator_type = generator,
                                        .running = (uint16_t)words[THREAD_RUNNING],
                                        .name = (uint16_t)words[TASK_NAME],
                                        .awaited_by = (uint16_t)words[TASK_AWAITED_BY],
                                        .is_set = (uint16_t)words[TASK_IS_SET],
                                        .coroutine = (uint16_t)words[TASK_COROUTINE],
                                        .frame = (uint16_t)frame,
                                        .state = (uint16_t)layout->generator_state,
                                        .code = (uint16_t)(frame + layout->code),
                                        .position = (uint16_t)(frame + layout->position),
                                        .stack = (uint16_t)(frame + layout->stack_pointer) };
        return set_states(layout->version, tasks);
}

/* ---- names ---- */

/* The bytes of an object that a sample has with it. */
typedef struct Object {
        const uint8_t *bytes;
        size_t size;
} Object;

static bool read_object(void *userdata, uint64_t address, void *to, size_t size) {
        const Object *object = userdata;

        if (address > object->size || size > object->size - address)
                return false;
        memcpy(to, object->bytes + address, size);
        return true;
}

static bool name_of_number(const PythonReader *reader, const PythonLayout *layout,
                           char name[PYTHON_MAX_TEXT]) {
        uint32_t digits[MAX_DIGITS] = { 0 };
        uint64_t tag;

        if (!python_reader_read(reader, layout->number_tag, &tag, sizeof(tag)) || tag & 3 ||
            tag >> 3 > MAX_DIGITS || !(tag >> 3) ||
            !python_reader_read(reader, layout->number_digits, digits, (tag >> 3) * sizeof(*digits)))
                return false;
        snprintf(name, PYTHON_MAX_TEXT, "Task-%" PRIu64, (uint64_t)digits[1] << DIGIT_BITS | digits[0]);
        return !(digits[0] >> DIGIT_BITS) && !(digits[1] >> DIGIT_BITS);
}

bool python_task_name(const uint8_t object[PYTHON_TASK_SIZE], const PythonLayout *layout, uint64_t type_text,
                      uint64_t type_number, char name[PYTHON_MAX_TEXT]) {
        Object bytes = { object, PYTHON_TASK_SIZE };
        const PythonReader reader = { read_object, &bytes };
        uint64_t type;

        if (!python_reader_read(&reader, layout->type, &type, sizeof(type)) || !type)
                return false;
        if (type == type_number)
                return name_of_number(&reader, layout, name);
        return type == type_text && python_text_read(&reader, layout, 0, PYTHON_TASK_SIZE, name);
}

bool python_span_name(const uint8_t *object, size_t size, const PythonLayout *layout, uint64_t type_text,
                      char name[PYTHON_MAX_TEXT]) {
        enum { MAX_NAME = 128 };
        Object bytes = { object, size };
        const PythonReader reader = { read_object, &bytes };
        uint64_t type;

        if (!python_reader_read(&reader, layout->type, &type, sizeof(type)) || !type || type != type_text ||
            !python_text_read(&reader, layout, 0, size, name))
                return false;
        name[text_cut_utf8(name, MAX_NAME)] = '\0';
        return true;
}
