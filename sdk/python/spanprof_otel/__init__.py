# SPDX-License-Identifier: Apache-2.0
"""Publishes OpenTelemetry's current span of each thread, for profilers outside of the process.

`opentelemetry-instrument` calls start() by itself; OTEL_PYTHON_CONTEXT=spanprof does without it; a program may
call start(). When it cannot be done the service runs as before, and one line of the log says why.
How contexts are followed is at the top of _record.c.
"""
import logging
import os
import platform
import sys

LOG = logging.getLogger("spanprof_otel")
OLDEST, NEWEST = (3, 9), (3, 15)    # what the tests run
_context = None     # the runtime context that publishes


def _why_not():
    """None, or why this process will publish nothing."""
    if os.environ.get("SPANPROF_OTEL_DISABLED", "").lower() in ("1", "true"):
        return "SPANPROF_OTEL_DISABLED is set"
    if platform.python_implementation() != "CPython" or not OLDEST <= sys.version_info[:2] <= NEWEST:
        return (f"{platform.python_implementation()} {platform.python_version()} is not CPython "
                f"{'.'.join(map(str, OLDEST))} to {'.'.join(map(str, NEWEST))}")
    return None


def _no(why):
    LOG.warning("spans are not published: %s", why)


def _found_span(span):
    """What the SDK says of the service. Returns whether this span knew."""
    attributes = getattr(getattr(span, "resource", None), "attributes", None)
    if attributes is None:
        return False
    from . import _record

    try:
        _record.publish_process({key: value for key, value in attributes.items() if isinstance(value, str)})
    except Exception as error:  # the spans are published all the same
        LOG.warning("the resource is not published: %s", error)
    try:
        from . import _names

        if _names.are_wanted():
            _names.found_span(span)
    except Exception as error:
        LOG.warning("names of spans are not published: %s", error)
    return True


def _find_key():
    """At the first attach(): OpenTelemetry is being imported when the runtime context is made."""
    from . import _record

    try:
        from opentelemetry.trace.propagation import _SPAN_KEY
    except ImportError as error:
        _record.stop()
        _no(error)
    else:
        _record.set_key(_SPAN_KEY)


def _make(variable):
    """A runtime context that keeps OpenTelemetry's Context in @variable (None: in one of its own)."""
    from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

    from . import _follow, _record

    class PublishedContext(ContextVarsRuntimeContext):
        """The usual one; what becomes current is published, too."""

        def __init__(self):
            super().__init__()
            if variable is not None:
                self._current_context = variable
            self.attach, self.detach = _record.attach, _record.detach

    _record.follow()
    made = PublishedContext()
    _record.setup(made._current_context, _find_key, _follow.found_asyncio, _follow.found_greenlet,
                  _found_span)
    _follow.watch_imports()
    os.register_at_fork(after_in_child=lambda: _record.forked(_found_span))
    return made


def _try_make(variable):
    global _context

    why = _why_not()
    if why is None:
        try:
            _context = _make(variable)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
    if why is not None:
        _no(why)
    return _context


def runtime_context():
    """What OTEL_PYTHON_CONTEXT=spanprof makes: a runtime context, in any case."""
    from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

    return _context or _try_make(None) or ContextVarsRuntimeContext()


def start():
    """Publishes spans from now on. Returns whether it does; if not, the log says why. May be called again."""
    from opentelemetry import context
    from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

    if _context is not None:
        return True
    runtime = context._RUNTIME_CONTEXT
    if type(runtime) is not ContextVarsRuntimeContext:
        _no(f"contexts are kept by {type(runtime).__name__}, which is not known")
        return False
    made = _try_make(runtime._current_context)
    if made is None:
        return False
    context._RUNTIME_CONTEXT = made
    return True
