/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Shortens names by the rules of the text report: lines of `WIDTH NAME` become a line each.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/macro.h"
#include "base/util/short-name.h"

int main(void) {
        _cleanup_(freep) char *line = NULL;
        size_t size = 0;

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
