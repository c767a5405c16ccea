#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the threads of a process publish, by a reader that shares no code with spanprof: it stops each one by
ptrace, and takes bytes apart by the numbers of the proposals.

    context_oracle.records(pid)      {tid: Record or None}      otel_thread_ctx_v1, wherever it is, and Node's
    context_oracle.slots(pid)        {tid: (trace, span) or None}       the ring; {} = there is none

The variable is looked for by its name in the files that are mapped (readelf), and then in every block of
thread-local memory that the thread has: where its place holds a pointer that leads to a valid record, there
it is. That needs no access model.

By hand: context_oracle.py PID
"""
import collections
import contextlib
import ctypes
import os
import pathlib
import re
import struct
import subprocess
import sys

Record = collections.namedtuple("Record", "trace span attributes")

SEIZE, INTERRUPT, GETREGS, DETACH = 0x4206, 0x4207, 12, 17
WALL = 0x40000000
STATIC = 8192  # bytes below the thread pointer, at most, of static thread-local memory
FS_BASE = 21 * 8  # struct user_regs_struct of x86-64: the 22nd word

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, tid, data=None):
    if _libc.ptrace(request, tid, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace({request:#x}, {tid})")


@contextlib.contextmanager
def stopped(tid):
    """While it is stopped; yields its thread pointer."""
    _ptrace(SEIZE, tid)
    _ptrace(INTERRUPT, tid)
    os.waitpid(tid, WALL)
    try:
        registers = ctypes.create_string_buffer(27 * 8)
        _ptrace(GETREGS, tid, registers)
        yield struct.unpack_from("<Q", registers, FS_BASE)[0]
    finally:
        _ptrace(DETACH, tid)


class Memory:
    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/mem", "rb", buffering=0)

    def read(self, address, size):
        self.file.seek(address)
        return self.file.read(size)

    def words(self, address, n=1):
        return struct.unpack(f"<{n}Q", self.read(address, 8 * n))


def threads(pid):
    return sorted(int(x) for x in os.listdir(f"/proc/{pid}/task"))


def maps(pid):
    """(start, end, mode, path) of each mapping."""
    for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
        start, end, mode, _, _, _, path = re.fullmatch(r"(\w+)-(\w+) (\S+) (\w+) (\S+) (\d+) *(.*)",
                                                       line).groups()
        yield int(start, 16), int(end, 16), mode, path


def places(pid, name, width=8):
    """Offsets of the variable in its block of thread-local memory, and whether the file is the executable."""
    executable = os.readlink(f"/proc/{pid}/exe")
    for path in sorted({path for _, _, _, path in maps(pid)
                        if path.startswith("/") and os.path.isfile(path)}):
        symbols = subprocess.run(["readelf", "--dyn-syms", "-W", path], capture_output=True, text=True).stdout
        match = re.search(rf"([0-9a-f]+) +{width} TLS +GLOBAL +\w+ +\d+ {name}$", symbols, re.M)
        if match:
            headers = subprocess.run(["readelf", "-lW", path], capture_output=True, text=True).stdout
            size, align = re.search(r"^ +TLS +\S+ +\S+ +\S+ +\S+ +(\S+) +\S+ +(\S+)$", headers, re.M).groups()
            yield int(match[1], 16), int(size, 16), int(align, 16), path == executable


def addresses(memory, pointer, musl, place):
    """Where the variable may be, for the thread with this thread pointer."""
    offset, size, align, is_executable = place
    if is_executable:
        yield pointer - (size + align - 1) // align * align + offset
        return
    _, dtv = memory.words(pointer, 2)
    width, count_at = (8, dtv) if musl else (16, dtv - 16)
    for module in range(1, min(memory.words(count_at)[0], 64) + 1):
        block = memory.words(dtv + module * width)[0]
        if block not in (0, 2**64 - 1):
            yield block + offset


def decode(memory, address):
    """A record, or None if there is no valid one."""
    try:
        head = memory.read(address, 28)
        if len(head) < 28 or head[24] != 1 or not any(head[:24]):
            return None
        rest, attributes = memory.read(address + 28, struct.unpack_from("<H", head, 26)[0]), {}
    except (OSError, OverflowError, ValueError):
        return None
    while rest:
        attributes[rest[0]] = rest[2:2 + rest[1]].decode()
        rest = rest[2 + rest[1]:]
    return Record(head[:16].hex(), head[16:24].hex(), attributes)


def look(memory, address):
    with contextlib.suppress(OSError, OverflowError):
        return decode(memory, memory.words(address)[0])
    return None


def look_node(memory, address):
    """Of otel_thread_ctx_nodejs_v1: all entries of the map that is current, one by one, without its hashes."""
    with contextlib.suppress(OSError, OverflowError, struct.error):
        slot, handle, numbers, undefined = memory.words(address, 4)
        (frame,), (key,) = memory.words(slot), memory.words(handle)
        if frame == undefined:
            return None
        table = memory.words(frame - 1, 4)[3] - 1
        _, _, present, gone, buckets = (word >> 32 for word in memory.words(table, 5))
        entries = memory.words(table + 8 * (5 + buckets), 3 * (present + gone))
        values = [value for k, value in zip(entries[::3], entries[1::3]) if k == key and value != undefined]
        return decode(memory, memory.words(values[0] - 1 + (numbers >> 32))[0]) if values else None
    return None


def records(pid):
    memory, found, static = Memory(pid), {}, set()
    where = [(place, look) for place in places(pid, "otel_thread_ctx_v1")]
    where += [(place, look_node) for place in places(pid, "otel_thread_ctx_nodejs_v1", 32)]
    musl = any("ld-musl" in path or "linux-musl/" in path for _, _, _, path in maps(pid))
    for tid in threads(pid):
        found[tid] = None
        with stopped(tid) as pointer:
            for place, read in where:
                for address in addresses(memory, pointer, musl, place):
                    record = read(memory, address)
                    if record:
                        found[tid] = record
                        static |= {address - pointer} if -STATIC < address - pointer < 0 else set()
    # Static memory of a library that came later: glibc tells a thread that was there before only when it
    # asks.
    for tid in [tid for tid, record in found.items() if not record]:
        with contextlib.suppress(ProcessLookupError), stopped(tid) as pointer:
            found[tid] = next(filter(None, (read(memory, pointer + offset)
                                             for offset in static for _, read in where)), None)
    return found


def slots(pid):
    memory, found = Memory(pid), {}
    for start, end, mode, path in maps(pid):
        if mode != "rw-p" or not (path == "" or "DD_OTEL_CTX" in path) or end - start > 1 << 28:
            continue
        for page in range(start, end, 4096):
            with contextlib.suppress(OSError):
                magic, version, capacity, size = struct.unpack("<4sIII", memory.read(page, 16))
                if (magic, version, size) == (b"LETO", 1, 32):
                    for tid in threads(pid):
                        with stopped(tid):
                            high, low, span, in_use = struct.unpack(
                                "<QQQB", memory.read(page + 32 + tid % capacity * 32, 25))
                        found[tid] = (f"{high:016x}{low:016x}",
                                      f"{span:016x}") if not in_use and high | low | span else None
                    return found
    return found


if __name__ == "__main__":
    for what in (records, slots):
        for tid, value in what(int(sys.argv[1])).items():
            print(what.__name__, tid, value)
