/* SPDX-License-Identifier: Apache-2.0 */

/* OTLP requests, protobuf or JSON; of JSON also several, one behind the other, as collectors' files have them. */

#include <string.h>

#include "convert/convert.h"
#include "otlp/decode.h"
#include "otlp/import.h"

enum { WHERE_MAX = 256 };

static bool recognize(const uint8_t *data, size_t size) {
        return true;
}

static int mistake(Text *problem, const char *what, const char *where) {
        text_printf(problem, "%s%s%s", what, *where ? ": " : "", where);
        return CONVERT_E_INPUT;
}

static int add_request(Convert *convert, const uint8_t *data, size_t size, Text *problem) {
        static const char *const texts[] = {
                [OTLP_DECODE_E_TOO_LARGE] = "would take too much memory",
                [OTLP_DECODE_E_TOO_DEEP] = "is nested too deeply",
                [OTLP_DECODE_E_MALFORMED] = "is in no format that can be read, or was cut off",
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
        r = otlp_import_add(convert->window, request, &start_ns, &end_ns, where, sizeof(where));
        if (r > 0)
                return mistake(problem, "is no sound profiles file", where);
        if (!r && start_ns < end_ns)
                convert_cover(convert, start_ns, end_ns);
        return r;
}

static int read_otlp(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        const ConvertOptions *options = convert->options;
        size_t size;
        int r;

        if (options->start_ns || options->end_ns != UINT64_MAX)
                return mistake(problem, "is OTLP already: --start and --end are for recordings", "");
        r = convert_read_all(source, OTLP_DECODE_MAX_BYTES, &data, &size, problem);
        for (const uint8_t *at = data; !r && size;) {
                size_t n = otlp_document_size(at, size);

                r = add_request(convert, at, n, problem);
                at += n;
                size -= n;
        }
        return r;
}

const ConvertReader convert_read_otlp = { "otlp", recognize, read_otlp };
