/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OtelRecord.read(): the record of the calling thread as a reader finds it, by the name of the variable that
 * leads to it; the ids, `valid`, the size of attributes and these in hexadecimal digits, or "none".
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

enum { JNI_NEW_STRING_UTF = 167, HEAD = 28, MAX = 640 };

void *Java_OtelRecord_read(void *environment, void *class);

static int find(struct dl_phdr_info *info, size_t size, void *data) {
        (void)size;
        if (!strstr(info->dlpi_name, "libspanprof-otel.so"))
                return 0;
        *(void **)data = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
        return 1;
}

void *Java_OtelRecord_read(void *environment, void *class) {
        void *(*new_string)(void *, const char *);
        void *library = NULL;
        unsigned char **variable;
        char text[2 * MAX + 1] = "none";

        (void)class;
        dl_iterate_phdr(find, &library);
        variable = library ? dlsym(library, "otel_thread_ctx_v1") : NULL;
        if (!variable)
                strcpy(text, "no variable");
        else if (*variable)
                for (int i = 0, n = HEAD + ((*variable)[26] | (*variable)[27] << 8); i < n && i < MAX; i++)
                        sprintf(text + 2 * i, "%02x", (*variable)[i]);
        memcpy(&new_string, *(char **)environment + JNI_NEW_STRING_UTF * sizeof(new_string),
               sizeof(new_string));
        return new_string(environment, text);
}
