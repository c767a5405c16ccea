# SPDX-License-Identifier: Apache-2.0
"""What threads of victim-visits.c call: a known chain, without any module."""
ROUNDS = 40000


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


def step(n):
    return burn(n)  # > burn


def visit():
    step(1)  # > step
