/* SPDX-License-Identifier: Apache-2.0 */

/* Which processes are remembered, and for how long; whose regions give way. */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "host/coro/join.h"
#include "spanprof/station.h"
#include "stat-reset.h"

enum {
        N_ENDED = 10000,
        N_LIVE = 100,
        KEEP_MS = 3000,
        MAX_REGIONS = 64,
};

/* users */
#define ATTACKER "61001"
#define HONEST "61002"

static CoroJoin *join;

static void begin(void) {
        cr_assert_eq(coro_join_new(&join), 0);
}

static void end(void) {
        coro_join_free(join);
}
TestSuite(coro_join, .init = begin, .fini = end);

static void find(uint32_t pid, bool has_ended) {
        CoroRun run = { .pid = pid, .ns_tid = pid, .generation = pid, .time_ns = 1, .has_ended = has_ended };
        CoroMatch match;

        cr_assert_eq(coro_join_find(join, &run, &match), CORO_JOIN_E_NONE);
}

Test(coro_join, remembers_no_process_that_has_ended_before_its_first_sample) {
        for (uint32_t pid = 1; pid <= N_ENDED; pid++)
                find(pid, true);
        cr_assert_eq(coro_join_count(join), 0);
}

Test(coro_join, forgets_all_who_have_ended_after_a_while) {
        uint64_t wait_ns;

        for (uint32_t pid = 1; pid <= N_LIVE; pid++)
                find(pid, false);
        find(1, true);
        cr_assert_eq(coro_join_count(join), N_LIVE);
        for (uint32_t pid = N_LIVE; pid > 1; pid--)
                cr_assert_eq(coro_join_forget(join, pid, 1), 0);
        cr_assert_eq(coro_join_scan(join, &wait_ns), 0);
        cr_assert_eq(coro_join_count(join), N_LIVE, "samples of theirs may be on their way");
        find(2, false);         /* the same program: nothing new */
        poll(NULL, 0, KEEP_MS + 100);
        cr_assert_eq(coro_join_scan(join, &wait_ns), 0);
        cr_assert_eq(coro_join_count(join), 1);
}

Test(coro_join, who_comes_late_has_a_place_and_keeps_it_while_it_is_asked_for) {
        const uint32_t honest = 1u << 30;

        for (uint32_t pid = 1; pid <= N_ENDED; pid++)
                find(pid, false);
        cr_assert_lt(coro_join_count(join), N_ENDED);
        cr_assert_not(coro_join_knows(join, 1));
        find(honest, false);
        cr_assert(coro_join_knows(join, honest));
        for (uint32_t pid = 1; pid <= N_ENDED; pid++) {
                find(pid, false);
                if (pid % 1000 == 0)
                        find(honest, false);
        }
        cr_assert(coro_join_knows(join, honest));
}

/*
 * A copy of this program that runs as a user, and has a region of its own mapped. It says so by a byte to
 * its standard output.
 */
static const char publisher[] = "publisher";

__attribute__((constructor)) static void be_publisher(int argc, char **argv) {
        const struct spanprof_station_region header = { .magic = SPANPROF_STATION_MAGIC, .version = 1,
                                                        .max_stations = 3 };
        uid_t user;
        int fd;

        if (argc != 2 || strcmp(argv[0], publisher) != 0)
                return;
        user = (uid_t)atoi(argv[1]);
        fd = memfd_create("region", 0);
        if (ftruncate(fd, 4096) || pwrite(fd, &header, sizeof(header), 0) != sizeof(header) ||
            mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ||
            setresuid(user, user, user) || prctl(PR_SET_PDEATHSIG, SIGKILL) ||
            write(STDOUT_FILENO, "", 1) != 1)
                _exit(1);
        pause();
        _exit(0);
}

/* Stations are looked for in programs of other files alone, so it is a copy that runs. */
static int copy_program(void) {
        int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);

        while (sendfile(to, from, NULL, 1 << 20) > 0)
                ;
        close(from);
        return to;
}

/* A process of @user that has a region of its own mapped. */
static uint32_t publish(int program, const char *user) {
        int ready[2];
        pid_t pid;
        char byte;

        cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
        pid = fork();
        cr_assert_geq(pid, 0);
        if (!pid) {
                dup2(ready[1], STDOUT_FILENO);
                fexecve(program, (char *[]){ (char *)publisher, (char *)user, NULL }, (char *[]){ NULL });
                _exit(1);
        }
        close(ready[1]);
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        cr_assert_eq(coro_join_watch(join, (uint32_t)pid, (uint64_t)pid), 0);
        return (uint32_t)pid;
}

static void end_process(uint32_t pid) {
        kill((pid_t)pid, SIGKILL);
        waitpid((pid_t)pid, NULL, 0);
}

/* Whether the region of a process is followed: a sample of it is told to be of no coroutine. */
static bool has_region(uint32_t pid) {
        uint64_t before = stat_get(COUNTER_CORO_SAMPLES_NONE);

        find(pid, false);
        return stat_get(COUNTER_CORO_SAMPLES_NONE) > before;
}

static size_t count_regions(const uint32_t *pids, size_t n) {
        size_t n_with = 0;

        for (size_t i = 0; i < n; i++)
                n_with += has_region(pids[i]);
        return n_with;
}

Test(coro_join, a_user_with_many_regions_leaves_another_its_own) {
        uint32_t attackers[MAX_REGIONS + 2], honest, second;
        int program = copy_program();

        if (geteuid())
                cr_skip_test("root: processes of other users cannot be made");
        stat_reset();
        for (size_t i = 0; i <= MAX_REGIONS; i++)
                attackers[i] = publish(program, ATTACKER);
        cr_assert_eq(stat_get(COUNTER_CORO_REGIONS), MAX_REGIONS);
        cr_assert_eq(stat_get(COUNTER_CORO_REGIONS_REFUSED), 1);
        cr_assert_eq(count_regions(attackers, MAX_REGIONS), MAX_REGIONS, "none of its own gives way to it");
        honest = publish(program, HONEST);
        cr_assert(has_region(honest));
        cr_assert_eq(count_regions(attackers, MAX_REGIONS), MAX_REGIONS - 1, "one of the crowd gave way");
        second = publish(program, HONEST);
        attackers[MAX_REGIONS + 1] = publish(program, ATTACKER);
        cr_assert(has_region(honest) && has_region(second));
        cr_assert_eq(stat_get(COUNTER_CORO_REGIONS_REFUSED), 4);
        /* what ends gives its place back */
        end_process(honest);
        cr_assert_eq(coro_join_forget(join, honest, 1), 0);
        cr_assert_eq(coro_join_forget(join, second, 1), 0);
        end_process(second);
        for (size_t i = 0; i < MAX_REGIONS + 2; i++)
                end_process(attackers[i]);
}
