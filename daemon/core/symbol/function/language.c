/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Proof of a unit, and names of functions in it:
 *
 *     Ada      a library unit's flag of two bytes, `pkg__child_E`, or its      pkg__child__proc__2
 *              elaboration `pkg__child___elabs`; and a symbol of GNAT's        _ada_main
 *              runtime (`__gnat_`)
 *     Nim      the name of the C file that Nim wrote for a module:             hot__dirZmodule_12
 *              `@mdir@smodule.nim.c`, where Z, or @s, is a slash               hot__module_u12
 *     Haskell  closures of a module, `pkg_DataziMap_insert_closure`, and       pkg_DataziMap_insert_info
 *              GHC's description of any module (`Main_zdtrModule_closure`)
 *
 * libiberty reads names of Ada (demangle.c). Those of Nim and Haskell are read here, by the rules of Nim's
 * ccgutils.nim and of GHC's Utils.Encoding. What has two readings stays as it is in the file.
 */
#include "core/symbol/function/language.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_UNIT = 256,                 /* bytes of a unit's name */
        MAX_FOLDERS = 16,               /* folders of a Nim module: each may be the first in a name */
        MAX_TUPLE = 64,                 /* parts, which is GHC's own limit */
};

typedef struct Part {
        const char *text;
        size_t n;
} Part;

static bool ends_with(Part name, const char *end) {
        size_t n = strlen(end);

        return name.n > n && !memcmp(name.text + name.n - n, end, n);
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

/* ---- proof ---- */

static uint64_t key_of(NameLanguage language, Part unit) {
        return hash_bytes(unit.text, unit.n) + language * UINT64_C(0x9e3779b97f4a7c15);
}

static bool has_unit(const LanguageUnits *units, NameLanguage language, Part unit) {
        return hashmap_get(&units->units, key_of(language, unit));
}

static int put_unit(LanguageUnits *units, NameLanguage language, Part unit) {
        int r = units->units.n_entries < LANGUAGE_MAX_UNITS
                ? hashmap_put(&units->units, key_of(language, unit), units) : 0;

        return r ? error_fold(r) : 0;
}

void language_units_deinit(LanguageUnits *units) {
        hashmap_deinit(&units->units);
}

/* As Nim writes the path into names. Return: bytes; 0 = a path that has two readings, or is too long. */
static size_t nim_path(Part path, char to[MAX_UNIT], size_t starts[MAX_FOLDERS], size_t *n_startsp) {
        size_t n = 0;

        for (size_t i = 0; i < path.n; i++) {
                bool is_slash = path.text[i] == '@' && i + 1 < path.n && path.text[i + 1] == 's';

                if (n + 4 > MAX_UNIT || path.text[i] == 'Z' || (path.text[i] == '@' && !is_slash))
                        return 0;
                if (is_slash) {
                        to[n++] = 'Z';
                        i++;
                        if (*n_startsp < MAX_FOLDERS)
                                starts[(*n_startsp)++] = n;
                } else if (is_letter(path.text[i])) {
                        to[n++] = path.text[i];
                } else {
                        n += (size_t)snprintf(to + n, 4, "%u", (uint8_t)path.text[i]);
                }
        }
        return n;
}

static int note_nim_file(LanguageUnits *units, Part file) {
        static const char end[] = ".nim.c";
        size_t starts[MAX_FOLDERS] = { 0 }, n_starts = 1, n;
        char path[MAX_UNIT];
        int r = 0;

        if (file.n <= 2 + strlen(end) || file.text[0] != '@' || !is_letter(file.text[1]) ||
            !ends_with(file, end))
                return 0;
        n = nim_path((Part){ file.text + 2, file.n - 2 - strlen(end) }, path, starts, &n_starts);
        for (size_t i = 0; n && i < n_starts && !r; i++)
                r = put_unit(units, NAME_NIM, (Part){ path + starts[i], n - starts[i] });
        return r ? error_fold(r) : 0;
}

/* The part before the last @c; empty = there is none. */
static Part before_last(Part name, char c) {
        const char *at = memrchr(name.text, c, name.n);

        return (Part){ name.text, at ? (size_t)(at - name.text) : 0 };
}

static int note_closure(LanguageUnits *units, Part name) {
        Part unit = before_last((Part){ name.text, name.n - strlen("_closure") }, '_');

        units->has_haskell |= ends_with(name, "_zdtrModule_closure");
        return unit.n ? put_unit(units, NAME_HASKELL, unit) : 0;
}

int language_note(LanguageUnits *units, const Elf64_Sym *symbol, const char *text, size_t n) {
        unsigned type = ELF64_ST_TYPE(symbol->st_info);
        Part name = { text, n };
        int r = 0;

        units->has_gnat |= n > 7 && !memcmp(text, "__gnat_", 7);
        if (symbol->st_shndx == SHN_UNDEF)
                return 0;
        if (type == STT_FILE)
                r = note_nim_file(units, name);
        else if (type == STT_OBJECT && symbol->st_size == 2 && ends_with(name, "_E"))
                r = put_unit(units, NAME_ADA, (Part){ text, n - 2 });
        else if (type == STT_OBJECT && ends_with(name, "_closure"))
                r = note_closure(units, name);
        else if (type == STT_FUNC && (ends_with(name, "___elabs") || ends_with(name, "___elabb")))
                r = put_unit(units, NAME_ADA, (Part){ text, n - 8 });
        else if (type == STT_FUNC && n > 5 && !memcmp(text, "_ada_", 5))
                r = put_unit(units, NAME_ADA, (Part){ text + 5, n - 5 });
        return r ? error_fold(r) : 0;
}

static bool is_ada(const LanguageUnits *units, Part name) {
        const char *at = name.text;

        if (!units->has_gnat)
                return false;
        if (name.n > 5 && !memcmp(name.text, "_ada_", 5))
                return true;
        for (unsigned i = 0; i < MAX_FOLDERS; i++) {
                at = memmem(at, name.n - (size_t)(at - name.text), "__", 2);
                if (!at)
                        return false;
                if (has_unit(units, NAME_ADA, (Part){ name.text, (size_t)(at - name.text) }))
                        return true;
                at += 2;
        }
        return false;
}

/* Parts of `name__unit_12.part.0`; what compilers add behind a dot is left out. Return: whether it has them. */
static bool split_nim(Part whole, Part *name, Part *unit) {
        const char *dot = memchr(whole.text, '.', whole.n);
        size_t end = dot ? (size_t)(dot - whole.text) : whole.n, n = end, start;

        while (n && is_digit(whole.text[n - 1]))
                n--;
        if (n == end)
                return false;
        if (n && whole.text[n - 1] == 'u')
                n--;
        if (!n || whole.text[--n] != '_')
                return false;
        for (start = n; start && (is_letter(whole.text[start - 1]) || is_digit(whole.text[start - 1]));)
                start--;
        if (start == n || start < 3 || memcmp(whole.text + start - 2, "__", 2))
                return false;
        *unit = (Part){ whole.text + start, n - start };
        *name = (Part){ whole.text, start - 2 };
        return true;
}

/* Parts of `unit_name_info`, or of `unit_name_con_info`. Return: whether it has them. */
static bool split_haskell(Part whole, Part *name, Part *unit) {
        Part rest = { whole.text, whole.n - strlen("_info") };

        if (!ends_with(whole, "_info"))
                return false;
        *unit = before_last(ends_with(rest, "_con") ? (Part){ rest.text, rest.n - 4 } : rest, '_');
        if (!unit->n)
                return false;
        *name = (Part){ unit->text + unit->n + 1, rest.n - unit->n - 1 };
        return true;
}

NameLanguage language_of(const LanguageUnits *units, const char *text, size_t n) {
        Part whole = { text, n }, name, unit;

        if (!units->units.n_entries)
                return NAME_PLAIN;
        if (is_ada(units, whole))
                return NAME_ADA;
        if (split_nim(whole, &name, &unit) && has_unit(units, NAME_NIM, unit))
                return NAME_NIM;
        if (units->has_haskell && split_haskell(whole, &name, &unit) && has_unit(units, NAME_HASKELL, unit))
                return NAME_HASKELL;
        return NAME_PLAIN;
}

/* ---- reading ---- */

typedef struct Output {
        char *to;
        size_t n, room;                 /* without the NUL */
        bool has_failed;                /* there is no more room, or no reading */
} Output;

static void put(Output *output, const char *text, size_t n) {
        output->has_failed |= n > output->room - output->n;
        if (output->has_failed)
                return;
        memcpy(output->to + output->n, text, n);
        output->n += n;
}

static void put_one(Output *output, char c) {
        put(output, &c, 1);
}

/* Words that Nim writes for characters of operators. */
static const struct {
        const char *word;
        char c;
} nim_words[] = {
        { "backslash", '\\' }, { "dollar", '$' }, { "percent", '%' }, { "minus", '-' }, { "slash", '/' },
        { "tilde", '~' }, { "colon", ':' }, { "emark", '!' }, { "qmark", '?' }, { "roof", '^' }, { "star", '*' },
        { "plus", '+' }, { "amp", '&' }, { "dot", '.' }, { "bar", '|' }, { "at", '@' }, { "eq", '=' },
        { "lt", '<' }, { "gt", '>' }, { "X5B", '[' }, { "X5D", ']' }, { "X7B", '{' }, { "X7D", '}' },
        { "X28", '(' }, { "X29", ')' },
};

/* Return: the index of the word that @text begins with, or the number of words. */
static size_t nim_word(Part text) {
        size_t i;

        for (i = 0; i < ARRAY_SIZE(nim_words); i++) {
                size_t n = strlen(nim_words[i].word);

                if (n <= text.n && !memcmp(text.text, nim_words[i].word, n))
                        break;
        }
        return i;
}

/* Whether @text is made of such words alone; @to: NULL = only look. */
static bool put_nim_operator(Output *to, Part text) {
        while (text.n) {
                size_t i = nim_word(text), n;

                if (i == ARRAY_SIZE(nim_words))
                        return false;
                if (to)
                        put_one(to, nim_words[i].c);
                n = strlen(nim_words[i].word);
                text = (Part){ text.text + n, text.n - n };
        }
        return true;
}

static bool is_nim_hook(Part name) {
        static const char *const hooks[] = { "destroy", "copy", "sink", "trace", "dup", "deepcopy", "wasMoved" };

        for (size_t i = 0; i < ARRAY_SIZE(hooks); i++)
                if (name.n == strlen(hooks[i]) && !memcmp(name.text, hooks[i], name.n))
                        return true;
        return false;
}

/*
 * A name with `_` at its end has words in it: an operator, a setter (`value=`), a hook (`=destroy`), or a
 * function without a name. `pluseq` may be `+=`, or the setter of a field `plus`.
 */
static void put_nim_special(Output *output, Part name) {
        Part field = { name.text, name.n - 2 };

        if (name.n == strlen("colonanonymous") && !memcmp(name.text, "colonanonymous", name.n)) {
                put(output, ":anonymous", strlen(":anonymous"));
        } else if (name.n > 2 && !memcmp(name.text, "eq", 2) &&
                   is_nim_hook((Part){ name.text + 2, name.n - 2 })) {
                put_one(output, '=');
                put(output, name.text + 2, name.n - 2);
        } else if (ends_with(name, "eq") && !memchr(name.text, 'X', name.n)) {
                output->has_failed |= put_nim_operator(NULL, field);
                put(output, field.text, field.n);
                put_one(output, '=');
        } else {
                output->has_failed |= !put_nim_operator(output, name);
        }
}

/* The module alone, without folders: `dirZmy95mod` is dir/my_mod. Other characters have their decimal number. */
static void put_nim_module(Output *output, Part unit) {
        const char *slash = memrchr(unit.text, 'Z', unit.n);
        size_t i = slash ? (size_t)(slash - unit.text) + 1 : 0;

        while (i < unit.n) {
                unsigned value = 0, n = unit.text[i] == '1' || unit.text[i] == '2' ? 3 : 2;

                if (is_letter(unit.text[i])) {
                        put_one(output, unit.text[i++]);
                        continue;
                }
                for (; n && i < unit.n && is_digit(unit.text[i]); n--)
                        value = value * 10 + (unsigned)(unit.text[i++] - '0');
                output->has_failed |= n > 0 || value <= ' ' || value > UINT8_MAX;
                put_one(output, (char)value);
        }
}

static void read_nim(Output *output, Part whole) {
        Part name, unit;

        if (!split_nim(whole, &name, &unit)) {
                output->has_failed = true;
                return;
        }
        put_nim_module(output, unit);
        put_one(output, '.');
        if (name.n > 1 && name.text[name.n - 1] == '_')
                put_nim_special(output, (Part){ name.text, name.n - 1 });
        else
                put(output, name.text, name.n);
}

static void put_character(Output *output, uint32_t c) {
        static const uint8_t first[] = { 0, 0xc0, 0xe0, 0xf0 };
        unsigned n = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;        /* bytes that follow */

        output->has_failed |= c <= ' ' || c == 0x7f || c > 0x10ffff || (c >= 0xd800 && c < 0xe000);
        put_one(output, (char)(first[n] | c >> 6 * n));
        while (n--)
                put_one(output, (char)(0x80 | (c >> 6 * n & 0x3f)));
}

/* `z03b1U`: a character by its number. Return: bytes that are read. */
static size_t put_haskell_number(Output *output, Part at) {
        static const char digits[] = "0123456789abcdef";
        uint32_t value = 0;
        size_t i = 1;

        for (; i < at.n && i < 8 && at.text[i] && strchr(digits, at.text[i]); i++)
                value = value << 4 | (uint32_t)(strchr(digits, at.text[i]) - digits);
        output->has_failed |= i == at.n || at.text[i] != 'U';
        put_character(output, value);
        return i + 1;
}

/* `Z3T`, (,,), and `Z3H`, (#,,#); of one part, () and (# #). Return: bytes that are read. */
static size_t put_haskell_tuple(Output *output, Part at) {
        unsigned n = 0;
        bool is_bare;
        size_t i = 1;

        for (; i < at.n && i < 4 && is_digit(at.text[i]); i++)
                n = n * 10 + (unsigned)(at.text[i] - '0');
        output->has_failed |= i == at.n || (at.text[i] != 'T' && at.text[i] != 'H') || n > MAX_TUPLE;
        if (output->has_failed)
                return at.n;
        is_bare = at.text[i] == 'H';
        put(output, "(#", is_bare ? 2 : 1);
        if (is_bare && n == 1)
                put_one(output, ' ');
        while (n > 1) {
                put_one(output, ',');
                n--;
        }
        put(output, is_bare ? "#)" : ")", is_bare ? 2 : 1);
        return i + 1;
}

static const char haskell_upper[] = "L(R)M[N]C:ZZ", haskell_lower[] = "zza&b|c^d$e=g>h#i.l<m-n!p+q'r\\s/t*u_v%";

/* Return: what @code stands for in @table, pairs of a code and a character; 0 = nothing. */
static char coded(const char *table, char code) {
        for (; table[0]; table += 2)
                if (table[0] == code)
                        return table[1];
        return 0;
}

static void put_haskell(Output *output, Part text) {
        size_t i = 0;

        while (i < text.n && !output->has_failed) {
                Part at = { text.text + i, text.n - i };
                char c = at.text[0], next = at.n > 1 ? at.text[1] : 0;

                if (c != 'z' && c != 'Z') {
                        put_one(output, c);
                        i++;
                } else if (is_digit(next)) {
                        i += c == 'z' ? put_haskell_number(output, at) : put_haskell_tuple(output, at);
                } else {
                        c = coded(c == 'z' ? haskell_lower : haskell_upper, next);
                        output->has_failed |= !c;
                        put_one(output, c);
                        i += 2;
                }
        }
}

/* The package of `pkg_DataziMap_insert` is left out; a constructor's code keeps `_con` behind its name. */
static void read_haskell(Output *output, Part whole) {
        Part name, unit;
        size_t n_package;

        if (!split_haskell(whole, &name, &unit)) {
                output->has_failed = true;
                return;
        }
        n_package = before_last(unit, '_').n;
        n_package += n_package > 0;
        put_haskell(output, (Part){ unit.text + n_package, unit.n - n_package });
        put_one(output, '.');
        put_haskell(output, name);
}

size_t language_readable(NameLanguage language, const char *name, char *to, size_t room) {
        Output output = { .to = to, .room = room ? room - 1 : 0 };
        Part whole = { name, strlen(name) };

        if (language == NAME_NIM)
                read_nim(&output, whole);
        else if (language == NAME_HASKELL)
                read_haskell(&output, whole);
        if (!output.n || output.has_failed)
                return 0;
        to[output.n] = 0;
        return output.n;
}
