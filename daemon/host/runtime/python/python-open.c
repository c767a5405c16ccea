/* SPDX-License-Identifier: Apache-2.0 */
#include "host/runtime/python/python-open.h"

#include <stdio.h>
#include <string.h>

#include "core/base/elf/image.h"
#include "core/base/util/macro.h"

/* ---- which release ---- */

static int unknown(char reason[PYTHON_MAX_REASON], uint32_t version, const char *what) {
        snprintf(reason, PYTHON_MAX_REASON, "python %u.%u: layout unknown: %s", version >> 8, version & 0xff,
                 what);
        return PYTHON_OPEN_E_UNKNOWN;
}

/* 3.8 and 3.9 leave no mark on the native stack, so their evaluator has to be known. */
static int read_table(const PythonProgram *program, PythonOpened *opened) {
        uint32_t version = program->version;

        if (python_layout_of(version, &opened->layout, opened->reason))
                return PYTHON_OPEN_E_UNKNOWN;
        if (opened->layout.chain == PYTHON_CHAIN_EVALUATOR &&
            !program->places[PYTHON_SYMBOL_EVALUATOR].size)
                return unknown(opened->reason, version, "no symbol of the evaluator");
        return 0;
}

static int read_layout(const PythonProgram *program, PythonOpened *opened) {
        const PythonPlace *runtime = &program->places[PYTHON_SYMBOL_RUNTIME];
        uint32_t version = program->version;
        uint64_t words[PYTHON_N_OFFSETS];
        int r;

        if (!version) {
                snprintf(opened->reason, sizeof(opened->reason),
                         "python: layout unknown: no symbols, and older than 3.13");
                return PYTHON_OPEN_E_UNKNOWN;
        }
        if (version < PYTHON_OLDEST)
                return unknown(opened->reason, version, "too old");
        if (version < PYTHON_DESCRIBED)
                return read_table(program, opened);
        if (runtime->size < sizeof(words) ||
            !dynamic_image_read(&program->image, runtime->address, words, sizeof(words)))
                memset(words, 0, sizeof(words));
        r = python_layout_read(words, &opened->layout, opened->reason);
        if (r == PYTHON_LAYOUT_E_EMPTY)
                return unknown(opened->reason, version, "no offsets in the file");
        return r ? PYTHON_OPEN_E_UNKNOWN : 0;
}

int python_open(int fd, uint64_t size, PythonProgram *program, PythonOpened *opened) {
        memset(opened, 0, sizeof(*opened));
        if (!python_program_read(program, fd, NULL, size)) {
                snprintf(opened->reason, sizeof(opened->reason),
                         "python: layout unknown: the file has changed");
                return PYTHON_OPEN_E_UNKNOWN;
        }
        if (read_layout(program, opened))
                return PYTHON_OPEN_E_UNKNOWN;
        memcpy(opened->places, program->places, sizeof(opened->places));
        snprintf(opened->reason, sizeof(opened->reason), "python %u.%u%s", opened->layout.version >> 8,
                 opened->layout.version & 0xff, opened->layout.is_free_threaded ? " free-threaded" : "");
        if (opened->layout.generator_frame)
                python_more_read(PYTHON_MORE_TASKS, fd, size, &opened->more);
        return 0;
}

/* ---- other files ---- */

static bool read_tasks(int fd, uint64_t size, PythonMore *more) {
        _cleanup_(freep) char *data = NULL;
        uint64_t data_size;
        ElfImage image;
        bool is_known;

        if (elf_image_init(&image, fd, 0, size))
                return false;
        is_known = !elf_image_read_section(&image, ".AsyncioDebug", PYTHON_MAX_TASK_SECTION, &data,
                                           &data_size) &&
                data_size >= sizeof(more->tasks);
        elf_image_deinit(&image);
        if (is_known)
                memcpy(more->tasks, data, sizeof(more->tasks));
        return is_known;
}

static bool read_greenlets(int fd, uint64_t size, PythonMore *more) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_init(&image, fd, NULL, size) || !dynamic_image_find_tables(&image) ||
            !dynamic_image_find(&image, "PyInit__greenlet", &index, &symbol))
                return false;
        for (unsigned i = 0; i < image.n_headers; i++) {
                const Elf64_Phdr *header = &image.headers[i];

                if (header->p_type != PT_LOAD || !(header->p_flags & PF_X))
                        continue;
                more->root = header->p_vaddr;
                more->root_size = header->p_memsz;
                return true;
        }
        return false;
}

static bool read_thread_ids(int fd, uint64_t size, PythonMore *more) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        return dynamic_image_init(&image, fd, NULL, size) && dynamic_image_find_tables(&image) &&
                dynamic_image_find(&image, "_thread_db_sizeof_pthread", &index, &symbol) &&
                dynamic_image_read(&image, symbol.st_value, &more->thread_below, sizeof(more->thread_below));
}

bool python_more_read(PythonMoreKind kind, int fd, uint64_t size, PythonMore *more) {
        memset(more, 0, sizeof(*more));
        if ((kind != PYTHON_MORE_TASKS || !read_tasks(fd, size, more)) &&
            (kind != PYTHON_MORE_GREENLETS || !read_greenlets(fd, size, more)) &&
            (kind != PYTHON_MORE_THREADS || !read_thread_ids(fd, size, more)))
                return false;
        more->kind = kind;
        return true;
}
