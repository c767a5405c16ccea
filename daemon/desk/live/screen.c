/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Sets the terminal's mode and page, and has handlers give both back at each way to end.
 */

#include "desk/live/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

/* xterm's private modes: 1049 the other page, 25 the cursor, 7 the line that goes on in the next. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

enum { DEFAULT_ROWS = 24, DEFAULT_COLUMNS = 80 };

/* Signal handlers need it, and there is one terminal. */
static struct termios before;
static volatile sig_atomic_t is_open;

static const int fatal[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT };

bool screen_is_possible(void) {
        const char *term = getenv("TERM");

        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb");
}

/* Async-signal-safe: write() and tcsetattr() are. */
static void give_back(void) {
        if (!is_open)
                return;
        is_open = 0;
        if (write(STDOUT_FILENO, LEAVE, sizeof(LEAVE) - 1) < 0)
                return;
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void on_fatal(int number) {
        give_back();
        signal(number, SIG_DFL);
        raise(number);
}

static void set_fatal(void (*handler)(int)) {
        for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
                signal(fatal[i], handler);
}

/* Signals of the keyboard stay: Ctrl-C ends us, Ctrl-Z stops us. */
static int take_over(void) {
        struct termios raw = before;

        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
        raw.c_cc[VMIN] = 0;
        raw.c_cc[VTIME] = 0;
        if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) < 0)
                return error_origin(-errno);
        is_open = 1;
        return error_fold(file_write(STDOUT_FILENO, ENTER, sizeof(ENTER) - 1));
}

int screen_open(void) {
        static bool registered;

        if (tcgetattr(STDIN_FILENO, &before) < 0)
                return error_origin(-errno);
        if (!registered)
                atexit(give_back);
        registered = true;
        set_fatal(on_fatal);
        return take_over();
}

void screen_close(void) {
        give_back();
        set_fatal(SIG_DFL);
}

void screen_stop(void) {
        screen_close();
        raise(SIGSTOP);
        screen_open();                  /* it may have been given other settings meanwhile */
}

void screen_size(unsigned *rowsp, unsigned *columnsp) {
        struct winsize size = { 0 };

        ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
        *rowsp = size.ws_row ? size.ws_row : DEFAULT_ROWS;
        *columnsp = size.ws_col ? size.ws_col : DEFAULT_COLUMNS;
}

/* A terminal that is held (Ctrl-S) or gone must not hold us up: samples would be lost. */
static bool is_ready(void) {
        struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

        return poll(&fd, 1, 0) == 1 && fd.revents & POLLOUT;
}

/* Line by line, each to its end: nothing flickers, as it would if all were cleared first. */
void screen_draw(const Text *page) {
        const char *line = page->data ? page->data : "";
        Text out = { 0 };

        if (!is_open || !is_ready())
                return;
        text_printf(&out, "\033[H");
        while (*line) {
                size_t size = strcspn(line, "\n");

                text_append(&out, line, size);
                text_printf(&out, "\033[K%s", line[size] && line[size + 1] ? "\r\n" : "");
                line += size + (line[size] == '\n');
        }
        text_printf(&out, "\033[J");
        if (!out.failed)
                file_write(STDOUT_FILENO, out.data, out.size);
        text_deinit(&out);
}

static size_t count_characters(const char *text) {
        size_t n = 0;
        bool shown;

        for (; *text; text += text_character(text, SIZE_MAX, &shown))
                n++;
        return n;
}

void screen_text(Text *to, const char *text, unsigned columns, bool fill) {
        bool is_cut = count_characters(text) > columns;
        unsigned n = 0;
        bool shown;

        for (; *text && n + is_cut < columns; n++) {
                size_t size = text_character(text, SIZE_MAX, &shown);

                text_append(to, shown ? text : "?", shown ? size : 1);
                text += size;
        }
        if (is_cut && columns) {
                text_append(to, "…", strlen("…"));
                n++;
        }
        for (; fill && n < columns; n++)
                text_append(to, " ", 1);
}
