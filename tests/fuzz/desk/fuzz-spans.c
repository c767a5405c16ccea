/* SPDX-License-Identifier: Apache-2.0 */

/* The text of a list of spans. The corpus is written by hand. */

#include <stdlib.h>

#include "desk/report/spans.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        SpanListProblem problem;
        SpanList *list = NULL;
        int r = span_list_new(&list, (const char *)data, size, &problem);

        if (r < 0 || (r == 0) != (list != NULL) || (r && (!problem.line || !problem.text[0])))
                abort();
        for (size_t i = 0; list && i + 8 <= size; i++) {
                uint32_t operation;

                if (span_list_find(list, data + i, &operation) == 0 &&
                    (operation >= span_list_n_operations(list) || !span_list_operation(list, operation)[0]))
                        abort();
        }
        span_list_free(list);
        return 0;
}
