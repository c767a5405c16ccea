/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Replay: runs every file of a corpus directory through a fuzz target once. Prints how
 * many; an empty or missing corpus is a failure, since it would test nothing.
 */

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/file/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
        struct dirent *entry;
        unsigned n = 0;
        DIR *dir;

        if (argc != 2 || !(dir = opendir(argv[1]))) {
                fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
                return 2;
        }
        while ((entry = readdir(dir))) {
                char path[PATH_MAX], *data;
                size_t size;

                if (entry->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
                if (file_read(path, 64 << 20, &data, &size)) {
                        fprintf(stderr, "cannot read %s\n", path);
                        return 1;
                }
                LLVMFuzzerTestOneInput((const uint8_t *)data, size);
                free(data);
                n++;
        }
        closedir(dir);
        printf("%u inputs replayed\n", n);
        return n ? 0 : 1;
}
