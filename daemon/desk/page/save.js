/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Save: what is shown, as files for other tools. They are made here, of the chosen contexts and times;
 * nothing leaves the machine. Of a comparison each has both sides.
 */

/** Nodes with a value of their own, as [stack of frames from the root, value before, value after]. */
function shownStacks(view) {
        const { nodes } = view.model, stacks = [], path = [];
        const own = (totals) => {
                const rest = totals.slice();

                for (let i = 1; i < nodes.n; i++)
                        rest[nodes.parent[i]] -= totals[i];
                return rest;
        };
        const a = own(view.a.nodes), b = view.isDiff ? own(view.b.nodes) : null;

        for (let i = 0; i < nodes.n; i++) {
                path.length = Math.max(0, nodes.depth[i] - 1);
                if (i)
                        path.push(nodes.frame[i]);
                if (a[i] || (b && b[i]))
                        stacks.push([path.slice(), a[i], b ? b[i] : 0]);
        }
        return stacks;
}

/** Lines of `main;serve;hot 12`; of two sides with both values. A `;` and a line's end are the form's own. */
function makeFolded(view) {
        const { frames, strings } = view.model, lines = new Map();

        for (const [stack, a, b] of shownStacks(view)) {
                const line = stack.map((frame) => strings[frames.name[frame]].replace(/[;\n]/g, ":")).join(";")
                        || "[no stack]", sums = lines.get(line) || [0, 0];

                lines.set(line, [sums[0] + a, sums[1] + b]);
        }
        return [...lines].map(([line, [a, b]]) => `${line} ${a}${view.isDiff ? ` ${b}` : ""}\n`).join("");
}

/** The file of https://www.speedscope.app/file-format-schema.json: a sampled profile for each side. */
function makeSpeedscope(view, kind, title) {
        const { frames, strings, meta } = view.model, stacks = shownStacks(view);
        const units = { __proto__: null, nanoseconds: "nanoseconds", bytes: "bytes" };
        const used = new Map(), shared = [];
        const place = (frame) => {
                if (!used.has(frame)) {
                        const file = strings[frames.file[frame]] || strings[frames.object[frame]],
                                made = { name: strings[frames.name[frame]] };

                        if (file)
                                made.file = file;
                        if (frames.line[frame])
                                made.line = frames.line[frame];
                        used.set(frame, shared.push(made) - 1);
                }
                return used.get(frame);
        };
        const profiles = meta.sides.map((side, i) => {
                const own = stacks.filter((row) => row[i + 1]), weights = own.map((row) => row[i + 1]);

                return { type: "sampled", name: view.isDiff ? side.name : kindName(kind),
                        unit: units[kind.unit] || "none", startValue: 0,
                        endValue: weights.reduce((x, y) => x + y, 0),
                        samples: own.map(([stack]) => stack.map(place)), weights };
        });

        return JSON.stringify({ $schema: "https://www.speedscope.app/file-format-schema.json",
                shared: { frames: shared }, profiles, name: title, activeProfileIndex: 0,
                exporter: `spanprof ${meta.version}` });
}

/** Protobuf: fields one behind the other. Numbers are exact up to 2^53. */
class Message {
        constructor() {
                this.bytes = new Uint8Array(1024);
                this.size = 0;
        }

        room(n) {
                if (this.size + n <= this.bytes.length)
                        return;
                const bigger = new Uint8Array(Math.max(2 * this.bytes.length, this.size + n));

                bigger.set(this.bytes.subarray(0, this.size));
                this.bytes = bigger;
        }

        varint(value) {
                this.room(10);
                for (; value >= 128; value = Math.floor(value / 128))
                        this.bytes[this.size++] = (value % 128) | 128;
                this.bytes[this.size++] = value;
        }

        number(field, value) {
                if (value) {
                        this.varint(field * 8);
                        this.varint(value);
                }
                return this;
        }

        data(field, bytes) {
                this.varint(field * 8 + 2);
                this.varint(bytes.length);
                this.room(bytes.length);
                this.bytes.set(bytes, this.size);
                this.size += bytes.length;
                return this;
        }

        get filled() {
                return this.bytes.subarray(0, this.size);
        }

        inner(field, message) {
                return this.data(field, message.filled);
        }

        /** The fields of another one, behind ours. */
        join(message) {
                this.room(message.size);
                this.bytes.set(message.filled, this.size);
                this.size += message.size;
                return this;
        }

        packed(field, values) {
                const list = new Message();

                for (const value of values)
                        list.varint(value);
                return this.inner(field, list);
        }
}

/** profile.proto (pprof), not packed yet: a value type for each side, a location and a function a frame. */
function makePprof(view, kind) {
        const { frames, strings, meta } = view.model, profile = new Message(), side = meta.sides[0];
        const texts = new Map([["", 0]]), locations = new Map(), mappings = new Map(), tables = new Message();
        const text = (value) => {
                if (!texts.has(value))
                        texts.set(value, texts.size);
                return texts.get(value);
        };
        const type = (name, unit) => new Message().number(1, text(name)).number(2, text(unit));
        const mapping = (object) => {
                if (!object)
                        return 0;
                if (!mappings.has(object)) {
                        mappings.set(object, mappings.size + 1);
                        tables.inner(3, new Message().number(1, mappings.size).number(5, text(object))
                                .number(7, 1));
                }
                return mappings.get(object);
        };
        const location = (frame) => {
                if (!locations.has(frame)) {
                        const id = locations.size + 1, name = text(strings[frames.name[frame]]);

                        locations.set(frame, id);
                        tables.inner(5, new Message().number(1, id).number(2, name).number(3, name)
                                .number(4, text(strings[frames.file[frame]])));
                        tables.inner(4, new Message().number(1, id)
                                .number(2, mapping(strings[frames.object[frame]]))
                                .inner(4, new Message().number(1, id).number(2, frames.line[frame])));
                }
                return locations.get(frame);
        };

        for (const { name } of meta.sides)
                profile.inner(1, type(view.isDiff ? name : kind.type || "samples", kind.unit));
        for (const [stack, a, b] of shownStacks(view))
                profile.inner(2, new Message().packed(1, stack.map(location).reverse())
                        .packed(2, view.isDiff ? [a, b] : [a]));
        profile.join(tables);
        for (const value of texts.keys())
                profile.data(6, new TextEncoder().encode(value));
        profile.number(9, Number(side.startNs || 0)).number(10, side.recordedNs || side.lengthNs || 0);
        return profile.filled;
}

async function pack(bytes) {
        const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));

        return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** What each choice of the menu makes: [words, ending of the file, what to do with it, how it is made]. */
const SAVED_FORMS = [
        ["pprof", ".pb.gz", "go tool pprof -http=: FILE, and what else reads pprof",
                (view, kind) => pack(makePprof(view, kind))],
        ["speedscope", ".speedscope.json", "https://www.speedscope.app takes it by Browse",
                (view, kind, title) => makeSpeedscope(view, kind, title)],
        ["Folded stacks", ".folded", "flamegraph.pl FILE, inferno, and scripts", (view) => makeFolded(view)],
];

/** Hands a file to the browser, as a download. */
function offer(data, name) {
        const link = document.createElement("a");

        link.href = URL.createObjectURL(new Blob([data]));
        link.download = name;
        document.body.append(link);
        link.click();
        link.remove();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

if (typeof module !== "undefined")
        Object.assign(module.exports, { makeFolded, makeSpeedscope, makePprof });
