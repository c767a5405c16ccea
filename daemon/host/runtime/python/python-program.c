/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Most builds export their interpreter, since extensions need it. A program that has one in it may export
 * nothing, and may be stripped, too:
 *
 *     exports (.dynsym)       libpython, python3                  a few small reads say yes or no
 *     .PyRuntime, .symtab     a program that is linked with       3.10 and newer have the section; only then
 *                             libpython.a                         the symbol table is looked through
 *     .PyRuntime alone        the same, stripped: "xdebugpy" at its begin, and the release behind it (3.13)
 *
 * An older one that is stripped has the section, and nothing that says the release: it is Python, and not
 * walked. Without _PyRuntime's section no other table is read, since it would be read of every program.
 */
#include "host/runtime/python/python-program.h"

#include <stdio.h>
#include <string.h>

#include "core/base/elf/image.h"
#include "core/base/util/macro.h"

enum {
        MAX_SYMBOLS_SIZE = 32 << 20,    /* bytes of a symbol table, and of its names; larger ones: not read */
};

static const char *const names[PYTHON_N_SYMBOLS] = {
        [PYTHON_SYMBOL_RUNTIME] = "_PyRuntime",
        [PYTHON_SYMBOL_EVALUATOR] = "_PyEval_EvalFrameDefault",
        [PYTHON_SYMBOL_VERSION] = "Py_Version",
        [PYTHON_SYMBOL_CODE] = "PyCode_Type",
        [PYTHON_SYMBOL_COROUTINE] = "PyCoro_Type",
        [PYTHON_SYMBOL_GENERATOR] = "PyGen_Type",
        [PYTHON_SYMBOL_TEXT] = "PyUnicode_Type",
        [PYTHON_SYMBOL_NUMBER] = "PyLong_Type",
        [PYTHON_SYMBOL_CONTEXT] = "PyContext_Type",
        [PYTHON_SYMBOL_VARIABLE] = "PyContextVar_Type",
        [PYTHON_SYMBOL_DICT] = "PyDict_Type",
        [PYTHON_SYMBOL_TUPLE] = "PyTuple_Type",
        [PYTHON_SYMBOL_TYPE] = "PyType_Type",
        [PYTHON_SYMBOL_MODULE] = "PyModule_Type",
        [PYTHON_SYMBOL_FALSE] = "_Py_FalseStruct",
        [PYTHON_SYMBOL_NONE] = "_Py_NoneStruct",
        [PYTHON_SYMBOL_SEND] = "PyIter_Send",
        [PYTHON_SYMBOL_GET_CODE] = "PyFrame_GetCode",
        [PYTHON_SYMBOL_NEW_CODE] = "PyCode_NewWithPosOnlyArgs",
};

static bool has(const PythonProgram *program, PythonSymbol symbol) {
        return program->places[symbol].address;
}

/* ---- exports ---- */

static void find_export(PythonProgram *program, PythonSymbol which) {
        Elf64_Sym symbol;
        uint32_t index;

        if (dynamic_image_find(&program->image, names[which], &index, &symbol))
                program->places[which] = (PythonPlace){ symbol.st_value, symbol.st_size };
}

static bool find_by_exports(PythonProgram *program) {
        if (!dynamic_image_find_tables(&program->image))
                return false;
        find_export(program, PYTHON_SYMBOL_RUNTIME);
        if (has(program, PYTHON_SYMBOL_RUNTIME))
                find_export(program, PYTHON_SYMBOL_EVALUATOR);
        if (!has(program, PYTHON_SYMBOL_EVALUATOR))
                return false;
        for (unsigned i = PYTHON_SYMBOL_VERSION; i < PYTHON_N_SYMBOLS; i++)
                find_export(program, i);
        return true;
}

/* ---- the symbol table ---- */

static bool is_defined(const Elf64_Sym *symbol) {
        return symbol->st_shndx != SHN_UNDEF && symbol->st_value;
}

/* @strings ends with a NUL: elf_image_read() has put one behind it. */
static void take_symbol(PythonProgram *program, const Elf64_Sym *symbol, const char *strings, uint64_t size) {
        const char *name = symbol->st_name < size ? strings + symbol->st_name : "";

        if (!is_defined(symbol) || (strncmp(name, "Py", 2) && strncmp(name, "_Py", 3)))
                return;
        for (unsigned i = 0; i < PYTHON_N_SYMBOLS; i++)
                if (!strcmp(name, names[i]))
                        program->places[i] = (PythonPlace){ symbol->st_value, symbol->st_size };
}

static void find_by_table(PythonProgram *program, const ElfImage *image) {
        _cleanup_(freep) char *symbols = NULL, *strings = NULL;
        const Elf64_Shdr *table, *text;
        Elf64_Sym symbol;

        if (elf_image_find_section(image, ".symtab", &table) || table->sh_link >= image->n_sections)
                return;
        text = &image->sections[table->sh_link];
        if (table->sh_size > MAX_SYMBOLS_SIZE || text->sh_size > MAX_SYMBOLS_SIZE ||
            elf_image_read(image, table->sh_offset, table->sh_size, &symbols) ||
            elf_image_read(image, text->sh_offset, text->sh_size, &strings))
                return;
        for (uint64_t at = 0; at + sizeof(symbol) <= table->sh_size; at += sizeof(symbol)) {
                memcpy(&symbol, symbols + at, sizeof(symbol));
                take_symbol(program, &symbol, strings, text->sh_size);
        }
}

static bool find_by_section(PythonProgram *program, const ElfImage *image) {
        const Elf64_Shdr *section;

        if (elf_image_find_section(image, ".PyRuntime", &section) || section->sh_type != SHT_PROGBITS ||
            !(section->sh_flags & SHF_ALLOC) || !section->sh_addr)
                return false;
        find_by_table(program, image);
        if (!has(program, PYTHON_SYMBOL_RUNTIME))
                program->places[PYTHON_SYMBOL_RUNTIME] = (PythonPlace){ section->sh_addr, section->sh_size };
        return true;
}

static bool find_in_sections(PythonProgram *program, int fd, const void *data, uint64_t size) {
        ElfImage image;
        bool is;

        if (fd >= 0 ? elf_image_init(&image, fd, 0, size) : elf_image_init_memory(&image, data, size))
                return false;
        is = find_by_section(program, &image);
        elf_image_deinit(&image);
        return is;
}

/* ---- which release ---- */

/* Releases before 3.11 do not say it: the first one that has a function. */
static uint32_t version_by_functions(const PythonProgram *program) {
        if (has(program, PYTHON_SYMBOL_SEND))
                return 0x030a;
        if (has(program, PYTHON_SYMBOL_GET_CODE))
                return 0x0309;
        return has(program, PYTHON_SYMBOL_NEW_CODE) ? 0x0308 : 0x0307;
}

static uint32_t read_version(const PythonProgram *program) {
        uint64_t version, words[2];

        if (has(program, PYTHON_SYMBOL_VERSION))
                return dynamic_image_read(&program->image, program->places[PYTHON_SYMBOL_VERSION].address,
                                          &version, sizeof(version))
                        ? (uint32_t)(version >> 16) & 0xffff
                        : 0;
        if (has(program, PYTHON_SYMBOL_EVALUATOR))
                return version_by_functions(program);
        return dynamic_image_read(&program->image, program->places[PYTHON_SYMBOL_RUNTIME].address, words,
                                  sizeof(words)) &&
                        words[0] == PYTHON_COOKIE
                ? (uint32_t)(words[1] >> 16) & 0xffff
                : 0;
}

bool python_program_read(PythonProgram *program, int fd, const void *data, uint64_t size) {
        PythonProgram found = { 0 };

        if (!dynamic_image_init(&found.image, fd, data, size))
                return false;
        if (!find_by_exports(&found)) {
                memset(found.places, 0, sizeof(found.places));
                if (!find_in_sections(&found, fd, data, size))
                        return false;
        }
        found.version = read_version(&found);
        *program = found;
        /* The pointer leads into the found one. */
        program->image.tls = NULL;
        return true;
}

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

        if (!dynamic_image_open(&image, fd, NULL, size) ||
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

        return dynamic_image_open(&image, fd, NULL, size) &&
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
