# SPDX-License-Identifier: Apache-2.0
"""Libraries that switch contexts and tell nobody: each is changed once it is there, and only then. Where
contexts are watched (CPython 3.14 and newer) that is greenlet alone."""
import functools
import importlib.util
import logging
import sys

from . import _record

LOG = logging.getLogger("spanprof_otel")
UVLOOP_CALLS = {"call_soon": 0, "call_soon_threadsafe": 0, "call_later": 1, "call_at": 1, "add_reader": 1,
                "add_writer": 1, "add_signal_handler": 1}     # and which argument is the callback


def then_republish(function):
    """@function, after which the calling thread publishes its current span again."""

    @functools.wraps(function)
    def call(*arguments, **named):
        try:
            return function(*arguments, **named)
        finally:
            _record.republish()

    return call


def found_asyncio():
    """Eager tasks: their first step runs inside of create_task(), and nobody is told when it is over."""
    if sys.version_info >= (3, 12) and not _record.CONTEXTS_ARE_WATCHED:
        loop = sys.modules["asyncio.base_events"].BaseEventLoop
        loop.create_task = then_republish(loop.create_task)


def found_greenlet():
    """In each thread that has a span, once somebody uses greenlets."""
    import greenlet

    if greenlet.gettrace() is None:
        greenlet.settrace(_record.switched)
    else:
        _record.stop()
        LOG.warning("spans are not published any more: another tracer of greenlets is in place")


def _with_step(function, place):
    step = _record.Step

    @functools.wraps(function)
    def call(self, *arguments, **named):
        if len(arguments) > place:
            arguments = (*arguments[:place], step(arguments[place]), *arguments[place + 1:])
        elif "callback" in named:
            named["callback"] = step(named["callback"])
        return function(self, *arguments, **named)

    return call


def found_uvloop(module):
    """It enters contexts in C. So each callback that is handed to it becomes a Step, which publishes what is current."""
    loop = module.Loop
    for name, place in UVLOOP_CALLS.items():
        setattr(loop, name, _with_step(getattr(loop, name), place))
    loop.create_task = then_republish(loop.create_task)
    loop.run_forever = then_republish(loop.run_forever)


class _Finder:
    """Calls found_uvloop() at the end of that import: before its first callback. It derives from nothing of
    importlib.abc, which loads a MiB of other modules."""

    def find_spec(self, name, path=None, target=None):
        if name != "uvloop":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                try_found_uvloop(module)

            spec.loader.exec_module = exec_module
        return spec


def try_found_uvloop(module):
    try:
        found_uvloop(module)
    except Exception as error:
        _record.stop()
        LOG.warning("spans are not published any more: this uvloop is not known (%s)", error)


def watch_imports():
    if _record.CONTEXTS_ARE_WATCHED:
        return
    if "uvloop" in sys.modules:
        try_found_uvloop(sys.modules["uvloop"])
    else:
        sys.meta_path.insert(0, _Finder())
