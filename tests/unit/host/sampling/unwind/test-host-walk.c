/* SPDX-License-Identifier: Apache-2.0 */

/* Stacks of this very process, copied and walked by its own rows; and stacks of any bytes. */

#include <alloca.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/bpf.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/unwind_abi.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/bpfmap.h"
#include "host/sampling/unwind/walk/host-walk.h"

enum { DEPTH = 512, CHUNKS = ABI_STACK_MAX_CHUNKS, LEVELS = 6 };

#if defined(__clang__)
#define NOINLINE __attribute__((__noinline__))
#else
#define NOINLINE __attribute__((__noinline__, __noclone__))
#endif

static int array_fd = -1, nodes_fd = -1;
static ObjectCache *objects;
static Process *process;
static Tables *tables;
static HostWalk *walk;
static HostWalkResult result;
static uint64_t returns[LEVELS];        /* leaf first */
static unsigned n_returns;
static volatile uint64_t sink;

static union {
        struct abi_stack stack;
        uint8_t bytes[sizeof(struct abi_stack) + CHUNKS * ABI_STACK_CHUNK];
} copy;

static int create(uint32_t type, uint32_t key_size, uint32_t value_size, uint32_t n, uint32_t flags,
                  int inner_fd) {
        union bpf_attr attr;

        memset(&attr, 0, sizeof(attr));
        attr.map_type = type;
        attr.key_size = key_size;
        attr.value_size = value_size;
        attr.max_entries = n;
        attr.map_flags = flags;
        attr.inner_map_fd = (uint32_t)inner_fd;
        return (int)syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr));
}

static void setup(void) {
        static const uint8_t block[UNWIND_BLOCK_SIZE];
        TablesConfig config = { 0 };
        int inner = bpfmap_create_table(block, sizeof(block));

        if (inner == -EPERM || inner == -EACCES)
                cr_skip_test("root: needs BPF");
        array_fd = create(BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, UNWIND_MAX_TABLES, 0, inner);
        nodes_fd = create(BPF_MAP_TYPE_HASH, 8, sizeof(struct unwind_node), 64, BPF_F_NO_PREALLOC, 0);
        close(inner);
        config.array_fd = array_fd;
        config.nodes_fd = nodes_fd;
        cr_assert_eq(tables_new(&tables, &config), 0);
        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(host_walk_new(&walk, tables, DEPTH), 0);
}

static void teardown(void) {
        host_walk_free(walk);
        process_free(process);
        tables_free(tables);
        object_cache_free(objects);
        close(array_fd);
        close(nodes_fd);
}

TestSuite(host_walk, .init = setup, .fini = teardown);

static void make_rows(void) {
        cr_assert_eq(tables_process(tables, process), 0);
        for (int i = 0; i < 1000 && !tables_is_ready(tables, process->pid); i++) {
                struct pollfd fd = { .fd = tables_fd(tables), .events = POLLIN };

                if (tables_step(tables, 1 << 20) == 0 && !tables_is_ready(tables, process->pid))
                        poll(&fd, 1, 20);
        }
        cr_assert(tables_is_ready(tables, process->pid));
}

/* What bpf/walk/defer.bpf.h does; a sanitizer minds memory between variables. */
__attribute__((no_sanitize("address"))) static NOINLINE void copy_from(uint64_t sp, unsigned n_chunks) {
        const volatile uint64_t *from;
        uint64_t *to = (uint64_t *)(void *)copy.stack.bytes;

        copy.stack.address = sp & ~(uint64_t)(ABI_STACK_CHUNK - 1);
        copy.stack.n_bytes = n_chunks * ABI_STACK_CHUNK;
        from = (const volatile uint64_t *)copy.stack.address;
        for (unsigned i = 0; i < copy.stack.n_bytes / 8; i++)
                to[i] = from[i];
}

/* Registers and stack of this moment: pc, rsp and the others are of one instruction. */
static NOINLINE void take_stack(unsigned n_chunks) {
        uint64_t *r = copy.stack.registers;

        memset(&copy.stack, 0, sizeof(copy.stack));
        copy.stack.time_ns = process->maps_read_ns + 1;
        copy.stack.tgid = process->pid;
        __asm__ volatile("leaq 0(%%rip), %%rax\n\t"
                         "movq %%rax, (%0)\n\t"
                         "movq %%rsp, 8(%0)\n\t"
                         "movq %%rbp, 16(%0)\n\t"
                         "movq %%rbx, 24(%0)\n\t"
                         "movq %%r12, 96(%1)\n\t"
                         "movq %%r13, 104(%1)\n\t"
                         "movq %%r14, 112(%1)\n\t"
                         "movq %%r15, 120(%1)"
                         :
                         : "r"(&copy.stack.pc), "r"(r)
                         : "rax", "memory");
        copy_from(copy.stack.sp, n_chunks);
        returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
        sink++;
}

static unsigned chunks_wanted, room_wanted;

/* A frame of a size that only the run knows, below frames that are made by rsp alone. */
static NOINLINE void level(unsigned n) {
        volatile char *room = alloca(64 + room_wanted);

        room[0] = (char)n;
        if (n == 1)
                take_stack(chunks_wanted);
        else
                level(n - 1);
        sink += (uint64_t)room[0];
        returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
}

static void run(unsigned n_chunks, unsigned room) {
        chunks_wanted = n_chunks;
        room_wanted = room;
        n_returns = 0;
        level(LEVELS - 1);
        host_walk(walk, process, false, &copy.stack, &result);
}

static void check_frames(unsigned n) {
        cr_assert_geq(result.n, n + 1, "%u frames, end %u", result.n, result.end);
        cr_assert_eq(result.frames[0], copy.stack.pc);
        for (unsigned i = 0; i < n; i++)
                cr_assert_eq(result.frames[i + 1], returns[i], "frame %u", i + 1);
}

/* Chunks that lie between here and the end of the stack; the walk needs some of them. */
static unsigned chunks_left(void) {
        uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0) & ~(uint64_t)(ABI_STACK_CHUNK - 1);
        unsigned char there;
        unsigned n = 0;

        while (n < CHUNKS + 8 &&
               mincore((void *)((here + n * ABI_STACK_CHUNK) & ~4095ULL), 4096, &there) == 0)
                n++;
        return n > 4 ? n : 4;
}

static unsigned long mapped_pages(void) {
        unsigned long n = 0;
        FILE *file = fopen("/proc/self/statm", "r");

        cr_assert_eq(fscanf(file, "%lu", &n), 1);
        fclose(file);
        return n;
}

Test(host_walk, finds_the_callers_of_a_copied_stack) {
        unsigned long n_pages;

        make_rows();
        run(chunks_left() < CHUNKS ? chunks_left() : CHUNKS, 0);
        check_frames(LEVELS);
        n_pages = mapped_pages();
        host_walk_release(walk);
        cr_assert_lt(mapped_pages(), n_pages, "it held rows");
        host_walk(walk, process, false, &copy.stack, &result);
        check_frames(LEVELS);
}

Test(host_walk, waits_for_rows_and_guesses_nothing) {
        run(4, 0);
        cr_assert_eq(result.end, ABI_STACK_PENDING, "the file is not even known");
        cr_assert_eq(result.n, 1);
        cr_assert_eq(tables_process(tables, process), 0);
        run(4, 0);
        cr_assert_eq(result.end, ABI_STACK_PENDING, "no row is made yet");
        make_rows();
        run(4, 0);
        check_frames(LEVELS);
}

Test(host_walk, tells_a_stack_that_is_longer_than_its_copy) {
        make_rows();
        run(3, 1500);
        copy.stack.is_cut = 1;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.end, ABI_STACK_LONG);
        cr_assert_lt(result.n, LEVELS);
        check_frames(result.n - 1);
        copy.stack.is_cut = 0;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.end, ABI_STACK_FAULT);
        copy.stack.n_bytes = 0;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.end, ABI_STACK_FAULT);
        cr_assert_eq(result.n, 1);
}

Test(host_walk, knows_no_address_outside_of_all_mappings) {
        make_rows();
        run(4, 0);
        copy.stack.pc = 0x1000;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.end, ABI_STACK_NO_MAPPING);
        cr_assert_eq(result.n, 1);
}

/* Code that is made at run time: by the frame pointer, unless it is a runtime's, which keeps none. */
Test(host_walk, goes_by_the_frame_pointer_in_code_without_a_file_that_is_no_runtimes) {
        uint64_t *words = (uint64_t *)(void *)copy.stack.bytes;
        void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        cr_assert_neq(code, MAP_FAILED);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        memset(&copy.stack, 0, sizeof(copy.stack));
        copy.stack.time_ns = process->maps_read_ns + 1;
        copy.stack.tgid = process->pid;
        copy.stack.pc = (uint64_t)(uintptr_t)code + 16;
        copy.stack.sp = copy.stack.address = 0x7ffe00000000;
        copy.stack.bp = copy.stack.sp + 32;
        copy.stack.n_bytes = ABI_STACK_CHUNK;
        words[4] = copy.stack.sp + 64;
        words[5] = (uint64_t)(uintptr_t)code + 32;
        words[8] = words[9] = 0;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.n, 2);
        cr_assert_eq(result.frames[1], (uint64_t)(uintptr_t)code + 32);
        host_walk(walk, process, true, &copy.stack, &result);
        cr_assert_eq(result.end, ABI_STACK_RUNTIME);
        cr_assert_eq(result.n, 1);
        munmap(code, 4096);
}

/* A frame of 100 KB: its base is in a register, and so in the second piece. */
Test(host_walk, goes_on_in_the_second_piece) {
        uint64_t *words = (uint64_t *)(void *)copy.stack.bytes, sp = 0x7ffe00000000, far = sp + 100 * 1024;
        void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint64_t pc = (uint64_t)(uintptr_t)code;

        cr_assert_neq(code, MAP_FAILED);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        memset(&copy, 0, sizeof(copy));
        copy.stack = (struct abi_stack){ .time_ns = process->maps_read_ns + 1,
                                         .tgid = process->pid,
                                         .pc = pc + 16,
                                         .sp = sp,
                                         .bp = far + 24,
                                         .address = sp,
                                         .n_bytes = ABI_STACK_CHUNK,
                                         .far_address = far,
                                         .far_begin = 4 * ABI_STACK_CHUNK,
                                         .n_far = ABI_STACK_CHUNK };
        words += copy.stack.far_begin / 8;
        words[3] = far + 80;
        words[4] = pc + 32;
        words[10] = far + 2 * ABI_STACK_CHUNK;  /* beyond both pieces */
        words[11] = pc + 48;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_eq(result.n, 3);
        cr_expect_eq(result.frames[1], pc + 32);
        cr_expect_eq(result.frames[2], pc + 48);
        cr_expect_eq(result.end, ABI_STACK_FAULT);
        copy.stack.is_cut = 1;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_expect_eq(result.end, ABI_STACK_LONG);
        copy.stack.n_far = 0;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_expect_eq(result.n, 1);
        munmap(code, 4096);
}

/* The stack is its own caller; words lead back, nowhere, or into other code. */
Test(host_walk, comes_to_an_end_whatever_the_stack_holds) {
        uint64_t words[64], *bytes = (uint64_t *)(void *)copy.stack.bytes;
        unsigned n_walked = 0;

        make_rows();
        run(4, 0);
        for (unsigned i = 0; i < 64; i++)
                words[i] = i < 32 ? returns[i % LEVELS]
                        : i < 60  ? copy.stack.sp + 16 * i
                                  : (uint64_t)random() << (i % 48);
        copy.stack.n_bytes = CHUNKS * ABI_STACK_CHUNK;
        copy.stack.is_cut = 1;
        for (unsigned round = 0; round < 20000; round++) {
                for (unsigned i = 0; i < copy.stack.n_bytes / 8; i++)
                        bytes[i] = words[(unsigned)random() % 64];
                copy.stack.bp = words[32 + (unsigned)random() % 32];
                copy.stack.bx = words[32 + (unsigned)random() % 32];
                copy.stack.pc = words[(unsigned)random() % LEVELS];
                host_walk(walk, process, false, &copy.stack, &result);
                cr_assert_leq(result.n, DEPTH);
                cr_assert_geq(result.n, 1);
                cr_assert_neq(result.end, ABI_STACK_INTERNAL);
                n_walked += result.n > 2;
        }
        cr_assert_gt(n_walked, 50, "%u of 20,000 lead somewhere", n_walked);
}

/* Memory of a program that lives: mostly addresses in itself, now and then nothing. */
static int read_any(void *userdata, uint64_t address, void *to, uint32_t size) {
        unsigned *n_readp = userdata;
        uint8_t *bytes = to;

        ++*n_readp;
        if (random() % 64 == 0)
                return -EFAULT;
        for (uint32_t i = 0; i < size; i++)
                bytes[i] = (uint8_t)(random() % 3 ? 0 : random());
        if (size >= 8 && random() % 2)
                memcpy(bytes, &(uint64_t){ copy.stack.sp + 8 * ((uint64_t)random() % 512) }, 8);
        return 0;
}

static void fill_any(void *to, size_t size) {
        for (size_t i = 0; i < size; i++)
                ((uint8_t *)to)[i] = (uint8_t)random();
}

/* Entries of runtimes that are all wrong, over memory of which each read says something else. */
Test(host_walk, comes_to_an_end_whatever_memory_and_entries_hold) {
        unsigned n_read = 0, n_frames = 0;

        make_rows();
        run(4, 0);
        for (unsigned round = 0; round < 2000; round++) {
                struct hotspot_process java;
                struct python_process python;
                HostWalkLive live = { .read = read_any, .userdata = &n_read };

                fill_any(&java, sizeof(java));
                fill_any(&python, sizeof(python));
                java.low = copy.stack.pc & ~(uint64_t)0xfff;
                java.size = 1 << 20;
                python.chain = (uint32_t)random() % 6;
                if (round % 2)
                        live.hotspot = &java;
                else
                        live.python = &python;
                host_walk_enter(walk, &live);
                for (unsigned i = 0; i < 4; i++) {
                        uint64_t pointer = i ? (uint64_t)random() % 4 : 0;

                        host_walk_thread(walk, process, true, &copy.stack,
                                         &(struct abi_thread){ .pointer = pointer }, &result);
                        cr_assert_leq(result.n, ABI_MAX_USER_WORDS);
                        cr_assert_neq(result.end, ABI_STACK_INTERNAL);
                        n_frames += result.n;
                }
        }
        cr_assert_gt(n_read, 2000);
        cr_assert_gt(n_frames, 0);
        host_walk_enter(walk, NULL);
        n_read = 0;
        host_walk(walk, process, true, &copy.stack, &result);
        cr_assert_eq(n_read, 0, "a copy alone");
}

Test(host_walk, reads_no_word_across_the_end_of_the_address_space) {
        make_rows();
        run(4, 0);
        copy.stack.address = UINT64_MAX - ABI_STACK_CHUNK + 1;
        copy.stack.n_bytes = ABI_STACK_CHUNK;
        copy.stack.sp = UINT64_MAX - 7;
        host_walk(walk, process, false, &copy.stack, &result);
        cr_assert_leq(result.n, 2);
}
