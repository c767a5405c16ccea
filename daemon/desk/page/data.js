/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Data: from the packed block of the page to typed arrays. The format is described in page-encode.c.
 *
 * Nothing here touches the document, so that it runs in node, too.
 */

/** Reads numbers and bytes one behind the other. Numbers are exact up to 2^53. */
class Reader {
        constructor(bytes) {
                this.bytes = bytes;
                this.at = 0;
        }

        number() {
                const bytes = this.bytes;
                let value = 0, scale = 1;

                for (;;) {
                        const byte = bytes[this.at++];

                        if (byte === undefined)
                                throw new Error("the data of this page is cut off");
                        value += (byte & 0x7f) * scale;
                        if (byte < 0x80)
                                return value;
                        scale *= 128;
                }
        }

        /** n numbers. Most are one byte long. */
        column(n, to = new Uint32Array(n)) {
                const bytes = this.bytes;

                for (let i = 0; i < n; i++) {
                        const byte = bytes[this.at];

                        if (byte < 0x80) {
                                to[i] = byte;
                                this.at++;
                        } else
                                to[i] = this.number();
                }
                return to;
        }

        take(size) {
                this.at += size;
                return this.bytes.subarray(this.at - size, this.at);
        }

        text(size) {
                return new TextDecoder().decode(this.take(size));
        }
}

/** base64 of gzip → bytes. */
async function unpack(base64) {
        const packed = atob(base64.trim()), bytes = new Uint8Array(packed.length);

        for (let i = 0; i < packed.length; i++)
                bytes[i] = packed.charCodeAt(i);
        const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));

        return new Uint8Array(await new Response(stream).arrayBuffer());
}

function readStrings(reader) {
        const n = reader.number(), strings = reader.text(reader.number()).split("\0");

        strings.length = n;             /* behind the last NUL is nothing */
        return strings;
}

function readFrames(reader) {
        const n = reader.number();

        return { n, name: reader.column(n), object: reader.column(n), file: reader.column(n),
                type: reader.column(n),
                 line: reader.column(n), inlined: reader.column(n, new Uint8Array(n)) };
}

/** The frame of each node but the root: which one of the callees of its parent's frame. */
function readCallees(reader, parent, frame) {
        const n = frame.length - 1, which = reader.column(n), fresh = reader.column(reader.number()),
                callees = [];
        let at = 0;

        for (let i = 1; i <= n; i++) {
                const caller = parent[i] ? frame[parent[i]] + 1 : 0, seen = (callees[caller] ||= []);

                if (!which[i - 1])
                        seen.push(fresh[at++]);
                frame[i] = seen[which[i - 1] ? which[i - 1] - 1 : seen.length - 1];
        }
}

/**
 * Nodes are numbered in the order of a walk: the descendants of i are i + 1 … end[i] - 1, and its children
 * are found by going from i + 1 to end[i + 1] and so on.
 */
function readNodes(reader) {
        const n = reader.number() + 1;
        const parent = new Uint32Array(n), depth = new Uint32Array(n), end = new Uint32Array(n),
                frame = new Uint32Array(n);
        const path = [0];               /* of the node before, by depth */

        for (let i = 1; i < n; i++) {
                const at = depth[i - 1] - reader.number();

                parent[i] = path[at];
                depth[i] = at + 1;
                path[at + 1] = i;
        }
        readCallees(reader, parent, frame);
        for (let i = n; i-- > 0;) {
                end[i] = Math.max(end[i], i + 1);
                if (i)
                        end[parent[i]] = Math.max(end[parent[i]], end[i]);
        }
        return { n, parent, depth, end, frame };
}

/** Which nodes have no ancestor of the same function: what a function takes in all is the sum of these. */
function findOuter(nodes, n_frames) {
        const outer = new Uint8Array(nodes.n), open = new Uint32Array(n_frames), path = [];

        for (let i = 1; i < nodes.n; i++) {
                while (path.length >= nodes.depth[i])
                        open[path.pop()]--;
                outer[i] = open[nodes.frame[i]] ? 0 : 1;
                open[nodes.frame[i]]++;
                path.push(nodes.frame[i]);
        }
        return outer;
}

function readDimension(reader, key) {
        const n = reader.number();

        return key === "span" ? { key, n, ids: reader.take((n - 2) * 24) }
                : { key, n, labels: reader.column(n) };
}

function readContexts(reader, n_dimensions) {
        const n = reader.number(), kind = reader.column(n), side = reader.column(n), first = reader.column(n),
                values = [];

        for (let i = 0; i < n_dimensions; i++)
                values.push(reader.column(n));
        return { n, kind, side, first, values };
}

/** Lines of paths: the line of a step and, by number, those of the steps outside of it. */
function readLines(reader) {
        const n = reader.number() + 1, outer = new Uint32Array(n), line = new Uint32Array(n),
                depth = new Uint32Array(n);

        for (let i = 1; i < n; i++) {
                outer[i] = i - 1 - reader.number();
                depth[i] = depth[outer[i]] + 1;
        }
        reader.column(n - 1, line.subarray(1));
        return { n, outer, line, depth };
}

function readRows(reader, contexts, n_lines) {
        const n = reader.number();
        const node = reader.column(n), context = reader.column(n), bucket = reader.column(n);
        const value = reader.column(n, new Float64Array(n));
        const lines = n_lines > 1 ? reader.column(n) : null;

        for (let i = 1; i < n; i++) {
                if (node[i] === 0) {
                        if (context[i] === 0)
                                bucket[i] += bucket[i - 1];
                        context[i] += context[i - 1];
                }
                node[i] += node[i - 1];
        }
        for (let i = 0; i < n; i++)
                if (bucket[i])
                        bucket[i] += contexts.first[context[i]] - 1;
        return { n, node, context, bucket, value, lines };
}

function readModel(bytes) {
        const reader = new Reader(bytes);

        if (reader.text(16) !== "spanprof page 2\n")
                throw new Error("the data of this page is of another version");
        const meta = JSON.parse(reader.text(reader.number()));
        const strings = readStrings(reader), frames = readFrames(reader), nodes = readNodes(reader);
        const dimensions = meta.dimensions.map((key) => readDimension(reader, key));
        const contexts = readContexts(reader, dimensions.length), lines = readLines(reader);
        const rows = readRows(reader, contexts, lines.n);

        nodes.outer = findOuter(nodes, frames.n);
        return { meta, strings, frames, nodes, dimensions, contexts, lines, rows };
}

if (typeof module !== "undefined")
        module.exports = { unpack, readModel };
