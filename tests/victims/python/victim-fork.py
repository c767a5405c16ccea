# SPDX-License-Identifier: Apache-2.0
"""Workers that are forked and execute nothing, as servers make them: each computes in a function that only it
calls, through one that is made after the fork.

usage: python3 victim-fork.py      prints `worker I PID` for each of three workers, then `ready`; ends with its
                                   input; runs on Python 3.8 and newer
"""
import os
import sys
import threading

ROUNDS = 20000
STOP = threading.Event()


def burn(n):
    total = n
    for i in range(ROUNDS):
        total = (total * 31 + i) & 0xffff
    return total


def work_0():
    return burn(0)


def work_1():
    return burn(1)


def work_2():
    return burn(2)


def worker(work):
    parent = os.getppid()
    scope = {"work": work}
    exec(compile(f"def made_{work.__name__}():\n    return work()\n", "made.py", "exec"), scope)
    made = scope[f"made_{work.__name__}"]
    while os.getppid() == parent:
        made()
    os._exit(0)


for i, function in enumerate((work_0, work_1, work_2)):
    pid = os.fork()
    if not pid:
        worker(function)
    print("worker", i, pid, flush=True)
print("ready", flush=True)
sys.stdin.read()
