/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Kernel Types
 *
 * The kernel describes its types in BTF: 140,000 of them, 5 to 6 MB, of which the
 * loader needs about ten. Loading all of them would take more memory than
 * everything else that the daemon does (libbpf holds the file twice while it
 * parses it) and a good part of its start. This makes a small BTF of the wanted types.
 *
 * Pure: bytes in, bytes out. Format: Documentation/bpf/btf.rst, linux/btf.h.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        _KERNEL_TYPES_E_SUCCESS,
        KERNEL_TYPES_E_MALFORMED,       /* no BTF, or one that contradicts itself */
};

/*
 * @names: structs and enums that are kept whole, with the types of their members; other named structs that
 * those contain keep only their size, and pointers point to void: more is never followed by a field access.
 * A name that is not there is left out. *datap (malloc()ed, owned by the caller) is BTF again.
 * Return: 0, KERNEL_TYPES_E_MALFORMED, -ENOMEM.
 */
int kernel_types_extract(const void *btf, size_t size, const char *const *names, size_t n_names, void **datap,
                         size_t *sizep);

/*
 * Extracts from a file like /sys/kernel/btf/vmlinux into an anonymous file, which the descriptor *fdp names.
 * Return: 0, KERNEL_TYPES_E_MALFORMED, -errno.
 */
int kernel_types_open(const char *path, const char *const *names, size_t n_names, int *fdp);
