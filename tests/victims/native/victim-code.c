/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-code [SECONDS]: makes code while it runs, and says what it made in the forms that perf reads
 *
 * The code is copies of one function, in memory without a file; they work in turns, a millisecond each.
 * Prints first
 *     pid 4711
 * then obeys lines on its standard input, each answered by one line:
 *     make NAME            one more function            ok made NAME START SIZE
 *     replace NAME OTHER   OTHER where NAME was         ok replaced START SIZE BEFORE AFTER
 *                                                   (CLOCK_MONOTONIC ns around it)
 *     map                  /tmp/perf-PID.map of all     ok
 *     line TEXT            one more line of it          ok
 *     dump DIRECTORY       DIRECTORY/jit-PID.dump       ok      from here on it has what is made and
 *                                                               replaced, too
 */
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "victim.h"

enum { MAX_FUNCTIONS = 64, SLOT = 4096, ROUNDS = 20000 };

typedef uint64_t (*Burn)(uint64_t x);

typedef struct Function {
        char name[128];
        char *start;
        uint64_t made_ns;               /* MONOTONIC */
} Function;

extern const char __start_code_template[], __stop_code_template[];

static Function functions[MAX_FUNCTIONS];
static unsigned n_functions;
static FILE *dump;
static uint64_t n_dumped;

/* Calls nothing and needs no data: it works wherever it is. */
__attribute__((section("code_template"))) STEP uint64_t burn(uint64_t x);

__attribute__((section("code_template"))) STEP uint64_t burn(uint64_t x) {
        KEEP_FRAME();
        for (unsigned int i = 0; i < ROUNDS; i++)
                x = (x ^ x >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + i;
        return x;
}

static uint64_t code_size(void) {
        return (uint64_t)(__stop_code_template - __start_code_template);
}

static void put32(uint32_t value) {
        fwrite(&value, sizeof(value), 1, dump);
}

static void put64(uint64_t value) {
        fwrite(&value, sizeof(value), 1, dump);
}

/* By tools/perf/Documentation/jitdump-specification.txt. */
static void dump_load(Function *function) {
        uint64_t address = (uint64_t)(uintptr_t)function->start;

        put32(0);
        put32((uint32_t)(16 + 40 + strlen(function->name) + 1 + code_size()));
        put64(function->made_ns);
        put32((uint32_t)getpid());
        put32((uint32_t)getpid());
        put64(address);
        put64(address);
        put64(code_size());
        put64(n_dumped++);
        fwrite(function->name, strlen(function->name) + 1, 1, dump);
        fwrite(function->start, code_size(), 1, dump);
        fflush(dump);
}

static void begin_dump(const char *directory) {
        char path[512];

        snprintf(path, sizeof(path), "%s/jit-%d.dump", directory, getpid());
        dump = fopen(path, "w+e");
        if (!dump || mmap(NULL, SLOT, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED) {
                perror(path);
                exit(1);
        }
        put32(0x4A695444);
        put32(1);
        put32(40);
        put32(62);
        put32(0);
        put32((uint32_t)getpid());
        put64(victim_clock_ns(CLOCK_MONOTONIC));
        put64(0);
        fflush(dump);
        for (unsigned i = 0; i < n_functions; i++)
                dump_load(&functions[i]);
}

static void write_map(const char *mode, const char *line) {
        char path[64];
        FILE *map;

        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        map = fopen(path, mode);
        if (!map) {
                perror(path);
                exit(1);
        }
        for (unsigned i = 0; !line && i < n_functions; i++)
                fprintf(map, "%lx %lx %s\n", (unsigned long)(uintptr_t)functions[i].start,
                        (unsigned long)code_size(), functions[i].name);
        if (line)
                fprintf(map, "%s\n", line);
        fclose(map);
}

static Function *make(const char *name) {
        Function *function = &functions[n_functions++];

        function->start = mmap(NULL, SLOT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memcpy(function->start, __start_code_template, code_size());
        mprotect(function->start, SLOT, PROT_READ | PROT_EXEC);
        snprintf(function->name, sizeof(function->name), "%s", name);
        function->made_ns = victim_clock_ns(CLOCK_MONOTONIC);
        if (dump)
                dump_load(function);
        return function;
}

/* The bytes are the same ones: it is another function because its maker says so. */
static void replace(const char *name, const char *other) {
        for (unsigned i = 0; i < n_functions; i++)
                if (!strcmp(functions[i].name, name)) {
                        uint64_t before = victim_clock_ns(CLOCK_MONOTONIC);

                        snprintf(functions[i].name, sizeof(functions[i].name), "%s", other);
                        functions[i].made_ns = before;
                        if (dump)
                                dump_load(&functions[i]);
                        printf("ok replaced %lx %lx %lu %lu\n", (unsigned long)(uintptr_t)functions[i].start,
                               (unsigned long)code_size(), (unsigned long)before,
                               (unsigned long)victim_clock_ns(CLOCK_MONOTONIC));
                        return;
                }
        printf("no such function\n");
}

static void obey(char *line) {
        char *argument = strchr(line, ' '), *second;

        line[strcspn(line, "\n")] = 0;
        if (argument)
                *argument++ = 0;
        second = argument ? strchr(argument, ' ') : NULL;
        if (!strcmp(line, "make") && argument && n_functions < MAX_FUNCTIONS) {
                Function *function = make(argument);

                printf("ok made %s %lx %lx\n", function->name, (unsigned long)(uintptr_t)function->start,
                       (unsigned long)code_size());
        } else if (!strcmp(line, "replace") && second) {
                *second++ = 0;
                replace(argument, second);
        } else if (!strcmp(line, "map")) {
                write_map("w", NULL);
                printf("ok\n");
        } else if (!strcmp(line, "line") && argument) {
                if (second)
                        *second = ' ';
                write_map("a", argument);
                printf("ok\n");
        } else if (!strcmp(line, "dump") && argument) {
                begin_dump(argument);
                printf("ok\n");
        } else {
                printf("what?\n");
        }
}

static void work(Function *function) {
        uint64_t end_ns = victim_cpu_ns() + 1000000;
        Burn code = (Burn)(void *)function->start;

        while (!victim_stopped && victim_cpu_ns() < end_ns)
                victim_sink = code(victim_sink + 1);
}

int main(int argc, char **argv) {
        struct pollfd input = { .fd = 0, .events = POLLIN };
        char line[256];

        victim_stop_after(victim_argument(argc, argv, 1, 0, 0, 1e6, "victim-code [SECONDS]"));
        setvbuf(stdout, NULL, _IOLBF, 0);
        setvbuf(stdin, NULL, _IONBF, 0);
        printf("pid %d\n", getpid());
        while (!victim_stopped) {
                if (poll(&input, 1, n_functions ? 0 : 1000) > 0) {
                        if (!fgets(line, sizeof(line), stdin))
                                input.fd = -1;
                        else
                                obey(line);
                }
                for (unsigned i = 0; i < n_functions; i++)
                        work(&functions[i]);
        }
        return 0;
}
