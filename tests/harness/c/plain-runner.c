/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Plain Runner
 *
 * Runs tests that are written for criterion where criterion's own runner does not start: under qemu-user.
 * That runner starts the program anew for each test ("Could not spawn test instance" is what it says there).
 * This one forks. Tests are compiled with criterion's
 * headers, which put a pointer to each test into a section, and call the functions below:
 *
 *     section cr_tst                          section cr_sts
 *     &{ "merge", "adds", jmp, extra } ...    &{ "merge", extra } ...
 *
 *     child: jmp() → criterion_internal_test_setup()      .init of the suite, .init of the test
 *                  → criterion_internal_test_main(impl)   the test; an assertion that fails returns here
 *                  → criterion_internal_test_teardown()   .fini of the test, .fini of the suite
 *
 * A test passes when its child ends as it should (.exit_code, .signal) and no assertion has failed. The
 * child says that in a page that it shares. Time is not limited here: meson has an end for the whole.
 *
 * usage: test-NAME [--tap] [--filter PATTERN]         it prints TAP
 */

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <criterion/parameterized.h>
#include <criterion/redirect.h>
#include <fnmatch.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TEXT = 65536 };

/* What a child says. Threads of a test may fail, too. */
typedef struct Said {
        unsigned n_failed;
        bool is_skipped;
        char reason[256];
} Said;

typedef struct Report {
        unsigned n_run, n_failed;
} Report;

/* linkers define these for a section whose name is an identifier */
extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[] __attribute__((weak)), *__stop_cr_sts[] __attribute__((weak));

struct criterion_options criterion_options;

static Said *said;
static const struct criterion_test *current_test;
static void *current_parameter;
static jmp_buf after_test;
static FILE *redirected[2];             /* standard output, standard error */

static const struct criterion_test_extra_data *current_suite(void) {
        for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
                if (!strcmp((*suite)->name, current_test->category))
                        return (*suite)->data;
        return NULL;
}

static void call(void (*function)(void)) {
        if (function)
                function();
}

void criterion_internal_test_setup(void) {
        const struct criterion_test_extra_data *suite = current_suite();

        call(suite ? suite->init : NULL);
        call(current_test->data->init);
}

void criterion_internal_test_main(void (*function)(void)) {
        if (setjmp(after_test))
                return;
        if (current_test->data->kind_ == CR_TEST_PARAMETERIZED)
                ((void (*)(void *))function)(current_parameter);
        else
                function();
}

void criterion_internal_test_teardown(void) {
        const struct criterion_test_extra_data *suite = current_suite();

        call(current_test->data->fini);
        call(suite ? suite->fini : NULL);
}

void criterion_abort_test(void) {
        longjmp(after_test, 1);
}

void criterion_continue_test(void) {
}

void criterion_skip_test(const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(said->reason, sizeof(said->reason), format, arguments);
        va_end(arguments);
        said->is_skipped = true;
        longjmp(after_test, 1);
}

void cri_asserts_passed_incr(void) {
}

void criterion_send_assert(struct criterion_assert_stats *stats) {
        if (stats->passed)
                return;
        __atomic_add_fetch(&said->n_failed, 1, __ATOMIC_RELAXED);
        printf("# %s:%u: %s\n", stats->file, stats->line, stats->message);
}

/* The caller's arguments end with what was written in the source. */
char *cr_translate_assert_msg(int message, ...) {
        va_list arguments;
        char *text = NULL;

        va_start(arguments, message);
        if (message != CRITERION_ASSERT_MSG_FAIL)
                text = strdup(va_arg(arguments, const char *));
        va_end(arguments);
        return text ?: strdup("failed");
}

int cr_asprintf(char **textp, const char *format, ...) {
        va_list arguments;
        int r;

        va_start(arguments, format);
        r = vasprintf(textp, format, arguments);
        va_end(arguments);
        return r;
}

void cr_asprintf_free(char *text) {
        free(text);
}

void cr_log(enum criterion_severity severity, const char *format, ...) {
        va_list arguments;

        va_start(arguments, format);
        fputs("# ", stdout);
        vprintf(format, arguments);
        putchar('\n');
        va_end(arguments);
}

static void redirect(FILE *stream) {
        FILE *file = tmpfile();

        fflush(stream);
        if (!file || dup2(fileno(file), fileno(stream)) < 0)
                abort();
        redirected[stream == stderr] = file;
}

/* Return: whether it is equal. */
static int match(FILE *stream, const char *expected) {
        FILE *file = redirected[stream == stderr];
        char text[MAX_TEXT];
        ssize_t n;

        fflush(stream);
        n = file ? pread(fileno(file), text, sizeof(text) - 1, 0) : -1;
        if (n < 0)
                abort();
        text[n] = 0;
        return !strcmp(text, expected);
}

void cr_redirect_stdout(void) {
        redirect(stdout);
}

void cr_redirect_stderr(void) {
        redirect(stderr);
}

int cr_stdout_match_str(const char *expected) {
        return match(stdout, expected);
}

int cr_stderr_match_str(const char *expected) {
        return match(stderr, expected);
}

static bool is_right_end(int status) {
        const struct criterion_test_extra_data *data = current_test->data;

        if (data->signal)
                return WIFSIGNALED(status) && WTERMSIG(status) == data->signal;
        return WIFEXITED(status) && WEXITSTATUS(status) == data->exit_code;
}

static int run_child(void) {
        int status;
        pid_t child;

        memset(said, 0, sizeof(*said));
        fflush(stdout);
        child = fork();
        if (!child) {
                current_test->test();
                exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) < 0)
                abort();
        return status;
}

static void run_test(Report *report) {
        int status = run_child();
        bool is_ok = said->is_skipped || (is_right_end(status) && !said->n_failed);

        report->n_run++;
        report->n_failed += !is_ok;
        printf("%s %u - %s/%s", is_ok ? "ok" : "not ok", report->n_run, current_test->category, current_test->name);
        if (said->is_skipped)
                printf(" # SKIP %s", said->reason);
        printf("\n");
        if (!is_ok)
                printf("# its process ended with wait status %#x\n", (unsigned)status);
}

static void run_parameters(Report *report) {
        struct criterion_test_params parameters = current_test->data->param_();

        for (size_t i = 0; i < parameters.length; i++) {
                current_parameter = (char *)parameters.params + i * parameters.size;
                run_test(report);
        }
        if (parameters.cleanup)
                parameters.cleanup(&parameters);
}

static bool is_chosen(const char *pattern) {
        const struct criterion_test_extra_data *data = current_test->data;

        return !data->disabled && (!pattern || !fnmatch(pattern, data->identifier_, 0));
}

static const char *filter_of(int argc, char **argv) {
        for (int i = 1; i + 1 < argc; i++)
                if (!strcmp(argv[i], "--filter"))
                        return argv[i + 1];
        return NULL;
}

int main(int argc, char **argv) {
        const char *pattern = filter_of(argc, argv);
        Report report = { 0 };

        said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (said == MAP_FAILED)
                return 1;
        for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++) {
                current_test = *test;
                if (!is_chosen(pattern))
                        continue;
                if (current_test->data->kind_ == CR_TEST_PARAMETERIZED)
                        run_parameters(&report);
                else
                        run_test(&report);
        }
        printf("1..%u\n", report.n_run);
        return report.n_failed ? 1 : 0;
}
