/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names that are longer than their room: the same rules, in the same order, as those of the text report
 * (base/util/short-name.c, which teaches them). tests/integration/test-page-shown.py compares both.
 */

const ELLIPSIS = "…";

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

/** An ellipsis for what stands between brackets, where that is longer. */
function foldBrackets(name, open, close) {
        let folded = "";

        for (let i = 0; i < name.length; i++) {
                const end = name[i] === open && !followsOperator(name, i)
                        ? findEnd(name, i, open, close) : -1;

                folded += name[i];
                /* as many bytes as an ellipsis has; a receiver of Go is no list of parameters */
                if (end < 0 || new TextEncoder().encode(name.slice(i, end)).length <= 3
                        || (open === "(" && name[end + 1] === "."))
                        continue;
                folded += ELLIPSIS + close;
                i = end;
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
                if ("./$".includes(name[at]) && !/[0-9]/.test(name[at + 1]))
                        return at + 1;
        }
        return -1;
}

function countLetters(name) {
        return [...name].length;
}

/** At most `width` letters of a name. */
function shortName(name, width) {
        let short = name, at = 0;

        if (name.length <= width || countLetters(name) <= width)
                return name;
        short = foldBrackets(short, "<", ">");
        if (countLetters(short) > width)
                short = foldBrackets(short, "(", ")");
        for (let next; countLetters(short.slice(at)) + (at ? 1 : 0) > width
                && (next = nextScope(short, at)) >= 0;)
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
                        narrow.push([element, element.clientWidth / element.scrollWidth]);
        for (const [element, share] of narrow)
                element.firstChild.textContent = shortName(element.fullName,
                        Math.floor(countLetters(element.fullName) * share));
}

if (typeof module !== "undefined")
        module.exports.shortName = shortName;
