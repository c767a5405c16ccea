# SPDX-License-Identifier: Apache-2.0
"""Threads in one interpreter, and in two at once: the first interpreter runs this file in others.

usage: python3 victim-interpreters.py     prints `ready`; ends with its parent; runs on Python 3.8 and newer
"""
import os
import sys
import threading

ROUNDS = 30000
N = 100


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def inner(n):
    return burn(n)  # > burn


def inside():
    for i in range(N):
        inner(i)  # > inner


def alone():
    for i in range(N):
        burn(i)  # > burn


def enter(interpreter):
    run(interpreter, SCRIPT)  # > inside


def main(parent):
    interpreter = create()
    while os.getppid() == parent:
        alone()  # > alone
        enter(interpreter)  # > enter


SCRIPT = f"exec(compile(open({__file__!r}).read(), {__file__!r}, 'exec'), {{'__name__': 'inside', '__file__': ''}})"
if __name__ == "inside":
    inside()
else:
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters
    create, run = interpreters.create, interpreters.run_string
    print("ready", flush=True)
    other = threading.Thread(target=main, args=(os.getppid(),))
    other.start()
    main(os.getppid())
    other.join()
