/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-made FRAMES [map|gdb]: runs code that it makes, x86-64 only
 *
 *     main → run → made_top → made_mid → made_hot
 *
 * FRAMES has a letter for each of the three that are made:
 *     k    keeps a frame pointer: makes a frame by rbp first
 *     n    makes none, and leaves rbp alone
 *     s    as k, and below rbp lies a return address that an earlier call has left (made_hot alone)
 * `map`: /tmp/perf-PID.map says where they are; `gdb`: an image for debuggers
 * does. Prints `pid N`, then runs until it is killed.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "gdb-image.h"
#include "victim.h"

enum { N_MADE = 3, SLOT = 64, HELPER = N_MADE * SLOT };

static const char *const names[N_MADE] = { "made_top", "made_mid", "made_hot" };
static uint8_t *code;
static volatile uint64_t n_runs;

struct jit_descriptor __jit_debug_descriptor = { 1, 0, NULL, NULL };

static size_t put(size_t at, const void *bytes, size_t size) {
        memcpy(code + at, bytes, size);
        return at + size;
}

#define PUT(_at, ...) put(_at, (const uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static size_t put_call(size_t at, size_t target) {
        int32_t distance = (int32_t)(target - (at + 5));

        code[at] = 0xe8;
        return put(at + 1, &distance, sizeof(distance));
}

/* rdi is the number of rounds, which each hands on. */
static void make_caller(unsigned i, char form) {
        size_t at = form == 'n' ? PUT(i * SLOT, 0x48, 0x83, 0xec, 0x18)         /* sub $24,%rsp */
                                : PUT(i * SLOT, 0x55, 0x48, 0x89, 0xe5);        /* push %rbp; mov %rsp,%rbp */

        at = put_call(at, (i + 1) * SLOT);
        at = form == 'n' ? PUT(at, 0x48, 0x83, 0xc4, 0x18) : PUT(at, 0x5d);
        PUT(at, 0xc3);
}

static void make_leaf(unsigned i, char form) {
        size_t at = i * SLOT;

        if (form != 'n')
                at = PUT(at, 0x55, 0x48, 0x89, 0xe5);
        if (form == 's') {
                at = put_call(at, HELPER);
                at = PUT(at, 0x48, 0x83, 0xec, 0x20);   /* sub $32,%rsp: its return address is in there now */
        }
        at = PUT(at, 0x48, 0xff, 0xcf, 0x75, 0xfb);     /* dec %rdi; jnz */
        if (form != 'n')
                at = PUT(at, 0xc9);
        PUT(at, 0xc3);
}

static void say(FILE *to, unsigned i) {
        fprintf(to, "%lx %x %s\n", (unsigned long)(uintptr_t)(code + i * SLOT), SLOT, names[i]);
}

static void write_map(void) {
        char path[64];
        FILE *map;

        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        map = fopen(path, "w");
        if (!map) {
                perror(path);
                exit(1);
        }
        for (unsigned i = 0; i < N_MADE; i++)
                say(map, i);
        fclose(map);
}

static void register_image(void) {
        static struct jit_code_entry entry;
        static char image[GDB_IMAGE_SIZE];
        GdbFunction functions[N_MADE];

        for (unsigned i = 0; i < N_MADE; i++)
                functions[i] = (GdbFunction){ names[i], i * SLOT, SLOT };
        entry.symfile_addr = image;
        entry.symfile_size = gdb_image(image, (uintptr_t)code, 4096, functions, N_MADE);
        __jit_debug_descriptor.first_entry = __jit_debug_descriptor.relevant_entry = &entry;
}

STEP void run(void (*made)(uint64_t));

STEP void run(void (*made)(uint64_t)) {
        KEEP_FRAME();
        made(3000000);
        n_runs++;
}

int main(int argc, char **argv) {
        const char *forms = argc > 1 ? argv[1] : "";

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (strlen(forms) != N_MADE || code == MAP_FAILED) {
                fprintf(stderr, "victim-made: FRAMES is three letters of k, n and s\n");
                return 2;
        }
        for (unsigned i = 0; i < N_MADE - 1; i++)
                make_caller(i, forms[i]);
        make_leaf(N_MADE - 1, forms[N_MADE - 1]);
        code[HELPER] = 0xc3;
        if (argc > 2 && !strcmp(argv[2], "gdb"))
                register_image();
        else if (argc > 2)
                write_map();
        printf("pid %d\n", getpid());
        fflush(stdout);
        for (;;)
                run((void (*)(uint64_t))(uintptr_t)code);
}
