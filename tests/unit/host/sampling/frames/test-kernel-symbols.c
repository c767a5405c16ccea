/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "allocated.h"
#include "core/base/util/stat.h"
#include "host/sampling/frames/kallsyms.h"
#include "host/sampling/frames/kernel-symbols.h"
#include "oracle.h"
#include "stat-reset.h"

/* The kernel moved by 0x1c000000, as KASLR does. */
static const char shifted[] =
        "0000000000000000 A fixed_percpu_data\n"
        "ffffffff9d000000 T _stext\n"
        "ffffffff9d000000 T _text\n"
        "ffffffff9d000000 T startup_64\n"
        "ffffffff9d0a3000 t __pfx_tcp_push\n"
        "ffffffff9d0a3010 t tcp_push\n"
        "ffffffff9d0a3c00 t __tcp_alias\n"
        "ffffffff9d0a3c00 T tcp_sendmsg\n"
        "ffffffff9d0a3c00 W tcp_weak\n"
        "ffffffff9d0a4000 T tcp_end\n"
        "ffffffff9d0a4000 D some_data\n"
        "ffffffffc0406000 t nft_last\t[nf_tables]\n"
        "ffffffffc0405000 t nft_do_chain\t[nf_tables]\n"
        "ffffffffc0700000 t ext_first\t[no_notes]\n"
        "ffffffffc0800000 t bpf_prog_1234_x\t[bpf]\n";

static const char modules[] = "nf_tables 8192 84 nft_compat,nft_ct, Live 0xffffffffc0405000 (E)\n"
                              "no_notes 4096 0 - Live 0xffffffffc0700000\n"
                              "../evil 4096 0 - Live 0xffffffffc0900000\n"
                              "hidden 4096 0 - Live 0x0000000000000000\n";

/* {4, 4, 3, "GNU\0", content} as in /sys/kernel/notes, after a note of another kind. */
static const char notes[] = "\6\0\0\0\4\0\0\0\1\0\0\0Linux\0\0\0\0\0\0\0"
                            "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0\xde\xad\xbe\xef";
static const char module_notes[] = "\4\0\0\0\3\0\0\0\3\0\0\0GNU\0\xca\xfe\x01\0";

static char directory[] = "/tmp/test-kernel-XXXXXX";
static KernelPaths paths;

static char *put(const char *name, const void *data, size_t size) {
        static char files[8][256];
        static unsigned n;
        char *path = files[n++ % 8];
        FILE *file;

        snprintf(path, sizeof(files[0]), "%s/%s", directory, name);
        file = fopen(path, "w");
        cr_assert_not_null(file);
        fwrite(data, 1, size, file);
        fclose(file);
        return path;
}

static void make_files(void) {
        char path[256];

        cr_assert_not_null(mkdtemp(directory));
        paths.kallsyms = put("kallsyms", shifted, sizeof(shifted) - 1);
        paths.modules = put("modules", modules, sizeof(modules) - 1);
        paths.notes = put("notes", notes, sizeof(notes) - 1);
        paths.module_directory = directory;
        paths.system_map = put("System.map", "ffffffff81000000 T _text\n", 25);
        snprintf(path, sizeof(path), "%s/nf_tables", directory);
        mkdir(path, 0700);
        snprintf(path, sizeof(path), "%s/nf_tables/notes", directory);
        mkdir(path, 0700);
        put("nf_tables/notes/.note.gnu.build-id", module_notes, sizeof(module_notes) - 1);
}

static void remove_files(void) {
        char command[64];

        snprintf(command, sizeof(command), "rm -r %s", directory);
        cr_assert_eq(system(command), 0);
}

static const char *string(const Window *window, uint32_t index) {
        size_t size;

        return window_get_string(window, index, &size);
}

typedef struct Expected {
        uint64_t raw;
        const char *function, *module, *build_id;
        uint64_t address;
} Expected;

static void check(Kernel *kernel, Window *window, const Expected *expected) {
        const WindowModule *module;
        WindowFrame frame;
        FrameWord word;

        cr_assert_eq(kernel_frame(kernel, window, expected->raw, &word), 0);
        frame = window_expand_frame(window, word);
        module = window_get_module(window, frame.module);
        cr_expect_str_eq(string(window, frame.type), "kernel", "%lx", expected->raw);
        cr_expect_str_eq(string(window, window_get_function(window, frame.function)->name),
                         expected->function, "%lx", expected->raw);
        cr_expect_str_eq(string(window, module->path), expected->module, "%lx", expected->raw);
        cr_expect_str_eq(string(window, module->build_id_gnu), expected->build_id, "%lx", expected->raw);
        cr_expect_eq(frame.address, expected->address, "%lx", expected->raw);
        if (frame.module)
                cr_expect(module->start <= frame.address && frame.address < module->limit, "%lx",
                          expected->raw);
}

Test(kernel, ships_names_and_linked_addresses_of_a_kernel_that_was_moved) {
        static const Expected all[] = {
                { 0xffffffff9d000000, "startup_64", "vmlinux", "deadbeef", 0xffffffff81000000 },
                { 0xffffffff9d0a3c45, "tcp_sendmsg", "vmlinux", "deadbeef", 0xffffffff810a3c45 },
                { 0xffffffff9d0a3bff, "tcp_push", "vmlinux", "deadbeef", 0xffffffff810a3bff },
                { 0xffffffff9d0a3010, "tcp_push", "vmlinux", "deadbeef", 0xffffffff810a3010 },
                { 0xffffffff9d0a4010, "tcp_end", "vmlinux", "deadbeef", 0xffffffff810a4010 },
                { 0xffffffffc0405123, "nft_do_chain", "nf_tables", "cafe01", 0x123 },
                { 0xffffffffc0406fff, "nft_last", "nf_tables", "cafe01", 0x1fff },
                { 0xffffffffc0700010, "ext_first", "", "", 0x10 },    /* no build id: no mapping */
                { 0xffffffffc0800010, "bpf_prog_1234_x", "", "", 0 }, /* a raw address would tell */
                { 0xffffffffc0407000, "nft_last", "", "", 0 },        /* behind the module, near it */
                { 0xffffffffc0990000, "", "", "", 0 },
                { 0x1000, "", "", "", 0 },
        };
        Window *window;
        Kernel *kernel;

        make_files();
        stat_reset();
        cr_assert_eq(kernel_new(&kernel, &paths), 0);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
                check(kernel, window, &all[i]);
        cr_assert_eq(stat_get(COUNTER_FRAMES_KERNEL), 10);
        cr_assert_eq(stat_get(COUNTER_FRAMES_KERNEL_HIDDEN), 2);

        /* Nothing in the window's frames is an address of the moved kernel. */
        for (uint32_t i = 1; i < window_n_frames(window); i++)
                cr_expect_neq(window_get_frame(window, i)->address >> 24, 0xffffffff9d);
        window_free(window);

        cr_assert_eq(window_new(&window, 2, 0, NULL), 0);       /* indexes of the last window are forgotten */
        check(kernel, window, &all[1]);
        check(kernel, window, &all[5]);
        window_free(window);
        kernel_free(kernel);
        remove_files();
}

Test(kernel, takes_the_architectures_default_when_system_map_is_a_stub) {
        FrameWord word;
        Window *window;
        Kernel *kernel;

        make_files();
        paths.system_map = put(
                "stub", "ffffffffffffffff B The real System.map is in the linux-image-dbg package\n", 73);
        cr_assert_eq(kernel_new(&kernel, &paths), 0);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        cr_assert_eq(kernel_frame(kernel, window, 0xffffffff9d000000, &word), 0);       /* _text */
#if defined(__x86_64__)
        cr_assert_eq(window_expand_frame(window, word).address, 0xffffffff81000000);
#else
        cr_assert_eq(window_expand_frame(window, word).address >> 40, 0xffff80);
#endif
        window_free(window);
        kernel_free(kernel);
        remove_files();
}

Test(kernel, counts_frames_without_names_when_addresses_are_hidden) {
        static const char hidden[] = "0000000000000000 T _text\n0000000000000000 T tcp_sendmsg\n";
        static const Expected nothing = { 0xffffffff9d0a3c45, "", "", "", 0 };
        Window *window;
        Kernel *kernel;

        make_files();
        stat_reset();
        paths.kallsyms = put("hidden", hidden, sizeof(hidden) - 1);
        cr_assert_eq(kernel_new(&kernel, &paths), 0);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        check(kernel, window, &nothing);
        cr_assert_eq(stat_get(COUNTER_FRAMES_KERNEL_HIDDEN), 1);
        window_free(window);
        kernel_free(kernel);

        paths = (KernelPaths){ "/nonexistent", "/nonexistent", "/nonexistent", "/nonexistent",
                               "/nonexistent" };
        cr_assert_eq(kernel_new(&kernel, &paths), 0);
        cr_assert_eq(window_new(&window, 1, 0, NULL), 0);
        check(kernel, window, &nothing);
        window_free(window);
        kernel_free(kernel);
        remove_files();
}

/* Asks awk for the last function at or below some addresses of this very kernel. */
Test(kallsyms, agrees_with_a_search_through_the_text_of_this_kernel) {
        static const char command[] =
                "grep -E ' [tTwW] ' /proc/kallsyms | grep -v -E '__pfx_|__cfi_| _text| _stext|\\[' | "
                "awk '{ if ($1 != last) { if (last != \"\" && n == 1) print last, name; last = $1; n = 0 } n++; name = $3 }' | "
                "awk 'NR % 500 == 7'";
        int fd = open("/proc/kallsyms", O_RDONLY);
        long n_bytes = allocated_bytes();
        unsigned n = 0;
        Kallsyms kallsyms;
        char line[1024];
        FILE *pipe;

        cr_assert_eq(kallsyms_load(&kallsyms, fd), 0);
        n_bytes = allocated_bytes() - n_bytes;
        close(fd);
        if (!kallsyms.text)
                cr_skip_test("kallsyms shows no addresses");
        pipe = popen(command, "r");
        while (fgets(line, sizeof(line), pipe)) {
                char expected[512];
                unsigned long address;
                const char *name;
                uint64_t start;

                cr_assert_eq(sscanf(line, "%lx %511s", &address, expected), 2);
                name = kallsyms_find(&kallsyms, address, &start);
                cr_assert_not_null(name);
                cr_expect_str_eq(name, expected);
                cr_expect_eq(start, address);
                name = kallsyms_find(&kallsyms, address - 1, &start);
                cr_expect(!name || start < address);
                n++;
        }
        pclose(pipe);
        cr_assert_gt(n, 20);
        cr_assert_lt(n_bytes, 40L * (kallsyms.n_symbols + kallsyms.n_extras));
        kallsyms_deinit(&kallsyms);
}
