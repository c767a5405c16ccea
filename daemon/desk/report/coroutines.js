/* SPDX-License-Identifier: Apache-2.0 */

const data = JSON.parse(document.getElementById("data").textContent);
const byId = id => document.getElementById(id);
const ROW = 18, LABEL = 15;             /* px of a row, rem of its name */
const bins = Math.max(1, ...data.coroutines.map(c => (c.timeline || "").length));

const formatTime = ns => ns < 1e3 ? `${ns} ns` : ns < 1e6 ? `${(ns / 1e3).toFixed(1)} µs` :
        ns < 1e9 ? `${(ns / 1e6).toFixed(1)} ms` : ns < 600e9 ? `${(ns / 1e9).toFixed(2)} s` :
        ns < 36e12 ? `${(ns / 60e9).toFixed(1)} min` : `${formatCount(Math.round(ns / 36e11))} h`;
const formatCount = n => n.toLocaleString("en");
const placeOf = (address, name) => name ? `${name.replace(/^\(anonymous namespace\)::/, "")} ${address}`
        : address;
const idOf = c => c.station === undefined ? c.probe_id : `station ${c.station} ${c.probe_id}`;
/* by what people know: the function, where one is known */
const functionOf = c => (c.last_function || c.function || "").replace(/^\(anonymous namespace\)::/, "");
const nameOf = c => functionOf(c) ? `${functionOf(c)} · ${idOf(c)}` : idOf(c);
/* as much of the function as the number leaves room for */
const labelOf = (c, letters) => {
        const number = c.station === undefined ? c.probe_id : `${c.station}`;

        return functionOf(c) ? `${shortName(functionOf(c), Math.max(4, letters - number.length - 1))} ${number}`
                : idOf(c);
};

const pairs = (list, rows) => list.replaceChildren(...rows.map(([name, value]) => {
        const row = document.createElement("div");
        row.append(Object.assign(document.createElement("dt"), { textContent: name }),
                   Object.assign(document.createElement("dd"), { textContent: value }));
        return row;
}));

const fillTable = (table, heads, rows) => {
        const line = (tag, cells) => {
                const row = document.createElement("tr");
                cells.forEach((text, i) => row.append(Object.assign(document.createElement(tag),
                        { textContent: text, className: heads[i][1] ? "text" : "" })));
                return row;
        };
        table.replaceChildren(line("th", heads.map(h => h[0])), ...rows.map(cells => line("td", cells)));
};

pairs(byId("facts"), [
        ["time", formatTime(data.end_ns - data.start_ns)], ["coroutines", formatCount(data.n_coroutines)],
        ["threads", formatCount(data.threads)], ["events", formatCount(data.events)],
        ["resumes/s", formatCount(Math.round(data.resumes * 1e9 / Math.max(1, data.end_ns - data.start_ns)))],
        ["run", formatTime(data.run_ns)], ["suspended", formatTime(data.suspended_ns)],
        ["moves", formatCount(data.migrations)], ["lost events", formatCount(data.lost)],
        ["stretches not known", formatCount(data.unknown_stretches)],
]);
if (data.lost_wakeups.length) {
        const some = data.lost_wakeups.slice(0,
                5).map(c => `${nameOf(c)} for ${formatTime(c.state_ns)} at ${placeOf(c.last_address, c.last_function)}`);
        const n = data.lost_wakeups.length;
        byId("alarm").textContent =
                `${formatCount(n)} lost wake-up${n > 1 ? "s" : ""} suspected: ${some.join("; ")}${n > 5 ? " …" : ""}`;
}

const stretchRows = rows => rows.slice(0, 100).map(s => [formatTime(s.ns),
        `+${((s.start_ns - data.start_ns) / 1e9).toFixed(6)} s`,
        nameOf(s), placeOf(s.address, s.function), s.thread]);
const stretchHeads = [["time"], ["from"], ["coroutine", true], ["address", true], ["thread"]];
fillTable(byId("suspensions"), stretchHeads, stretchRows(data.longest_suspensions));
fillTable(byId("runs"), stretchHeads, stretchRows(data.longest_runs));
fillTable(byId("addresses"), [["suspended"], ["times"], ["address", true]],
          data.addresses.slice(0, 200).map(a => [formatTime(a.suspended_ns), formatCount(a.times),
                  placeOf(a.address, a.function)]));

let shown = [], chosen = null;
const scroller = byId("scroller"), canvas = byId("canvas");

const states = new Map();
data.coroutines.forEach(c => states.set(c.state, (states.get(c.state) || 0) + 1));
byId("state").append(...[...states].sort().map(([s, n]) => new Option(`${s} (${formatCount(n)})`, s)));

const choose = () => {
        const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
        const key = byId("sort").value, state = byId("state").value, up = key === "station" ? -1 : 1;

        shown = data.coroutines.filter(c => (!state || c.state === state) &&
                words.every(w => `${nameOf(c)} ${c.state} ${placeOf(c.last_address, c.last_function)}`.toLowerCase().includes(w)));
        shown.sort((a, b) => up * ((b[key] || 0) - (a[key] || 0)));
        byId("count").textContent = `${formatCount(shown.length)} of ${formatCount(data.n_coroutines)}`;
        byId("height").style.height = `${Math.max(0, shown.length * ROW - scroller.clientHeight)}px`;
        draw();
};

const drawRow = (context, c, y, label, width, colors) => {
        const cell = (width - label) / bins, text = c.timeline || "";

        if (c === chosen) {
                context.fillStyle = colors.mark;
                context.fillRect(0, y, width, ROW);
        }
        context.fillStyle = c.state === "lost wake-up?" ? colors.bad : colors.text;
        context.fillText(labelOf(c, Math.floor((label - 8) / context.measureText("m").width)), 4, y + ROW / 2,
                label - 8);
        for (let i = 0; i < text.length; i++) {
                const code = text.charCodeAt(i), run = code >= 97;

                if (code === 32)
                        continue;
                // what did not run of a part that ran was suspended: the part of the height says how much
                const part = run ? Math.max(0.2, (code - 96) / 10) : 0, high = ROW - 4;
                // on whole pixels: else there are stripes where two parts share one
                const from = Math.floor(label + i * cell), wide = Math.max(1,
                        Math.floor(label + (i + 1) * cell) - from);
                context.globalAlpha = run ? 1 : 0.25 + 0.75 * (code - 47) / 10;
                context.fillStyle = colors.wait;
                context.fillRect(from, y + 2, wide, high * (1 - part));
                context.fillStyle = colors.run;
                context.fillRect(from, y + 2 + high * (1 - part), wide, high * part);
        }
        context.globalAlpha = 1;
};

const draw = () => {
        const width = scroller.clientWidth, height = scroller.clientHeight, ratio = window.devicePixelRatio
                || 1;
        const style = getComputedStyle(document.documentElement), context = canvas.getContext("2d");
        const label = Math.floor(Math.min(LABEL * parseFloat(style.fontSize), 0.4 * width)),
                first = Math.floor(scroller.scrollTop / ROW);
        const colors = Object.fromEntries(["mark", "bad", "text", "run",
                "wait"].map(k => [k, style.getPropertyValue(`--${k}`).trim()]));

        byId("axis").style.paddingLeft = `${label}px`;
        canvas.width = width * ratio;
        canvas.height = height * ratio;
        context.scale(ratio, ratio);
        context.font = `${0.8 * parseFloat(style.fontSize)}px ui-monospace, monospace`;
        context.textBaseline = "middle";
        for (let i = first; i < shown.length && (i - first) * ROW < height; i++)
                drawRow(context, shown[i], (i - first) * ROW - scroller.scrollTop % ROW, label, width,
                        colors);
};

const showDetail = c => {
        chosen = c;
        pairs(byId("detail"), [
                ["coroutine", nameOf(c)], ["state", `${c.state} for ${formatTime(c.state_ns)}`],
                        ["run", formatTime(c.run_ns)],
                ["suspended", formatTime(c.suspended_ns)], ["resumes",
                        `${formatCount(c.resumes)} (${c.resumes_per_second.toFixed(1)}/s)`],
                ["longest run", formatTime(c.longest_run_ns)],
                        ["longest suspension", formatTime(c.longest_suspend_ns)],
                ["moves", formatCount(c.migrations)], ["lost events", formatCount(c.lost)],
                        ["last thread", c.last_thread],
                ["last address", placeOf(c.last_address, c.last_function)],
        ]);
        draw();
};

scroller.addEventListener("scroll", draw);
scroller.addEventListener("click", event => {
        const y = event.clientY - scroller.getBoundingClientRect().top + scroller.scrollTop;

        if (shown[Math.floor(y / ROW)])
                showDetail(shown[Math.floor(y / ROW)]);
});
scroller.addEventListener("keydown", event => {
        const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20 }[event.key];

        if (!step || !shown.length)
                return;
        event.preventDefault();
        const at = Math.min(shown.length - 1, Math.max(0, shown.indexOf(chosen) + step));
        if (at * ROW < scroller.scrollTop || (at + 1) * ROW > scroller.scrollTop + scroller.clientHeight)
                scroller.scrollTop = Math.max(0, (at - 5) * ROW);
        showDetail(shown[at]);
});
for (const id of ["find", "sort", "state"])
        byId(id).addEventListener("input", () => { scroller.scrollTop = 0; choose(); });
window.addEventListener("resize", choose);

byId("axis").append(...[0, 0.25, 0.5, 0.75, 1].map(part => Object.assign(document.createElement("span"),
        { textContent: formatTime(Math.round(part * bins * data.timeline_bin_ns)) })));
choose();
