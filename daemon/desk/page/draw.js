/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Flame: draws the boxes of a view on a canvas, and lets people walk in them.
 *
 * Laying out goes from the root down through boxes that are at least a pixel wide, so its work is bounded by
 * the screen and not by the data; drawing takes the rows that are scrolled into sight. Boxes that are too
 * narrow are drawn as one grey stripe each run.
 *
 * Zooming makes one box as wide as the canvas. Its ancestors are as wide above it, and lead back.
 */

const FLAME_MIN_WIDTH = 1;              /* pixels of the screen; narrower boxes are a stripe */
const FLAME_GAP = 1;

/*
 * Kinds of frames: hue, saturation and the words of the legend. Within a kind the lightness differs a little
 * from function to function, so that neighbours are told apart.
 */
const FRAME_KINDS = [
        { name: "Native", hue: 33, saturation: 88, types: ["native", "c", "cpp", "rust", ""] },
        { name: "Kernel", hue: 4, saturation: 75, types: ["kernel"] },
        { name: "Java", hue: 138, saturation: 45, types: ["jvm", "java"] },
        { name: "Java, interpreted", hue: 82, saturation: 48, types: ["jvm interpreted"] },
        { name: "JavaScript", hue: 203, saturation: 68, types: ["v8js", "node", "javascript"] },
        { name: "Python, PHP, Perl", hue: 230, saturation: 62,
                types: ["cpython", "python", "php", "phpjit", "ruby", "perl", "lua"] },
        { name: "Go", hue: 178, saturation: 48, types: ["go"] },
        { name: ".NET, BEAM", hue: 268, saturation: 48, types: ["dotnet", "beam"] },
        { name: "Unknown", hue: 220, saturation: 9, types: ["unknown"] },
];
const OTHER_KIND = { name: "Other", hue: 310, saturation: 35, types: [] };

function kindOfType(type) {
        return FRAME_KINDS.find((kind) => kind.types.includes(type)) || OTHER_KIND;
}

/** A number from 0 to 1 that is always the same for a text. */
function scatter(text) {
        let hash = 2166136261;

        for (let i = 0; i < text.length && i < 64; i++)
                hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
        return ((hash ^ (hash >>> 15)) >>> 0) / 4294967296;
}

class Flame {
        /** on: { zoom(box), select(box), hover(box or null, event) } */
        constructor(canvas, scroller, spacer, view, on) {
                Object.assign(this, { canvas, scroller, spacer, view, on });
                this.context = canvas.getContext("2d");
                this.upright = false;           /* the root below */
                this.matches = null;            /* one byte for each function that was searched for */
                this.colors = new Map();
                this.rows = [];
                this.hovered = null;
                canvas.addEventListener("pointermove", (event) => this.point(event));
                canvas.addEventListener("pointerleave", () => this.point(null));
                canvas.addEventListener("click", (event) => this.click(event));
                canvas.addEventListener("keydown", (event) => this.key(event));
                canvas.addEventListener("focus", () => this.draw());
                canvas.addEventListener("blur", () => this.draw());
                scroller.addEventListener("scroll", () => this.draw());
        }

        /** Starts anew with the view's boxes. */
        show() {
                this.zoomed = this.view.root;
                this.selected = this.view.root;
                this.layout();
                this.scroller.scrollTop = this.upright ? this.scroller.scrollHeight : 0;
                this.draw();
        }

        zoom(box) {
                this.zoomed = box;
                this.selected = box;
                this.layout();
                this.reveal(box);
                this.draw();
        }

        setTheme(dark) {
                this.dark = dark;
                this.colors.clear();
                this.draw();
        }

        /* Layout */

        measure() {
                const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);

                this.ratio = window.devicePixelRatio || 1;
                this.width = Math.max(100, this.scroller.clientWidth);
                this.height = Math.max(60, this.scroller.clientHeight);
                this.rowHeight = Math.round(rem * 1.25);
                this.fontSize = Math.round(rem * 0.75 * 10) / 10;
        }

        layout() {
                const view = this.view, zoomed = this.zoomed;

                this.measure();
                this.rows = [];
                for (let box = zoomed; box; box = box.parent)
                        this.rows[box.depth] = [{ box, x: 0, w: this.width }];
                this.scale = view.widthOf(zoomed) ? this.width / view.widthOf(zoomed) : 0;
                this.layoutBelow(zoomed);
                this.contentHeight = this.rows.length * this.rowHeight;
                this.spacer.style.height = `${Math.max(0, this.contentHeight - this.height)}px`;
        }

        /** With a stack of its own: programs recurse deeper than scripts may. */
        layoutBelow(top) {
                const open = [{ box: top, x: 0, w: this.width }];

                while (open.length) {
                        const { box, x } = open.pop(), row = box.depth + 1;
                        let at = x, rest = null;

                        for (const child of this.view.childrenOf(box)) {
                                const w = this.view.widthOf(child) * this.scale;

                                if (w >= FLAME_MIN_WIDTH) {
                                        const placed = { box: child, x: at, w };

                                        (this.rows[row] ||= []).push(placed);
                                        open.push(placed);
                                        rest = null;
                                } else if (rest)
                                        rest.w += w;
                                else if (w > 0) {
                                        rest = { box: null, x: at, w };
                                        (this.rows[row] ||= []).push(rest);
                                }
                                at += w;
                        }
                }
        }

        /** Where a row begins, in pixels of the whole drawing. */
        topOf(row) {
                return this.upright ? Math.max(this.contentHeight, this.height) - (row + 1) * this.rowHeight
                        : row * this.rowHeight;
        }

        /** Scrolls so that a box is in sight. */
        reveal(box) {
                const top = this.topOf(box.depth), bottom = top + this.rowHeight;

                if (top < this.scroller.scrollTop)
                        this.scroller.scrollTop = top;
                else if (bottom > this.scroller.scrollTop + this.height)
                        this.scroller.scrollTop = bottom - this.height;
        }

        /* Drawing */

        draw() {
                const { canvas, context, ratio } = this;

                if (!this.rows.length)
                        return;
                if (canvas.width !== Math.round(this.width * ratio)
                        || canvas.height !== Math.round(this.height * ratio)) {
                        canvas.width = Math.round(this.width * ratio);
                        canvas.height = Math.round(this.height * ratio);
                        canvas.style.width = `${this.width}px`;
                        canvas.style.height = `${this.height}px`;
                }
                context.setTransform(ratio, 0, 0, ratio, 0, 0);
                context.clearRect(0, 0, this.width, this.height);
                context.font = `${this.fontSize}px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace`;
                context.textBaseline = "middle";
                this.letter = context.measureText("m").width;
                for (const row of this.rowsInSight())
                        for (const placed of this.rows[row] || [])
                                this.drawBox(placed, this.topOf(row) - this.scroller.scrollTop);
                this.drawSelection();
        }

        rowsInSight() {
                const first = Math.floor(this.scroller.scrollTop / this.rowHeight) - 1;
                const n = Math.ceil(this.height / this.rowHeight) + 2, rows = [];
                const last = Math.ceil(Math.max(this.contentHeight, this.height) / this.rowHeight) - 1;

                for (let i = Math.max(0, first); i <= first + n; i++)
                        rows.push(this.upright ? last - i : i);
                return rows.filter((row) => row >= 0 && row < this.rows.length);
        }

        drawBox({ box, x, w }, y) {
                const context = this.context, width = Math.max(0.5, w - (w > 3 ? FLAME_GAP : 0));

                context.globalAlpha = this.isFaded(box) ? 0.32 : 1;
                context.fillStyle = box ? this.colorOf(box) : this.dark ? "#333a46" : "#e2e6ed";
                this.fill(x, y, width, this.rowHeight - FLAME_GAP);
                if (box && box.frame >= 0 && this.view.model.frames.inlined[box.frame] && w > 4)
                        this.hatch(x, y, width);
                if (this.matches && box && box.frame >= 0 && this.matches[box.frame])
                        this.mark(x, y, width);
                context.globalAlpha = this.isFaded(box) ? 0.6 : 1;
                if (box && w > this.letter * 3)
                        this.write(box, x, y, w);
                context.globalAlpha = 1;
        }

        fill(x, y, width, height) {
                if (width < 6)
                        return this.context.fillRect(x, y, width, height);
                this.context.beginPath();
                this.context.roundRect(x, y, width, height, 2);
                this.context.fill();
        }

        /** Ancestors of the zoomed box, and what was not searched for. */
        isFaded(box) {
                if (this.matches)
                        return !box || box.frame < 0 || !this.matches[box.frame];
                return box && box.depth < this.zoomed.depth;
        }

        /** Inlined code has no frame in the machine: stripes. */
        hatch(x, y, width) {
                const context = this.context, height = this.rowHeight - FLAME_GAP;

                context.save();
                context.beginPath();
                context.rect(x, y, width, height);
                context.clip();
                context.strokeStyle = this.dark ? "rgba(0, 0, 0, 0.28)" : "rgba(255, 255, 255, 0.55)";
                context.lineWidth = 2;
                context.beginPath();
                for (let i = Math.floor((x - height) / 8) * 8; i < Math.min(x + width, this.width); i += 8) {
                        context.moveTo(i, y + height);
                        context.lineTo(i + height, y);
                }
                context.stroke();
                context.restore();
        }

        mark(x, y, width) {
                this.context.fillStyle = this.dark ? "#f05bd5" : "#c2189f";
                this.context.fillRect(x, y + this.rowHeight - FLAME_GAP - 3, width, 3);
        }

        write(box, x, y, w) {
                const context = this.context, from = Math.max(x, 0) + 4,
                        room = Math.min(x + w, this.width) - from - 4;
                const letters = Math.floor(room / this.letter);

                if (letters < 2)
                        return;
                const name = shortName(this.view.nameOf(box), letters);

                context.fillStyle = box.frame < 0 ? (this.dark ? "#eef1f6" : "#1c2330") : this.isDark(box)
                        ? "#fff" : "#15181d";
                context.fillText(name, from, y + this.rowHeight / 2, room);
        }

        drawSelection() {
                const context = this.context;

                for (const [box, width] of [[this.hovered, 1],
                        [document.activeElement === this.canvas ? this.selected : null, 2]]) {
                        const placed = box && (this.rows[box.depth] || []).find((other) => other.box === box);

                        if (!placed)
                                continue;
                        context.strokeStyle = this.dark ? "#fff" : "#0b1220";
                        context.lineWidth = width;
                        context.strokeRect(placed.x + width / 2,
                                this.topOf(box.depth) - this.scroller.scrollTop + width / 2,
                                           Math.max(2, placed.w - FLAME_GAP - width),
                                                   this.rowHeight - FLAME_GAP - width);
                }
        }

        /* Colours */

        isDark(box) {
                return this.view.isDiff && this.dark && Math.abs(this.changeOf(box)) < 0.35;
        }

        colorOf(box) {
                if (this.view.isDiff)
                        return this.changeColor(this.changeOf(box));
                if (box.frame < 0)
                        return box.depth ? (this.dark ? "#43526b" : "#b9c6da") : this.dark ? "#39424f"
                                : "#d3d9e3";
                let color = this.colors.get(box.frame);

                if (!color) {
                        color = this.frameColor(box.frame);
                        this.colors.set(box.frame, color);
                }
                return color;
        }

        frameColor(frame) {
                const { frames, strings } = this.view.model, kind = kindOfType(strings[frames.type[frame]]);
                const spread = scatter(strings[frames.name[frame]]), light = this.dark ? 58 + spread * 12
                        : 68 + spread * 12;

                return `hsl(${kind.hue + (spread - 0.5) * 14}, ${kind.saturation * (this.dark ? 0.82 : 1)}%, ${light}%)`;
        }

        /** From -1 (only before) to 1 (only after), fading where the change is too small to matter. */
        changeOf(box) {
                const a = this.view.shareA(box.a), b = this.view.shareB(box.b), sum = a + b;

                if (!sum)
                        return 0;
                return (b - a) / sum * Math.min(1, Math.abs(b - a) / 0.002);
        }

        changeColor(change) {
                const strength = Math.min(1, Math.sqrt(Math.abs(change)) * 1.15), hue = change > 0 ? 4 : 212;

                if (strength < 0.02)
                        return this.dark ? "#3a424f" : "#dfe4ec";
                if (this.dark)
                        return `hsl(${hue}, ${12 + 62 * strength}%, ${30 + 30 * strength}%)`;
                return `hsl(${hue}, ${20 + 64 * strength}%, ${90 - 26 * strength}%)`;
        }

        /* Pointer and keys */

        boxAt(event) {
                const area = this.canvas.getBoundingClientRect();
                const x = event.clientX - area.left, y = event.clientY - area.top + this.scroller.scrollTop;
                const row = this.upright
                        ? Math.floor((Math.max(this.contentHeight, this.height) - y) / this.rowHeight)
                                         : Math.floor(y / this.rowHeight);
                const placed = (this.rows[row] || []).find((other) => x >= other.x && x < other.x + other.w);

                return placed ? placed.box : null;
        }

        point(event) {
                const box = event ? this.boxAt(event) : null;

                this.canvas.style.cursor = box ? "pointer" : "default";
                if (box !== this.hovered) {
                        this.hovered = box;
                        this.draw();
                }
                this.on.hover(box, event);
        }

        click(event) {
                const box = this.boxAt(event);

                if (box)
                        this.on.zoom(box);
        }

        select(box) {
                this.selected = box;
                this.reveal(box);
                this.draw();
                this.on.select(box);
        }

        /** The neighbour in the same row, over the borders of parents. */
        neighbour(step) {
                const row = (this.rows[this.selected.depth] || []).filter((placed) => placed.box);
                const at = row.sort((a, b) => a.x - b.x).findIndex((placed) => placed.box === this.selected);

                return at >= 0 && row[at + step] ? row[at + step].box : null;
        }

        widestChild() {
                const below = (this.rows[this.selected.depth + 1] || []).filter((placed) => placed.box
                        && placed.box.parent === this.selected);

                return below.length ? below.reduce((a, b) => (b.w > a.w ? b : a)).box : null;
        }

        key(event) {
                const deeper = this.upright ? "ArrowUp" : "ArrowDown", back = this.upright ? "ArrowDown"
                        : "ArrowUp";
                const to = { [deeper]: () => this.widestChild(), [back]: () => this.selected.parent,
                             ArrowLeft: () => this.neighbour(-1), ArrowRight: () => this.neighbour(1),
                             Home: () => this.view.root }[event.key];

                if (event.altKey || event.ctrlKey || event.metaKey)
                        return;
                if (event.key === "Enter" || event.key === " ")
                        this.on.zoom(this.selected);
                else if (to) {
                        const box = to();

                        if (box)
                                this.select(box);
                } else
                        return;
                event.preventDefault();
        }
}
