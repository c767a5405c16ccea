#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs in PHP, Ruby, Erlang and Elixir that many run, as Debian has them: Composer's map of classes and
PHPUnit's own tests with Excimer, RuboCop and a service of Sinatra under Puma with StackProf, each beside the
profiler of its language in the same process; RabbitMQ, `mix compile`; names of functions as Elixir writes them.
Stacks reach their root, and the 20 functions that are on most stacks have the same share."""
import oracle

oracle.enter()

import collections
import http.client
import itertools
import os
import pathlib
import pwd
import re
import shutil
import socket
import struct
import threading
import time
import urllib.request

import otlp_read
import real_server
import scripts
import session
import tap

HZ = 999
WHOLE = 0.99            # of samples, from the first one with a function of the language on
NAMED = 0.95            # on a busy machine many names come late: 98 on a quiet one
POINTS = 2.0
COMMON = 20
LEAST = 4000            # samples of ours
THEIRS = 1000           # of the other profiler, whose timer a busy machine delays
N = 4000
CPU_SECONDS = 6
VICTIMS = tap.SOURCE_DIR / "tests/victims"
PAGE = VICTIMS / "php/victim-page.php"
PAGE_CHAIN = ("main", "Cart::total", "array_map", "Cart::{closure}", "burn")


def top(shares):
    return sorted(shares, key=shares.get, reverse=True)[:COMMON]


def points_off(ours, n_ours, theirs, n_theirs):
    """Of both top lists: {function: (difference, share of ours, of theirs)}, in points, the worst one first."""
    shares = [{name: 100 * n / total for name, n in counts.items()}
              for counts, total in ((ours, n_ours), (theirs, n_theirs))]
    names = {name: [some.get(name, 0) for some in shares] for name in {*top(shares[0]), *top(shares[1])}}
    off = {name: (abs(our - their), our, their) for name, (our, their) in names.items()}
    return dict(sorted(off.items(), key=lambda one: -one[1][0]))


def plain(name):
    return re.sub(r"^((block (\(\d+ levels\) )?|rescue |ensure )in )*(.*[#.])?", "", name)


def is_of_gems(path):
    return "/gems/" in path or "/vendor_ruby/" in path


class Scripts(session.NamingCase):
    def setUp(self):
        super().setUp()
        self.root = scripts.fetched() or tap.skip("machine: no packages of Debian")

    def check_whole(self, what, samples, language, root=None, named_since_ns=0, least=WHOLE, named=NAMED):
        begin = min(s.time_ns for s in samples if any(f.type == language for f in s.frames))
        samples = [s for s in samples if s.time_ns >= begin and s.type not in session.NO_TICKS]
        ends = collections.Counter(s.attributes.get("profile.stack.truncated") for s in samples)
        # code that PCRE has made has no rows: functions of the language are whole nevertheless
        whole = sum("profile.stack.truncated" not in s.attributes or
                    root is not None and any((f.type, f.name) == (language, root) for f in s.frames)
                    for s in samples)
        unnamed = sum(any(f.type == "unknown" for f in s.frames) for s in samples
                      if (root is None or s.attributes.get("profile.stack.truncated") != "no_rows") and
                      s.time_ns >= named_since_ns)
        print(f"# {what}: {len(samples)} samples, ends {dict(ends)}, whole functions {whole / len(samples):.2%}, "
              f"with an unnamed one {unnamed / len(samples):.2%}", flush=True)
        self.assertGreaterEqual(len(samples), LEAST)
        self.assertGreaterEqual(whole, least * len(samples))
        self.assertLessEqual(unnamed, (1 - named) * len(samples))
        return samples

    def compare(self, what, ours, n_ours, theirs, n_theirs):
        """Functions, and on how many stacks each is."""
        off = points_off(ours, n_ours, theirs, n_theirs)
        print(f"# {what}: {n_ours} samples of ours, {n_theirs} of theirs", flush=True)
        for name, (_, our, their) in itertools.islice(off.items(), 4):
            print(f"# {what}: {name}: ours {our:.2f} %, theirs {their:.2f} %", flush=True)
        self.assertGreaterEqual(n_theirs, THEIRS)
        self.assertLessEqual(max(difference for difference, _, _ in off.values()), POINTS)

    def recorded(self, command, **options):
        out = self.directory() / "out.pb"
        return out, self.spawn([tap.SPANPROF, "record", "-F", HZ, "-o", out, "--", *command], **options)

    def samples_of(self, what, recorded, *arguments, **options):
        """Those of its first process: it may start others."""
        out, child = recorded
        child.wait(600)
        samples = list(otlp_read.samples(out))
        pids = collections.Counter(s.resource["process.pid"] for s in samples)
        pid = pids.most_common(1)[0][0]
        samples = [s for s in samples if s.resource["process.pid"] == pid]
        return self.check_whole(what, samples, *arguments, **options)

    # ---- Erlang ----

    def start_rabbitmq(self):
        """Its process, and the port where it speaks STOMP."""
        home, (amqp, stomp, nodes, names) = self.directory(), real_server.free_ports(4)
        (home / "plugins").write_text("[rabbitmq_stomp].\n")
        (home / "shop.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{amqp}\n"
                                        f"stomp.listeners.tcp.1 = 127.0.0.1:{stomp}\n")
        environment = {"BASE": home, "MNESIA_BASE": home / "mnesia", "LOG_BASE": home / "log", "LOGS": "-",
                       "ENABLED_PLUGINS_FILE": home / "plugins", "PID_FILE": home / "pid",
                       "FEATURE_FLAGS_FILE": home / "flags", "GENERATED_CONFIG_DIR": home / "made",
                       "CONF_ENV_FILE": home / "none", "CONFIG_FILE": home / "shop", "NODENAME": "shop@localhost",
                       "NODE_PORT": amqp, "DIST_PORT": nodes, "ALLOW_INPUT": 1}
        environment = {f"RABBITMQ_{name}": value for name, value in environment.items()}
        # the program that knows the names of nodes ends with this test, and not when the machine does
        names_program = next(pathlib.Path("/usr/lib/erlang").glob("erts-*/bin/epmd"))
        self.spawn([names_program, "-port", names, "-address", "127.0.0.1"])
        child = self.spawn([self.root / "usr/lib/rabbitmq/bin/rabbitmq-server", "-noinput", "-start_epmd", "false"],
                           env=session.clean_environment(HOME=home, ERL_EPMD_PORT=names, **environment,
                                                         ERL_LIBS=self.root / "usr/lib/erlang/lib"))
        child.wait_for("Server startup complete", patience=600)
        return child, stomp

    def test_rabbitmq(self):
        """A queue that is filled and emptied."""
        tap.need_tool("erl")
        child, port = self.start_rabbitmq()
        is_over = threading.Event()

        def talk():
            def frame(verb, body="", **headers):
                lines = "".join(f"{key}:{value}\n" for key, value in headers.items())
                return f"{verb}\n{lines}\n{body}\0".encode()

            with socket.create_connection(("127.0.0.1", port), timeout=60) as server:
                server.sendall(frame("CONNECT", login="guest", passcode="guest", host="/"))
                server.recv(4096)
                server.sendall(frame("SUBSCRIBE", id=0, destination="/queue/shop", ack="auto"))
                while not is_over.is_set():
                    server.sendall(50 * frame("SEND", 20 * "tea ", destination="/queue/shop"))
                    n = 0
                    while n < 50:
                        n += server.recv(1 << 16).count(b"\0")

        run = self.start("--pid", child.pid, "--frequency", "999", "--symbols", "local")
        client = threading.Thread(target=talk, daemon=True)
        client.start()
        self.wait_for(run, lambda samples: sum(any(f.type == "beam" and f.name for f in s.frames)
                                               for s in samples) >= N + N // 2, f"{N} samples with functions")
        is_over.set()
        client.join(60)
        result = run.stop()
        child.stop(9)
        names = {f.name for s in self.check_whole("RabbitMQ", result.of(child.pid), "beam") for f in s.frames}
        for name in (r"rabbit_stomp_\w+:.*", r"rabbit_amqqueue_process:.*", r"gen_server2:.*"):
            self.assertTrue(any(re.fullmatch(name, found or "") for found in names), name)

    # ---- PHP ----

    @staticmethod
    def of_php(samples):
        """Functions on stacks in `work`, on how many each is, and is innermost; and how many stacks."""
        on, last, n = collections.Counter(), collections.Counter(), 0
        for sample in samples:
            # functions of C have no file
            names = [f.name for f in sample.frames if f.type == "php" and f.file]
            if "work" in names:
                n += sample.value
                last[names[0]] += sample.value
                on.update({name: sample.value for name in names})
        return on, last, n

    def beside_excimer(self, what, victim, *arguments):
        """Excimer tells a tick, as one in C code, when the next function is called, and with that function.
        So functions are compared that call others for most of their time."""
        php, said = tap.need_tool("php"), self.directory() / "excimer"
        extensions = next(self.root.glob("usr/lib/php/*/excimer.so")).parent
        options = ["-n", "-d", f"include_path={self.root}/usr/share/php", "-d", "memory_limit=-1"]
        for name in ("tokenizer", "phar", "ctype", *(extensions / name for name in
                                                      ("dom", "mbstring", "xml", "xmlwriter", "excimer"))):
            options += ["-d", f"extension={name}.so"]
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        recorded = self.recorded([php, *options, VICTIMS / "php" / victim, *arguments, said],
                                 env={**os.environ, "LD_LIBRARY_PATH": str(libraries)})
        samples = self.samples_of(what, recorded, "php", "main")
        ours, last, n_ours = self.of_php(samples)
        theirs = collections.Counter()
        lines = [line.rsplit(" ", 1) for line in said.read_text().splitlines()]
        for stack, n in lines:
            theirs.update({name: int(n) for name in stack.split(";")})
        callers = {name for name in ours if "::" in name and last[name] < 0.5 * ours[name]}
        self.compare(what, {name: ours[name] for name in callers}, n_ours,
                     {name: theirs[name] for name in callers}, sum(int(n) for _, n in lines))

    def test_composers_map_of_classes(self):
        self.beside_excimer("Composer", "victim-classes.php", self.root / "usr/share/php", 40)

    def test_phpunits_own_tests(self):
        self.beside_excimer("PHPUnit", "victim-phpunit.php", next(self.root.glob("src/phpunit-*/tests")), 60)

    # ---- PHP in servers ----

    def check_page(self, what, ask, *selectors):
        """Asks for the page from two sides until there are enough samples; all are of its chain."""
        is_over = threading.Event()

        def browse():
            while not is_over.is_set():
                ask()

        ask()
        run = self.start(*selectors, "--frequency", "999", "--symbols", "local")
        browsers = [threading.Thread(target=browse, daemon=True) for _ in range(2)]
        for browser in browsers:
            browser.start()
        self.wait_for(run, lambda samples: sum(any(f.name == "burn" for f in s.frames) for s in samples) >= N,
                      f"{N} samples")
        is_over.set()
        for browser in browsers:
            browser.join(60)
        result = run.stop()
        chains = collections.Counter()
        for sample in result.samples:
            frames = [f for f in reversed(sample.frames) if f.type == "php"]
            outer = itertools.dropwhile(lambda f: f.type != "php", sample.frames)
            # a function whose name is late is of no type: check_whole() judges how many samples have one
            if any(f.name == "burn" for f in frames) and all(f.type != "unknown" for f in outer):
                chains[tuple(f.name for f in frames), frames[0].file] += 1
        print(f"# {what}: {chains.most_common(3)}", flush=True)
        self.assertEqual(set(chains), {(PAGE_CHAIN, str(PAGE))})
        self.check_whole(what, result.samples, "php", least=0.98)
        return result

    def test_pools_of_fpm(self):
        """A pool is chosen by its user; the script is the file of the outermost function."""
        home, pools = self.directory(), {"shop": "uucp", "other": "news"}
        home.chmod(0o711)
        (home / "fpm.conf").write_text("[global]\nerror_log = /dev/stderr\ndaemonize = no\n" + "".join(
            f"[{name}]\nlisten = {home}/{name}\nuser = {user}\ngroup = {user}\npm = static\n"
            "pm.max_children = 2\n"
            for name, user in pools.items()))
        child = self.spawn([next(self.root.glob("usr/sbin/php-fpm*")), "-n", "-F", "-y", home / "fpm.conf", "-d",
                            "zend_extension=opcache"])
        child.wait_for("ready to handle connections", patience=120)
        words = {"SCRIPT_FILENAME": str(PAGE), "REQUEST_METHOD": "GET"}
        words = b"".join(bytes([len(key), len(text)]) + (key + text).encode() for key, text in words.items())

        def record(kind, body):
            return struct.pack(">BBHHBB", 1, kind, 1, len(body), 0, 0) + body

        def ask(name):
            with socket.socket(socket.AF_UNIX) as server:
                server.settimeout(60)
                server.connect(str(home / name))
                begin = record(1, struct.pack(">HB5x", 1, 0))
                server.sendall(begin + record(4, words) + record(4, b"") + record(5, b""))
                while server.recv(4096):
                    pass

        def ask_both():
            for name in pools:
                ask(name)

        result = self.check_page("FPM", ask_both, "--user", pools["shop"])
        user = pwd.getpwnam(pools["shop"]).pw_uid
        self.assertEqual({pathlib.Path(f"/proc/{pid}").stat().st_uid for pid in result.pids}, {user})
        child.stop(9)

    def test_apaches_module(self):
        home, (port,) = self.directory(), real_server.free_ports(1)
        modules = self.root / "usr/lib/apache2/modules"
        names = ("mpm_prefork", "authz_core", "mime")
        lines = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in names]
        lines += [f"LoadModule php_module {next(modules.glob('libphp8*.so'))}", f"Listen 127.0.0.1:{port}",
                  f"PidFile {home}/pid", "ErrorLog /dev/stderr", "LogLevel notice", "TypesConfig /etc/mime.types",
                  f"DocumentRoot {PAGE.parent}", "ServerName localhost", "User uucp", "Group uucp", "StartServers 2",
                  "MaxRequestWorkers 2", f"Mutex file:{home}", "AddHandler application/x-httpd-php .php",
                  f"<Directory {PAGE.parent}>", "Require all granted", "</Directory>"]
        (home / "apache.conf").write_text("\n".join(lines) + "\n")
        libraries = self.root / "usr/lib/x86_64-linux-gnu"
        child = self.spawn([self.root / "usr/sbin/apache2", "-DFOREGROUND", "-f", home / "apache.conf"],
                           env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
                           start_new_session=True)      # at its end it ends its group
        child.wait_for("resuming normal operations", patience=120)

        def ask():
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{PAGE.name}", timeout=60) as answer:
                answer.read()

        self.check_page("Apache", ask, "--comm", "apache2")
        child.stop()

    # ---- Ruby ----

    @staticmethod
    def of_ruby(samples, is_work):
        """Methods of gems on stacks in work, on how many each is; and how many stacks."""
        stacks = [s for s in samples if any(f.type == "ruby" and is_work(f) for f in s.frames) and
                  not any(f.name == "(gc)" for f in s.frames)]
        on = collections.Counter()
        for sample in stacks:
            on.update({(plain(f.name), pathlib.Path(f.file).name) for f in sample.frames
                       if f.type == "ruby" and is_of_gems(f.file or "")})
        return on, len(stacks)

    def beside_stackprof(self, what, said, samples, is_work):
        """StackProf counts blocks as the method that they are in, and no stack while the collector runs.
        Classes are not read before Ruby 3.2: methods are told by their names and files."""
        ours, n_ours = self.of_ruby(samples, is_work)
        theirs = collections.Counter()
        total, *lines = said.read_text().splitlines()
        for n, name, path in (line.split("\t") for line in lines):
            if is_of_gems(path):
                key = plain(name), pathlib.Path(path).name
                theirs[key] = max(theirs[key], int(n))
        self.compare(what, ours, n_ours, theirs, int(total))

    def ruby(self, victim, *arguments):
        return self.recorded([tap.need_tool("ruby"), VICTIMS / "ruby" / victim, *arguments],
                             env={**os.environ, "RUBYLIB": scripts.ruby_path(self.root)})

    def test_rubocop(self):
        said = self.directory() / "stackprof"
        gems = self.root / "usr/share/rubygems-integration/all/gems"
        files = [next(gems.glob(f"{name}-*")) for name in ("rubocop-ast", "parallel", "rainbow", "ast")]
        samples = self.samples_of("RuboCop", self.ruby("victim-rubocop.rb", said, 4, *files), "ruby")
        self.beside_stackprof("RuboCop", said, samples, lambda frame: frame.name == "work")

    def test_sinatra_under_puma(self):
        said = self.directory() / "stackprof"
        recorded = self.ruby("victim-sinatra.rb", said, CPU_SECONDS)
        port = int(recorded[1].wait_for(r"ready (\d+)", patience=120)[1])
        ready_ns = time.time_ns()

        def ask():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                while True:
                    for path in ("/items/40", "/items/60.json", "/digest/tea"):
                        connection.request("GET", path)
                        connection.getresponse().read()
            except OSError:
                pass            # it has ended

        browsers = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
        for browser in browsers:
            browser.start()
        # methods of its files run once, and on a busy machine they are gone before they are asked for
        samples = self.samples_of("Sinatra", recorded, "ruby", named_since_ns=ready_ns)
        self.beside_stackprof("Sinatra", said, samples, lambda frame: frame.name == "process_client")

    # ---- Elixir ----

    def elixir(self, *arguments):
        return [tap.need_tool("erl"), "-noshell", "-pa", *scripts.erlang_paths(self.root), "-s", "elixir", "start_cli",
                "-extra", *arguments]

    def shop(self, *arguments):
        return self.elixir(VICTIMS / "beam/victim-shop.exs", *arguments)

    def test_functions_are_written_as_elixir_writes_them(self):
        said = self.run_command(self.shop("print"), expect=0).stdout.splitlines()
        truth = {tuple(line.split(";")[:line.split(";").index("Shop.chains/1") + 1]) for line in said}
        self.assertGreaterEqual(len(truth), 4)
        child = self.spawn(self.shop("work"))
        child.wait_for("ready")
        run = self.start("--pid", child.pid, "--frequency", "1999", "--symbols", "local", "--depth", "512")
        self.wait_for(run, lambda samples: sum(any(f.type == "beam" and f.name for f in s.frames)
                                               for s in samples) >= N + N // 4, f"{N} samples with functions")
        result = run.stop()
        child.stop(9)
        verdicts = collections.Counter()
        for sample in self.check_whole("Elixir", result.of(child.pid), "beam", named=0.98):
            names = [f.name for f in sample.frames]
            if "Shop.Cart.burn/2" in names and "Shop.chains/1" in names:
                chain = tuple(names[names.index("Shop.Cart.burn/2"):names.index("Shop.chains/1") + 1])
                verdicts["right" if chain in truth else chain] += 1
        print(f"# Elixir: {verdicts.most_common(4)}", flush=True)
        self.assertEqual(set(verdicts), {"right"})
        self.assertGreater(verdicts["right"], N // 2)

    def test_mix_compile(self):
        """Elixir makes a module for the body of each file and module, and throws it away: it has no name. As
        it does so, all processes are asked whether they use it, between one process and the next: such a
        stack is not whole."""
        project = self.directory() / "mix"
        shutil.copytree(next(self.root.glob("src/elixir-*/lib/mix")), project)
        recorded = self.recorded(self.elixir(self.root / "usr/lib/elixir/bin/mix", "compile"), cwd=project,
                                 env={**os.environ, "HOME": str(project)})
        samples = self.samples_of("mix compile", recorded, "beam", least=0.97, named=0.8)
        names = [{f.name for f in s.frames if f.type == "beam"} for s in samples]
        for name in (r"elixir_\w+:.*", r"[A-Z][\w.]*\.\S+/\d+", r"beam_\w+:.*"):
            n = sum(any(re.fullmatch(name, f) for f in some) for some in names)
            self.assertGreater(n, 0.02 * len(names), name)


if __name__ == "__main__":
    tap.main()
