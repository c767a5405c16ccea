// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * Spans whose names change; prints what the thread publishes at each step: `STEP {"index of the key": value}`.
 */
const { setTimeout: sleep } = require('node:timers/promises');
const { ROOT_CONTEXT, context, trace } = require('@opentelemetry/api');
const { RPCType, getRPCMetadata, setRPCMetadata } = require('@opentelemetry/core');
const { AlwaysOffSampler, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const publisher = require('spanprof-otel');

new NodeTracerProvider().register();
const tracer = trace.getTracer('names');

function look(step) {
    const bytes = publisher.readAttributes(), found = {};
    if (bytes === null)
        return console.log(step, null);
    for (let at = 0; at < bytes.length; at += 2 + bytes[at + 1])
        found[bytes[at]] = bytes.toString('utf8', at + 2, at + 2 + bytes[at + 1]);
    console.log(step, JSON.stringify(found));
}

async function service() {
    await tracer.startActiveSpan('GET', async (entry) => {
        look('entry');
        tracer.startActiveSpan('query', (inner) => {
            look('inner');
            inner.updateName('other query');
            inner.setAttribute('http.route', '/inner');
            look('inner-renamed');
            entry.setAttributes({ 'http.route': '/cart/:id', x: 1 });
            look('route');
        });
        entry.updateName('cart');
        look('renamed');
        await sleep(1);
        look('after-await');
        tracer.startActiveSpan('job', { root: true }, () => look('new-root'));
    });
    look('none');
}

/* As the instrumentations of HTTP and of express do it: one has a span, the other tells it the route. */
function framework() {
    const span = tracer.startSpan('GET', {}, ROOT_CONTEXT), metadata = { type: RPCType.HTTP, span };
    context.with(setRPCMetadata(trace.setSpan(ROOT_CONTEXT, span), metadata), () => {
        look('before-express');
        getRPCMetadata(context.active()).route = '/cart/:id';
        look('express');
    });
}

function parents() {
    const ids = { traceId: 'a1'.repeat(16), spanId: 'b2'.repeat(8), traceFlags: 1 };
    const under = (isRemote) => trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({ ...ids, isRemote }));
    tracer.startActiveSpan('order', { attributes: { 'http.route': '/order' } }, under(true), () => look('remote-parent'));
    tracer.startActiveSpan('of nobody', {}, under(false), () => look('unknown-parent'));
    const unsampled = new NodeTracerProvider({ sampler: new AlwaysOffSampler() }).getTracer('names');
    unsampled.startActiveSpan('not sampled', () => unsampled.startActiveSpan('below', () => look('unsampled')));
}

service().then(() => {
    framework();
    parents();
    tracer.startActiveSpan('\u20ac'.repeat(100), () => look('long'));
    for (let i = 0; i < 1100; i++)
        tracer.startActiveSpan(`name ${i}`, (span) => span.end());
    tracer.startActiveSpan('one more', () => look('too-many'));
    console.log('refused', publisher.namesRefused() > 0, 'failures', publisher.failures());
});
