/* SPDX-License-Identifier: Apache-2.0 */

/*
 * C2 keeps no safepoint in a counted loop that is short, and with the serial and the parallel collector in
 * none. Such a loop has no description, and the code alone does not say of which inlined method it is:
 *
 *     before   load, a null check              scope: main, forEach at bci 46, accept at bci 5
 *              head: … ◀─┐
 *     pc             …   │                     `spin`, which accept calls behind bci 5: the only loop there
 *              end:  jl ─┘
 *     after    test …, a poll                  scope: main, forEach at bci 57
 *
 * So the byte code is read that may run between the two places: the rest of each method that ends meanwhile,
 * the begin of each that begins, and all that they call. A call's target is what the interpreter has resolved
 * in the cache of the constant pool, and it counts if its name and signature are those of the pool's entry:
 *
 *     invokestatic i ─▶ entry i of the cache { _indices, _f1, _f2 }, newer { Method *, _cpool_index }
 *                              └─▶ the pool's Methodref ─▶ NameAndType ─▶ name, signature
 *
 * C2 copies loops, and makes none. So the loop is known if exactly one of those that are read has no other in
 * it. A call whose target depends on an object may hide another loop, so nothing is said. A call that never
 * ran has no code. Where the compiler has its own code for a method (an intrinsic), or clears a new array,
 * that loop is the caller's.
 */
#include "host/runtime/hotspot/hotspot-loop.h"

#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-method.h"

enum {
        MAX_CODE = 2048,                /* bytes of one method that are read */
        MAX_DEPTH = 24,                 /* calls in each other */
        MAX_METHODS = 24,               /* that are read for one loop */
        MAX_BRANCHES = 64,              /* back, in one method */
        MAX_INVOKES = 128,              /* in one method */
        TAG_UTF8 = 1,                   /* JVM_CONSTANT_* (JVM specification, 4.4) */
        TAG_METHOD = 10,
        TAG_INTERFACE_METHOD = 11,
        TAG_NAME_AND_TYPE = 12,
        N_LENGTHS = 240,
        BY_OPERANDS = 9,
};

/* Byte codes; those from 0xcb on are the interpreter's own. */
enum {
        IINC = 0x84, IFEQ = 0x99, GOTO = 0xa7, JSR, RET, TABLESWITCH,
        INVOKEVIRTUAL = 0xb6, INVOKESTATIC = 0xb8, INVOKEDYNAMIC = 0xba, NEWARRAY = 0xbc, ANEWARRAY,
        WIDE = 0xc4, MULTIANEWARRAY, IFNULL, IFNONNULL, GOTO_W, JSR_W,
        FAST_INVOKEVFINAL = 0xe3, INVOKEHANDLE = 0xe9,
};

/* A method whose byte code is read. */
typedef struct Body {
        uint64_t method;
        HotspotMethodKey key;
        uint32_t size;
        uint8_t code[MAX_CODE];
} Body;

typedef struct Branch {
        uint32_t at, target;
        bool has_loop;                  /* another one in it */
} Branch;

typedef struct Search {
        const HotspotCompiled *in;
        const HotspotChain *before, *after;
        HotspotScope path[MAX_DEPTH + 1];       /* calls that lead to the method that is read */
        uint32_t depth, n_methods;
        uint32_t n_seen, n_loops;       /* loops without one in them: how often one was met, how many */
        bool is_unsure;
        HotspotScope found[MAX_DEPTH + 1];      /* the outermost first */
        uint32_t n_found;
} Search;

/* ---- byte codes ---- */

/* Bytes of each byte code, a digit each; 0 = it is none, 9 = BY_OPERANDS. */
static const char lengths[N_LENGTHS + 1] =
        /* 00 */ "1111111111111111" /* 10 */ "2323322222111111" /* 20 */ "1111111111111111"
        /* 30 */ "1111112222211111" /* 40 */ "1111111111111111" /* 50 */ "1111111111111111"
        /* 60 */ "1111111111111111" /* 70 */ "1111111111111111" /* 80 */ "1111311111111111"
        /* 90 */ "1111111113333333" /* a0 */ "3333333332991111" /* b0 */ "1133333335532311"
        /* c0 */ "3311943355033333" /* d0 */ "3333333333331111" /* e0 */ "2223992313331200";

static uint32_t word_at(const uint8_t *at) {
        return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Return: bytes of a switch at @bci; 0 = it is none. */
static uint32_t switch_size(const Body *body, uint32_t bci) {
        uint32_t at = (bci + 4) & ~3u, low, high;

        if (at + 12 > body->size)
                return 0;
        low = word_at(body->code + at + 4);
        high = word_at(body->code + at + 8);
        if (body->code[bci] != TABLESWITCH)
                return low <= MAX_CODE ? at + 8 + 8 * low - bci : 0;
        return high - low <= MAX_CODE ? at + 12 + 4 * (high - low + 1) - bci : 0;
}

/* Return: bytes of the instruction at @bci; 0 = it is none. */
static uint32_t size_of(const Body *body, uint32_t bci) {
        uint8_t code = body->code[bci];
        uint32_t size = code < N_LENGTHS ? (uint32_t)(lengths[code] - '0') : 0;

        if (code == WIDE)
                size = bci + 1 < body->size ? body->code[bci + 1] == IINC ? 6 : 4 : 0;
        else if (size == BY_OPERANDS)
                size = switch_size(body, bci);
        return size <= body->size - bci ? size : 0;
}

/* Whether the instruction at @bci is a branch, and where it leads. */
static bool branch_of(const Body *body, uint32_t bci, uint32_t *targetp) {
        const uint8_t *code = body->code + bci;
        bool is_branch = (code[0] >= IFEQ && code[0] <= GOTO) || code[0] == IFNULL || code[0] == IFNONNULL;

        if (is_branch)
                *targetp = bci + (uint32_t)(int16_t)(code[1] << 8 | code[2]);
        else if (code[0] == GOTO_W)
                *targetp = bci + word_at(code + 1);
        return is_branch || code[0] == GOTO_W;
}

/* Subroutines of old class files: jsr, ret. */
static bool is_subroutine(uint8_t code) {
        return code == JSR || code == RET || code == JSR_W;
}

/* A new array is cleared by a loop. Copies are calls of a stub. */
static bool is_array(uint8_t code) {
        return code == NEWARRAY || code == ANEWARRAY || code == MULTIANEWARRAY;
}

static bool is_call(uint8_t code) {
        return (code >= INVOKEVIRTUAL && code <= INVOKEDYNAMIC) || code == FAST_INVOKEVFINAL ||
                code == INVOKEHANDLE;
}

/* Whether the target of a call is in the cache: not one that depends on an object, or is made (indy). */
static bool has_target(uint8_t code) {
        return (code >= INVOKEVIRTUAL && code <= INVOKESTATIC) || code == FAST_INVOKEVFINAL;
}

/* ---- methods ---- */

static bool read_body(const HotspotCompiled *in, uint64_t method, Body *body) {
        const HotspotMethodLayout *at = &in->layout->method;
        uint64_t size;

        body->method = method;
        if (hotspot_method_key(&body->key, in->layout, in->reader, method) ||
            !hotspot_read_field(in->reader, at->code_size, body->key.const_method, &size) || size > MAX_CODE)
                return false;
        body->size = (uint32_t)size;
        return !size ||
                hotspot_read(in->reader, body->key.const_method + at->const_method_size, body->code, size);
}

/* The word in slot @index of @body's pool, which must have one of two tags. */
static bool read_pair(const HotspotCompiled *in, const Body *body, uint32_t index, uint8_t tag, uint8_t other,
                      uint16_t pair[2]) {
        const HotspotMethodLayout *at = &in->layout->method;
        uint64_t length, tags;
        uint8_t found;

        return index && hotspot_read_field(in->reader, at->pool_length, body->key.pool, &length) &&
                index < length && hotspot_read_field(in->reader, at->tags, body->key.pool, &tags) &&
                hotspot_read(in->reader, tags + at->array_u1.offset + index, &found, 1) &&
                (found == tag || found == other) &&
                hotspot_read(in->reader, body->key.pool + at->pool_size + index * 8, pair, 4);
}

static bool is_symbol(const HotspotCompiled *in, const Body *body, uint32_t index, uint64_t symbol) {
        uint64_t found;
        uint16_t pair[2];

        return read_pair(in, body, index, TAG_UTF8, TAG_UTF8, pair) &&
                hotspot_read_u64(in->reader, body->key.pool + in->layout->method.pool_size + index * 8,
                                 &found) &&
                found == symbol;
}

/* Whether slot @index of @body's pool names the method of @key. */
static bool is_named(const HotspotCompiled *in, const Body *body, uint32_t index,
                     const HotspotMethodKey *key) {
        uint16_t reference[2], names[2];

        return read_pair(in, body, index, TAG_METHOD, TAG_INTERFACE_METHOD, reference) &&
                read_pair(in, body, reference[1], TAG_NAME_AND_TYPE, TAG_NAME_AND_TYPE, names) &&
                is_symbol(in, body, names[0], key->name) && is_symbol(in, body, names[1], key->signature);
}

/* The entry of the cache that a call at @bci names. */
static bool find_entry(const HotspotCompiled *in, const Body *body, uint32_t bci, uint64_t *entryp) {
        const HotspotCallLayout *at = &in->layout->calls;
        uint32_t index = body->code[bci + 1] | (uint32_t)body->code[bci + 2] << 8;
        uint64_t cache;

        if (!at->index.size || !hotspot_read_field(in->reader, at->cache, body->key.pool, &cache) || !cache)
                return false;
        *entryp = cache + at->cache_size + (uint64_t)index * at->entry_size;
        if (at->entries.size && hotspot_read_field(in->reader, at->entries, cache, entryp))
                *entryp += 8 + (uint64_t)index * at->entry_size;
        return true;
}

/*
 * What the call at @bci leads to. *methodp: a Method *; 0 = it never ran. Return: whether that is known.
 */
static bool resolve(const HotspotCompiled *in, const Body *body, uint32_t bci, uint64_t *methodp) {
        const HotspotCallLayout *at = &in->layout->calls;
        uint64_t entry, index, words[2] = { 0 };
        HotspotMethodKey key;

        if (!find_entry(in, body, bci, &entry) || !hotspot_read_field(in->reader, at->index, entry, &index) ||
            !hotspot_read_u64(in->reader, entry + at->first.offset, &words[0]) ||
            (at->second.size && !hotspot_read_u64(in->reader, entry + at->second.offset, &words[1])))
                return false;
        for (int i = 0; i < 2; i++)
                if (words[i] > UINT32_MAX && !(words[i] & 7) &&
                    !hotspot_method_key(&key, in->layout, in->reader, words[i]) &&
                    is_named(in, body, (uint16_t)index, &key)) {
                        *methodp = words[i];
                        return true;
                }
        *methodp = 0;
        return at->second.size && !words[0] && !words[1];
}

/* ---- the search ---- */

static void scan(Search *search, const Body *body, uint32_t from, uint32_t to);

static bool is_same_path(const HotspotScope *path, const HotspotScope *other, uint32_t n) {
        for (uint32_t i = 0; i < n; i++)
                if (path[i].method != other[i].method || path[i].bci != other[i].bci)
                        return false;
        return true;
}

/* A loop may be met twice: the rest of a method, and all of it where a caller's loop calls it again. */
static void take_loop(Search *search, const Body *body, uint32_t bci) {
        HotspotScope *path = search->path;

        path[search->depth] = (HotspotScope){ body->method, (int32_t)bci };
        search->n_seen++;
        if (search->n_loops && search->n_found == search->depth + 1 &&
            is_same_path(search->found, path, search->n_found))
                return;
        search->n_loops++;
        search->n_found = search->depth + 1;
        memcpy(search->found, path, search->n_found * sizeof(*path));
}

/* The compiler may have code of its own for such a method, which is its caller's then. */
static bool is_intrinsic(const Search *search, uint64_t method) {
        uint64_t id = 0;

        hotspot_read_field(search->in->reader, search->in->layout->calls.intrinsic, method, &id);
        return id;
}

/* Whether a chain says what the call at @bci of @method leads to. */
static bool find_known(const HotspotChain *chain, uint64_t method, uint32_t bci, uint64_t *calledp) {
        for (uint32_t i = 1; i < chain->n; i++)
                if (chain->scopes[i].method == method && chain->scopes[i].bci == (int32_t)bci) {
                        *calledp = chain->scopes[i - 1].method;
                        return true;
                }
        return false;
}

/* What the call at @bci leads to: by one of the chains, or by the cache. Return: whether that is known. */
static bool find_called(const Search *search, const Body *body, uint32_t bci, uint64_t *methodp) {
        return find_known(search->before, body->method, bci, methodp) ||
                find_known(search->after, body->method, bci, methodp) ||
                (has_target(body->code[bci]) && resolve(search->in, body, bci, methodp));
}

/* Scans what the call at @bci leads to. */
static void call(Search *search, const Body *body, uint32_t bci) {
        Search was = *search;
        uint64_t method;
        Body callee;

        if (!find_called(search, body, bci, &method) || search->depth == MAX_DEPTH ||
            search->n_methods == MAX_METHODS || (method && !read_body(search->in, method, &callee))) {
                search->is_unsure = true;
                return;
        }
        if (!method)
                return;
        search->n_methods++;
        search->path[search->depth++] = (HotspotScope){ body->method, (int32_t)bci };
        scan(search, &callee, 0, callee.size);
        search->depth--;
        if (search->n_seen > was.n_seen && is_intrinsic(search, method)) {
                was.n_methods = search->n_methods;
                *search = was;
                take_loop(search, body, bci);
        }
}

/* Instructions of a piece of byte code. */
typedef struct Piece {
        Branch branches[MAX_BRANCHES];  /* those back */
        uint32_t calls[MAX_INVOKES];
        uint32_t n_branches, n_calls;
        bool is_unsure;
} Piece;

/* Return: false = the byte code is none. */
static bool read_piece(Piece *piece, const Body *body, uint32_t from, uint32_t to) {
        uint32_t size, target;

        *piece = (Piece){ 0 };
        for (uint32_t bci = 0; bci < body->size; bci += size) {
                size = size_of(body, bci);
                if (!size)
                        return false;
                if (bci < from || bci >= to)
                        continue;
                piece->is_unsure |= is_subroutine(body->code[bci]);
                if (branch_of(body, bci, &target) && target <= bci) {
                        if (piece->n_branches == MAX_BRANCHES)
                                return false;
                        piece->branches[piece->n_branches++] = (Branch){ .at = bci, .target = target };
                }
                if (is_call(body->code[bci]) || is_array(body->code[bci])) {
                        if (piece->n_calls == MAX_INVOKES)
                                return false;
                        piece->calls[piece->n_calls++] = bci;
                }
        }
        return true;
}

/* Marks loops that have another one of the same method in them. */
static void mark_nested(Piece *piece) {
        for (Branch *outer = piece->branches; outer < piece->branches + piece->n_branches; outer++)
                for (const Branch *b = piece->branches; b < piece->branches + piece->n_branches; b++)
                        outer->has_loop |= outer->target < b->target && b->at < outer->at;
}

/*
 * Counts loops of [@from, @to) that have none in them, and those of what it calls. A jump back from there to
 * in front of it makes the piece longer.
 */
static void scan(Search *search, const Body *body, uint32_t from, uint32_t to) {
        uint32_t was;
        Piece piece;

        do {
                was = from;
                if (!read_piece(&piece, body, from, to)) {
                        search->is_unsure = true;
                        return;
                }
                for (uint32_t i = 0; i < piece.n_branches; i++)
                        from = MIN(from, piece.branches[i].target);
        } while (from < was);
        search->is_unsure |= piece.is_unsure;
        for (uint32_t i = 0; i < piece.n_calls && !search->is_unsure; i++) {
                uint32_t n = search->n_seen;

                if (is_array(body->code[piece.calls[i]]))
                        take_loop(search, body, piece.calls[i]);
                else
                        call(search, body, piece.calls[i]);
                for (uint32_t k = 0; k < piece.n_branches && search->n_seen > n; k++)
                        piece.branches[k].has_loop |= piece.branches[k].target <= piece.calls[i] &&
                                piece.calls[i] <= piece.branches[k].at;
        }
        mark_nested(&piece);
        for (uint32_t i = 0; i < piece.n_branches; i++)
                if (!piece.branches[i].has_loop)
                        take_loop(search, body, piece.branches[i].target);
}

/* The rest of methods that have ended in front of the loop, or the begin of those that begin behind it. */
static void scan_inner(Search *search, const HotspotChain *chain, uint32_t common, bool is_rest) {
        Body body;

        for (uint32_t i = chain->n - common; i-- && !search->is_unsure;) {
                const HotspotScope *caller = &chain->scopes[i + 1], *scope = &chain->scopes[i];
                uint32_t bci = (uint32_t)MAX(scope->bci, 0);

                if (search->depth == MAX_DEPTH || caller->bci < 0 ||
                    !read_body(search->in, scope->method, &body) || (bci && bci >= body.size)) {
                        search->is_unsure = true;
                        return;
                }
                search->path[search->depth++] = *caller;
                if (is_rest)
                        scan(search, &body, i ? bci + size_of(&body, bci) : bci, body.size);
                else
                        scan(search, &body, 0, bci);
        }
        search->depth = common - 1;
}

/* The piece of all loops of @body that have both @from and @to. Return: whether there is one. */
static bool find_around(const Body *body, uint32_t from, uint32_t to, uint32_t *beginp, uint32_t *endp) {
        uint32_t size, target;

        *beginp = MIN(from, to);
        *endp = 0;
        for (uint32_t bci = 0; bci < body->size; bci += size) {
                size = size_of(body, bci);
                if (!size)
                        return false;
                if (bci >= MAX(from, to) && branch_of(body, bci, &target) && target <= MIN(from, to)) {
                        *beginp = MIN(*beginp, target);
                        *endp = bci + size;
                }
        }
        return *endp;
}

/* Scans loops of @scope that have both places. Return: whether there is one. */
static bool scan_around(Search *search, const HotspotScope *scope, int32_t to) {
        uint32_t begin, end;
        Body body;

        if (!read_body(search->in, scope->method, &body)) {
                search->is_unsure = true;
                return false;
        }
        if (!find_around(&body, (uint32_t)MAX(scope->bci, 0), (uint32_t)MAX(to, 0), &begin, &end))
                return false;
        scan(search, &body, begin, end);
        return true;
}

/*
 * Scans what the innermost method that both have runs from @at to @stop, if no loop of it begins anew.
 * @has_called: what it calls at @at has begun.
 */
static void scan_common(Search *search, uint64_t method, int32_t at, int32_t stop, bool has_called) {
        uint32_t from = (uint32_t)MAX(at, 0), to = (uint32_t)MAX(stop, 0);
        Body body;

        if (!read_body(search->in, method, &body) || from >= body.size)
                search->is_unsure = true;
        else
                scan(search, &body, has_called ? from + size_of(&body, from) : from, MIN(to, body.size));
}

/* Scans the loops that may begin anew between two places. Return: whether there is one. */
static bool scan_anew(Search *search, uint32_t common, bool is_back) {
        const HotspotChain *before = search->before, *after = search->after;
        bool is_found = false;

        for (uint32_t i = is_back ? 0 : common - 1; i < common; i++) {
                search->depth = i;
                is_found |= scan_around(search, &before->scopes[before->n - 1 - i],
                                        after->scopes[after->n - 1 - i].bci);
        }
        return is_found;
}

bool hotspot_loop_find(HotspotChain *chainp, const HotspotCompiled *in, const HotspotChain *before,
                       const HotspotChain *after, uint32_t common, bool is_back) {
        const HotspotScope *from = &before->scopes[before->n - common];
        const HotspotScope *to = &after->scopes[after->n - common];
        Search search = { .in = in, .before = before, .after = after, .depth = common - 1 };

        if (!in->layout->calls.intrinsic.size || from->bci == HOTSPOT_NO_BCI ||
            to->bci == HOTSPOT_NO_BCI || common > MAX_DEPTH)
                return false;
        for (uint32_t i = 0; i < common - 1; i++)
                search.path[i] = before->scopes[before->n - 1 - i];
        scan_inner(&search, before, common, true);
        scan_inner(&search, after, common, false);
        if (!search.is_unsure && from->bci < to->bci)
                scan_common(&search, from->method, from->bci, to->bci, before->n > common);
        if (!search.is_unsure &&
            (is_back || from->bci > to->bci || (from->bci == to->bci && after->n == common)))
                search.is_unsure |= !scan_anew(&search, common, is_back);
        if (search.is_unsure || search.n_loops != 1)
                return false;
        chainp->n = search.n_found;
        for (uint32_t i = 0; i < search.n_found; i++)
                chainp->scopes[search.n_found - 1 - i] = search.found[i];
        return true;
}

bool hotspot_loop_contradicts(const HotspotChain *found, const HotspotChain *other) {
        for (uint32_t up = 1; up < found->n && up < other->n; up++) {
                const HotspotScope *call = &found->scopes[found->n - up];
                const HotspotScope *same = &other->scopes[other->n - up];

                if (call->method != same->method || call->bci != same->bci)
                        return false;
                if (call[-1].method != same[-1].method)
                        return true;
        }
        return false;
}
