/* SPDX-License-Identifier: Apache-2.0 */

/*
 * single-step STEPS SKIP PROGRAM ARG…: runs a program one instruction at a time and
 * unwinds at each, by the very lines that the kernel half runs (rows.bpf.h,
 * rules.bpf.h), compiled for the host. At the first two visits of a pc the result is
 * compared with that of libdw on the same registers. SKIP instructions from exec
 * on are not unwound; `200ms` lets it run freely for that time instead, and `trap` until it traps by itself (on
 * x86-64: libdw's callers are looked for on the stack).
 *
 * But for `200ms` each step is also held against the calls that the program has made (call-list.h), which
 * needs no call frame information: a stack must be theirs, as far as it goes. `whole`: to its root. `derived`:
 * pcs whose row a scan of the code has made.
 *
 * Prints `incomplete N END WHERE` for each pc whose stack did not reach its root,
 * `differs N WHERE` for each where libdw contradicts, `wrong N WHERE` where the calls do, then
 * `steps N complete N pcs N compared N differ N libdw-short N refuted N called N wrong N whole N derived N`.
 * Where libdw contradicts, the processor decides: if the calls, or the next steps, lead where our stack said,
 * libdw is refuted (it guesses in code without rows; the last instructions before a landing pad,
 * daemon/host/sampling/unwind/cfi/eh-return.h).
 */

#include <elf.h>
#include <elfutils/libdwfl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "border/abi.h"
#include "core/base/data/hashmap.h"
#include "host/sampling/process/process.h"
#include "host/sampling/unwind/tables/table.h"
#include "host/sampling/unwind/tables/tables.h"

#define barrier_var(var) __asm__ volatile("" : "+r"(var))

static pid_t child;

static long bpf_probe_read_user(void *to, uint32_t size, const void *from) {
        struct iovec local = { .iov_base = to, .iov_len = size },
                     remote = { .iov_base = (void *)from, .iov_len = size };

        if (process_vm_readv(child, &local, 1, &remote, 1, 0) == (ssize_t)size)
                return 0;
        memset(to, 0, size);
        return -14;
}

#include "walk/memory.bpf.h"
#include "walk/unwind.bpf.h"

#include "shim/rows-shim.h"

#include "call-list.h"

enum {
        DEPTH = 512,
        STACK_WORDS = 4096,
        ENTRY_SIZE = 64,
        VISITS = 2,                     /* of a pc that are compared */
        DISPUTE_STEPS = 16,
        MAX_SCAN = 16 << 20,
        REFRESH_STEPS = 500,            /* between two looks at the maps for one and the same pc */
};

typedef struct Pc {
        uint64_t pc;
        unsigned n_visits, n_incomplete, n_differ, n_wrong, end;
        uint64_t refreshed;             /* step */
} Pc;

typedef struct Chain {
        uint64_t pcs[DEPTH];
        unsigned n;
        bool is_complete;
} Chain;

static ObjectCache *objects;
static Process *process;
static Table tables[SHIM_MAX_TABLES], plain_tables[SHIM_MAX_TABLES];    /* plain: without a scan */
static uint64_t table_objects[SHIM_MAX_TABLES];
static uint32_t n_tables;
static uint64_t generation;
static Hashmap pcs;
static Dwfl *dwfl;

static void die(const char *what) {
        perror(what);
        if (child > 0)
                kill(child, SIGKILL);
        exit(1);
}

/* ---- tables of the child's files ---- */

static bool build(const Mapping *mapping, uint32_t max_scan, Table *table) {
        TableLimits limits = TABLE_LIMITS_DEFAULT;
        _cleanup_(table_builder_freep) TableBuilder *builder = NULL;
        _cleanup_(closep) int proc_fd = -1;
        _cleanup_(closep) int fd = -1;
        int r;

        limits.max_scan = max_scan;
        if (mapping->kind == MAPPING_VDSO)
                r = table_builder_new_memory(&builder, (const void *)getauxval(AT_SYSINFO_EHDR),
                                             mapping->end - mapping->start, &limits);
        else if (process_open(child, 0, &proc_fd) ||
                 object_reopen(mapping->object, proc_fd, mapping->start, mapping->end, mapping->path, &fd))
                return false;
        else
                r = table_builder_new(&builder, fd, &limits);
        if (r)
                return false;
        while ((r = table_builder_step(builder, 1 << 20, table)) == TABLE_E_AGAIN)
                ;
        return r == 0;
}

static uint32_t table_of(const Mapping *mapping) {
        for (uint32_t i = 0; i < n_tables; i++)
                if (table_objects[i] == mapping->object->id)
                        return i;
        if (n_tables == SHIM_MAX_TABLES || !build(mapping, MAX_SCAN, &tables[n_tables]))
                return UNWIND_NO_TABLE;
        build(mapping, 0, &plain_tables[n_tables]);
        table_objects[n_tables] = mapping->object->id;
        shim_tables[n_tables] = (ShimTable){ .data = tables[n_tables].data, .size = tables[n_tables].size };
        return n_tables++;
}

static void read_maps(void) {
        struct unwind_mapping mappings[NODES_MAX_MAPPINGS];
        uint32_t n = 0;

        if (!process && process_new(&process, child))
                die("process");
        if (process_read_mappings(process, objects))
                return;
        for (size_t i = 0; i < process->n_mappings && n < NODES_MAX_MAPPINGS; i++) {
                const Mapping *mapping = &process->mappings[i];
                struct unwind_mapping *made = &mappings[n];
                uint64_t address;

                if (mapping->start >> 63)
                        continue;
                *made = (struct unwind_mapping){ .start = mapping->start,
                                                 .table = UNWIND_NO_TABLE,
                                                 .n_pages = (uint32_t)((mapping->end - mapping->start) >>
                                                                       12) };
                if (mapping->object && tables_find_address(mapping->object, mapping->offset, &address))
                        made->table = table_of(mapping);
                if (made->table != UNWIND_NO_TABLE)
                        made->offset = address - tables[made->table].text_low;
                n++;
        }
        if (n)
                nodes_build(&shim_nodes, mappings, n, ++generation);
}

/* ---- registers ---- */

static bool read_registers(struct user_regs_struct *registers) {
        struct iovec place = { .iov_base = registers, .iov_len = sizeof(*registers) };

        return ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &place) == 0;
}

#if UNWIND_ARM64

static void place_frame(const struct user_regs_struct *registers, uint64_t *pcp, uint64_t *spp) {
        *pcp = registers->pc;
        *spp = registers->sp;
}

static void set_registers(const struct user_regs_struct *registers, struct unwind *unwind,
                          struct rules *rules) {
        place_frame(registers, &unwind->pc, &unwind->sp);
        unwind->bp = registers->regs[29];
        rules->bx = unwind_return_address(registers->regs[30]);
        for (int i = RULES_FIRST_KEPT; i <= RULES_LAST_KEPT; i++)
                rules->registers[i - RULES_FIRST_KEPT] = registers->regs[i];
}

#else

static void place_frame(const struct user_regs_struct *registers, uint64_t *pcp, uint64_t *spp) {
        *pcp = registers->rip;
        *spp = registers->rsp;
}

static void set_registers(const struct user_regs_struct *registers, struct unwind *unwind,
                          struct rules *rules) {
        const uint64_t by_number[RULES_N_REGISTERS] = {
                registers->rax,
                registers->rdx,
                registers->rcx,
                0,
                registers->rsi,
                registers->rdi,
                0,
                0,
                registers->r8,
                registers->r9,
                registers->r10,
                registers->r11,
                registers->r12,
                registers->r13,
                registers->r14,
                registers->r15,
        };

        place_frame(registers, &unwind->pc, &unwind->sp);
        unwind->bp = registers->rbp;
        rules->bx = registers->rbx;
        memcpy(rules->registers, by_number, sizeof(by_number));
}

#endif

/* ---- the two unwinders ---- */

/* ld.so's entry has no row; rbp is 0 there, as the ABI asks, and the last frame lies in it. */
static bool is_entry(uint64_t pc) {
        const Mapping *mapping = process_find_mapping(process, pc);
        uint64_t address;

        if (!mapping || !mapping->object || !tables_find_address(mapping->object, mapping->offset, &address))
                return false;
        return pc - mapping->start + address - mapping->object->entry < ENTRY_SIZE;
}

/* Whether a scan of the code has made the row of @pc. */
static bool is_derived(uint64_t pc) {
        const Mapping *mapping = process_find_mapping(process, pc);
        uint64_t address;
        uint32_t table;

        if (!mapping || !mapping->object || !tables_find_address(mapping->object, mapping->offset, &address))
                return false;
        table = table_of(mapping);
        address += pc - mapping->start;
        return table != UNWIND_NO_TABLE && table_find(&tables[table], address) &&
               (!plain_tables[table].data || !table_find(&plain_tables[table], address));
}

static uint32_t walk(const struct user_regs_struct *registers, Chain *chain) {
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct rows_cache cache;
        static struct unwind unwind;
        static struct rules rules;

        shim_begin(&unwind, &rules, DEPTH);
        set_registers(registers, &unwind, &rules);
        shim_walk(&unwind, &rules, frames, &cache);
        chain->n = unwind.n_frames;
        memcpy(chain->pcs, frames, chain->n * sizeof(frames[0]));
        if (rules.interrupted && rules.interrupted < chain->n)
                chain->pcs[rules.interrupted]--;        /* libdw tells the pc itself */
        chain->is_complete = unwind.end == ABI_STACK_COMPLETE ||
                             (unwind.end == ABI_STACK_FP_END && is_entry(frames[chain->n - 1]));
        return unwind.end;
}

static int find_no_debuginfo(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base,
                             const char *file, const char *link, GElf_Word crc, char **found) {
        return -1;
}

static const Dwfl_Callbacks callbacks = {
        .find_elf = dwfl_linux_proc_find_elf,
        .find_debuginfo = find_no_debuginfo,
};

static void report_modules(void) {
        if (dwfl)
                dwfl_end(dwfl);
        dwfl = dwfl_begin(&callbacks);
        if (!dwfl || dwfl_linux_proc_report(dwfl, child) || dwfl_report_end(dwfl, NULL, NULL) ||
            dwfl_linux_proc_attach(dwfl, child, true))
                die("libdwfl");
}

static int add_frame(Dwfl_Frame *frame, void *userdata) {
        Chain *chain = userdata;
        Dwarf_Addr pc;

        if (chain->n == DEPTH || !dwfl_frame_pc(frame, &pc, NULL))
                return DWARF_CB_ABORT;
        chain->pcs[chain->n++] = unwind_return_address(pc);     /* libdw 0.188 leaves arm64's codes in it */
        return DWARF_CB_OK;
}

static void walk_by_libdw(Chain *chain) {
        chain->n = 0;
        chain->is_complete = dwfl_getthread_frames(dwfl, child, add_frame, chain) == 0;
}

/*
 * Either may stop early. libdw has no rule for ld.so's entry, and takes rbx for lost where no row speaks of
 * it, though _dl_runtime_resolve's CFA hangs on it; ours drops a last word that lies in no mapping. What both
 * have must be the same, and a stack that is complete for us must not go on for libdw.
 */
static bool contradicts(const Chain *ours, const Chain *libdw) {
        return (ours->is_complete && ours->n < libdw->n) ||
               memcmp(ours->pcs, libdw->pcs, MIN(ours->n, libdw->n) * sizeof(libdw->pcs[0])) != 0;
}

static CallList calls;
static uint64_t n_called, n_wrong, n_whole;

/* Return: whether the calls are known, and say the same. */
static bool compare_with_calls(Pc *pc, const Chain *ours) {
        bool is_wrong = ours->n > calls.n + 1 || (ours->is_complete && ours->n != calls.n + 1);

        if (!calls.is_known || calls.n >= DEPTH)
                return false;
        for (unsigned i = 1; i < ours->n && !is_wrong; i++)
                is_wrong = ours->pcs[i] != calls.calls[calls.n - i].to;
        n_called++;
        n_wrong += is_wrong;
        pc->n_wrong += is_wrong;
        n_whole += !is_wrong && ours->is_complete;
        return !is_wrong;
}

/* The program stands in a function that was called long ago: libdw says from where. */
static void find_calls(const struct user_regs_struct *registers) {
        static Chain chain;
        uint64_t pc, at;
        unsigned found = 1;

        place_frame(registers, &pc, &at);
        walk_by_libdw(&chain);
        call_list_begin(&calls);
        for (unsigned i = 0; i < STACK_WORDS && found < chain.n; i++, at += 8)
                if (call_list_word(at) == chain.pcs[found]) {
                        found++;
                        call_list_add(&calls, at, chain.pcs[found - 1]);
                }
        for (unsigned i = 0; i < calls.n / 2; i++) {
                typeof(calls.calls[0]) call = calls.calls[i];

                calls.calls[i] = calls.calls[calls.n - 1 - i];
                calls.calls[calls.n - 1 - i] = call;
        }
        calls.is_known = chain.is_complete && found == chain.n;
}

/* A contradiction that the next steps decide. */
typedef struct Dispute {
        Chain chain;
        Pc *pc;
        uint64_t until;                 /* step; 0 = free */
} Dispute;

static Dispute disputes[DISPUTE_STEPS];
static uint64_t n_differ, n_refuted;

static void lose(Dispute *dispute) {
        dispute->pc->n_differ++;
        dispute->until = 0;
        n_differ++;
}

static void begin_dispute(Pc *pc, const Chain *chain, uint64_t n) {
        Dispute *dispute = &disputes[n % DISPUTE_STEPS];

        dispute->chain = *chain;
        dispute->pc = pc;
        dispute->until = n + DISPUTE_STEPS;
        if (!chain->is_complete || chain->n < 2)
                lose(dispute);
}

/* @now: what is there after another step. */
static void settle_disputes(const Chain *now, uint64_t n) {
        for (int i = 0; i < DISPUTE_STEPS; i++) {
                Dispute *dispute = &disputes[i];
                /* a landing pad is written one byte further, as return addresses are */
                const Chain *said = &dispute->chain;

                if (!dispute->until)
                        continue;
                if (now->n == said->n - 1 && said->pcs[1] - now->pcs[0] <= 1 &&
                    memcmp(now->pcs + 1, said->pcs + 2, (now->n - 1) * sizeof(now->pcs[0])) == 0) {
                        dispute->until = 0;
                        n_refuted++;
                } else if (n + 1 >= dispute->until) {
                        lose(dispute);
                }
        }
}

static void end_disputes(void) {
        for (int i = 0; i < DISPUTE_STEPS; i++)
                if (disputes[i].until)
                        lose(&disputes[i]);
}

/* ---- the run ---- */

static bool step(int *signalp) {
        struct user_regs_struct from, to;
        int status, delivered = *signalp;

        if (!read_registers(&from) || ptrace(PTRACE_SINGLESTEP, child, 0, *signalp) ||
            waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
                return false;
        *signalp = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (!read_registers(&to))
                return false;
        call_list_step(&calls, &from, &to, delivered != 0);
        return true;
}

static void start(char **argv) {
        int status;

        child = fork();
        if (child < 0)
                die("fork");
        if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                dup2(STDERR_FILENO, STDOUT_FILENO);
                personality(ADDR_NO_RANDOMIZE);
                ptrace(PTRACE_TRACEME, 0, 0, 0);
                execvp(argv[0], argv);
                _exit(127);
        }
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
                die(argv[0]);
}

/* Runs freely; the stop that ends it is not delivered. */
static void run_ms(unsigned long ms) {
        int status;

        if (ptrace(PTRACE_CONT, child, 0, 0))
                die("continue");
        usleep((useconds_t)ms * 1000);
        kill(child, SIGSTOP);
        if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
                die("the program has ended");
        if (WSTOPSIG(status) != SIGSTOP)
                die("the program was stopped by something else, such as another exec");
}

static void run_to_trap(void) {
        int status;

        if (ptrace(PTRACE_CONT, child, 0, 0) || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
            WSTOPSIG(status) != SIGTRAP)
                die("the program does not trap");
}

static void skip(const char *amount, int *signalp) {
        char *end;
        unsigned long n = strtoul(amount, &end, 10);

        if (strcmp(amount, "trap") == 0) {
                run_to_trap();
                return;
        }
        if (strcmp(end, "ms") == 0) {
                run_ms(n);
                return;
        }
        call_list_begin(&calls);
        for (; n > 0; n--)
                if (!step(signalp))
                        die("the program has ended");
}

static Pc *pc_of(uint64_t pc) {
        Pc *found = hashmap_get(&pcs, pc);

        if (found)
                return found;
        found = calloc(1, sizeof(*found));
        if (!found || hashmap_put(&pcs, pc, found))
                die("memory");
        found->pc = pc;
        return found;
}

static void print_where(uint64_t pc) {
        const Mapping *mapping = process_find_mapping(process, pc);

        printf("%s+%" PRIx64 "\n", mapping && mapping->path ? mapping->path : "?",
               mapping ? pc - mapping->start + mapping->offset : pc);
}

/* Return: pcs whose row was derived. */
static uint64_t print_pcs(void) {
        HashmapEntry *entry;
        uint64_t n_derived = 0;
        uint32_t at = 0;

        while ((entry = hashmap_next(&pcs, &at))) {
                const Pc *pc = entry->value;

                n_derived += is_derived(pc->pc);
                if (pc->n_incomplete) {
                        printf("incomplete %u %u ", pc->n_incomplete, pc->end);
                        print_where(pc->pc);
                }
                if (pc->n_wrong) {
                        printf("wrong %u ", pc->n_wrong);
                        print_where(pc->pc);
                }
                if (pc->n_differ) {
                        printf("differs %u ", pc->n_differ);
                        print_where(pc->pc);
                }
        }
        return n_derived;
}

int main(int argc, char **argv) {
        uint64_t n_steps = 0, n_complete = 0, n_compared = 0, n_libdw_short = 0, n_derived;
        struct user_regs_struct registers;
        static Chain ours, theirs;
        int signal = 0;

        if (argc < 4)
                return 2;
        start(argv + 3);
        if (object_cache_new(&objects, 256))
                die("memory");
        skip(argv[2], &signal);
        read_maps();
        report_modules();
        if (strcmp(argv[2], "trap") == 0 && read_registers(&registers))
                find_calls(&registers);
        for (uint64_t max = strtoull(argv[1], NULL, 0); n_steps < max; n_steps++) {
                uint64_t address, sp;
                bool is_as_called;
                uint32_t end;
                Pc *pc;

                if (!read_registers(&registers))
                        break;
                place_frame(&registers, &address, &sp);
                pc = pc_of(address);
                end = walk(&registers, &ours);
                if (!ours.is_complete && (!pc->refreshed || n_steps - pc->refreshed > REFRESH_STEPS)) {
                        pc->refreshed = n_steps + 1;
                        read_maps();
                        report_modules();
                        end = walk(&registers, &ours);
                }
                settle_disputes(&ours, n_steps);
                is_as_called = compare_with_calls(pc, &ours);
                n_complete += ours.is_complete;
                if (!ours.is_complete) {
                        pc->n_incomplete++;
                        pc->end = end;
                }
                if (pc->n_visits++ < VISITS) {
                        walk_by_libdw(&theirs);
                        n_compared++;
                        n_libdw_short += theirs.n < ours.n;
                        if (!contradicts(&ours, &theirs))
                                ;
                        else if (is_as_called)
                                n_refuted++;
                        else
                                begin_dispute(pc, &ours, n_steps);
                }
                if (!step(&signal)) {
                        n_steps++;
                        break;
                }
        }
        end_disputes();
        n_derived = print_pcs();
        printf("steps %" PRIu64 " complete %" PRIu64 " pcs %u compared %" PRIu64 " differ %" PRIu64
               " libdw-short %" PRIu64 " refuted %" PRIu64 " called %" PRIu64 " wrong %" PRIu64
               " whole %" PRIu64 " derived %" PRIu64 "\n",
               n_steps, n_complete, pcs.n_entries, n_compared, n_differ, n_libdw_short, n_refuted, n_called,
               n_wrong, n_whole, n_derived);
        kill(child, SIGKILL);
        return 0;
}
