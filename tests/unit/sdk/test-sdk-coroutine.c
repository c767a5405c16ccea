/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "spanprof/coroutine.h"

enum { N = 4 };

static char directory[] = "/tmp/test-sdk-coroutine-XXXXXX", path[64], socket_path[64];
static uint8_t *bytes;          /* of the region: read by offsets of the protocol, not by our own structs */
static int listener = -1;

static uint64_t u64(size_t at) {
        uint64_t value;

        memcpy(&value, bytes + at, 8);
        return value;
}

static size_t epoch(unsigned station, unsigned index) {
        return 1024 + 1024 * station + 64 + 64 * index;
}

static void setup(void) {
        static const char header[24] = "RCRTOROC\1\0\0\0\4\0\0\0";
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd;

        cr_assert(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/shm", directory);
        snprintf(socket_path, sizeof(socket_path), "%s/sock", directory);
        fd = open(path, O_RDWR | O_CREAT, 0600);
        cr_assert(write(fd, header, sizeof(header)) == sizeof(header) && !ftruncate(fd, (1 + N) * 1024));
        bytes = mmap(NULL, (1 + N) * 1024, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        listener = socket(AF_UNIX, SOCK_STREAM, 0);
        strcpy(address.sun_path, socket_path);
        cr_assert(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 1));
        setenv("CTP_SHM_PATH", path, 1);
        setenv("CTP_SOCK_PATH", socket_path, 1);
}

static void cleanup(void) {
        unlink(path);
        unlink(socket_path);
        rmdir(directory);
}

TestSuite(sdk_coroutine, .init = setup, .fini = cleanup);

Test(sdk_coroutine, writes_where_the_protocol_says) {
        struct spanprof_coroutine c;
        struct timespec ts;

        cr_assert_eq(spanprof_coroutine_start(), 0);
        spanprof_coroutine_begin(&c, 0xABCDEF);
        cr_expect_eq(u64(0x10) & 0xFFFFFFFF, 1);
        cr_expect_eq(u64(1024), 0xABCDEF);
        for (int i = 0; i < 5; i++) {
                spanprof_coroutine_suspend(&c, (void *)0x1234);
                spanprof_coroutine_resume(&c);
        }
        clock_gettime(CLOCK_MONOTONIC, &ts);
        for (unsigned i = 0; i < 8; i++) {
                cr_expect_eq(u64(epoch(0, i) + 0x18), i < 2 ? 4 : 2, "epoch %u", i);
                cr_expect_eq(u64(epoch(0, i) + 0x08), (uint64_t)syscall(SYS_gettid));
                cr_expect_eq(u64(epoch(0, i) + 0x10), i % 2 ? 0 : 0x1234);
                cr_expect_eq(bytes[epoch(0, i) + 0x3F], i % 2);
                cr_expect_geq(u64(epoch(0, i)), u64(1024 + 8));         /* after its birth */
                cr_expect_leq(u64(epoch(0, i)), (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec);
        }
        cr_expect_eq(bytes[1024 + 0x10], 0);
        spanprof_coroutine_end(&c);
        cr_expect_eq(bytes[1024 + 0x10], 1);
        spanprof_coroutine_resume(&c);          /* too late: nothing happens */
        cr_expect_eq(u64(epoch(0, 2) + 0x18), 2);
}

Test(sdk_coroutine, counts_those_that_find_no_station) {
        struct spanprof_coroutine c[N + 3];

        cr_assert_eq(spanprof_coroutine_start(), 0);
        for (int i = 0; i < N + 3; i++) {
                spanprof_coroutine_begin(&c[i], (uint64_t)i + 1);
                spanprof_coroutine_suspend(&c[i], &c[i]);
                spanprof_coroutine_end(&c[i]);
        }
        cr_expect_eq(spanprof_coroutine_overflow(), 3);
        cr_expect_eq(u64(0x10) & 0xFFFFFFFF, N + 3);
}

Test(sdk_coroutine, wakes_a_sleeping_tracer_once) {
        struct spanprof_coroutine c;
        uint32_t sleeping = 1;
        char byte[4];
        int fd;

        cr_assert_eq(spanprof_coroutine_start(), 0);
        fd = accept(listener, NULL, NULL);
        spanprof_coroutine_begin(&c, 1);
        spanprof_coroutine_resume(&c);
        cr_expect_eq(recv(fd, byte, 4, MSG_DONTWAIT), -1);      /* awake: nothing to say */
        memcpy(bytes + 0x14, &sleeping, 4);
        spanprof_coroutine_suspend(&c, &c);
        spanprof_coroutine_resume(&c);
        cr_expect_eq(recv(fd, byte, 4, 0), 1);
        cr_expect_eq(byte[0], '1');
        cr_expect_eq(u64(0x10) >> 32, 0);
        close(fd);
        memcpy(bytes + 0x14, &sleeping, 4);
        spanprof_coroutine_suspend(&c, &c);     /* nobody is there any more: no SIGPIPE */
}

Test(sdk_coroutine, does_nothing_without_a_tracer) {
        struct spanprof_coroutine c;

        unsetenv("CTP_SHM_PATH");
        cr_expect_eq(spanprof_coroutine_start(), -ENOENT);
        setenv("CTP_SHM_PATH", "/nonexistent", 1);
        cr_expect_eq(spanprof_coroutine_start(), -ENOENT);
        setenv("CTP_SHM_PATH", "/etc/passwd", 1);
        cr_expect_eq(spanprof_coroutine_start(), -EINVAL);
        cr_assert_eq(truncate(path, 1024 * N), 0);
        setenv("CTP_SHM_PATH", path, 1);
        cr_expect_eq(spanprof_coroutine_start(), -EINVAL);
        spanprof_coroutine_begin(&c, 1);
        spanprof_coroutine_suspend(&c, &c);
        spanprof_coroutine_resume(&c);
        spanprof_coroutine_end(&c);
        cr_expect_eq(spanprof_coroutine_overflow(), 0);
}

Test(sdk_coroutine, knows_the_thread_of_a_forked_child) {
        struct spanprof_coroutine c;
        pid_t child;

        cr_assert_eq(spanprof_coroutine_start(), 0);
        spanprof_coroutine_begin(&c, 1);
        spanprof_coroutine_resume(&c);
        child = fork();
        if (!child) {
                spanprof_coroutine_begin(&c, 2);
                spanprof_coroutine_resume(&c);
                _exit(0);
        }
        waitpid(child, NULL, 0);
        cr_expect_eq(u64(epoch(0, 0) + 0x08), (uint64_t)getpid());
        cr_expect_eq(u64(epoch(1, 0) + 0x08), (uint64_t)child);
}
