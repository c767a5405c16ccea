// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * Looks, at each place where Node changes what is current, whether the record is OpenTelemetry's current
 * span. Prints `N looks`; exits with 1 and a line for each that is wrong.
 */
const { AsyncLocalStorage, AsyncResource } = require('node:async_hooks');
const dns = require('node:dns');
const { EventEmitter, once } = require('node:events');
const fs = require('node:fs');
const http = require('node:http');
const { pipeline } = require('node:stream/promises');
const { setImmediate: immediate, setTimeout: sleep } = require('node:timers/promises');
const { MessageChannel } = require('node:worker_threads');
const zlib = require('node:zlib');
const { ROOT_CONTEXT, TraceFlags, context, trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const publisher = require('spanprof-otel');

new NodeTracerProvider().register();
const tracer = trace.getTracer('everywhere');
let looks = 0;

function look(where, span) {
    const ids = span ? `${span.spanContext().traceId} ${span.spanContext().spanId}` : 'none';
    const read = publisher.read()?.join(' ') ?? 'none';
    looks++;
    if (trace.getActiveSpan() !== span && where !== 'remote' && where !== 'odd')
        console.log(`${where}: OpenTelemetry itself has another span`);
    if (read !== ids) {
        console.log(`${where}: the record has ${read}, not ${ids}`);
        process.exitCode = 1;
    }
}

const spans = (name, work) => tracer.startActiveSpan(name, work);
const calling = (where, span, resolve) => () => {
    look(where, span);
    resolve();
};

async function* generated(span) {
    for (let i = 0; i < 3; i++) {
        await sleep(1);
        look('generator', span);
        yield Buffer.alloc(10);
    }
}

async function hops() {
    await spans('a', async (a) => {
        look('with', a);
        spans('b', (b) => look('with, inner', b));
        look('after with', a);
        try {
            spans('c', () => {
                throw new Error('thrown');
            });
        } catch {
            look('after an exception', a);
        }
        await new Promise((resolve) => process.nextTick(calling('tick', a, resolve)));
        await new Promise((resolve) => queueMicrotask(calling('microtask', a, resolve)));
        await new Promise((resolve) => setTimeout(calling('timeout', a, resolve), 1));
        await new Promise((resolve) => setImmediate(calling('immediate', a, resolve)));
        await new Promise((resolve) => fs.stat('/', calling('file', a, resolve)));
        await new Promise((resolve) => dns.lookup('127.0.0.1', calling('dns', a, resolve)));
        await new Promise((resolve) => zlib.gzip('text', calling('zlib', a, resolve)));
        look('await', a);
        await { then: (resolve) => setImmediate(resolve) };
        look('thenable', a);
        await Promise.reject(new Error('rejected')).catch(() => look('catch', a)).finally(() => look('finally', a));
        const interval = setInterval(() => look('interval', a), 1);
        await sleep(5);
        clearInterval(interval);
        for await (const chunk of generated(a))
            look('for await', chunk && a);
        await pipeline(generated(a), zlib.createGzip(), async (stream) => {
            for await (const chunk of stream)
                look('pipeline', chunk && a);
        });
    });
    look('after all', undefined);
}

async function bound() {
    const outside = new AsyncResource('outside'), emitter = new EventEmitter();
    await spans('bound', async (span) => {
        const run = context.bind(context.active(), () => look('bind', span));
        context.with(ROOT_CONTEXT, () => {
            look('root', undefined);
            run();
            look('after bind', undefined);
        });
        outside.runInAsyncScope(() => {
            look('runInAsyncScope', undefined);
            spans('inner', (inner) => look('span in it', inner));
            look('span in it is over', undefined);
        });
        look('after runInAsyncScope', span);
        context.bind(context.active(), emitter).on('event', () => look('emitter', span));
        outside.runInAsyncScope(() => emitter.emit('event'));
        const snapshot = AsyncLocalStorage.bind?.(() => look('AsyncLocalStorage.bind', span));
        if (snapshot)
            outside.runInAsyncScope(snapshot);
        const { port1, port2 } = new MessageChannel();
        port2.postMessage('x');
        await once(port1, 'message');
        look('message', span);
        port1.close();
    });
}

async function service() {
    const server = http.createServer((request, response) => spans('server', async (span) => {
        await sleep(1);
        look('server', span);
        response.end('hello');
        span.end();
    }));
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${server.address().port}`;
    await Promise.all([1, 2, 3, 4].map(() => spans('client', async (span) => {
        const response = await new Promise((resolve) => http.get(url, resolve));
        look('response', span);
        response.resume();
        await once(response, 'end');
        look('end of the response', span);
    })));
    await new Promise((resolve) => server.close(resolve));
}

function others() {
    const ids = { traceId: 'a1'.padEnd(32, '0'), spanId: 'B3'.padEnd(16, '0'), traceFlags: TraceFlags.NONE };
    const here = trace.wrapSpanContext(ids);
    context.with(trace.setSpan(ROOT_CONTEXT, here), () => {
        const read = publisher.read();
        if (read[0] !== ids.traceId || read[1] !== ids.spanId.toLowerCase())
            throw new Error(`${read}`);
    });
    const remote = trace.wrapSpanContext({ ...ids, isRemote: true });
    context.with(trace.setSpan(ROOT_CONTEXT, remote), () => look('remote', undefined));
    for (const odd of [{}, { spanContext: () => ({ ...ids, traceId: 'x'.repeat(32) }) },
        { spanContext: () => ({ ...ids, spanId: 7 }) }])
        context.with(trace.setSpan(ROOT_CONTEXT, odd), () => look('odd', undefined));
    if (publisher.failures() !== 3)
        throw new Error(`${publisher.failures()} failures`);
}

async function main() {
    await Promise.all([hops(), hops(), bound(), service()]);
    await immediate();
    look('idle', undefined);
    others();
    context.disable();
    new NodeTracerProvider().register();        // another manager, in the place of the first
    await hops();
    console.log(`${looks} looks`);
}

main();
