# SPDX-License-Identifier: Apache-2.0
"""Locks that go from hand to hand: `keep_cart` has an RLock again and again, `keep_till` a Lock; `buyer` wants
the one and the other in turn, below a function for each. For test-run-wait-locks.py. Prints a line `ready
NAME=ID…` with the threads' ids, and ends with its input."""
import sys
import threading
import time

KEPT, FREE = 0.3, 0.04
cart, till = threading.RLock(), threading.Lock()
begun = threading.Barrier(4)
ids = {}


def keep(lock):
    with lock:
        time.sleep(KEPT)
    time.sleep(FREE)


def want_cart():
    with cart:
        pass


def want_till():
    with till:
        pass


def buy():
    want_cart()
    want_till()


def again(name, work, *arguments):
    ids[name] = threading.get_native_id()
    begun.wait()
    while True:
        work(*arguments)


for each in (("keep_cart", keep, cart), ("keep_till", keep, till), ("buyer", buy)):
    threading.Thread(target=again, args=each, daemon=True).start()
begun.wait()
print("ready", *(f"{name}={tid}" for name, tid in ids.items()), flush=True)
sys.stdin.read()
