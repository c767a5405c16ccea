// SPDX-License-Identifier: Apache-2.0
// JavaScript that calls native code, and is called by it, for test-run-node.py: an addon (addon.c), Node's
// crypto and zlib in this thread, and crypto in libuv's threads.
//
// usage: node victim-joins.js ADDON     prints `ready`, runs until it is killed
'use strict';
const crypto = require('crypto');
const zlib = require('zlib');
const addon = require(process.argv[2]);
const data = Buffer.alloc(1 << 18, (1 << 20).toString().repeat(7));

function back(n) {
    let total = n;
    for (let i = 0; i < 300000; i++)
        total = (total * 31 + i) & 0xffff;
    return total;
}

function derives() { return crypto.pbkdf2Sync('a', 'b', 3000, 32, 'sha512'); }

function packs() { return zlib.deflateSync(data, { level: 9 }); }

function spins() { return addon.spins(2000000); }

function calls() { return addon.calls(back, 7); }

function again() { crypto.pbkdf2('a', 'b', 30000, 32, 'sha512', again); }

function turn() {
    derives();
    packs();
    spins();
    calls();
    setImmediate(turn);
}

console.log('ready');
again();
turn();
