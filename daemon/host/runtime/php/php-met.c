/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A cookie has one place. Who has no room left of its own gives up names of its own, place by place. Where
 * all processes together have none, the one with most does.
 */
#include "host/runtime/php/php-met.h"

#include <stdlib.h>
#include <string.h>

static size_t in_all;                   /* bytes of all processes */
static PhpMet *first;                   /* processes with names */

static uint32_t cookie_of(const uint64_t *words) {
        return (uint32_t)(words[1] >> 32);
}

static void count(PhpMet *met, size_t size) {
        if (!met->size) {
                met->next_met = first;
                first = met;
        }
        met->size += size;
        in_all += size;
}

static void discount(PhpMet *met, size_t size) {
        PhpMet **metp = &first;

        met->size -= size;
        in_all -= size;
        if (met->size)
                return;
        while (*metp != met)
                metp = &(*metp)->next_met;
        *metp = met->next_met;
}

static void forget(PhpMet *met, PhpMetFunction *function) {
        if (function->size)
                discount(met, function->size);
        free(function->texts);
        *function = (PhpMetFunction){ 0 };
}

static void forget_next(PhpMet *met) {
        size_t before = met->size;

        while (met->size == before)
                forget(met, &met->functions[met->next++ % PHP_MET_MAX]);
}

/* The process with most; @asking, if none has more. */
static PhpMet *with_most(PhpMet *asking) {
        PhpMet *most = asking;

        for (PhpMet *met = first; met; met = met->next_met)
                if (met->size > most->size)
                        most = met;
        return most;
}

void php_met_deinit(PhpMet *met) {
        for (size_t i = 0; i < PHP_MET_MAX; i++)
                forget(met, &met->functions[i]);
}

static void make_room(PhpMet *met, size_t size) {
        while (met->size + size > PHP_MET_MAX_BYTES)
                forget_next(met);
        while (in_all + size > PHP_MET_MAX_BYTES_IN_ALL)
                forget_next(with_most(met));
}

void php_met_keep(PhpMet *met, const uint64_t *words, const ReaderFunction *function) {
        PhpMetFunction *place = &met->functions[cookie_of(words) % PHP_MET_MAX];
        size_t n = strlen(function->name) + 1, size = n + strlen(function->file) + 1;
        char *texts;

        forget(met, place);
        make_room(met, size);
        texts = malloc(size);
        if (!texts)
                return;
        memcpy(texts, function->name, n);
        memcpy(texts + n, function->file, size - n);
        *place = (PhpMetFunction){ cookie_of(words), function->first_line, texts, size };
        count(met, size);
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
