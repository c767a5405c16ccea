# SPDX-License-Identifier: Apache-2.0
"""Threads of Python that want the interpreter's lock, for test-run-waits-runtimes.py: `spin_a` and `spin_b`
compute without end and wait for nothing else; `want` waits for a lock of the program that `keep` has. Prints a
line `ready NAME=ID…` with the threads' ids, and ends with its input. Runs on Python 3.8 and newer."""
import sys
import threading
import time

NAP = 0.1
lock = threading.Lock()
kept = threading.Semaphore(0)
begun = threading.Barrier(5)
ids = {}


def spin():
    total = 0
    for i in range(10000):
        total = (total * 31 + i) & 0xffff


def keep():
    with lock:
        kept.release()
        time.sleep(NAP)


def want():
    kept.acquire()
    with lock:
        pass


def again(name, work):
    ids[name] = threading.get_native_id()
    begun.wait()
    while True:
        work()


for each in (("spin_a", spin), ("spin_b", spin), ("keep", keep), ("want", want)):
    threading.Thread(target=again, args=each, daemon=True).start()
begun.wait()
print("ready", *(f"{name}={tid}" for name, tid in ids.items()), flush=True)
sys.stdin.read()
