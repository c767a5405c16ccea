/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The arithmetic, with numbers of a kernel that KASLR moved by 0x1c000000:
 *
 *     raw address           ffffffff9d0a3c45      in tcp_sendmsg
 *     _text, running        ffffffff9d000000      kallsyms
 *     _text, linked         ffffffff81000000      System.map, else the architecture's default
 *     shipped               ffffffff810a3c45
 *
 * A module has no linked address: its frames count from where it was loaded.
 */
#include "host/sampling/frames/kernel-symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "core/base/data/cursor.h"
#include "core/base/file/file.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "host/sampling/frames/kallsyms.h"

enum {
        MAX_MODULES = 1024,             /* frames of further ones have a name only */
        MAX_MODULES_TEXT = 1 << 20,
        MAX_NOTES = 64 << 10,
        MAX_BUILD_ID = 64,
        /* a function outside of kernel and modules (BPF) is no longer than this */
        MAX_STRAY = 64 << 10,
        NOTE_BUILD_ID = 3,              /* NT_GNU_BUILD_ID */
};

typedef struct KernelModule {
        uint64_t start, size;           /* as loaded */
        char name[56];                  /* MODULE_NAME_LEN */
        char build_id[2 * MAX_BUILD_ID + 1];
        bool has_read_notes;
        uint64_t window_serial;         /* the window whose index is next */
        uint32_t window_module;
} KernelModule;

struct Kernel {
        Kallsyms kallsyms;
        char *module_directory;
        uint64_t link_text;
        KernelModule vmlinux;
        KernelModule *modules;          /* sorted by start */
        size_t n_modules;
};

/*
 * The GNU build id among notes: {u32 name size, u32 content size, u32 type, name, content}, each padded to 4
 * bytes.
 */
static void read_build_id(const char *path, char *hex) {
        _cleanup_(freep) char *data = NULL;
        size_t size;
        Cursor cursor;

        if (file_read(path, MAX_NOTES, &data, &size))
                return;
        cursor = cursor_make(data, size);
        while (cursor_left(&cursor)) {
                uint32_t name_size = cursor_u32(&cursor), content_size = cursor_u32(&cursor),
                         type = cursor_u32(&cursor);
                const char *name = cursor_take(&cursor, ((size_t)name_size + 3) & ~(size_t)3);
                const void *content = cursor_take(&cursor, ((size_t)content_size + 3) & ~(size_t)3);

                if (!name || !content)
                        return;
                if (type == NOTE_BUILD_ID && name_size == 4 && !memcmp(name, "GNU", 4) && content_size &&
                    content_size <= MAX_BUILD_ID) {
                        text_to_hex(hex, content, content_size);
                        return;
                }
        }
}

enum { ARM64_HEAD = 64 << 10 };         /* from _text to _stext (SEGMENT_ALIGN) */

/*
 * 0xffffffff81000000 on x86-64; on arm64 the space for modules in front of it grew from 128 MiB to 2 GiB with
 * Linux 6.5.
 */
static uint64_t default_link_text(const struct utsname *name, bool is_stext) {
        uint64_t head = is_stext ? ARM64_HEAD : 0;
        unsigned major = 0, minor = 0;

        if (strcmp(name->machine, "aarch64"))
                return 0xffffffff81000000;
        sscanf(name->release, "%u.%u", &major, &minor);
        return major > 6 || (major == 6 && minor >= 5) ? 0xffff800080000000 + head :
                                                            0xffff800008000000 + head;
}

/* The address of _text or _stext in System.map; distributions may ship a stub without it. */
static uint64_t system_map_text(const char *path, bool is_stext) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
        char piece[8192];
        ssize_t n = fd < 0 ? 0 : file_pread(fd, piece, sizeof(piece), 0);
        KallsymsCursor cursor = { piece, n < 0 ? 0 : (size_t)n, 0 };
        KallsymsLine line;
        const char *name = is_stext ? "_stext" : "_text";
        int r;

        while ((r = kallsyms_next(&cursor, &line)) != KALLSYMS_E_EOF)
                if (!r && line.name_size == strlen(name) && !memcmp(line.name, name, line.name_size))
                        return line.address;
        return 0;
}

static void find_link_text(Kernel *kernel, const char *system_map) {
        struct utsname name;
        char path[PATH_MAX];

        uname(&name);
        snprintf(path, sizeof(path), "/boot/System.map-%s", name.release);
        kernel->link_text = system_map_text(system_map ? system_map : path, kernel->kallsyms.is_stext);
        if (!kernel->link_text)
                kernel->link_text = default_link_text(&name, kernel->kallsyms.is_stext);
}

/*
 * `nf_tables 372736 84 nft_compat, Live 0xffffffffc0a00000 (E)`. Return: 0, 1 = no such line, or no address
 * shown.
 */
static int parse_module(const char *line, KernelModule *module) {
        char name[sizeof(module->name)];
        uint64_t size, start;

        if (sscanf(line, "%55s %" SCNu64 " %*s %*s %*s 0x%" SCNx64, name, &size, &start) != 3 || !start ||
            !size || start + size < start || strchr(name, '/') || name[0] == '.')
                return 1;
        *module = (KernelModule){ .start = start, .size = size };
        memcpy(module->name, name, sizeof(name));
        return 0;
}

static int compare_modules(const void *a, const void *b) {
        const KernelModule *x = a, *y = b;

        return x->start < y->start ? -1 : x->start > y->start;
}

static int read_modules(Kernel *kernel, const char *path) {
        _cleanup_(freep) char *text = NULL;
        size_t size, room = 0;
        int r;

        if (file_read(path, MAX_MODULES_TEXT, &text, &size))
                return 0;
        for (char *line = text, *next; line && *line && kernel->n_modules < MAX_MODULES; line = next) {
                next = strchr(line, '\n');
                if (next)
                        *next++ = 0;
                r = array_reserve(&kernel->modules, &room, kernel->n_modules + 1u, 32);
                if (r)
                        return r;
                kernel->n_modules += !parse_module(line, &kernel->modules[kernel->n_modules]);
        }
        if (kernel->n_modules)
                qsort(kernel->modules, kernel->n_modules, sizeof(*kernel->modules), compare_modules);
        return 0;
}

int kernel_new(Kernel **kernelp, const KernelPaths *paths) {
        _cleanup_(closep) int fd = open(paths->kallsyms, O_RDONLY | O_CLOEXEC);
        _cleanup_(kernel_freep) Kernel *kernel = calloc(1, sizeof(*kernel));
        int r = 0;

        if (!kernel || !(kernel->module_directory = strdup(paths->module_directory)))
                return error_origin(-ENOMEM);
        if (fd >= 0)
                r = kallsyms_load(&kernel->kallsyms, fd);
        if (!r)
                r = read_modules(kernel, paths->modules);
        if (r)
                return error_fold(r);
        find_link_text(kernel, paths->system_map);
        kernel->vmlinux.start = kernel->kallsyms.text;
        kernel->vmlinux.size = kernel->kallsyms.text_end - kernel->kallsyms.text;
        strcpy(kernel->vmlinux.name, "vmlinux");
        read_build_id(paths->notes, kernel->vmlinux.build_id);
        kernel->vmlinux.has_read_notes = true;
        *kernelp = take(kernel);
        return 0;
}

Kernel *kernel_free(Kernel *kernel) {
        if (!kernel)
                return NULL;
        kallsyms_deinit(&kernel->kallsyms);
        free(kernel->modules);
        free(kernel->module_directory);
        free(kernel);
        return NULL;
}

size_t kernel_n_symbols(const Kernel *kernel) {
        return (size_t)kernel->kallsyms.n_symbols + kernel->kallsyms.n_extras;
}

/* Finds what holds @address: the kernel itself, a module, or nothing. */
static KernelModule *find_module(Kernel *kernel, uint64_t address) {
        size_t low = 0, high = kernel->n_modules;

        if (address - kernel->vmlinux.start < kernel->vmlinux.size)
                return &kernel->vmlinux;
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (kernel->modules[middle].start <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low && address - kernel->modules[low - 1].start < kernel->modules[low - 1].size
                       ? &kernel->modules[low - 1] : NULL;
}

static void read_module_notes(Kernel *kernel, KernelModule *module) {
        char path[PATH_MAX];

        if (module->has_read_notes)
                return;
        module->has_read_notes = true;
        snprintf(path, sizeof(path), "%s/%s/notes/.note.gnu.build-id", kernel->module_directory,
                 module->name);
        read_build_id(path, module->build_id);
}

/* The module's index in this window; 0 if it has no build id: a mapping must have one. */
static int window_index(Kernel *kernel, Window *window, KernelModule *module, uint32_t *indexp) {
        uint64_t start = module == &kernel->vmlinux ? kernel->link_text : 0;
        WindowModule row = { .start = start, .limit = start + module->size };
        int r;

        if (module->window_serial != window_serial(window)) {
                read_module_notes(kernel, module);
                r = window_string(window, module->name, strlen(module->name), &row.path);
                if (!r)
                        r = window_string(window, module->build_id, strlen(module->build_id),
                                          &row.build_id_gnu);
                if (!r)
                        r = window_module(window, &row, &module->window_module);
                if (r)
                        return r;
                module->window_serial = window_serial(window);
        }
        *indexp = module->window_module;
        return 0;
}

/* Name and place of @address. Leaves the frame as it is if there is no name for it. */
static int describe(Kernel *kernel, Window *window, uint64_t address, WindowFrame *frame) {
        KernelModule *module = find_module(kernel, address);
        WindowFunction function = { 0 };
        uint64_t start;
        const char *name = kallsyms_find(&kernel->kallsyms, address, &start);
        int r = 0;

        /* The nearest function below need not be of the same module. */
        if (name && (module ? start < module->start : address - start > MAX_STRAY))
                name = NULL;
        stat_add(name ? COUNTER_FRAMES_KERNEL : COUNTER_FRAMES_KERNEL_HIDDEN, 1);
        if (!name)
                return 0;
        r = window_string(window, name, strlen(name), &function.name);
        if (!r)
                r = window_function(window, &function, &frame->function);
        if (r || !module)
                return r;
        frame->address = address - module->start + (module == &kernel->vmlinux ? kernel->link_text : 0);
        return window_index(kernel, window, module, &frame->module);
}

int kernel_frame(Kernel *kernel, Window *window, uint64_t address, FrameWord *wordp) {
        WindowFrame frame = { 0 };
        int r;

        r = window_string(window, "kernel", 6, &frame.type);
        if (!r)
                r = describe(kernel, window, address, &frame);
        return r ? r : window_frame(window, &frame, wordp);
}
