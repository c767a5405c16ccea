/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The machine's own interpreter runs a program with objects of the names that OpenTelemetry's packages have,
 * and says itself where they are: id() of CPython is an address.
 */

#include <criterion/criterion.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-span.h"

#define PYTHON "/usr/bin/python3"

static const char script[] =
        "import contextvars, sys, types\n"
        "def module(name, **values):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "    sys.modules[name].__dict__.update(values)\n"
        "def say(*values):\n"
        "    print(*values, flush=True)\n"
        "    sys.stdin.readline()\n"
        "class Context(dict): pass\n"
        "class SpanContext(tuple): pass\n"
        "class NonRecordingSpan:\n"
        "    def __init__(self): self._context = SpanContext()\n"
        "class _Span:\n"
        "    def __init__(self):\n"
        "        self._name = 'x'; self._context = SpanContext(); self._parent = None\n"
        "class Runtime:\n"
        "    def __init__(self): self._current_context = contextvars.ContextVar('current_context')\n"
        "say('begun')\n"
        "runtime, key, spans = Runtime(), 'current-span-' + '0' * 36, [NonRecordingSpan()]\n"
        "runtime._current_context.set(Context())\n"
        "module('opentelemetry.trace', NonRecordingSpan=NonRecordingSpan, SpanContext=SpanContext)\n"
        "module('opentelemetry.trace.propagation', _SPAN_KEY=key)\n"
        "module('opentelemetry.sdk.trace', _Span=_Span)\n"
        "module('opentelemetry.context', _RUNTIME_CONTEXT=runtime, Context=Context)\n"
        "if sys.version_info >= (3, 11): say('there')\n"
        "spans.append(_Span())\n"
        "variable = runtime._current_context\n"
        "say(*map(id, (variable, key, Context, SpanContext, NonRecordingSpan, _Span, False, int, dict)),\n"
        "    hash(variable) & (1 << 64) - 1)\n"
        "sys.modules['opentelemetry.trace.propagation']._SPAN_KEY = 'current-span'\n"
        "say('spoilt')\n";

static pid_t pid;
static FILE *says;
static int answers = -1;
static PythonProgram program;
static PythonOpened opened;
static uint64_t bias;
static char line[1024];

static bool read_process(void *userdata, uint64_t address, void *to, size_t size) {
        struct iovec local = { to, size }, remote = { (void *)(uintptr_t)address, size };

        return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size ||
                dynamic_image_read(&program.image, address - bias, to, size);
}

static void run(void) {
        int out[2], in[2];

        cr_assert(!pipe2(out, O_CLOEXEC) && !pipe2(in, O_CLOEXEC));
        pid = fork();
        if (!pid) {
                dup2(in[0], STDIN_FILENO);
                dup2(out[1], STDOUT_FILENO);
                execl(PYTHON, PYTHON, "-S", "-c", script, NULL);
                _exit(127);
        }
        close(out[1]);
        close(in[0]);
        answers = in[1];
        says = fdopen(out[0], "r");
}

static void hear(void) {
        cr_assert_not_null(fgets(line, sizeof(line), says), "the interpreter has ended");
}

static void go_on(void) {
        cr_assert_eq(write(answers, "\n", 1), 1);
        hear();
}

/* The file that has the interpreter: the program, or its library. */
static void open_interpreter(void) {
        char path[64], mapping[512], name[256];
        uint64_t low, offset;
        struct stat stat;
        FILE *maps;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
        maps = fopen(path, "re");
        cr_assert_not_null(maps);
        while (fgets(mapping, sizeof(mapping), maps)) {
                if (sscanf(mapping, "%" SCNx64 "-%*x %*s %" SCNx64 " %*s %*s %255s", &low, &offset, name) != 3 ||
                    offset || *name != '/')
                        continue;
                fd = open(name, O_RDONLY | O_CLOEXEC);
                if (fd < 0 || fstat(fd, &stat))
                        continue;
                if (!python_open(fd, (uint64_t)stat.st_size, &program, &opened)) {
                        for (unsigned i = program.image.n_headers; i-- > 0;)
                                if (program.image.headers[i].p_type == PT_LOAD)
                                        bias = low - (program.image.headers[i].p_vaddr & ~4095ull);
                        fclose(maps);
                        return;
                }
                close(fd);
        }
        fclose(maps);
        cr_assert_fail("no interpreter is mapped");
}

static int learn(struct python_spans *spans) {
        const PythonReader reader = { read_process, NULL };
        const PythonSubject subject = { &program, &opened.layout, bias };

        return python_span_learn(&reader, &subject, spans);
}

static void stop(void) {
        if (pid > 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        }
        if (says)
                fclose(says);
}

TestSuite(python_span, .fini = stop, .timeout = 60);

Test(python_span, is_where_the_interpreter_says) {
        uint64_t variable, key, mapping, context, api, sdk, local, number, dict, hash;
        struct python_spans spans = { .variable = 1 };

        if (access(PYTHON, X_OK))
                cr_skip_test("tool: no " PYTHON);
        run();
        hear();
        open_interpreter();
        cr_assert_eq(learn(&spans), PYTHON_SPAN_E_NONE, "no package was loaded");
        go_on();
        if (opened.layout.version >= 0x030b) {
                cr_assert_eq(learn(&spans), PYTHON_SPAN_E_SOON, "no span was made yet");
                go_on();
        }
        cr_assert_eq(spans.variable, 1, "it stays as it was");
        cr_assert_eq(sscanf(line,
                            "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64 "%" SCNu64
                            "%" SCNu64 "%" SCNu64 "%" SCNu64,
                            &variable, &key, &mapping, &context, &api, &sdk, &local, &number, &dict, &hash),
                     10, "%s", line);
        cr_assert_eq(learn(&spans), 0);
        cr_assert_eq(spans.variable, variable);
        cr_assert_eq(spans.key, key);
        cr_assert_eq(spans.mapping_type, mapping);
        cr_assert_eq(spans.span_context_type, context);
        cr_assert_eq(spans.types[0].type, sdk);
        cr_assert_eq(spans.types[0].context, 1);
        cr_assert_eq(spans.types[1].type, api);
        cr_assert_eq(spans.types[1].context, 0);
        cr_assert_eq(spans.local, local);
        cr_assert_eq(spans.number_type, number);
        cr_assert_eq(spans.dict_type, dict);
        cr_assert_eq(spans.hash, (uint32_t)(hash ^ hash >> 32));
        cr_assert(spans.hamt_type && spans.bitmap_type && spans.array_type && spans.collision_type);
        go_on();
        cr_assert_eq(learn(&spans), PYTHON_SPAN_E_SOON, "no key of a span any more");
}

Test(python_span, what_a_worker_says_is_bounded) {
        const struct python_spans sound = { .head = 16, .items = 24, .before = 32 };
        struct python_spans spans = sound;

        cr_assert(python_span_check(&spans));
        spans.head = 24;
        cr_assert(!python_span_check(&spans));
        spans = sound;
        spans.items = 16;
        cr_assert(!python_span_check(&spans));
        spans = sound;
        spans.before = 33;
        cr_assert(!python_span_check(&spans));
        spans = sound;
        spans.values_head = 9;
        cr_assert(!python_span_check(&spans));
        spans = sound;
        spans.types[1].context = 16;
        cr_assert(!python_span_check(&spans));
}
