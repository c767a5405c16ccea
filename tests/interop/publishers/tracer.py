# SPDX-License-Identifier: Apache-2.0
"""With Datadog's tracer for Python: tracer.py SECONDS. Prints lines as Agent.java does; WHO is the thread's id."""
import sys
import threading
import time

from ddtrace.trace import tracer

lock = threading.Lock()


def burn(end):
    x = 1
    while time.monotonic_ns() < end:
        for _ in range(1000):
            x = x * 6364136223846793005 + 1442695040888963407 & (1 << 64) - 1


def say(line):
    """One line; print() writes its end apart, and threads come in between."""
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def work(end):
    tid = threading.get_native_id()
    while time.monotonic_ns() < end:
        with tracer.trace("request", resource="answer") as span:
            begin = time.monotonic_ns()
            burn(begin + 100_000_000)
            inside = time.monotonic_ns()
            say(f"span {span.trace_id:032x} {span.span_id:016x} {tid} {begin} {inside}")
        burn(time.monotonic_ns() + 10_000_000)


def main():
    end = time.monotonic_ns() + int(sys.argv[1]) * 1_000_000_000
    threads = [threading.Thread(target=work, args=(end,)) for _ in range(2)]
    say("ready")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


main()
