/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A flame graph as a picture: the outermost function below, one box for each node that is wide enough to be
 * seen, names and numbers as titles of the boxes. It has no script, so that viewers which allow none (and
 * mails, and wikis) show it.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/util/error.h"
#include "desk/page/build.h"

enum {
        WIDTH = 1200,
        MARGIN = 10,
        TOP = 58,                       /* title and summary */
        BOTTOM = 34,                    /* legend */
        ROW = 17,
        MAX_ROWS = 400,                 /* deeper ones are not drawn, and the summary says so */
};

#define LEAST_WIDTH 0.3                 /* width of the narrowest box */
#define LETTER_WIDTH 6.7

static const char style[] =
        "<style>\n"
        "svg{font:11px ui-monospace,\"DejaVu Sans Mono\",monospace;background:#fff}\n"
        "text{fill:#1b1f27;pointer-events:none}.t{font:600 17px system-ui,sans-serif}.s{font:12px system-ui,sans-serif;fill:#5b6472}\n"
        "rect{stroke:#fff;stroke-width:.5;rx:1.5px}.r{fill:#d5dae3}.u{fill:#f3b562}.k{fill:#ef8a80}.j{fill:#8fcf9f}.i{fill:#c4d98a}"
        ".p{fill:#86c5e8}.g{fill:#7fd3cd}.o{fill:#c9b5ec}\n"
        "@media(prefers-color-scheme:dark){svg{background:#14171d}text{fill:#11151b}.t{fill:#e8ebf1}.s{fill:#99a3b3}"
        "rect{stroke:#14171d}.r{fill:#5f6b7d}}\n"
        "</style>\n";

typedef struct Legend {
        const char *class, *text;
        const char *types;              /* between commas, with one at each end */
} Legend;

static const Legend legend[] = {
        { "u", "native", ",native,c,cpp,rust," },
        { "k", "kernel", ",kernel," },
        { "j", "Java", ",jvm,java,beam,dotnet," },
        { "i", "interpreted", ",jvm interpreted,cpython,php,perl,phpjit,ruby,lua," },
        { "p", "JavaScript", ",v8js,node,javascript," },
        { "g", "Go", ",go," },
        { "o", "other", "," },
};

static const Legend *legend_of(const char *type) {
        char between[64];
        size_t i = 0;

        if (snprintf(between, sizeof(between), ",%s,", *type ? type : "native") >= (int)sizeof(between))
                return &legend[ARRAY_SIZE(legend) - 1];
        while (i + 1 < ARRAY_SIZE(legend) && !strstr(legend[i].types, between))
                i++;
        return &legend[i];
}

typedef struct Picture {
        const PageModel *model;
        uint64_t *totals;               /* by node */
        double *x, *next;               /* where a node begins, and where its next child does */
        uint32_t *depths;
        uint32_t n_rows;
        bool cut;
        FILE *out;
} Picture;

/* Text of XML; the model's strings have no bytes that XML does not allow. */
static void put_text(FILE *out, const char *text, size_t size) {
        for (size_t i = 0; i < size; i++)
                switch (text[i]) {
                case '&': fputs("&amp;", out); break;
                case '<': fputs("&lt;", out); break;
                case '>': fputs("&gt;", out); break;
                case '"': fputs("&quot;", out); break;
                default: fputc(text[i], out);
                }
}

/* Bytes of the first @letters characters. */
static size_t first_letters(const char *text, size_t letters) {
        size_t i = 0;

        while (text[i] && (letters || (text[i] & 0xC0) == 0x80)) {
                letters -= (text[i] & 0xC0) != 0x80;
                i++;
        }
        return i;
}

static void sum_up(Picture *picture, uint32_t kind) {
        const PageModel *model = picture->model;

        for (size_t i = 0; i < model->n_rows; i++)
                if (page_get_context(model, model->rows[i].context)->kind == kind)
                        picture->totals[model->rows[i].node] += model->rows[i].value;
        for (uint32_t i = model->n_nodes; i-- > 1;)
                picture->totals[model->nodes[i].parent] += picture->totals[i];
}

static double width_of(const Picture *picture, uint32_t node) {
        return picture->totals[0]
                ? (WIDTH - 2.0 * MARGIN) * (double)picture->totals[node] / (double)picture->totals[0]
                : 0;
}

/* Places each node behind its elder siblings. Parents stand before their children. */
static void place(Picture *picture) {
        picture->x[0] = picture->next[0] = MARGIN;
        for (uint32_t i = 1; i < picture->model->n_nodes; i++) {
                uint32_t parent = picture->model->nodes[i].parent;

                picture->depths[i] = picture->depths[parent] + 1;
                picture->x[i] = picture->next[i] = picture->next[parent];
                picture->next[parent] += width_of(picture, i);
                if (width_of(picture, i) < LEAST_WIDTH)
                        continue;
                if (picture->depths[i] >= MAX_ROWS)
                        picture->cut = true;
                else
                        picture->n_rows = MAX(picture->n_rows, picture->depths[i] + 1);
        }
}

static void put_box(const Picture *picture, uint32_t node, const PageKind *kind) {
        const PageModel *model = picture->model;
        const PageFrame *frame = node ? page_get_frame(model, model->nodes[node].frame) : NULL;
        const char *name = frame ? page_get_string(model, frame->name) : "all";
        uint32_t y = TOP + (picture->n_rows - 1 - picture->depths[node]) * ROW;
        double width = width_of(picture, node), x = picture->x[node];
        size_t letters = width > 2 * LETTER_WIDTH + 6 ? (size_t)((width - 6) / LETTER_WIDTH) : 0;
        size_t size = first_letters(name, letters);

        fprintf(picture->out, "<g><title>");
        put_text(picture->out, name, strlen(name));
        if (frame && *page_get_string(model, frame->object)) {
                fprintf(picture->out, "%s — ", frame->inlined ? " (inlined)" : "");
                put_text(picture->out, page_get_string(model, frame->object),
                         strlen(page_get_string(model, frame->object)));
        }
        fprintf(picture->out, "\n%" PRIu64 " ", picture->totals[node]);
        put_text(picture->out, page_get_string(model, kind->unit),
                 strlen(page_get_string(model, kind->unit)));
        fprintf(picture->out,
                ", %.2f %%</title><rect class=\"%s\" x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\"/>",
                100.0 * (double)picture->totals[node] / (double)picture->totals[0],
                frame ? legend_of(page_get_string(model, frame->type))->class : "r", x, y, width, ROW - 1);
        if (letters) {
                fprintf(picture->out, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + ROW - 5);
                /* the last letter gives way to the sign that there are more */
                if (name[size])
                        size = first_letters(name, letters - 1);
                put_text(picture->out, name, size);
                fprintf(picture->out, "%s</text>", name[size] ? "…" : "");
        }
        fprintf(picture->out, "</g>\n");
}

static void put_boxes(const Picture *picture, const PageKind *kind) {
        for (uint32_t i = 0; i < picture->model->n_nodes; i++)
                if (width_of(picture, i) >= LEAST_WIDTH && picture->depths[i] < MAX_ROWS)
                        put_box(picture, i, kind);
}

static int put_head(const Picture *picture, const PageKind *kind) {
        uint32_t height = TOP + picture->n_rows * ROW + BOTTOM;
        Text title = { 0 };
        int r = page_title(picture->model, &title);

        if (r)
                return r;
        fprintf(picture->out,
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %u\" width=\"%d\" height=\"%u\" role=\"img\">\n"
                "<title>Flame graph of ",
                WIDTH, height, WIDTH, height);
        put_text(picture->out, title.data ? title.data : "", title.size);
        fprintf(picture->out, "</title>\n%s<text class=\"t\" x=\"%d\" y=\"26\">", style, MARGIN);
        put_text(picture->out, title.data ? title.data : "",
                 first_letters(title.data ? title.data : "", 120));
        fprintf(picture->out, "</text>\n<text class=\"s\" x=\"%d\" y=\"46\">%" PRIu64 " ", MARGIN,
                picture->totals[0]);
        put_text(picture->out, page_get_string(picture->model, kind->unit),
                 strlen(page_get_string(picture->model, kind->unit)));
        fprintf(picture->out, " of ");
        put_text(picture->out, page_get_string(picture->model, kind->type),
                 strlen(page_get_string(picture->model, kind->type)));
        fprintf(picture->out, "%s</text>\n", picture->cut ? ", without the frames deeper than 400" : "");
        text_deinit(&title);
        return 0;
}

static void put_legend(const Picture *picture) {
        uint32_t y = TOP + picture->n_rows * ROW + 10;

        for (size_t i = 0; i < ARRAY_SIZE(legend); i++)
                fprintf(picture->out,
                        "<rect class=\"%s\" x=\"%zu\" y=\"%u\" width=\"12\" height=\"12\"/><text class=\"s\" x=\"%zu\" y=\"%u\">%s</text>\n",
                        legend[i].class, MARGIN + i * 110, y, MARGIN + 18 + i * 110, y + 10, legend[i].text);
        fprintf(picture->out, "</svg>\n");
}

static int put_picture(Picture *picture) {
        static const PageKind no_kind;
        uint32_t number = page_main_kind(picture->model);
        const PageKind *kind = picture->model->n_kinds ? &picture->model->kinds[number] : &no_kind;
        int r;

        sum_up(picture, number);
        picture->n_rows = 1;
        place(picture);
        r = put_head(picture, kind);
        if (r)
                return r;
        put_boxes(picture, kind);
        put_legend(picture);
        return 0;
}

int page_write_svg(const Window *window, const PageOptions *options, FILE *out) {
        _cleanup_(page_model_freep) PageModel *model = NULL;
        Picture picture = { .out = out };
        int r = page_model_new(&model, window, NULL, options);

        if (r)
                return error_fold(r);
        picture.model = model;
        picture.totals = calloc(model->n_nodes, sizeof(*picture.totals));
        picture.x = calloc(model->n_nodes, sizeof(*picture.x));
        picture.next = calloc(model->n_nodes, sizeof(*picture.next));
        picture.depths = calloc(model->n_nodes, sizeof(*picture.depths));
        r = picture.totals && picture.x && picture.next && picture.depths ? put_picture(&picture)
                                                                          : error_origin(-ENOMEM);
        free(picture.totals);
        free(picture.x);
        free(picture.next);
        free(picture.depths);
        return r;
}
