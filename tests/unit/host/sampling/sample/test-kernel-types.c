/* SPDX-License-Identifier: Apache-2.0 */

/* The oracle is libbpf, which reads the kernel's whole BTF and the extract alike. */

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-types.h"

#define VMLINUX "/sys/kernel/btf/vmlinux"

static const char *const wanted[] = { "task_struct", "signal_struct", "mm_struct",   "pid",
                                      "upid",        "bpf_func_id",   "no_such_type" };

static char *read_vmlinux(size_t *sizep) {
        char *data = NULL;

        if (access(VMLINUX, R_OK) < 0)
                cr_skip_test("kernel: no BTF");
        cr_assert_eq(file_read(VMLINUX, 64 << 20, &data, sizep), 0);
        return data;
}

/* All members, those of anonymous structs and unions included, at the same places. */
static unsigned compare_members(const struct btf *all, uint32_t a, const struct btf *few, uint32_t b) {
        const struct btf_type *ta = btf__type_by_id(all, a), *tb = btf__type_by_id(few, b);
        unsigned n = btf_vlen(ta);

        cr_assert_eq(ta->info, tb->info);
        cr_assert_eq(ta->size, tb->size);
        for (unsigned i = 0; i < btf_vlen(ta); i++) {
                const struct btf_member *ma = &btf_members(ta)[i], *mb = &btf_members(tb)[i];
                const char *name = btf__name_by_offset(all, ma->name_off);

                cr_assert_str_eq(name, btf__name_by_offset(few, mb->name_off));
                cr_assert_eq(btf_member_bit_offset(ta, i), btf_member_bit_offset(tb, i));
                cr_assert_eq(btf_member_bitfield_size(ta, i), btf_member_bitfield_size(tb, i));
                cr_assert_eq(btf__resolve_size(all, ma->type), btf__resolve_size(few, mb->type), "size of %s",
                             name);
                if (!*name && btf_is_composite(btf__type_by_id(all, ma->type)))
                        n += compare_members(all, ma->type, few, mb->type);
        }
        return n;
}

Test(kernel_types, keeps_wanted_structs_as_libbpf_sees_them_in_the_whole) {
        _cleanup_(freep) char *data = NULL;
        struct btf *all, *few;
        unsigned n = 0;
        size_t size, small_size;
        void *small;

        data = read_vmlinux(&size);
        cr_assert_eq(kernel_types_extract(data, size, wanted, ARRAY_SIZE(wanted), &small, &small_size), 0);
        cr_assert_lt(small_size, size / 20, "it is small: %zu of %zu bytes", small_size, size);
        all = btf__new(data, (uint32_t)size);
        few = btf__new(small, (uint32_t)small_size);
        cr_assert(!libbpf_get_error(all) && !libbpf_get_error(few));
        for (size_t i = 0; i < 5; i++) {
                int a = btf__find_by_name_kind(all, wanted[i], BTF_KIND_STRUCT);
                int b = btf__find_by_name_kind(few, wanted[i], BTF_KIND_STRUCT);

                cr_assert(a > 0 && b > 0, "%s", wanted[i]);
                n += compare_members(all, (uint32_t)a, few, (uint32_t)b);
        }
        cr_assert_gt(n, 200, "task_struct alone has more members than that");
        cr_assert_eq(btf_vlen(btf__type_by_id(
                             all, (uint32_t)btf__find_by_name_kind(all, "bpf_func_id", BTF_KIND_ENUM))),
                     btf_vlen(btf__type_by_id(
                             few, (uint32_t)btf__find_by_name_kind(few, "bpf_func_id", BTF_KIND_ENUM))));
        cr_assert_lt(btf__find_by_name(few, "no_such_type"), 0);
        btf__free(all);
        btf__free(few);
        free(small);
}

Test(kernel_types, refuses_bytes_that_are_no_btf) {
        char zeros[64] = { 0 };
        void *data = &zeros;
        size_t size = 5;

        cr_assert_eq(kernel_types_extract("", 0, wanted, 1, &data, &size), KERNEL_TYPES_E_MALFORMED);
        cr_assert_eq(kernel_types_extract(zeros, sizeof(zeros), wanted, 1, &data, &size),
                     KERNEL_TYPES_E_MALFORMED);
        cr_assert_eq(data, &zeros);
        cr_assert_eq(size, 5, "outputs are written on success only");
}

Test(kernel_types, refuses_a_file_that_was_cut_off) {
        _cleanup_(freep) char *data = NULL;
        size_t size, small_size, cut_size;
        void *small, *cut;

        data = read_vmlinux(&size);
        cr_assert_eq(
                kernel_types_extract(data, size, (const char *const[]){ "upid" }, 1, &small, &small_size), 0);
        for (size_t n = 0; n < small_size; n++)
                cr_assert_eq(kernel_types_extract(small, n, wanted, ARRAY_SIZE(wanted), &cut, &cut_size),
                             KERNEL_TYPES_E_MALFORMED, "%zu of %zu bytes", n, small_size);
        free(small);
}

Test(kernel_types, gives_a_file_that_can_be_opened_by_its_descriptor) {
        int fd = -1;

        if (access(VMLINUX, R_OK) < 0)
                cr_skip_test("kernel: no BTF");
        cr_assert_eq(kernel_types_open("/nonexistent", wanted, 1, &fd), -ENOENT);
        cr_assert_eq(fd, -1);
        cr_assert_eq(kernel_types_open(VMLINUX, wanted, 1, &fd), 0);
        cr_assert_gt(lseek(fd, 0, SEEK_END), 100);
        close(fd);
}
