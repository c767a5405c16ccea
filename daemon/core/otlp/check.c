/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns a chain of places into a path when there is a finding, and marks the rows that a request uses.
 */

#include "core/otlp/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/text.h"

static size_t print_place(const Place *place, char *to, size_t room) {
        size_t n = place->up ? print_place(place->up, to, room) : 0;
        int more;

        if (n >= room)
                return n;
        more = snprintf(to + n, room - n, "%s%s", n ? "." : "", place->name);
        n += more > 0 ? (size_t)more : 0;
        if (place->index >= 0 && n < room) {
                more = snprintf(to + n, room - n, "[%zd]", place->index);
                n += more > 0 ? (size_t)more : 0;
        }
        return n;
}

/* Text of another program: one line, and nothing that a terminal would obey. */
static void tame(char *text) {
        for (unsigned char *c = (unsigned char *)text; *c; c++)
                if (*c < ' ' || *c == 0x7F)
                        *c = '?';
}

static void find(Check *check, bool warning, const Place *place, const char *field, ValidateRule rule,
                 const char *format, va_list args) {
        Place last = { place, field, -1 };
        char path[VALIDATE_PATH_MAX] = "", text[VALIDATE_TEXT_MAX], whole[3 * VALIDATE_TEXT_MAX + 1];

        *(warning ? &check->counts.n_warnings : &check->counts.n_errors) += 1;
        if (!check->sink)
                return;
        if (field || place)
                print_place(field ? &last : place, path, sizeof(path));
        vsnprintf(text, sizeof(text), format, args);
        tame(text);
        text_repair_utf8(whole, text, strlen(text));
        check->sink(&(ValidateFinding){ warning, rule, path, whole }, check->userdata);
}

void check_error(Check *check, const Place *place, const char *field, ValidateRule rule, const char *format,
                 ...) {
        va_list args;

        va_start(args, format);
        find(check, false, place, field, rule, format, args);
        va_end(args);
}

void check_warning(Check *check, const Place *place, const char *field, ValidateRule rule, const char *format,
                   ...) {
        va_list args;

        va_start(args, format);
        find(check, true, place, field, rule, format, args);
        va_end(args);
}

void *check_use(Check *check, const Place *place, const char *field, CheckTable table, int32_t index) {
        CheckRows *rows = &check->tables[table];

        if (index < 0 || (size_t)index >= rows->n) {
                check_error(check, place, field, VALIDATE_INDEX, "%d of %zu", index, rows->n);
                return NULL;
        }
        rows->used[index] = true;
        return rows->rows[index];
}

const char *check_string(Check *check, const Place *place, const char *field, int32_t index) {
        const char *text = check_use(check, place, field, CHECK_STRINGS, index);

        return text ? text : "";
}

void check_utf8(Check *check, const Place *place, const char *field, const char *text) {
        if (text && !text_is_utf8(text, strlen(text)))
                check_error(check, place, field, VALIDATE_UTF8, "is no UTF-8: \"%.60s\"", text);
}

ssize_t check_seen(Check *check, Intern *set, const void *data, size_t size) {
        uint32_t index;
        int r = intern_add(set, data, size, &index);

        if (r < 0)
                check->failed = true;
        return r == INTERN_E_FOUND ? (ssize_t)index : -1;
}

void check_forget(Intern *set) {
        intern_deinit(set);
        intern_init(set, UINT32_MAX);
}

int check_by_index(const void *a, const void *b) {
        int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

        return x < y ? -1 : x > y;
}

uint8_t *check_reserve(Check *check, size_t size) {
        if (array_reserve(&check->bytes, &check->bytes_size, MAX(size, (size_t)1), 512)) {
                check->failed = true;
                return NULL;
        }
        return check->bytes;
}

size_t check_pack(Check *check, const void *message) {
        size_t size = protobuf_c_message_get_packed_size(message);

        return check_reserve(check, size) ? protobuf_c_message_pack(message, check->bytes) : 0;
}
