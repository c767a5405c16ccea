/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks and takes a text of a worker: it ends with a NUL that is its only one, and is UTF-8.
 */

#include "host/runtime/reader/reader-text.h"

#include <string.h>

#include "core/base/util/text.h"

void reader_text_repair(char *text, size_t size) {
        text[size - 1] = '\0';
        for (char *at = text; *at; at++)
                if (*at < ' ' || *at > '~')
                        *at = '?';
}

bool reader_text_check(const char *text, size_t n) {
        return n && !text[n - 1] && strlen(text) == n - 1 && text_is_utf8(text, n - 1);
}

bool reader_text_take(char *to, size_t room, const char *text, size_t n) {
        if (n > room || !reader_text_check(text, n))
                return false;
        memcpy(to, text, n);
        return true;
}

bool reader_locks_check(RuntimeLocks *locks) {
        static const char zeroes[RUNTIME_MAX_LOCK_NAME];

        reader_text_repair(locks->text, sizeof(locks->text));
        if (locks->n > RUNTIME_MAX_LOCKS)
                return false;
        for (uint32_t i = 0; i < locks->n; i++) {
                const RuntimeLock *lock = &locks->locks[i];
                size_t n = strnlen(lock->name, sizeof(lock->name));

                if (n == sizeof(lock->name) || lock->kind >= RUNTIME_N_LOCK_KINDS || lock->zero ||
                    !text_is_utf8(lock->name, n) ||
                    memcmp(lock->name + n, zeroes, sizeof(lock->name) - n))
                        return false;
        }
        return true;
}
