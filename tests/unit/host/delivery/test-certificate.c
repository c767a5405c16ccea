/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/delivery/export/certificate.h"

static char directory[] = "/tmp/test-certificate-XXXXXX", path[64];

static void setup(void) {
        cr_assert_not_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/x.pem", directory);
}

static void teardown(void) {
        unlink(path);
        rmdir(directory);
}

TestSuite(certificate, .init = setup, .fini = teardown, .timeout = 60);

/* The daemon looks once a minute: a file may have become a pipe, whose other end nobody opens. */
Test(certificate, a_pipe_is_not_waited_for) {
        time_t end = 42;

        cr_assert_eq(mkfifo(path, 0600), 0);
        cr_assert_eq(certificate_end(path, CERTIFICATES_CHAIN, &end), CERTIFICATE_E_UNREADABLE);
        cr_assert_eq(errno, EINVAL);
        cr_assert_eq(end, 42);
}

Test(certificate, a_file_that_is_missing_large_or_empty_says_why) {
        time_t end;
        int fd;

        cr_assert_eq(certificate_end(path, CERTIFICATES_CHAIN, &end), CERTIFICATE_E_UNREADABLE);
        cr_assert_eq(errno, ENOENT);
        fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        cr_assert_geq(fd, 0);
        cr_assert_eq(certificate_end(path, CERTIFICATES_CHAIN, &end), CERTIFICATE_E_NONE);
        cr_assert_eq(ftruncate(fd, 5 << 20), 0);
        cr_assert_eq(certificate_end(path, CERTIFICATES_CHAIN, &end), CERTIFICATE_E_UNREADABLE);
        cr_assert_eq(errno, EFBIG);
        close(fd);
}
