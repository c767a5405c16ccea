# SPDX-License-Identifier: Apache-2.0
"""A file whose pages take a while: a file system of one file, served by this process over /dev/fuse.

    path = slow_file.serve(self, n_pages=8, delay=0.05)     # path is gone with the test
"""
import ctypes
import os
import struct
import threading
import time

import tap

PAGE = os.sysconf("SC_PAGESIZE")
# of the kernel's linux/fuse.h
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
OPENDIR, RELEASEDIR, DESTROY, BATCH_FORGET = 27, 29, 38, 42
NODE_ROOT, NODE_FILE = 1, 2
NO_SUCH, NOT_HERE = -2, -38     # -ENOENT, -ENOSYS
MOUNT_FLAGS, DETACH = 6, 2      # MS_NOSUID | MS_NODEV, MNT_DETACH
libc = ctypes.CDLL(None, use_errno=True)


def attributes(node, size):
    """struct fuse_attr"""
    mode, links = (0o040755, 2) if node == NODE_ROOT else (0o100444, 1)
    return struct.pack("<6Q10I", node, 0 if node == NODE_ROOT else size, 0, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0,
                       PAGE, 0)


def answer(operation, node, body, size, delay):
    """(error, bytes) of a request."""
    if operation == INIT:
        major, minor, readahead = struct.unpack_from("<3I", body)
        return 0, struct.pack("<4I2H2I2HI28x", 7, min(minor, 31), 0, 0, 12, 10, 1 << 16, 1, 16, 0, 0)
    if operation == LOOKUP:
        if body != b"slow\0":
            return NO_SUCH, b""
        return 0, struct.pack("<4Q2I", NODE_FILE, 0, 3600, 3600, 0, 0) + attributes(NODE_FILE, size)
    if operation == GETATTR:
        return 0, struct.pack("<Q2I", 3600, 0, 0) + attributes(node, size)
    if operation in (OPEN, OPENDIR):
        return 0, struct.pack("<Q2I", 1, 0, 0)
    if operation == READ:
        _, offset, length = struct.unpack_from("<2QI", body)
        time.sleep(delay)
        return 0, b"s" * max(0, min(length, size - offset))
    return (0, b"") if operation in (RELEASE, RELEASEDIR, FLUSH) else (NOT_HERE, b"")


def answer_all(fd, size, delay):
    while True:
        try:
            request = os.read(fd, 1 << 17)
        except OSError:         # it is not mounted any more
            return
        length, operation, unique, node = struct.unpack_from("<2I2Q", request)
        if operation in (FORGET, BATCH_FORGET, DESTROY):
            continue
        error, body = answer(operation, node, request[40:length], size, delay)
        os.write(fd, struct.pack("<IiQ", 16 + len(body), error, unique) + body)


def serve(test, n_pages, delay):
    directory = test.directory() / "slow"
    directory.mkdir()
    try:
        fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        tap.skip(f"kernel: no FUSE: {error}")
    test.addCleanup(os.close, fd)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0".encode()
    if libc.mount(b"slow", bytes(directory), b"fuse", MOUNT_FLAGS, options):
        tap.skip(f"machine: cannot mount FUSE: {os.strerror(ctypes.get_errno())}")
    thread = threading.Thread(target=answer_all, args=(fd, n_pages * PAGE, delay), daemon=True)
    thread.start()
    test.addCleanup(thread.join)
    test.addCleanup(libc.umount2, bytes(directory), DETACH)
    return directory / "slow"
