/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Current Span of a Thread, as Python Sees It
 *
 * OpenTelemetry keeps its Context (a dict, with the current span in it) in one context variable. What a
 * thread publishes must be the span in that variable, at any instruction. The variable changes by:
 *
 *     attach(), detach()      the runtime context of this package has these from here
 *     another context         asyncio's loops, to_thread(), anyio and asgiref run each callback and each
 *                             step of a task by Context.run(); eager tasks and uvloop enter one in C
 *     greenlets               each has a context; greenlet.settrace() calls switched() after a switch
 *
 * CPython 3.14 and newer tell a watcher of each other context, in the thread that has it, when it is current
 * already (PyContext_AddWatcher()). Older ones tell nobody. There:
 *
 *     Context.run()           has a function of ours in the place of the type's method: it publishes what the
 *                             context has, runs, and publishes what the thread has then
 *     uvloop                  has a Step around each callback, which publishes what is current
 *     eager tasks (3.12)      run their first step in create_task(), which calls republish() when it is done
 *
 * Each span that is started from then on has an attribute `_spanprof_root`: what it is named by. That is a
 * Root in an entry span (without a parent, or with one of another service), and a Child that leads to it in
 * the spans below. A change of the entry span's name or route changes the Root.
 *
 * The writer itself is the SDK's (sdk/src/otel.c), compiled into this extension. Nothing here runs in a
 * signal handler: Python calls handlers between two instructions of its own. An error never reaches the
 * service: then the thread publishes no span.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "spanprof/otel.h"

#if !defined(__linux__)
#error "profilers read contexts on Linux alone"
#endif

#define CONTEXTS_ARE_WATCHED (PY_VERSION_HEX >= 0x030e0000)

enum {
        MAX_RESOURCE = 128,             /* attributes that readers take */
};

/* What the calling thread publishes. */
static _Thread_local struct {
        uint64_t high, low, span;
        bool is_set, watches_greenlets;
} now;

static PyObject *variable;              /* ContextVar of OpenTelemetry's Context */
static PyObject *span_key;              /* key of the span in a Context; NULL = not known yet */
static PyObject *modules;               /* sys.modules */
static PyObject *find_key, *found_asyncio, *found_greenlet, *found_span;   /* to be called, or NULL */
static PyObject *text_asyncio, *text_greenlet, *text_get_span_context, *text_root, *text_route;
static unsigned long long n_failures;
static bool stopped, has_names;

static void clear(void) {
        if (!now.is_set)
                return;
        now.is_set = false;
        spanprof_otel_clear();
}

/* The low @size bytes of a positive number, as they lie in memory. Return: whether it is one. */
static bool get_number(PyObject *number, void *to, size_t size) {
        if (!PyLong_Check(number))
                return false;
#if PY_VERSION_HEX >= 0x030d0000
        return PyLong_AsNativeBytes(number, to, (Py_ssize_t)size,
                                    Py_ASNATIVEBYTES_NATIVE_ENDIAN | Py_ASNATIVEBYTES_UNSIGNED_BUFFER |
                                            Py_ASNATIVEBYTES_REJECT_NEGATIVE) >= 0;
#else
        return _PyLong_AsByteArray((PyLongObject *)number, to, size, PY_LITTLE_ENDIAN, 0) == 0;
#endif
}

typedef struct Root {
        PyObject_HEAD
        struct spanprof_otel_root root;
        PyObject *name, *route;         /* str, or NULL */
} Root;

typedef struct Child {
        PyObject_HEAD
        Root *root;
} Child;

static PyTypeObject root_type, child_type;

/* Return: what @span is named by, a new reference to a Root or a Child; NULL = nothing, without an error. */
static PyObject *mark_of(PyObject *span) {
        PyObject *mark = has_names ? PyObject_GetAttr(span, text_root) : NULL;

        if (mark && (Py_IS_TYPE(mark, &root_type) || Py_IS_TYPE(mark, &child_type)))
                return mark;
        if (has_names && !mark)
                PyErr_Clear();
        Py_XDECREF(mark);
        return NULL;
}

static Root *root_of(PyObject *mark) {
        return Py_IS_TYPE(mark, &root_type) ? (Root *)mark : ((Child *)mark)->root;
}

/*
 * @span_context: a tuple (trace id, span id, is it remote …). Return: -1 = it was none, else whether it is a
 * span that something in this process works for. A remote one is the caller's: this thread will work for a
 * child of it.
 */
static int read_ids(PyObject *span_context, uint64_t trace[static 2], uint64_t *span) {
        if (!PyTuple_Check(span_context) || PyTuple_GET_SIZE(span_context) < 3 ||
            !get_number(PyTuple_GET_ITEM(span_context, 0), trace, 2 * sizeof(*trace)) ||
            !get_number(PyTuple_GET_ITEM(span_context, 1), span, sizeof(*span)))
                return -1;
        return (trace[0] | trace[1]) && *span && PyTuple_GET_ITEM(span_context, 2) != Py_True;
}

/* Return: whether @span_context was one. */
static bool set(PyObject *span, PyObject *span_context) {
        uint64_t trace[2], id;
        PyObject *mark;
        int r = read_ids(span_context, trace, &id);

        if (r <= 0) {
                clear();
                return r == 0;
        }
        now.low = trace[PY_BIG_ENDIAN];
        now.high = trace[!PY_BIG_ENDIAN];
        now.span = id;
        now.is_set = true;
        mark = mark_of(span);
        if (mark)
                spanprof_otel_set_root(now.high, now.low, now.span, &root_of(mark)->root);
        else
                spanprof_otel_set(now.high, now.low, now.span);
        Py_XDECREF(mark);
        return true;
}

/* Calls @function(@argument), and says whether it said true. What goes wrong there stays there. */
static bool ask(PyObject *function, PyObject *argument) {
        PyObject *answer = PyObject_CallFunctionObjArgs(function, argument, NULL);
        bool yes = answer == Py_True;

        if (!answer)
                PyErr_Clear();
        Py_XDECREF(answer);
        return yes;
}

/* Libraries that switch contexts, once they are there. */
static void look_around(void) {
        PyObject *found;

        if (found_asyncio && PyDict_GetItemWithError(modules, text_asyncio)) {
                found = found_asyncio;
                found_asyncio = NULL;
                (void)ask(found, NULL);
                Py_DECREF(found);
        }
        if (!now.watches_greenlets && found_greenlet && PyDict_GetItemWithError(modules, text_greenlet)) {
                now.watches_greenlets = true;
                (void)ask(found_greenlet, NULL);
        }
        PyErr_Clear();
}

/* No exception is set before, nor after. @context: OpenTelemetry's, borrowed; NULL or None = none. */
static void publish_context(PyObject *context) {
        PyObject *span = NULL, *span_context, *found;
        bool good;

        look_around();
        if (context && span_key && !stopped && PyDict_Check(context))
                span = PyDict_GetItemWithError(context, span_key);
        if (!span) {
                PyErr_Clear();
                clear();
                return;
        }
        Py_INCREF(span);
        span_context = PyObject_CallMethodObjArgs(span, text_get_span_context, NULL);
        good = span_context && set(span, span_context);
        if (!good) {
                PyErr_Clear();
                clear();
                n_failures++;
        }
        if (found_span && now.is_set) {
                found = found_span;
                found_span = NULL;
                if (ask(found, span) || found_span)
                        Py_DECREF(found);
                else
                        found_span = found;
                (void)set(span, span_context);  /* it may have a name now */
                PyErr_Clear();
        }
        Py_XDECREF(span_context);
        Py_DECREF(span);
}

static void publish_current(void) {
        PyObject *context = NULL;

        if (!variable || PyContextVar_Get(variable, NULL, &context) < 0)
                PyErr_Clear();
        publish_context(context);
        Py_XDECREF(context);
}

PyDoc_STRVAR(follow_doc, "follow(): other contexts are published, too, from now on. RuntimeError: there is no way.");

#if CONTEXTS_ARE_WATCHED

static bool is_watching;

/* An error may be on its way, out of the context that has been left. */
static int switched_context(PyContextEvent event, PyObject *context) {
        PyObject *error;

        (void)context;
        if (event != Py_CONTEXT_SWITCHED)
                return 0;
        error = PyErr_GetRaisedException();
        publish_current();
        if (error)
                PyErr_SetRaisedException(error);
        return 0;
}

static PyObject *py_follow(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        if (!is_watching && PyContext_AddWatcher(switched_context) < 0)
                return NULL;
        is_watching = true;
        Py_RETURN_NONE;
}

#else

enum { RUN_FLAGS = METH_FASTCALL | METH_KEYWORDS };

static _PyCFunctionFastWithKeywords run_method;                 /* Context.run, as it was */
static PyObject *text_get;

/* In the place of Context.run(). */
static PyObject *run(PyObject *self, PyObject *const *arguments, Py_ssize_t n, PyObject *names) {
        PyObject *context, *result, *type, *value, *trace;

        context = variable ? PyObject_CallMethodObjArgs(self, text_get, variable, NULL) : NULL;
        if (!context)
                PyErr_Clear();
        publish_context(context);
        Py_XDECREF(context);
        result = run_method(self, arguments, n, names);
        if (result) {
                publish_current();
        } else {
                PyErr_Fetch(&type, &value, &trace);
                publish_current();
                PyErr_Restore(type, value, trace);
        }
        return result;
}

static PyMethodDef run_definition = { "run", (PyCFunction)(void (*)(void))run, RUN_FLAGS, NULL };

static PyObject *type_names(PyTypeObject *type) {
#if PY_VERSION_HEX >= 0x030c0000
        return PyType_GetDict(type);
#else
        Py_XINCREF(type->tp_dict);
        return type->tp_dict;
#endif
}

/* Only a method that is known is replaced. */
static PyObject *py_follow(PyObject *self, PyObject *nothing) {
        PyObject *names, *old, *new = NULL;
        PyMethodDef *method;
        int r = -1;

        (void)self, (void)nothing;
        if (run_method)
                Py_RETURN_NONE;
        text_get = PyUnicode_InternFromString("get");
        if (!text_get)
                return NULL;
        names = type_names(&PyContext_Type);
        old = names ? PyDict_GetItemString(names, "run") : NULL;
        if (old && Py_IS_TYPE(old, &PyMethodDescr_Type)) {
                method = ((PyMethodDescrObject *)old)->d_method;
                if (method->ml_flags == RUN_FLAGS) {
                        run_definition.ml_doc = method->ml_doc;
                        new = PyDescr_NewMethod(&PyContext_Type, &run_definition);
                        memcpy(&run_method, &method->ml_meth, sizeof(run_method));
                }
        }
        if (new)
                r = PyDict_SetItemString(names, "run", new);
        if (r == 0)
                PyType_Modified(&PyContext_Type);
        else
                run_method = NULL;
        Py_XDECREF(new);
        Py_XDECREF(names);
        PyErr_Clear();
        if (r != 0)
                return PyErr_Format(PyExc_RuntimeError, "this Python's Context.run() is not known");
        Py_RETURN_NONE;
}

#endif

PyDoc_STRVAR(setup_doc, "setup(variable, key, asyncio, greenlet, span)\n\n"
             "@variable: the ContextVar; @key() says set_key(). The next are called without arguments when that\n"
             "module is there (@greenlet once in each thread); @span(span) for spans, until it says True.");

static PyObject *py_setup(PyObject *self, PyObject *arguments) {
        PyObject *var, *find, *asyncio, *greenlet, *span;

        (void)self;
        if (!PyArg_ParseTuple(arguments, "O!OOOO", &PyContextVar_Type, &var, &find, &asyncio, &greenlet, &span))
                return NULL;
        Py_INCREF(var);
        Py_XSETREF(variable, var);
        Py_INCREF(find);
        Py_XSETREF(find_key, find);
        Py_INCREF(asyncio);
        Py_XSETREF(found_asyncio, asyncio);
        Py_INCREF(greenlet);
        Py_XSETREF(found_greenlet, greenlet);
        Py_INCREF(span);
        Py_XSETREF(found_span, span);
        Py_RETURN_NONE;
}

PyDoc_STRVAR(set_key_doc, "set_key(key): under which a Context has its span.");

static PyObject *py_set_key(PyObject *self, PyObject *key) {
        (void)self;
        Py_INCREF(key);
        Py_XSETREF(span_key, key);
        Py_RETURN_NONE;
}

PyDoc_STRVAR(attach_doc, "attach(context) -> token: it is current in this thread from now on, and published.");

static PyObject *py_attach(PyObject *self, PyObject *context) {
        PyObject *token;

        (void)self;
        token = PyContextVar_Set(variable, context);
        if (!token)
                return NULL;
        if (!span_key && find_key && !stopped)
                (void)ask(find_key, NULL);
        publish_context(context);
        return token;
}

PyDoc_STRVAR(detach_doc, "detach(token): what was current before it was made is so again, and published.");

static PyObject *py_detach(PyObject *self, PyObject *token) {
        (void)self;
        if (PyContextVar_Reset(variable, token) < 0)
                return NULL;    /* as before: nothing has changed */
        publish_current();
        Py_RETURN_NONE;
}

PyDoc_STRVAR(republish_doc, "republish(): … of the current Context.");

static PyObject *py_republish(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        publish_current();
        Py_RETURN_NONE;
}

PyDoc_STRVAR(switched_doc, "switched(event, greenlets): greenlet calls it after a switch.");

static PyObject *py_switched(PyObject *self, PyObject *const *arguments, Py_ssize_t n) {
        (void)self, (void)arguments, (void)n;
        publish_current();
        Py_RETURN_NONE;
}

PyDoc_STRVAR(forked_doc, "forked(span): in a child. Its thread works on for the span that it had; @span as in setup().");

static PyObject *py_forked(PyObject *self, PyObject *span) {
        (void)self;
        Py_INCREF(span);
        Py_XSETREF(found_span, span);
        if (now.is_set)
                publish_current();
        Py_RETURN_NONE;
}

/* ---- names ---- */

static void root_dealloc(PyObject *self) {
        Py_XDECREF(((Root *)self)->name);
        Py_XDECREF(((Root *)self)->route);
        PyObject_Free(self);
}

static void child_dealloc(PyObject *self) {
        Py_DECREF(((Child *)self)->root);
        PyObject_Free(self);
}

static PyTypeObject root_type = {
        PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "spanprof_otel._record.Root",
        .tp_basicsize = sizeof(Root),
        .tp_dealloc = root_dealloc,
};

static PyTypeObject child_type = {
        PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "spanprof_otel._record.Child",
        .tp_basicsize = sizeof(Child),
        .tp_dealloc = child_dealloc,
};

/* @text: a str, or another object, which is none. */
static const char *utf8(PyObject *text, size_t *size) {
        const char *bytes;
        Py_ssize_t n = 0;

        bytes = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
        if (!bytes)
                PyErr_Clear();
        *size = bytes ? (size_t)n : 0;
        return bytes ? bytes : "";
}

static void name_root(Root *root) {
        size_t name_size, route_size;
        const char *name = utf8(root->name, &name_size), *route = utf8(root->route, &route_size);

        spanprof_otel_name(&root->root, name, name_size, route, route_size);
}

static PyObject *make_root(PyObject *name, PyObject *attributes) {
        Root *root = PyObject_New(Root, &root_type);

        if (!root)
                return NULL;
        root->root = (struct spanprof_otel_root){ 0 };
        Py_INCREF(name);
        root->name = name;
        root->route = NULL;
        if (attributes != Py_None) {
                root->route = PyObject_GetItem(attributes, text_route);
                if (!root->route)
                        PyErr_Clear();
        }
        name_root(root);
        return (PyObject *)root;
}

static PyObject *make_child(Root *root) {
        Child *child = PyObject_New(Child, &child_type);

        if (!child)
                return NULL;
        Py_INCREF(root);
        child->root = root;
        return (PyObject *)child;
}

/* Return: whether a span with this parent is the first one of this process. */
static bool is_entry(PyObject *parent) {
        PyObject *span_context = PyObject_CallMethodObjArgs(parent, text_get_span_context, NULL);
        uint64_t trace[2], id;
        bool yes = span_context && read_ids(span_context, trace, &id) == 0;

        PyErr_Clear();
        Py_XDECREF(span_context);
        return yes;
}

/* Return: the mark for a span with @parent (NULL = none), NULL = that parent has no name. */
static PyObject *make_mark(PyObject *parent, PyObject *name, PyObject *attributes) {
        PyObject *mark = parent ? mark_of(parent) : NULL, *made;

        if (!mark)
                return !parent || is_entry(parent) ? make_root(name, attributes) : NULL;
        made = make_child(root_of(mark));
        Py_DECREF(mark);
        return made;
}

PyDoc_STRVAR(started_doc, "started(span, context, name, attributes): as start_span() was called; it returned @span.");

static PyObject *py_started(PyObject *self, PyObject *const *arguments, Py_ssize_t n) {
        PyObject *context = NULL, *parent = NULL, *mark = NULL;

        (void)self;
        if (n != 4)
                return PyErr_Format(PyExc_TypeError, "started() takes 4 arguments");
        if (arguments[1] != Py_None) {
                context = arguments[1];
                Py_INCREF(context);
        } else if (!variable || PyContextVar_Get(variable, NULL, &context) < 0) {
                PyErr_Clear();
        }
        if (context && span_key && PyDict_Check(context))
                parent = PyDict_GetItemWithError(context, span_key);
        Py_XINCREF(parent);
        if (parent != arguments[0])     /* a tracer that is off may return what it was given */
                mark = make_mark(parent, arguments[2], arguments[3]);
        if (mark)
                (void)PyObject_SetAttr(arguments[0], text_root, mark);
        PyErr_Clear();
        Py_XDECREF(mark);
        Py_XDECREF(parent);
        Py_XDECREF(context);
        Py_RETURN_NONE;
}

PyDoc_STRVAR(renamed_doc, "renamed(span, name, route): its name or, with None as the name, its route is another one now.");

static PyObject *py_renamed(PyObject *self, PyObject *const *arguments, Py_ssize_t n) {
        PyObject *mark;
        Root *root;

        (void)self;
        if (n != 3)
                return PyErr_Format(PyExc_TypeError, "renamed() takes 3 arguments");
        mark = mark_of(arguments[0]);
        if (mark && Py_IS_TYPE(mark, &root_type)) {
                root = (Root *)mark;
                Py_INCREF(arguments[1]);
                Py_INCREF(arguments[2]);
                if (arguments[1] != Py_None) {
                        Py_XSETREF(root->name, arguments[1]);
                        Py_DECREF(arguments[2]);
                } else {
                        Py_XSETREF(root->route, arguments[2]);
                        Py_DECREF(arguments[1]);
                }
                name_root(root);
        }
        Py_XDECREF(mark);
        Py_RETURN_NONE;
}

PyDoc_STRVAR(follow_names_doc, "follow_names(): started() and renamed() are called from now on.");

static PyObject *py_follow_names(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        has_names = true;
        Py_RETURN_NONE;
}

PyDoc_STRVAR(names_refused_doc, "names_refused() -> how often a name was not published: there were too many others.");

static PyObject *py_names_refused(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        return PyLong_FromUnsignedLongLong(spanprof_otel_names_refused());
}

PyDoc_STRVAR(publish_process_doc, "publish_process(attributes): what the process says of itself; {str: str}.");

static PyObject *py_publish_process(PyObject *self, PyObject *attributes) {
        struct spanprof_otel_attribute resource[MAX_RESOURCE];
        struct spanprof_otel_process process = { .size = sizeof(process), .attributes = resource };
        PyObject *key, *value;
        Py_ssize_t at = 0;
        int r;

        (void)self;
        if (!PyDict_Check(attributes))
                return PyErr_Format(PyExc_TypeError, "not a dict");
        while (process.n_attributes < MAX_RESOURCE && PyDict_Next(attributes, &at, &key, &value)) {
                struct spanprof_otel_attribute *to = &resource[process.n_attributes++];

                to->key = PyUnicode_AsUTF8(key);
                to->value = to->key ? PyUnicode_AsUTF8(value) : NULL;
                if (!to->value)
                        return NULL;
        }
        r = spanprof_otel_publish(&process);
        if (r < 0)
                return PyErr_Format(PyExc_OSError, "%s", strerror(-r));
        Py_RETURN_NONE;
}

PyDoc_STRVAR(read_doc, "read() -> (trace id, span id) that the calling thread publishes, or None.");

static PyObject *py_read(PyObject *self, PyObject *nothing) {
        char trace[33], span[17];

        (void)self, (void)nothing;
        if (!now.is_set)
                Py_RETURN_NONE;
        snprintf(trace, sizeof(trace), "%016llx%016llx", (unsigned long long)now.high,
                 (unsigned long long)now.low);
        snprintf(span, sizeof(span), "%016llx", (unsigned long long)now.span);
        return Py_BuildValue("(ss)", trace, span);
}

PyDoc_STRVAR(stop_doc, "stop(): no thread publishes a span from its next change on.");

static PyObject *py_stop(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        stopped = true;
        clear();
        Py_RETURN_NONE;
}

PyDoc_STRVAR(failures_doc, "failures() -> spans that were none: their context could not be read.");

static PyObject *py_failures(PyObject *self, PyObject *nothing) {
        (void)self, (void)nothing;
        return PyLong_FromUnsignedLongLong(n_failures);
}

/* A callback of a loop that has entered the callback's context already, and leaves it without a word. */
typedef struct Step {
        PyObject_HEAD
        PyObject *callback;
} Step;

static PyObject *step_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
        PyObject *callback;
        Step *step;

        (void)names;
        if (!PyArg_ParseTuple(arguments, "O", &callback))
                return NULL;
        step = (Step *)type->tp_alloc(type, 0);
        if (step) {
                Py_INCREF(callback);
                step->callback = callback;
        }
        return (PyObject *)step;
}

static PyObject *step_call(PyObject *self, PyObject *arguments, PyObject *names) {
        PyObject *result;

        publish_current();
        result = PyObject_Call(((Step *)self)->callback, arguments, names);
        clear();        /* what was current around it is published again when the loop ends */
        return result;
}

static PyObject *step_repr(PyObject *self) {
        return PyObject_Repr(((Step *)self)->callback);
}

static int step_traverse(PyObject *self, visitproc visit, void *arg) {
        Py_VISIT(((Step *)self)->callback);
        return 0;
}

static int step_clear(PyObject *self) {
        Py_CLEAR(((Step *)self)->callback);
        return 0;
}

static void step_dealloc(PyObject *self) {
        PyObject_GC_UnTrack(self);
        (void)step_clear(self);
        Py_TYPE(self)->tp_free(self);
}

static PyTypeObject step_type = {
        PyVarObject_HEAD_INIT(NULL, 0)
        .tp_name = "spanprof_otel._record.Step",
        .tp_doc = "Step(callback): calls it, and publishes the current span meanwhile.",
        .tp_basicsize = sizeof(Step),
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .tp_new = step_new,
        .tp_call = step_call,
        .tp_repr = step_repr,
        .tp_traverse = step_traverse,
        .tp_clear = step_clear,
        .tp_dealloc = step_dealloc,
};

static PyMethodDef methods[] = {
        { "setup", py_setup, METH_VARARGS, setup_doc },
        { "set_key", py_set_key, METH_O, set_key_doc },
        { "follow", py_follow, METH_NOARGS, follow_doc },
        { "attach", py_attach, METH_O, attach_doc },
        { "detach", py_detach, METH_O, detach_doc },
        { "republish", py_republish, METH_NOARGS, republish_doc },
        { "switched", (PyCFunction)(void (*)(void))py_switched, METH_FASTCALL, switched_doc },
        { "forked", py_forked, METH_O, forked_doc },
        { "started", (PyCFunction)(void (*)(void))py_started, METH_FASTCALL, started_doc },
        { "renamed", (PyCFunction)(void (*)(void))py_renamed, METH_FASTCALL, renamed_doc },
        { "follow_names", py_follow_names, METH_NOARGS, follow_names_doc },
        { "names_refused", py_names_refused, METH_NOARGS, names_refused_doc },
        { "publish_process", py_publish_process, METH_O, publish_process_doc },
        { "read", py_read, METH_NOARGS, read_doc },
        { "stop", py_stop, METH_NOARGS, stop_doc },
        { "failures", py_failures, METH_NOARGS, failures_doc },
        { NULL, NULL, 0, NULL },
};

static struct PyModuleDef definition = {
        PyModuleDef_HEAD_INIT, .m_name = "_record", .m_size = -1, .m_methods = methods,
};

PyMODINIT_FUNC PyInit__record(void) {
#ifdef Py_GIL_DISABLED
        PyErr_SetString(PyExc_ImportError, "not for builds without the global lock");
        return NULL;
#else
        PyObject *module;

        modules = PyImport_GetModuleDict();
        Py_XINCREF(modules);
        text_asyncio = PyUnicode_InternFromString("asyncio.base_events");
        text_greenlet = PyUnicode_InternFromString("greenlet");
        text_get_span_context = PyUnicode_InternFromString("get_span_context");
        text_root = PyUnicode_InternFromString("_spanprof_root");
        text_route = PyUnicode_InternFromString("http.route");
        if (!modules || !text_asyncio || !text_greenlet || !text_get_span_context || !text_root ||
            !text_route)
                return NULL;
        if (PyType_Ready(&step_type) < 0 || PyType_Ready(&root_type) < 0 || PyType_Ready(&child_type) < 0)
                return NULL;
        module = PyModule_Create(&definition);
        if (module && (PyModule_AddObject(module, "Step", (PyObject *)&step_type) < 0 ||
                       PyModule_AddIntMacro(module, CONTEXTS_ARE_WATCHED) < 0))
                Py_CLEAR(module);
        return module;
#endif
}
