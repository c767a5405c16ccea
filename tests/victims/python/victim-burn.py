# SPDX-License-Identifier: Apache-2.0
"""Burns CPU in <module> → outer → middle → burn, until it is killed. Runs in guests of QEMU (qemu.py)."""


def burn(n):
    for i in range(30000):
        n = (n * 31 + i) & 0xffff
    return n


def middle(n):
    return burn(n) + 1


def outer(n):
    return middle(n) + 1


while True:
    outer(1)
