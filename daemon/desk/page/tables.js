/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Words for numbers, and tables: real ones, whose heads are buttons that sort.
 */

const TABLE_ROWS = 200;                 /* shown at first, and more each time that more are asked for */

function formatCount(value) {
        return Math.round(value).toLocaleString("en-US");
}

function formatShort(value) {
        if (value >= 1e9)
                return `${(value / 1e9).toPrecision(3)}G`;
        if (value >= 1e6)
                return `${(value / 1e6).toPrecision(3)}M`;
        if (value >= 1e4)
                return `${(value / 1e3).toPrecision(3)}k`;
        return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}

function formatSeconds(seconds) {
        if (seconds === 0)
                return "0 s";
        if (seconds < 1e-6)
                return `${(seconds * 1e9).toPrecision(3)} ns`;
        if (seconds < 1e-3)
                return `${(seconds * 1e6).toPrecision(3)} µs`;
        if (seconds < 1)
                return `${Number((seconds * 1e3).toPrecision(3))} ms`;
        if (seconds < 120)
                return `${Number(seconds.toFixed(2))} s`;
        if (seconds < 7200)
                return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
        return `${Math.floor(seconds / 3600)} h ${Math.round(seconds % 3600 / 60)} min`;
}

/* Numbers of values and shares are written as the text report writes them (desk/report/sheet.c). */

/** So many digits behind the point; what lies between two of them goes to the even one, as in C. */
function formatFixed(value, digits) {
        const isBetween = value * 2 ** (digits + 1) % 2 === 1, below = Math.floor(value * 10 ** digits);

        return (isBetween && below % 2 === 0 ? below / 10 ** digits : value).toFixed(digits);
}

/** Three digits in the largest of the units that leaves one before the point. */
function formatScaled(value, units, step) {
        let i = 0;

        for (; i + 1 < units.length && value >= step; i++)
                value /= step;
        return `${formatFixed(value, i && value < 10 ? 2 : i && value < 100 ? 1 : 0)} ${units[i]}`;
}

function formatValue(value, unit) {
        if (unit === "nanoseconds")
                return formatScaled(value, ["ns", "µs", "ms", "s"], 1000);
        if (unit === "bytes")
                return formatScaled(value, ["B", "KiB", "MiB", "GiB"], 1024);
        return unit === "count" || !unit ? formatCount(value) : `${formatCount(value)} ${unit}`;
}

function formatTenths(value) {
        return formatFixed(value, 1);
}

function formatShare(share) {
        return `${formatTenths(share * 100)}%`;
}

/** How many points of the whole, in hundredths, a share has grown. */
function formatChange(change) {
        return `${change < 0 ? "-" : "+"}${formatTenths(Math.abs(change) * 100)}`;
}

function formatPoints(change) {
        return `${formatChange(change)} points`;
}

/** An element with properties, and children or text: text is never taken for markup. */
function element(name, properties = {}, ...children) {
        const made = document.createElement(name);

        for (const [key, value] of Object.entries(properties))
                if (key in made)
                        made[key] = value;
                else
                        made.setAttribute(key, value);
        made.append(...children.filter((child) => child !== null && child !== undefined));
        return made;
}

/**
 * A table of objects. columns: { key, title, text(row) or cell(row), value(row), numeric, first }; value is
 * what is sorted by.
 */
class Table {
        constructor(parent, caption, columns, rows, sorted) {
                Object.assign(this, { parent, caption, columns, rows });
                this.column = columns.find((column) => column.key === sorted) || columns[0];
                this.down = true;
                this.shown = TABLE_ROWS;
                this.draw();
        }

        sort(column) {
                const at = this.columns.indexOf(column);

                this.down = column === this.column ? !this.down : Boolean(column.numeric);
                this.column = column;
                this.shown = TABLE_ROWS;
                this.draw();
                this.parent.querySelectorAll("thead button")[at].focus();
        }

        sortedRows() {
                const { value } = this.column, sign = this.down ? -1 : 1;
                const compare = this.column.numeric ? (a, b) => sign * (value(a) - value(b))
                                                    : (a, b) => sign * (value(a) < value(b) ? -1
                                                            : value(a) > value(b) ? 1 : 0);

                return this.rows.sort((a, b) => compare(a, b) || a.order - b.order);
        }

        draw() {
                const rows = this.sortedRows(), body = element("tbody");

                for (const row of rows.slice(0, this.shown))
                        body.append(this.drawRow(row));
                this.parent.replaceChildren(element("table", {},
                        element("caption", { className: "unseen" }, this.caption), this.drawHead(), body),
                                            this.drawRest(rows.length) || "");
                fitNames(this.parent.querySelectorAll(".link"));
        }

        drawHead() {
                const row = element("tr");

                for (const column of this.columns) {
                        const isSorted = column === this.column;
                        const head = element("th", { scope: "col", className: column.numeric ? "numeric"
                                : "" },
                                             element("button", { onclick: () => this.sort(column),
                                                     title: column.help || "" }, column.title,
                                                     element("span", { className: "arrow",
                                                             "aria-hidden": "true" }, isSorted
                                                             ? (this.down ? "▼" : "▲") : "")));

                        head.setAttribute("aria-sort", isSorted ? (this.down ? "descending" : "ascending")
                                : "none");
                        row.append(head);
                }
                return element("thead", {}, row);
        }

        drawRow(row) {
                const drawn = element("tr", { className: row.chosen ? "chosen" : "" });

                for (const column of this.columns) {
                        const cell = element(column.first ? "th" : "td",
                                { className: column.numeric ? "numeric" : "name" });

                        if (column.first)
                                cell.scope = "row";
                        if (column.bar) {
                                cell.classList.add("bar");
                                cell.style.setProperty("--share",
                                        `${Math.min(100, column.bar(row) * 100).toFixed(2)}%`);
                        }
                        cell.append(column.cell ? column.cell(row) : column.text(row));
                        drawn.append(cell);
                }
                return drawn;
        }

        drawRest(n) {
                if (n <= this.shown)
                        return null;
                return element("p", { className: "more" },
                               element("button", { className: "plain",
                                       onclick: () => { this.shown *= 5; this.draw(); } },
                                       `${formatCount(n - this.shown)} more`));
        }
}
