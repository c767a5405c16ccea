// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * A shop of Express with OpenTelemetry's instrumentations. It says `listens PORT`, and at the end of standard
 * input what each route has used: `used ROUTE MICROSECONDS`.
 */
const { registerInstrumentations } = require('@opentelemetry/instrumentation');
const { ExpressInstrumentation } = require('@opentelemetry/instrumentation-express');
const { HttpInstrumentation } = require('@opentelemetry/instrumentation-http');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

new NodeTracerProvider({ resource: resourceFromAttributes({ 'service.name': 'shop' }) }).register();
registerInstrumentations({ instrumentations: [new HttpInstrumentation(), new ExpressInstrumentation()] });

const express = require('express');
const used = {};

/* Uses the CPU for some milliseconds of its own time. */
function work(route, milliseconds) {
    const start = process.cpuUsage();
    let passed = 0;
    while (passed < milliseconds * 1000) {
        for (let i = 0; i < 10000; i++)
            passed += Math.sqrt(i) * 0;
        const { user, system } = process.cpuUsage(start);
        passed = user + system;
    }
    used[route] = (used[route] ?? 0) + passed;
}

const app = express();
app.get('/cart/:id', (request, response) => {
    work('/cart/:id', 30);
    response.send(request.params.id);
});
app.get('/search', (request, response) => {
    work('/search', 10);
    response.send('none');
});
const server = app.listen(0, '127.0.0.1', () => console.log('listens', server.address().port));
process.stdin.resume().on('end', () => {
    for (const route in used)
        console.log('used', route, Math.round(used[route]));
    process.exit();
});
