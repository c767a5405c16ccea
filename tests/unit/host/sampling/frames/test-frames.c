/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#include "allocated.h"
#include "core/base/util/stat.h"
#include "host/sampling/frames/frames.h"
#include "host/sampling/frames/goexit.h"
#include "host/sampling/frames/made-frame.h"
#include "oracle.h"
#include "stat-reset.h"

static const char victim[] = "#include <stdio.h>\n"
                             "#include <unistd.h>\n"
                             "__attribute__((noinline)) int marker(int x) { return x * 3; }\n"
                             "int main(void) { printf(\"%p\\n\", (void *)marker); fflush(stdout);\n"
                             "for (;;) pause(); return marker(1); }\n";

/* What a test works with: frames, one window, one process with its mappings read. */
typedef struct Bench {
        ObjectCache *objects;
        Frames *frames;
        Window *window;
        Process *process;
} Bench;

static Bench bench(pid_t pid) {
        Bench bench;

        stat_reset();
        cr_assert_eq(object_cache_new(&bench.objects, 16), 0);
        cr_assert_eq(frames_new(&bench.frames), 0);
        cr_assert_eq(window_new(&bench.window, 1, 0, NULL), 0);
        cr_assert_eq(process_new(&bench.process, pid), 0);
        cr_assert_eq(process_read_mappings(bench.process, bench.objects), 0);
        return bench;
}

static void bench_end(Bench *bench) {
        process_free(bench->process);
        window_free(bench->window);
        frames_free(bench->frames);
        object_cache_free(bench->objects);
}

static const char *string(const Bench *bench, uint32_t index) {
        size_t size;

        return window_get_string(bench->window, index, &size);
}

static int stack_of(Bench *bench, const uint64_t *kernel, size_t n_kernel, const uint64_t *user,
                    size_t n_user, enum abi_stack_end *endp, uint32_t *indexp) {
        const StackInput input = { .process = bench->process, .time_ns = 1, .kernel = kernel,
                                   .n_kernel = n_kernel, .user = user, .n_user = n_user };

        return frames_stack(bench->frames, bench->window, &input, endp, indexp);
}

static uint32_t stack(Bench *bench, const uint64_t *user, size_t n) {
        enum abi_stack_end end = ABI_STACK_FP_END;
        uint32_t index = UINT32_MAX;

        cr_assert_eq(stack_of(bench, NULL, 0, user, n, &end, &index), 0);
        return index;
}

static bool is_root(const Bench *bench, uint64_t pc) {
        return frames_is_root(bench->process, process_find_mapping(bench->process, pc), pc);
}

static WindowFrame frame_of(const Bench *bench, uint32_t stack_index, size_t i) {
        const FrameWord *words;
        size_t n;

        words = window_get_stack(bench->window, stack_index, &n);
        cr_assert_lt(i, n);
        return window_expand_frame(bench->window, words[i]);
}

/* The module is the PT_LOAD that holds @symbol. readelf -lW: LOAD offset vaddr paddr filesz memsz … */
static void check_module(const WindowModule *module, const char *path, uint64_t symbol) {
        char command[256], line[256];
        unsigned n = 0;
        FILE *pipe;

        snprintf(command, sizeof(command), "readelf -lW %s | grep ' LOAD '", path);
        pipe = popen(command, "r");
        while (fgets(line, sizeof(line), pipe)) {
                unsigned long offset, address, size;

                cr_assert_eq(sscanf(line, " LOAD %lx %lx %*x %*x %lx", &offset, &address, &size), 3);
                if (symbol < address || symbol - address >= size)
                        continue;
                cr_expect_eq(module->start, address);
                cr_expect_eq(module->limit, address + size);
                cr_expect_eq(module->offset, offset);
                n++;
        }
        pclose(pipe);
        cr_assert_eq(n, 1);
}

/* Frame of `marker` in a program that was linked with @flags, beside what nm and readelf say. */
static void check_linked(const char *flags) {
        char path[] = "/tmp/test-frames-XXXXXX", command[256], expected[256];
        uint64_t marker, symbol, user[2], entry;
        const WindowModule *module;
        OracleChild child;
        WindowFrame frame;
        Bench b;
        uint32_t index;

        close(mkstemp(path));
        if (!oracle_compile(victim, flags, path)) {
                unlink(path);
                cr_skip_test("no compiler that links with %s", flags);
        }
        child = oracle_spawn(path, NULL);
        marker = strtoull(child.line, NULL, 16);
        cr_assert_neq(marker, 0);
        b = bench(child.pid);

        user[0] = marker + 2;           /* leaf: exact */
        user[1] = marker + 5;           /* caller: its return address */
        index = stack(&b, user, 2);
        snprintf(command, sizeof(command), "nm %s | awk '$3 == \"marker\" {print $1}'", path);
        symbol = oracle_hex(command);
        frame = frame_of(&b, index, 0);
        cr_expect_eq(frame.address, symbol + 2, "%s: %lx", flags, frame.address);
        cr_expect_eq(frame_of(&b, index, 1).address, symbol + 4, "%s", flags);
        cr_expect_str_eq(string(&b, frame.type), "native");

        module = window_get_module(b.window, frame.module);
        cr_expect_str_eq(string(&b, module->path), path);
        snprintf(command, sizeof(command), "readelf -n %s 2>/dev/null | awk '/Build ID/ {print $3}'", path);
        if (!oracle_line(command, expected, sizeof(expected)))
                expected[0] = 0;
        cr_expect_str_eq(string(&b, module->build_id_gnu), expected);
        cr_expect_eq(strlen(string(&b, module->build_id_htlhash)), 32);
        check_module(module, path, symbol);
        cr_expect(module->start <= frame.address && frame.address < module->limit);
        cr_expect_eq(stat_get(COUNTER_FRAMES_NATIVE), 2);

        /* The root of its stacks is its entry point. */
        snprintf(command, sizeof(command), "readelf -h %s | awk '/Entry point/ {print $4}'", path);
        entry = oracle_hex(command) - symbol + marker;
        cr_expect(is_root(&b, entry));
        cr_expect(is_root(&b, entry + 0x1f));
        cr_expect_not(is_root(&b, entry + 64));
        cr_expect_not(is_root(&b, entry - 1));
        cr_expect_not(is_root(&b, 0));
        bench_end(&b);
        oracle_end(&child);
        unlink(path);
}

Test(frames, places_a_pie) {
        check_linked("-pie -fPIE");
}

Test(frames, places_an_executable_at_fixed_addresses) {
        check_linked("-static -no-pie");
}

Test(frames, places_objects_whose_addresses_are_not_their_offsets) {
        check_linked("-no-pie -Wl,-Ttext-segment=0x7000000");
        check_linked("-pie -fPIE -Wl,-Ttext=0x234560");
}

Test(frames, does_without_a_gnu_build_id) {
        check_linked("-pie -fPIE -Wl,--build-id=none");
}

Test(frames, knows_the_vdso) {
        uint64_t start = getauxval(AT_SYSINFO_EHDR), user[] = { start + 0x900 };
        Bench b = bench(getpid());
        WindowFrame frame = frame_of(&b, stack(&b, user, 1), 0);
        const WindowModule *module = window_get_module(b.window, frame.module);

        cr_assert_str_eq(string(&b, module->path), "[vdso]");
        cr_assert_neq(module->build_id_gnu, 0);
        cr_assert_eq(module->build_id_htlhash, 0);
        cr_assert_eq(frame.address, 0x900);             /* the image is linked at 0 */
        cr_assert_eq(stat_get(COUNTER_FRAMES_VDSO), 1);
        bench_end(&b);
}

Test(frames, keeps_the_raw_address_where_nothing_is_known_and_counts_it) {
        uint64_t jit = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                 text;
        int fd = open("/etc/passwd", O_RDONLY);
        uint64_t user[4];
        uint32_t index;
        Bench b;

        text = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
        b = bench(getpid());
        user[0] = jit + 16;
        user[1] = text + 17;
        user[2] = 0x7fffdead0001;
        user[3] = 0;
        index = stack(&b, user, 4);
        cr_expect_eq(frame_of(&b, index, 0).address, jit + 16);
        cr_expect_eq(frame_of(&b, index, 1).address, text + 16);
        cr_expect_eq(frame_of(&b, index, 2).address, 0x7fffdead0000);
        cr_expect_eq(frame_of(&b, index, 3).address, 0);
        for (size_t i = 0; i < 4; i++) {
                cr_expect_eq(frame_of(&b, index, i).module, 0);
                cr_expect_str_eq(string(&b, frame_of(&b, index, i).type), "unknown");
        }
        cr_expect_eq(stat_get(COUNTER_FRAMES_ANONYMOUS), 1);
        cr_expect_eq(stat_get(COUNTER_FRAMES_UNREADABLE), 1);
        cr_expect_eq(stat_get(COUNTER_FRAMES_UNMAPPED), 2);
        bench_end(&b);
}

/* The innermost frame alone counts, also of a stack that is known. */
Test(frames, says_why_the_innermost_frame_has_no_name) {
        uint64_t jit = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                 text = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
                                        open("/etc/passwd", O_RDONLY), 0);
        const struct {
                uint64_t leaf;
                enum counter why;
        } cases[] = {
                { jit + 16, COUNTER_NAMELESS_CODE },
                { text + 16, COUNTER_NAMELESS_FILE },
                { 0x7fffdead0001, COUNTER_NAMELESS_UNMAPPED },
                { (uintptr_t)is_root, COUNTER_N },
        };
        Bench b = bench(getpid());
        size_t n_mappings;

        for (int turn = 0; turn < 2; turn++)
                for (size_t i = 0; i < 4; i++) {
                        const uint64_t user[2] = { cases[i].leaf, jit + 17 };

                        stack(&b, user, 2);
                        cr_expect_eq(frames_nameless(b.frames), cases[i].why, "case %zu", i);
                }
        stack(&b, NULL, 0);
        cr_expect_eq(frames_nameless(b.frames), COUNTER_N, "there is no user frame");
        bench_end(&b);
        b = bench(getpid());
        n_mappings = b.process->n_mappings;
        b.process->n_mappings = 0;
        stack(&b, &cases[0].leaf, 1);
        cr_expect_eq(frames_nameless(b.frames), COUNTER_NAMELESS_GONE);
        b.process->n_mappings = n_mappings;
        bench_end(&b);
}

static unsigned n_told;

static int count_told(void *userdata, const Window *window, const Process *process, const FileFrame *frames,
                      size_t n) {
        n_told += (unsigned)n;
        return 0;
}

Test(frames, resolves_a_repeated_stack_once_a_window) {
        uint64_t user[] = { (uintptr_t)printf + 4, (uintptr_t)malloc + 4 }, other[] = { user[1], user[0] };
        const FramesNaming naming = { .files = count_told };
        Bench b = bench(getpid());
        Window *next;
        uint32_t first;

        frames_set_naming(b.frames, &naming);
        first = stack(&b, user, 2);
        cr_assert_eq(n_told, 2);
        for (int i = 0; i < 100; i++)
                cr_assert_eq(stack(&b, user, 2), first);
        cr_assert_eq(n_told, 2);
        cr_assert_neq(stack(&b, other, 2), first);
        cr_assert_neq(stack(&b, user, 1), first);
        cr_assert_eq(n_told, 5);

        /* A program with the same addresses is another one; so is the same with new mappings. */
        b.process->generation++;
        stack(&b, user, 2);
        cr_assert_eq(n_told, 7);
        b.process->maps_serial++;
        stack(&b, user, 2);
        cr_assert_eq(n_told, 9);

        cr_assert_eq(window_new(&next, 2, 0, NULL), 0);
        window_free(b.window);
        b.window = next;
        cr_assert_eq(frame_of(&b, stack(&b, user, 2), 0).module, 1);
        cr_assert_eq(n_told, 11);
        bench_end(&b);
}

Test(frames, counts_the_frames_of_each_sample) {
        uint64_t native[] = { (uintptr_t)printf + 4, (uintptr_t)malloc + 4 },
                 mixed[] = { native[0], getauxval(AT_SYSINFO_EHDR) + 0x900, 0x7fffdead0001 };
        Bench b = bench(getpid());

        for (int i = 0; i < 100; i++)
                stack(&b, native, 2);
        cr_assert_eq(stat_get(COUNTER_FRAMES_NATIVE), 200);
        for (int i = 0; i < 10; i++)
                stack(&b, mixed, 3);
        cr_expect_eq(stat_get(COUNTER_FRAMES_NATIVE), 210);
        cr_expect_eq(stat_get(COUNTER_FRAMES_VDSO), 10);
        cr_expect_eq(stat_get(COUNTER_FRAMES_UNMAPPED), 10);
        bench_end(&b);
}

Test(frames, stays_within_its_memory_whatever_comes) {
        Bench b = bench(getpid());
        long n_bytes = allocated_bytes() - (long)window_memory(b.window);
        uint64_t user[200];

        for (uint64_t i = 0; i < 20000; i++) {
                for (uint64_t k = 0; k < 200; k++)
                        user[k] = (uintptr_t)printf + (i * 200 + k) % 4096;
                stack(&b, user, 200);
        }
        n_bytes = allocated_bytes() - (long)window_memory(b.window) - n_bytes;
        cr_assert_lt(n_bytes, 2 << 20, "%ld", n_bytes);
        bench_end(&b);
}

static unsigned n_refreshes;

static int refresh(void *userdata, Process *process) {
        n_refreshes++;
        return process_read_mappings(process, userdata);
}

Test(frames, has_mappings_read_again_for_code_that_came_later) {
        Bench b = bench(getpid());
        int fd = open("/bin/true", O_RDONLY);
        uint64_t code = (uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0x2000),
                 user[] = { code };

        frames_set_refresh(b.frames, refresh, b.objects);
        cr_assert_neq(frame_of(&b, stack(&b, user, 1), 0).module, 0);
        cr_assert_eq(n_refreshes, 1);
        stack(&b, user, 1);
        cr_assert_eq(n_refreshes, 1);
        bench_end(&b);
}

Test(frames, puts_the_kernels_part_first) {
        uint64_t user[] = { (uintptr_t)printf + 4 };
        uint64_t read_address = oracle_hex("grep -E ' T vfs_read$' /proc/kallsyms"),
                 kernel[] = { read_address + 9, read_address };
        enum abi_stack_end end = ABI_STACK_COMPLETE;
        Bench b = bench(getpid());
        uint32_t index;
        size_t n;

        if (!read_address)
                cr_skip_test("kallsyms shows no addresses");
        cr_assert_eq(stack_of(&b, kernel, 2, user, 1, &end, &index), 0);
        window_get_stack(b.window, index, &n);
        cr_assert_eq(n, 3);
        cr_assert_str_eq(string(&b, window_get_function(b.window, frame_of(&b, index, 0).function)->name),
                         "vfs_read");
        /* The second is a return address: the call is in the function before. */
        cr_assert_str_neq(string(&b, window_get_function(b.window, frame_of(&b, index, 1).function)->name),
                          "vfs_read");
        cr_assert_str_eq(string(&b, frame_of(&b, index, 1).type), "kernel");
        cr_assert_str_eq(string(&b, frame_of(&b, index, 2).type), "native");
        cr_assert_eq(end, ABI_STACK_COMPLETE);
        bench_end(&b);
}

Test(frames, turns_only_fp_end_at_a_root_into_complete) {
        uint64_t entry, user[2];
        enum abi_stack_end end;
        Bench b = bench(getpid());
        uint32_t index;

        entry = getauxval(AT_ENTRY);
        user[0] = (uintptr_t)printf + 4;
        user[1] = entry + 0x21;         /* the return address of _start's only call is about there */
        end = ABI_STACK_FP_END;
        cr_assert_eq(stack_of(&b, NULL, 0, user, 2, &end, &index), 0);
        cr_assert_eq(end, ABI_STACK_COMPLETE);
        end = ABI_STACK_FAULT;
        cr_assert_eq(stack_of(&b, NULL, 0, user, 2, &end, &index), 0);
        cr_assert_eq(end, ABI_STACK_FAULT);
        end = ABI_STACK_FP_END;
        cr_assert_eq(stack_of(&b, NULL, 0, user, 1, &end, &index), 0);
        cr_assert_eq(end, ABI_STACK_FP_END);
        cr_assert_eq(stack_of(&b, NULL, 0, user, 0, &end, &index), 0);
        cr_assert_eq(end, ABI_STACK_FP_END);
        cr_assert_eq(index, 0);
        bench_end(&b);
}

/* Go's goexit as its assembler writes it, and code of like kind that is none. */
static const char goroutines[] = "#include <stdio.h>\n"
                                 "#include <unistd.h>\n"
                                 "extern char goexit[], called[];\n"
                                 "__asm__(\".text\\n.balign 32\\ngoexit: nop\\n call other\\n nop\\n\"\n"
                                 "        \".balign 32\\ncalled: call other\\n nop\\nother: ret\\n\");\n"
                                 "int main(void) { printf(\"%p %p\\n\", goexit, called); fflush(stdout);\n"
                                 "for (;;) pause(); }\n";

Test(frames, ends_a_goroutine_where_go_begins_it) {
        char path[] = "/tmp/test-frames-XXXXXX";
        enum abi_stack_end end = ABI_STACK_FP_END;
        uint64_t goexit, called, user[2];
        const Mapping *mapping;
        OracleChild child;
        uint32_t index;
        Bench b, late;

        close(mkstemp(path));
        if (!oracle_compile(goroutines, "", path)) {
                unlink(path);
                cr_skip_test("tool: no compiler");
        }
        child = oracle_spawn(path, NULL);
        cr_assert_eq(sscanf(child.line, "%lx %lx", &goexit, &called), 2);
        b = bench(child.pid);
        mapping = process_find_mapping(b.process, goexit);
        cr_assert_not_null(mapping);

        cr_expect_not(is_root(&b, called));
        cr_expect_eq(mapping->object->n_goexit_looks, 1);
        cr_expect_not(is_root(&b, goexit + 1), "no function starts there");
        cr_expect_not(is_root(&b, goexit + 6));
        cr_expect_eq(mapping->object->n_goexit_looks, 1, "so nothing is read");
        user[0] = called;
        user[1] = goexit + 1;           /* the return address that Go puts on a new stack */
        cr_expect_eq(stack_of(&b, NULL, 0, user, 2, &end, &index), 0);
        cr_expect_eq(end, ABI_STACK_COMPLETE);
        cr_expect(is_root(&b, goexit));
        cr_expect_not(is_root(&b, called));
        cr_expect_eq(mapping->object->n_goexit_looks, 2, "once it is known nothing is read");
        bench_end(&b);

        /* Code that makes us look in vain makes us do it so often and no more. */
        b = bench(child.pid);
        mapping = process_find_mapping(b.process, goexit);
        for (unsigned i = 0; i < 2 * GOEXIT_MAX_LOOKS; i++)
                cr_expect_not(is_root(&b, called));
        cr_expect_eq(mapping->object->n_goexit_looks, GOEXIT_MAX_LOOKS);
        cr_expect_not(is_root(&b, goexit));
        bench_end(&b);

        /*
         * Of one that is gone the file tells, and where that is gone too, the next process with such a file.
         */
        b = bench(child.pid);
        late = bench(child.pid);
        oracle_end(&child);
        cr_expect(is_root(&b, goexit));
        unlink(path);
        cr_expect_not(is_root(&late, goexit));
        mapping = process_find_mapping(late.process, goexit);
        cr_expect_eq(mapping->object->n_goexit_looks, 0);
        bench_end(&late);
        bench_end(&b);
}

/* A giver of names that answers what the test has set. */
typedef struct Giver {
        int answer, n_asked;
        bool is_past;
        uint64_t serial;
        const char *name;
        uint64_t address;
} Giver;

static int give_name(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                     const char **namep, size_t *sizep, bool *is_pastp) {
        Giver *giver = userdata;

        giver->n_asked++;
        giver->address = address;
        *is_pastp = giver->is_past;
        if (!giver->answer) {
                *namep = giver->name;
                *sizep = strlen(giver->name);
        }
        return giver->answer;
}

static int give_serial(void *userdata, const Process *process, uint64_t *serialp) {
        *serialp = ((Giver *)userdata)->serial;
        return 0;
}

static int give_start(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                      uint64_t *startp) {
        const Giver *giver = userdata;

        *startp = giver->address;
        return giver->answer;
}

#if defined(__x86_64__)
/* Frames whose callers are not proved by the stack, in code of this process. */
Test(frames, ends_a_stack_at_a_frame_that_may_be_another_functions) {
        static const uint8_t with[] = { 0x55, 0x48, 0x89, 0xe5 };
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        Giver giver = { .answer = FRAMES_E_UNNAMED, .address = (uint64_t)(uintptr_t)page };
        FramesNaming naming = { .start = give_start, .serial = give_serial, .userdata = &giver };
        const uint64_t pc = giver.address + 16;
        const struct {
                int answer;
                bool has_frame;
                uint64_t leaf;
                bool is_own;
        } cases[] = {
                { FRAMES_E_UNNAMED, true, pc, false },  /* where it begins is not known */
                { FRAMES_E_LATER, true, pc, false },
                { 0, false, pc, false },
                { 0, true, pc, true },
                { 0, true, giver.address + 3, false },  /* in its first instructions */
                { 0, true, giver.address + 32, false },         /* at its last one */
                { 0, true, giver.address + 50, false },         /* its return address is in r10 */
        };
        Bench b = bench(getpid());

        page[32] = 0xc3;
        memcpy(page + 48, "\x41\x5a", 2);           /* pop %r10 */
        frames_set_naming(b.frames, &naming);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                uint64_t user[2] = { cases[i].leaf | ABI_FRAME_UNPROVED, pc + 4 };

                memcpy(page, with, sizeof(with));
                page[0] = cases[i].has_frame ? 0x55 : 0x90;
                giver.answer = cases[i].answer;
                giver.serial++;
                for (int known = 0; known < 2; known++) {
                        enum abi_stack_end end = ABI_STACK_COMPLETE;
                        uint32_t index;
                        size_t n;

                        cr_assert_eq(stack_of(&b, NULL, 0, user, 2, &end, &index), 0);
                        cr_assert_eq(end, cases[i].is_own ? ABI_STACK_COMPLETE : ABI_STACK_UNPROVED,
                                     "case %zu", i);
                        window_get_stack(b.window, index, &n);
                        cr_assert_eq(n, cases[i].is_own ? 2 : 1, "case %zu", i);
                        cr_assert_eq(frame_of(&b, index, 0).address, cases[i].leaf);
                }
        }
        bench_end(&b);
        munmap(page, 4096);
}

static int give_near_start(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                           uint64_t *startp) {
        *startp = address & ~63ull;
        return 0;
}

/* As give_near_start(), but for the first function it says what the giver has. */
static int give_first_start(void *userdata, const Process *process, uint64_t address, uint64_t time_ns,
                            uint64_t *startp) {
        const Giver *giver = userdata;

        *startp = address & ~63ull;
        return *startp == giver->address ? giver->answer : 0;
}

/* .NET: a function whose faster form lies on top of it has that form's frame pointer. */
Test(frames, ends_a_stack_at_code_that_goes_on_for_a_slower_form) {
        static const uint8_t faster[] = { 0x48, 0x8b, 0x45, 0x00, 0x50, 0x48, 0x8b, 0xec };
        static const uint8_t slower[] = { 0x55, 0x48, 0x83, 0xec, 0x60, 0x48, 0x8d, 0x6c, 0x24, 0x60 };
        static const uint8_t other[] = { 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 };
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        Giver giver = { .address = (uint64_t)(uintptr_t)page };
        FramesNaming naming = { .start = give_first_start, .serial = give_serial, .userdata = &giver };
        const uint64_t user[] = { giver.address + 16, (giver.address + 64 + 16) | ABI_FRAME_UNPROVED,
                                  giver.address + 128 + 16 };
        const struct {
                bool goes_on;
                int answer;             /* where the first function begins */
                const uint8_t *caller;
                size_t n;
        } cases[] = {
                { true, 0, slower, 1 },
                { true, FRAMES_E_LATER, slower, 1 },
                { false, FRAMES_E_UNNAMED, slower, 1 },         /* it may be one */
                { false, 0, slower, 3 },
                { false, FRAMES_E_LATER, other, 3 },    /* a caller that nothing goes on for */
                { true, 0, other, 3 },
        };
        Bench b = bench(getpid());

        frames_set_naming(b.frames, &naming);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                enum abi_stack_end end = ABI_STACK_COMPLETE;
                uint32_t index;
                size_t n;

                memset(page, 0x90, 192);
                if (cases[i].goes_on)
                        memcpy(page, faster, sizeof(faster));
                memcpy(page + 64, cases[i].caller, sizeof(slower));
                giver.answer = cases[i].answer;
                giver.serial++;
                cr_assert_eq(stack_of(&b, NULL, 0, user, 3, &end, &index), 0);
                window_get_stack(b.window, index, &n);
                cr_assert_eq(n, cases[i].n, "case %zu: %zu", i, n);
                cr_assert_eq(end, n == 3 ? ABI_STACK_COMPLETE : ABI_STACK_UNPROVED, "case %zu", i);
        }
        bench_end(&b);
        munmap(page, 4096);
}

/* Each frame is of a function of its own. Those that are known cost no read the next time. */
Test(frames, reads_so_much_code_for_one_stack_only) {
        enum { N = MADE_MAX_READS + 4 };
        uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                             -1, 0);
        const FramesNaming naming = { .start = give_near_start };
        const size_t expected[] = { MADE_MAX_READS, N };        /* the leaf takes two reads */
        Bench b = bench(getpid());
        uint64_t user[N];

        for (size_t i = 0; i < N; i++) {
                memcpy(page + 64 * i, "\x55\x48\x89\xe5", 4);
                user[i] = ((uint64_t)(uintptr_t)page + 64 * i + 16) | ABI_FRAME_UNPROVED;
        }
        frames_set_naming(b.frames, &naming);
        for (int again = 0; again < 2; again++) {
                enum abi_stack_end end = ABI_STACK_COMPLETE;
                uint32_t index;
                size_t n;

                cr_assert_eq(stack_of(&b, NULL, 0, user, N, &end, &index), 0);
                window_get_stack(b.window, index, &n);
                cr_assert_eq(n, expected[again], "%zu", n);
                cr_assert_eq(end, again ? ABI_STACK_COMPLETE : ABI_STACK_UNPROVED);
        }
        bench_end(&b);
        munmap(page, 4096);
}
#endif

Test(frames, asks_for_the_name_of_code_without_a_file) {
        void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        Giver giver = { .answer = FRAMES_E_LATER, .name = "made up" };
        FramesNaming naming = { .code = give_name, .serial = give_serial, .userdata = &giver };
        uint64_t user[2] = { (uint64_t)(uintptr_t)page + 16, (uint64_t)(uintptr_t)page + 32 };
        Bench b = bench(getpid());
        WindowFrame frame;
        uint32_t index;

        frames_set_naming(b.frames, &naming);
        index = stack(&b, user, 1);
        cr_assert_eq(frame_of(&b, index, 0).function, 0);
        cr_assert_eq(giver.address, user[0]);
        giver.answer = 0;
        index = stack(&b, user, 1);
        cr_assert_eq(giver.n_asked, 2, "a stack whose names may come is not kept");
        frame = frame_of(&b, index, 0);
        cr_assert_str_eq(string(&b, window_get_function(b.window, frame.function)->name), "made up");
        cr_assert_str_eq(string(&b, frame.type), "unknown");
        cr_assert_eq(frame.address, user[0]);
        cr_assert_eq(frame.module, 0);
        cr_assert_eq(stack(&b, user, 1), index);
        cr_assert_eq(giver.n_asked, 2, "one that has them is");
        giver.serial++;
        giver.name = "another";
        index = stack(&b, user, 1);
        cr_assert_eq(giver.n_asked, 3, "until something else is known");
        frame = frame_of(&b, index, 0);
        cr_assert_str_eq(string(&b, window_get_function(b.window, frame.function)->name), "another");
        giver.serial++;
        giver.is_past = true;
        stack(&b, user, 1);
        stack(&b, user, 1);
        cr_assert_eq(giver.n_asked, 5, "what was there before is not kept");
        giver.answer = FRAMES_E_UNNAMED;
        index = stack(&b, user + 1, 1);
        cr_assert_eq(stack(&b, user + 1, 1), index);
        cr_assert_eq(giver.n_asked, 6, "and so is one that will never have them");
        bench_end(&b);
        munmap(page, 4096);
}
