// SPDX-License-Identifier: Apache-2.0
// Callers that lose their optimised code while what they have called computes, for test-run-node.py. They
// return to an exit behind their code.
//
// usage: node --allow-natives-syntax victim-lost.js       prints `ready`, runs until it is killed
'use strict';
// not in this file's text, which is read without the flag, too
const names = ['DeoptimizeFunction', 'PrepareFunctionForOptimization', 'OptimizeFunctionOnNextCall'];
const [lose, prepare, optimise] = names.map((name) => new Function('f', `%${name}(f);`));

function burn(seed) {
    let total = seed;
    for (let i = 0; i < 400000; i++)
        total = (total * 31 + i) & 0xffff;
    return total;
}

function decides(f, is_last) {
    if (!is_last)
        return 1;
    lose(f);
    return burn(2);
}

function inner(is_last, n) {
    return n + 1 +
        decides(outer, is_last);
}

function outer(is_last) {
    let total = 3;
    total += inner(is_last,
        total);
    return total + 1;
}

function main() {
    console.log('ready');
    for (;;) {
        prepare(outer);
        outer(false);
        outer(false);
        optimise(outer);
        outer(true);
    }
}

main();
