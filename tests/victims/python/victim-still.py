# SPDX-License-Identifier: Apache-2.0
"""Threads that hang: one in `wait_below`, one in sort() by way of `compare`. Prints `ready` when all do."""
import threading
import time

begun = threading.Barrier(3)
lock = threading.Lock()


def wait_below(n):
    if n:
        wait_below(n - 1)
    else:
        begun.wait()
        lock.acquire()


def compare(value):
    begun.wait()
    time.sleep(100000)
    return value


def sort():
    sorted([1, 2], key=compare)


lock.acquire()
for target, arguments in ((wait_below, (3,)), (sort, ())):
    threading.Thread(target=target, args=arguments, daemon=True).start()
begun.wait()
print("ready", flush=True)
time.sleep(100000)
