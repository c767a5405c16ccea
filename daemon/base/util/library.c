/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/util/log.h"

static int refuse(const Library *library) {
        const char *why = dlerror();

        log_error("%s is needed %s, and cannot be loaded: %s", library->soname, library->purpose,
                  why ? why : "out of memory");
        return LIBRARY_E_MISSING;
}

static int load(Library *library) {
        void *handle = dlopen(library->soname, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        size_t i = 0;

        if (!handle)
                return refuse(library);
        for (const char *name = library->names; *name; name += strlen(name) + 1) {
                library->functions[i] = dlsym(handle, name);
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
