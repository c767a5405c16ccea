/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Installs a seccomp filter that refuses a table of system calls, and all calls of another ABI, with EPERM.
 */

#include "core/base/sandbox/confine.h"

#include <assert.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/base/util/macro.h"

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_BIT 0x40000000u         /* x32 calls share the architecture's number and differ by this bit */
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#define FOREIGN_BIT 0x40000000u
#endif

#ifdef NATIVE_ARCH

static const uint32_t refused[] = {
        /* other programs */
        __NR_execve,
        __NR_execveat,
        /* other processes; process_vm_readv, which looks for published contexts, is left */
        __NR_ptrace,
        __NR_process_vm_writev,
        __NR_pidfd_getfd,
        __NR_kcmp,
        /* other views of the machine */
        __NR_mount,
        __NR_umount2,
        __NR_pivot_root,
        __NR_chroot,
        __NR_setns,
        __NR_unshare,
        __NR_open_by_handle_at,
        __NR_open_tree,
        __NR_move_mount,
        __NR_fsopen,
        __NR_fsmount,
        __NR_mount_setattr,
        /* the kernel itself */
        __NR_init_module,
        __NR_finit_module,
        __NR_delete_module,
        __NR_kexec_load,
        __NR_reboot,
        __NR_swapon,
        __NR_swapoff,
        __NR_acct,
        __NR_settimeofday,
        __NR_clock_settime,
        __NR_adjtimex,
        __NR_clock_adjtime,
        __NR_sethostname,
        __NR_setdomainname,
        /* large parts of the kernel that are known for their holes and that nothing here uses */
        __NR_add_key,
        __NR_request_key,
        __NR_keyctl,
        __NR_userfaultfd,
        __NR_io_uring_setup,
        __NR_io_uring_enter,
        __NR_io_uring_register,
        __NR_personality,
};

enum { N_REFUSED = ARRAY_SIZE(refused), N_HEAD = 5, N_TAIL = 2 };

static_assert(1 + N_REFUSED <= UINT8_MAX,
              "the longest jump, from the test of the other ABI over all numbers, has 8 bits");

/*
 * Load the architecture; not ours: refuse. Load the number; of the other ABI: refuse. Equal to one of the
 * table: refuse. Else allow. Jumps count from the next instruction.
 */
static void make(struct sock_filter *filter) {
        const uint32_t refuse = N_HEAD + N_REFUSED + 1;
        size_t n = 0;

        filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                   offsetof(struct seccomp_data, arch));
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                   offsetof(struct seccomp_data, nr));
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, FOREIGN_BIT, refuse - N_HEAD,
                                                   0);
        for (size_t i = 0; i < N_REFUSED; i++, n++)
                filter[n] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
                                                         (uint8_t)(refuse - n - 1), 0);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
}

int confine(void) {
        struct sock_filter filter[N_HEAD + N_REFUSED + N_TAIL];
        const struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };

        make(filter);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
                return -errno;
        return 0;
}

#else

int confine(void) {
        return -ENOSYS;
}

#endif
