/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"

Test(file, reads_procfs_files_whose_size_is_zero) {
        char *data = NULL;
        size_t size = 0;

        cr_assert_eq(file_read("/proc/self/maps", 1 << 20, &data, &size), 0);
        cr_assert_gt(size, 100);
        cr_assert_eq(data[size], 0);
        cr_assert_not_null(strstr(data, "[stack]"));
        free(data);
}

Test(file, names_a_missing_file_and_one_over_the_cap) {
        char *data = NULL;
        size_t size = 5;

        cr_assert_eq(file_read("/nonexistent/file", 10, &data, &size), FILE_E_UNREADABLE);
        cr_assert_eq(errno, ENOENT);
        cr_assert_eq(file_read("/proc/self/maps", 10, &data, &size), FILE_E_TOO_LARGE);
        cr_assert_null(data);
        cr_assert_eq(size, 5, "outputs are written on success only");
}

Test(file, reads_at_an_offset_until_the_end) {
        _cleanup_(closep) int fd = memfd_create("test", MFD_CLOEXEC);
        char data[8];

        cr_assert_eq(file_write(fd, "0123456789", 10), 0);
        cr_assert_eq(file_pread(fd, data, 4, 3), 4);
        cr_assert_arr_eq(data, "3456", 4);
        cr_assert_eq(file_pread(fd, data, 8, 6), 4);
        cr_assert_eq(file_pread(fd, data, 8, 100), 0);
        cr_assert_eq(file_pread(-1, data, 8, 0), -EBADF);
}
