/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Checks a worker's answer field by field on the daemon's side, and makes one on the worker's side.
 */

#include "host/sampling/context/thread-wire.h"

#include <string.h>

#include "border/abi.h"
#include "core/base/sandbox/channel.h"
#include "core/base/util/clock.h"

static bool is_slot(const ThreadWireSlot *slot) {
        return slot->kind <= THREAD_SLOT_DESCRIPTOR && slot->has_symbol <= 1;
}

static bool are_runtimes(const ObjectRuntimes *runtimes) {
        size_t size = strnlen(runtimes->says, sizeof(runtimes->says));

        for (size_t i = 0; i < size; i++)
                if (runtimes->says[i] < ' ' || runtimes->says[i] > '~')
                        return false;
        return size < sizeof(runtimes->says) && runtimes->bits <= UINT8_MAX;
}

static bool check_symbol(const ThreadWireAnswer *answer, ThreadSymbol *symbolp) {
        ThreadSymbol symbol = { .name = answer->name,
                                .form = answer->form,
                                .value = answer->value,
                                .block_size = answer->block_size,
                                .local_offset = answer->local_offset,
                                .n_slots = answer->n_slots };
        uint8_t form = ABI_FORM_NONE;

        if (answer->n_slots > THREAD_SYMBOL_MAX_SLOTS ||
            (answer->name && !thread_symbol_name(answer->name, &form, &symbol.unread)))
                return false;
        if (!answer->form) {
                *symbolp = (ThreadSymbol){ .name = answer->name, .unread = symbol.unread };
                return !answer->n_slots;
        }
        if (answer->form != form || answer->value > answer->block_size ||
            answer->block_size - answer->value < sizeof(uint64_t))
                return false;
        for (uint32_t i = 0; i < symbol.n_slots; i++) {
                if (!is_slot(&answer->slots[i]))
                        return false;
                symbol.slots[i] = (ThreadSlot){ answer->slots[i].address,
                                                (ThreadSlotKind)answer->slots[i].kind,
                                                answer->slots[i].has_symbol };
        }
        symbol.unread = NULL;
        *symbolp = symbol;
        return true;
}

bool thread_wire_check(const ThreadWireAnswer *answer, ThreadSymbol *symbolp, ObjectRuntimes *runtimesp) {
        if (answer->magic != THREAD_WIRE_MAGIC || !are_runtimes(&answer->runtimes) ||
            !check_symbol(answer, symbolp))
                return false;
        *runtimesp = answer->runtimes;
        return true;
}

static bool is_sound(const void *answer, const void *request) {
        ObjectRuntimes runtimes;
        ThreadSymbol symbol;

        return thread_wire_check(answer, &symbol, &runtimes);
}

const WorkerQuestion thread_wire_question = {
        .magic = THREAD_WIRE_MAGIC,
        .request_size = sizeof(ThreadWireRequest),
        .answer_size = sizeof(ThreadWireAnswer),
        .needs_file = true,
        .n_tries = 2,
        .timeout_ns = 10 * NS_PER_SEC,  /* as for rows: on a machine with forty that want a processor */
        .is_sound = is_sound,
};

void thread_wire_serve(int socket, int fd, const ThreadWireRequest *request, const ObjectRuntimes *runtimes) {
        ThreadWireAnswer answer = { .magic = THREAD_WIRE_MAGIC, .runtimes = *runtimes };
        ThreadSymbol symbol;

        if (thread_symbol_read(fd, NULL, request->size, &symbol))
                return;
        answer.name = symbol.name;
        answer.form = symbol.form;
        answer.n_slots = (uint16_t)symbol.n_slots;
        answer.value = symbol.value;
        answer.block_size = symbol.block_size;
        answer.local_offset = symbol.local_offset;
        for (uint32_t i = 0; i < symbol.n_slots; i++)
                answer.slots[i] = (ThreadWireSlot){ symbol.slots[i].address, symbol.slots[i].kind,
                                                    symbol.slots[i].has_symbol };
        channel_send(socket, &answer, sizeof(answer), -1);
}
