/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Options
 *
 * The one table of options: command line, help, environment, configuration files
 * and manual pages are all made from it. A new option is a field in Config and a
 * line in option.c.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "host/service/config/config.h"

typedef enum OptionKind {
        OPTION_BOOL,                    /* on, off (yes, no, true, false, 1, 0) */
        OPTION_NUMBER,
        OPTION_DURATION,                /* 500ms, 15s, 2m, 1h; 0 */
        OPTION_SIZE,                    /* bytes, or with KiB, MiB, GiB (K, M, G) */
        OPTION_STRING,
        OPTION_URL,                     /* http:// or https:// */
        OPTION_CHOICE,                  /* a word of `choices` */
        OPTION_LIST,                    /* strings between commas */
        OPTION_PIDS,                    /* process ids between commas */
} OptionKind;

/* Verbs that take an option. */
enum {
        VERB_RUN = 1 << 0,
        VERB_REPORT = 1 << 1,
        VERB_RECEIVE = 1 << 2,
        VERB_CONFIG = 1 << 3,
        VERB_TARGETS = 1 << 4,
        VERB_VALIDATE = 1 << 5,
        VERB_SPOOL = 1 << 6,
        VERB_WATCH = 1 << 7,
        VERB_CONVERT = 1 << 8,
        VERB_CORO = 1 << 10,
        VERB_STATUS = 1 << 16,          /* pause and resume, too */
        VERB_DOCTOR = 1 << 17,
        VERB_CONTEXTS = 1 << 18,
        VERB_RECORD = 1 << 24,
        VERB_TOP = 1 << 25,
        VERB_STACKS = 1 << 26,
        VERB_HEAP = 1 << 27,
        VERB_KEEP = 1 << 28,
        VERB_BOOST = 1 << 29,
        VERB_ANY = -1,
};

/* What an option means to some verbs, where that differs. */
typedef struct OptionUse {
        int verbs;                      /* 0 ends a list */
        const char *fallback;           /* NULL = as for others; a switch is set to it, a 0 is read as it */
        const char *help;               /* NULL = as for others */
} OptionUse;

struct Option {
        const char *name;               /* long name and key in files */
        char letter;                    /* short flag, 0 = none */
        OptionKind kind;
        int verbs;
        const char *section;            /* section of configuration files; NULL = not in files */
        size_t offset;                  /* place of the field in Config */
        const char *fallback;           /* the default, as text */
        uint64_t min, max;              /* number, size: as they are; duration: ns */
        const char *choices;            /* words with one blank between */
        const char *argument;           /* name of the value in help */
        /* judges a string, or each item of a list; may be NULL */
        int (*check)(const char *item, Text *problem);
        const char *otel;               /* OTEL_EXPORTER_OTLP_[PROFILES_]… that sets it too */
        bool bare_seconds;              /* a duration without a unit is in seconds */
        bool secret;                    /* `config show` hides the value */
        bool is_form;                   /* the form of requests: each receiver may have its own */
        const OptionUse *uses;          /* may be NULL */
        bool advanced;                  /* `--help` shows it with --all alone; the manual, always */
        const char *help;
};

extern const Option option_table[];
extern const size_t option_table_size;

static inline size_t option_index(const Option *option) {
        return (size_t)(option - option_table);
}

/* Whether @verb (one bit) takes @option; `config` takes all that files may set. */
static inline bool option_is_for(const Option *option, int verb) {
        return option->verbs & verb || (verb == VERB_CONFIG && option->section);
}

/* --help and --version are flags and nothing else. */
static inline bool option_is_setting(const Option *option) {
        return option->verbs != VERB_ANY;
}

/* Return: the option, or NULL. A letter means one option of a verb; another verb may use it for another. */
const Option *option_find(const char *name, size_t size);
const Option *option_find_letter(char letter, int verb);

/* The default and the help of an option as @verb (one bit) means them; as text, the default may be NULL. */
const char *option_fallback(const Option *option, int verb);
const char *option_help(const Option *option, int verb);

/* Name in the environment, e.g. SPANPROF_EXPORT_INTERVAL. @to has OPTION_ENVIRONMENT_MAX bytes. */
enum { OPTION_ENVIRONMENT_MAX = 64 };
void option_environment(const Option *option, char *to);

enum {
        _OPTION_E_SUCCESS,
        OPTION_E_INVALID,               /* @problem says why, without the option's name; nothing changed */
};

/* Sets the field of @option from text; @append adds to a list. Return: 0, OPTION_E_INVALID, -ENOMEM. */
int option_set(const Option *option, Config *config, const char *value, bool append, Text *problem);

/* Appends the value as option_set() would take it. */
void option_print(const Option *option, const Config *config, Text *text);

/* Appends what values it takes, e.g. `1 to 10000` or `gzip, none`; nothing for free text. */
void option_print_range(const Option *option, Text *text);

void option_free(const Option *option, Config *config);

/*
 * The word of @words (ended by NULL) that is nearest to @typed, by edit distance or by
 * being its start; NULL if none is near.
 */
const char *nearest_word(const char *typed, const char *const *words);
