/* SPDX-License-Identifier: Apache-2.0 */

/* `report --raw`: OTLP requests field by field, as they are. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/text.h"
#include "cli/cli.h"
#include "cli/input.h"
#include "cli/report-raw.h"
#include "formats/otlp/decode.h"
#include "formats/report/raw.h"

enum { WHERE_MAX = 256 };

static int decode(const char *name, const char *data, size_t size, OtlpRequest **requestp) {
        static const char *const texts[] = {
                [OTLP_DECODE_E_TOO_LARGE] = "would take too much memory",
                [OTLP_DECODE_E_TOO_DEEP] = "is nested too deeply",
                [OTLP_DECODE_E_MALFORMED] = "is no profiles file (OTLP protobuf or JSON), or was cut off",
        };
        char where[WHERE_MAX] = "";
        int r = otlp_decode_request((const uint8_t *)data, size, requestp, where, sizeof(where));

        return r > 0 ? input_mistake(name, texts[r], where) : r;
}

static int print_raw(const char *name, const OtlpRequest *request, bool titled) {
        titled |= strchr(name, ',') != NULL;
        if (titled) {
                text_print(name, strlen(name), stdout);
                printf(":\n");
        }
        raw_print(request, titled ? 2 : 0, stdout);
        return 0;
}

static int print_document(const char *name, const char *data, size_t size, bool titled) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        int r = decode(name, data, size, &request);

        if (r)
                return r;
        if (!request->n_resource_profiles && !request->dictionary)
                return input_mistake(name, "has no profiles in it", NULL);
        return print_raw(name, request, titled);
}

static int print_documents(const char *name, const char *data, size_t size, bool titled) {
        char numbered[PATH_MAX + 32];

        for (unsigned n = 1; size; n++) {
                size_t first = otlp_document_size((const uint8_t *)data, size);
                int r;

                snprintf(numbered, sizeof(numbered), "%s, document %u", name, n);
                r = print_document(n == 1 && first == size ? name : numbered, data, first, titled);
                if (r)
                        return r;
                data += first;
                size -= first;
        }
        return 0;
}

static int print_file(Input *input, const char *argument, bool titled) {
        const char *name = input_name(argument);
        _cleanup_(freep) char *data = NULL;
        size_t size;
        int r = input_read(input, argument, &data, &size);

        return r ? r : print_documents(name, data, size, titled);
}

int report_raw(const Cli *cli) {
        int status = STATUS_OK;
        Input input = { 0 };

        for (int i = 0; i < cli->n_arguments; i++) {
                int r = print_file(&input, cli->arguments[i], cli->n_arguments > 1);

                if (r < 0)
                        return r;
                if (r)
                        status = r;
        }
        return status;
}
