/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tasks of asyncio
 *
 * From 3.14 on the module `_asyncio` describes its tasks in a section, `.AsyncioDebug`. Pure: words of that
 * section, or the bytes of a name, in.
 */

#include <stdint.h>

#include "host/runtime/python/python-layout.h"
#include "host/runtime/python/python-text.h"

enum {
        PYTHON_TASK_WORDS = 13,         /* words of the section */
        PYTHON_MAX_TASK_SECTION = 4096, /* bytes of it */
};

/*
 * Makes the layout by which the kernel half finds tasks. @coroutine, @generator: addresses of PyCoro_Type,
 * PyGen_Type. Return: whether all of it is plausible for a release with @layout.
 */
bool python_task_layout(const uint64_t words[PYTHON_TASK_WORDS], const PythonLayout *layout,
                        uint64_t coroutine, uint64_t generator, struct python_tasks *tasks);

/*
 * The text in @object, of which @size bytes were read: one that has more is cut behind a whole character, to
 * 128 bytes at most. Return: whether it is of @type_text.
 */
bool python_span_name(const uint8_t *object, size_t size, const PythonLayout *layout, uint64_t type_text,
                      char name[PYTHON_MAX_TEXT]);

/*
 * The name in @object, the begin of an object of type @type_text (its characters; what is behind the bytes is
 * cut) or @type_number (a task without a name has one: `Task-7`). Return: whether it is one of them.
 */
bool python_task_name(const uint8_t object[PYTHON_TASK_SIZE], const PythonLayout *layout, uint64_t type_text,
                      uint64_t type_number, char name[PYTHON_MAX_TEXT]);
