/* SPDX-License-Identifier: Apache-2.0 */
#include "desk/namer.h"

#include <string.h>

#include "profile/merge.h"

static int name_frame(void *userdata, const Window *from, FrameWord word, Window *into, FrameWord words[static MERGE_MAX_INLINED],
                      size_t *np) {
        WindowFrame frame = window_expand_frame(from, word), copy;
        const WindowModule *module = window_get_module(from, frame.module);
        SymbolObject object = { .path = window_get_string(from, module->path, NULL),
                                .build_id_gnu = window_get_string(from, module->build_id_gnu, NULL),
                                .build_id_go = window_get_string(from, module->build_id_go, NULL) };
        WindowFunction function = { 0 };
        const char *name = NULL;
        SymbolState state;
        uint64_t offset;
        int r = merge_copy_frame(from, word, into, words);

        *np = 1;
        if (r || !frame.module || frame.function || !strcmp(window_get_string(from, frame.type, NULL), "kernel"))
                return r;
        r = symbolizer_find(userdata, &object, frame.address, &name, &offset, &state);
        if (r || !name)
                return r;
        copy = window_expand_frame(into, words[0]);
        r = window_string(into, name, strlen(name), &function.name);
        if (!r)
                r = window_function(into, &function, &copy.function);
        return r ? r : window_frame(into, &copy, &words[0]);
}

int namer_merge(Window *into, const Window *from, Symbolizer *symbolizer, uint64_t *n_lostp) {
        const MergeOptions options = { .frame = name_frame, .userdata = symbolizer };

        return window_merge(into, from, &options, n_lostp);
}
