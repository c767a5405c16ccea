/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes a completion for bash or zsh from the tables of verbs and options, so that they cannot disagree.
 *
 * usage: make-completion bash|zsh
 */

#include <stdio.h>
#include <string.h>

#include "host/cli/cli.h"

static bool takes(const Verb *verb, const Option *option) {
        return !option_is_setting(option) || (verb->bit && option_is_for(option, verb->bit));
}

static bool is_path(const Option *option) {
        return option->argument &&
                (strstr(option->argument, "FILE") || strstr(option->argument, "DIRECTORY") ||
                 strstr(option->argument, "PATH"));
}

/* ---- bash ---- */

static void bash_flags(const Verb *verb) {
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (takes(verb, option))
                        printf(" --%s%s", option->name, option->kind == OPTION_BOOL ? "" : "=");
        }
}

static void bash_values(void) {
        for (size_t i = 0; i < option_table_size; i++) {
                const Option *option = &option_table[i];

                if (option->kind == OPTION_CHOICE)
                        printf("                --%s) COMPREPLY=($(compgen -W '%s' -- \"$word\")) ;;\n",
                               option->name, option->choices);
                else if (is_path(option))
                        printf("                --%s) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n",
                               option->name);
        }
}

static void print_bash(void) {
        printf("# bash completion for spanprof; made from its table of options\n"
               "_spanprof() {\n"
               "        local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
               "        COMPREPLY=()\n"
               "        if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
               "                COMPREPLY=($(compgen -W '");
        for (const Verb *const *verb = verbs; *verb; verb++)
                printf("%s%s", verb == verbs ? "" : " ", (*verb)->name);
        printf("' -- \"$word\"))\n"
               "                return\n"
               "        fi\n"
               "        # readline makes `=` a word of its own\n"
               "        if [ \"$before\" = = ] && [ \"$COMP_CWORD\" -ge 3 ]; then\n"
               "                before=${COMP_WORDS[COMP_CWORD-2]}\n"
               "        elif [ \"$word\" = = ]; then\n"
               "                word=\n"
               "        fi\n"
               "        case $before in\n"
               "                --*) case $before in\n");
        bash_values();
        printf("                esac\n"
               "                [ ${#COMPREPLY[@]} -eq 0 ] || return ;;\n"
               "        esac\n"
               "        case $verb in\n");
        for (const Verb *const *verb = verbs; *verb; verb++) {
                printf("                %s) COMPREPLY=($(compgen -W '", (*verb)->name);
                bash_flags(*verb);
                printf("' -- \"$word\")) ;;\n");
        }
        printf("        esac\n"
               "        if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then\n"
               "                compopt -o nospace\n"
               "        elif [ ${#COMPREPLY[@]} -eq 0 ]; then\n"
               "                COMPREPLY=($(compgen -f -- \"$word\"))\n"
               "        fi\n"
               "}\n"
               "complete -F _spanprof spanprof\n");
}

/* ---- zsh ---- */

/* Inside '…[…]': quotes, brackets and colons have a meaning. */
static void zsh_text(const char *text) {
        for (; *text; text++) {
                if (*text == '\'')
                        printf("'\\''");
                else if (strchr("[]:\\", *text))
                        printf("\\%c", *text);
                else
                        putchar(*text);
        }
}

static void zsh_option(const Option *option) {
        printf("                '--%s%s[", option->name, option->kind == OPTION_BOOL ? "" : "=");
        zsh_text(option->help);
        printf("]");
        if (option->kind == OPTION_CHOICE)
                printf(":value:(%s)", option->choices);
        else if (is_path(option))
                printf(":file:_files");
        else if (option->kind != OPTION_BOOL) {
                printf(":");
                zsh_text(option->argument);
                printf(":");
        }
        printf("' \\\n");
}

static void print_zsh(void) {
        printf("#compdef spanprof\n# zsh completion for spanprof; made from its table of options\n"
               "_spanprof() {\n"
               "        local -a verbs\n"
               "        verbs=(\n");
        for (const Verb *const *verb = verbs; *verb; verb++) {
                printf("                '%s:", (*verb)->name);
                zsh_text((*verb)->summary);
                printf("'\n");
        }
        printf("        )\n"
               "        if (( CURRENT == 2 )); then\n"
               "                _describe verb verbs\n"
               "                return\n"
               "        fi\n"
               "        local verb=$words[2]\n"
               "        shift words\n"
               "        (( CURRENT-- ))\n"
               "        case $verb in\n");
        for (const Verb *const *verb = verbs; *verb; verb++) {
                printf("        %s) _arguments \\\n", (*verb)->name);
                for (size_t i = 0; i < option_table_size; i++)
                        if (takes(*verb, &option_table[i]))
                                zsh_option(&option_table[i]);
                printf("                '*:argument:_files' ;;\n");
        }
        printf("        esac\n}\n_spanprof \"$@\"\n");
}

int main(int argc, char **argv) {
        if (argc == 2 && !strcmp(argv[1], "bash"))
                print_bash();
        else if (argc == 2 && !strcmp(argv[1], "zsh"))
                print_zsh();
        else
                return 2;
        return ferror(stdout) | fflush(stdout) ? 1 : 0;
}
