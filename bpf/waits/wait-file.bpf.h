/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Files that Threads Wait for
 *
 * A thread that waits in read() waits for a peer if the descriptor is a socket, and for a disk if it is a
 * file. The first argument of such a system call is the descriptor, and the thread's own table leads from it
 * to the file:
 *
 *     task ─▶ files ─▶ fdt ─▶ fd[3] ─▶ file ─▶ inode: mode, filesystem
 *                                          ├─▶ dentry: `[eventfd]`, of files that have no inode of their own
 *                                          └─▶ socket ─▶ sock: family, protocol
 *
 * Which system calls have one says the daemon (wait-reason.c). The kernel holds the file while the thread is
 * in the call. Another thread may have put another file behind the same number since the call began: then
 * the kind is that of the new one. All reads are checked by the kernel. Where the file cannot be reached
 * the kind is NONE, and where it says nothing of itself it is OTHER.
 */

#include "walk/registers.bpf.h"

#include "border/offcpu_abi.h"

enum {
        FILE_MODE_TYPE = 0170000,       /* include/uapi/linux/stat.h */
        FILE_MODE_SOCKET = 0140000,
        FILE_MODE_REGULAR = 0100000,
        FILE_MODE_BLOCK = 0060000,
        FILE_MODE_DIRECTORY = 0040000,
        FILE_MODE_CHARACTER = 0020000,
        FILE_MODE_PIPE = 0010000,
        FILE_ANONYMOUS_MAGIC = 0x09041934,      /* include/uapi/linux/magic.h, ANON_INODE_FS_MAGIC */
        FILE_DEVICE_MINOR_BITS = 20,    /* include/linux/kdev_t.h */
        FILE_FAMILY_UNIX = 1,           /* include/linux/socket.h */
        FILE_FAMILY_INET = 2,
        FILE_FAMILY_INET6 = 10,
        FILE_PROTOCOL_TCP = 6,
        FILE_PROTOCOL_UDP = 17,
};

struct fdtable {
        unsigned int max_fds;
        struct file **fd;
} KERNEL_TYPE;

struct files_struct {
        struct fdtable *fdt;
} KERNEL_TYPE;

struct sock_common {
        unsigned short skc_family;
} KERNEL_TYPE;

struct sock {
        struct sock_common __sk_common;
        uint16_t sk_protocol;           /* since 5.6 */
} KERNEL_TYPE;

struct socket {
        struct sock *sk;
} KERNEL_TYPE;

/* Bit N: the first argument of system call N is a descriptor. */
const volatile uint64_t setting_file_calls[WAIT_FILE_CALLS_WORDS];

static __always_inline uint8_t file_of_socket(const struct file *file) {
        const struct socket *socket = BPF_CORE_READ(file, private_data);
        const struct sock *sock = BPF_CORE_READ(socket, sk);
        uint32_t family = BPF_CORE_READ(sock, __sk_common.skc_family), protocol;

        if (family == FILE_FAMILY_UNIX)
                return WAIT_FILE_UNIX;
        if (family != FILE_FAMILY_INET && family != FILE_FAMILY_INET6)
                return WAIT_FILE_SOCKET;
        protocol = BPF_CORE_READ(sock, sk_protocol);
        return protocol == FILE_PROTOCOL_TCP ? WAIT_FILE_TCP
             : protocol == FILE_PROTOCOL_UDP ? WAIT_FILE_UDP
                                             : WAIT_FILE_SOCKET;
}

#define FILE_NAME(_a, _b, _c, _d, _e, _f, _g, _h)                                                       \
        ((uint64_t)(_a) | (uint64_t)(_b) << 8 | (uint64_t)(_c) << 16 | (uint64_t)(_d) << 24 |           \
         (uint64_t)(_e) << 32 | (uint64_t)(_f) << 40 | (uint64_t)(_g) << 48 | (uint64_t)(_h) << 56)

/* The first eight bytes of the name tell. */
static __always_inline uint8_t file_without_inode(const struct file *file) {
        const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
        uint64_t word;

        if (bpf_probe_read_kernel(&word, sizeof(word), name))
                return WAIT_FILE_OTHER;
        if (word == FILE_NAME('[', 'e', 'v', 'e', 'n', 't', 'f', 'd'))
                return WAIT_FILE_EVENTFD;
        if (word == FILE_NAME('[', 't', 'i', 'm', 'e', 'r', 'f', 'd'))
                return WAIT_FILE_TIMERFD;
        if (word == FILE_NAME('[', 's', 'i', 'g', 'n', 'a', 'l', 'f'))
                return WAIT_FILE_SIGNALFD;
        return word == FILE_NAME('i', 'n', 'o', 't', 'i', 'f', 'y', 0) ? WAIT_FILE_INOTIFY : WAIT_FILE_OTHER;
}

/* Numbers of Linux' list of devices: 4 and 5 consoles, 136 to 143 pseudo terminals. */
static __always_inline uint8_t file_of_device(const struct inode *inode) {
        uint32_t major = BPF_CORE_READ(inode, i_rdev) >> FILE_DEVICE_MINOR_BITS;

        return major == 4 || major == 5 || (major >= 136 && major <= 143) ? WAIT_FILE_TERMINAL
                                                                          : WAIT_FILE_DEVICE;
}

/* Return: enum abi_wait_file. */
static __always_inline uint8_t file_kind(const struct file *file) {
        const struct inode *inode = BPF_CORE_READ(file, f_inode);
        uint32_t mode;

        if (!inode)
                return WAIT_FILE_NONE;
        mode = BPF_CORE_READ(inode, i_mode) & FILE_MODE_TYPE;
        switch (mode) {
        case FILE_MODE_SOCKET:
                return file_of_socket(file);
        case FILE_MODE_PIPE:
                return WAIT_FILE_PIPE;
        case FILE_MODE_CHARACTER:
                return file_of_device(inode);
        case FILE_MODE_BLOCK:
                return WAIT_FILE_DEVICE;
        case FILE_MODE_DIRECTORY:
                return WAIT_FILE_DIRECTORY;
        }
        /* The type of these is none, or that of a regular file since 6.16. */
        if (BPF_CORE_READ(inode, i_sb, s_magic) == FILE_ANONYMOUS_MAGIC)
                return file_without_inode(file);
        return mode == FILE_MODE_REGULAR ? WAIT_FILE_REGULAR : WAIT_FILE_OTHER;
}

/* Finds the kind of file that the thread waits for in @call. A preempted thread waits for nothing. */
static __always_inline uint8_t wait_file(struct task_struct *task, int16_t call, uint8_t flags) {
        uint32_t number = (uint16_t)call, descriptor;
        const struct files_struct *files;
        const struct fdtable *table;
        struct file **place, *file = NULL;

        if (flags & (WAIT_PREEMPTED | WAIT_STOPPED) || number >= 64 * WAIT_FILE_CALLS_WORDS ||
            !(setting_file_calls[number / 64 & (WAIT_FILE_CALLS_WORDS - 1)] >> (number & 63) & 1))
                return WAIT_FILE_NONE;
        files = KERNEL_POINTER(task, files);
        if (!files)
                return WAIT_FILE_NONE;
        table = KERNEL_BEHIND(files, fdt);
        descriptor = (uint32_t)entered_argument(task);
        if (!table || descriptor >= KERNEL_BEHIND(table, max_fds))
                return WAIT_FILE_NONE;
        place = KERNEL_BEHIND(table, fd);
        if (bpf_probe_read_kernel(&file, sizeof(file), &place[descriptor]) || !file)
                return WAIT_FILE_NONE;
        return file_kind(file);
}
