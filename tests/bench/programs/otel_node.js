// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * What an activation costs, with and without sdk/node: with() of a context with a span, in one that has
 * another span, and an await inside of a span. Prints the lowest of many turns, in ns; and private memory.
 *
 *     node make.js in sdk/node first; NODE_PATH has @opentelemetry/api and context-async-hooks:
 *     NODE_PATH=build/publishers/otel-node/node_modules node tests/bench/programs/otel_node.js
 */
const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { ROOT_CONTEXT, context, trace } = require('@opentelemetry/api');
const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');

const TURNS = 500, STEPS = 3000;

const span = (n) => trace.setSpan(ROOT_CONTEXT, trace.wrapSpanContext({
    traceId: n.toString(16).padStart(32, '5'), spanId: n.toString(16).padStart(16, '3'), traceFlags: 1 }));

async function lowest(turn) {
    let best = Infinity;
    for (let i = 0; i < TURNS; i++) {
        const begin = process.hrtime.bigint();
        await turn();
        best = Math.min(best, Number(process.hrtime.bigint() - begin) / STEPS);
    }
    return best;
}

function privateKib() {
    const sizes = fs.readFileSync('/proc/self/smaps_rollup', 'latin1').matchAll(/^Private_\w+:\s+(\d+)/gm);
    return [...sizes].reduce((sum, [, size]) => sum + Number(size), 0);
}

/* Before anything runs: later a heap of JavaScript has the size of its garbage. */
async function measureMemory(publishes) {
    if (publishes)
        require(path.join(__dirname, '../../../sdk/node')).start();
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    context.with(span(99), () => global.gc());
    console.log(privateKib());
}

async function measure(publishes) {
    if (publishes && !require(path.join(__dirname, '../../../sdk/node')).start())
        process.exit(1);
    context.setGlobalContextManager(new AsyncLocalStorageContextManager());
    const contexts = Array.from({ length: 64 }, (_, n) => span(n + 1));
    let sum = 0;
    const work = () => sum++;
    const result = await context.with(span(99), async () => ({
        with: await lowest(() => {
            for (let i = 0; i < STEPS; i++)
                context.with(contexts[i & 63], work);
        }),
        await: await lowest(async () => {
            for (let i = 0; i < STEPS; i++)
                await null;
        }),
    }));
    console.log(JSON.stringify(result));
    return sum;
}

if (process.argv[3] === 'memory') {
    measureMemory(process.argv[2] === 'with');
} else if (process.argv[2]) {
    measure(process.argv[2] === 'with');
} else {
    const run = (mode) => JSON.parse(execFileSync(process.execPath, [__filename, mode]));
    const without = run('without'), published = run('with');
    const memory = (mode) => Math.min(...Array.from({ length: 9 },
        () => Number(execFileSync(process.execPath, ['--expose-gc', __filename, mode, 'memory']))));
    console.log(`${process.version} memory: ${memory('with') - memory('without')} KiB more`);
    for (const name of ['with', 'await'])
        console.log(`${process.version} ${name}: ${without[name].toFixed(0)} ns without, ` +
            `${published[name].toFixed(0)} with, ${(published[name] - without[name]).toFixed(0)} more`);
}
