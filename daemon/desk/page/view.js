/* SPDX-License-Identifier: Apache-2.0 */

/*
 * View: what of the data is looked at, and the sums of that.
 *
 * Rows come sorted by node, and a node's descendants are a range of numbers; so the total of any node, for
 * any choice of contexts and times, is the difference of two prefix sums, found by two binary searches. To
 * group by thread, say, the chosen rows are sorted by thread first (which keeps the order of nodes), and the
 * same holds within each thread's part. Nothing is computed for nodes that nobody sees.
 *
 * A box is a node of what is drawn: { parent, frame, label, depth, a, b, … }. Children are made when they are
 * asked for. a and b are the values of the two sides; without a comparison b is 0.
 */

/** First index in [low, high) of the sorted array whose element is not less than value. */
function lowerBound(array, value, low, high) {
        while (low < high) {
                const middle = (low + high) >>> 1;

                if (array[middle] < value)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

class View {
        constructor(model) {
                this.model = model;
                this.ends = new Map(model.meta.ends);
                this.isDiff = model.meta.sides.length > 1;
                this.lined = this.findLined();
                this.reset();
        }

        reset() {
                this.kind = this.model.meta.mainKind;
                this.filters = new Map();       /* number of a dimension → value */
                this.from = 0;                  /* buckets from … to, without the last; 0 and 0 = all times */
                this.to = 0;
                this.group = -1;                /* number of a dimension */
                this.callers = false;
                this.bySize = true;
                this.width = "both";            /* of two sides: whose shares boxes are as wide as */
        }

        /** Which contexts count; the filter of one dimension may be left out. kind: -1 = all kinds. */
        chooseContexts(except = -1, kind = this.kind) {
                const contexts = this.model.contexts, chosen = new Uint8Array(contexts.n);

                for (let i = 0; i < contexts.n; i++)
                        chosen[i] = kind < 0 || contexts.kind[i] === kind ? 1 : 0;
                for (const [dimension, value] of this.filters) {
                        const values = contexts.values[dimension];

                        for (let i = 0; dimension !== except && i < contexts.n; i++)
                                if (values[i] !== value)
                                        chosen[i] = 0;
                }
                return chosen;
        }

        /** Whether a bucket of a row is looked at. Bucket 0 has no time, and counts when all times do. */
        hasTime(bucket) {
                return !this.to || (bucket > this.from && bucket <= this.to);
        }

        /** Makes all sums anew, after a change of kind, filters, times or groups. */
        update() {
                const { rows, contexts, nodes } = this.model;
                const chosen = this.chooseContexts();
                const side = contexts.side, a = new Float64Array(nodes.n), b = this.isDiff
                        ? new Float64Array(nodes.n) : a;
                const picked = new Uint32Array(rows.n);
                let n = 0;

                for (let i = 0; i < rows.n; i++) {
                        const context = rows.context[i];

                        if (!chosen[context] || !this.hasTime(rows.bucket[i]))
                                continue;
                        picked[n++] = i;
                        (side[context] ? b : a)[rows.node[i]] += rows.value[i];
                }
                this.sort(picked.subarray(0, n));
                this.sumFunctions(a, b);
                this.root = this.makeRoot();
        }

        /** Orders the chosen rows by group, and sums them up one behind the other. */
        sort(picked) {
                const { rows, contexts } = this.model, n = picked.length;
                let order = picked;

                this.groups = [{ value: -1, low: 0, high: n }];
                if (this.group >= 0)
                        order = this.sortByGroup(picked, contexts.values[this.group],
                                this.model.dimensions[this.group].n);
                this.node = new Uint32Array(n);
                this.sumA = new Float64Array(n + 1);
                this.sumB = new Float64Array(this.isDiff ? n + 1 : 0);
                for (let i = 0; i < n; i++) {
                        const row = order[i], right = this.isDiff && contexts.side[rows.context[row]];

                        this.node[i] = rows.node[row];
                        this.sumA[i + 1] = this.sumA[i] + (right ? 0 : rows.value[row]);
                        if (this.isDiff)
                                this.sumB[i + 1] = this.sumB[i] + (right ? rows.value[row] : 0);
                }
        }

        sortByGroup(picked, values, n_values) {
                const { rows } = this.model, ends = new Uint32Array(n_values + 1),
                        order = new Uint32Array(picked.length);

                for (const row of picked)
                        ends[values[rows.context[row]] + 1]++;
                for (let i = 0; i < n_values; i++)
                        ends[i + 1] += ends[i];
                this.groups = [];
                for (let i = 0; i < n_values; i++)
                        if (ends[i + 1] > ends[i])
                                this.groups.push({ value: i, low: ends[i], high: ends[i + 1] });
                for (const row of picked)
                        order[ends[values[rows.context[row]]]++] = row;
                return order;
        }

        /** Self and total of each function. a and b: what each node has itself; they become totals of nodes.
         *  */
        sumFunctions(a, b) {
                const { nodes, frames } = this.model;
                const sums = (own) => {
                        const self = new Float64Array(frames.n), total = new Float64Array(frames.n);

                        for (let i = 1; i < nodes.n; i++)
                                self[nodes.frame[i]] += own[i];
                        for (let i = nodes.n; i-- > 1;)         /* children come behind their parents */
                                own[nodes.parent[i]] += own[i];
                        for (let i = 1; i < nodes.n; i++)
                                if (nodes.outer[i])
                                        total[nodes.frame[i]] += own[i];
                        return { self, total, nodes: own };
                };

                this.a = sums(a);
                this.b = this.isDiff ? sums(b) : this.a;
                this.totalA = this.a.nodes[0];
                this.totalB = this.isDiff ? this.b.nodes[0] : 0;
        }

        /* Lines */

        /**
         * What each line of a function has itself, and with what it calls: line → [self, total]. Line 0
         * stands for what is not known. A recursive function stands on several lines; a row counts once for
         * each.
         */
        sumLines(frame) {
                const { rows, nodes, lines } = this.model, chosen = this.chooseContexts();
                const within = new Uint8Array(nodes.n), sums = new Map();

                for (let i = 1; i < nodes.n; i++)
                        within[i] = nodes.frame[i] === frame || within[nodes.parent[i]] ? 1 : 0;
                for (let i = 0; i < rows.n; i++) {
                        if (!within[rows.node[i]] || !chosen[rows.context[i]]
                                || !this.hasTime(rows.bucket[i]))
                                continue;
                        for (const line of this.linesOf(frame, rows.node[i], rows.lines[i])) {
                                const sum = sums.get(line) || [0, 0];

                                sum[1] += rows.value[i];
                                sums.set(line, sum);
                        }
                        if (nodes.frame[rows.node[i]] === frame)
                                sums.get(lines.depth[rows.lines[i]] < nodes.depth[rows.node[i]] ? 0
                                        : lines.line[rows.lines[i]])[0] += rows.value[i];
                }
                return sums;
        }

        /** On which lines a function stands in one path. */
        linesOf(frame, node, at) {
                const { nodes, lines } = this.model, found = new Set();

                for (; node; node = nodes.parent[node]) {
                        const isKnown = lines.depth[at] === nodes.depth[node];

                        if (nodes.frame[node] === frame)
                                found.add(isKnown ? lines.line[at] : 0);
                        if (isKnown)
                                at = lines.outer[at];
                }
                return found;
        }

        /** Whether some line of a function is known. */
        findLined() {
                const { rows, nodes, lines, frames } = this.model, lined = new Uint8Array(frames.n);

                for (let i = 0; rows.lines && i < rows.n; i++)
                        for (let node = rows.node[i], at = rows.lines[i]; at; node = nodes.parent[node])
                                if (lines.depth[at] === nodes.depth[node]) {
                                        lined[nodes.frame[node]] |= lines.line[at] ? 1 : 0;
                                        at = lines.outer[at];
                                }
                return lined;
        }

        /* Boxes */

        makeRoot() {
                const root = { parent: null, frame: -1, label: "all", depth: 0, a: this.totalA,
                        b: this.totalB, group: -1,
                               children: null };

                if (this.group < 0)
                        this.place(root, this.groups[0]);
                else
                        root.children = this.order(this.groups.map((group) => this.makeGroup(root, group)));
                return root;
        }

        makeGroup(root, group) {
                const box = { parent: root, frame: -1, label: this.labelOf(this.group, group.value), depth: 1,
                              a: this.sumA[group.high] - this.sumA[group.low],
                              b: this.isDiff ? this.sumB[group.high] - this.sumB[group.low] : 0,
                                      group: group.value,
                              children: null };

                this.place(box, group);
                return box;
        }

        /** Says where the rows of a box lie: of callees a range, of callers the nodes where its samples end.
         *  */
        place(box, { low, high }) {
                box.node = 0;
                box.low = low;
                box.high = high;
                if (this.callers)
                        box.ends = this.endsOf(low, high);
        }

        endsOf(low, high) {
                const at = [], a = [], b = [];

                for (let i = low; i < high;) {
                        const node = this.node[i], begin = i;

                        while (i < high && this.node[i] === node)
                                i++;
                        at.push(node);          /* the frame that a child is made from */
                        a.push(this.sumA[i] - this.sumA[begin]);
                        b.push(this.isDiff ? this.sumB[i] - this.sumB[begin] : 0);
                }
                return { at, a, b };
        }

        childrenOf(box) {
                if (!box.children)
                        box.children = this.order(this.callers ? this.callersOf(box) : this.calleesOf(box));
                return box.children;
        }

        calleesOf(box) {
                const { end, frame } = this.model.nodes, children = [];
                let low = lowerBound(this.node, box.node + 1, box.low, box.high);

                while (low < box.high) {
                        /* the child that the next row lies under: an ancestor of its node, or that itself */
                        const child = this.childAbove(box.node, this.node[low]);
                        const high = lowerBound(this.node, end[child], low, box.high);

                        children.push({ parent: box, frame: frame[child], label: null, depth: box.depth + 1,
                                node: child,
                                        a: this.sumA[high] - this.sumA[low], b: this.isDiff
                                                ? this.sumB[high] - this.sumB[low] : 0,
                                        low, high, group: -1, children: null });
                        low = high;
                }
                return children;
        }

        childAbove(node, below) {
                const { parent } = this.model.nodes;

                while (parent[below] !== node)
                        below = parent[below];
                return below;
        }

        callersOf(box) {
                const { frame, parent } = this.model.nodes, found = new Map(), ends = box.ends;

                for (let i = 0; i < ends.at.length; i++) {
                        const at = ends.at[i];

                        if (!at)
                                continue;
                        let child = found.get(frame[at]);

                        if (!child) {
                                child = { parent: box, frame: frame[at], label: null, depth: box.depth + 1,
                                        a: 0, b: 0, group: -1,
                                          children: null, ends: { at: [], a: [], b: [] } };
                                found.set(frame[at], child);
                        }
                        child.a += ends.a[i];
                        child.b += ends.b[i];
                        child.ends.at.push(parent[at]);
                        child.ends.a.push(ends.a[i]);
                        child.ends.b.push(ends.b[i]);
                }
                return [...found.values()];
        }

        order(boxes) {
                if (this.bySize)
                        return boxes.sort((x, y) => this.widthOf(y) - this.widthOf(x) || x.frame - y.frame
                                || x.group - y.group);
                return boxes.sort((x, y) => x.frame - y.frame || x.group - y.group);
        }

        /** Share of all that is shown: of two sides that of one of them, or the mean of both. */
        widthOf(box) {
                if (!this.isDiff || this.width === "before")
                        return this.shareA(box.a);
                if (this.width === "after")
                        return this.shareB(box.b);
                return (this.shareA(box.a) + this.shareB(box.b)) / (this.totalA && this.totalB ? 2 : 1);
        }

        shareA(value) {
                return this.totalA ? value / this.totalA : 0;
        }

        shareB(value) {
                return this.totalB ? value / this.totalB : 0;
        }

        /** The functions whose own share has changed most, the most changed first. */
        mostChanged(n) {
                const rows = [];

                for (let i = 0; i < this.model.frames.n; i++) {
                        const before = this.shareA(this.a.self[i]), after = this.shareB(this.b.self[i]);

                        if (before !== after)
                                rows.push({ frame: i, before, after, change: after - before });
                }
                return rows.sort((x, y) => Math.abs(y.change) - Math.abs(x.change) || x.frame - y.frame)
                        .slice(0, n);
        }

        /** What a box has itself, on each side. */
        selfOfBox(box) {
                if (box.frame < 0 && box.depth === 0 && this.group >= 0)
                        return { a: 0, b: 0 };
                let a = box.a, b = box.b;

                for (const child of this.childrenOf(box)) {
                        a -= child.a;
                        b -= child.b;
                }
                return { a, b };
        }

        /* Words */

        nameOf(box) {
                return box.frame < 0 ? box.label : this.model.strings[this.model.frames.name[box.frame]];
        }

        labelOf(dimension, value) {
                const { key, labels, ids } = this.model.dimensions[dimension];

                if (value === 0)
                        return { __proto__: null, process: "no process", thread: "no thread", span: "no span",
                                operation: "no operation",
                                 coroutine: "no coroutine", end: "complete" }[key] || `no ${key}`;
                if (value === 1)
                        return "others";
                if (!ids) {
                        const label = this.model.strings[labels[value]];

                        return key === "end" ? this.ends.get(label) || label : label;
                }
                return `span ${hex(ids, (value - 2) * 24 + 16, 8)}`;
        }

        /** The trace and span id of a value of the dimension of spans. */
        idsOf(dimension, value) {
                const { ids } = this.model.dimensions[dimension], at = (value - 2) * 24;

                return value < 2 ? null : { trace: hex(ids, at, 16), span: hex(ids, at + 16, 8) };
        }

        /* Other sums */

        /** By value of a dimension, whatever is chosen in it. */
        sumDimension(dimension) {
                const { rows, contexts, dimensions } = this.model, chosen = this.chooseContexts(dimension);
                const values = contexts.values[dimension];
                const a = new Float64Array(dimensions[dimension].n),
                        b = new Float64Array(dimensions[dimension].n);

                for (let i = 0; i < rows.n; i++) {
                        const context = rows.context[i];

                        if (chosen[context] && this.hasTime(rows.bucket[i]))
                                (contexts.side[context] ? b : a)[values[context]] += rows.value[i];
                }
                return { a, b };
        }

        /** Of what is looked at by default, on each side. */
        sumTotals() {
                const { rows, contexts, meta } = this.model, sums = meta.sides.map(() => 0);

                for (let i = 0; i < rows.n; i++)
                        if (contexts.kind[rows.context[i]] === meta.mainKind)
                                sums[contexts.side[rows.context[i]]] += rows.value[i];
                return sums;
        }

        /** By bucket, at all times. */
        sumTimes(n_buckets) {
                const { rows, contexts } = this.model, chosen = this.chooseContexts();
                const sums = [new Float64Array(n_buckets), new Float64Array(n_buckets)];

                for (let i = 0; i < rows.n; i++)
                        if (rows.bucket[i] && chosen[rows.context[i]])
                                sums[contexts.side[rows.context[i]]][rows.bucket[i] - 1] += rows.value[i];
                return sums;
        }

        /** How much lies in or under functions that match (one byte for each frame). */
        sumMatched(matches) {
                const { nodes } = this.model, inside = new Uint8Array(nodes.n);
                let a = 0, b = 0;

                for (let i = 1; i < nodes.n; i++) {
                        const outside = !inside[nodes.parent[i]];

                        inside[i] = !outside || matches[nodes.frame[i]] ? 1 : 0;
                        if (outside && inside[i]) {
                                a += this.a.nodes[i];
                                b += this.isDiff ? this.b.nodes[i] : 0;
                        }
                }
                return { a, b };
        }
}

function hex(bytes, from, n) {
        let text = "";

        for (let i = from; i < from + n; i++)
                text += bytes[i].toString(16).padStart(2, "0");
        return text;
}

if (typeof module !== "undefined")
        module.exports.View = View;
