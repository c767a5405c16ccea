#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for a byte, each from another kind of file.

Prints `pid 4711`, then a line `KIND TID` for each thread, then reads lines: at each, every thread gets a byte,
and `ok` is printed. Ends at the end of its input.
"""
import ctypes
import fcntl
import os
import pty
import socket
import sys
import tempfile
import threading
import tty

libc = ctypes.CDLL(None, use_errno=True)


class TimerSpec(ctypes.Structure):
    _fields_ = [("interval", ctypes.c_long * 2), ("value", ctypes.c_long * 2)]


def pair_of(family, kind):
    """Connected sockets of the loopback."""
    if kind == socket.SOCK_DGRAM:
        first, second = socket.socket(family, kind), socket.socket(family, kind)
        first.bind(("127.0.0.1", 0))
        second.connect(first.getsockname())
        return first, second
    server = socket.create_server(("127.0.0.1", 0))
    second = socket.create_connection(server.getsockname())
    return server.accept()[0], second


def kinds():
    """[(kind, wait, wake)]: functions."""
    out, into = os.pipe()
    yield "pipe", lambda: os.read(out, 1), lambda: os.write(into, b"x")
    unix, peer = socket.socketpair()
    yield "unix", lambda: unix.recv(1), lambda: peer.send(b"x")
    tcp, client = pair_of(socket.AF_INET, socket.SOCK_STREAM)
    yield "tcp", lambda: tcp.recv(1), lambda: client.send(b"x")
    udp, sender = pair_of(socket.AF_INET, socket.SOCK_DGRAM)
    yield "udp", lambda: udp.recv(1), lambda: sender.send(b"x")
    event = libc.eventfd(0, 0)
    yield "eventfd", lambda: os.read(event, 8), lambda: os.write(event, (1).to_bytes(8, sys.byteorder))
    timer = libc.timerfd_create(1, 0)
    soon = TimerSpec((0, 0), (0, 1))
    yield "timerfd", lambda: os.read(timer, 8), lambda: libc.timerfd_settime(timer, 0, ctypes.byref(soon), None)
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield "terminal", lambda: os.read(slave, 1), lambda: os.write(master, b"x")


def locked_file():
    """A file whose lock one descriptor has and another one wants."""
    file = tempfile.NamedTemporaryFile()
    return file, open(file.name, "rb")


def main():
    print(f"pid {os.getpid()}", flush=True)
    wakes, answers = [], []
    for kind, wait, wake in kinds():
        answer = threading.Semaphore(0)

        def go(kind=kind, wait=wait, answer=answer):
            print(f"{kind} {threading.get_native_id()}\n", end="", flush=True)
            while True:
                wait()
                answer.release()

        threading.Thread(target=go, daemon=True).start()
        wakes.append(wake)
        answers.append(answer)
    holder, other = locked_file()
    fcntl.flock(holder, fcntl.LOCK_EX)
    asked, locked = threading.Semaphore(0), threading.Semaphore(0)

    def want():
        print(f"file {threading.get_native_id()}\n", end="", flush=True)
        while True:
            asked.acquire()
            fcntl.flock(other, fcntl.LOCK_EX)
            fcntl.flock(other, fcntl.LOCK_UN)
            locked.release()

    threading.Thread(target=want, daemon=True).start()
    for _ in sys.stdin:
        asked.release()
        for wake, answer in zip(wakes, answers):
            wake()
            answer.acquire()
        fcntl.flock(holder, fcntl.LOCK_UN)
        locked.acquire()
        fcntl.flock(holder, fcntl.LOCK_EX)
        print("ok", flush=True)


main()
