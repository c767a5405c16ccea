# SPDX-License-Identifier: Apache-2.0
"""Threads that live for one task each, of known chains, and one after the other: the C library gives each new
one the stack, and so the id, of one that has ended.

usage: python3 victim-tasks.py     prints `ready`; ends with its parent; runs on Python 3.8 and newer
"""
import os
import threading

ROUNDS = 60000


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def step(n):
    return burn(n)  # > burn


def task():
    step(1)  # > step


def other():
    burn(2)  # > burn


def main(parent):
    while os.getppid() == parent:
        for function in (task, other, task):
            thread = threading.Thread(target=function)
            thread.start()
            thread.join()


print("ready", flush=True)
main(os.getppid())
