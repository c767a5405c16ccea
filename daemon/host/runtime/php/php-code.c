/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     zend_function ─▶ name ─▶ "total"
 *                   ─▶ scope ─▶ class ─▶ name ─▶ "App\\Cart"         App\Cart::total
 *                   ─▶ file ─▶ "/srv/app/cart.php", and its first line
 *
 * Functions go with their request. The sample has a cookie of what was there, which is compared before the
 * texts are read and after.
 */
#include "host/runtime/php/php-code.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum { MAX_BYTES = (READER_MAX_TEXT - 3) / 3 };    /* bytes of a string: each may become three, `::` follows */

typedef struct Object {
        uint64_t head[PHP_FUNCTION_SCOPE / 8 + 1];
        uint64_t class, file;           /* texts */
        uint32_t first_line;
} Object;

static bool read_at(const PhpReader *reader, uint64_t address, void *to, size_t size) {
        return !(address >> RUNTIME_KIND_SHIFT) && reader->read(reader->userdata, address, to, size);
}

static uint64_t hash_of(const PhpReader *reader, uint64_t string) {
        uint64_t hash;

        return string && read_at(reader, string + PHP_STRING_HASH, &hash, sizeof(hash)) ? hash : 0;
}

static uint8_t type_of(const Object *object) {
        return (uint8_t)object->head[0];
}

/* Whether the function at @address is the one that has @cookie. */
static bool read_object(const PhpReader *reader, uint64_t address, uint32_t cookie, Object *object) {
        uint64_t scope;

        *object = (Object){ 0 };
        if (!read_at(reader, address, object->head, sizeof(object->head)))
                return false;
        scope = object->head[PHP_FUNCTION_SCOPE / 8];
        if ((scope && !read_at(reader, scope + PHP_CLASS_NAME, &object->class, sizeof(object->class))) ||
            (type_of(object) != PHP_FUNCTION_INTERNAL &&
             (!read_at(reader, address + reader->file, &object->file, sizeof(object->file)) ||
              !read_at(reader, address + reader->file + 8, &object->first_line, sizeof(object->first_line)))))
                return false;
        return php_cookie(hash_of(reader, object->head[PHP_FUNCTION_NAME / 8]),
                          hash_of(reader, object->class), hash_of(reader, object->file),
                          object->first_line) == cookie;
}

/* Up to the first NUL: a class without a name has its place behind that. Return: whether there is a text. */
static bool read_text(const PhpReader *reader, uint64_t string, char to[READER_MAX_TEXT]) {
        char bytes[MAX_BYTES];
        uint64_t length;

        *to = '\0';
        if (!string || !read_at(reader, string + PHP_STRING_LENGTH, &length, sizeof(length)) || !length)
                return false;
        length = MIN(length, (uint64_t)sizeof(bytes));
        if (!read_at(reader, string + PHP_STRING_TEXT, bytes, length))
                return false;
        text_repair_utf8(to, bytes, strnlen(bytes, length));
        return *to;
}

/* Names that are too long together are cut at the end. */
static void read_name(const PhpReader *reader, const Object *object, ReaderFunction *function) {
        uint64_t name = object->head[PHP_FUNCTION_NAME / 8];
        char method[READER_MAX_TEXT];
        size_t n, size;

        *function->name = '\0';
        if (!read_text(reader, name, method))
                return;
        if (read_text(reader, object->class, function->name))
                strcat(function->name, "::");
        n = strlen(function->name);
        size = text_cut_utf8(method, sizeof(function->name) - 1 - n);
        memcpy(function->name + n, method, size);
        function->name[n + size] = '\0';
}

bool php_code_without_name(const uint64_t *words, ReaderFunction *function) {
        uint32_t kind = words[0] >> PHP_FUNCTION_SHIFT & 0xff;
        const char *name = kind == PHP_FUNCTION_USER ? "main"
                : kind == PHP_FUNCTION_EVAL          ? "eval"
                                                     : "(yield from)";

        *function = (ReaderFunction){ .line = (uint32_t)words[1] <= INT32_MAX ? (uint32_t)words[1] : 0 };
        if (kind & (PHP_FUNCTION_NAMED | PHP_FUNCTION_INTERNAL))
                return false;
        strcpy(function->name, name);
        return true;
}

int php_code_name(const PhpReader *reader, const uint64_t *words, ReaderFunction *function) {
        uint64_t address = words[0] & ((1ull << PHP_FUNCTION_SHIFT) - 1);
        uint32_t cookie = (uint32_t)(words[1] >> 32);
        Object object, again;

        if (words[0] >> RUNTIME_KIND_SHIFT != RUNTIME_PHP)
                return PHP_CODE_E_GONE;
        if (php_code_without_name(words, function) && !address)
                return 0;
        if (!read_object(reader, address, cookie, &object))
                return PHP_CODE_E_GONE;
        if (object.head[PHP_FUNCTION_NAME / 8])
                read_name(reader, &object, function);
        read_text(reader, object.file, function->file);
        function->first_line = object.first_line <= INT32_MAX ? object.first_line : 0;
        if (!read_object(reader, address, cookie, &again) || !*function->name)
                return PHP_CODE_E_GONE;
        return 0;
}
