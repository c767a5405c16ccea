# SPDX-License-Identifier: Apache-2.0
"""A file on FUSE that answers until it is told to be silent, spoken by hand (linux/fuse.h), so that a test
needs no library. One directory, one file.

    server = FuseServer(directory, "program", data)     mounted when this returns
    server.be_silent()                                  from now on whoever asks waits
    server.n_reads_left = 6                             … once it has answered so many reads
    server.close()

While server.piece is set, who opens the file gets no more bytes than that by a read, past the kernel's cache.
With valid=0 the kernel asks again for names and attributes each time. With allow_other=False only the user
who has mounted it is let in, and not even root.
"""
import ctypes
import errno
import os
import select
import struct
import threading

LOOKUP, GETATTR, OPEN, READ, RELEASE, INIT, OPENDIR = 1, 3, 14, 15, 18, 26, 27
FORGET, BATCH_FORGET, INTERRUPT = 2, 42, 36  # these want no answer
HEADER = struct.Struct("<IIQQIIIHH")  # length opcode unique node uid gid pid extensions padding
ROOT, FILE = 1, 2
MNT_DETACH, MNT_FORCE = 2, 1

_libc = ctypes.CDLL(None, use_errno=True)


class FuseServer:
    def __init__(self, directory, name, data, valid=3600, user=0, allow_other=True):
        self.valid = valid  # seconds, of names and attributes
        self.n_closed = 0  # files
        self.n_reads_left = self.piece = None
        self.path, self.name, self.data = str(directory), name.encode(), data
        self.file = os.path.join(self.path, name)
        self.fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.fd},rootmode=40000,user_id={user},group_id={user}" + ",allow_other" * allow_other
        if _libc.mount(b"spanprof-test", self.path.encode(), b"fuse", 0, options.encode()):
            code = ctypes.get_errno()
            os.close(self.fd)
            raise OSError(code, os.strerror(code))
        self.silent, self.hushed, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def be_silent(self):
        """Returns when no request will be read any more."""
        self.silent.set()
        self.hushed.wait()

    def close(self):
        self.ended.set()
        _libc.umount2(self.path.encode(), MNT_FORCE | MNT_DETACH)
        self.thread.join(10)
        os.close(self.fd)

    def _serve(self):
        while not self.ended.is_set():
            if self.silent.is_set():
                self.hushed.set()
                self.ended.wait(0.02)
                continue
            if not select.select([self.fd], [], [], 0.05)[0]:
                continue
            try:
                request = os.read(self.fd, 1 << 20)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                self.hushed.set()
                return  # unmounted
            _, opcode, unique, node, *_ = HEADER.unpack_from(request)
            if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            if opcode == READ and self.n_reads_left is not None:
                self.n_reads_left -= 1
                if self.n_reads_left < 0:
                    self.silent.set()
                    continue
            answer = self._answer(opcode, node, request[HEADER.size:])
            code, body = (-answer, b"") if isinstance(answer, int) else (0, answer)
            os.write(self.fd, struct.pack("<IiQ", 16 + len(body), code, unique) + body)

    def _attributes(self, node):
        size, mode = (4096, 0o40755) if node == ROOT else (len(self.data), 0o100755)
        return struct.pack("<QQQQQQIIIIIIIIII", node, size, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _answer(self, opcode, node, body):
        if opcode == INIT:
            return struct.pack("<IIIIHHIIHHI", 7, 31, 1 << 16, 0, 12, 9, 1 << 16, 1, 16, 0, 0) + bytes(28)
        if opcode == LOOKUP:
            if body.rstrip(b"\0") != self.name:
                return errno.ENOENT
            return struct.pack("<QQQQII", FILE, 0, self.valid, self.valid, 0, 0) + self._attributes(FILE)
        if opcode == GETATTR:
            return struct.pack("<QII", self.valid, 0, 0) + self._attributes(node)
        if opcode == RELEASE:
            self.n_closed += 1
            return b""
        if opcode in (OPEN, OPENDIR):
            direct = bool(self.piece)
            return struct.pack("<QII", direct, direct, 0)  # handle, FOPEN_DIRECT_IO
        if opcode == READ:
            handle, offset, size = struct.unpack_from("<QQI", body)
            size = min(size, self.piece) if handle else size
            return self.data[offset:offset + size]
        return errno.ENOSYS
