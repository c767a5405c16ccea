/* SPDX-License-Identifier: Apache-2.0 */

/*
 * OTLP requests, in whatever wrapping they are found: one protobuf message; JSON documents one behind the
 * other, as collectors' files have them; messages with their size before each, as collectors write protobuf
 * and packed lines; batches of our own spool.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/unpack.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "core/otlp/spool-file.h"
#include "desk/convert/format.h"

enum {
        WHERE_MAX = 256,
        PIECE = 1 << 20,                /* bytes of JSON that one read takes */
        SIZE_BYTES = 4,                 /* before a framed message, big endian */
};

static int mistake(Text *problem, const char *what, const char *where) {
        text_printf(problem, "%s%s%s", what, *where ? ": " : "", where);
        return CONVERT_E_INPUT;
}

/* The id is kept over retries and in every copy (a receiver's .pb and .json are two). */
static int is_repeated(Convert *convert, const OtlpProfile *profile, bool *repeatedp) {
        Intern *seen = convert->options->seen ? convert->options->seen : &convert->seen;
        uint32_t index;
        int r;

        *repeatedp = false;
        if (profile->profile_id.len != 16)
                return 0;
        r = intern_add(seen, profile->profile_id.data, profile->profile_id.len, &index);
        *repeatedp = r == INTERN_E_FOUND;
        convert->n_repeated += *repeatedp;
        return r < 0 ? error_fold(r) : 0;
}

static int drop_repeated(Convert *convert, OtlpRequest *request, OtlpScopeProfiles *scope) {
        size_t n = 0;
        int r = 0;

        for (size_t i = 0; i < scope->n_profiles; i++) {
                bool repeated = false;

                if (!r)
                        r = is_repeated(convert, scope->profiles[i], &repeated);
                if (repeated)
                        otlp_request_free_profile(request, scope->profiles[i]);
                else
                        scope->profiles[n++] = scope->profiles[i];
        }
        scope->n_profiles = n;
        return r;
}

static int drop_all_repeated(Convert *convert, OtlpRequest *request) {
        int r = 0;

        for (size_t i = 0; i < request->n_resource_profiles; i++)
                for (size_t j = 0; j < request->resource_profiles[i]->n_scope_profiles && !r; j++)
                        r = drop_repeated(convert, request, request->resource_profiles[i]->scope_profiles[j]);
        return r;
}

static int add_request(Convert *convert, const uint8_t *data, size_t size, Text *problem) {
        static const char *const texts[] = {
                [OTLP_DECODE_E_TOO_LARGE] = "would take too much memory",
                [OTLP_DECODE_E_TOO_DEEP] = "is nested too deeply",
                [OTLP_DECODE_E_MALFORMED] = "is no profiles file of any form, or was cut off",
        };
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        char where[WHERE_MAX] = "";
        uint64_t start_ns, end_ns;
        int r = otlp_decode_request(data, size, &request, where, sizeof(where));

        if (r > 0)
                return mistake(problem, texts[r], where);
        if (r)
                return r;
        if (!request->n_resource_profiles && !request->dictionary)
                return mistake(problem, "has no profiles in it", "");
        r = drop_all_repeated(convert, request);
        if (!r)
                r = otlp_import_add(convert->window, request, &start_ns, &end_ns, where, sizeof(where));
        if (r > 0)
                return mistake(problem, "is no sound profiles file", where);
        if (!r && start_ns < end_ns)
                convert_cover(convert, start_ns, end_ns);
        return r;
}

/* Adds a message of a file with several; a problem names its number. */
static int add_numbered(Convert *convert, const uint8_t *data, size_t size, unsigned number, Text *problem) {
        Text text = { 0 };
        int r = add_request(convert, data, size, &text);

        if (r > 0)
                text_printf(problem, "document %u %s", number, text.data ? text.data : "cannot be read");
        text_deinit(&text);
        return r;
}

/* Bytes of a source of any size, with at least one whole document at the front unless that is too large. */
typedef struct Slide {
        const Source *source;
        uint8_t *data;
        size_t size, room;
        uint64_t offset;                /* offset of the next read */
} Slide;

static int slide_fill(Slide *slide, size_t size) {
        size_t need = slide->size + size + 1;
        int r = array_reserve(&slide->data, &slide->room, need, need);

        if (r)
                return r;
        size = source_read(slide->source, slide->data + slide->size, size, slide->offset);
        slide->offset += size;
        slide->size += size;
        slide->data[slide->size] = 0;
        return 0;
}

static void slide_drop(Slide *slide, size_t n) {
        slide->size -= n;
        memmove(slide->data, slide->data + n, slide->size + 1);
}

static bool slide_is_all(const Slide *slide) {
        return slide->offset >= slide->source->size;
}

/*
 * Documents of what is at hand; the last one may go on behind it. Return: 0 = read more, CONVERT_E_INPUT,
 * -ENOMEM.
 */
static int take_documents(Convert *convert, Slide *slide, unsigned *numberp, Text *problem) {
        size_t used = 0;
        int r = 0;

        while (!r && used < slide->size) {
                size_t n = otlp_document_size(slide->data + used, slide->size - used);
                bool single = !*numberp && n == slide->size && slide_is_all(slide);

                if (n == slide->size - used && !slide_is_all(slide))
                        break;
                ++*numberp;
                r = single ? add_request(convert, slide->data, n, problem) :
                             add_numbered(convert, slide->data + used, n, *numberp, problem);
                used += n;
        }
        slide_drop(slide, used);
        return r;
}

static int read_documents(Convert *convert, Slide *slide, Text *problem) {
        unsigned number = 0;
        int r;

        do {
                r = slide_fill(slide, MAX(slide->size, (size_t)PIECE));
                if (!r && slide->size > OTLP_DECODE_MAX_BYTES)
                        return mistake(problem, "has a document of more than 64 MiB", "");
                if (!r)
                        r = take_documents(convert, slide, &number, problem);
        } while (!r && !slide_is_all(slide));
        return r ? r : slide->size ? take_documents(convert, slide, &number, problem) : 0;
}

static bool recognize_any(const uint8_t *data, size_t size) {
        return true;
}

static int read_otlp(Convert *convert, const Source *source, Text *problem) {
        Slide slide = { .source = source };
        int r = read_documents(convert, &slide, problem);

        free(slide.data);
        return r;
}

/* Framed: a size of four bytes before each message, which is packed by itself if at all. */

static uint32_t frame_size(const uint8_t *data) {
        return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

/* No protobuf begins with a zero; sizes of more than 16 MiB are believed where zstd follows. */
static bool recognize_framed(const uint8_t *data, size_t size) {
        static const uint8_t zstd[] = { 0x28, 0xb5, 0x2f, 0xfd };

        return size > SIZE_BYTES + sizeof(zstd) && frame_size(data) &&
                (!memcmp(data + SIZE_BYTES, zstd, sizeof(zstd)) ||
                 (data[0] == 0 &&
                  (data[SIZE_BYTES] == 0x0a || data[SIZE_BYTES] == 0x12 || data[SIZE_BYTES] == '{')));
}

static int collect(const uint8_t *data, size_t size, void *userdata) {
        Text *text = userdata;

        if (text->size + size > OTLP_DECODE_MAX_BYTES)
                return UNPACK_E_MALFORMED;
        text_append(text, (const char *)data, size);
        return text->failed ? error_origin(-ENOMEM) : 0;
}

static int add_packed(Convert *convert, const uint8_t *data, size_t size, unsigned number, Text *problem) {
        _cleanup_(unpack_freep) Unpack *unpack = NULL;
        Text text = { 0 };
        int r = unpack_new(&unpack, data, size);

        if (!r)
                r = unpack_feed(unpack, data, size, collect, &text);
        if (!r)
                r = unpack_end(unpack);
        if (!r)
                r = add_numbered(convert, (const uint8_t *)text.data, text.size, number, problem);
        else if (r == UNPACK_E_MALFORMED) {
                text_printf(problem, "document %u is damaged as %s, or larger than 64 MiB", number,
                            unpack_name(unpack));
                r = CONVERT_E_INPUT;
        }
        text_deinit(&text);
        return r;
}

static int read_frame(Convert *convert, Slide *slide, unsigned number, Text *problem) {
        size_t size;
        int r = slide_fill(slide, SIZE_BYTES);

        if (r || !slide->size)
                return r;
        size = slide->size < SIZE_BYTES ? SIZE_MAX : frame_size(slide->data);
        slide->size = 0;
        if (size <= OTLP_DECODE_MAX_BYTES)
                r = slide_fill(slide, size);
        if (r)
                return r;
        if (slide->size != size) {
                text_printf(problem, "document %u was cut off, or is larger than 64 MiB", number);
                return CONVERT_E_INPUT;
        }
        r = unpack_is_packed(slide->data, size) ? add_packed(convert, slide->data, size, number, problem) :
                                                  add_numbered(convert, slide->data, size, number, problem);
        slide->size = 0;
        return r;
}

static int read_framed(Convert *convert, const Source *source, Text *problem) {
        Slide slide = { .source = source };
        int r = 0;

        for (unsigned number = 1; !r && !slide_is_all(&slide); number++)
                r = read_frame(convert, &slide, number, problem);
        free(slide.data);
        return r;
}

/* Batches of the spool. */

static bool recognize_spool(const uint8_t *data, size_t size) {
        return size >= 8 && !memcmp(data, "SPANSPL1", 8);
}

static int read_spool(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL, *request = NULL;
        SpoolHeader header;
        size_t size;
        int r = convert_read_all(source, SPOOL_MAX_REQUEST + SPOOL_HEADER_SIZE, &data, &size, problem);

        if (r)
                return r;
        r = spool_file_unpack(data, size, &header, &request);
        if (r == SPOOL_FILE_E_SCHEMA)
                return mistake(problem, "is a batch of another schema", header.schema);
        if (r > 0)
                return mistake(problem, "is a batch of a spool, and damaged or cut off", "");
        return r ? r : add_request(convert, request, header.request_size, problem);
}

const ConvertReader convert_read_otlp = { .name = "otlp", .recognize = recognize_any, .read = read_otlp };
const ConvertReader convert_read_framed = { .name = "otlp with sizes",
                                            .recognize = recognize_framed,
                                            .read = read_framed };
const ConvertReader convert_read_spool = { .name = "spool",
                                           .recognize = recognize_spool,
                                           .read = read_spool };
