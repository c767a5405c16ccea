/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process context as a reader finds it: a mapping that begins with OTEL_CTX, taken apart by offset. Each
 * look goes through /proc, in the process itself, in children of fork() and of a bare clone. Built twice: in
 * one program no file exports the variable of threads, in the other the shared library does.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spanprof/otel.h"

enum { PAYLOAD_SIZE = 12, PUBLISHED = 16, PAYLOAD = 24, HEADER = 32, ROOM = 1024 };

struct found {
        unsigned n;             /* mappings that begin with the signature */
        bool is_kept;           /* from children */
        uint64_t published_ns;
        size_t size;
        char payload[ROOM];
};

/* A read that fails where nothing is mapped. */
static bool read_memory(uint64_t address, void *to, size_t size) {
        struct iovec local = { to, size }, remote = { (void *)(uintptr_t)address, size };

        return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)size;
}

static void take_header(const uint8_t *header, struct found *found) {
        uint64_t payload;
        uint32_t size;

        found->n++;
        memcpy(&found->published_ns, header + PUBLISHED, sizeof(found->published_ns));
        memcpy(&payload, header + PAYLOAD, sizeof(payload));
        memcpy(&size, header + PAYLOAD_SIZE, sizeof(size));
        found->size = size <= ROOM && read_memory(payload, found->payload, size) ? size : 0;
}

static struct found look(void) {
        FILE *maps = fopen("/proc/self/smaps", "re");
        struct found found = { 0 };
        uint8_t header[HEADER];
        bool is_header = false;
        uint64_t start, end;
        char line[4096];

        while (maps && fgets(line, sizeof(line), maps)) {
                if (sscanf(line, "%" SCNx64 "-%" SCNx64 " rw-p", &start, &end) == 2) {
                        is_header = read_memory(start, header, HEADER) && !memcmp(header, "OTEL_CTX", 8);
                        if (is_header)
                                take_header(header, &found);
                } else if (is_header && !strncmp(line, "VmFlags:", 8)) {
                        found.is_kept = strstr(line, " dc");
                }
        }
        if (maps)
                fclose(maps);
        return found;
}

static int publish(const char *name) {
        struct spanprof_otel_attribute resource[] = { { "service.name", name } };
        struct spanprof_otel_process process = { .size = sizeof(process), .n_attributes = 1,
                                                 .attributes = resource };

        return spanprof_otel_publish(&process);
}

static bool says(const struct found *found, const char *text) {
        return found->n == 1 && memmem(found->payload, found->size, text, strlen(text));
}

static int status_of(pid_t pid) {
        int status = -1;

        waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static uint64_t now_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

Test(sdk_process, publishes_one_header_that_children_do_not_inherit) {
        struct found found = look(), again;

        cr_assert_eq(found.n, 0);
        cr_assert_eq(publish("shop"), 0);
        found = look();
        cr_assert(says(&found, "shop"));
        cr_assert(found.is_kept);
        cr_assert_eq(publish("cart"), 0);
        again = look();
        cr_assert(says(&again, "cart"));
        cr_assert_gt(again.published_ns, found.published_ns);
}

/* Exit status of a child: which look went wrong, 0 = none. */
static int child_looks(const struct found *before, uint64_t forked_ns) {
        struct found found = look();

        if (found.n != 1 || !found.is_kept)
                return 1;
        if (found.size != before->size || memcmp(found.payload, before->payload, found.size) != 0)
                return 2;
        if (found.published_ns < forked_ns || found.published_ns > now_ns())
                return 3;
        return 0;
}

static int child_and_its_child_look(const struct found *before, uint64_t forked_ns) {
        int r = child_looks(before, forked_ns);
        struct found found;
        pid_t pid;

        if (r)
                return r;
        forked_ns = now_ns();
        pid = fork();
        if (pid == 0)
                _exit(child_looks(before, forked_ns));
        if (status_of(pid))
                return 4;
        if (publish("worker"))
                return 5;
        found = look();
        return says(&found, "worker") ? 0 : 6;
}

Test(sdk_process, a_forked_child_says_the_same_in_a_header_of_its_own) {
        struct found before, after;
        uint64_t forked_ns;
        pid_t pid;

        cr_assert_eq(publish("shop"), 0);
        before = look();
        forked_ns = now_ns();
        pid = fork();
        if (pid == 0)
                _exit(child_and_its_child_look(&before, forked_ns));
        cr_assert_eq(status_of(pid), 0);
        after = look();
        cr_assert(says(&after, "shop"));
        cr_assert_eq(after.published_ns, before.published_ns, "the parent keeps its own");
}

Test(sdk_process, a_forked_child_of_a_process_that_says_nothing_says_nothing) {
        pid_t pid = fork();

        if (pid == 0)
                _exit((int)look().n);
        cr_assert_eq(status_of(pid), 0);
}

static int cloned_child_looks(void) {
        struct found found = look();

        if (found.n)
                return 1;
        if (publish("worker"))
                return 2;
        found = look();
        return says(&found, "worker") && found.is_kept ? 0 : 3;
}

Test(sdk_process, a_child_of_a_bare_clone_says_nothing_until_it_publishes) {
        pid_t pid;

        cr_assert_eq(publish("shop"), 0);
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
                _exit(cloned_child_looks());
        cr_assert_eq(status_of(pid), 0);
}

/* fork() in a process at its limit of @resource. Return: as fork(), with the limit as before in both. */
static pid_t fork_at_limit(int resource) {
        struct rlimit before, low;
        pid_t pid;

        getrlimit(resource, &before);
        low = (struct rlimit){ 0, before.rlim_max };
        setrlimit(resource, &low);
        pid = fork();
        setrlimit(resource, &before);
        return pid;
}

Test(sdk_process, a_child_without_memory_for_a_header_says_nothing_until_there_is_some) {
        pid_t pid;

        cr_assert_eq(publish("shop"), 0);
        pid = fork_at_limit(RLIMIT_AS);
        if (pid == 0)
                _exit(cloned_child_looks());
        cr_assert_eq(status_of(pid), 0);
}

Test(sdk_process, a_child_that_may_write_no_file_lives_and_has_a_header) {
        struct found before;
        uint64_t forked_ns;
        pid_t pid;

        cr_assert_eq(publish("shop"), 0);
        before = look();
        forked_ns = now_ns();
        pid = fork_at_limit(RLIMIT_FSIZE);
        if (pid == 0)
                _exit(child_looks(&before, forked_ns));
        cr_assert_eq(status_of(pid), 0);
}

/* A kernel older than Linux 4.14, which wipes no page in a child. */
static int refuse_wiping(void) {
        struct sock_filter steps[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MADV_WIPEONFORK, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog filter = { sizeof(steps) / sizeof(steps[0]), steps };

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int child_of_an_old_kernel_looks(uint64_t forked_ns) {
        struct found found = look();

        if (!says(&found, "shop") || found.published_ns < forked_ns)
                return 1;
        return publish("worker") || (found = look(), !says(&found, "worker")) ? 2 : 0;
}

Test(sdk_process, an_old_kernel_s_child_has_one_header_with_a_time_of_its_own) {
        struct found found;
        uint64_t forked_ns;
        pid_t pid;

        cr_assert_eq(refuse_wiping(), 0);
        cr_assert_eq(publish("shop"), 0);
        found = look();
        cr_assert_not(found.is_kept, "a child could not tell whether it has the header");
        forked_ns = now_ns();
        pid = fork();
        if (pid == 0)
                _exit(child_of_an_old_kernel_looks(forked_ns));
        cr_assert_eq(status_of(pid), 0);
}

Test(sdk_process, names_the_schema_of_threads_where_readers_find_their_variable) {
        struct found found;

        cr_assert_eq(publish("shop"), 0);
        found = look();
        cr_assert(says(&found, "shop"));
        cr_assert_eq(says(&found, "threadlocal.schema_version"), IS_EXPORTED);
        cr_assert_eq(says(&found, "threadlocal.attribute_key_map"), IS_EXPORTED);
}
