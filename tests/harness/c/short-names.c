/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shortens names by the rules of the text report: lines of `WIDTH NAME` become a line each. With
 * `--together WIDTH` lines are names that stand below each other.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/short-name.h"
#include "core/base/util/macro.h"

enum { MAX_NAMES = 64 };

static int together(size_t width) {
        char *names[MAX_NAMES] = { 0 }, *shorts[MAX_NAMES] = { 0 };
        size_t n = 0, size = 0;

        for (; n < MAX_NAMES && getline(&names[n], &size, stdin) > 0; n++, size = 0)
                names[n][strcspn(names[n], "\n")] = 0;
        if (short_names((const char *const *)names, n, width, shorts))
                return 1;
        for (size_t i = 0; i < n; i++)
                puts(shorts[i]);
        for (size_t i = 0; i < MAX_NAMES; i++) {
                free(names[i]);
                free(shorts[i]);
        }
        return ferror(stdin) || ferror(stdout) ? 1 : 0;
}

int main(int argc, char **argv) {
        _cleanup_(freep) char *line = NULL;
        size_t size = 0;

        if (argc == 3 && !strcmp(argv[1], "--together"))
                return together(strtoul(argv[2], NULL, 10));

        while (getline(&line, &size, stdin) > 0) {
                _cleanup_(freep) char *shorter = NULL;
                char *name;
                size_t width = strtoul(line, &name, 10);

                name[strcspn(name, "\n")] = 0;
                if (short_name(name + (*name == ' '), width, &shorter))
                        return 1;
                puts(shorter);
        }
        return ferror(stdin) || ferror(stdout) ? 1 : 0;
}
