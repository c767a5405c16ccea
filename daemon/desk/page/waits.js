/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits: of a recording with waits (docs/OFFCPU.md) who waited, on what, and who ended it. A picture of three
 * columns, in which each band is as thick as its time, and a table of CPU, runnable and blocked time.
 *
 *     checkout ━━━━━━━━━━ futex ━━━━━━━━━━ rebuild
 *              ━━━━━━━━━━ read pipe ━━━━━━ another process
 *     rebuild  ━━━━━━━━━━ a CPU
 *
 * All of it is summed up from the contexts of samples, with the filters and times that are chosen.
 */

const WAIT_NODES = 9;                   /* of each column; what is smaller is one more */
const WAIT_PITCH = 16;                  /* px from one node to the next at least, for their names */
const WAIT_WORDS = { __proto__: null, process: "another process", kernel: "the kernel",
        interrupt: "a timer or device" };
const WAIT_WHO = ["operation", "span", "thread", "process", "coroutine"];
/* As desk/report/glossary.c has them. */
const SYSTEM_LIBRARIES = ["libc.so", "libc-", "libpthread", "ld-linux", "ld-musl", "[kernel", "[vdso]",
        "libstdc++"];

function drawnSvg(name, attributes, ...children) {
        const made = document.createElementNS("http://www.w3.org/2000/svg", name);

        for (const [key, value] of Object.entries(attributes))
                made.setAttribute(key, String(value));
        made.append(...children);
        return made;
}

class Waits {
        constructor(model, view) {
                const kindOf = (type) => model.meta.kinds.findIndex((kind) => kind.type === type);

                Object.assign(this, { model, view });
                this.dimension = new Map(model.dimensions.map(({ key }, i) => [key, i]));
                this.offCpu = kindOf("off_cpu");
                this.waker = kindOf("off_cpu_waker");
                this.cpu = model.meta.kinds.findIndex(({ periodType, unit }) => periodType === "cpu"
                        && unit === "count");
                this.waiters = WAIT_WHO.filter((key) => this.dimension.has(key));
                this.who = this.waiters.find((key) => key !== "span") || "span";
                this.threads = this.labelsByNumber("thread");
                this.operations = this.operationsOfSpans();
        }

        get isThere() {
                return this.offCpu >= 0 && this.dimension.has("wait.state") && !this.view.isDiff
                        && this.waiters.length > 0;
        }

        /** Whether waits are what is measured now. */
        get isShown() {
                return this.isThere && (this.view.kind === this.offCpu || this.view.kind === this.waker);
        }

        /** The text of an attribute of a context; "" = it has none. */
        textOf(context, key) {
                const at = this.dimension.get(key);
                const value = at === undefined ? 0 : this.model.contexts.values[at][context];

                return value ? this.view.labelOf(at, value) : "";
        }

        /** `worker (17)` by 17. */
        labelsByNumber(key) {
                const at = this.dimension.get(key), found = new Map();

                for (let value = 2; at !== undefined && value < this.model.dimensions[at].n; value++) {
                        const label = this.view.labelOf(at, value), number = label.match(/(\d+)\)?$/);

                        if (number)
                                found.set(number[1], label);
                }
                return found;
        }

        /** The operation of each span id. */
        operationsOfSpans() {
                const spans = this.dimension.get("span"), found = new Map();

                for (let i = 0; spans !== undefined && this.dimension.has("operation")
                        && i < this.model.contexts.n; i++) {
                        const value = this.model.contexts.values[spans][i],
                                operation = this.textOf(i, "operation");

                        if (value > 1 && operation)
                                found.set(this.view.idsOf(spans, value).span, operation);
                }
                return found;
        }

        onOf(context) {
                const file = this.textOf(context, "wait.file.kind");

                if (this.textOf(context, "wait.state") === "runnable")
                        return "a CPU";
                return this.textOf(context, "wait.reason") + (file ? ` ${file}` : "") + this.lockOf(context);
        }

        /** ` monitor shop.Cart of rebuild (17)`: the lock, and who has it. */
        lockOf(context) {
                const kind = this.textOf(context, "wait.lock.kind"),
                        name = this.textOf(context, "wait.lock.class"),
                        owner = this.textOf(context, "wait.lock.owner.thread.id");

                return (kind ? ` ${kind}` : "") + (name ? ` ${name}` : "")
                        + (owner ? ` of ${this.threads.get(owner) || `thread ${owner}`}` : "");
        }

        enderOf(context) {
                const kind = this.textOf(context, "wait.waker.kind"),
                        operation = this.operations.get(this.textOf(context, "wait.waker.span_id")),
                        thread = this.textOf(context, "wait.waker.thread.id");

                if (kind !== "thread")
                        return WAIT_WORDS[kind] || kind || "not known";
                return operation || this.threads.get(thread) || `thread ${thread}`;
        }

        /** What each context has of what is chosen, of all kinds. */
        sumContexts() {
                const { rows, contexts } = this.model, chosen = this.view.chooseContexts(-1, -1);
                const sums = new Float64Array(contexts.n);

                for (let i = 0; i < rows.n; i++)
                        if (chosen[rows.context[i]] && this.view.hasTime(rows.bucket[i]))
                                sums[rows.context[i]] += rows.value[i];
                return sums;
        }

        /** ns that one CPU sample stands for, on average. */
        period() {
                const { rows, contexts, meta } = this.model;
                let n = 0;

                for (let i = 0; i < rows.n; i++)
                        n += contexts.kind[rows.context[i]] === this.cpu ? rows.value[i] : 0;
                return n ? meta.kinds[this.cpu].measured[0] / n : 0;
        }

        /** { waiters: [{ value, cpu, runnable, blocked }], flows: [{ who, on, by, value }] } */
        sum() {
                const { contexts } = this.model, at = this.dimension.get(this.who);
                const waiters = new Map(), flows = new Map(), period = this.cpu < 0 ? 0 : this.period();

                this.sumContexts().forEach((sum, i) => {
                        const value = contexts.values[at][i], isWait = contexts.kind[i] === this.offCpu;

                        if (!sum || (!isWait && contexts.kind[i] !== this.cpu))
                                return;
                        const row = waiters.get(value)
                                || { value, order: value, cpu: 0, runnable: 0, blocked: 0 };
                        const isBlocked = this.textOf(i, "wait.state") === "blocked";

                        waiters.set(value, row);
                        if (!isWait) {
                                row.cpu += sum * period;
                                return;
                        }
                        row[isBlocked ? "blocked" : "runnable"] += sum;
                        const flow = { who: this.view.labelOf(at, value), on: this.onOf(i),
                                by: isBlocked ? this.enderOf(i) : "", value: 0, dimension: at,
                                number: value };
                        const key = JSON.stringify([flow.who, flow.on, flow.by]);

                        flows.set(key, flows.get(key) || flow);
                        flows.get(key).value += sum;
                });
                return { waiters: [...waiters.values()],
                        flows: [...flows.values()].sort((a, b) => b.value - a.value) };
        }

        /** In which own functions wakers were as they ended the waits of a flow: key of the flow → Map. */
        wakerFunctions() {
                const { rows, contexts } = this.model, at = this.dimension.get(this.who),
                        chosen = this.view.chooseContexts(-1, this.waker), found = new Map();

                for (let i = 0; this.waker >= 0 && i < rows.n; i++) {
                        const context = rows.context[i];

                        if (!chosen[context] || !this.view.hasTime(rows.bucket[i]))
                                continue;
                        const key = JSON.stringify([this.view.labelOf(at, contexts.values[at][context]),
                                this.onOf(context), this.enderOf(context)]);
                        const name = this.ownFunction(rows.node[i]), sums = found.get(key) || new Map();

                        if (name !== "[no stack]")
                                found.set(key, sums.set(name, (sums.get(name) || 0) + rows.value[i]));
                }
                return found;
        }

        /** `Cache.rebuild` of handle;Cache.rebuild;unlock: the innermost function that is not the system's. */
        ownFunction(node) {
                const { nodes, frames, strings } = this.model;

                for (let at = node; at; at = nodes.parent[at]) {
                        const object = strings[frames.object[nodes.frame[at]]].split("/").pop();

                        if (!SYSTEM_LIBRARIES.some((name) => object.startsWith(name)))
                                return strings[frames.name[nodes.frame[at]]];
                }
                return strings[frames.name[nodes.frame[node]]];
        }

        /* The picture */

        /** The nodes of one column, the largest first. Flows get theirs as nodes[key]. */
        column(flows, key) {
                const nodes = new Map();

                for (const flow of flows.filter((flow) => flow[key])) {
                        const node = nodes.get(flow[key]) || { name: flow[key], value: 0, first: flow };

                        node.value += flow.value;
                        nodes.set(flow[key], node);
                }
                const sorted = [...nodes.values()].sort((a, b) => b.value - a.value),
                        n = sorted.length > WAIT_NODES + 1 ? WAIT_NODES : sorted.length;
                const rest = { name: `${sorted.length - n} others`, isRest: true,
                        value: sorted.slice(n).reduce((sum, { value }) => sum + value, 0) };

                sorted.forEach((node, i) => nodes.set(node.name, i < n ? node : rest));
                for (const flow of flows)
                        flow.nodes = { ...flow.nodes, [key]: nodes.get(flow[key]) };
                return n < sorted.length ? [...sorted.slice(0, n), rest] : sorted;
        }

        /** Where the nodes of a column lie. */
        place(nodes, x, scale, gap) {
                let y = 0;

                for (const node of nodes) {
                        Object.assign(node, { x, y, left: y, right: y,
                                height: Math.max(1.5, node.value * scale) });
                        y += Math.max(node.height + gap, WAIT_PITCH);
                }
                return y;
        }

        draw(parent, pick) {
                const { flows } = this.sum(), width = Math.max(parent.clientWidth, 300), gap = 9, bar = 10;
                const columns = ["who", "on", "by"].map((key) => this.column(flows, key));
                const most = Math.max(...columns.map((nodes) => nodes.length), 1);
                const total = flows.reduce((sum, { value }) => sum + value, 0);

                if (!total) {
                        parent.replaceChildren("No wait is in what is chosen.");
                        return;
                }
                const scale = (Math.max(120, most * 30) - most * gap) / total;
                const height = Math.max(...columns.map((nodes, i) =>
                        this.place(nodes, i * (width - bar) / 2, scale, gap)));
                const svg = drawnSvg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img",
                        "aria-label": "Who waited, on what, and who ended it: the table has the same" });

                this.drawBands(svg, this.sumBands(flows, "who", "on"), scale, bar);
                this.drawBands(svg, this.sumBands(flows, "on", "by"), scale, bar);
                columns.forEach((nodes, i) =>
                        nodes.forEach((node) => this.drawNode(svg, node, i, bar, pick)));
                parent.replaceChildren(svg);
        }

        /** From which node to which how much goes: [{ left, right, value }], in the order of both columns. */
        sumBands(flows, from, to) {
                const bands = new Map();

                for (const { nodes, value } of flows) {
                        const left = nodes[from], right = nodes[to], key = right && `${left.y} ${right.y}`;

                        if (right)
                                bands.set(key, { left, right, value: value + (bands.get(key)?.value || 0) });
                }
                return [...bands.values()].sort((a, b) => a.left.y - b.left.y || a.right.y - b.right.y);
        }

        drawBands(svg, bands, scale, bar) {
                for (const { left, right, value } of bands) {
                        const height = value * scale, x1 = left.x + bar, x2 = right.x, middle = (x1 + x2) / 2,
                                y1 = left.right + height / 2, y2 = right.left + height / 2;

                        left.right += height;
                        right.left += height;
                        svg.append(drawnSvg("path", { class: "band",
                                d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
                                "stroke-width": Math.max(height, 1) },
                                drawnSvg("title", {}, this.tell(`${left.name} → ${right.name}`, value))));
                }
        }

        tell(words, ns) {
                return `${words}: ${formatValue(ns, "nanoseconds")}`;
        }

        drawNode(svg, node, column, bar, pick) {
                const rect = drawnSvg("rect", { x: node.x, y: node.y, width: bar, height: node.height, rx: 2 },
                        drawnSvg("title", {}, this.tell(node.name, node.value)));
                const text = drawnSvg("text", { x: column === 2 ? node.x - 6 : node.x + bar + 6,
                        y: node.y + node.height / 2 + 4, "text-anchor": column === 2 ? "end" : "start" },
                        `${shortName(node.name, 40)}  ${formatValue(node.value, "nanoseconds")}`);
                const group = drawnSvg("g", { class: `node column-${column}` }, rect, text);

                if (column === 0 && !node.isRest) {
                        group.classList.add("pick");
                        group.addEventListener("click", () => pick(node.first.dimension, node.first.number));
                }
                svg.append(group);
        }
}
