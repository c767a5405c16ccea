# SPDX-License-Identifier: Apache-2.0
"""Python that computes in two known chains of calls, with modules that each interpreter has in itself: an
interpreter without exports can load no others.

usage: victim-embed victim-embed.py       prints `ready`; ends with its parent; runs on Python 3.8 and newer
"""
import functools
import os

ROUNDS = 30000


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def compare(a, b):
    return burn(a) - burn(b)  # > burn


def sort():
    return sorted([2, 1], key=functools.cmp_to_key(compare))  # > compare


def third(n):
    return burn(n)  # > burn


def second(n):
    return third(n) + 1  # > third


def first(n):
    return second(n) + 1  # > second


def main():
    parent = os.getppid()
    while os.getppid() == parent:
        first(1)  # > first
        sort()  # > sort


print("ready", flush=True)
main()
