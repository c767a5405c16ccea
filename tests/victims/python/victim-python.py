# SPDX-License-Identifier: Apache-2.0
"""Python that computes in known chains of calls, one after the other, for test-run-python.py. Each chain
begins in `main` and ends in `burn`. A line that calls the next function of its chain says so: `# > name`. So
the truth about functions and lines is in this file.

usage: python3 victim-python.py [CHAIN…]     prints `ready`, and at the end of its input the CPU time of each
                                             chain: `NAME NANOSECONDS`, and that of its innermost functions:
                                             `leaf NANOSECONDS of NANOSECONDS`; without a name, all but
                                             `nested`; runs on Python 3.8 and newer
"""
import asyncio
import ctypes
import functools
import sys
import threading
import time

ROUNDS = 30000
STOP = threading.Event()
# CPU time in innermost functions, by the argument of `burn`: each has one thread
LEAF_NS = [0] * 11
C_TIME = 10
OTHER_NS = [0]


def burn(n):
    begin = time.thread_time_ns()  # = burn
    total = n  # = burn
    for i in range(ROUNDS):  # = burn
        total = (total * 31 + i) & 0xffff  # = burn
    LEAF_NS[n] += time.thread_time_ns() - begin  # = burn
    return total  # = burn


def deep_a(depth):
    if depth == 0:
        return burn(1)  # > burn
    return deep_b(depth - 1) + 1  # > deep_b


def deep_b(depth):
    if depth == 0:
        return burn(2)  # > burn
    return deep_c(depth - 1) + 2  # > deep_c


def deep_c(depth):
    if depth:
        return deep_a(depth - 1) + 3  # > deep_a
    return burn(3)  # > burn


def deep():
    return deep_a(63)  # > deep_a


def deeper():
    return deep_a(198)  # > deep_a


class Shape:
    def __init__(self, depth):
        self.depth = depth

    @property
    def area(self):
        return self.total(self.depth)  # > Shape.total

    @classmethod
    def total(cls, depth):
        return burn(depth)  # > burn


def shapes():
    return Shape(4).area  # > Shape.__init__ > Shape.area


def sort():
    return sorted([3, 1], key=lambda x: burn(x))  # > sort.<locals>.<lambda> > burn


def reduce():
    def add(a, b):
        return a + burn(b)  # > burn

    return functools.reduce(add, [1, 2])  # > reduce.<locals>.add


def yielding(n):
    for i in range(n):
        yield burn(i)  # > burn


def outer_yielding(n):
    yield from yielding(n)  # > yielding


def generators():
    total = 0
    for x in outer_yielding(2):  # > outer_yielding
        total += x
    return total


async def co_inner(n):
    await asyncio.sleep(0)
    return burn(n)  # > burn


async def co_outer():
    return await co_inner(5)  # > co_inner


def coroutines():
    LOOP.run_until_complete(co_outer())  # > co_outer


def thrower():
    raise ValueError


def handle():
    return burn(6)  # > burn


def caught():
    try:
        thrower()  # > thrower
    except ValueError:
        return handle()  # > handle


def starred(*args, **kwargs):
    return burn(len(args))  # > burn


def star():
    def wrap(function):
        def wrapped(*args, **kwargs):
            return function(*args, **kwargs)  # > starred

        return wrapped

    return wrap(starred)(1, 2, key=3)  # > star.<locals>.wrap.<locals>.wrapped


COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))


@COMPARE
def compare(a, b):
    burn(7)  # > burn
    return a[0] - b[0]


def native():
    numbers = (ctypes.c_int * 2)(2, 1)
    ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), compare)  # > compare


def c_time():
    begin = time.thread_time_ns()  # = c_time
    total = sum(NUMBERS)  # = c_time
    LEAF_NS[C_TIME] += time.thread_time_ns() - begin  # = c_time
    return total  # = c_time


def nested_at(rest, _):
    return functools.reduce(nested_at, [rest - 1, 0]) if rest else burn(8)  # > nested_at > burn


def nested():
    """300 evaluators, with native frames between."""
    return nested_at(300, 0)  # > nested_at


NUMBERS = list(range(200000))
LOOP = asyncio.new_event_loop()
CHAINS = [deep, deeper, shapes, sort, reduce, generators, coroutines, caught, star, native, c_time]
USUAL = [chain.__name__ for chain in CHAINS]


def other():
    return burn(9)  # > burn


def thread_main():
    while not STOP.is_set():
        other()  # > other
        OTHER_NS[0] = time.thread_time_ns()
        time.sleep(0.002)


def main(names):
    chains = [chain for chain in [*CHAINS, nested] if chain.__name__ in (names or USUAL)]
    spent = dict.fromkeys(chains, 0)
    start = time.thread_time_ns()
    while not STOP.is_set():
        for chain in chains:
            begin = time.thread_time_ns()
            chain()  # > *
            spent[chain] += time.thread_time_ns() - begin
    for chain, time_ns in spent.items():
        print(chain.__name__, time_ns, flush=True)
    print(f"leaf {sum(LEAF_NS)} of {time.thread_time_ns() - start + OTHER_NS[0]}", flush=True)


def wait_for_end():
    sys.stdin.read()
    STOP.set()


threading.Thread(target=thread_main, daemon=True).start()
threading.Thread(target=wait_for_end, daemon=True).start()
print("ready", flush=True)
main(sys.argv[1:])
