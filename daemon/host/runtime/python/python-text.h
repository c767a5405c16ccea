/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Texts of CPython
 *
 * A str of the target as UTF-8. Its length is the target's word, and bounded here.
 */

#include "host/runtime/python/python-layout.h"
#include "host/runtime/python/python-reader.h"

enum {
        PYTHON_MAX_TEXT = 1024,         /* bytes, as UTF-8, with the NUL; longer ones are cut */
};

/*
 * The text of the object at @address. Nothing is read at @end and behind it: what lies there is cut. Return:
 * whether there is one; else @to is "".
 */
bool python_text_read(const PythonReader *reader, const PythonLayout *layout, uint64_t address, uint64_t end,
                      char to[PYTHON_MAX_TEXT]);
