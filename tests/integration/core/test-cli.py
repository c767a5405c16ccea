#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The command line as people meet it: help, mistakes, exit statuses, where settings come from."""
import os
import re
import shutil
import subprocess

import tap

OK, FAILURE, USAGE, CONFIG = 0, 1, 2, 78


def environment(**variables):
    """Ours, without what would configure spanprof."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPANPROF_", "OTEL_"))}
    return {**kept, **variables}


class Cli(tap.TestCase):
    def spanprof(self, *args, expect=OK, **options):
        options.setdefault("env", environment())
        return super().spanprof(*args, expect=expect, **options)

    def file(self, text):
        path = self.directory() / "spanprof.conf"
        path.write_text(text)
        return path

    def verbs(self):
        return re.findall(r"^  ([a-z]+) ", self.spanprof("help").stdout, re.M)


class Help(Cli):
    def test_each_verb_explains_itself(self):
        verbs = self.verbs()
        self.assertIn("config", verbs)
        for verb in verbs:
            with self.subTest(verb=verb):
                done = self.spanprof(verb, "--help")
                self.assertRegex(done.stdout, rf"^Usage: spanprof {verb}\b")
                self.assertEqual(done.stderr, "")
                self.assertEqual(self.spanprof("help", verb).stdout, done.stdout)
                self.assertEqual(self.spanprof(verb, "-h").stdout, done.stdout)
                self.assertLessEqual(max(map(len, done.stdout.splitlines())), 110)
                self.assertNotIn("\n\n\n", done.stdout)
                headings = re.findall(r"^[A-Z][a-z]+:$", done.stdout, re.M)
                self.assertEqual(len(headings), len(set(headings)), headings)

    def test_comes_without_a_verb_too(self):
        listing = self.spanprof("help").stdout
        self.assertEqual(self.spanprof("--help").stdout, listing)
        self.assertEqual(self.spanprof("-h").stdout, listing)
        done = self.spanprof(expect=USAGE)
        self.assertEqual(done.stdout, "")
        self.assertIn("spanprof help", done.stderr)

    def test_shows_range_default_and_short_flag(self):
        self.assertRegex(self.spanprof("config", "--help").stdout,
                         r"  -F, --frequency=HZ +samples per second and CPU; 1 to 10000 \(default: 99\)\n")

    def test_wins_over_a_missing_argument(self):
        self.spanprof("config", "-h", "a", "b", "c")

    def options(self, text):
        return re.findall(r"^  (?:-\w,|   ) --([a-z-]+)", text, re.M)

    def test_shows_what_most_need_and_counts_the_rest(self):
        shown, known = set(), set()
        for verb in self.verbs():
            with self.subTest(verb=verb):
                common = self.spanprof(verb, "--help").stdout
                everything = self.spanprof(verb, "--help", "--all").stdout
                others = [["help", verb, "--all"], ["help", "--all", verb]]
                others += [[verb, "--all", "-h"]] if verb != "corotracer" else []  # reads its own command line
                for other in others:
                    self.assertEqual(self.spanprof(*other).stdout, everything)
                some, every = self.options(common), self.options(everything)
                self.assertEqual(some, [option for option in every if option in some], "the order stays")
                self.assertNotIn("--help --all` shows", everything)
                hidden = len(every) - len(some)
                last = f"`spanprof {verb} --help --all` shows {hidden} more option{'s' * (hidden > 1)}."
                if hidden:
                    self.assertEqual(common.splitlines()[-1], last)
                else:
                    self.assertEqual(common, everything)
                shown |= set(some)
                known |= set(every)
        self.assertTrue(50 <= len(shown) <= 70, len(shown))
        self.assertGreater(len(known), 90)
        self.assertTrue({"pid", "frequency", "endpoint", "duration", "output", "max-memory"} <= shown)
        self.assertFalse({"jitter", "spool-mode", "max-export-rate", "region"} & shown)

    def test_an_advanced_option_is_an_option_like_any_other(self):
        self.assertNotIn("--jitter", self.spanprof("config", "--help").stdout)
        self.assertRegex(self.spanprof("config", "show", env=environment(SPANPROF_JITTER="off")).stdout,
                         r"(?m)^jitter += off")

    def test_all_is_for_help_where_a_verb_has_no_such_option(self):
        done = self.spanprof("report", "--all", "x.pb", expect=USAGE)
        self.assertIn("report: unknown option --all", done.stderr)
        self.assertEqual(done.stdout, "")


class Version(Cli):
    def test_names_version_libraries_and_kernel(self):
        done = self.spanprof("version")
        self.assertRegex(done.stdout, r"^spanprof \d+\.\d+\.\d+\n")
        for part in ("libbpf 1.", "libelf 0.", "libcurl ", "Linux 5.15"):
            self.assertIn(part, done.stdout)
        self.assertEqual(self.spanprof("--version").stdout, done.stdout)
        self.assertEqual(self.spanprof("config", "--version").stdout, done.stdout)

    def test_names_libraries_as_they_are_loaded(self):
        own = re.search(r"libcjson\.so\.1\S* => (\S+)", subprocess.check_output(["ldd", tap.SPANPROF], text=True))[1]
        folder = self.directory()
        shutil.copy(own, folder / "libcjson.so.1.99.7")
        (folder / "libcjson.so.1").symlink_to("libcjson.so.1.99.7")
        (folder / "libmicrohttpd.so.12").write_text("no library")
        text = self.run_command([tap.SPANPROF, "version"], env={**os.environ, "LD_LIBRARY_PATH": str(folder)}).stdout
        libraries = re.search(r"^libraries: (.+)$", text, re.M)[1].split(", ")
        self.assertIn("libcjson.so.1.99.7", libraries)
        self.assertIn("libmicrohttpd.so.12 (missing)", libraries)


class Mistakes(Cli):
    def test_an_unknown_verb_names_the_nearest(self):
        done = self.spanprof("confg", expect=USAGE)
        self.assertEqual(done.stderr, "spanprof: unknown verb `confg`, did you mean `config`?\n")
        done = self.spanprof("zzzzzz", expect=USAGE)
        self.assertIn("`spanprof help` lists them", done.stderr)
        self.spanprof("help", "confg", expect=USAGE)

    def test_an_unknown_option_names_the_nearest(self):
        done = self.spanprof("config", "show", "--freqency=5", expect=USAGE)
        self.assertIn("config: unknown option --freqency, did you mean --frequency?", done.stderr)
        self.assertIn("try `spanprof config --help`", done.stderr)
        self.assertIn("unknown option -Q", self.spanprof("config", "show", "-Q", expect=USAGE).stderr)

    def test_every_mistake_is_named_at_once(self):
        done = self.spanprof("config", "show", "-F", "0", "--depth=x", "--all=perhaps", "--no-such", "-d",
                             expect=USAGE)
        for part in ("-F: `0` is out of range (1 to 10000)", "--depth: `x` is no number (1 to 1024)",
                     "--all: `perhaps` is neither `on` nor `off`", "--no-such", "-d: needs a value (TIME)"):
            self.assertIn(part, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_an_option_before_the_verb_is_explained(self):
        self.assertIn("the verb comes first", self.spanprof("-F", "99", "config", expect=USAGE).stderr)

    def test_arguments_are_counted(self):
        self.assertIn("needs show | check [FILE] | endpoint", self.spanprof("config", expect=USAGE).stderr)
        self.assertIn("too many arguments: `now`", self.spanprof("version", "now", expect=USAGE).stderr)
        self.assertIn("use `show`, or `check [FILE]`", self.spanprof("config", "print", expect=USAGE).stderr)
        self.spanprof("config", "show", "x", expect=USAGE)

    def test_help_fits_a_terminal_of_80_columns_and_says_the_same(self):
        for verb in re.findall(r"(?m)^  ([a-z]+) ", self.spanprof("help").stdout):
            wide = self.spanprof(verb, "--help", "--all", env=environment()).stdout
            narrow = self.spanprof(verb, "--help", "--all", env=environment(COLUMNS="80")).stdout
            self.assertEqual(narrow.split(), wide.split(), verb)
            # but for commands that are longer than that
            long = [line for line in narrow.splitlines() if len(line) > 80 and
                    not re.match(r"  spanprof |      -cmd ", line)]
            self.assertEqual(long, [], verb)

    def test_words_of_perf_get_a_hint(self):
        for arguments, words in ((("record", "-g"), "stacks are always taken"),
                                 (("record", "-e", "cycles"), "CPU time is what is sampled"),
                                 (("record", "--call-graph", "dwarf"), "stacks are always taken"),
                                 (("report", "-i", "x"), "name the file without it"),
                                 (("stat", "true"), "`spanprof record -- COMMAND` samples"),
                                 (("report", "--no-children"), "--sort=self"),
                                 (("annotate", ), "`spanprof report --annotate SOURCE FILE`"),
                                 (("sched", ), "`spanprof record --off-cpu`")):
            self.assertIn(words, self.spanprof(*arguments, expect=USAGE).stderr)

    def test_words_of_py_spy_get_a_hint(self):
        """Its default is nearer to wall time: who asks for that learns that ours is CPU time, and the way to the other."""
        for arguments, words in ((("record", "--idle", "--pid", "1"), "samples are CPU time; --off-cpu counts waits, too, and "
                                                                      "`report --wall` shows both as one"),
                                 (("record", "--native", "--", "true"), "functions of C are always there"),
                                 (("record", "--gil", "--", "true"), "--off-cpu counts that wait"),
                                 (("record", "-r", "100", "--", "true"), "-F says how many samples a second"),
                                 (("record", "--subprocesses", "--", "true"), "is always recorded"),
                                 (("dump", "--pid", "1"), "use `spanprof stacks PID`")):
            self.assertIn(words, self.spanprof(*arguments, expect=USAGE).stderr)

    def test_what_is_wrong_is_named_before_what_is_missing(self):
        self.assertEqual(
            self.spanprof("spool", "lss", expect=USAGE).stderr,
            "spanprof: spool: `lss` is none of ls, flush, extract, retry\n")
        self.assertIn("--spool DIRECTORY", self.spanprof("spool", "ls", expect=USAGE).stderr)

    def test_run_starts_no_program(self):
        done = self.spanprof("run", "./app", "--flag", expect=USAGE)
        self.assertIn("run: unknown option --flag", done.stderr)
        done = self.spanprof("run", "./app", expect=USAGE)
        self.assertIn("`spanprof run --pid PID`", done.stderr)
        self.assertIn("record -- ./app", done.stderr)

    def test_a_wrong_variable_is_no_usage_error(self):
        done = self.spanprof("config", "show", expect=CONFIG, env=environment(SPANPROF_FREQUENCY="fast"))
        self.assertIn("SPANPROF_FREQUENCY: `fast` is no number", done.stderr)

    def test_a_wrong_variable_of_others_is_told_and_left_out(self):
        for value, n in (("novalue", 1), ("team=shop,=x,a=%zz", 2)):
            with self.subTest(value):
                done = self.spanprof("config", "show", env=environment(OTEL_RESOURCE_ATTRIBUTES=value))
                self.assertIn(f"OTEL_RESOURCE_ATTRIBUTES is left out: {n} of its items are not KEY=VALUE",
                              done.stderr)
                self.assertRegex(done.stdout, r"(?m)^resource-attributes += +# default$")
        done = self.spanprof("config", "show", env=environment(OTEL_RESOURCE_ATTRIBUTES="team=shop"))
        self.assertRegex(done.stdout, r"(?m)^resource-attributes += team=shop +# OTEL_RESOURCE_ATTRIBUTES$")
        # its own is
        done = self.spanprof("config", "show", expect=CONFIG,
                             env=environment(SPANPROF_RESOURCE_ATTRIBUTES="novalue"))
        self.assertIn("SPANPROF_RESOURCE_ATTRIBUTES: 1 of its items", done.stderr)

    def test_a_nearly_right_variable_is_pointed_out(self):
        done = self.spanprof("config", "show", env=environment(SPANPROF_FREQENCY="5",
                                                               SPANPROF_SERVICE_HOST="10.0.0.1"))
        self.assertIn("SPANPROF_FREQENCY is set, but means nothing; did you mean SPANPROF_FREQUENCY?",
                      done.stderr)
        self.assertNotIn("SERVICE_HOST", done.stderr)


class Parsing(Cli):
    def shown(self, *args, **variables):
        done = self.spanprof("config", "show", *args, env=environment(**variables))
        return {
            m[1]: (m[2].strip(), m[3])
            for m in re.finditer(r"^([a-z-]+) += (.*?) +# (.*)$", done.stdout, re.M)
        }

    def test_every_way_to_write_an_option(self):
        for args, option, value in ((["-F", "5"], "frequency", "5"), (["-F5"], "frequency", "5"),
                                    (["--frequency",
                                      "5"], "frequency", "5"), (["--frequency=5"], "frequency", "5"),
                                    (["-F", "4", "-F", "5"], "frequency", "5"), (["-a"], "all", "on"),
                                    (["--all"], "all", "on"), (["--all=off"], "all", "off"),
                                    (["--no-jitter"], "jitter", "off"), (["--jitter=off"], "jitter", "off"),
                                    (["-aF5"], "frequency", "5"), (["-p", "1", "-p", "2,3"], "pid", "1,2,3"),
                                    (["--headers="], "headers", ""), (["-d", "90s"], "duration", "90s"),
                                    (["-d", "1"], "duration", "1s"), (["-d", "0.3"], "duration", "300ms")):
            with self.subTest(args=args):
                self.assertEqual(self.shown(*args)[option], (value, "command line"))

    def test_options_may_follow_arguments_until_two_dashes(self):
        self.spanprof("config", "-F5", "show", "-a")
        self.assertIn("`-a`", self.spanprof("config", "show", "--", "-a", expect=USAGE).stderr)

    def test_show_has_each_section_once(self):
        sections = re.findall(r"^\[(.*)\]$",
                              self.spanprof("config", "show", "--config", self.file("")).stdout, re.M)
        self.assertIn("export", sections)
        self.assertEqual(len(sections), len(set(sections)), sections)

    def test_show_names_every_origin(self):
        path = self.file("frequency = 1\ndepth = 2\n[export]\ntimeout = 3s\n")
        shown = self.shown("-c", path, "--timeout=5s", SPANPROF_DEPTH="4",
                           OTEL_EXPORTER_OTLP_COMPRESSION="none")
        self.assertEqual(shown["frequency"], ("1", f"{path}:1"))
        self.assertEqual(shown["depth"], ("4", "SPANPROF_DEPTH"))
        self.assertEqual(shown["timeout"], ("5s", "command line"))
        self.assertEqual(shown["compression"], ("none", "OTEL_EXPORTER_OTLP_COMPRESSION"))
        self.assertEqual(shown["jitter"], ("on", "default"))

    def test_show_says_what_defaults_follow_from(self):
        """From where it would run, and from other settings."""
        none = self.file("")
        in_unit = self.shown("-c", none, STATE_DIRECTORY="/var/lib/mine")
        self.assertEqual(in_unit["spool"], ("/var/lib/mine/spool", "STATE_DIRECTORY"))
        path = self.file("[export]\nspool =\n")
        self.assertEqual(self.shown("-c", path, STATE_DIRECTORY="/var/lib/mine")["spool"], ("", f"{path}:2"))
        self.assertEqual(in_unit["control"][0], "/run/spanprof/control.sock")
        self.assertEqual(in_unit["publishers"], ("on", "default: nothing else chooses processes"))
        self.assertEqual(self.shown("-c", none, "--comm=xz")["publishers"], ("off", "default"))
        self.assertEqual(self.shown("-c", none, "--publishers=on")["publishers"], ("on", "command line"))
        self.assertEqual(in_unit["endpoint"][0], "http://localhost:4318")
        self.assertEqual(self.shown("-c", none, SPANPROF_BACKEND="pyroscope")["endpoint"][0], "http://localhost:4040")
        sections = self.shown("-c", self.file("[export a]\nendpoint = http://127.0.0.1:9\n"))
        self.assertEqual(sections["endpoint"][0], "http://127.0.0.1:9", "the last of that name is the section's")
        denied = self.shown("-c", none, SPANPROF_ATTRIBUTES_DENY="mapping.*")
        self.assertEqual(denied["mapping-paths"], ("none", "attributes-deny"))
        self.assertEqual(self.shown("-c", none)["mapping-paths"], ("full", "default"))

    def test_show_says_who_a_daemon_becomes(self):
        tap.need_root()
        names = [line.split(":")[0] for line in open("/etc/passwd")]
        self.assertEqual(self.shown("-c", self.file(""))["run-as"],
                         ("spanprof" if "spanprof" in names else "nobody", "default: root becomes this one"))
        path = self.file("")
        path.chmod(0o644)
        path.parent.chmod(0o755)
        done = self.run_command(["setpriv", "--reuid=4321", "--clear-groups", tap.SPANPROF, "config", "show", "-c", path],
                                env=environment(), expect=OK)
        self.assertRegex(done.stdout, r"(?m)^run-as += 4321 +# default: who runs it$")

    def test_each_variable_of_opentelemetry_is_read_that_of_the_signal_before_that_of_all(self):
        """And before both our own, and before all the command line. One that is empty is none."""
        pem = [self.directory() / name for name in ("all", "signal", "own", "here")]
        for path in pem:
            path.touch()
        for name, values, shown, more in (("ENDPOINT", ("http://all:1", "http://signal:2/x", "http://own:3",
                                                        "http://here:4"), None,
                                           ()), ("COMPRESSION", ("none", "gzip", "none", "gzip"), None, ()),
                                          ("TIMEOUT", ("2000", "3000", "4s", "5s"), ("2s", "3s", "4s", "5s"),
                                           ()), ("PROTOCOL", ("http/json", "http/protobuf", "http/json",
                                                              "http/protobuf"), None,
                                                 ()), ("CERTIFICATE", [*map(str, pem)], None, ()),
                                          ("CLIENT_CERTIFICATE", [*map(str, pem)], None,
                                           [f"--client-key={pem[0]}"]), ("CLIENT_KEY", [*map(str, pem)], None,
                                                                         [f"--client-certificate={pem[0]}"])):
            option = name.lower().replace("_", "-")
            names = (f"OTEL_EXPORTER_OTLP_{name}", f"OTEL_EXPORTER_OTLP_PROFILES_{name}", f"SPANPROF_{name}")
            with self.subTest(option):
                for n in range(3):
                    variables = {**dict.fromkeys(names, ""), **dict(zip(names[:n + 1], values))}
                    self.assertEqual(self.shown(*more, **variables)[option], ((shown or values)[n], names[n]))
                self.assertEqual(
                    self.shown(*more, f"--{option}={values[3]}", **variables)[option],
                    ((shown or values)[3], "command line"))

    def test_headers_come_from_each_variable_and_are_never_shown(self):
        for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "SPANPROF_HEADERS"):
            shown = self.shown(**{name: "api-key=c2VjcmV0"})["headers"]
            self.assertEqual(shown[1], name)
            self.assertNotIn("c2VjcmV0", shown[0])

    def test_show_hides_what_may_be_a_password(self):
        done = self.spanprof("config", "show", "--headers=authorization=Basic%20c2VjcmV0")
        self.assertNotIn("c2VjcmV0", done.stdout)
        self.assertIn("(set, not shown)", done.stdout)
        done = self.spanprof("config", "show",
                             "--endpoint=https://me:c2VjcmV0@collector:4318/x?token=c2VjcmV0")
        self.assertNotIn("c2VjcmV0", done.stdout)
        self.assertIn("profiles go to https://collector:4318/x/v1development/profiles\n", done.stdout)

    def test_the_file_may_be_named_by_a_variable(self):
        path = self.file("frequency = 7\n")
        self.assertEqual(self.shown(SPANPROF_CONFIG=str(path))["frequency"], ("7", f"{path}:1"))


class Check(Cli):
    def test_a_valid_file(self):
        path = self.file("# nothing\n[sampling]\nfrequency = 99\n")
        self.assertEqual(self.spanprof("config", "check", path).stdout, f"{path}: valid\n")

    def test_each_mistake_with_its_line(self):
        path = self.file("[sampling]\nfreqency = 99\nfrequency = 0\n[oops\n")
        done = self.spanprof("config", "check", path, expect=CONFIG)
        self.assertEqual(
            done.stderr, f"{path}:2: unknown key `freqency`, did you mean `frequency`?\n"
            f"{path}:3: frequency: `0` is out of range (1 to 10000)\n"
            f"{path}:4: a section is one word between `[` and `]`, or a kind and a name\n")
        self.assertEqual(done.stdout, "")
        self.spanprof("config", "show", "-c", path, expect=CONFIG)

    def test_what_run_would_refuse_later(self):
        """`check` said valid, and `run` ended with 78 or profiled nobody."""
        for line, word in (("metrics = 9464", "127.0.0.1:9464"), ("metrics = localhost", "neither ADDRESS:PORT"),
                           ("comm = [abc", "without its `]`"), ("exe = /opt/[a", "without its `]`"),
                           ("exclude = comm=[abc", "without its `]`"), ("unit = a\\", "backslash"),
                           ("spool = spool/here", "no path from /"), ("control = x/y", "no path from /"),
                           ("spool = /nonexistent/spool", "No such file"), ("summary = /nonexistent/x", "No such file"),
                           ("run-as = no-such-user", "no user"), ("max-memory = 1", "is the unit missing"),
                           ("control = /nonexistent/c", "No such file"),
                           ("[export b]\nendpoint = http://b\nspool = b", "no path from /")):
            with self.subTest(line=line):
                path = self.file(f"{line}\n")
                done = self.spanprof("config", "check", path, expect=CONFIG)
                key = line.splitlines()[-1].split(" =")[0]
                self.assertRegex(done.stderr, rf"^{path}:\d+: {key}: ")
                self.assertIn(word, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_what_is_no_mistake(self):
        for line in ("metrics = [::1]:9464", "metrics = localhost:0", "comm = [abc]", "comm = a[]]b,c[!]x]",
                     "comm = \\[abc", "exclude = pid=1", "max-memory = 0", "max-memory = 300MiB", "summary = -",
                     "spool = /var/tmp/spanprof-spool"):
            with self.subTest(line=line):
                self.spanprof("config", "check", self.file(f"{line}\n"))

    def test_a_file_that_is_not_there(self):
        done = self.spanprof("config", "check", "/nonexistent.conf", expect=CONFIG)
        self.assertEqual(done.stderr, "/nonexistent.conf: No such file or directory\n")
        self.spanprof("config", "show", "-c", "/nonexistent.conf", expect=CONFIG)

    def test_a_file_of_any_size_or_content(self):
        path = self.directory() / "big.conf"
        path.write_bytes(b"#" * (2 << 20))
        self.assertIn("larger than any configuration",
                      self.spanprof("config", "check", path, expect=CONFIG).stderr)
        with open(tap.SPANPROF, "rb") as program:
            path.write_bytes(program.read(65536))
        self.assertIn("no UTF-8", self.spanprof("config", "check", path, expect=CONFIG).stderr)


class Removed(Cli):
    GONE = r"there is no such option since version \d+\.\d+\.\d+; "

    def test_an_option_that_is_gone_is_taken_with_a_warning(self):
        """By its word, its value and its `no-`, on the command line and in the environment."""
        path = self.directory() / "empty.pb"
        path.write_bytes(b"")
        for options, variables, seen in ((["--for", "parca"], {}, "--for"), (["--for=parca"], {}, "--for"),
                                         ([], {"SPANPROF_FOR": "parca"}, "SPANPROF_FOR")):
            done = self.spanprof("validate", *options, path, env=environment(**variables), expect=USAGE)
            self.assertRegex(done.stderr, rf"{seen}: {self.GONE}taken as backend: ")
        done = self.spanprof("convert", "--diagnostics", "--no-diagnostics", expect=USAGE)
        self.assertRegex(done.stderr, rf"--diagnostics: {self.GONE}ignored: `--log-level debug`")
        self.assertRegex(done.stderr, rf"--no-diagnostics: {self.GONE}ignored: ")
        done = self.spanprof("coro", "--dialect", "auto", "-o", self.directory() / "t.jsonl", "--", "true")
        self.assertRegex(done.stderr, rf"--dialect: {self.GONE}ignored: ")

    def test_it_stays_unknown_where_it_never_was(self):
        done = self.spanprof("run", "--dialect", "auto", expect=USAGE)
        self.assertIn("run: unknown option --dialect", done.stderr)


class OfRoot(Cli):
    """Root in a mount namespace whose /run/spanprof belongs to the daemon's user, as the package makes it."""
    SETUP = """
        set -e
        mount -t tmpfs none /run
        mkdir -p /run/spanprof/spanprof.conf.d
        echo 'endpoint = http://elsewhere.example:4318' > /run/spanprof/spanprof.conf.d/10-a.conf
        chown 4321 /run/spanprof
        "$@"
    """
    HELD = ["sh", "-c", 'chown 4321 /run/spanprof/spanprof.conf.d && exec "$@"', "sh"]

    def run_there(self, *command):
        tap.need_root()
        return self.run_command(["unshare", "--mount", "sh", "-c", self.SETUP, "sh", *command],
                                env=environment())

    def test_reads_drop_ins_of_root(self):
        done = self.run_there(tap.SPANPROF, "config", "show")
        self.assertEqual(done.returncode, OK, done)
        self.assertIn("http://elsewhere.example:4318", done.stdout)

    def test_refuses_drop_ins_of_another_user(self):
        for command in (["run"], ["config", "show"], ["targets"]):
            done = self.run_there(*self.HELD, tap.SPANPROF, *command)
            self.assertEqual(done.returncode, CONFIG, done)
            self.assertRegex(done.stderr,
                             "/run/spanprof/spanprof.conf.d: belongs to user 4321.* chown it to root")
            self.assertNotIn("elsewhere", done.stdout)


class Manual(Cli):
    def page(self, name):
        text = (tap.BUILD_DIR / "docs/man" / name).read_text()
        self.assertNotIn("@", re.sub(r"\S+@\S+\.", "", text), "every marker is replaced")
        return text.replace("\\-", "-")

    def test_names_every_verb_and_option(self):
        page = self.page("spanprof.1")
        for verb in self.verbs():
            self.assertIn(f"\\fB{verb}\\fR", page)
            text = self.spanprof(verb, "--help", "--all").stdout
            own = text.split("\nOptions:\n")[-1] if verb == "config" else text
            for option in set(re.findall(r"^ .*--([a-z-]+)", own, re.M)) - {"help", "version"}:
                self.assertIn(f"\\fB--\\fR\\fB{option}\\fR", page)

    def test_names_every_key_of_the_file(self):
        page = self.page("spanprof.conf.5")
        keys = re.findall(r"^([a-z-]+) +=", self.spanprof("config", "show").stdout, re.M)
        self.assertGreater(len(keys), 20)
        for key in keys:
            self.assertIn(f"\\fB{key}\\fR = ", page)


class Output(Cli):
    def run_with_output(self, redirection):
        return self.run_command(["sh", "-c", f'"$0" help {redirection}', tap.SPANPROF], env=environment())

    def test_a_closed_standard_output_is_a_failure_with_a_reason(self):
        done = self.run_with_output(">&-")
        self.assertEqual(done.returncode, FAILURE)
        self.assertEqual(done.stderr, "spanprof: cannot write to standard output: Bad file descriptor\n")

    def test_a_full_disk_is_a_failure_with_a_reason(self):
        done = self.run_with_output("> /dev/full")
        self.assertEqual(done.returncode, FAILURE)
        self.assertIn("No space left", done.stderr)

    def test_a_reader_that_leaves_is_no_news(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([tap.SPANPROF, "help"], stdout=writer, stderr=subprocess.PIPE,
                              env=environment(), timeout=tap.PATIENCE)
        os.close(writer)
        self.assertEqual((done.returncode, done.stderr), (FAILURE, b""))

    def test_closed_descriptors_are_not_reused_for_files(self):
        path = self.file("frequency = 1\n")
        done = self.run_command(["sh", "-c", '"$0" config check "$1" 0<&- 2>&-', tap.SPANPROF, path],
                                env=environment())
        self.assertEqual((done.returncode, done.stdout), (OK, f"{path}: valid\n"))


tap.main()
