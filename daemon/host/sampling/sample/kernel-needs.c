/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Asks the kernel for each function, kind of program and kind of map that the kernel half needs. A program
 * that calls the function and ends is loaded: the verifier names a function that it does not know, and
 * complains of its arguments if it knows it. libbpf's own probes take a missing right for a yes, and know no
 * newer words.
 */

#include "host/sampling/sample/kernel-needs.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/macro.h"

enum {
        LOG_SIZE = 4096,
        SAMPLES = 1 << KERNEL_PART_SAMPLES,
        EVENTS = 1 << KERNEL_PART_EVENTS,
        THREADS = 1 << KERNEL_PART_THREADS,
        PROBES = 1 << KERNEL_PART_PROBES,
        ALL = SAMPLES | EVENTS | THREADS | PROBES,
        CALL = BPF_JMP | BPF_CALL,
        LEAVE = BPF_JMP | BPF_EXIT,
        MOVE = BPF_ALU64 | BPF_MOV | BPF_K,
};

/*
 * Functions, by the parts whose programs call them; test-kernel-needs.py compares them with the objects.
 * libbpf puts older reads in the place of newer ones; the kernel half has a walk by bpf_loop(), and one
 * without. Where the mapping of a page fault cannot be found, bounds of the process tell what they can.
 */
static const struct {
        enum bpf_func_id id;
        uint8_t parts;
        const char *name, *since;
        enum bpf_func_id substitute;    /* 0 = none */
} functions[] = {
        { BPF_FUNC_map_lookup_elem, ALL, "map_lookup_elem", "3.19", 0 },
        { BPF_FUNC_map_update_elem, SAMPLES | EVENTS | PROBES, "map_update_elem", "3.19", 0 },
        { BPF_FUNC_map_delete_elem, SAMPLES | EVENTS | PROBES, "map_delete_elem", "3.19", 0 },
        { BPF_FUNC_ktime_get_ns, ALL, "ktime_get_ns", "4.1", 0 },
        { BPF_FUNC_get_smp_processor_id, SAMPLES | EVENTS | PROBES, "get_smp_processor_id", "4.1", 0 },
        { BPF_FUNC_get_prandom_u32, EVENTS, "get_prandom_u32", "4.1", 0 },
        { BPF_FUNC_tail_call, SAMPLES, "tail_call", "4.2", 0 },
        { BPF_FUNC_get_current_pid_tgid, SAMPLES | EVENTS | PROBES, "get_current_pid_tgid", "4.2", 0 },
        { BPF_FUNC_get_current_uid_gid, EVENTS | PROBES, "get_current_uid_gid", "4.2", 0 },
        { BPF_FUNC_get_current_task, SAMPLES | EVENTS, "get_current_task", "4.8", 0 },
        { BPF_FUNC_perf_prog_read_value, SAMPLES, "perf_prog_read_value", "4.15", 0 },
        { BPF_FUNC_get_stack, SAMPLES, "get_stack", "4.18", 0 },
        { BPF_FUNC_get_current_cgroup_id, EVENTS | PROBES, "get_current_cgroup_id", "4.18", 0 },
        { BPF_FUNC_probe_read_kernel, ALL, "probe_read_kernel", "5.5", BPF_FUNC_probe_read },
        { BPF_FUNC_probe_read_kernel_str, SAMPLES, "probe_read_kernel_str", "5.5", BPF_FUNC_probe_read_str },
        { BPF_FUNC_probe_read_user, ALL, "probe_read_user", "5.5", BPF_FUNC_probe_read },
        { BPF_FUNC_seq_write, THREADS, "seq_write", "5.7", 0 },
        { BPF_FUNC_ktime_get_boot_ns, SAMPLES, "ktime_get_boot_ns", "5.8", 0 },
        { BPF_FUNC_ringbuf_output, SAMPLES | EVENTS | PROBES, "ringbuf_output", "5.8", 0 },
        { BPF_FUNC_ringbuf_reserve, SAMPLES, "ringbuf_reserve", "5.8", 0 },
        { BPF_FUNC_ringbuf_submit, SAMPLES, "ringbuf_submit", "5.8", 0 },
        { BPF_FUNC_ringbuf_discard, SAMPLES, "ringbuf_discard", "5.8", 0 },
        { BPF_FUNC_ringbuf_query, SAMPLES | EVENTS, "ringbuf_query", "5.8", 0 },
        { BPF_FUNC_get_current_task_btf, ALL, "get_current_task_btf", "5.11", 0 },
        { BPF_FUNC_for_each_map_elem, SAMPLES | EVENTS | PROBES, "for_each_map_elem", "5.13", BPF_FUNC_loop },
        { BPF_FUNC_task_pt_regs, ALL, "task_pt_regs", "5.15", 0 },
        { BPF_FUNC_get_attach_cookie, PROBES, "get_attach_cookie", "5.15", 0 },
        { BPF_FUNC_find_vma, SAMPLES, "find_vma", "5.17", BPF_FUNC_probe_read_kernel },
        { BPF_FUNC_loop, SAMPLES | EVENTS | PROBES, "loop", "5.17", BPF_FUNC_for_each_map_elem },
};

static const struct {
        enum bpf_map_type type;
        const char *name, *since;
} maps[] = {
        { BPF_MAP_TYPE_HASH, "hash", "3.19" },
        { BPF_MAP_TYPE_ARRAY, "array", "3.19" },
        { BPF_MAP_TYPE_PROG_ARRAY, "prog_array", "4.2" },
        { BPF_MAP_TYPE_PERCPU_ARRAY, "percpu_array", "4.6" },
        { BPF_MAP_TYPE_LRU_HASH, "lru_hash", "4.10" },
        { BPF_MAP_TYPE_ARRAY_OF_MAPS, "array_of_maps", "4.12" },
        { BPF_MAP_TYPE_RINGBUF, "ringbuf", "5.8" },
};

static const struct {
        enum bpf_prog_type type;
        const char *name, *since;
} programs[] = {
        [KERNEL_PART_SAMPLES] = { BPF_PROG_TYPE_PERF_EVENT, "perf_event", "4.9" },
        [KERNEL_PART_EVENTS] = { BPF_PROG_TYPE_RAW_TRACEPOINT, "raw_tracepoint", "4.17" },
        [KERNEL_PART_THREADS] = { BPF_PROG_TYPE_TRACING, "iter/task", "5.8" },
        [KERNEL_PART_PROBES] = { BPF_PROG_TYPE_KPROBE, "kprobe", "4.1" },
        [KERNEL_PART_MAPS] = { BPF_PROG_TYPE_UNSPEC, "", "" },
};

const char *kernel_part_program(KernelPart part) {
        return programs[part].name;
}

/* ---- questions ---- */

/* Errors that say nothing about what the kernel has. */
static bool is_silent(int error) {
        return error == EPERM || error == ENOMEM || error == EMFILE || error == ENFILE || error == EINTR ||
                error == EAGAIN;
}

/* A load of these instructions. @log: what the verifier says. Return: 0 = it is loaded, or errno. */
static int try_load(KernelPart part, int iterator, const struct bpf_insn *code, size_t n,
                    char log[LOG_SIZE]) {
        LIBBPF_OPTS(bpf_prog_load_opts, options, .log_buf = log, .log_size = LOG_SIZE, .log_level = 1);
        int fd;

        if (part == KERNEL_PART_THREADS) {
                options.expected_attach_type = BPF_TRACE_ITER;
                options.attach_btf_id = (uint32_t)iterator;
        }
        log[0] = 0;
        fd = bpf_prog_load(programs[part].type, NULL, "GPL", code, n, &options);
        if (fd < 0)
                return errno;
        close(fd);
        return 0;
}

static KernelAnswer ask_program(KernelPart part, int iterator) {
        const struct bpf_insn code[] = { { .code = MOVE }, { .code = LEAVE } };
        char log[LOG_SIZE];
        int error = try_load(part, iterator, code, ARRAY_SIZE(code), log);

        return !error ? KERNEL_HAS : is_silent(error) ? KERNEL_SILENT : KERNEL_LACKS;
}

static KernelAnswer ask_function(KernelPart part, int iterator, enum bpf_func_id id) {
        const struct bpf_insn code[] = { { .code = CALL, .imm = (int)id }, { .code = LEAVE } };
        char log[LOG_SIZE];
        int error = try_load(part, iterator, code, ARRAY_SIZE(code), log);

        /* the last: Linux 6.12 and newer, of functions that other programs may call */
        if (strstr(log, "invalid func ") || strstr(log, "unknown func ") || strstr(log, "cannot use helper "))
                return KERNEL_LACKS;
        return is_silent(error) ? KERNEL_SILENT : KERNEL_HAS;
}

static KernelAnswer ask_map(enum bpf_map_type type) {
        LIBBPF_OPTS(bpf_map_create_opts, options);
        bool is_ring = type == BPF_MAP_TYPE_RINGBUF, is_outer = type == BPF_MAP_TYPE_ARRAY_OF_MAPS;
        int fd, error, inner = is_outer ? bpf_map_create(BPF_MAP_TYPE_ARRAY, NULL, 4, 4, 1, NULL) : -1;

        if (is_outer && inner < 0)
                return is_silent(errno) ? KERNEL_SILENT : KERNEL_LACKS;
        options.inner_map_fd = is_outer ? (uint32_t)inner : 0;
        fd = bpf_map_create(type, NULL, is_ring ? 0 : 4, is_ring ? 0 : 4,
                            is_ring ? (uint32_t)sysconf(_SC_PAGESIZE) : 1, &options);
        error = fd < 0 ? errno : 0;
        if (inner >= 0)
                close(inner);
        if (fd >= 0)
                close(fd);
        return !error ? KERNEL_HAS : is_silent(error) ? KERNEL_SILENT : KERNEL_LACKS;
}

/* A kernel without this iterator has no type of that name. */
static int find_iterator(void) {
        int id = libbpf_find_vmlinux_btf_id("task", BPF_TRACE_ITER);

        return id > 0 ? id : 0;
}

/* ---- all of them ---- */

/* Name of a function; those that are substitutes alone are no needs. */
static const char *function_name(enum bpf_func_id id) {
        for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
                if (functions[i].id == id)
                        return functions[i].name;
        return id == BPF_FUNC_probe_read_str ? "probe_read_str" : "probe_read";
}

static void ask_functions(KernelPart part, int iterator, KernelNeedTold *tell, void *userdata) {
        for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
                KernelNeed need = { .part = part, .name = functions[i].name, .since = functions[i].since };
                enum bpf_func_id substitute = functions[i].substitute;
                KernelAnswer answer;

                if (!(functions[i].parts & 1 << part))
                        continue;
                answer = ask_function(part, iterator, functions[i].id);
                if (answer == KERNEL_LACKS && substitute &&
                    ask_function(part, iterator, substitute) == KERNEL_HAS)
                        need.substitute = function_name(substitute);
                tell(&need, answer, userdata);
        }
}

void kernel_needs_ask(KernelNeedTold *tell, void *userdata) {
        libbpf_print_fn_t print = libbpf_set_print(NULL);       /* a no is no trouble */
        int iterator = find_iterator();

        for (KernelPart part = 0; part < KERNEL_PART_MAPS; part++) {
                KernelAnswer answer = ask_program(part, iterator);

                tell(&(KernelNeed){ .part = part, .name = "", .since = programs[part].since }, answer,
                     userdata);
                if (answer == KERNEL_HAS)
                        ask_functions(part, iterator, tell, userdata);
        }
        for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
                tell(&(KernelNeed){ .part = KERNEL_PART_MAPS, .name = maps[i].name, .since = maps[i].since },
                     ask_map(maps[i].type), userdata);
        libbpf_set_print(print);
}

void kernel_need_text(const KernelNeed *need, char *text, size_t size) {
        if (need->part == KERNEL_PART_MAPS)
                snprintf(text, size, "maps of the kind %s (since Linux %s)", need->name, need->since);
        else if (!*need->name)
                snprintf(text, size, "%s programs (since Linux %s)", kernel_part_program(need->part), need->since);
        else
                snprintf(text, size, "bpf_%s() in %s programs (since Linux %s)", need->name,
                         kernel_part_program(need->part), need->since);
}

typedef struct Missing {
        char *text;
        size_t size, n;
} Missing;

static void add_missing(const KernelNeed *need, KernelAnswer answer, void *userdata) {
        Missing *missing = userdata;
        char words[128];

        if (answer != KERNEL_LACKS || need->substitute || need->part == KERNEL_PART_THREADS ||
            need->part == KERNEL_PART_PROBES || missing->n >= missing->size)
                return;
        kernel_need_text(need, words, sizeof(words));
        /* up to the kind of program: a function that programs of another kind lack as well */
        if (*need->name && need->part != KERNEL_PART_MAPS &&
            memmem(missing->text, missing->n, words, (size_t)(strchr(words, ' ') - words)))
                return;
        missing->n += (size_t)snprintf(missing->text + missing->n, missing->size - missing->n, "%s%s",
                                       missing->n ? ", " : "", words);
}

bool kernel_needs_missing(char *text, size_t size) {
        Missing missing = { text, size, 0 };

        *text = 0;
        kernel_needs_ask(add_missing, &missing);
        return missing.n;
}
