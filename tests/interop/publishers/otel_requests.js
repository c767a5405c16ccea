// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * With OpenTelemetry's SDK for Node, or with Datadog's library where TRACER=datadog is in the environment:
 * otel_requests.js CPU-SECONDS MODE…; a MODE is hops, callbacks (not for Datadog's library: there a span that
 * has ended is no longer current), callers (requests of another process; the same), or worker (hops in a
 * worker thread). With WASTE in the environment V8's collector has much to move. Each prints what it did
 * without a pause between:
 *
 *     busy TRACE SPAN THREAD BEGIN END    CLOCK_MONOTONIC, ns; TRACE and SPAN are `-` outside of all spans
 *
 * The file is read by tests/integration/host/spans/test-otel-node.py and test-long-datadog-node.py.
 */
const { AsyncResource } = require('node:async_hooks');
const fs = require('node:fs');
const { setImmediate: immediate, setTimeout: sleep } = require('node:timers/promises');
const { Worker, isMainThread, workerData } = require('node:worker_threads');

const arguments_ = isMainThread ? process.argv.slice(2) : workerData;
const { inSpan, idsOf } = process.env.TRACER === 'datadog' ? datadog() : otel();
const thread = fs.readFileSync('/proc/thread-self/stat', 'ascii').split(' ')[0];

function otel() {
    const { trace } = require('@opentelemetry/api');
    const { resourceFromAttributes } = require('@opentelemetry/resources');
    const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

    new NodeTracerProvider({ resource: resourceFromAttributes({ 'service.name': 'shop' }) }).register();
    const tracer = trace.getTracer('requests');
    return {
        inSpan: (name, work) => tracer.startActiveSpan(name, (span) => {
            const done = work(span);
            if (!(done instanceof Promise)) {
                span.end();
                return done;
            }
            return done.finally(() => span.end());
        }),
        idsOf: (span) => `${span.spanContext().traceId} ${span.spanContext().spanId}`,
    };
}

function datadog() {
    const tracer = require('dd-trace').init({ service: 'shop' });
    return {
        inSpan: (name, work) => tracer.trace(name, work),
        idsOf: (span) => `${span.context().toTraceId(true)} ${span.context().toSpanId(true)}`,
    };
}

/* By the CPU time of the process: on a busy machine it takes longer, and not less. */
function going() {
    const { user, system } = process.cpuUsage();
    return user + system < 1e6 * Number(arguments_[0]);
}

function waste(n) {
    const kept = [];
    for (let i = 0; i < 300; i++)
        kept.push({ n: n + i, text: `${n}` });
    return kept;
}

/* @ms of work for @span, as the program itself knows it; no look at OpenTelemetry's context. */
function burn(ms, span) {
    const begin = process.hrtime.bigint(), end = begin + BigInt(ms) * 1000000n;
    let x = 1, kept = null;
    while (process.hrtime.bigint() < end) {
        for (let i = 0; i < 1000; i++)
            x = Math.imul(x, 1664525) + 1013904223 | 0;
        if (process.env.WASTE)
            kept = [waste(x), kept && kept[0]];
    }
    const ids = span ? idsOf(span) : '- -';
    fs.writeSync(1, `busy ${ids} ${thread} ${begin} ${process.hrtime.bigint()}\n`);
    return x;
}

/* Others run at each await, in other spans. */
async function hops() {
    while (going()) {
        await inSpan('request', async (span) => {
            burn(10, span);
            await sleep(1);
            burn(10, span);
            await inSpan('part', async (part) => {
                await null;
                burn(10, part);
                await Promise.all([1, 2].map(() => inSpan('step', async (step) => {
                    burn(5, step);
                    await immediate();
                    burn(5, step);
                })));
                await fs.promises.readFile('/proc/self/stat');
                burn(5, part);
            });
            try {
                inSpan('thrown', (thrown) => {
                    burn(5, thrown);
                    throw new RangeError('as services do');
                });
            } catch {
                burn(5, span);
            }
        });
        burn(10);
        await immediate();
    }
}

function callbacks() {
    return new Promise((resolve) => {
        const next = () => {
            if (!going())
                return resolve();
            const bound = new AsyncResource('none');
            inSpan('outer', (span) => {
                burn(5, span);
                process.nextTick(() => burn(5, span));
                queueMicrotask(() => burn(5, span));
                bound.runInAsyncScope(() => burn(5));
                burn(5, span);
                setTimeout(() => {
                    burn(5, span);
                    fs.stat('/', () => burn(5, span));
                }, 1);
            });
            burn(5);
            bound.runInAsyncScope(() => setImmediate(next));
        };
        next();
    });
}

/* The caller's span is current until the request has one of its own. */
async function callers() {
    const { context, propagation, ROOT_CONTEXT } = require('@opentelemetry/api');
    for (let n = 1; going(); n++) {
        const traceparent = `00-${String(n).padStart(32, '5')}-${String(n).padStart(16, '7')}-01`;
        await context.with(propagation.extract(ROOT_CONTEXT, { traceparent }), async () => {
            burn(5);
            await inSpan('called', async (span) => {
                burn(5, span);
                await immediate();
                burn(5, span);
            });
            burn(5);
        });
    }
}

function worker() {
    return new Promise((resolve, reject) => {
        new Worker(__filename, { workerData: [arguments_[0], 'hops'] }).on('exit', resolve).on('error', reject);
    });
}

const MODES = { hops: () => Promise.all([hops(), hops(), hops()]), callbacks, callers, worker };
fs.writeSync(1, 'ready\n');
Promise.all(arguments_.slice(1).map((name) => MODES[name]()));
