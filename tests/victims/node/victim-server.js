// SPDX-License-Identifier: Apache-2.0
// A service on express or fastify, for test-long-node-programs.py: routes with parameters, a hook, bodies of
// JSON, a list that is filtered and rendered.
//
// usage: node victim-server.js NODE-MODULES express|fastify
//                                         prints `listening PORT`, and ends by SIGTERM
'use strict';
const path = require('path');
const [modules, framework] = process.argv.slice(2);
const items = Array.from({ length: 400 }, (_, id) => ({ id, name: `item ${id}`, price: id * 7 % 113 }));

function chosen(limit) {
    return items.filter((item) => item.price < limit).map(({ id, name, price }) => ({ id, name, price }))
        .sort((a, b) => a.price - b.price);
}

function page(rows) {
    let text = '<ul>';
    for (const row of rows)
        text += `<li>${row.id}: ${row.name.toUpperCase()} (${row.price.toFixed(2)})</li>`;
    return text + '</ul>';
}

function tell(server) {
    console.log(`listening ${server.address().port}`);
    process.on('SIGTERM', () => process.exit(0));
}

function onExpress(express) {
    const app = express();
    app.use(express.json());
    app.use((request, response, next) => {
        response.set('x-begin', String(Date.now()));
        next();
    });
    app.get('/items/:limit', (request, response) => {
        response.json(chosen(Number(request.params.limit)));
    });
    app.get('/page/:limit', (request, response) => {
        response.type('html').send(page(chosen(Number(request.params.limit))));
    });
    const server = app.listen(0, '127.0.0.1', () => tell(server));
}

function onFastify(fastify) {
    const app = fastify();
    app.addHook('onRequest', async (request, reply) => {
        reply.header('x-begin', String(Date.now()));
    });
    app.get('/items/:limit', async (request) => chosen(Number(request.params.limit)));
    app.get('/page/:limit', async (request, reply) => {
        reply.type('text/html');
        return page(chosen(Number(request.params.limit)));
    });
    app.listen({ port: 0, host: '127.0.0.1' }).then(() => tell(app.server));
}

const library = require(path.join(modules, framework));
if (framework === 'express')
    onExpress(library);
else
    onFastify(library);
