/* SPDX-License-Identifier: Apache-2.0 */

/* A table of four, looked through from its start. */

#include "host/service/limits/boosts.h"

#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "host/sampling/process/cgroup.h"
#include "host/sampling/process/identity.h"

static bool parse_number(const char *text, uint64_t max, uint64_t *numberp) {
        return !*numberp && !text_u64(text, max, numberp) && *numberp;
}

int boost_parse(const char *path, Boost *boostp) {
        uint64_t pid = 0, frequency = 0, seconds = 0;
        char word[BOOST_UNIT_SIZE], value[BOOST_UNIT_SIZE];
        Boost boost = { 0 };
        bool is_sound = true;

        while (*path && is_sound) {
                if (!text_take_part(&path, word, sizeof(word)) ||
                    !text_take_part(&path, value, sizeof(value)))
                        return BOOST_E_MALFORMED;
                if (!strcmp(word, "unit") && !*boost.unit)
                        memcpy(boost.unit, value, sizeof(value));
                else if (!strcmp(word, "process"))
                        is_sound = parse_number(value, INT32_MAX, &pid);
                else if (!strcmp(word, "frequency"))
                        is_sound = parse_number(value, BOOST_MAX_FREQUENCY, &frequency);
                else
                        is_sound = !strcmp(word, "for") && parse_number(value, BOOST_MAX_SECONDS, &seconds);
        }
        if (!is_sound || !*boost.unit == !pid || !frequency || !seconds)
                return BOOST_E_MALFORMED;
        boost.pid = (uint32_t)pid;
        boost.frequency = (uint32_t)frequency;
        boost.length_ns = seconds * NS_PER_SEC;
        *boostp = boost;
        return 0;
}

bool boost_means(const Boost *boost, const Process *process) {
        const char *path = process->identity ? process->identity->cgroup : NULL;

        if (!*boost->unit)
                return process->pid == boost->pid &&
                        (!boost->start_time_ns || process->start_time_ns == boost->start_time_ns);
        return path && cgroup_unit_matches((CgroupPart){ path, strlen(path) }, boost->unit);
}

bool boosts_mean(const Boosts *boosts, const Process *process) {
        for (uint32_t i = 0; i < boosts->n; i++)
                if (boost_means(&boosts->items[i], process))
                        return true;
        return false;
}

bool boosts_add(Boosts *boosts, const Boost *boost) {
        for (uint32_t i = 0; i < boosts->n; i++)
                if (boosts->items[i].pid == boost->pid && !strcmp(boosts->items[i].unit, boost->unit)) {
                        boosts->items[i] = *boost;
                        return true;
                }
        if (boosts->n == BOOSTS_MAX)
                return false;
        boosts->items[boosts->n++] = *boost;
        return true;
}

uint32_t boosts_expire(Boosts *boosts, uint64_t now_ns) {
        uint32_t n_left = 0, n_before = boosts->n;

        for (uint32_t i = 0; i < n_before; i++)
                if (boosts->items[i].end_ns > now_ns)
                        boosts->items[n_left++] = boosts->items[i];
        boosts->n = n_left;
        return n_before - n_left;
}

uint32_t boosts_ticks(const Boosts *boosts, uint32_t frequency) {
        uint32_t most = 1;

        for (uint32_t i = 0; i < boosts->n; i++)
                most = MAX(most, (boosts->items[i].frequency + frequency / 2) / frequency);
        return most;
}
