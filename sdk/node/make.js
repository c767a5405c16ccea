// SPDX-License-Identifier: Apache-2.0
'use strict';
/*
 * Builds the Addon
 *
 *     node make.js            record.node beside this file; CC and CFLAGS as usual. None where prebuilds/
 *                             has one that Node can load, unless npm_config_build_from_source is set
 *     node make.js prebuild ARCH  prebuilds/linux-ARCH/record.node, by a CC that compiles for it
 *     node make.js sources    copies the sources of the SDK's writer to sdk/, for a package to be packed;
 *                             in a package they lie there already
 *     node make.js clean      removes that copy
 *
 * One C compiler is all that it takes: node-api-headers has the headers, and Node's C interface is the same
 * for all releases. So a file that one Node has built serves the others.
 */
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const SOURCES = ['src/name.c', 'src/otel.c', 'src/backend.h', 'include/spanprof/context.h', 'include/spanprof/otel.h',
    'include/spanprof/process.h', 'include/spanprof/thread.h'];
const CLONE = path.join(__dirname, '..');
const COPY = path.join(__dirname, 'sdk');

function isInClone() {
    return fs.existsSync(path.join(CLONE, 'src/otel.c'));
}

function copySources() {
    if (!isInClone())
        return;
    for (const name of SOURCES) {
        fs.mkdirSync(path.dirname(path.join(COPY, name)), { recursive: true });
        fs.copyFileSync(path.join(CLONE, name), path.join(COPY, name));
    }
}

function removeSources() {
    if (isInClone())
        fs.rmSync(COPY, { recursive: true, force: true });
}

function words(text) {
    return (text || '').split(/\s+/).filter(Boolean);
}

function hasPrebuilt() {
    if (process.env.npm_config_build_from_source)
        return false;
    try {
        require(`./prebuilds/linux-${process.arch}/record.node`);
        return true;
    } catch {
        return false;
    }
}

/* `npm install FOLDER` links a folder that is outside of the service, and leaves its dependencies to it. */
function includeFolder() {
    try {
        return require('node-api-headers').include_dir;
    } catch {
        const done = spawnSync('npm', ['install', '--ignore-scripts', '--omit=peer', '--no-package-lock',
            '--no-audit', '--no-fund'], { cwd: __dirname, stdio: ['ignore', 'ignore', 'inherit'] });

        if (done.status !== 0) {
            console.error('spanprof-otel: npm has no node-api-headers, which the addon is compiled with');
            process.exit(1);
        }
        return require('node-api-headers').include_dir;
    }
}

function build(output) {
    const sdk = isInClone() ? CLONE : COPY;
    const [compiler, ...more] = words(process.env.CC || 'cc');
    const done = spawnSync(compiler, [...more, '-std=gnu11', '-O2', '-Wall', '-fPIC', '-shared', '-pthread',
        '-fvisibility=hidden', '-Wl,-z,nodelete', ...words(process.env.CFLAGS),
        '-I', includeFolder(), '-I', path.join(sdk, 'include'), '-I', path.join(sdk, 'src'),
        '-o', output, path.join(__dirname, 'record.c'), path.join(sdk, 'src/name.c'), path.join(sdk, 'src/otel.c')],
    { stdio: 'inherit' });
    if (done.error)
        console.error(`spanprof-otel: no C compiler (${done.error.message}): install gcc, or set CC`);
    return done.status ?? 1;
}

function prebuild(arch) {
    if (!/^[a-z0-9]+$/.test(arch || '')) {
        console.error('make.js: prebuild ARCH: of which processor, as process.arch names it (x64, arm64)?');
        return 2;
    }
    const folder = path.join(__dirname, 'prebuilds', `linux-${arch}`);
    fs.mkdirSync(folder, { recursive: true });
    return build(path.join(folder, 'record.node'));
}

if (process.argv[2] === 'sources')
    copySources();
else if (process.argv[2] === 'clean')
    removeSources();
else if (process.argv[2] === 'prebuild')
    process.exitCode = prebuild(process.argv[3]);
else if (!hasPrebuilt())
    process.exitCode = build(path.join(__dirname, 'record.node'));
