// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * Names of Requests
 *
 * Each span has a property that leads to what its request is named by: the name of the span that it began
 * with in this process, and the route of that. The SDK tells nobody of spans that begin, nor of names that
 * change. So startSpan() of its tracers is wrapped, and updateName() and setAttribute() of its spans, once
 * the first span is current; the API knows a provider then.
 *
 * Instrumentations of web frameworks learn the route before they call the handler, and keep it in an object
 * of the context for the one of HTTP, which names its span at the end. That property is watched.
 */
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const RPC = Symbol.for('OpenTelemetry SDK Context Key RPC_METADATA');
const ROUTE = 'http.route';
const MAX_TEXT = 129;       // characters: more than the bytes that are published

const key = Symbol('spanprof');
const prepared = new Map();     // name, zero, route: attributes of a record
const wrapped = new WeakSet();
let prepare, active, changed;   // of index.js: bytes of a name; the current Context; a root has other bytes
let off = true, found = false;

function bytesOf(name, route) {
    const text = `${name}\0${route}`;
    let bytes = prepared.get(text);
    if (bytes !== undefined)
        return bytes;
    bytes = prepare(name, route);
    if (bytes === null)     // not kept: of these there may be any number
        return null;
    bytes = new Uint8Array(bytes);
    prepared.set(text, bytes);
    return bytes;
}

function textOf(value) {
    return typeof value === 'string' ? value.slice(0, MAX_TEXT) : '';
}

class Root {
    constructor(entry, name, route) {
        this.entry = entry;
        this.name = textOf(name);
        this.route = textOf(route);
        this.bytes = bytesOf(this.name, this.route);
        this.isWatched = false;
    }

    change(name, route) {
        this.name = textOf(name);
        this.route = textOf(route);
        this.bytes = bytesOf(this.name, this.route);
        changed(this);
    }

    /* @context: in which the entry span is current */
    watchRoute(context) {
        const metadata = context.getValue(RPC);
        if (!metadata || metadata.span !== this.entry)
            return;
        let route = metadata.route;
        this.isWatched = true;
        Object.defineProperty(metadata, 'route', {
            configurable: true,
            enumerable: true,
            get: () => route,
            set: (value) => {
                route = value;
                this.change(this.name, value);
            },
        });
        if (route)
            this.change(this.name, route);
    }
}

const rootOf = (span) => span[key];

/* Return: what @span is the entry span of, or undefined. */
function ownRoot(span) {
    const root = span[key];
    return root !== undefined && root.entry === span ? root : undefined;
}

function wrapSpans(prototype) {
    const { updateName, setAttribute } = prototype;
    wrapped.add(prototype);
    prototype.updateName = function (name) {
        const result = updateName.call(this, name);
        const root = ownRoot(this);
        if (root)
            root.change(name, root.route);
        return result;
    };
    prototype.setAttribute = function (name, value) {
        const result = setAttribute.call(this, name, value);
        const root = name === ROUTE ? ownRoot(this) : undefined;
        if (root)
            root.change(root.name, value);
        return result;
    };
}

const isValid = (ids) => !/^0*$/.test(ids.traceId) && !/^0*$/.test(ids.spanId);

function started(span, name, options, context) {
    const prototype = Object.getPrototypeOf(span);
    if (!isValid(span.spanContext()))
        return;
    if (!wrapped.has(prototype))
        wrapSpans(prototype);
    const parent = options?.root ? undefined : (context ?? active())?.getValue(SPAN);
    const above = parent?.spanContext();
    if (above === undefined || above.isRemote || !isValid(above))
        span[key] = new Root(span, name, options?.attributes?.[ROUTE]);
    else if (parent[key] !== undefined)
        span[key] = parent[key];
}

function wrapTracers(prototype) {
    const { startSpan } = prototype;
    wrapped.add(prototype);
    prototype.startSpan = function (name, options, context, ...more) {
        const span = startSpan.call(this, name, options, context, ...more);
        try {
            started(span, name, options, context);
        } catch {   // a span of somebody else's making: it has no name
        }
        return span;
    };
}

/* @span: the first one that is current, which has begun before this. */
function find(span, api) {
    const provider = api?.trace?.getDelegate?.() ?? api?.trace;
    const tracer = provider?.getTracer?.('spanprof-otel');
    const prototype = tracer && Object.getPrototypeOf(tracer);
    if (!prototype?.startSpan || prototype.constructor.name === 'NoopTracer')
        return;
    found = true;
    if (!wrapped.has(prototype))
        wrapTracers(prototype);
    const parent = span.parentSpanContext;
    if (typeof span.name === 'string' && (parent ? parent.isRemote : !span.parentSpanId)) {
        started(span, span.name, { root: true, attributes: span.attributes });
    }
}

/* Return: attributes of the record for @span, which becomes current in @context; null = none. */
function of(span, context, api) {
    if (off)
        return null;
    if (!found)
        find(span, api);
    const root = span[key];
    if (root === undefined)
        return null;
    if (!root.isWatched && root.entry === span)
        root.watchRoute(context);
    return root.bytes;
}

function start(how, current, when) {
    prepare = how;
    active = current;
    changed = when;
    off = /^off$/i.test(process.env.SPANPROF_SPAN_NAMES || '');
}

module.exports = { of, rootOf, start };
