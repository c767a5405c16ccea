/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a sample's profile, attributes and link to its context: one value in each dimension. Each combination
 * that the window has is looked at once.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/profile/operation.h"
#include "core/profile/process-identity.h"
#include "desk/page/build.h"

enum { VALUE_NONE, VALUE_OTHERS };

typedef struct Contexts {
        PageModel *model;
        const Window *window;
        uint32_t side;
        Intern known;                   /* {profile, attributes, link} → number */
        uint32_t *contexts;             /* number → context */
        uint32_t room;
        Intern identities;              /* of processes whose service has a name */
        uint32_t *named;                /* identity → the first resource with a name */
        size_t named_room;
        Text label;
} Contexts;

/* State of a sample while its attributes are read. */
typedef struct Reading {
        PageContext context;
        int64_t thread_id;
        uint32_t thread_name, operation_rank;
        bool has_thread_id;
        Text coroutine;
} Reading;

/* Dimensions */

static int set_label(PageModel *model, PageDimension *dimension, uint32_t value, const char *text,
                     size_t size) {
        int r = array_reserve(&dimension->labels, &dimension->room, (size_t)value + 1, 16);

        return r ? r : page_string(model, text, size, &dimension->labels[value]);
}

static int add_dimension(PageModel *model, const char *key, uint32_t max_values) {
        PageDimension *dimension = &model->dimensions[model->n_dimensions];
        uint32_t value;
        int r;

        *dimension = (PageDimension){ 0 };
        intern_init(&dimension->values, max_values + 2);
        model->n_dimensions++;
        r = page_string(model, key, strlen(key), &dimension->key);
        if (!r)
                r = page_intern(&dimension->values, "", 0, &value);
        if (!r)
                r = page_intern(&dimension->values, "", 1, &value);
        if (!r)
                r = set_label(model, dimension, VALUE_NONE, "", 0);
        return r ? r : set_label(model, dimension, VALUE_OTHERS, "others", 6);
}

/* @key tells the value from others; @label is what people see. */
static int add_value(PageModel *model, uint32_t number, const void *key, size_t size, const char *label,
                     size_t label_size, uint32_t *valuep) {
        PageDimension *dimension = &model->dimensions[number];
        int r = intern_add(&dimension->values, key, size, valuep);

        if (r == INTERN_E_FOUND)
                return 0;
        if (r == INTERN_E_FULL) {
                *valuep = VALUE_OTHERS;
                return 0;
        }
        return r ? r : set_label(model, dimension, *valuep, label, label_size);
}

static int add_dimensions(PageModel *model) {
        static const struct {
                const char *key;
                uint32_t max_values;
        } fixed[DIMENSION_FIRST_OTHER] = {
                [DIMENSION_PROCESS] = { "process", PAGE_MAX_VALUES },
                [DIMENSION_THREAD] = { "thread", PAGE_MAX_VALUES },
                [DIMENSION_SPAN] = { "span", PAGE_MAX_SPANS },
                [DIMENSION_OPERATION] = { "operation", PAGE_MAX_VALUES },
                [DIMENSION_COROUTINE] = { "coroutine", PAGE_MAX_VALUES },
                [DIMENSION_END] = { "end", PAGE_MAX_VALUES },
        };
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(fixed) && !r; i++)
                r = add_dimension(model, fixed[i].key, fixed[i].max_values);
        return r;
}

/* The dimension of any other attribute; PAGE_MAX_DIMENSIONS = there are too many. */
static int find_dimension(PageModel *model, const char *key, uint32_t *numberp) {
        uint32_t n;

        for (n = DIMENSION_FIRST_OTHER; n < model->n_dimensions; n++)
                if (!strcmp(page_get_string(model, model->dimensions[n].key), key))
                        break;
        *numberp = n;
        return n < model->n_dimensions || n == PAGE_MAX_DIMENSIONS
                ? 0
                : add_dimension(model, key, PAGE_MAX_VALUES);
}

/* Attributes */

static void append_attribute(const Window *window, const WindowAttribute *attribute, Text *text) {
        size_t size;
        const char *string = window_get_string(window, attribute->string, &size);
        double number;

        if (attribute->kind == ATTRIBUTE_STRING)
                text_append(text, string, size);
        else if (attribute->kind == ATTRIBUTE_BOOL)
                text_printf(text, "%s", attribute->integer ? "true" : "false");
        else if (attribute->kind == ATTRIBUTE_INT)
                text_printf(text, "%" PRId64, attribute->integer);
        else {
                memcpy(&number, &attribute->integer, sizeof(number));
                text_printf(text, "%g", number);
        }
}

/* `shop · java (4711)`: a service without a name of its own says nothing. */
static void append_process(const Window *window, uint32_t resource, Text *text) {
        const char *service = window_get_resource_text(window, resource, "service.name");
        const char *program = window_get_resource_text(window, resource, "process.executable.name");
        int64_t pid;

        /* OpenTelemetry's conventions give `unknown_service:java` where no name was given */
        if (!strncmp(service, "unknown_service", 15))
                service = *program ? "" : service[15] == ':' && service[16] ? service + 16 : service;
        if (*service && *program && strcmp(service, program))
                text_printf(text, "%s · %s", service, program);
        else
                text_printf(text, "%s", *program ? program : *service ? service : "process");
        if (window_get_resource_integer(window, resource, "process.pid", &pid))
                text_printf(text, " (%" PRId64 ")", pid);
}

/* Notes the processes whose services have names, for resources of before. */
static int find_names(Contexts *contexts) {
        const Window *window = contexts->window;
        _cleanup_(text_deinit) Text identity = { 0 };
        uint32_t number;
        int r = 0;

        for (uint32_t i = 1; i < window_n_resources(window) && !r; i++) {
                identity.size = 0;
                if (!process_service_has_name(window_get_resource_text(window, i, "service.name")) ||
                    !process_identity(window, i, &identity) || identity.failed)
                        continue;
                r = intern_add(&contexts->identities, identity.data, identity.size, &number);
                if (r == INTERN_E_FOUND) {
                        r = 0;
                        continue;
                }
                if (!r)
                        r = array_reserve(&contexts->named, &contexts->named_room, number + 1u, 64);
                if (!r)
                        contexts->named[number] = i;
        }
        return r < 0 ? error_fold(r) : 0;
}

static void append_all_attributes(const Window *window, uint32_t resource, Text *text) {
        size_t n;
        const uint32_t *attributes = window_get_resource(window, resource, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);

                text_printf(text, "%s=", window_get_string(window, attribute->key, NULL));
                append_attribute(window, attribute, text);
                text_append(text, "\n", 1);
        }
}

/* Told apart by what process-identity.h says, over both windows; processes of others by all attributes. */
static int process_of(Contexts *contexts, uint32_t resource, uint32_t *valuep) {
        const Window *window = contexts->window;
        _cleanup_(text_deinit) Text key = { 0 };
        uint32_t number;
        const char *service;

        if (process_identity(window, resource, &key)) {
                service = window_get_resource_text(window, resource, "service.name");
                if (!process_service_has_name(service) && !key.failed &&
                    !intern_find(&contexts->identities, key.data, key.size, &number))
                        resource = contexts->named[number];
                service = window_get_resource_text(window, resource, "service.name");
                text_printf(&key, "%s", service);
        } else {
                append_all_attributes(window, resource, &key);
        }
        contexts->label.size = 0;
        append_process(window, resource, &contexts->label);
        return key.failed || contexts->label.failed
                ? error_origin(-ENOMEM)
                : add_value(contexts->model, DIMENSION_PROCESS, key.data ? key.data : "?",
                            key.data ? key.size : 1, contexts->label.data, contexts->label.size, valuep);
}

static int thread_of(Contexts *contexts, Reading *reading) {
        const struct {
                uint32_t process, name;
                int64_t id;
        } key = { reading->context.values[DIMENSION_PROCESS], reading->thread_name, reading->thread_id };
        Text *label = &contexts->label;

        if (!reading->has_thread_id && !reading->thread_name)
                return 0;
        label->size = 0;
        text_printf(label, "%s", page_get_string(contexts->model, reading->thread_name));
        if (reading->has_thread_id)
                text_printf(label, reading->thread_name ? " (%" PRId64 ")" : "%" PRId64, reading->thread_id);
        return label->failed ? error_origin(-ENOMEM) :
                add_value(contexts->model, DIMENSION_THREAD, &key, sizeof(key), label->data, label->size,
                          &reading->context.values[DIMENSION_THREAD]);
}

static int span_of(Contexts *contexts, uint32_t index, Reading *reading) {
        const WindowLink *link = window_get_link(contexts->window, index);
        const PageOptions *options = contexts->model->options;
        const char *operation;
        int r;

        if (!index)
                return 0;
        r = add_value(contexts->model, DIMENSION_SPAN, link, sizeof(*link), "", 0,
                      &reading->context.values[DIMENSION_SPAN]);
        operation = options->operation && !r ? options->operation(link, options->userdata) : NULL;
        if (!operation)
                return r;
        return add_value(contexts->model, DIMENSION_OPERATION, operation, strlen(operation), operation,
                         strlen(operation), &reading->context.values[DIMENSION_OPERATION]);
}

static uint32_t operation_rank(const char *key) {
        return OPERATION_N_KEYS - (uint32_t)operation_key_place(key, strlen(key));
}

static int read_plain(Contexts *contexts, const WindowAttribute *attribute, const char *key,
                      Reading *reading) {
        uint32_t number = DIMENSION_END, rank = operation_rank(key);
        Text *label = &contexts->label;
        int r = 0;

        if (rank && rank <= reading->operation_rank)
                return 0;
        if (rank) {
                number = DIMENSION_OPERATION;
                reading->operation_rank = rank;
        } else if (strcmp(key, "profile.stack.truncated"))
                r = find_dimension(contexts->model, key, &number);
        if (r || number == PAGE_MAX_DIMENSIONS)
                return r;
        label->size = 0;
        append_attribute(contexts->window, attribute, label);
        return label->failed ? error_origin(-ENOMEM)
                             : add_value(contexts->model, number, label->size ? label->data : "(empty)",
                                         label->size ? label->size : 7, label->size ? label->data : "(empty)",
                                         label->size ? label->size : 7, &reading->context.values[number]);
}

static int read_attribute(Contexts *contexts, const WindowAttribute *attribute, Reading *reading) {
        const char *key = window_get_string(contexts->window, attribute->key, NULL), *text;
        size_t size;

        if (!strcmp(key, "thread.id") && attribute->kind == ATTRIBUTE_INT) {
                reading->has_thread_id = true;
                reading->thread_id = attribute->integer;
        } else if (!strcmp(key, "thread.name") && attribute->kind == ATTRIBUTE_STRING) {
                text = window_get_string(contexts->window, attribute->string, &size);
                return page_string(contexts->model, text, size, &reading->thread_name);
        } else if (!strncmp(key, "coroutine.", 10)) {
                if (!strcmp(key + 10, "state"))
                        return 0;
                if (!strcmp(key + 10, "name"))          /* name of a task, which has no more */
                        text_printf(&reading->coroutine, "%s", reading->coroutine.size ? ", " : "");
                else
                        text_printf(&reading->coroutine, reading->coroutine.size ? ", %s " : "%s ", key + 10);
                append_attribute(contexts->window, attribute, &reading->coroutine);
        } else if (strcmp(key, "profile.type"))         /* the kind says it */
                return read_plain(contexts, attribute, key, reading);
        return 0;
}

static int read_attributes(Contexts *contexts, uint32_t set, Reading *reading) {
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(contexts->window, set, &n);
        int r = 0;

        for (size_t i = 0; i < n && !r; i++)
                r = read_attribute(contexts, window_get_attribute(contexts->window, attributes[i]), reading);
        if (!r && reading->coroutine.failed)
                r = error_origin(-ENOMEM);
        if (!r && reading->coroutine.size)
                r = add_value(contexts->model, DIMENSION_COROUTINE, reading->coroutine.data,
                              reading->coroutine.size, reading->coroutine.data, reading->coroutine.size,
                              &reading->context.values[DIMENSION_COROUTINE]);
        text_deinit(&reading->coroutine);
        return r ? r : thread_of(contexts, reading);
}

/* Kinds */

static int names_of(Contexts *contexts, const WindowProfile *profile, PageKind *kind) {
        const uint32_t from[] = { profile->names.type, profile->names.unit, profile->names.period_type,
                                  profile->names.period_unit };
        uint32_t *to[] = { &kind->type, &kind->unit, &kind->period_type, &kind->period_unit };
        const char *text;
        size_t size;
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(from) && !r; i++) {
                text = window_get_string(contexts->window, from[i], &size);
                r = page_string(contexts->model, text, size, to[i]);
        }
        return r;
}

static int kind_of(Contexts *contexts, const WindowProfile *profile, uint32_t *kindp) {
        PageModel *model = contexts->model;
        PageKind kind = { .is_cpu = profile_is_cpu(profile->type) };
        uint32_t i;
        int r = names_of(contexts, profile, &kind);

        for (i = 0; i < model->n_kinds; i++)
                if (model->kinds[i].type == kind.type && model->kinds[i].unit == kind.unit)
                        break;
        if (i == PAGE_MAX_KINDS)
                i--;
        else if (i == model->n_kinds)
                model->kinds[model->n_kinds++] = kind;
        *kindp = i;
        return r;
}

static void count_kind(PageKind *kind, uint32_t side, const WindowProfile *profile,
                       const WindowSample *sample) {
        uint64_t value = sample->value > 0 ? (uint64_t)sample->value : 0;

        kind->n_events += sample->n_events;
        kind->value[side] += value;
        if (profile->period > 0)
                kind->measured[side] += (double)value * (double)profile->period;
}

/* Samples */

static int make_context(Contexts *contexts, PageContext context, const WindowSample *sample,
                        uint32_t *contextp) {
        Reading reading = { .context = context };
        int r = span_of(contexts, sample->link, &reading);

        if (reading.context.values[DIMENSION_OPERATION])
                reading.operation_rank = UINT32_MAX;
        if (!r)
                r = read_attributes(contexts, sample->attributes, &reading);
        if (!r)
                r = page_intern(&contexts->model->contexts, &reading.context, sizeof(reading.context),
                                contextp);
        if (r == INTERN_E_FULL) {
                *contextp = 0;
                r = 0;
        }
        return r;
}

static int remember(Contexts *contexts, uint32_t number, uint32_t context) {
        int r = array_reserve(&contexts->contexts, &contexts->room, (size_t)number + 1, 256);

        if (!r)
                contexts->contexts[number] = context;
        return r;
}

static int context_of(Contexts *contexts, uint32_t profile, PageContext base, const WindowSample *sample,
                      uint32_t *contextp) {
        uint32_t key[] = { profile, sample->attributes, sample->link }, number, context;
        int r = intern_add(&contexts->known, key, sizeof(key), &number);

        if (r == INTERN_E_FOUND) {
                *contextp = contexts->contexts[number];
                return 0;
        }
        if (!r)
                r = make_context(contexts, base, sample, &context);
        if (!r)
                r = remember(contexts, number, context);
        if (r)
                return error_fold(r);
        *contextp = context;
        return 0;
}

static int read_profile(Contexts *contexts, uint32_t index, uint32_t *to) {
        const WindowProfile *profile = window_get_profile(contexts->window, index);
        PageContext base = { .side = contexts->side };
        int r = kind_of(contexts, profile, &base.kind);

        if (!r)
                r = process_of(contexts, profile->resource, &base.values[DIMENSION_PROCESS]);
        for (uint32_t i = 0; i < profile->n_samples && !r; i++) {
                WindowSample sample;

                window_get_sample(contexts->window, index, i, &sample);
                count_kind(&contexts->model->kinds[base.kind], contexts->side, profile, &sample);
                r = context_of(contexts, index, base, &sample, &to[i]);
        }
        return r;
}

int page_contexts_of(PageModel *model, uint32_t side) {
        const Window *window = model->sides[side].window;
        Contexts contexts = { .model = model, .window = window, .side = side };
        size_t n = 0;
        int r = side ? 0 : add_dimensions(model);

        intern_init(&contexts.known, UINT32_MAX / 4);
        intern_init(&contexts.identities, UINT32_MAX / 4);
        r = r ?: find_names(&contexts);
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                n += window_get_profile(window, i)->n_samples;
        model->sides[side].contexts = calloc(n + 1, sizeof(*model->sides[side].contexts));
        if (!model->sides[side].contexts)
                r = error_origin(-ENOMEM);
        n = 0;
        for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++) {
                r = read_profile(&contexts, i, model->sides[side].contexts + n);
                n += window_get_profile(window, i)->n_samples;
        }
        intern_deinit(&contexts.known);
        intern_deinit(&contexts.identities);
        free(contexts.named);
        free(contexts.contexts);
        text_deinit(&contexts.label);
        return r;
}
