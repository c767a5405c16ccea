/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Groups the objects without lines by their reason, and names the first few of each.
 */

#include "desk/cli/line-options.h"

#include <string.h>

#include "core/base/util/log.h"
#include "core/base/util/text.h"
#include "desk/cli/inputs.h"

enum {
        DEFAULT_MS = 1000,              /* for all objects: a person waits for the answer */
        MAX_NAMED = 4,                  /* objects of one reason */
};

static const char *const reasons[LINES_N_STATES] = {
        [LINES_STATE_ABSENT] =
                "there is no debug information of it on this machine (build with -g, or install its -dbgsym or -dbg package)",
        [LINES_STATE_TIMEOUT] = "reading its debug information took too long, and was cut off",
        [LINES_STATE_FAILED] = "its debug information is damaged, or cannot be read",
        [LINES_STATE_PARTS] = "files that have them (.dwo, or made by dwz) could not be opened: they are read with the rights "
                              "of its owner, or of nobody if that is root, so put .dwo files beside it, or let nobody enter "
                              "their directory",
        [LINES_STATE_ZSTD] = "its debug information is compressed by zstd, which libdw here cannot read "
                             "(`objcopy --decompress-debug-sections` helps)",
};

/* `libc.so.6, libm.so.6 and 3 more`. Return: how many. */
static size_t list_objects(const Symbolizer *symbolizer, LinesState wanted, Text *names) {
        const char *path;
        LinesState state;
        size_t n = 0;

        for (uint32_t i = 0; (path = symbolizer_lines_object(symbolizer, i, &state)); i++) {
                const char *slash = strrchr(path, '/');

                if (state != wanted || *path == '[')    /* [vdso] is no file */
                        continue;
                if (n++ < MAX_NAMED)
                        text_printf(names, "%s%s", names->size ? ", " : "", slash ? slash + 1 : path);
        }
        if (n > MAX_NAMED)
                text_printf(names, " and %zu more", n - MAX_NAMED);
        return n;
}

void line_options_put(const Config *config, bool needed, SymbolizerOptions *options) {
        options->want_lines = config->names.lines || needed;
        options->lines_ms = needed || inputs_is_set(config, "lines") ? 0 : DEFAULT_MS;
}

static void say_reason(const Config *config, LinesState state, const char *names) {
        if (inputs_is_set(config, "lines"))
                log_notice("%s of %s: %s",
                           state == LINES_STATE_TIMEOUT         ? "not all source lines"
                                   : state == LINES_STATE_PARTS ? "source lines without all inlined functions"
                                                                : "no source lines",
                           names, reasons[state]);
        else if (state == LINES_STATE_TIMEOUT)
                log_notice("not all source lines and inlined functions of %s: a second was not enough; --lines=on "
                           "takes as long as it needs, --lines=off leaves them out",
                           names);
}

void line_options_say_missing(const Config *config, const Symbolizer *symbolizer) {
        if (!symbolizer || !symbolizer_wants_lines(symbolizer))
                return;
        for (LinesState state = 0; state < LINES_N_STATES; state++) {
                Text names = { 0 };

                if (reasons[state] && list_objects(symbolizer, state, &names) && !names.failed)
                        say_reason(config, state, names.data);
                text_deinit(&names);
        }
}
