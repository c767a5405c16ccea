/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/stat.h"

enum { PAGE = 4096 };

static void open_pipe(int fds[2]) {
        cr_assert_eq(pipe2(fds, O_CLOEXEC), 0);
}

/* Those that hang come back by themselves once they can. */
static void wait_for_stuck(unsigned n) {
        while (bounded_n_stuck() != n)
                usleep(1000);
}

Test(bounded_read, gives_what_the_system_call_gives) {
        char bytes[16] = "unchanged";
        int fds[2];

        open_pipe(fds);
        cr_assert_eq(write(fds[1], "hello", 5), 5);
        cr_assert_eq(bounded_read(1, fds[0], bytes, sizeof(bytes), -1), 5);
        cr_assert_arr_eq(bytes, "hellonged", 9);
        close(fds[1]);
        cr_assert_eq(bounded_read(1, fds[0], bytes, sizeof(bytes), -1), 0);
        cr_assert_eq(bounded_read(1, fds[0], bytes, sizeof(bytes), 3), -ESPIPE, "pipes have no offsets");
        cr_assert_eq(bounded_read(1, -1, bytes, sizeof(bytes), -1), -EBADF);
        cr_assert_arr_eq(bytes, "hellonged", 9);
        cr_assert_eq(stat_get(COUNTER_READS_STUCK), 0);
}

Test(bounded_fill, reads_until_there_is_enough_or_no_more) {
        char bytes[8] = "";
        int fds[2];

        open_pipe(fds);
        cr_assert_eq(write(fds[1], "0123456789", 10), 10);
        cr_assert_eq(bounded_fill(1, fds[0], bytes, sizeof(bytes)), 8);
        cr_assert_arr_eq(bytes, "01234567", 8);
        close(fds[1]);
        cr_assert_eq(bounded_fill(1, fds[0], bytes, sizeof(bytes)), 2);
        cr_assert_arr_eq(bytes, "89234567", 8);
        cr_assert_eq(bounded_fill(1, fds[0], bytes, sizeof(bytes)), 0);
        cr_assert_eq(bounded_fill(1, -1, bytes, sizeof(bytes)), -EBADF);
}

Test(bounded_fill, says_that_a_file_has_no_more) {
        char bytes[8] = "";
        bool ended = true;
        int fds[2];

        open_pipe(fds);
        cr_assert_eq(write(fds[1], "0123456789", 10), 10);
        cr_assert_eq(bounded_fill_some(1, fds[0], bytes, sizeof(bytes), &ended), 8);
        cr_assert(!ended, "nobody has asked for more");
        close(fds[1]);
        cr_assert_eq(bounded_fill_some(1, fds[0], bytes, sizeof(bytes), &ended), 2);
        cr_assert(ended);
}

Test(bounded_fill, goes_on_where_procfs_stops) {
        static char once[BOUNDED_MAX_READ], filled[BOUNDED_MAX_READ];
        char *memory = mmap(NULL, 1000 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        int fd;

        for (int i = 0; i < 1000; i += 2)
                cr_assert_eq(mprotect(memory + i * PAGE, PAGE, PROT_READ), 0);
        fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        cr_assert_lt(read(fd, once, sizeof(once)), BOUNDED_MAX_READ, "else this test tests nothing");
        lseek(fd, 0, SEEK_SET);
        cr_assert_eq(bounded_fill(1, fd, filled, sizeof(filled)), BOUNDED_MAX_READ);
        close(fd);
}

Test(bounded_read, leaves_who_holds_it_up_and_serves_the_others, .timeout = 60) {
        int silent[2], other[2];
        char bytes[4] = "";

        open_pipe(silent);
        open_pipe(other);
        cr_assert_eq(bounded_read(7, silent[0], bytes, sizeof(bytes), -1), -ETIMEDOUT);
        cr_assert_eq(bounded_n_stuck(), 1);
        cr_assert_eq(write(other[1], "ab", 2), 2);
        cr_assert_eq(bounded_read(7, other[0], bytes, sizeof(bytes), -1), -ETIMEDOUT,
                     "not while the first one hangs");
        cr_assert_eq(bounded_read(8, other[0], bytes, sizeof(bytes), -1), 2);
        cr_assert_eq(stat_get(COUNTER_READS_STUCK), 2);
        cr_assert_eq(write(silent[1], "late", 4), 4);
        wait_for_stuck(0);
        cr_assert_arr_eq(bytes, "ab", 2, "what came too late is nobody's");
        cr_assert_eq(write(other[1], "cd", 2), 2);
        cr_assert_eq(bounded_read(7, other[0], bytes, sizeof(bytes), -1), 2);
}

Test(bounded_read, tries_nothing_more_when_too_many_hang, .timeout = 60) {
        int silent[2], other[2];
        char byte;

        open_pipe(silent);
        open_pipe(other);
        for (pid_t key = 1; key <= 16; key++)
                cr_assert_eq(bounded_read(key, silent[0], &byte, 1, -1), -ETIMEDOUT);
        cr_assert_eq(write(other[1], "x", 1), 1);
        cr_assert_eq(bounded_read(99, other[0], &byte, 1, -1), -ETIMEDOUT);
        cr_assert_eq(bounded_n_stuck(), 16);
        close(silent[1]);
        wait_for_stuck(0);
        cr_assert_eq(bounded_read(99, other[0], &byte, 1, -1), 1);
}

Test(bounded_read_memory, reads_up_to_what_cannot_be_read) {
        uint64_t values[] = { 11, 22 }, got[3] = { 0, 0, 77 };
        uint64_t addresses[] = { (uintptr_t)&values[0], (uintptr_t)&values[1], 16 };

        cr_assert_eq(bounded_read_memory(getpid(), addresses, 3, 8, got), 16);
        cr_assert(got[0] == 11 && got[1] == 22 && got[2] == 77);
        cr_assert_eq(bounded_read_memory(getpid(), addresses + 2, 1, 8, got), -EFAULT);
}

/* A page that its owner never fills, as a file in FUSE that nobody serves. */
static void trap(int to_parent) {
        uint64_t page = (uintptr_t)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                        0);
        struct uffdio_api api = { .api = UFFD_API };
        struct uffdio_register range = { .range = { page, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
        int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

        if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
                page = 0;
        if (write(to_parent, &page, sizeof(page)) == sizeof(page))
                pause();
        _exit(0);
}

Test(bounded_read_memory, waits_for_no_page_that_never_comes, .timeout = 60) {
        uint64_t page = 0, value;
        int fds[2];
        pid_t pid;

        open_pipe(fds);
        pid = fork();
        if (!pid)
                trap(fds[1]);
        cr_assert_eq(read(fds[0], &page, sizeof(page)), sizeof(page));
        if (page)
                cr_assert_eq(bounded_read_memory(pid, &page, 1, 8, &value), -ETIMEDOUT);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        wait_for_stuck(0);
        if (!page)
                cr_skip_test("kernel: no userfaultfd here");
}

/* ---- jobs of many calls ---- */

typedef struct HandJob {
        int first, second;              /* descriptors */
        char bytes[4];
        pid_t tid;
        bool is_here;
        ssize_t got[2];
        uint64_t value, copied;
} HandJob;

static HandJob *dropped;

static void drop_job(void *data) {
        __atomic_store_n(&dropped, data, __ATOMIC_RELEASE);
}

static ssize_t hand_job(void *data) {
        HandJob *job = data;
        uint64_t address = (uintptr_t)&job->value;

        job->tid = gettid();
        job->is_here = bounded_is_here();
        job->got[0] = bounded_read(7, job->first, job->bytes, 2, -1);
        job->got[1] = bounded_read(7, job->second, job->bytes + 2, 2, -1);
        return bounded_read_memory(getpid(), &address, 1, sizeof(job->copied), &job->copied);
}

Test(bounded_hand_over, makes_many_calls_in_one_thread_and_copies_nothing) {
        HandJob job = { .value = 1234567 };
        void *data = &job;
        int fds[2], r;
        ssize_t result;

        open_pipe(fds);
        job.first = job.second = fds[0];
        cr_assert_eq(write(fds[1], "abcd", 4), 4);
        r = bounded_hand_over(7, hand_job, drop_job, &data, &result);
        cr_assert_eq(r, 0);
        cr_assert_eq(data, &job);
        cr_assert_eq(result, sizeof(job.copied));
        cr_assert_eq(job.copied, 1234567);
        cr_assert(job.got[0] == 2 && job.got[1] == 2);
        cr_assert_arr_eq(job.bytes, "abcd", 4);
        cr_assert_neq(job.tid, gettid(), "who asks is not held up");
        cr_assert(job.is_here && !bounded_is_here());
        cr_assert_null(dropped);
}

/* What came back late is not gone on with. */
Test(bounded_hand_over, gives_up_a_job_with_all_that_it_has, .timeout = 60) {
        HandJob *job = calloc(1, sizeof(*job)), *gone = NULL;
        int silent[2], other[2];
        void *data = job;
        ssize_t result;

        open_pipe(silent);
        open_pipe(other);
        job->first = silent[0];
        job->second = other[0];
        job->copied = 77;
        cr_assert_eq(write(other[1], "cd", 2), 2);
        cr_assert_eq(bounded_hand_over(7, hand_job, drop_job, &data, &result), BOUNDED_E_STUCK);
        cr_assert_null(data);
        cr_assert_eq(stat_get(COUNTER_READS_STUCK), 1);
        data = job;
        cr_assert_eq(bounded_hand_over(7, hand_job, drop_job, &data, &result), BOUNDED_E_STUCK);
        cr_assert_eq(data, job, "it was not begun, while the first one hangs");
        cr_assert_eq(write(silent[1], "ab", 2), 2);
        while (!gone)
                gone = __atomic_load_n(&dropped, __ATOMIC_ACQUIRE);
        wait_for_stuck(0);
        cr_assert_eq(gone, job);
        cr_assert(job->got[0] == -ETIMEDOUT && job->got[1] == -ETIMEDOUT);
        cr_assert_eq(job->copied, 77);
        cr_assert_eq(read(other[0], job->bytes, 2), 2, "nobody has read it");
        free(job);
}
