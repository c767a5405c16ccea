/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes what is known of builds as HTML: a table for each service whose last build has slower functions, a
 * line for each other one. A change is a dot on the line of its interval; the pictures of a table have one
 * scale, from 0 on. Names are a target's words: masked, and never markup. The page has no script and loads
 * nothing.
 */

#include <inttypes.h>

#include "core/base/util/macro.h"
#include "host/service/watch/watch-private.h"

enum { PICTURE = 240, PICTURE_HEIGHT = 12 };

static const char head[] =
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>Builds · spanprof</title>\n<style>"
        ":root { color-scheme: light dark; }"
        "body { font: 0.875rem/1.45 system-ui, sans-serif; }"
        "h2 { font-size: 1rem; margin: 1.2rem 0 0; }"
        "p { margin: 0; }"
        "th, td { padding: 0 0.6rem; text-align: right; font-variant-numeric: tabular-nums; }"
        "th:last-child, td:last-child { text-align: left; overflow-wrap: anywhere; }"
        "line { stroke: currentColor; } circle { fill: #d9483b; }"
        "</style>\n</head>\n<body>\n<h1>Builds that became slower</h1>\n"
        "<p>Shares of the CPU time of the service that functions have, without what they call. The interval holds for "
        "all functions together.</p>\n";

static void put_row(const SketchSlower *row, int32_t most, Text *page) {
        const double scale = (PICTURE - PICTURE_HEIGHT) / (double)MAX(most, 1);
        const int middle = PICTURE_HEIGHT / 2;

        text_printf(page, "<tr><td>%.2f %%</td><td>%.2f %%</td><td>%+.2f</td><td>%+.2f to %+.2f</td>",
                    row->before / 1e4, row->after / 1e4, (row->after - row->before) / 1e4, row->low / 1e4,
                    row->high / 1e4);
        text_printf(page, "<td><svg width=\"%d\" height=\"%d\"><line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>"
                    "<circle cx=\"%.1f\" cy=\"%d\" r=\"3\"/></svg></td><td>", PICTURE, PICTURE_HEIGHT,
                    middle + MAX(row->low, 0) * scale, middle + row->high * scale, middle, middle,
                    middle + (row->after - row->before) * scale, middle);
        text_append_html(page, row->name);
        text_printf(page, "</td></tr>\n");
}

static void put_slower(const SketchVerdict *verdict, Text *page) {
        const uint32_t n = MIN(verdict->n_slower, (uint32_t)SKETCH_SLOWER);
        int32_t most = 0;

        for (uint32_t i = 0; i < n; i++)
                most = MAX(most, verdict->slower[i].high);
        text_printf(page, "<table>\n<tr><th>before</th><th>after</th><th>change</th><th>interval</th><th></th>"
                    "<th>function</th></tr>\n");
        for (uint32_t i = 0; i < n; i++)
                put_row(&verdict->slower[i], most, page);
        text_printf(page, "</table>\n");
        if (verdict->n_slower > n)
                text_printf(page, "<p>and %" PRIu32 " more</p>\n", verdict->n_slower - n);
}

static void put_service(const WatchService *service, Text *page) {
        const SketchVerdict *verdict = &service->verdict;

        text_printf(page, "<h2>");
        text_append_html(page, service->service);
        text_printf(page, ", program ");
        text_append_html(page, service->program);
        text_printf(page, "</h2>\n<p>user %" PRIu32 ", ", service->user);
        text_append_html(page, service->place);
        text_printf(page, "</p>\n<p>build ");
        text_append_html(page, service->now->build);
        if (!service->is_compared) {
                text_printf(page, ": %" PRIu64 " samples, not compared yet</p>\n", sketch_samples(service->now));
                return;
        }
        text_printf(page, ": %" PRIu32 " of %" PRIu32 " functions take more than in build ", verdict->n_slower,
                    verdict->n_compared);
        text_append_html(page, verdict->before);
        text_printf(page, "</p>\n");
        if (verdict->n_slower)
                put_slower(verdict, page);
}

void watch_print_page(const Watch *watch, Text *text) {
        text_append(text, head, sizeof(head) - 1);
        for (uint32_t i = 0; i < watch->n_services; i++)
                put_service(&watch->services[i], text);
        if (!watch->n_services)
                text_printf(text, "<p>no service has been seen yet</p>\n");
        text_printf(text, "</body>\n</html>\n");
}
