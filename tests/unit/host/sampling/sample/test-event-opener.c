/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A real opener, asked by a child that has no capability any more, and that this kernel therefore opens no
 * event for. Its status is the first line that does not hold, 0 = all do.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/rights.h"
#include "core/base/util/clock.h"
#include "host/sampling/sample/event.h"
#include "host/sampling/sample/machine.h"

#define hold(_condition) \
        do { \
                if (!(_condition)) \
                        _exit(__LINE__ & 0xff); \
        } while (0)

static const EventRequest a_clock = { EVENT_CLOCK, 0, NS_PER_MS };
static const EventRequest mappings = { EVENT_MAPPINGS, 0, 0 };

static EventOpener *start(void) {
        EventOpener *opener = NULL;

        hold(event_opener_new(&opener) == 0);
        hold(rights_drop(NULL, 0) == 0);
        hold(event_open(&a_clock) == -EACCES);
        return opener;
}

static void run(void (*check)(void)) {
        int64_t paranoid;
        int status;
        pid_t pid;

        if (geteuid() != 0 || machine_setting("perf_event_paranoid", &paranoid) || paranoid < 1)
                cr_skip_test("machine: root, and perf_event_paranoid of 1 or more: gives up what root has");
        pid = fork();
        if (!pid) {
                check();
                _exit(0);
        }
        cr_assert_eq(waitpid(pid, &status, 0), pid);
        cr_assert(WIFEXITED(status), "%d", status);
        cr_assert_eq(WEXITSTATUS(status), 0, "line %d", WEXITSTATUS(status));
}

/* Of the only child. */
static pid_t find_opener(void) {
        char path[64];
        pid_t pid = 0;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
        file = fopen(path, "re");
        hold(file && fscanf(file, "%d", &pid) == 1);
        fclose(file);
        return pid;
}

TestSuite(event_opener, .timeout = 60);

static void open_both(void) {
        EventOpener *opener = start();
        Event event = EVENT_INIT;

        hold(event_init(&event, NULL, 0, NS_PER_MS) == -EACCES);
        hold(event_init(&event, opener, 0, NS_PER_MS) == 0);
        hold(event.pages);
        for (uint64_t end_ns = clock_monotonic_ns() + 10 * NS_PER_SEC; !event_enabled_ns(&event);)
                hold(clock_monotonic_ns() < end_ns);
        hold(event_set_period(&event, 2 * NS_PER_MS) == 0);
        event_deinit(&event);
        event.fd = event_opener_open(opener, &mappings);
        hold(event.fd >= 0);
        close(event.fd);
        event_opener_free(opener);
}

Test(event_opener, opens_both_forms_for_who_may_not) {
        run(open_both);
}

static void ask_for_more(void) {
        const EventRequest requests[] = {
                { EVENT_CLOCK, 0, 100 }, { EVENT_CLOCK, 0, 0 }, { EVENT_FAULTS_MINOR, 0, 0 },
                { EVENT_FAULTS_MAJOR, 0, 0 }, { _EVENT_FORM_MAX, 0, NS_PER_MS },
                { (EventForm)-1, 0, 0 },
        };
        EventOpener *opener = start();
        int fd;

        for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
                hold(event_opener_open(opener, &requests[i]) == -EINVAL);
        hold(event_opener_open(opener, &(EventRequest){ EVENT_CLOCK, UINT32_MAX, NS_PER_MS }) < 0);
        hold(event_opener_open(opener, &(EventRequest){ EVENT_CLOCK, 1 << 20, NS_PER_MS }) < 0);
        fd = event_opener_open(opener, &a_clock);
        hold(fd >= 0);
        close(fd);
        event_opener_free(opener);
}

Test(event_opener, refuses_what_the_sampler_never_asks_for) {
        run(ask_for_more);
}

static bool has_line(pid_t pid, const char *wanted) {
        char path[64], line[256];
        bool found = false;
        FILE *file;

        snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
        file = fopen(path, "re");
        while (file && !found && fgets(line, sizeof(line), file))
                found = !strncmp(line, wanted, strlen(wanted));
        if (file)
                fclose(file);
        return found;
}

static void look_at_rights(void) {
        EventOpener *opener = start();
        int fd = event_opener_open(opener, &a_clock);
        pid_t pid = find_opener();

        hold(fd >= 0);
        hold(has_line(pid, "Name:\tspanprof-events\n"));
        hold(has_line(pid, "CapPrm:\t0000000000200000\n"));
        hold(has_line(pid, "CapEff:\t0000000000200000\n"));
        hold(has_line(pid, "CapInh:\t0000000000000000\n"));
        hold(has_line(pid, "CapBnd:\t0000000000000000\n"));
        hold(has_line(pid, "CapAmb:\t0000000000000000\n"));
        hold(has_line(pid, "NoNewPrivs:\t1\n"));
        hold(has_line(pid, "Seccomp:\t2\n"));
        event_opener_free(opener);
        hold(waitpid(pid, NULL, 0) == -1 && errno == ECHILD);
}

Test(event_opener, keeps_one_capability_and_ends_with_its_socket) {
        run(look_at_rights);
}

static void stop_it(void) {
        EventOpener *opener = start();
        pid_t pid = find_opener();

        kill(pid, SIGSTOP);
        hold(event_opener_open(opener, &a_clock) == -ETIMEDOUT);
        kill(pid, SIGCONT);
        hold(event_opener_open(opener, &a_clock) == -EPIPE);
        event_opener_free(opener);
}

Test(event_opener, that_hangs_is_waited_for_once) {
        run(stop_it);
}

static void kill_it(void) {
        EventOpener *opener = start();

        kill(find_opener(), SIGKILL);
        hold(event_opener_open(opener, &a_clock) == -EPIPE);
        hold(event_opener_open(opener, &a_clock) == -EPIPE);
        event_opener_free(opener);
}

Test(event_opener, that_dies_is_an_error) {
        run(kill_it);
}
