/* SPDX-License-Identifier: Apache-2.0 */

/* Process tables as other daemons keep them, of this build and of older ones. */

#include <criterion/criterion.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/other-profilers.h"

enum { PID = 812, START = 5000, OLD_SIZE = 48 };

static int bpf(int command, union bpf_attr *attr) {
        return (int)syscall(SYS_bpf, command, attr, sizeof(*attr));
}

/* Return: a table of one target, whose *idp others see. */
static int create(const char *name, uint32_t value_size, uint32_t *idp) {
        const struct abi_process row = { .state = ABI_STATE_TARGET, .start_time_ns = START };
        struct bpf_map_info info = { 0 };
        const uint32_t pid = PID;
        union bpf_attr attr;
        int fd;

        memset(&attr, 0, sizeof(attr));
        attr.map_type = BPF_MAP_TYPE_HASH;
        attr.key_size = sizeof(pid);
        attr.value_size = value_size;
        attr.max_entries = 4;
        strcpy(attr.map_name, name);
        fd = bpf(BPF_MAP_CREATE, &attr);
        if (fd < 0)
                cr_skip_test("root: needs BPF");
        memset(&attr, 0, sizeof(attr));
        attr.map_fd = (uint32_t)fd;
        attr.key = (uint64_t)(uintptr_t)&pid;
        attr.value = (uint64_t)(uintptr_t)&row;
        cr_assert_eq(bpf(BPF_MAP_UPDATE_ELEM, &attr), 0);
        memset(&attr, 0, sizeof(attr));
        attr.info.bpf_fd = (uint32_t)fd;
        attr.info.info_len = sizeof(info);
        attr.info.info = (uint64_t)(uintptr_t)&info;
        cr_assert_eq(bpf(BPF_OBJ_GET_INFO_BY_FD, &attr), 0);
        *idp = info.id;
        memset(&attr, 0, sizeof(attr));
        attr.map_id = info.id;
        if (close(bpf(BPF_MAP_GET_FD_BY_ID, &attr)))
                cr_skip_test("root: needs CAP_SYS_ADMIN to look at maps of others");
        return fd;
}

/* Whether the table of @name and @value_size is seen as one of another daemon. Others may run here, too. */
static bool is_seen(const char *name, uint32_t value_size) {
        OtherProfilers profilers = { 0 };
        bool is_listed = false;
        uint32_t id;
        int fd = create(name, value_size, &id);

        profilers.last_id = id - 1;
        other_profilers_refresh(&profilers);
        for (unsigned i = 0; i < profilers.n; i++)
                is_listed |= profilers.ids[i] == id;
        profilers.ids[0] = id;
        profilers.n = is_listed;
        if (is_listed) {
                cr_assert(other_profilers_sample(&profilers, PID, START));
                cr_assert_not(other_profilers_sample(&profilers, PID, START + 1), "another process by then");
                cr_assert_not(other_profilers_sample(&profilers, PID + 1, START));
        }
        close(fd);
        return is_listed;
}

Test(other_profilers, sees_tables_of_this_build_and_of_older_ones) {
        cr_assert(is_seen("processes", sizeof(struct abi_process)));
        cr_assert(is_seen("processes", OLD_SIZE), "as 0.1.0 has them");
}

Test(other_profilers, leaves_other_tables_alone) {
        cr_assert_not(is_seen("process", sizeof(struct abi_process)));
        cr_assert_not(is_seen("processes", 56));
}

Test(other_profilers, does_not_take_its_own_table_for_anothers) {
        OtherProfilers profilers;
        uint32_t id;
        int fd = create("processes", sizeof(struct abi_process), &id);

        other_profilers_init(&profilers, fd);
        profilers.last_id = id - 1;
        other_profilers_refresh(&profilers);
        for (unsigned i = 0; i < profilers.n; i++)
                cr_assert_neq(profilers.ids[i], id);
        close(fd);
}
