/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A program of C with an interpreter of Python in it, whose own threads visit it: each has a thread state
 * from PyGILState_Ensure() on, until it releases that. One thread does so for ever, beside others that end
 * after some visits; between two of them both compute in C.
 *
 * usage: victim-visits FILE.py     FILE.py has a function visit(); prints `ready`; at the end of its input
 *                                  `python NS` and `native NS`, CPU time of its threads by their own clocks
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void Py_InitializeEx(int signals);
int PyRun_SimpleString(const char *text);
void *PyImport_AddModule(const char *name);
void *PyObject_GetAttrString(void *object, const char *name);
void *PyObject_CallObject(void *callable, void *arguments);
void Py_DecRef(void *object);
void *PyEval_SaveThread(void);
int PyGILState_Ensure(void);
void PyGILState_Release(int state);

enum { N_VISITS = 3, N_STEPS = 600000 };

static _Atomic uint64_t python_ns, native_ns;
static atomic_bool is_over;
static void *function;                  /* visit() of FILE.py */

static uint64_t now_ns(void) {
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static __attribute__((noinline)) void compute(void) {
        volatile uint32_t total = 1;

        for (uint32_t i = 0; i < N_STEPS; i++)
                total = total * 31 + i;
}

static void visit(void) {
        uint64_t begin_ns = now_ns(), between_ns;
        int state;

        compute();
        between_ns = now_ns();
        state = PyGILState_Ensure();
        Py_DecRef(PyObject_CallObject(function, NULL));
        PyGILState_Release(state);
        native_ns += between_ns - begin_ns;
        python_ns += now_ns() - between_ns;
}

static void *visit_sometimes(void *unused) {
        (void)unused;
        for (int i = 0; i < N_VISITS && !is_over; i++)
                visit();
        return NULL;
}

static void *visit_for_ever(void *unused) {
        (void)unused;
        while (!is_over)
                visit();
        return NULL;
}

static void *start_others(void *unused) {
        (void)unused;
        while (!is_over) {
                pthread_t thread;

                if (pthread_create(&thread, NULL, visit_sometimes, NULL))
                        abort();
                pthread_join(thread, NULL);
        }
        return NULL;
}

int main(int n, char **arguments) {
        pthread_t threads[2];
        char text[4096];

        if (n != 2)
                return 1;
        Py_InitializeEx(0);
        snprintf(text, sizeof(text), "exec(compile(open('%s').read(), '%s', 'exec'))", arguments[1],
                 arguments[1]);
        if (PyRun_SimpleString(text))
                return 1;
        function = PyObject_GetAttrString(PyImport_AddModule("__main__"), "visit");
        if (!function)
                return 1;
        PyEval_SaveThread();
        if (pthread_create(&threads[0], NULL, visit_for_ever, NULL) ||
            pthread_create(&threads[1], NULL, start_others, NULL))
                return 1;
        printf("ready\n");
        fflush(stdout);
        while (read(STDIN_FILENO, text, sizeof(text)) > 0)
                ;
        is_over = true;
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        printf("python %llu\nnative %llu\n", (unsigned long long)python_ns, (unsigned long long)native_ns);
        fflush(stdout);
        _exit(0);       /* the interpreter is left as it is */
}
