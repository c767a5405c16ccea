/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libiberty parses and prints; this file bounds the work.
 *
 *     length   names over DEMANGLE_MAX_INPUT are not tried; libiberty refuses C++ names over 1024 bytes
 *     depth    libiberty's own limit of recursion (1024 Rust, 2048 parts C++) stays on
 *     output   the printer hands us pieces of up to 255 bytes. At the end of the room a jump leaves it: it
 *              has no way to stop, and its state lies on its stack (C++: in a block that we own)
 *     work     a C++ name is a graph in which a part may be referred to any number of times (`S_`). The
 *              printer walks it as a tree: 20 times `FvS0_S1_E`, each about the one before, is a tree of a
 *              million parts, even if not a letter is printed. Its size is counted first, each part once
 *
 * rust-grammar.h bounds the work that Rust's printer does without printing.
 */
#include "core/symbol/function/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/symbol/function/rust-grammar.h"
#undef ARRAY_SIZE                       /* libiberty has its own */
#include "core/base/data/hashmap.h"
#include "core/base/util/macro.h"

enum {
        MAX_TREE = 1 << 16,             /* parts that the printer may visit */
        /* parts of the graph: libiberty's limit, which counts two for each byte */
        MAX_PARTS = 2048,
        MAX_D_INPUT = 1024,
        MAX_D_REFERENCES = 10,
};

typedef struct Output {
        char *to;
        size_t size, room;
        jmp_buf full;
} Output;

/*
 * A piece with a byte beyond ASCII comes from a decoded (punycode) Rust identifier, which libiberty frees
 * after the call: such a piece is dropped, and the next one ends it.
 */
static void append(const char *data, size_t size, void *userdata) {
        Output *output = userdata;

        if (!size)
                return;
        if (size < output->room - output->size) {
                memcpy(output->to + output->size, data, size);
                output->size += size;
                return;
        }
        for (size_t i = 0; i < size; i++)
                if (data[i] & 0x80)
                        return;
        longjmp(output->full, 1);
}

static uint64_t tree_size(Hashmap *sizes, const struct demangle_component *part, unsigned depth);

static uint64_t children_size(Hashmap *sizes, const struct demangle_component *part, unsigned depth) {
        switch (part->type) {
        case DEMANGLE_COMPONENT_NAME:
        case DEMANGLE_COMPONENT_OPERATOR:
        case DEMANGLE_COMPONENT_BUILTIN_TYPE:
        case DEMANGLE_COMPONENT_EXTENDED_BUILTIN_TYPE:
        case DEMANGLE_COMPONENT_SUB_STD:
        case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
        case DEMANGLE_COMPONENT_FUNCTION_PARAM:
        case DEMANGLE_COMPONENT_CHARACTER:
        case DEMANGLE_COMPONENT_NUMBER:
                return 0;
        case DEMANGLE_COMPONENT_EXTENDED_OPERATOR:
                return tree_size(sizes, part->u.s_extended_operator.name, depth);
        case DEMANGLE_COMPONENT_FIXED_TYPE:
                return tree_size(sizes, part->u.s_fixed.length, depth);
        case DEMANGLE_COMPONENT_CTOR:
                return tree_size(sizes, part->u.s_ctor.name, depth);
        case DEMANGLE_COMPONENT_DTOR:
                return tree_size(sizes, part->u.s_dtor.name, depth);
        case DEMANGLE_COMPONENT_LAMBDA:
        case DEMANGLE_COMPONENT_DEFAULT_ARG:
        case DEMANGLE_COMPONENT_UNNAMED_TYPE:
                return part->type == DEMANGLE_COMPONENT_UNNAMED_TYPE
                               ? 0 : tree_size(sizes, part->u.s_unary_num.sub, depth);
        default:
                return tree_size(sizes, part->u.s_binary.left, depth) +
                        tree_size(sizes, part->u.s_binary.right, depth);
        }
}

/* Nodes of the graph below @part, taken as a tree; over MAX_TREE it is not counted further. */
static uint64_t tree_size(Hashmap *sizes, const struct demangle_component *part, unsigned depth) {
        uint64_t size;

        if (!part)
                return 0;
        size = (uint64_t)(uintptr_t)hashmap_get(sizes, (uint64_t)(uintptr_t)part);
        if (size || depth == MAX_PARTS)
                return size ? size : MAX_TREE;
        size = MIN(1 + children_size(sizes, part, depth + 1), (uint64_t)MAX_TREE);
        if (hashmap_put(sizes, (uint64_t)(uintptr_t)part, (void *)(uintptr_t)size) < 0)
                return MAX_TREE;
        return size;
}

static bool is_small(const struct demangle_component *tree) {
        Hashmap sizes = { 0 };
        uint64_t size = tree_size(&sizes, tree, 0);

        hashmap_deinit(&sizes);
        return size < MAX_TREE;
}

/*
 * A function of its own, so that all it keeps across setjmp() is in memory. Return: whether all was printed.
 */
static bool print_cxx(struct demangle_component *tree, int options, Output *output) {
        if (setjmp(output->full))
                return false;
        return cplus_demangle_print_callback(options, tree, append, output);
}

static bool demangle_cxx(const char *name, int options, Output *output) {
        struct demangle_component *tree;
        void *block = NULL;
        bool is_done;

        if (2 * strlen(name) > MAX_PARTS)
                return false;
        tree = cplus_demangle_v3_components(name, options, &block);
        is_done = tree && is_small(tree) && print_cxx(tree, options, output);
        free(block);
        return is_done;
}

/*
 * Names of code that runs before main() or after it for one file: `_GLOBAL__sub_I_` and a name, in
 * libiberty's words.
 */
static bool demangle_global(const char *name, int options, Output *output) {
        static const char prefix[] = "_GLOBAL_";
        const char *rest = name + strlen(prefix), *text;

        if (strncmp(name, prefix, strlen(prefix)) != 0 || !rest[0] || !strchr("._$", rest[0]) || !rest[1] ||
            !strchr("DI", rest[1]) || rest[2] != '_')
                return false;
        text = rest[1] == 'I' ? "global constructors keyed to " : "global destructors keyed to ";
        rest += 3;
        if (strlen(text) + strlen(rest) >= output->room)
                return false;
        append(text, strlen(text), output);
        if (strncmp(rest, "_Z", 2) != 0)
                append(rest, strlen(rest), output);
        else if (!demangle_cxx(rest, options, output))
                return false;
        return true;
}

static bool demangle_rust(const char *name, int options, Output *output) {
        if (!strncmp(name, "_R", 2) && !rust_name_is_sound(name + 2))
                return false;
        if (setjmp(output->full))
                return false;
        return rust_demangle_callback(name, options, append, output);
}

/*
 * libiberty's demangler of D gives a string of its own, and no limit can be set. A part may be referred to by
 * `Q`, so each of these at most doubles what is printed.
 */
static bool demangle_d(const char *name, Output *output) {
        size_t n_references = 0, size = strlen(name);
        char *text;

        for (const char *at = name; (at = strchr(at, 'Q')); at++)
                n_references++;
        if (strncmp(name, "_D", 2) || size > MAX_D_INPUT || n_references > MAX_D_REFERENCES)
                return false;
        text = dlang_demangle(name, DMGL_NO_OPTS);
        size = text ? strlen(text) : 0;
        if (size && size < output->room) {
                memcpy(output->to, text, size);
                output->size = size;
        }
        free(text);
        return output->size > 0;
}

/*
 * libiberty writes what it cannot read in angle brackets. What compilers add behind a dot, it knows only
 * where it is a number, so it is left out.
 */
static bool demangle_ada(const char *name, Output *output) {
        char plain[DEMANGLE_MAX_INPUT] = "", *text;
        size_t size;

        memcpy(plain, name, MIN(strcspn(name, "."), sizeof(plain) - 1));
        text = ada_demangle(plain, DMGL_NO_OPTS);
        size = text && text[0] != '<' ? strlen(text) : 0;
        if (size && size < output->room) {
                memcpy(output->to, text, size);
                output->size = size;
        }
        free(text);
        return output->size > 0;
}

static int hex_digit(char c) {
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The character that `$` and two digits at @at mean; 0 = no such one. */
static char escaped(const char *at) {
        int high = hex_digit(at[1]), low = high < 0 ? -1 : hex_digit(at[2]);
        int value = low < 0 ? 0 : high << 4 | low;

        return (char)(*at == '$' && value > ' ' && value < 0x7f ? value : 0);
}

/*
 * OCaml writes `caml`, the module, `__` (before 5.1; then `.`) and the function with a number. Modules in a
 * module are parted by `__`, too; `$` and two digits are another character (asmcomp's Compilenv, cmm_helpers).
 */
static bool demangle_ocaml(const char *name, Output *output) {
        if (strncmp(name, "caml", 4))
                return false;
        for (name += 4; *name && output->size + 1 < output->room; name++) {
                char c = *name;

                if (c == '_' && name[1] == '_' && name[2]) {
                        c = '.';
                        name++;
                } else if (escaped(name)) {
                        c = escaped(name);
                        name += 2;
                }
                output->to[output->size++] = c;
        }
        return !*name;
}

static bool demangle_other(const char *name, Output *output) {
        output->size = 0;
        return demangle_d(name, output) || demangle_ocaml(name, output);
}

size_t demangle(const char *name, DemangleStyle style, char *to, size_t room) {
        int options = style == DEMANGLE_FULL ? DMGL_PARAMS | DMGL_ANSI : DMGL_NO_OPTS;
        Output output = { .to = to, .room = room };

        if (style == DEMANGLE_NONE || !demangle_may(name) || room == 0 ||
            strnlen(name, DEMANGLE_MAX_INPUT) == DEMANGLE_MAX_INPUT)
                return 0;
        if (name_language(name) == NAME_ADA) {
                if (!demangle_ada(name_in_file(name), &output))
                        return 0;
        } else if (name_language(name) != NAME_PLAIN) {
                return language_readable(name_language(name), name_in_file(name), to, room);
        } else if (!demangle_rust(name, options, &output)) {
                output.size = 0;
                if (!demangle_cxx(name, options, &output)) {
                        output.size = 0;
                        if (!demangle_global(name, options, &output) && !demangle_other(name, &output))
                                return 0;
                }
        }
        to[output.size] = 0;
        return output.size;
}
