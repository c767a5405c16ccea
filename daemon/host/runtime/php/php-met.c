/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A cookie has one place. Who has no room left gives up names of its own, place by place; names of other
 * processes stay.
 */
#include "host/runtime/php/php-met.h"

#include <stdlib.h>
#include <string.h>

static size_t in_all;                   /* bytes of all processes */

static uint32_t cookie_of(const uint64_t *words) {
        return (uint32_t)(words[1] >> 32);
}

static void forget(PhpMet *met, PhpMetFunction *function) {
        met->size -= function->size;
        in_all -= function->size;
        free(function->texts);
        *function = (PhpMetFunction){ 0 };
}

void php_met_deinit(PhpMet *met) {
        for (size_t i = 0; i < PHP_MET_MAX; i++)
                forget(met, &met->functions[i]);
}

/* Return: whether there is room for @size bytes. */
static bool make_room(PhpMet *met, size_t size) {
        while (met->size &&
               (met->size + size > PHP_MET_MAX_BYTES || in_all + size > PHP_MET_MAX_BYTES_IN_ALL))
                forget(met, &met->functions[met->next++ % PHP_MET_MAX]);
        return in_all + size <= PHP_MET_MAX_BYTES_IN_ALL;
}

void php_met_keep(PhpMet *met, const uint64_t *words, const ReaderFunction *function) {
        PhpMetFunction *place = &met->functions[cookie_of(words) % PHP_MET_MAX];
        size_t n = strlen(function->name) + 1, size = n + strlen(function->file) + 1;
        char *texts;

        forget(met, place);
        texts = make_room(met, size) ? malloc(size) : NULL;
        if (!texts)
                return;
        memcpy(texts, function->name, n);
        memcpy(texts + n, function->file, size - n);
        *place = (PhpMetFunction){ cookie_of(words), function->first_line, texts, size };
        met->size += size;
        in_all += size;
}

bool php_met_recall(const PhpMet *met, const uint64_t *words, ReaderFunction *function) {
        const PhpMetFunction *place = &met->functions[cookie_of(words) % PHP_MET_MAX];

        if (!place->texts || place->cookie != cookie_of(words))
                return false;
        php_code_without_name(words, function);
        function->first_line = place->first_line;
        strcpy(function->name, place->texts);
        strcpy(function->file, place->texts + strlen(place->texts) + 1);
        return true;
}
