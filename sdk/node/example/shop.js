// SPDX-License-Identifier: Apache-2.0
'use strict';
// A service with two operations, checkout (three quarters of its time) and search, for ten seconds. It prints
// what a profile of it should show, and knows nothing of spanprof-otel.
const { createHash } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { trace } = require('@opentelemetry/api');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider().register();
const tracer = trace.getTracer('shop');
const spent = { checkout: 0, search: 0 };

function hashReceipt(rounds) {
    let value = 'receipt';
    for (let i = 0; i < rounds; i++)
        value = createHash('sha256').update(value).digest('hex');
}

function operation(name, rounds) {
    return tracer.startActiveSpan(name, async (span) => {
        for (let i = 0; i < 3; i++) {
            const begin = performance.now();
            hashReceipt(rounds);
            spent[name] += performance.now() - begin;
            await sleep(1);     // the other one runs here
        }
        span.end();
    });
}

async function main() {
    for (const end = performance.now() + 10000; performance.now() < end;)
        await Promise.all([operation('checkout', 3000), operation('search', 1000)]);
    const all = spent.checkout + spent.search;
    for (const [name, ms] of Object.entries(spent))
        console.log(`${name}: ${Math.round(100 * ms / all)} %`);
}

main();
