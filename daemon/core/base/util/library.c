/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loads a library by dlopen() at its first use, and finds each function that its user has named; a library
 * that lacks one counts as missing.
 */

#include "core/base/util/library.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/log.h"

static const char *forbidden;           /* why none is loaded */
static const LibraryFunction *own_functions;

void library_forbid(const char *why, const LibraryFunction *own) {
        forbidden = why;
        own_functions = own;
}

static void *find_own(const char *name) {
        for (const LibraryFunction *own = own_functions; own && own->name; own++)
                if (!strcmp(own->name, name))
                        return own->address;
        return NULL;
}

static int refuse(const Library *library) {
        const char *why = forbidden ? forbidden : dlerror();

        log_error("%s is needed %s, and cannot be loaded: %s", library->soname, library->purpose,
                  why ? why : "out of memory");
        return LIBRARY_E_MISSING;
}

static int load(Library *library) {
        void *handle = forbidden ? NULL : dlopen(library->soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        size_t i = 0;

        if (!handle && !forbidden)
                return refuse(library);
        for (const char *name = library->names; *name; name += strlen(name) + 1) {
                library->functions[i] = handle ? dlsym(handle, name) : find_own(name);
                if (!library->functions[i++])
                        return refuse(library);
        }
        library->is_loaded = true;
        return 0;
}

int library_load(Library *library) {
        static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        int r;

        pthread_mutex_lock(&lock);
        r = library->is_loaded ? 0 : load(library);
        pthread_mutex_unlock(&lock);
        return r;
}

int library_file(const char *soname, char *name, size_t size) {
        char path[PATH_MAX];
        struct link_map *map = NULL;
        void *handle = forbidden ? NULL : dlopen(soname, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
        const char *slash;

        if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map))
                return LIBRARY_E_MISSING;
        slash = strrchr(realpath(map->l_name, path) ? path : map->l_name, '/');
        snprintf(name, size, "%s", slash ? slash + 1 : soname);
        return 0;
}

void library_each_linked(void (*visit)(void *userdata, const char *soname), void *userdata) {
        const char *texts = NULL;

        for (const ElfW(Dyn) *entry = _DYNAMIC; entry->d_tag != DT_NULL; entry++)
                if (entry->d_tag == DT_STRTAB)
                        texts = (const char *)entry->d_un.d_ptr;
        for (const ElfW(Dyn) *entry = _DYNAMIC; texts && entry->d_tag != DT_NULL; entry++)
                if (entry->d_tag == DT_NEEDED)
                        visit(userdata, texts + entry->d_un.d_val);
}
