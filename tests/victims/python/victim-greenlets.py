# SPDX-License-Identifier: Apache-2.0
"""Greenlets that compute in known chains and switch in turn, from different depths, by gevent.

usage: python3 victim-greenlets.py     needs gevent; prints `ready`; ends with its parent
"""
import os

import gevent

ROUNDS = 20000
PARENT = os.getppid()


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def step(n):
    burn(n)  # > burn
    gevent.sleep(0)


def shallow():
    while os.getppid() == PARENT:
        step(1)  # > step


def deeper():
    burn(2)  # > burn
    gevent.sleep(0)


def deep(n):
    if n:
        return deep(n - 1)  # > deep
    return deeper()  # > deeper


def descend():
    while os.getppid() == PARENT:
        deep(4)  # > deep


def late():
    """Begins anew each time, from wherever the hub is."""
    burn(3)  # > burn


def starter():
    while os.getppid() == PARENT:
        gevent.spawn(late).join()


print("ready", flush=True)
gevent.joinall([gevent.spawn(function) for function in (shallow, descend, starter)])
