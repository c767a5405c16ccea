# SPDX-License-Identifier: Apache-2.0
"""Greenlets of eventlet that compute in known chains and switch, and its pool of threads.

usage: python3 victim-eventlet.py     needs eventlet; prints `ready`; ends with its parent
"""
import os

import eventlet
import eventlet.tpool

ROUNDS = 20000
PARENT = os.getppid()


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def step(n):
    burn(n)  # > burn
    eventlet.sleep(0)


def shallow():
    step(1)  # > step


def deep(n):
    if n:
        return deep(n - 1)  # > deep
    burn(n)  # > burn
    return eventlet.sleep(0)


def descend():
    deep(4)  # > deep


def threaded():
    return burn(3)  # > burn


def ask_thread():
    eventlet.tpool.execute(threaded)


print("ready", flush=True)
while os.getppid() == PARENT:
    pool = eventlet.GreenPool()
    for function in (shallow, descend, ask_thread) * 5:
        pool.spawn(function)
    pool.waitall()
