/* SPDX-License-Identifier: Apache-2.0 */

/* The files of a process that it can hold up, read by one bounded call. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "child.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/process-look.h"
#include "process-bench.h"

enum { PAGE = 4096 };

static int directory_of(pid_t pid) {
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d", pid);
        return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void idle(int ready, int go) {
}

/* A program with an environment of 12 KiB, of which the first and the last variable matter. */
static Child start_with_much(void) {
        static char filler[12 << 10] = "FILLER=";
        char service[] = "OTEL_SERVICE_NAME=shop", last[] = "DD_ENV=last", name[] = "sleep", time[] = "60";
        char *const environment[] = { service, filler, last, NULL };
        int started[2];
        Child child;

        memset(filler + strlen(filler), 'x', sizeof(filler) - 1 - strlen(filler));
        cr_assert_eq(pipe2(started, O_CLOEXEC), 0);
        child = (Child){ .pid = fork() };
        if (!child.pid) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                execve("/bin/sleep", (char *const[]){ name, time, NULL }, environment);
                _exit(1);
        }
        close(started[1]);
        cr_assert_eq(read(started[0], filler, 1), 0, "exec closes it");
        return child;
}

static void equals_file(int directory, const char *name, const char *text, size_t room, int32_t size) {
        _cleanup_(closep) int fd = openat(directory, name, O_RDONLY | O_CLOEXEC);
        static char expected[1 << 16];
        ssize_t n, all = 0;

        while ((n = read(fd, expected + all, sizeof(expected) - (size_t)all)) > 0)
                all += n;
        cr_assert_gt(all, 0);
        if (all >= (ssize_t)room) {     /* a sanitizer has many mappings */
                cr_assert_eq(size, -1, "%s", name);
                return;
        }
        cr_assert_eq(size, all, "%s", name);
        cr_assert_arr_eq(text, expected, (size_t)all);
}

Test(process_look, has_what_the_files_have) {
        const Child child = child_start(idle);
        ProcessLook *look;
        int fd = directory_of(child.pid);

        cr_assert_eq(process_look_new(&look, fd, true), 0);
        cr_assert_not(look->is_stuck);
        equals_file(fd, "maps", look->maps, sizeof(look->maps), look->n_maps);
        equals_file(fd, "cmdline", look->arguments, sizeof(look->arguments), look->n_arguments);
        process_look_free(look);
        close(fd);
        child_stop(&child);
}

Test(process_look, leaves_what_is_long_to_who_needs_it) {
        const Child child = start_with_much();
        ObjectCache *objects = cache();
        Process *process;
        ProcessLook *look;
        int fd = directory_of(child.pid);

        cr_assert_eq(process_look_new(&look, fd, true), 0);
        cr_assert_eq(look->n_environment, -1);
        cr_assert_gt(look->n_maps, 0);
        process_look_free(look);
        cr_assert_eq(process_new_open(&process, child.pid), 0);
        cr_assert_eq(process_read_identity(process, IDENTITY_ENVIRONMENT, true), 0);
        cr_assert_str_eq(process->identity->environment.service_name, "shop");
        cr_assert_eq(process->identity->environment.n_attributes, 1, "the last bytes have it");
        process_free(process);
        object_cache_free(objects);
        close(fd);
        child_stop(&child);
}

Test(process_look, says_nothing_of_who_is_gone) {
        const Child child = child_start(idle);
        ProcessLook *look;
        int fd = directory_of(child.pid);

        child_stop(&child);
        cr_assert_eq(process_look_new(&look, fd, true), 0);
        cr_assert(look->n_maps == -1 && look->n_arguments == -1 && look->n_environment == -1);
        cr_assert_not(look->is_stuck);
        process_look_free(look);
        close(fd);
}

/* What changes between both is told by notices: so the mappings have the time at which they were read. */
Test(process_look, gives_mappings_as_they_were_with_the_identity) {
        ObjectCache *objects = cache();
        uint64_t looked_ns;
        Process *process;
        void *code;

        cr_assert_eq(process_new_open(&process, getpid()), 0);
        cr_assert_eq(process_read_identity(process, IDENTITY_CGROUP | IDENTITY_ENVIRONMENT, true), 0);
        if (process->look->n_maps < 0) {        /* a sanitizer has many mappings, which are read apart */
                process_free(process);
                object_cache_free(objects);
                cr_skip_test("machine: this build has more mappings than a look takes");
        }
        looked_ns = clock_monotonic_ns();
        code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_leq(process->maps_read_ns, looked_ns);
        cr_assert_null(process_find_mapping(process, (uintptr_t)code));
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_gt(process->maps_read_ns, looked_ns, "once, and then they are read again");
        cr_assert_not_null(process_find_mapping(process, (uintptr_t)code));
        process_free(process);
        object_cache_free(objects);
}

Test(process_look, is_forgotten_with_the_open_directory) {
        ObjectCache *objects = cache();
        Process *process;
        void *code;

        cr_assert_eq(process_new_open(&process, getpid()), 0);
        cr_assert_eq(process_read_identity(process, IDENTITY_ENVIRONMENT, true), 0);
        process_close(process);
        code = mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_not_null(process_find_mapping(process, (uintptr_t)code));
        process_free(process);
        object_cache_free(objects);
}

/* One time limit is enough, and what the environment held up is no reason to know no mappings. */
Test(process_look, that_hung_costs_an_environment_and_no_mappings) {
        const ProcessLook hung = { .is_stuck = true, .n_maps = -1, .n_arguments = -1, .n_environment = -1 };
        int fd = directory_of(getpid());
        ObjectCache *objects = cache();
        Identity *identity;
        Process *process;

        cr_assert_eq(identity_new_by(&identity, fd, IDENTITY_CGROUP | IDENTITY_ENVIRONMENT, &hung), 0);
        cr_assert_eq(stat_get(COUNTER_ENVIRONMENTS_UNREADABLE), 1);
        cr_assert_not_null(identity->groups);
        identity_free(identity);
        cr_assert_eq(process_new_open(&process, getpid()), 0);
        process->look = malloc(sizeof(hung));
        *process->look = hung;
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_gt(process->n_mappings, 0);
        cr_assert_null(process->look);
        process_free(process);
        object_cache_free(objects);
        close(fd);
}
