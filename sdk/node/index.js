// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * What a Thread of JavaScript Works For
 *
 * OpenTelemetry's context manager knows the current Context, and the Context has the span. What this thread
 * publishes must be that span at any time. It changes by:
 *
 *     with(), and so bind()       take the Context that comes: the manager's own methods, wrapped
 *     attach(), its dispose()     likewise, where the manager has them
 *     asynchronous hops           Node tells before and after each callback, promise and tick (async_hooks);
 *                                 before one the manager is asked, after it the state of before counts again
 *     runInAsyncScope()           where Node keeps contexts by frames of V8 (from 24 on, unless it is told
 *                                 otherwise), it tells before it changes the context: the manager is asked
 *                                 once more, inside
 *
 * The manager is found where @opentelemetry/api keeps it: in an object of the global scope, whose name is a
 * symbol that all copies of that package share. That property is made a getter: each use of the API passes
 * it, so a manager is seen at its first use, whoever sets it, from CommonJS and from modules.
 *
 * A write: valid = 0 | ids | valid = 1 | pointer, in the order of the program. Readers look while the thread
 * is interrupted, so no more is needed; Atomics keeps a compiler from changing the order. To publish none the
 * pointer is 0, and the record keeps its ids: the same span again is one store.
 */
const hooks = require('node:async_hooks');
const fs = require('node:fs');
const path = require('node:path');
const names = require('./names');

const API = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');
const TRACE_BYTES = 16, SPAN_BYTES = 8, IDS = TRACE_BYTES + SPAN_BYTES, VALID = 24;
const SIZE = 26, ATTRIBUTES = 28;
const OLDEST = 18;
const NO_DIGIT = 16;

const digits = new Uint8Array(128).fill(NO_DIGIT);
for (const digit of '0123456789abcdefABCDEF')
    digits[digit.charCodeAt(0)] = parseInt(digit, 16);

let addon, pointer, record, address;
let manager;                // of the API; undefined = none
let current;                // the Context that is published; undefined = none
let written;                // the span whose ids the record has
let processKnown = false;   // the process context is published, or cannot be
let failures = 0;
const outer = [];           // of each callback that runs now: its id, and the Context around it

function say(why) {
    console.warn(`spanprof-otel: spans are not published: ${why}`);
}

/* @hex: to @size bytes from @at on. Return: the or of all bytes, or -1: not of that form. */
function putHex(hex, at, size) {
    let any = 0;
    if (typeof hex !== 'string' || hex.length !== 2 * size)
        return -1;
    for (let i = 0; i < size; i++) {
        const high = digits[hex.charCodeAt(2 * i)], low = digits[hex.charCodeAt(2 * i + 1)];
        if (!(high < NO_DIGIT && low < NO_DIGIT))
            return -1;
        any |= record[at + i] = high << 4 | low;
    }
    return any;
}

/* What the SDK says of the service, as soon as it knows all. */
function publishProcess(span) {
    const resource = span.resource;
    if (!resource || resource.asyncAttributesPending)
        return;
    processKnown = true;
    const texts = Object.entries(resource.attributes).filter(([, value]) => typeof value === 'string');
    try {
        addon.publishProcess(texts.flat());
    } catch (error) {
        console.warn(`spanprof-otel: the resource is not published: ${error.message}`);
    }
}

/* @bytes: attributes of the record, or null. */
function putName(bytes) {
    const size = bytes === null ? 0 : bytes.length;
    if (size)
        record.set(bytes, ATTRIBUTES);
    record[SIZE] = size & 255;
    record[SIZE + 1] = size >> 8;
}

/* The spans of a request are named otherwise now: the record may be of one of them. */
function renamed(root) {
    if (written === undefined || names.rootOf(written) !== root)
        return;
    const valid = Atomics.exchange(record, VALID, 0);
    putName(root.bytes);
    Atomics.store(record, VALID, valid);
}

/* Return: whether the record has the ids of @span now. Else it says nothing. */
function write(span, current) {
    const context = span.spanContext();
    if (context.isRemote)   // the caller's: this thread will work for a child of it
        return false;
    Atomics.store(record, VALID, 0);
    written = undefined;
    const trace = putHex(context.traceId, 0, TRACE_BYTES);
    const id = putHex(context.spanId, TRACE_BYTES, SPAN_BYTES);
    if (trace < 0 || id < 0)
        failures++;
    if (trace <= 0 || id <= 0)
        return false;
    putName(names.of(span, current, globalThis[API]));
    Atomics.store(record, VALID, 1);
    written = span;
    if (!processKnown)
        publishProcess(span);
    return true;
}

function publish(context) {
    if (context === current)
        return;
    current = context;
    pointer[0] = 0;
    if (context === undefined)
        return;
    try {
        const span = context.getValue(SPAN);
        if (span && (span === written || write(span, context)))
            pointer[0] = address;
    } catch {
        failures++;     // a span of somebody else's making: the service goes on without
    }
}

function active() {
    return manager === undefined ? undefined : manager.active();
}

function before(id) {
    outer.push(id, current);
    publish(active());
}

/* A callback that threw may have had no `after`: what lies above this one is gone, too. */
function after(id) {
    const at = outer.lastIndexOf(id);
    if (at < 0)
        return;
    const context = outer[at + 1];
    outer.length = at;
    publish(context);
}

function wrapDispose(token, name) {
    const dispose = token?.[name];
    if (typeof dispose !== 'function')
        return;
    token[name] = function (...args) {
        try {
            return dispose.apply(this, args);
        } finally {
            publish(active());
        }
    };
}

const wrapped = new WeakSet();

function wrap(object) {
    const { with: enter, attach, disable } = object;
    wrapped.add(object);
    object.with = function (context, ...args) {
        const around = current;
        publish(context);
        try {
            return enter.call(this, context, ...args);
        } finally {
            publish(around);
        }
    };
    if (typeof attach === 'function')
        object.attach = function (...args) {
            const token = attach.apply(this, args);
            publish(active());
            wrapDispose(token, 'dispose');
            if (Symbol.dispose)
                wrapDispose(token, Symbol.dispose);
            return token;
        };
    object.disable = function () {
        publish(undefined);
        return disable.call(this);
    };
}

/* Return: whether `before` comes too early in runInAsyncScope(), found by trying it. */
function isToldEarly() {
    const storage = new hooks.AsyncLocalStorage(), outside = new hooks.AsyncResource('spanprof');
    let seen;
    const hook = hooks.createHook({ before: () => seen = storage.getStore() }).enable();
    storage.run(true, () => outside.runInAsyncScope(() => {}));
    hook.disable();
    return seen === true;
}

function wrapScopes() {
    const { runInAsyncScope } = hooks.AsyncResource.prototype;
    hooks.AsyncResource.prototype.runInAsyncScope = function (work, ...args) {
        return runInAsyncScope.call(this, function (...given) {
            publish(active());
            return Reflect.apply(work, this, given);
        }, ...args);
    };
}

function adopt(found) {
    manager = found;
    if (found === undefined)
        return publish(undefined);
    if (!wrapped.has(found))
        wrap(found);
    publish(active());
}

function watchApi() {
    let api = globalThis[API];
    Object.defineProperty(globalThis, API, {
        configurable: true,
        enumerable: true,
        get() {
            if (api !== undefined && api.context !== manager)
                adopt(api.context);
            return api;
        },
        set(value) {
            api = value;
        },
    });
    return globalThis[API];     // one that is there already is adopted now
}

/* The one that was built here, else the one of a package that has it built. */
function load() {
    const built = `./prebuilds/linux-${process.arch}/record.node`;
    const has = (name) => fs.existsSync(path.join(__dirname, name));
    return require(has(built) && !has('./record.node') ? built : './record.node');
}

function whyNot() {
    if (/^(1|true)$/i.test(process.env.SPANPROF_OTEL_DISABLED || ''))
        return 'SPANPROF_OTEL_DISABLED is set';
    if (process.platform !== 'linux' || process.versions.bun || process.versions.deno)
        return 'this is not Node on Linux';
    if (Number(process.versions.node.split('.')[0]) < OLDEST)
        return `Node ${process.versions.node} is older than ${OLDEST}`;
    try {
        addon = load();
    } catch (error) {
        return `the addon cannot be loaded (${error.message.split('\n')[0]}); \`npm rebuild spanprof-otel\` builds it`;
    }
    return null;
}

/* Publishes spans of this thread from now on. Returns whether it does; if not, one line says why. May be
 * called again. */
function start() {
    if (pointer)
        return true;
    const why = whyNot();
    if (why) {
        say(why);
        return false;
    }
    try {
        const made = addon.attach();
        record = new Uint8Array(made.record);
        address = made.address;
        pointer = new Float64Array(made.pointer);
        names.start(addon.name, active, renamed);
    } catch (error) {
        say(error.message);
        return false;
    }
    watchApi();
    if (isToldEarly())
        wrapScopes();
    hooks.createHook({ before, after }).enable();
    return true;
}

/* Returns what this thread publishes as [trace id, span id] in hexadecimal, or null. */
function read() {
    if (!pointer || pointer[0] === 0 || record[VALID] !== 1)
        return null;
    const hex = Buffer.from(record.subarray(0, IDS)).toString('hex');
    return [hex.slice(0, 2 * TRACE_BYTES), hex.slice(2 * TRACE_BYTES)];
}

/* Returns the attributes that this thread publishes, as they lie in its record, or null. */
function readAttributes() {
    if (read() === null)
        return null;
    return Buffer.from(record.subarray(ATTRIBUTES, ATTRIBUTES + record[SIZE] + 256 * record[SIZE + 1]));
}

module.exports = {
    start, read, readAttributes, failures: () => failures, namesRefused: () => addon?.namesRefused() ?? 0,
};
