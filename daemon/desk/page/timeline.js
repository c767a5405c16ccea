/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Timeline: what was sampled in each second, and a brush to choose a part of the time.
 *
 * The brush is two sliders for keyboards and screen readers, and a drag over the drawing for pointers; both
 * move the same two borders, which lie between buckets.
 */

const NICE_STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600,
        7200, 14400, 28800, 86400];

class Timeline {
        /** on: { change(from, to) }, called with buckets; 0 and 0 = all. */
        constructor(canvas, sliders, model, view, on) {
                const meta = model.meta, longest = Math.max(...meta.sides.map((side) => side.lengthNs || 0));

                Object.assign(this, { canvas, sliders, model, view, on });
                this.context = canvas.getContext("2d");
                this.seconds = meta.bucketNs / 1e9;
                this.n = meta.bucketNs ? Math.floor(longest / meta.bucketNs) + 1 : 0;
                for (const slider of sliders) {
                        slider.min = 0;
                        slider.max = this.n;
                        slider.step = 1;
                        slider.addEventListener("input", () => this.slide(slider));
                        slider.addEventListener("focus", () => this.draw());
                        slider.addEventListener("blur", () => this.draw());
                }
                canvas.addEventListener("pointerdown", (event) => this.press(event));
                canvas.addEventListener("pointermove", (event) => this.drag(event));
                canvas.addEventListener("pointerup", (event) => this.release(event));
                canvas.addEventListener("dblclick", () => this.on.change(0, 0));
        }

        get hasTimes() {
                return this.n > 1;
        }

        update() {
                const from = this.view.from, to = this.view.to || this.n;

                if (!this.hasTimes)
                        return;
                this.sums = this.view.sumTimes(this.n);
                [this.sliders[0].value, this.sliders[1].value] = [from, to];
                this.sliders[0].setAttribute("aria-valuetext",
                        `${formatSeconds(from * this.seconds)} after the start`);
                this.sliders[1].setAttribute("aria-valuetext",
                        `${formatSeconds(to * this.seconds)} after the start`);
                this.draw();
        }

        slide(slider) {
                let from = Number(this.sliders[0].value), to = Number(this.sliders[1].value);

                if (from >= to && slider === this.sliders[0])
                        to = Math.min(this.n, from + 1);
                if (from >= to)
                        from = Math.max(0, to - 1);
                this.choose(from, to);
        }

        choose(from, to) {
                if (from <= 0 && to >= this.n)
                        this.on.change(0, 0);
                else
                        this.on.change(from, to);
        }

        /* Pointer */

        bucketAt(event) {
                const area = this.canvas.getBoundingClientRect();

                return Math.min(this.n,
                        Math.max(0, (event.clientX - area.left - this.left)
                                / (this.width - this.left) * this.n));
        }

        press(event) {
                if (event.button)
                        return;
                this.canvas.setPointerCapture(event.pointerId);
                this.pressed = { at: this.bucketAt(event), x: event.clientX };
                this.brush = null;
        }

        drag(event) {
                if (!this.pressed || Math.abs(event.clientX - this.pressed.x) < 4)
                        return;
                const to = this.bucketAt(event), from = this.pressed.at;

                this.brush = [Math.floor(Math.min(from, to)), Math.max(1, Math.ceil(Math.max(from, to)))];
                this.draw();
        }

        release() {
                const brush = this.brush;

                this.pressed = this.brush = null;
                if (brush)
                        this.choose(brush[0], brush[1]);
        }

        /* Drawing */

        draw() {
                const { canvas, context } = this, ratio = window.devicePixelRatio || 1;
                const style = getComputedStyle(document.documentElement),
                        color = (name) => style.getPropertyValue(name).trim();
                const rem = parseFloat(style.fontSize);

                this.width = canvas.clientWidth;
                this.height = canvas.clientHeight;
                this.left = Math.round(rem * 4.2);
                this.bottom = Math.round(this.height - rem * 1.25);
                canvas.width = Math.round(this.width * ratio);
                canvas.height = Math.round(this.height * ratio);
                context.setTransform(ratio, 0, 0, ratio, 0, 0);
                context.clearRect(0, 0, this.width, this.height);
                context.font = `${rem * 0.7}px system-ui, sans-serif`;
                this.drawAxes(rem, color);
                this.drawBars(color);
                this.drawBrush(color);
        }

        xOf(bucket) {
                return this.left + (this.width - this.left) * bucket / this.n;
        }

        /** The highest bar, of one side or of both together. */
        highest() {
                let most = 0;

                for (let i = 0; i < this.n; i++)
                        most = Math.max(most, this.sums[0][i], this.sums[1][i]);
                return most || 1;
        }

        drawAxes(rem, color) {
                const context = this.context, length = this.n * this.seconds,
                        room = Math.max(1, Math.floor((this.width - this.left) / (rem * 6)));
                const step = NICE_STEPS.find((seconds) => length / seconds <= room) || 86400;

                context.fillStyle = color("--muted");
                context.strokeStyle = color("--line");
                context.lineWidth = 1;
                context.textBaseline = "alphabetic";
                context.textAlign = "left";
                for (let i = 0; i * step < length; i++) {
                        const at = Number((i * step).toFixed(3)),
                                x = Math.round(this.xOf(at / this.seconds)) + 0.5;

                        context.beginPath();
                        context.moveTo(x, 2);
                        context.lineTo(x, this.bottom + 4);
                        context.stroke();
                        if (x + rem * 3 < this.width)
                                context.fillText(formatSeconds(at), x + 4, this.height - 3);
                }
                context.textAlign = "right";
                context.textBaseline = "top";
                context.fillText(this.perSecond(this.highest() / this.seconds), this.left - 8, 2);
                context.textBaseline = "bottom";
                context.fillText("0", this.left - 8, this.bottom + 2);
        }

        perSecond(value) {
                const unit = this.model.meta.kinds[this.view.kind].unit;

                return unit === "count" ? `${formatShort(value)}/s` : `${formatValue(value, unit)}/s`;
        }

        drawBars(color) {
                const context = this.context, most = this.highest(), room = this.bottom - 6;
                const sides = this.view.isDiff ? 2 : 1, width = (this.width - this.left) / this.n,
                        gap = width > 3 ? 1 : 0;
                const bar = Math.max(0.75, (width - gap) / sides);

                context.globalAlpha = 0.85;
                for (let side = 0; side < sides; side++) {
                        context.fillStyle = color(this.view.isDiff ? (side ? "--after" : "--before")
                                : "--accent");
                        for (let i = 0; i < this.n; i++) {
                                const height = this.sums[side][i] / most * room;

                                if (height)
                                        context.fillRect(this.xOf(i) + side * bar,
                                                this.bottom - Math.max(1, height), bar, Math.max(1, height));
                        }
                }
                context.globalAlpha = 1;
                context.fillStyle = color("--line");
                context.fillRect(this.left, this.bottom, this.width - this.left, 1);
        }

        drawBrush(color) {
                const context = this.context, isFocused = this.sliders.includes(document.activeElement);
                const [from, to] = this.brush || (this.view.to ? [this.view.from, this.view.to]
                        : [0, isFocused ? this.n : 0]);

                if (!to)
                        return;
                context.fillStyle = color("--veil");
                context.fillRect(this.left, 0, this.xOf(from) - this.left, this.bottom);
                context.fillRect(this.xOf(to), 0, this.width - this.xOf(to), this.bottom);
                [from, to].forEach((border, i) => {
                        const chosen = this.sliders[i] === document.activeElement,
                                x = Math.min(this.xOf(border), this.width - 2);

                        context.fillStyle = color(chosen ? "--accent" : "--text");
                        context.fillRect(chosen ? x - 2 : x - 1, 0, chosen ? 4 : 2, this.bottom);
                });
        }
}
