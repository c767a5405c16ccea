/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-made FRAMES [map|gdb] [writable|change|seldom|crowd]: runs code that it makes, x86-64 only
 *
 *     main → run → made_top → made_mid → made_hot
 *
 * FRAMES has a letter for each of the three that are made:
 *     k    keeps a frame pointer: makes a frame by rbp first
 *     n    makes none, and leaves rbp alone
 *     s    as k, and below rbp lies a return address that an earlier call has left (made_hot alone)
 *     r    as n, and its call frame information is registered with libgcc; where LLVM's libunwind stands
 *          before it (LD_PRELOAD), with that, function by function, as LLVM's compilers at run time do
 * `map`: /tmp/perf-PID.map says where they are; `gdb`: an image for debuggers does. Code with an `r` cannot be
 * written while it runs, but with `writable`. `change`: again and again other code takes its place, at the
 * same addresses and registered in the same place, whose frames are larger. Where the return address was
 * before, they have one of decoy(), which calls nothing of this. `seldom`: the same, some times a second.
 * `crowd`: 400 other functions are registered around it first, 400 after it, and each fourth of them goes.
 * Prints `pid N`, then runs until it is killed.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "gdb-image.h"
#include "made-frames.h"
#include "victim.h"

enum { N_MADE = 3, SLOT = 64, HELPER = N_MADE * SLOT, FRAME = 24, LARGE_FRAME = 56, N_CROWD = 400 };

static const char *const names[N_MADE] = { "made_top", "made_mid", "made_hot" };
static uint8_t *code;
static uint8_t frames[MADE_FRAMES_SIZE];
static volatile uint64_t n_runs;
static void *in_decoy;

extern void __register_frame(void *), __deregister_frame(void *);

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

static bool has_pointer(char form) {
        return form != 'n' && form != 'r';
}

/*
 * rdi is the number of rounds, and rsi an address in decoy(), which each hands on. @frame: its bytes, where
 * there is no frame pointer. Return: where it is gone.
 */
static uint32_t make_caller(unsigned i, char form, uint8_t frame) {
        size_t at = has_pointer(form) ? PUT(i * SLOT, 0x55, 0x48, 0x89, 0xe5)   /* push %rbp; mov %rsp,%rbp */
                                      : PUT(i * SLOT, 0x48, 0x83, 0xec, frame); /* sub $…,%rsp */

        if (frame == LARGE_FRAME)
                at = PUT(at, 0x48, 0x89, 0x74, 0x24, FRAME);    /* mov %rsi,24(%rsp) */
        at = put_call(at, (i + 1) * SLOT);
        at = has_pointer(form) ? PUT(at, 0x5d) : PUT(at, 0x48, 0x83, 0xc4, frame);
        PUT(at, 0xc3);
        return (uint32_t)(at - i * SLOT);
}

static void make_leaf(unsigned i, char form) {
        size_t at = i * SLOT;

        if (has_pointer(form))
                at = PUT(at, 0x55, 0x48, 0x89, 0xe5);
        if (form == 's') {
                at = put_call(at, HELPER);
                at = PUT(at, 0x48, 0x83, 0xec, 0x20);   /* sub $32,%rsp: its return address is in there now */
        }
        at = PUT(at, 0x48, 0xff, 0xcf, 0x75, 0xfb);     /* dec %rdi; jnz */
        if (has_pointer(form))
                at = PUT(at, 0xc9);
        PUT(at, 0xc3);
}

static void protect(int prot) {
        if (mprotect(code, 4096, prot)) {
                perror("mprotect");
                exit(1);
        }
}

/* @to: __register_frame(), or the other one. */
static void hand_over(uint8_t *section, void (*to)(void *)) {
        uint32_t length, id;

        if (!dlsym(RTLD_DEFAULT, "__unw_add_dynamic_fde")) {
                to(section);
                return;
        }
        for (;; section += sizeof(length) + length) {
                memcpy(&length, section, sizeof(length));
                if (!length)
                        return;
                memcpy(&id, section + sizeof(length), sizeof(id));
                if (id)                 /* not a CIE */
                        to(section);
        }
}

/* Makes all three, and registers those that say so. */
static void make(const char *forms, uint8_t frame, bool is_writable) {
        MadeFunctionFrame registered[N_MADE];
        unsigned n = 0;

        protect(PROT_READ | PROT_WRITE | (is_writable ? PROT_EXEC : 0));
        for (unsigned i = 0; i < N_MADE - 1; i++) {
                uint32_t end = make_caller(i, forms[i], frame);

                if (forms[i] == 'r')
                        registered[n++] = (MadeFunctionFrame){ code + i * SLOT, SLOT, frame, end };
        }
        make_leaf(N_MADE - 1, forms[N_MADE - 1]);
        if (forms[N_MADE - 1] == 'r')
                registered[n++] = (MadeFunctionFrame){ code + (N_MADE - 1) * SLOT, SLOT, 0, 0 };
        code[HELPER] = 0xc3;
        if (!n)
                return;
        made_frames(frames, registered, n, 0);
        hand_over(frames, __register_frame);
        if (!is_writable)
                protect(PROT_READ | PROT_EXEC);
}

/* Functions that nobody calls, in memory of their own; some lie before the code, and some behind it. */
static void register_crowd(void) {
        uint8_t *sections = calloc(N_CROWD, MADE_FRAMES_SIZE);
        uint8_t *other = mmap(NULL, N_CROWD * SLOT, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                              0);

        if (!sections || other == MAP_FAILED) {
                perror("victim-made");
                exit(1);
        }
        for (unsigned i = 0; i < N_CROWD; i++) {
                const MadeFunctionFrame function = { other + i * SLOT, SLOT, FRAME, 0 };

                made_frames(sections + i * MADE_FRAMES_SIZE, &function, 1, 0);
                hand_over(sections + i * MADE_FRAMES_SIZE, __register_frame);
        }
        for (unsigned i = 0; i < N_CROWD; i += 4)
                hand_over(sections + i * MADE_FRAMES_SIZE, __deregister_frame);
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

typedef void (*Made)(uint64_t, const void *);

STEP void run(Made made);

STEP void *decoy(uint64_t n);

/* decoy(1) returns the address behind its own call. */
STEP void *decoy(uint64_t n) {
        void *volatile found;

        KEEP_FRAME();
        found = n ? decoy(n - 1) : __builtin_return_address(0);
        return found;
}

STEP void run(Made made) {
        KEEP_FRAME();
        made(3000000, in_decoy);
        n_runs++;
}

int main(int argc, char **argv) {
        const char *forms = argc > 1 ? argv[1] : "", *how = argc > 3 ? argv[3] : "";
        unsigned runs_a_change = !strcmp(how, "change") ? 8 : !strcmp(how, "seldom") ? 300 : 0;
        bool is_writable;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (strlen(forms) != N_MADE || code == MAP_FAILED) {
                fprintf(stderr, "victim-made: FRAMES is three letters of k, n, r and s\n");
                return 2;
        }
        is_writable = !strchr(forms, 'r') || !strcmp(how, "writable");
        in_decoy = decoy(1);
        if (!strcmp(how, "crowd"))
                register_crowd();
        make(forms, FRAME, is_writable);
        if (!strcmp(how, "crowd"))
                register_crowd();
        if (argc > 2 && !strcmp(argv[2], "gdb"))
                register_image();
        else if (argc > 2 && !strcmp(argv[2], "map"))
                write_map();
        printf("pid %d\n", getpid());
        fflush(stdout);
        for (;;) {
                run((Made)(uintptr_t)code);
                if (!runs_a_change || n_runs % runs_a_change)
                        continue;
                hand_over(frames, __deregister_frame);
                make(forms, n_runs / runs_a_change % 2 ? LARGE_FRAME : FRAME, is_writable);
        }
}
