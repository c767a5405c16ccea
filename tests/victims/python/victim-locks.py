# SPDX-License-Identifier: Apache-2.0
"""Two deadlocks, one of RLocks and one of Locks, and threads that wait without one. Each says who it is.

  left, right   have an RLock each, and want each other's: by `with`, and by acquire() of an attribute
  up, down      the same of two Locks, which do not know who has them
  heir          wants the RLock that idle has, which sleeps
  stale         had idle's RLock at hand before, and waits for a Lock that the main thread has
"""
import os
import threading
import time

threads = []


class Holder:
    def __init__(self, lock):
        self.lock = lock


def start(name, function, *arguments):
    def run():
        os.write(1, f"thread {name} {threading.get_native_id()}\n".encode())
        function(*arguments)

    threads.append(threading.Thread(target=run, name=name, daemon=True))
    threads[-1].start()


def enter(first, second, both):
    with first:
        both.wait()
        with second:
            print("cannot be")


def acquire(first, second, both):
    with first.lock:
        both.wait()
        second.lock.acquire()


def idle(lock, taken):
    with lock:
        taken.set()
        time.sleep(600)


def stale(lock, other):
    lock.acquire(blocking=False)
    other.acquire()


def main():
    rlocks, locks = [threading.RLock() for _ in range(3)], [threading.Lock() for _ in range(3)]
    holders = [Holder(lock) for lock in rlocks]
    both, taken = threading.Barrier(2), threading.Event()
    start("left", enter, rlocks[0], rlocks[1], both)
    start("right", acquire, holders[1], holders[0], both)
    both = threading.Barrier(2)
    start("up", enter, locks[0], locks[1], both)
    start("down", enter, locks[1], locks[0], both)
    start("idle", idle, rlocks[2], taken)
    taken.wait()
    start("heir", enter, rlocks[2], locks[2], None)
    locks[2].acquire()
    start("stale", stale, rlocks[2], locks[2])
    time.sleep(600)


main()
