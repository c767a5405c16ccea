/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/maker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jail/helper.h"
#include "unwind/table-check.h"
#include "util/error.h"
#include "util/log.h"
#include "util/stat.h"

enum {
        MAX_TRIES = 2,
        PIECE = 256 << 10,              /* of a table, read at once */
};

struct Maker {
        Helper *helper;
        bool is_at_work;
        int fd;
        TableLimits limits;
        uint64_t timeout_ns;
        unsigned n_tries;
        MakerAnswer answer;
        size_t n_answer;                /* bytes of it that have come */
        uint8_t *data;                  /* of the table */
        size_t n_data;
        TableCheck check;
};

static void forget_answer(Maker *maker) {
        free(maker->data);
        maker->data = NULL;
        maker->n_answer = maker->n_data = 0;
}

Maker *maker_free(Maker *maker) {
        if (!maker)
                return NULL;
        forget_answer(maker);
        helper_free(maker->helper);
        free(maker);
        return NULL;
}

int maker_new(Maker **makerp, Nursery *nursery) {
        _cleanup_(maker_freep) Maker *maker = calloc(1, sizeof(*maker));
        int r;

        if (!maker)
                return error_origin(-ENOMEM);
        r = helper_new(&maker->helper, nursery);
        if (r)
                return error_fold(r);
        *makerp = take(maker);
        return 0;
}

int maker_fd(const Maker *maker) {
        return helper_fd(maker->helper);
}

static void ask(Maker *maker) {
        MakerRequest request = { .magic = MAKER_MAGIC, .max_functions = maker->limits.max_functions,
                                 .max_bytes = maker->limits.max_bytes };

        forget_answer(maker);
        maker->n_tries++;
        helper_ask(maker->helper, &request, sizeof(request), maker->fd, maker->timeout_ns);
}

void maker_begin(Maker *maker, int fd, const TableLimits *limits, uint64_t timeout_ns) {
        maker->is_at_work = true;
        maker->fd = fd;
        maker->limits = *limits;
        maker->timeout_ns = timeout_ns;
        maker->n_tries = 0;
        ask(maker);
}

bool maker_check_answer(const MakerAnswer *answer, const TableLimits *limits) {
        if (answer->magic != MAKER_MAGIC || answer->result < 0)
                return false;
        if (answer->result)
                return answer->size == 0 && (answer->result == TABLE_E_NOT_ELF || answer->result == TABLE_E_NO_TEXT ||
                                             answer->result == TABLE_E_NO_CFI || answer->result == TABLE_E_TOO_LARGE);
        return answer->size > 0 && answer->size <= limits->max_bytes && answer->size % UNWIND_BLOCK_SIZE == 0;
}

/* Nothing more of this file. */
static int end(Maker *maker, int r) {
        forget_answer(maker);
        maker->is_at_work = false;
        return r;
}

static int try_again(Maker *maker) {
        if (maker->n_tries >= MAX_TRIES) {
                log_debug("no worker could make the unwind rows of a file");
                return end(maker, MAKER_E_FAILED);
        }
        ask(maker);
        return MAKER_E_WAIT;
}

/* It says what is not so: as good as none. */
static int refuse(Maker *maker) {
        stat_add(COUNTER_WORKERS_MALFORMED, 1);
        helper_done(maker->helper, true);
        return try_again(maker);
}

static int finish(Maker *maker, Table *tablep) {
        const MakerAnswer *answer = &maker->answer;

        *tablep = (Table){ .data = take(maker->data), .size = answer->size, .text_low = answer->text_low,
                           .text_high = answer->text_high, .n_rows = answer->n_rows, .counts = answer->counts };
        helper_done(maker->helper, false);
        return end(maker, 0);
}

/* All of it is there: checked in steps, as it was made in steps. */
static int check(Maker *maker, uint64_t budget, Table *tablep) {
        Table table = { .data = maker->data, .size = maker->answer.size, .text_low = maker->answer.text_low,
                        .text_high = maker->answer.text_high };
        int r = table_check(&maker->check, &table, budget);

        if (r == TABLE_CHECK_E_AGAIN)
                return TABLE_E_AGAIN;
        return r ? refuse(maker) : finish(maker, tablep);
}

/* Return: 0 = go on, -ENOMEM, or what maker_step() shall return. */
static int begin_data(Maker *maker) {
        if (!maker_check_answer(&maker->answer, &maker->limits))
                return refuse(maker);
        if (maker->answer.result) {
                helper_done(maker->helper, false);
                return end(maker, maker->answer.result);
        }
        maker->data = malloc(maker->answer.size);
        maker->check = (TableCheck){ 0 };
        return maker->data ? 0 : error_origin(-ENOMEM);
}

static int receive(Maker *maker, uint64_t budget, Table *tablep) {
        bool is_header = maker->n_answer < sizeof(maker->answer);
        uint8_t *to = is_header ? (uint8_t *)&maker->answer + maker->n_answer : maker->data + maker->n_data;
        size_t left = is_header ? sizeof(maker->answer) - maker->n_answer : maker->answer.size - maker->n_data, n;
        int r;

        if (!is_header && left == 0)
                return check(maker, budget, tablep);
        r = helper_read(maker->helper, to, MIN(left, (size_t)PIECE), &n);
        if (r == HELPER_E_WAIT)
                return MAKER_E_WAIT;
        if (r == HELPER_E_GONE || r == HELPER_E_LATE)
                return end(maker, r == HELPER_E_LATE ? MAKER_E_LATE : MAKER_E_FAILED);
        if (r)
                return try_again(maker);
        *(is_header ? &maker->n_answer : &maker->n_data) += n;
        r = is_header && n == left ? begin_data(maker) : 0;
        return r ?: TABLE_E_AGAIN;
}

int maker_step(Maker *maker, uint64_t budget, Table *tablep) {
        if (maker->is_at_work)
                return receive(maker, budget, tablep);
        helper_tend(maker->helper);
        return MAKER_E_WAIT;
}
