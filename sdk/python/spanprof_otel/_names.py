# SPDX-License-Identifier: Apache-2.0
"""Names of entry spans. The SDK tells nobody of a name that changes, nor of spans that no sampler chose, so
four methods of its classes are changed, once the first span of the SDK is current."""
import functools
import os

from . import _record

ROUTE = "http.route"


def are_wanted():
    return os.environ.get("SPANPROF_SPAN_NAMES", "").lower() != "off"


def _started(function):
    started = _record.started

    @functools.wraps(function)
    def start_span(self, name, context=None, *arguments, **named):
        span = function(self, name, context, *arguments, **named)
        started(span, context, name, arguments[1] if len(arguments) > 1 else named.get("attributes"))
        return span

    return start_span


def _renamed(function):
    renamed = _record.renamed

    @functools.wraps(function)
    def update_name(self, name):
        result = function(self, name)
        renamed(self, name, None)
        return result

    return update_name


def _attribute_set(function):
    renamed = _record.renamed

    @functools.wraps(function)
    def set_attribute(self, key, value):
        result = function(self, key, value)
        if key == ROUTE:
            renamed(self, None, value)
        return result

    return set_attribute


def _attributes_set(function):
    renamed = _record.renamed

    @functools.wraps(function)
    def set_attributes(self, attributes):
        result = function(self, attributes)
        if attributes and ROUTE in attributes:
            renamed(self, None, attributes[ROUTE])
        return result

    return set_attributes


@functools.lru_cache(maxsize=None)
def follow():
    from opentelemetry.sdk.trace import Span, Tracer
    from opentelemetry.trace import NonRecordingSpan
    from opentelemetry.trace import Span as AnySpan

    AnySpan._spanprof_root = None      # of those that were started before
    Tracer.start_span = _started(Tracer.start_span)
    for kind in (Span, NonRecordingSpan):
        kind.update_name = _renamed(kind.update_name)
        kind.set_attribute = _attribute_set(kind.set_attribute)
        kind.set_attributes = _attributes_set(kind.set_attributes)
    _record.follow_names()


def found_span(span):
    """@span was current before its start could be seen. In a forked child it may have a name already."""
    follow()
    if span._spanprof_root is None and (span.parent is None or span.parent.is_remote):
        _record.started(span, {}, span.name, span.attributes)
