# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio whose names and awaiters the source fixes, for test-run-asyncio.py. Each task computes in
a function of its own, `work_NAME`. A line that waits for another function or task says so: `# > name`.

usage: python3 victim-asyncio.py      prints `ready`, and ends with its input; runs on Python 3.14 and newer
"""
import asyncio
import sys
import threading

ROUNDS = 20000
STOP = threading.Event()


def burn(n):
    total = n
    for i in range(ROUNDS):
        total = (total * 31 + i) & 0xffff
    return total


def worker(name):
    """A function of its own for each task, so that a stack says which task ran."""
    text = f"""
async def work_{name}():
    while not STOP.is_set():
        burn(1)
        await asyncio.sleep(0)
"""
    scope = {"STOP": STOP, "burn": burn, "asyncio": asyncio}
    exec(compile(text, f"work_{name}.py", "exec"), scope)
    return scope[f"work_{name}"]


async def inner():
    await worker("alpha")()  # > work_alpha


async def grand():
    await asyncio.create_task(inner(), name="alpha")  # > inner


async def parent():
    await grand()  # > grand


async def group():
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(worker("gamma")(), name="Grüße γ")
        tasks.create_task(worker("long")(), name="n" * 300)


async def waiter(task):
    await task


async def short():
    """Tasks that end soon: their memory is used again by others."""
    while not STOP.is_set():
        for i, work in enumerate(SHORT):
            await asyncio.create_task(work(), name=f"short-{i}")  # > short_


def short_worker(i):
    scope = {"burn": burn}
    exec(compile(f"async def short_{i}():\n    burn(2)\n    burn(3)\n", f"short_{i}.py", "exec"), scope)
    return scope[f"short_{i}"]


SHORT = [short_worker(i) for i in range(8)]


async def main():
    second = asyncio.create_task(worker("second")())        # Task-2
    third = asyncio.create_task(worker("third")())          # Task-3
    shared = asyncio.create_task(worker("shared")(), name="shared")
    waiters = [asyncio.create_task(waiter(shared), name=f"waiter-{i}") for i in range(2)]
    asyncio.get_running_loop().call_soon(callback)
    print("ready", flush=True)
    await asyncio.gather(asyncio.create_task(parent(), name="parent"),  # > parent|group|short|work_
                         asyncio.create_task(group(), name="group"), asyncio.create_task(short(), name="short"),
                         second, third, *waiters)


def callback():
    """Runs in the loop, in no task."""
    burn(4)
    if not STOP.is_set():
        asyncio.get_running_loop().call_soon(callback)


def wait_for_end():
    sys.stdin.read()
    STOP.set()


threading.Thread(target=wait_for_end, daemon=True).start()
asyncio.run(main())
