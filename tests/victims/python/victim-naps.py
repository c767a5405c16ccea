# SPDX-License-Identifier: Apache-2.0
"""Threads of Python that wait again and again, each in a chain of calls of its own: `doze` sleeps below itself,
`nap` sleeps below sort(), `want` wants a lock that `keep` has meanwhile. For test-run-waits-runtimes.py. Prints
a line `ready NAME=ID…` with the threads' ids, and ends with its input. Runs on Python 3.8 and newer."""
import sys
import threading
import time

NAP = 0.05
lock = threading.Lock()
kept = threading.Semaphore(0)
begun = threading.Barrier(5)
ids = {}


def doze(n):
    if n:
        doze(n - 1)
    else:
        time.sleep(NAP)


def nap(value):
    time.sleep(NAP)
    return value


def sort():
    sorted([1, 2], key=nap)


def keep():
    with lock:
        kept.release()
        time.sleep(NAP)


def want():
    kept.acquire()
    with lock:
        pass


def again(name, work, *arguments):
    ids[name] = threading.get_native_id()
    begun.wait()
    while True:
        work(*arguments)


for each in (("doze", doze, 3), ("sort", sort), ("keep", keep), ("want", want)):
    threading.Thread(target=again, args=each, daemon=True).start()
begun.wait()
print("ready", *(f"{name}={tid}" for name, tid in ids.items()), flush=True)
sys.stdin.read()
