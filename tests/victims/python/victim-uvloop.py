# SPDX-License-Identifier: Apache-2.0
"""Coroutines and callbacks that compute in known chains on uvloop, a loop of C, and its executor.

usage: python3 victim-uvloop.py     needs uvloop; prints `ready`; ends with its parent
"""
import asyncio
import os

import uvloop

ROUNDS = 20000
PARENT = os.getppid()


def burn(n):
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    return total  # = burn


async def inner(n):
    burn(n)  # > burn
    await asyncio.sleep(0)


async def outer(n):
    await inner(n)  # > inner


def called():
    burn(2)  # > burn


async def serve():
    loop = asyncio.get_running_loop()
    print("ready", flush=True)
    while os.getppid() == PARENT:
        loop.call_soon(called)
        await asyncio.gather(*(outer(i) for i in range(5)))
        await loop.run_in_executor(None, called)


uvloop.run(serve())
