/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of a Window
 *
 * What is known about each native frame of a window that came without names: the function, and when lines
 * were asked for, its source line and the functions that were inlined there. Frames that bring a name of
 * their own (runtimes, the kernel, data that was symbolized before) keep it; those of native code get lines
 * too, if they came without.
 *
 *     r = window_names_new(&names, window, symbolizer, &options);
 *     for each word of each stack:
 *             n = window_names_get(names, word, &frames);      0 = nothing more than the window says
 *             frames[0] is innermost, frames[n - 1] the function that the code lies in
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "core/symbol/function/symbolizer.h"

typedef struct WindowNames WindowNames;

/* A frame with a name. Texts live as long as the WindowNames. */
typedef struct NamedFrame {
        const char *name;               /* never NULL; "" = only the line is known */
        const char *linkage_name;       /* as in the file; "" = none */
        const char *file;               /* source file, as the compiler wrote it; "" = not known */
        uint32_t line;                  /* 0 = not known */
        uint32_t start_line;            /* first line of the function; 0 = not known */
        bool is_inlined;                /* into the next one */
} NamedFrame;

typedef struct WindowNamesOptions {
        /* read DWARF, even if the symbolizer was not made for it: file, line, inlined functions */
        bool lines;
        /*
         * Source of an object of the window, for callers that know its process. May be NULL; may return NULL.
         */
        const SymbolSource *(*source)(void *userdata, const WindowModule *module);
        void *userdata;
} WindowNamesOptions;

/* Looks up every native frame of the window once. @options may be NULL. Return: 0, -ENOMEM. */
int window_names_new(WindowNames **namesp, const Window *window, Symbolizer *symbolizer,
                     const WindowNamesOptions *options);
WindowNames *window_names_free(WindowNames *names);
DEFINE_CLEANUP(WindowNames, window_names_free)

/* Return: the number of frames that @word stands for, and *framesp; 0 = no name is known. */
size_t window_names_get(const WindowNames *names, FrameWord word, const NamedFrame **framesp);

/* How the symbols of a module of the window were read; SYMBOL_N_STATES = no frame asked. */
SymbolState window_names_state(const WindowNames *names, uint32_t module);
