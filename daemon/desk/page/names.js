/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names that are longer than their room: the same rules, in the same order, as those of the text report
 * (core/base/data/short-name.c, which teaches them). tests/integration/desk/test-page-shown.py compares both.
 */

const ELLIPSIS = "…";

/** What a compiler appends to names of functions. */
const SUFFIX = /^\.(part\.|constprop\.|isra\.|cold|lto_priv\.|llvm\.|localalias)/;

/** Is the bracket at `at` the name of an operator: `operator<`, `operator<<`, `operator()`? */
function followsOperator(name, at) {
        const bracket = name[at];

        while (at > 0 && name[at - 1] === bracket)
                at--;
        return name.endsWith("operator", at);
}

/** Where what opens at `at` is closed; -1 = nowhere. `->` closes nothing. */
function findEnd(name, at, open, close) {
        let depth = 0;

        for (; at < name.length; at++) {
                if (name[at] === open)
                        depth++;
                else if (name[at] === close && name[at - 1] !== "-" && --depth === 0)
                        return at;
        }
        return -1;
}

/** Is what stands between two brackets shown as an ellipsis? A receiver of Go and a whole name are not. */
function isFolded(name, at, end) {
        const isName = name[at] === "<" && (at === 0 || name[at - 1] === ".")
                && (end + 1 === name.length || name[end + 1] === "(");

        /* as many bytes as an ellipsis has */
        return new TextEncoder().encode(name.slice(at, end)).length > 3
                && !(name[at] === "(" && name[end + 1] === ".") && !isName;
}

/** `fill(inside)`, or an ellipsis, for what stands between brackets, where that is longer. */
function foldBrackets(name, open, close, fill = () => ELLIPSIS) {
        let folded = "";

        for (let i = 0; i < name.length; i++) {
                const end = name[i] === open && !followsOperator(name, i)
                        ? findEnd(name, i, open, close) : -1;

                folded += name[i];
                if (end < 0 || !isFolded(name, i, end))
                        continue;
                folded += fill(name.slice(i + 1, end)) + close;
                i = end;
        }
        return folded;
}

/** Where the argument of a template that begins at `at` ends: at its comma. */
function findComma(text, at) {
        let depth = 0;

        for (; at < text.length && (depth || text[at] !== ","); at++) {
                if ("<([{".includes(text[at]))
                        depth++;
                else if (">)]}".includes(text[at]) && depth)
                        depth--;
        }
        return at;
}

/** Arguments of a template, each without its scopes and its own arguments. */
function foldArguments(text) {
        let folded = "", at = 0;

        while (at < text.length) {
                const comma = findComma(text, at);

                for (let next; (next = nextScope(text, at)) >= 0 && next < comma;)
                        at = next;
                folded += foldBrackets(text.slice(at, comma), "<", ">");
                for (at = comma; at < text.length && ", ".includes(text[at]); at++)
                        folded += text[at];
        }
        return folded;
}

/** Where the scope behind the next separator begins; -1 = this is the last one. */
function nextScope(name, at) {
        let depth = 0;

        for (; at < name.length; at++) {
                if ("<([{".includes(name[at]))
                        depth++;
                else if (">)]}".includes(name[at]) && depth)
                        depth--;
                if (depth || at + 1 >= name.length)
                        continue;
                if (name.startsWith("::", at) && at + 2 < name.length)
                        return at + 2;
                if ("./$".includes(name[at]) && !/[0-9]/.test(name[at + 1])
                        && !SUFFIX.test(name.slice(at, at + 12)))
                        return at + 1;
        }
        return -1;
}

function countLetters(name) {
        return [...name].length;
}

/** At most `width` letters of a name; `keep`: arguments of templates stay, in short. */
function shortName(name, width, keep = false) {
        let short = name, at = 0;

        if (name.length <= width || countLetters(name) <= width)
                return name;
        short = foldBrackets(short, "<", ">", keep ? foldArguments : undefined);
        if (countLetters(short) > width)
                short = foldBrackets(short, "(", ")");
        for (let next; countLetters(short.slice(at)) + (at ? 1 : 0) > width
                && (next = nextScope(short, at)) >= 0 && !(keep && short.slice(at, next).includes("<"));)
                at = next;
        return width < 2 ? (width ? ELLIPSIS : "") : cutMiddle(short.slice(at), at > 0, width);
}

/** A third of the room is for the start. */
function cutMiddle(name, lead, width) {
        const letters = [...name], room = width - (lead ? 1 : 0), front = lead ? ELLIPSIS : "";
        const head = Math.trunc((room - 1) / 3);

        if (letters.length <= room)
                return front + name;
        if (!head && lead)
                return front + letters.slice(letters.length - room).join("");
        return front + letters.slice(0, head).join("") + ELLIPSIS
                + letters.slice(letters.length - (room - 1 - head)).join("");
}

/** Shortens what stands in elements that are too narrow for it; all are measured before one is changed. */
function fitNames(elements) {
        const narrow = [];

        for (const element of elements) {
                element.fullName ??= element.textContent;
                if (element.textContent !== element.fullName)
                        element.firstChild.textContent = element.fullName;
        }
        for (const element of elements)
                if (element.scrollWidth > element.clientWidth && element.clientWidth)
                        narrow.push({ element, name: element.fullName, width: Math.floor(
                                countLetters(element.fullName)
                                * element.clientWidth / element.scrollWidth) });
        for (const [row, short] of partTwins(narrow))
                row.element.firstChild.textContent = short;
}

/** [row, short name] of rows below each other: those that would become alike show their arguments. */
function partTwins(rows) {
        const names = new Map(), shorts = rows.map(({ name, width }) => shortName(name, width));

        rows.forEach(({ name }, i) => names.set(shorts[i], (names.get(shorts[i]) ?? new Set()).add(name)));
        return rows.map((row, i) => [row, names.get(shorts[i]).size > 1
                ? shortName(row.name, row.width, true) : shorts[i]]);
}

if (typeof module !== "undefined")
        module.exports.shortName = shortName;
