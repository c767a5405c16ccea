/* SPDX-License-Identifier: Apache-2.0 */

/* Text ↔ the typed fields of Config, one pair of functions for each kind. */

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/http/endpoint.h"
#include "host/service/config/option.h"

typedef struct Unit {
        const char *name;
        uint64_t factor;
} Unit;

static const Unit time_units[] = {
        { "ms", NS_PER_MS },        { "s", NS_PER_SEC }, { "m", 60 * NS_PER_SEC },
        { "h", 3600 * NS_PER_SEC }, { NULL, 0 },
};

static const Unit size_units[] = {
        { "", 1 },           { "K", 1 << 10 },   { "M", 1 << 20 }, { "G", 1 << 30 },
        { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 },
};

static void *field(const Option *option, Config *config) {
        return (char *)config + option->offset;
}

static const void *field_of(const Option *option, const Config *config) {
        return (const char *)config + option->offset;
}

static const Unit *find_unit(const Unit *units, const char *name) {
        for (; units->name; units++)
                if (!strcmp(units->name, name))
                        return units;
        return NULL;
}

/* Reads @n digits behind a point as a part of @factor: 25 of 1000 is 250. */
static uint64_t part_of(uint64_t factor, const char *digits, size_t n) {
        uint64_t part = 0;

        for (size_t i = 0; i < n; i++) {
                factor /= 10;
                part += (uint64_t)(digits[i] - '0') * factor;
        }
        return part;
}

/*
 * NUMBER, of times also NUMBER.DIGITS, blanks, UNIT → product. Return: 0, 1 = no number, 2 = no such unit,
 * 3 = too large, 4 = finer than a millisecond.
 */
static int parse_with_unit(const char *value, const Unit *units, const char *bare, uint64_t *resultp) {
        size_t n_digits = strspn(value, "0123456789"), n_behind = 0;
        const char *behind;
        char digits[24];
        const Unit *unit;
        uint64_t number;

        if (!n_digits)
                return 1;
        if (n_digits >= sizeof(digits))
                return 3;
        memcpy(digits, value, n_digits);
        digits[n_digits] = 0;
        if (text_u64(digits, UINT64_MAX, &number))
                return 3;
        value += n_digits;
        behind = value + 1;
        if (units == time_units && *value == '.')
                n_behind = strspn(behind, "0123456789");
        if (n_behind)
                value = behind + n_behind;
        value += strspn(value, " ");
        if (!number && !n_behind && !*value) {
                *resultp = 0;           /* zero needs no unit */
                return 0;
        }
        unit = find_unit(units, *value ? value : bare);
        if (!unit)
                return 2;
        if (__builtin_mul_overflow(number, unit->factor, resultp) ||
            __builtin_add_overflow(*resultp, part_of(unit->factor, behind, n_behind), resultp))
                return 3;
        return n_behind && *resultp % NS_PER_MS ? 4 : 0;
}

static int invalid(const Option *option, const char *value, const char *what, Text *problem) {
        text_printf(problem, "`%s` %s", value, what);
        if (option->max || option->choices) {
                text_printf(problem, " (");
                option_print_range(option, problem);
                text_printf(problem, ")");
        }
        return problem->failed ? error_origin(-ENOMEM) : OPTION_E_INVALID;
}

static int set_bool(const Option *option, bool *to, const char *value, Text *problem) {
        static const char *const words[] = { "off", "on", "no", "yes", "false", "true", "0", "1" };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (!strcmp(value, words[i])) {
                        *to = i % 2;
                        return 0;
                }
        return invalid(option, value, "is neither `on` nor `off`", problem);
}

static int set_number(const Option *option, uint64_t *to, const char *value, Text *problem) {
        uint64_t number;

        if (!*value || value[strspn(value, "0123456789")])
                return invalid(option, value, "is no number", problem);
        if (text_u64(value, option->max, &number) || number < option->min)
                return invalid(option, value, "is out of range", problem);
        *to = number;
        return 0;
}

static int set_quantity(const Option *option, uint64_t *to, const char *value, Text *problem) {
        bool is_time = option->kind == OPTION_DURATION;
        uint64_t number;
        int r = parse_with_unit(value, is_time ? time_units : size_units, option->bare_seconds ? "s" : "",
                                &number);

        if (r == 1)
                return invalid(option, value, is_time ? "is no time" : "is no size", problem);
        if (r == 2)
                return invalid(option, value,
                               is_time ? "needs a unit: ms, s, m or h"
                                       : "has an unknown unit: K, M, G, KiB, MiB or GiB",
                               problem);
        if (r == 4)
                return invalid(option, value, "is finer than a millisecond", problem);
        if (r == 3 || number < option->min || number > option->max)
                return invalid(option, value, "is out of range", problem);
        *to = number;
        return 0;
}

static int set_string(char **to, const char *value) {
        char *copy = strdup(value);

        if (!copy)
                return error_origin(-ENOMEM);
        free(*to);
        *to = copy;
        return 0;
}

static bool is_choice(const char *choices, const char *value) {
        size_t length = strlen(value);

        while (*choices) {
                size_t size = strcspn(choices, " ");

                if (size == length && !memcmp(choices, value, size))
                        return true;
                choices += size + (choices[size] == ' ');
        }
        return false;
}

/* The rest of the URL is judged by endpoint_check_url(). */
static bool has_scheme(const char *value) {
        return !strncasecmp(value, "http://", 7) || !strncasecmp(value, "https://", 8) ||
                !strncmp(value, "unix:", 5);
}

static int set_url(const Option *option, char **to, const char *value, Text *problem) {
        char why[128];

        if (*value && !has_scheme(value))
                return invalid(option, value,
                               "is no URL: http://HOST[:PORT], https://HOST[:PORT] or unix:/SOCKET[:/PATH]",
                               problem);
        if (*value && endpoint_check_url(value, why, sizeof(why))) {
                text_printf(problem, "%s", why);
                return problem->failed ? error_origin(-ENOMEM) : OPTION_E_INVALID;
        }
        return set_string(to, value);
}

static void list_free(ConfigList *list) {
        for (size_t i = 0; i < list->n_items; i++)
                free(list->items[i]);
        free(list->items);
        *list = (ConfigList){ 0 };
}

static int list_add(ConfigList *list, const char *item, size_t size) {
        char **items = reallocarray(list->items, list->n_items + 1, sizeof(*items));

        if (!items)
                return error_origin(-ENOMEM);
        list->items = items;
        items[list->n_items] = strndup(item, size);
        if (!items[list->n_items])
                return error_origin(-ENOMEM);
        list->n_items++;
        return 0;
}

/* Splits at commas, blanks around the items cut off; an empty text is an empty list. */
static int list_parse(const Option *option, ConfigList *list, const char *value, Text *problem) {
        const char *at = value;

        while (*value) {
                size_t size;
                int r;

                at += strspn(at, " ");
                size = strcspn(at, ",");
                while (size && at[size - 1] == ' ')
                        size--;
                if (!size)
                        return invalid(option, value, "has an empty item", problem);
                r = list_add(list, at, size);
                if (r)
                        return error_fold(r);
                at += strcspn(at, ",");
                if (!*at)
                        break;
                at++;
        }
        return 0;
}

static int set_list(const Option *option, ConfigList *to, const char *value, bool append, Text *problem) {
        ConfigList list = { 0 };
        int r = list_parse(option, &list, value, problem);

        for (size_t i = 0; !r && option->check && i < list.n_items; i++)
                r = option->check(list.items[i], problem);
        for (size_t i = 0; !r && append && i < list.n_items; i++)
                r = list_add(to, list.items[i], strlen(list.items[i]));
        if (!r && !append) {
                ConfigList old = *to;

                *to = list;
                list = old;
        }
        list_free(&list);
        return r;
}

static int set_pids(const Option *option, ConfigPids *to, const char *value, bool append, Text *problem) {
        size_t n_old = append ? to->n_items : 0;
        ConfigList list = { 0 };
        uint32_t *items;
        uint64_t pid = 0;
        int r = list_parse(option, &list, value, problem);

        if (r)
                goto out;
        items = reallocarray(NULL, n_old + list.n_items + 1, sizeof(*items));
        if (!items) {
                r = error_origin(-ENOMEM);
                goto out;
        }
        if (n_old)
                memcpy(items, to->items, n_old * sizeof(*items));
        for (size_t i = 0; !r && i < list.n_items; i++) {
                r = set_number(option, &pid, list.items[i], problem);
                items[n_old + i] = (uint32_t)pid;
        }
        if (r)
                free(items);
        else {
                free(to->items);
                *to = (ConfigPids){ items, n_old + list.n_items };
        }
out:
        list_free(&list);
        return r;
}

int option_set(const Option *option, Config *config, const char *value, bool append, Text *problem) {
        void *to = field(option, config);
        int r;

        switch (option->kind) {
        case OPTION_BOOL:
                return set_bool(option, to, value, problem);
        case OPTION_NUMBER:
                return set_number(option, to, value, problem);
        case OPTION_DURATION:
        case OPTION_SIZE:
                return set_quantity(option, to, value, problem);
        case OPTION_CHOICE:
                if (!is_choice(option->choices, value))
                        return invalid(option, value, "is not one of its values", problem);
                return set_string(to, value);
        case OPTION_URL:
                return set_url(option, to, value, problem);
        case OPTION_STRING:
                r = option->check ? option->check(value, problem) : 0;
                return r ? r : set_string(to, value);
        case OPTION_LIST:
                return set_list(option, to, value, append, problem);
        case OPTION_PIDS:
                return set_pids(option, to, value, append, problem);
        }
        return error_origin(-EINVAL);
}

/* With the largest unit that leaves no rest. */
static void print_quantity(const Option *option, uint64_t value, Text *text) {
        const Unit *units = option->kind == OPTION_DURATION ? time_units : size_units, *best = units;

        for (; units->name; units++)
                if (units->factor >= best->factor && value % units->factor == 0)
                        best = units;
        if (value)
                text_printf(text, "%" PRIu64 "%s", value / best->factor, best->name);
        else
                text_printf(text, "0");
}

static void print_choices(const char *choices, Text *text) {
        for (const char *c = choices; *c; c++)
                text_printf(text, "%s%c", *c == ' ' ? "," : "", *c);
}

void option_print(const Option *option, const Config *config, Text *text) {
        const void *from = field_of(option, config);
        const ConfigList *list = from;
        const ConfigPids *pids = from;

        switch (option->kind) {
        case OPTION_BOOL:
                text_printf(text, "%s", *(const bool *)from ? "on" : "off");
                break;
        case OPTION_NUMBER:
                text_printf(text, "%" PRIu64, *(const uint64_t *)from);
                break;
        case OPTION_DURATION:
        case OPTION_SIZE:
                print_quantity(option, *(const uint64_t *)from, text);
                break;
        case OPTION_STRING:
        case OPTION_URL:
        case OPTION_CHOICE:
                text_printf(text, "%s", *(char *const *)from);
                break;
        case OPTION_LIST:
                for (size_t i = 0; i < list->n_items; i++)
                        text_printf(text, "%s%s", i ? "," : "", list->items[i]);
                break;
        case OPTION_PIDS:
                for (size_t i = 0; i < pids->n_items; i++)
                        text_printf(text, "%s%" PRIu32, i ? "," : "", pids->items[i]);
                break;
        }
}

void option_print_range(const Option *option, Text *text) {
        if (option->choices) {
                print_choices(option->choices, text);
        } else if (option->kind == OPTION_DURATION || option->kind == OPTION_SIZE) {
                print_quantity(option, option->min, text);
                text_printf(text, " to ");
                print_quantity(option, option->max, text);
        } else if (option->max) {
                text_printf(text, "%" PRIu64 " to %" PRIu64, option->min, option->max);
        }
}

void option_free(const Option *option, Config *config) {
        void *of = field(option, config);

        if (option->kind == OPTION_LIST)
                list_free(of);
        else if (option->kind == OPTION_PIDS)
                free(((ConfigPids *)of)->items);
        else if (option->kind == OPTION_STRING || option->kind == OPTION_URL || option->kind == OPTION_CHOICE)
                free(*(char **)of);
}
