# SPDX-License-Identifier: Apache-2.0
"""Clients that hold connections: each sends a beginning, then a byte now and then, and comes back when it
was sent away.

    with drip.Crowd(port, 300, b"GET /healthz HTTP/1.1\\r\\nX: ") as crowd:
        ...             as many are connected as the server takes, and each has sent the beginning
    crowd.n_closed                      how many times the other side has ended one
"""
import errno
import socket
import threading

import tap

PAUSE = 0.5             # seconds between two bytes of one: far below any timeout of a server
N_KEPT = 256            # connections that the server keeps
N_ADDRESSES = 5         # 127.0.0.2 and so on; 127.0.0.1 is left to honest clients


def address(i):
    return f"127.0.0.{2 + i % N_ADDRESSES}"


def connect(port, i, patience=60):
    return socket.create_connection(("127.0.0.1", port), patience, source_address=(address(i), 0))


class Crowd:
    def __init__(self, port, n, beginning, byte=b"x", comes_back=True, own_addresses=True):
        self.port, self.beginning, self.byte = port, beginning, byte
        self.comes_back, self.n_closed = comes_back, 0
        self.own_addresses = own_addresses              # or all from 127.0.0.1
        self.all, self.begun = {}, set()
        self.over = threading.Event()
        for i in range(n):
            self.begin(i)
        self.thread = threading.Thread(target=self.run, daemon=True)

    def begin(self, i):
        self.begun.discard(i)
        self.all[i] = connection = socket.socket()
        connection.setblocking(False)
        connection.bind((address(i) if self.own_addresses else "127.0.0.1", 0))
        # its backlog may be full: it is connected some time later
        connection.connect_ex(("127.0.0.1", self.port))

    def send(self, i):
        connection = self.all[i]
        try:
            connection.send(self.byte if i in self.begun else self.beginning)
            self.begun.add(i)
            if connection.recv(4096):
                return
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno == errno.ENOTCONN:
                return
        connection.close()
        self.n_closed += 1
        if self.comes_back:
            self.begin(i)
        else:
            del self.all[i]

    def run(self):
        while not self.over.is_set():
            for i in list(self.all):
                self.send(i)
            self.over.wait(PAUSE)

    def __enter__(self):
        self.thread.start()
        tap.wait_until(lambda: len(self.begun) >= min(len(self.all), N_KEPT) or self.n_closed,
                       "as many as the server takes")
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for connection in self.all.values():
            connection.close()
