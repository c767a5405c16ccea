// SPDX-License-Identifier: Apache-2.0
// JavaScript that computes in known chains of calls, one after the other, for test-run-node.py. Each chain
// begins in its own function and ends in `burn`. Runs on Node 18 and newer.
//
// usage: node victim-node.js [--workers] [CHAIN…]
//                                         prints `ready`, runs until it is killed; without a name, all chains;
//                                         --workers: in two threads more, each with an isolate of its own
//        node victim-node.js --print      V8's own word on each chain, by its structured stack, as JSON:
//                                         {chain: [[function or null, line], …]}, the outermost first
'use strict';
const { Worker } = require('worker_threads');
const ROUNDS = 40000;
const FOREVER = !process.argv.includes('--print');
let seen = null;

function own(error, sites) {
    return sites.filter((site) => site.getFileName() === __filename)
        .map((site) => [site.getFunctionName(), site.getLineNumber()]);
}

function look() {
    const before = Error.prepareStackTrace;
    const limit = Error.stackTraceLimit;
    Error.prepareStackTrace = own;
    Error.stackTraceLimit = 200;
    const stack = {};
    Error.captureStackTrace(stack, look);
    seen = stack.stack.reverse();
    Error.prepareStackTrace = before;
    Error.stackTraceLimit = limit;
}

function burn(seed) {
    let total = seed;
    if (!FOREVER)
        look();
    for (let i = 0; i < ROUNDS; i++)
        total = (total * 31 + i) & 0xffff;
    return total;
}

function deepA(depth) {
    return depth ? deepB(depth - 1) + 1 : burn(1);
}

function deepB(depth) {
    return depth ? deepC(depth - 1) + 2 : burn(2);
}

function deepC(depth) {
    if (depth)
        return deepA(depth - 1) + 3;
    return burn(3);
}

class Shape {
    get area() {
        return this.side() * 2;
    }

    side() {
        return burn(4);
    }

    static total(shape) {
        return shape.area +
            1;
    }
}

class Square extends Shape {
    constructor() {
        super();
        this.size = Shape.total(this);
    }
}

const holder = { inner: {} };
holder.inner.deepest = function () {
    return burn(5);
};

function* yielding() {
    yield burn(6);
}

function tagged(text) {
    return text.replace(/b/, (found) => burn(found.length));
}

/* (import "m" "burn"); through(n) { return burn(n); } */
const bytes = Buffer.from('0061736d0100000001060160017f017f020a01016d046275726e0000030201' +
    '00070b01077468726f75676800010a08010600200010000b', 'hex');
// without code made at run time there is no WebAssembly
const { through } = typeof WebAssembly === 'undefined' ? { through: burn }
    : new WebAssembly.Instance(new WebAssembly.Module(bytes), { m: { burn } }).exports;

const made = new Function('burn', 'return function naïve() { return burn(8); }')(burn);

function überlang(a) { return burn(a); }

const chains = {
    deep() { return deepA(30); },
    shapes() { return new Square().size; },
    sort() {
        return [3, 1].sort((a, b) => {
            return burn(a) - b;
        });
    },
    mapped() { return [1].map((x) => burn(x)); },
    reduced() { return [1, 2].reduce(function add(a, b) { return burn(a) + b; }); },
    inferred() { return holder.inner.deepest(); },
    json() { return JSON.stringify({ toJSON() { return burn(7); } }); },
    regexp() { return tagged('abc'); },
    generators() { return [...yielding()]; },
    reflect() { return Reflect.apply(burn, null, [9]); },
    proxy() { return new Proxy({}, { get(target, name) { return burn(name.length); } }).some; },
    fresh() { return made(); },
    letters() { return überlang(3); },
    wasm() { return through(10); },
    closures() {
        const maker = (n) => () => {
            const kept = [n];
            return burn(kept[0]);
        };
        return maker(1)();
    },
    lines() {
        return Math.max(
            1,
            burn(2),
        );
    },
    caught() {
        try {
            throw new Error('x');
        } catch (error) {
            return burn(error.message.length);
        } finally {
            holder.last = 1;
        }
    },
};

function print() {
    const all = {};
    for (const [name, chain] of Object.entries(chains)) {
        chain();
        all[name] = seen;
    }
    console.log(JSON.stringify(all));
}

function main(names) {
    console.log('ready');
    for (;;)
        for (const name of names)
            chains[name]();
}

function begin(words) {
    const chosen = words.filter((word) => word !== '--workers');
    const names = chosen.length ? chosen : Object.keys(chains);
    let awaited = words.length > chosen.length ? 2 : 0;
    if (!awaited)
        main(names);
    // A worker is made by this thread's loop, which `main` never goes back to.
    for (let i = awaited; i; i--)
        new Worker(__filename, { argv: names }).once('online', () => --awaited || main(names));
}

if (!FOREVER)
    print();
else
    begin(process.argv.slice(2));
