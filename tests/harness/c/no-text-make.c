/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Makes the ELF file without text of FILE: `no-text-make FILE OUT`. Prints `SIZE SYMBOLS LINES`; status 1 and
 * a word if it cannot.
 */

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/base/file/file.h"
#include "core/symbol/debug/no-text.h"

static int put(const void *data, size_t size, void *userdata) {
        return file_write(*(int *)userdata, data, size);
}

int main(int argc, char **argv) {
        int from = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1, to;
        ElfImage image;
        struct stat st;
        NoText plan;
        int r;

        if (from < 0 || fstat(from, &st) < 0 || elf_image_init(&image, from, 0, (uint64_t)st.st_size)) {
                puts("unreadable");
                return 1;
        }
        r = no_text_plan(&plan, &image);
        if (r) {
                puts(r == NO_TEXT_E_NAMELESS ? "nameless" : "malformed");
                return 1;
        }
        to = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (to < 0 || no_text_write(&plan, &image, put, &to)) {
                puts("unwritable");
                return 1;
        }
        printf("%llu %d %d\n", (unsigned long long)plan.size, plan.has_symbols, plan.has_lines);
        no_text_deinit(&plan);
        elf_image_deinit(&image);
        return 0;
}
