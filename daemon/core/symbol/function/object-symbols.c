/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads the object's own symbols and, where they are not full, those of its debug file or packed file with
 * them; the better list goes to the sink.
 */

#include "core/symbol/function/object-symbols.h"

#include "core/base/util/error.h"

/*
 * Reads symbols of the object and of the debug file that is split from it, if it is there and helps. Return:
 * 0, IMAGE_E_*, -ENOMEM.
 */
static int read_split(const ObjectSymbols *to, const ElfImage *own, SymbolFile *split, SymbolList *list) {
        int r = to->open_debug(to->userdata, own, split);

        if (r > 0 && own)
                r = symbol_file_open_packed(split, own);
        if (!r)
                r = symbol_list_init(list, own ? own : &split->image, own ? &split->image : NULL, to->limits);
        return r < 0 ? error_fold(r) : r;
}

static int hand_on(const ObjectSymbols *to, const SymbolList *list, SymbolState *statep, SymbolGo *gop) {
        int r = list->n_symbols ? to->sink(to->userdata, list) : 0;

        if (r)
                return error_fold(r);
        *statep = !list->n_symbols          ? SYMBOL_STATE_STRIPPED
                : symbol_list_is_full(list) ? SYMBOL_STATE_NAMED
                                            : SYMBOL_STATE_DYNAMIC;
        *gop = list->go_state;
        return 0;
}

int object_symbols_read(const ObjectSymbols *to, const SymbolFile *own, SymbolState *statep, SymbolGo *gop) {
        _cleanup_(symbol_file_deinit) SymbolFile split = SYMBOL_FILE_NULL;
        _cleanup_(symbol_list_deinit) SymbolList list = { 0 }, both = { 0 };
        int r = own ? symbol_list_init(&list, &own->image, NULL, to->limits) : 1, q = 1;

        *gop = SYMBOL_GO_NONE;
        if (r < 0)
                return error_fold(r);
        if (r || !list.is_full)
                q = read_split(to, own ? &own->image : NULL, &split, &both);
        if (q < 0)
                return error_fold(q);
        if (r && q) {
                if (own)
                        *statep = SYMBOL_STATE_UNREADABLE;
                return 0;
        }
        r = hand_on(to, q ? &list : &both, statep, gop);
        return r ? error_fold(r) : 0;
}
