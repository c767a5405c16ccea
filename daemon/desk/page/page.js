/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Page: the state of what is shown, and what buttons, keys and parts of the page do with it.
 *
 * A change goes one way: it changes the view, the view makes its sums, and all parts draw themselves. What
 * was shown before lies on a stack for "Back".
 */

const DIMENSION_WORDS = {
        __proto__: null,        /* keys are those of files, as "constructor" */
        process: ["Process", "Processes"], thread: ["Thread", "Threads"], span: ["Span", "Spans"],
        operation: ["Operation", "Operations"], coroutine: ["Coroutine", "Coroutines"],
                end: ["Stack end", "Stack ends"],
};

const KEYS = [
        ["Arrow keys", "move in the flame graph"], ["Enter", "zoom to the box"],
                ["Escape, Backspace", "back"],
        ["r", "reset everything"], ["/", "search"], ["n", "next match"], ["i", "callers or callees"],
                ["o", "icicle or flame"],
        ["c", "copy the name of the box"], ["t", "light or dark"], ["?", "this help"],
];

/** Words for what is measured. */
function kindName(kind) {
        const known = { __proto__: null, samples: "CPU samples", off_cpu: "Off-CPU time",
                        off_cpu_waker: "Waits, by who ended them", suspended: "Suspended coroutines",
                        goroutines: "Goroutines that wait",
                        wall: "Wall clock", lock_contention: "Lock waits", alloc_space: "Allocated bytes",
                        alloc_objects: "Allocated objects", page_faults: "Page faults",
                        inuse_space: "Live bytes", inuse_objects: "Live objects",
                        native_alloc_space: "Native allocations" }[kind.type];

        if (kind.type === "samples" && kind.periodType && kind.periodType !== "cpu")
                return `${kind.type} of ${kind.periodType}`;
        return known || (kind.type ? `${kind.type}${kind.unit ? ` (${kind.unit})` : ""}` : "Samples");
}

/** Who allocates, what is alive of it, and which pages came with it. */
function isMemory({ type }) {
        return /(alloc|inuse)_(space|objects)$/.test(type) || type === "page_faults";
}

const WIDTHS = ["both", "before", "after"];
const ANSWER_LETTERS = 60;              /* of a name in the line that says what has changed */

class Page {
        constructor(model) {
                const find = (id) => document.getElementById(id);

                this.model = model;
                this.view = new View(model);
                this.find = find;
                this.history = [];
                this.query = { text: "", regex: false };
                this.tab = "functions";
                this.lineFunction = -1;         /* none was chosen */
                this.flame = new Flame(find("flame"), find("scroller"), find("spacer"), this.view, {
                        zoom: (box) => this.zoom(box),
                        select: (box) => this.select(box),
                        hover: (box, event) => this.showTip(box, event),
                });
                this.timeline = new Timeline(find("timeline"), [find("time-from"), find("time-to")], model,
                        this.view,
                                             { change: (from, to) =>
                                                     this.change(() => Object.assign(this.view,
                                                     { from, to })) });
                this.waits = new Waits(model, this.view);
                this.connect();
                this.showHeader();
                this.makeControls();
                this.makeTabs();
                this.setTheme(this.savedTheme());
                this.refresh();
        }

        /* State */

        /** Remembers what is shown, then changes it. */
        change(how) {
                this.history.push(this.snapshot());
                if (this.history.length > 100)
                        this.history.shift();
                how();
                this.refresh();
        }

        snapshot() {
                const { kind, from, to, group, callers, bySize, width } = this.view;

                return { view: { kind, from, to, group, callers, bySize, width,
                        filters: new Map(this.view.filters) }, path: this.pathOf(this.flame.zoomed),
                         query: { ...this.query }, upright: this.flame.upright };
        }

        /** Boxes are made anew with each change; the way to one stays. */
        pathOf(box) {
                const path = [];

                for (; box && box.parent; box = box.parent)
                        path.unshift(box.frame < 0 ? `group ${box.group}` : box.frame);
                return path;
        }

        boxAt(path) {
                let box = this.view.root;

                for (const step of path) {
                        const next = this.view.childrenOf(box).find((child) => (child.frame < 0
                                ? `group ${child.group}` : child.frame) === step);

                        if (!next)
                                break;
                        box = next;
                }
                return box;
        }

        restore({ view, path, query, upright }) {
                Object.assign(this.view, view);
                this.query = query;
                this.flame.upright = upright;
                this.find("search").value = query.text;
                this.refresh(path);
        }

        back() {
                if (this.history.length)
                        this.restore(this.history.pop());
        }

        reset() {
                const before = this.snapshot();

                this.view.reset();
                this.restore({ view: {}, path: [], query: { text: "", regex: false }, upright: false });
                this.history.push(before);
                this.showButtons();
        }

        zoom(box) {
                if (box === this.flame.zoomed) {
                        this.tell(box);
                        return;
                }
                this.history.push(this.snapshot());
                this.flame.zoom(box);
                this.select(box);
                this.showButtons();
        }

        /** Says what a box is; the table of lines follows. */
        select(box) {
                this.tell(box);
                if (this.tab === "lines" && box.frame >= 0 && this.view.lined[box.frame])
                        this.openLines(box.frame);
        }

        /** Everything anew, after a change of the view. */
        refresh(path = this.flame.zoomed ? this.pathOf(this.flame.zoomed) : []) {
                this.view.update();
                this.flame.show();
                this.flame.zoom(this.boxAt(path));
                this.search();
                this.timeline.update();
                this.showFilters();
                this.showWaits();
                this.showAnswer();
                this.showTable();
                this.showLegend();
                this.showButtons();
                this.tell(this.flame.zoomed);
        }

        /* Events */

        connect() {
                const on = (id, what, event = "click") => this.find(id).addEventListener(event, what);

                on("back", () => this.back());
                on("reset", () => this.reset());
                on("theme", () => this.nextTheme());
                on("help", () => this.showHelp());
                on("callees", () => this.setCallers(false));
                on("callers", () => this.setCallers(true));
                on("icicle", () => this.setUpright(false));
                on("flames", () => this.setUpright(true));
                on("by-size", () => this.setOrder(true));
                on("by-name", () => this.setOrder(false));
                for (const width of WIDTHS)
                        on(`width-${width}`, () => this.setWidth(width));
                on("group", () => this.change(() => { this.view.group = Number(this.find("group").value); }),
                        "change");
                on("kind", () => this.change(() => { this.view.kind = Number(this.find("kind").value); }),
                        "change");
                on("waits-who", () => {
                        this.waits.who = this.find("waits-who").value;
                        this.showWaits();
                        this.showTable();
                }, "change");
                on("search", () => this.setQuery({ ...this.query, text: this.find("search").value }),
                        "input");
                on("regex", () => this.setQuery({ ...this.query, regex: !this.query.regex }));
                document.addEventListener("keydown", (event) => this.key(event));
                new ResizeObserver(() => this.resize()).observe(this.find("scroller"));
                new ResizeObserver(() => this.timeline.update()).observe(this.find("timeline"));
                new ResizeObserver(() => this.drawWaits()).observe(this.find("waits-section"));
                new ResizeObserver(() => fitNames(this.find("table").querySelectorAll(".link")))
                        .observe(this.find("table"));
                matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
                        () => this.setTheme(this.theme));
        }

        resize() {
                if (this.flame.zoomed) {
                        this.flame.layout();
                        this.flame.draw();
                }
        }

        key(event) {
                const inText = event.target.matches("input[type=search], select"),
                        box = this.find("help-box");

                if (event.ctrlKey || event.metaKey || event.altKey || box.open)
                        return;
                if (event.key === "Escape" && this.find("open").open) {
                        this.find("open").open = false;
                        return;
                }
                if (event.key === "Escape" && inText) {
                        this.find("flame").focus();
                        return;
                }
                if (inText)
                        return;
                const what = { Escape: () => this.back(), Backspace: () => this.back(),
                        "/": () => this.find("search").focus(),
                               r: () => this.reset(), i: () => this.setCallers(!this.view.callers),
                                       o: () => this.setUpright(!this.flame.upright),
                               n: () => this.nextMatch(),
                                       c: () => this.copy(this.view.nameOf(this.flame.selected)),
                               t: () => this.nextTheme(), "?": () => this.showHelp() }[event.key];

                if (what) {
                        event.preventDefault();
                        what();
                }
        }

        setCallers(callers) {
                if (callers !== this.view.callers)
                        this.change(() => { this.view.callers = callers; this.flame.zoomed = null; });
        }

        setUpright(upright) {
                if (upright !== this.flame.upright)
                        this.change(() => { this.flame.upright = upright; });
        }

        setOrder(bySize) {
                if (bySize !== this.view.bySize)
                        this.change(() => { this.view.bySize = bySize; });
        }

        setWidth(width) {
                if (width !== this.view.width)
                        this.change(() => { this.view.width = width; });
        }

        setFilter(dimension, value) {
                this.change(() => {
                        if (value === null || this.view.filters.get(dimension) === value)
                                this.view.filters.delete(dimension);
                        else
                                this.view.filters.set(dimension, value);
                });
        }

        /* Search */

        setQuery(query) {
                this.query = query;
                this.search();
                this.showTable();
        }

        /** Plain text minds case only where it has capitals. */
        matcher() {
                const { text, regex } = this.query;

                if (!text)
                        return null;
                if (regex)
                        return new RegExp(text, /[A-Z]/.test(text) ? "u" : "iu");
                return new RegExp(text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&"), /[A-Z]/.test(text) ? ""
                        : "i");
        }

        search() {
                const { frames, strings } = this.model, output = this.find("matched");
                let matcher = null;

                this.find("regex").setAttribute("aria-pressed", String(this.query.regex));
                this.flame.matches = null;
                try {
                        matcher = this.matcher();
                } catch {
                        output.textContent = "no valid expression";
                }
                if (matcher) {
                        this.flame.matches = Uint8Array.from({ length: frames.n },
                                (_, i) => (matcher.test(strings[frames.name[i]]) ? 1 : 0));
                        output.textContent = this.tellMatched(this.view.sumMatched(this.flame.matches));
                } else if (!this.query.text)
                        output.textContent = "";
                this.flame.draw();
        }

        tellMatched({ a, b }) {
                if (this.view.isDiff)
                        return `${formatShare(this.view.shareA(a))} → ${formatShare(this.view.shareB(b))} matched`;
                return `${formatShare(this.view.shareA(a))} matched`;
        }

        /** Selects the next box that was searched for, in the order of rows. */
        nextMatch() {
                const boxes = this.flame.rows.flat().filter(({ box }) => box && box.frame >= 0
                        && this.flame.matches && this.flame.matches[box.frame]);
                const at = boxes.findIndex(({ box }) => box === this.flame.selected);

                if (boxes.length) {
                        this.find("flame").focus();
                        this.flame.select(boxes[(at + 1) % boxes.length].box);
                }
        }

        /* Header and controls */

        showHeader() {
                const { meta } = this.model, side = meta.sides[0];
                const title = this.view.isDiff ? `${meta.sides[0].name} → ${meta.sides[1].name}` : meta.title
                        || "Profile";
                const parts = [];

                document.title = `${title} — spanprof`;
                this.find("title").textContent = title;
                if (this.view.isDiff && meta.title)
                        parts.push([...new Set(meta.title.replace(/ \(\d+\)/g, "").split(", "))].join(", "));
                if (side.startNs)
                        parts.push(`${new Date(Number(side.startNs) / 1e6).toISOString().replace("T", " ").slice(0, 19)} UTC`);
                if (!this.view.isDiff && Math.max(side.recordedNs, side.lengthNs || 0) > 1)
                        parts.push(formatSeconds((side.recordedNs || side.lengthNs) / 1e9));
                /* folded stacks: what a line's number counts is known to whoever made them */
                if (meta.kinds.length && meta.kinds.every(({ type, unit, periodType }) => type === "samples"
                        && unit === "count" && !periodType))
                        parts.push("numbers as they stand in the file, which names no unit");
                parts.push(`spanprof ${meta.version}`);
                this.find("subtitle").textContent = parts.join(" · ");
                this.find("facts").replaceChildren(...this.facts().map(([name, value, help, bad]) =>
                        element("li", { className: bad ? "bad" : "", title: help || "" },
                                element("span", { className: "muted" }, name), element("b", {}, value))));
        }

        /** What the report says first: whose own share has changed most, in points of the whole. */
        showAnswer() {
                const { frames, strings } = this.model, answer = this.find("answer");

                answer.hidden = !this.view.isDiff;
                if (answer.hidden)
                        return;
                const most = this.view.mostChanged(3), words = most.flatMap((row, i) => [
                        i ? ", " : "",
                        element("button", { className: "link",
                                onclick: () => this.searchFor(strings[frames.name[row.frame]]) },
                                element("bdi", { title: strings[frames.name[row.frame]] },
                                        shortName(strings[frames.name[row.frame]], ANSWER_LETTERS))),
                        element("b", { className: row.change > 0 ? "more-text" : "less-text" },
                                ` ${formatPoints(row.change)}`),
                        ` (${formatShare(row.before)} → ${formatShare(row.after)})`,
                ]);

                answer.replaceChildren(...(most.length ? ["Own share changed most: ", ...words, ". "]
                        : ["No function has another share than before. "]),
                        element("span", { className: "muted" },
                                "Functions are matched by name and by the name of their file, without folders.",
                                frames.name.some((name) => strings[name].startsWith("≈ ")) ? " ≈ Names differ: "
                                        + "matched without template arguments, lambda numbers, Rust hashes." : ""));
        }

        /** What stands in the header: [name, value, more words, whether it is worth a warning]. */
        facts() {
                const { meta } = this.model, totals = this.totals();
                const isOwn = totals.some(([name]) => name === "Sampled CPU time");
                /* one card says both times: what was sampled, and on it what the kernel counts */
                const facts = meta.facts.filter(([name]) => !isOwn || name !== "CPU time")
                        .map(([name, value]) => [name, value]);
                const ends = this.endShare();

                facts.unshift(...totals);
                if (meta.coverage)
                        facts.push(["Coverage", formatShare(meta.coverage),
                                "of the time that was to be sampled", this.isCoverageOff(meta.coverage)]);
                if (meta.losses) {
                        const n = meta.losses.reduce((sum, [, lost]) => sum + lost, 0);

                        facts.push(["Lost", formatCount(n),
                                meta.losses.filter(([, lost]) => lost).map(([reason, lost]) =>
                                `${reason}: ${formatCount(lost)}`).join("\n"), n > 0]);
                }
                if (ends)
                        facts.push(ends);
                if (meta.linesLeftOut)
                        facts.push(["Lines", "left out",
                                "there would be too many rows with them: `spanprof report --annotate` has them", true]);
                return facts;
        }

        /** Beyond what chance does: two standard deviations of so many samples, and two percent. */
        isCoverageOff(coverage) {
                const { meta } = this.model, kind = meta.kinds[meta.mainKind],
                        n = kind ? kind.events / coverage : 0;

                return Math.abs(1 - coverage) > Math.max(0.02, 2 / Math.sqrt(Math.max(n, 1)));
        }

        totals() {
                const { meta } = this.model, kind = meta.kinds[meta.mainKind], chosen = this.view.sumTotals();

                if (!kind)
                        return [["Samples", "none", "", true]];
                const words = [[kind.unit === "count" ? "Samples" : kindName(kind),
                        chosen.map((value) => formatValue(value, kind.unit)).join(" → ")]];

                if (kind.periodUnit === "nanoseconds" && kind.unit === "count" && kind.measured[0])
                        words.push([kind.periodType === "cpu" || !kind.periodType ? "Sampled CPU time"
                                : "Sampled time",
                                    kind.measured.slice(0,
                                            chosen.length).map((ns) => formatValue(ns, "nanoseconds")).join(" → "),
                                            this.kernelTime("samples × the time that each stands for")]);
                return words;
        }

        kernelTime(words) {
                const fact = this.model.meta.facts.find(([name]) => name === "CPU time");

                return fact ? `${words}; ${fact[1]}` : words;
        }

        endShare() {
                const at = this.model.dimensions.findIndex(({ key }) => key === "end");

                if (at < 0)
                        return this.model.rows.n ? ["Incomplete", "0 %", "stacks that end early"] : null;
                const { a, b } = this.view.sumDimension(at),
                        sums = a.map((value, i) => value + (this.view.isDiff ? b[i] : 0));
                const all = sums.reduce((x, y) => x + y, 0), cut = all - sums[0];

                return ["Incomplete", formatShare(all ? cut / all : 0),
                        [...sums].map((value, i) => [value, i]).filter(([value, i]) => i && value)
                        .map(([value, i]) => `${this.view.labelOf(at, i)}: ${formatCount(value)}`).join("\n"),
                                all && cut / all > 0.05];
        }

        makeControls() {
                const { meta, dimensions } = this.model;
                const kinds = (of) => meta.kinds.flatMap((kind, i) => isMemory(kind) === of ? [element("option",
                        { value: String(i) }, kindName(kind))] : []);
                const memory = kinds(true), others = kinds(false);

                this.find("kind").replaceChildren(...others, ...(others.length && memory.length
                        ? [element("optgroup", { label: "Memory" }, ...memory)] : memory));
                this.find("kind-field").hidden = meta.kinds.length < 2;
                this.find("group").replaceChildren(element("option", { value: "-1" }, "Nothing"),
                        ...dimensions.map(({ key }, i) => element("option", { value: String(i) },
                                (DIMENSION_WORDS[key] || [key])[0])));
                this.find("saves").replaceChildren(...SAVED_FORMS.map((form) => element("li", {},
                        element("button", { onclick: () => this.save(form) }, `Download ${form[0]}`),
                        element("span", { className: "muted" }, form[2]))));
                this.find("timeline-section").hidden = !this.timeline.hasTimes;
                this.find("waits-who").replaceChildren(...this.waits.waiters.map((key) => element("option",
                        { value: key }, (DIMENSION_WORDS[key] || [key])[0])));
                this.find("keys").replaceChildren(...KEYS.flatMap(([key, what]) => [element("dt", {}, key),
                        element("dd", {}, what)]));
        }

        showButtons() {
                const press = (id, on) => this.find(id).setAttribute("aria-pressed", String(on));

                this.find("back").disabled = !this.history.length;
                this.find("kind").value = String(this.view.kind);
                this.find("group").value = String(this.view.group);
                press("callees", !this.view.callers);
                press("callers", this.view.callers);
                press("icicle", !this.flame.upright);
                press("flames", this.flame.upright);
                press("by-size", this.view.bySize);
                press("by-name", !this.view.bySize);
                this.find("widths").hidden = !this.view.isDiff;
                for (const width of WIDTHS)
                        press(`width-${width}`, this.view.width === width);
        }

        showFilters() {
                const chips = [...this.view.filters].map(([dimension, value]) =>
                        this.chip((DIMENSION_WORDS[this.model.dimensions[dimension].key]
                                || [this.model.dimensions[dimension].key])[0],
                                  this.view.labelOf(dimension, value),
                                          () => this.setFilter(dimension, null)));

                if (this.view.to)
                        chips.push(this.chip("Time",
                                `${formatSeconds(this.view.from * this.timeline.seconds)} – ${formatSeconds(Math.min(this.view.to, this.timeline.n) * this.timeline.seconds)}`,
                                             () => this.change(() => Object.assign(this.view,
                                                     { from: 0, to: 0 }))));
                this.find("filters").replaceChildren(...chips);
                this.find("filters").hidden = !chips.length;
        }

        chip(name, value, remove) {
                return element("li", {}, element("span", { className: "muted" }, name), " ",
                        element("b", {}, element("bdi", {}, value)),
                               element("button", { "aria-label": `Remove the filter ${name} ${value}`,
                                       onclick: remove }, "×"));
        }

        drawWaits() {
                if (this.waits.isShown)
                        this.waits.draw(this.find("waits"),
                                (dimension, value) => this.setFilter(dimension, value));
        }

        /** The picture of waits and, for each who waited, its time with a CPU and without. */
        showWaits() {
                const waits = this.waits, time = (key, title, help) => ({ key, title, help, numeric: true,
                        value: (row) => row[key], text: (row) => formatValue(row[key], "nanoseconds") });

                this.find("waits-section").hidden = !waits.isShown;
                if (!waits.isShown)
                        return;
                const dimension = waits.dimension.get(waits.who);

                this.drawWaits();
                this.find("waits-who").value = waits.who;
                new Table(this.find("waits-table"), "Time with a CPU and without", [
                        time("blocked", "Blocked", "until something woke it up"),
                        time("runnable", "Runnable", "from then on, until it had a CPU"),
                        ...waits.cpu < 0 ? [] : [time("cpu", "CPU", "samples, times the mean of their periods")],
                        { key: "who", title: (DIMENSION_WORDS[waits.who] || [waits.who])[0], first: true,
                                value: (row) => this.view.labelOf(dimension, row.value).toLowerCase(),
                                cell: (row) => this.valueCell(dimension, row) }],
                        waits.sum().waiters, "blocked");
        }

        /** Each kind of wait: whose, on what, and by whom it was ended, in which function. */
        showWaitTable() {
                const flows = this.waits.sum().flows, functions = this.waits.wakerFunctions();
                const all = flows.reduce((sum, { value }) => sum + value, 0);
                const inside = ({ who, on, by }) => [...functions.get(JSON.stringify([who, on, by])) || []]
                        .sort((a, b) => b[1] - a[1]).slice(0, 2).map(([name]) => name).join(", ");

                new Table(this.find("table"), "Waits", [
                        { key: "value", title: "Time", numeric: true, value: (row) => row.value,
                                text: (row) => formatValue(row.value, "nanoseconds") },
                        { key: "share", title: "%", numeric: true, value: (row) => row.value,
                                bar: (row) => row.value / all,
                                text: (row) => formatTenths(row.value / all * 100) },
                        { key: "wait", title: "Who, on what, ended by", first: true,
                                value: (row) => `${row.who} ${row.on} ${row.by}`.toLowerCase(),
                                cell: (row) => element("div", {}, element("bdi", {}, row.who),
                                        element("div", { className: "muted" }, `on ${row.on}`,
                                                row.by ? ", ended by " : "", element("bdi", {}, row.by),
                                                inside(row) ? " in " : "", element("bdi", {}, inside(row)))) }],
                        flows.map((flow, order) => ({ ...flow, order })), "value");
        }

        showLegend() {
                const list = this.find("legend");

                if (this.view.isDiff) {
                        list.replaceChildren(element("li", {}, element("i", { className: "swatch before" }),
                                `less in ${this.sideName(1)}`),
                                             element("li", {}, element("i", { className: "swatch same" }),
                                                     "the same share"),
                                             element("li", {}, element("i", { className: "swatch after" }),
                                                     `more in ${this.sideName(1)}`));
                        return;
                }
                list.replaceChildren(...this.kindShares().map(({ kind, share }) => {
                        const swatch = element("i", { className: "swatch" });

                        swatch.style.background =
                                `hsl(${kind.hue}, ${kind.saturation}%, ${this.flame.dark ? 62 : 72}%)`;
                        return element("li", { title: "share of the functions' own samples" }, swatch,
                                `${kind.name} ${formatShare(share)}`);
                }), ...this.hasInlined()
                        ? [element("li", {}, element("i", { className: "swatch inlined" }), "inlined")] : []);
        }

        hasInlined() {
                return this.model.frames.inlined.some((inlined) => inlined);
        }

        kindShares() {
                const { frames, strings } = this.model, sums = new Map();

                for (let i = 0; i < frames.n; i++) {
                        const kind = kindOfType(strings[frames.type[i]]);

                        if (this.view.a.total[i])
                                sums.set(kind, (sums.get(kind) || 0) + this.view.a.self[i]);
                }
                return [...sums].map(([kind, sum]) => ({ kind, share: this.view.shareA(sum) })).sort((a,
                        b) => b.share - a.share);
        }

        /* Words about a box */

        /** "1,234 samples" and the like. */
        words(value) {
                const kind = this.model.meta.kinds[this.view.kind];

                if (!kind)
                        return String(value);
                return `${formatValue(value, kind.unit)}${kind.unit === "count" ? (value === 1 ? " sample" : " samples") : ""}`;
        }

        /** What one of two profiles is called, where there is little room. */
        sideName(side) {
                const { name } = this.model.meta.sides[side];

                return name.length <= 14 ? name : side ? "after" : "before";
        }

        shareWords(a, b) {
                if (!this.view.isDiff)
                        return `${this.words(a)}, ${formatShare(this.view.shareA(a))}`;
                return `${formatShare(this.view.shareA(a))} → ${formatShare(this.view.shareB(b))} (${formatChange(this.view.shareB(b) - this.view.shareA(a))})`;
        }

        describe(box) {
                const { frames, strings } = this.model, frame = box.frame, self = this.view.selfOfBox(box);
                const lines = [];

                if (frame >= 0) {
                        const file = strings[frames.file[frame]];

                        if (strings[frames.object[frame]])
                                lines.push(strings[frames.object[frame]]);
                        if (file)
                                lines.push(frames.line[frame] ? `${file}:${frames.line[frame]}` : file);
                        lines.push(`${kindOfType(strings[frames.type[frame]]).name}${frames.inlined[frame] ? ", inlined" : ""}`);
                }
                return { name: this.view.nameOf(box), total: this.shareWords(box.a, box.b),
                        self: this.shareWords(self.a, self.b), lines };
        }

        /** Says the selected box in the status line, which screen readers read out. */
        tell(box) {
                const { name, total, self, lines } = this.describe(box);
                const isLined = box.frame >= 0 && this.view.lined[box.frame];

                const title = element("b", { title: name }, element("bdi", {}, name));

                this.find("status").replaceChildren(title,
                        element("span", {}, ` total ${total}`),
                                                    element("span", {}, this.view.callers
                                                            ? ` without further caller ${self}`
                                                            : ` self ${self}`),
                                                    element("span", { className: "muted" },
                                                            element("bdi", {}, lines.join(" · "))),
                                                    isLined ? element("button", { className: "copy",
                                                            title: "Where in the function the time goes",
                                                            onclick: () => this.openLines(box.frame) },
                                                            "Lines") : "");
                fitNames([title]);
        }

        showTip(box, event) {
                const tip = this.find("tip");

                tip.hidden = !box;
                if (!box)
                        return;
                const { name, total, self, lines } = this.describe(box);

                tip.replaceChildren(element("b", {}, element("bdi", {}, name)),
                        element("div", {}, "Total ", total), element("div", {}, "Self ", self),
                                    ...lines.map((line) => element("div", { className: "muted" },
                                            element("bdi", {}, line))));
                const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8),
                        y = event.clientY + 18;

                tip.style.left = `${Math.max(8, x)}px`;
                tip.style.top = `${y + tip.offsetHeight > innerHeight - 8 ? Math.max(8, event.clientY - tip.offsetHeight - 12) : y}px`;
        }

        /** What is shown, with its filters, as a file for another tool. */
        async save([name, ending, , make]) {
                const title = this.find("title").textContent, words = title.match(/[\p{L}\p{N}_]+/gu) || [];
                const stem = words.join("-").slice(0, 60);

                this.find("open").open = false;
                offer(await make(this.view, this.model.meta.kinds[this.view.kind], title),
                        `${stem || "profile"}${ending}`);
                this.find("status").replaceChildren(`Made of what is shown: a file of ${name}`);
        }

        copy(text) {
                const box = element("textarea", { value: text, className: "unseen" });

                /* the clipboard's interface is not there for pages that were opened as files in some browsers
                 * */
                document.body.append(box);
                box.select();
                document.execCommand("copy");
                box.remove();
                this.find("status").replaceChildren(`Copied: ${text}`);
        }

        /* Tables */

        makeTabs() {
                const tabs = [["functions", "Functions"],
                        ...this.model.rows.lines ? [["lines", "Lines"]] : [],
                        ...this.waits.isThere ? [["waits", "Waits"]] : [],
                        ...this.model.dimensions.map(({ key }, i) => [String(i),
                        (DIMENSION_WORDS[key] || [key, key])[1]])];

                this.find("tabs").replaceChildren(...tabs.map(([key, title]) =>
                        element("button", { role: "tab", id: `tab-${key}`, "aria-controls": "table",
                                onclick: () => this.setTab(key) }, title)));
                this.find("tabs").addEventListener("keydown", (event) => this.moveTab(event));
        }

        setTab(tab) {
                this.tab = tab;
                this.showTable();
        }

        moveTab(event) {
                const tabs = [...this.find("tabs").children], at = tabs.indexOf(document.activeElement);
                const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];

                if (!step || at < 0)
                        return;
                const next = tabs[(at + step + tabs.length) % tabs.length];

                next.click();
                next.focus();
        }

        showTable() {
                for (const tab of this.find("tabs").children) {
                        const chosen = tab.id === `tab-${this.tab}`;

                        tab.setAttribute("aria-selected", String(chosen));
                        tab.tabIndex = chosen ? 0 : -1;
                }
                this.find("table").setAttribute("aria-labelledby", `tab-${this.tab}`);
                if (this.tab === "functions")
                        this.showFunctions();
                else if (this.tab === "lines")
                        this.showLines();
                else if (this.tab === "waits")
                        this.showWaitTable();
                else
                        this.showDimension(Number(this.tab));
        }

        showFunctions() {
                const { frames, strings } = this.model, view = this.view, rows = [],
                        matches = this.flame.matches;

                for (let i = 0; i < frames.n; i++)
                        if ((view.a.total[i] || view.b.total[i]) && (!matches || matches[i]))
                                rows.push({ frame: i, order: i, selfA: view.a.self[i],
                                        totalA: view.a.total[i], selfB: view.b.self[i],
                                        totalB: view.b.total[i] });
                const name = { key: "name", title: "Function", first: true,
                        value: (row) => strings[frames.name[row.frame]].toLowerCase(),
                               cell: (row) => this.functionCell(row.frame) };

                new Table(this.find("table"), "Functions", view.isDiff ? [...this.diffColumns(), name]
                        : [...this.sumColumns(), name], rows,
                          view.isDiff ? "change" : "self");
        }

        /** The function whose lines are shown: that which was picked last, or that with most of its own. */
        linedFunction() {
                const { frames } = this.model, { lined, a } = this.view;

                if (this.lineFunction >= 0)
                        return this.lineFunction;
                let best = -1;

                for (let i = 0; i < frames.n; i++)
                        if (lined[i] && (best < 0 || a.self[i] > a.self[best]
                                || (a.self[i] === a.self[best] && a.total[i] > a.total[best])))
                                best = i;
                return best;
        }

        /** Where the time of one function goes, line by line. */
        showLines() {
                const { frames, strings } = this.model, frame = this.linedFunction(),
                        file = strings[frames.file[frame]];
                const rows = [...this.view.sumLines(frame)].map(([line, [self, total]]) =>
                        ({ line, order: line, selfA: self, totalA: total }));
                const where = (row) => (row.line ? `${file.split("/").pop() || "line"}:${row.line}` : "line not known");
                const table = element("div");

                this.find("table").replaceChildren(
                        element("p", { className: "lines-of" },
                                element("b", { title: strings[frames.name[frame]] },
                                        element("bdi", {}, strings[frames.name[frame]])),
                                " ", element("span", { className: "muted" }, element("bdi", {}, file),
                                        " · others: pick a function in the picture or in its table")),
                        table);
                new Table(table, "Lines", [...this.sumColumns(),
                        { key: "line", title: "Line", first: true,
                                value: (row) => String(row.line).padStart(10, "0"),
                                cell: (row) => element("bdi", {}, where(row)) }], rows, "total");
        }

        /** Shows the lines of a function, and goes to their tab. */
        openLines(frame) {
                this.lineFunction = frame;
                this.setTab("lines");
        }

        sumColumns() {
                const kind = this.model.meta.kinds[this.view.kind], unit = kind ? kind.unit : "";
                const column = (key, title, help) => [
                        { key, title, help, numeric: true, value: (row) => row[`${key}A`],
                                text: (row) => formatValue(row[`${key}A`], unit) },
                        { key: `${key}-share`, title: "%", numeric: true, value: (row) => row[`${key}A`],
                                bar: (row) => this.view.shareA(row[`${key}A`]),
                          text: (row) => formatTenths(this.view.shareA(row[`${key}A`]) * 100) },
                ];

                return [...column("self", "Self", "samples in the function itself"),
                        ...column("total", "Total", "samples in the function and in what it calls")];
        }

        diffColumns() {
                const share = (key, title, value) => ({ key, title, numeric: true, value,
                        text: (row) => formatShare(value(row)) });
                const change = (row) => this.view.shareB(row.selfB) - this.view.shareA(row.selfA);
                const changeTotal = (row) => this.view.shareB(row.totalB) - this.view.shareA(row.totalA);
                const colored = (how) => (row) => element("span",
                        { className: how(row) > 0 ? "more-text" : how(row) < 0 ? "less-text" : "" },
                        formatChange(how(row)));

                return [{ key: "change", title: "Self ±", help: "change of the function's own share",
                        numeric: true, value: (row) => Math.abs(change(row)), cell: colored(change) },
                        share("selfA", this.sideName(0), (row) => this.view.shareA(row.selfA)),
                                share("selfB", this.sideName(1), (row) => this.view.shareB(row.selfB)),
                        { key: "change-total", title: "Total ±",
                                help: "change of the share with what it calls", numeric: true,
                                value: (row) => Math.abs(changeTotal(row)), cell: colored(changeTotal) }];
        }

        functionCell(frame) {
                const { frames, strings } = this.model, name = strings[frames.name[frame]],
                        object = strings[frames.object[frame]] || strings[frames.file[frame]];

                return element("div", { className: "function" },
                               element("button", { className: "link", title: `${name}\n${object}`,
                                       onclick: () => this.mark(frame) }, element("bdi", {}, name)),
                               frames.inlined[frame] ? element("span", { className: "tag" }, "inlined")
                                       : null,
                               element("span", { className: "muted object" },
                                       element("bdi", {}, object.split("/").pop())));
        }

        /** Marks a function of the table; the lines will be its own. */
        mark(frame) {
                if (this.view.lined[frame])
                        this.lineFunction = frame;
                this.searchFor(this.model.strings[this.model.frames.name[frame]]);
        }

        /** Marks one function in the flame graph; once more, and nothing is marked. */
        searchFor(name) {
                const text = `^${name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}$`, same = this.query.regex
                        && this.query.text === text;

                this.history.push(this.snapshot());
                this.query = same ? { text: "", regex: false } : { text, regex: true };
                this.find("search").value = this.query.text;
                this.search();
                this.showButtons();
                if (same)
                        this.showTable();
        }

        showDimension(dimension) {
                const { key, n } = this.model.dimensions[dimension], view = this.view,
                        { a, b } = view.sumDimension(dimension), rows = [];
                const sumA = a.reduce((x, y) => x + y, 0), sumB = b.reduce((x, y) => x + y, 0);
                const unit = (this.model.meta.kinds[view.kind] || { unit: "" }).unit,
                        words = DIMENSION_WORDS[key] || [key, key];

                for (let i = 0; i < n; i++)
                        if (a[i] || b[i])
                                rows.push({ value: i, order: i, a: a[i], b: b[i],
                                        chosen: view.filters.get(dimension) === i });
                const shareOf = (row) => (view.isDiff ? (sumB ? row.b / sumB : 0) - (sumA ? row.a / sumA : 0)
                        : sumA ? row.a / sumA : 0);
                const columns = [{ key: "value", title: view.isDiff ? this.sideName(0) : unit === "count"
                        ? "Samples" : "Value", numeric: true, value: (row) => row.a,
                        text: (row) => formatValue(row.a, unit) }];

                if (view.isDiff)
                        columns.push({ key: "after", title: this.sideName(1), numeric: true,
                                value: (row) => row.b, text: (row) => formatValue(row.b, unit) },
                                     { key: "change", title: "Share ±", numeric: true,
                                             value: (row) => Math.abs(shareOf(row)),
                                             text: (row) => formatChange(shareOf(row)) });
                else
                        columns.push({ key: "share", title: "%", numeric: true, value: (row) => row.a,
                                bar: shareOf, text: (row) => formatTenths(shareOf(row) * 100) });
                columns.push({ key: "name", title: words[0], first: true,
                        value: (row) => view.labelOf(dimension, row.value).toLowerCase(),
                               cell: (row) => this.valueCell(dimension, row) });
                new Table(this.find("table"), words[1], columns, rows,
                        view.isDiff ? "change" : "value");
        }

        valueCell(dimension, row) {
                const label = this.view.labelOf(dimension, row.value),
                        ids = this.model.dimensions[dimension].ids ? this.view.idsOf(dimension, row.value)
                        : null;
                const pick = element("button", { className: "link", "aria-pressed": String(row.chosen),
                        title: row.chosen ? "look at all again" : "look at this alone",
                                                 onclick: () => this.setFilter(dimension, row.value) },
                                                         element("bdi", {}, ids ? ids.span : label));

                if (!ids)
                        return element("div", { className: "function" }, pick);
                return element("div", { className: "function" }, pick,
                               element("span", { className: "muted object" }, `trace ${ids.trace}`),
                               element("button", { className: "copy",
                                       "aria-label": `Copy trace id ${ids.trace}`, title: "Copy the trace id",
                                       onclick: () => this.copy(ids.trace) }, "Copy"));
        }

        /* Colours and help */

        savedTheme() {
                try {
                        return localStorage.getItem("spanprof-theme") || "system";
                } catch {
                        return "system";
                }
        }

        setTheme(theme) {
                const dark = theme === "dark" || (theme === "system"
                        && matchMedia("(prefers-color-scheme: dark)").matches);

                this.theme = theme;
                document.documentElement.dataset.theme = dark ? "dark" : "light";
                this.find("theme").setAttribute("aria-label",
                        `Colours: ${theme === "system" ? "as the system" : theme}`);
                this.flame.setTheme(dark);
                if (this.view.root) {
                        this.timeline.update();
                        this.showLegend();
                }
        }

        nextTheme() {
                const dark = document.documentElement.dataset.theme === "dark",
                        system = matchMedia("(prefers-color-scheme: dark)").matches;
                const theme = dark === system ? (dark ? "light" : "dark") : "system";

                this.setTheme(theme);
                try {
                        localStorage.setItem("spanprof-theme", theme);
                } catch {
                        /* a browser that keeps nothing for files: the choice lasts as long as the page */
                }
        }

        showHelp() {
                this.find("help-box").showModal();
        }
}

async function start() {
        try {
                const begin = performance.now(), data = document.getElementById("data");
                const model = readModel(await unpack(data.textContent));

                data.remove();          /* megabytes that nobody needs any more */
                new Page(model);
                document.documentElement.dataset.ready = (performance.now() - begin).toFixed(0);
        } catch (error) {
                const trouble = document.getElementById("trouble");

                trouble.hidden = false;
                trouble.textContent = typeof DecompressionStream === "undefined"
                        ? "This page needs a browser of 2023 or later."
                                                                                : `This page cannot be shown: ${error.message}`;
                throw error;
        }
}

start();
