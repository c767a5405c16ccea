# SPDX-License-Identifier: Apache-2.0
"""Tables of a process' BPF programs, as the kernel has them: n_entries(PID, "ring_holders")."""
import ctypes
import os
import pathlib
import struct

SYS_BPF = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
GET_NEXT_KEY, GET_FD_BY_ID, GET_INFO = 4, 14, 15
NAME_OFFSET, NAME_SIZE, INFO_SIZE = 24, 16, 80
libc = ctypes.CDLL(None, use_errno=True)


def call(command, attributes):
    room = ctypes.create_string_buffer(attributes, 128)
    return libc.syscall(SYS_BPF, command, room, 128)


def find(pid, name):
    """A descriptor of the map, and the size of its keys."""
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            info = dict(line.split(":\t", 1) for line in path.read_text().splitlines() if ":\t" in line)
        except FileNotFoundError:       # closed meanwhile
            continue
        fd = call(GET_FD_BY_ID, struct.pack("<I", int(info["map_id"]))) if "map_id" in info else -1
        if fd < 0:
            continue
        room = ctypes.create_string_buffer(INFO_SIZE)
        call(GET_INFO, struct.pack("<IIQ", fd, INFO_SIZE, ctypes.addressof(room)))
        if room.raw[NAME_OFFSET:NAME_OFFSET + NAME_SIZE].split(b"\0")[0].decode() == name:
            return fd, int(info["key_size"])
        os.close(fd)
    raise KeyError(name)


def n_entries(pid, name):
    fd, key_size = find(pid, name)
    key, after, n = None, ctypes.create_string_buffer(key_size), 0
    try:
        while not call(GET_NEXT_KEY, struct.pack("<IIQQ", fd, 0, ctypes.addressof(key) if key else 0,
                                                 ctypes.addressof(after))):
            key, after, n = after, ctypes.create_string_buffer(key_size), n + 1
    finally:
        os.close(fd)
    return n
