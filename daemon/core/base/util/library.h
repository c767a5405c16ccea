/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Libraries that are loaded when something needs them
 *
 * What few commands use and what is slow to load (libcurl brings 26 libraries along) is not linked: a short
 * command would take longer to start than to run. The one file that includes such a library says what it
 * calls,
 *
 *     #define FUNCTIONS(X) X(curl_easy_init) X(curl_easy_cleanup) …
 *     static struct { FUNCTIONS(LIBRARY_POINTER) } lib;
 *     static Library library = LIBRARY(lib, SONAME_CURL, FUNCTIONS, "to send over HTTP");
 *     LIBRARY_NOTE(SONAME_CURL, "http", "recommended", "sends over HTTP")
 *
 * calls library_load(&library) first, and then lib.curl_easy_init(). The pointers have the types of the
 * header. The note stands in the program (section .note.dlopen), so that packages and images learn what ldd
 * does not show.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "sonames.h"

typedef struct Library {
        const char *soname;
        /* names of the functions, each with its zero; an empty one ends them */
        const char *names;
        void **functions;               /* in that order */
        const char *purpose;            /* for the message */
        bool is_loaded;
} Library;

#define LIBRARY_POINTER(_function) typeof(_function) *_function;
#define LIBRARY_NAME(_function) #_function "\0"
#define LIBRARY(_pointers, _soname, _functions, _purpose) \
        { \
                .soname = (_soname), .names = _functions(LIBRARY_NAME), .functions = (void **)&(_pointers), \
                .purpose = (_purpose) \
        }

/* As systemd's specification of such notes has it: a list of features in JSON, by owner FDO. */
#define LIBRARY_NOTE(_soname, _feature, _priority, _description) \
        _LIBRARY_NOTE("[{\"feature\":\"" _feature "\",\"description\":\"" _description "\",\"priority\":\"" _priority \
                      "\",\"soname\":[\"" _soname "\"]}]")
#define _LIBRARY_NOTE(_json) \
        static const struct { \
                Elf64_Nhdr header; \
                char owner[4]; \
                _Alignas(4) char json[sizeof(_json)]; \
        } library_note __attribute__((used, section(".note.dlopen"), aligned(4))) = { \
                { .n_namesz = 4, .n_descsz = sizeof(_json), .n_type = 0x407c0c0a }, "FDO", _json \
        };

enum {
        _LIBRARY_E_SUCCESS,
        /* the library is not installed, or another version; a message was logged */
        LIBRARY_E_MISSING,
};

/* A function that the program has in itself. */
typedef struct LibraryFunction {
        const char *name;
        void *address;
} LibraryFunction;

/*
 * Before the first is loaded: none is. What stands in @own, which a function without a name ends, is there
 * nevertheless; of all else the message says @why. Both are kept.
 */
void library_forbid(const char *why, const LibraryFunction *own);

/* Once is enough, more often costs nothing; any thread may. It stays loaded. Return: 0, LIBRARY_E_MISSING. */
int library_load(Library *library);

/*
 * The file that stands for @soname in this process, as `libcurl.so.4.8.0`: with its version, where
 * distributions put that into the name. The library is loaded, if it is not yet. @name: NUL-terminated, cut
 * to @size. Return: 0, LIBRARY_E_MISSING.
 */
int library_file(const char *soname, char *name, size_t size);

/* The names that this program is linked with, one call each, in the order of the link. */
void library_each_linked(void (*visit)(void *userdata, const char *soname), void *userdata);
