#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the packages hold, judged by the tools of those who would take them."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import buildah
import nspawn
import packages
import qemu
import rpm_root
import tap

RPMS = {"spanprof", "libspanprof-context", "libspanprof-context-devel", "libspanprof-convert",
        "libspanprof-convert-devel"}


class Release(tap.TestCase):
    def test_is_summed_and_signed_by_the_key_that_is_named(self):
        clone, out, keys = self.directory() / "clone", self.directory() / "out", self.directory() / "keys"
        gpg = tap.need_tool("gpg")
        keys.mkdir(mode=0o700)
        env = {**os.environ, "GNUPGHOME": str(keys)}
        self.run_command(["git", "clone", "-q", tap.SOURCE_DIR, clone], expect=0)
        self.run_command([gpg, "--batch", "--passphrase", "", "--quick-generate-key", "releaser@example.com"],
                         expect=0, env=env)
        self.run_command([clone / "packaging/release", out, "releaser@example.com"], expect=0, env=env,
                         timeout=1800)
        sums = (out / "SHA256SUMS").read_text()
        self.assertRegex(sums, r"(?m)^[0-9a-f]{64}  spanprof-[0-9.]+\.tar\.xz$")
        self.run_command(["sha256sum", "--check", "--strict", "SHA256SUMS"], expect=0, cwd=out)
        self.run_command([gpg, "--batch", "--verify", out / "SHA256SUMS.asc", out / "SHA256SUMS"], expect=0, env=env)
        (out / "SHA256SUMS").write_text(sums.replace("a", "b", 1))
        self.assertNotEqual(
            self.run_command([gpg, "--batch", "--verify", out / "SHA256SUMS.asc", out / "SHA256SUMS"],
                             env=env).returncode, 0)
        again = self.run_command([clone / "packaging/release", out], env=env)
        self.assertEqual((again.returncode, "is not empty" in again.stderr), (1, True))


class Deb(tap.TestCase):
    def contents(self, name):
        text = self.run_command(["dpkg-deb", "--contents", packages.of(name)], expect=0).stdout
        return {line.split()[5].removeprefix("."): line.split() for line in text.splitlines()}

    def unpack(self, name):
        to = self.directory() / "tree"
        self.run_command(["dpkg-deb", "--extract", packages.of(name), to], expect=0)
        return to

    def test_lintian_finds_nothing(self):
        done = self.run_command([tap.need_tool("lintian"), "--fail-on=error,warning", "--allow-root",
                                 next(packages.directory().glob("*.changes"))], timeout=300)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_configuration_is_the_administrators(self):
        done = self.run_command(["dpkg-deb", "--info", packages.of("spanprof"), "conffiles"], expect=0)
        self.assertEqual(done.stdout.split(), ["/etc/spanprof/spanprof.conf"])

    def test_holds_what_an_operator_needs_and_nothing_of_the_build(self):
        files = self.contents("spanprof")
        for path in ("/usr/sbin/spanprof", "/lib/systemd/system/spanprof.service",
                     "/usr/share/man/man1/spanprof.1.gz", "/usr/share/man/man5/spanprof.conf.5.gz",
                     "/usr/share/bash-completion/completions/spanprof",
                     "/usr/share/zsh/vendor-completions/_spanprof", "/usr/share/spanprof/spanprof.spdx.json",
                     "/usr/share/spanprof/monitoring/spanprof.rules.yaml",
                     "/usr/share/spanprof/kubernetes/daemonset.yaml", "/usr/share/doc/spanprof/README.md.gz",
                     "/usr/share/doc/spanprof/OPERATING.md", "/usr/share/doc/spanprof/SECURITY.md.gz",
                     "/usr/lib/sysusers.d/spanprof.conf"):
            self.assertIn(path, files)
        for path, fields in files.items():
            self.assertEqual(fields[1], "root/root", path)
            self.assertNotIn("s", fields[0], path)          # no setuid
        binary = (self.unpack("spanprof") / "usr/sbin/spanprof").read_bytes()
        self.assertNotIn(str(tap.SOURCE_DIR).encode(), binary)
        done = self.run_command([self.unpack("spanprof") / "usr/sbin/spanprof", "version"], expect=0)
        self.assertNotIn("unknown", done.stdout, "which revision it is built from")

    def test_what_alerts_link_to_is_there(self):
        tree = self.unpack("spanprof")
        rules = (tree / "usr/share/spanprof/monitoring/spanprof.rules.yaml").read_text()
        links = re.findall(r'runbook: "/(\S+)#(\S+)"', rules)
        self.assertEqual(len(links), rules.count("- alert: "))
        for path, anchor in links:
            self.assertIn(f"### {anchor}\n", (tree / path).read_text().lower())

    def test_symbols_are_in_their_own_package(self):
        binary = self.unpack("spanprof") / "usr/sbin/spanprof"
        # its status is 1 where it does not know .note.dlopen
        notes = self.run_command(["readelf", "-n", binary]).stdout
        build_id = re.search(r"Build ID: (\w+)", notes)[1]
        self.assertNotIn(".debug_info", self.run_command(["readelf", "-SW", binary]).stdout)
        debug = self.unpack(
            "spanprof-dbgsym") / f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
        self.assertIn(".debug_info", self.run_command(["readelf", "-SW", debug], expect=0).stdout)

    def test_a_service_can_be_built_with_the_dev_package_alone(self):
        tree = self.unpack("libspanprof-context-dev")
        self.run_command(["dpkg-deb", "--extract", packages.of("libspanprof-context0"), tree], expect=0)
        library = next(tree.glob("usr/lib/*/libspanprof-context.so")).parent
        source = self.directory() / "a.c"
        source.write_text(
            '#include <spanprof/context.h>\nint main(void) { spanprof_context_set(1, 2, 3); return 0; }\n')
        for flags in (["-lspanprof-context"], [f"{library}/libspanprof-context.a", "-pthread"]):
            self.run_command([
                "gcc", "-Wall", "-Werror", f"-I{tree}/usr/include", source, f"-L{library}", *flags, "-o",
                source.with_suffix("")
            ], expect=0)
            self.run_command([source.with_suffix("")], env={**os.environ, "LD_LIBRARY_PATH": str(library)},
                             expect=0)

    def test_bill_of_materials_names_every_library_that_is_linked(self):
        tree = self.unpack("spanprof")
        bill = json.loads((tree / "usr/share/spanprof/spanprof.spdx.json").read_text())
        self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
        named = {p["name"].removeprefix("lib").lower() for p in bill["packages"]}
        needed = re.findall(r"NEEDED.*\[lib(\w[\w-]*?)\.so",
                            self.run_command(["readelf", "-d", tree / "usr/sbin/spanprof"], expect=0).stdout)
        self.assertGreater(len(needed), 5)
        short = {"z": "zlib", "elf": "elf"}
        for library in needed:
            if library in ("c", "m", "pthread"):
                continue
            self.assertIn(short.get(library, library), named)
        ids = {p["SPDXID"] for p in bill["packages"]} | {"SPDXRef-DOCUMENT"}
        for link in bill["relationships"]:
            self.assertLessEqual({link["spdxElementId"], link["relatedSpdxElement"]}, ids)
        for package in bill["packages"]:
            self.assertTrue({"name", "SPDXID", "downloadLocation", "licenseDeclared"} <= set(package))

    def test_depends_on_what_is_loaded_when_it_is_needed(self):
        names = self.run_command([
            tap.SOURCE_DIR / "packaging/libraries", "--noted",
            self.unpack("spanprof") / "usr/sbin/spanprof"
        ], expect=0).stdout.split()
        self.assertGreaterEqual(len(names), 3)
        depends = self.run_command(
            ["dpkg-deb", "--field", packages.of("spanprof"), "Depends"], expect=0).stdout
        for name in names:
            where = self.run_command(["dpkg-query", "--search", f"*/{name}"], expect=0).stdout.split(":")[0]
            self.assertRegex(depends, rf"(^|, ){re.escape(where)}( |,|$)", name)

    def test_build_is_reproducible(self):
        again = packages.build(self.directory())
        for first in packages.directory().glob("*.deb"):
            self.assertEqual(
                hashlib.sha256(first.read_bytes()).hexdigest(),
                hashlib.sha256((again / first.name).read_bytes()).hexdigest(), first.name)


def tarball(test):
    """As `meson dist` makes it, of what is here now: it takes only what is committed."""
    head = ["git", "-C", tap.SOURCE_DIR, "rev-parse", "HEAD"]
    if not shutil.which("git") or test.run_command(head).returncode:
        tap.skip("machine: these sources are no git repository")
    copy = test.directory() / "copy"
    subprocess.run(["git", "clone", "--quiet", tap.SOURCE_DIR, copy], check=True)
    for words in (["setup", copy / "b", copy, "-Dtests=false"],
                  ["dist", "-C", copy / "b", "--no-tests", "--formats", "xztar"]):
        test.run_command(["meson", *words], expect=0, timeout=600)
    return next((copy / "b/meson-dist").glob("spanprof-*.tar.xz"))


def build_rpms(test, top, *options):
    """In directory @top, of the tarball."""
    # --nodeps: names of Fedora's packages mean nothing where apt has installed what they stand for
    test.run_command([
        tap.need_tool("rpmbuild"), "-bb", "--nodeps", "--define", f"_topdir {top}", "--define",
        f"_sourcedir {tarball(test).parent}", "--define", "_lib lib64", "--define", "debug_package %{nil}",
        *options, tap.SOURCE_DIR / "packaging/rpm/spanprof.spec"
    ], expect=0, timeout=1200)


class Sources(tap.TestCase):
    """The tarball, and what is built from it."""

    built = None                        # directory of RPMs, for all tests

    def rpms(self):
        """A directory with them; SPANPROF_TEST_RPMS names one of RPMs that are built already."""
        if os.environ.get("SPANPROF_TEST_RPMS"):
            return pathlib.Path(os.environ["SPANPROF_TEST_RPMS"])
        if not Sources.built:
            Sources.built = tempfile.mkdtemp(prefix="spanprof-rpms-")
            self.addClassCleanup(shutil.rmtree, Sources.built)
            build_rpms(self, Sources.built)
        return pathlib.Path(Sources.built)

    def test_rpm_is_built_from_the_tarball(self):
        top = self.rpms()
        rpms = {path.name.rsplit("-", 2)[0]: path for path in top.rglob("*.rpm")}
        self.assertEqual(set(rpms), RPMS)
        files = self.run_command(["rpm", "-qpl", rpms["spanprof"]], expect=0).stdout.split()
        self.assertIn("/usr/sbin/spanprof", files)
        self.assertIn("/usr/lib/systemd/system/spanprof.service", files)
        needs = self.run_command(["rpm", "-qp", "--requires", rpms["spanprof"]], expect=0).stdout
        for name in self.run_command([tap.SOURCE_DIR / "packaging/libraries", "--noted", tap.SPANPROF],
                                     expect=0).stdout.split():
            self.assertIn(f"{name}()(64bit)", needs)
        self.assertEqual(
            self.run_command(["rpm", "-qpc", rpms["spanprof"]], expect=0).stdout.split(),
            ["/etc/spanprof/spanprof.conf"])
        changes = self.run_command(["rpm", "-qp", "--changelog", rpms["spanprof"]], expect=0).stdout
        self.assertIn("First package", changes)

    def test_rpms_are_installed_upgraded_and_removed_with_their_dependencies(self):
        """Without --nodeps. What they need is found by RPM in a package of this machine's own libraries."""
        tap.need_root()
        tap.need_tool("rpmbuild")
        paths = sorted(self.rpms().rglob("*.rpm"))
        names = self.run_command([tap.SOURCE_DIR / "packaging/libraries", "--noted", tap.SPANPROF],
                                 expect=0).stdout.split()
        bare, root = rpm_root.Root(self, names[1:]), rpm_root.Root(self, names)
        self.assertIn(f"{names[0]}()(64bit) is needed by", bare.rpm("-i", *paths, expect=None).stderr)
        root.rpm("-i", *paths)
        self.assertIn(f"spanprof {tap.version()}", root.run("/usr/sbin/spanprof", "version").stdout)
        for name in names:
            self.assertIn(name, root.run("/usr/sbin/spanprof", "version").stdout)
        self.assertRegex(root.read("etc/passwd"), r"(?m)^spanprof:")
        self.assertEqual(root.rpm("-V", "spanprof").stdout, "")
        for name in ("bash-completion/completions/spanprof", "zsh/site-functions/_spanprof"):
            self.assertIn("spanprof", root.read(f"usr/share/{name}"))
        config = root.path / "etc/spanprof/spanprof.conf"
        config.write_text(config.read_text() + "\n[sampling]\nfrequency = 49\n")
        root.rpm("-U", "--replacepkgs", *paths)
        self.assertIn("frequency = 49", config.read_text())
        self.assertIn("49", root.run("/usr/sbin/spanprof", "config", "show").stdout)
        root.rpm("-e", *(path.name.rsplit("-", 2)[0] for path in paths))
        self.assertIn("frequency = 49", config.with_suffix(".conf.rpmsave").read_text())
        self.assertFalse((root.path / "usr/sbin/spanprof").exists())


class Arm64(tap.TestCase):
    """Packages for the other machine, compiled here, beside those for this one."""

    def setUp(self):
        super().setUp()
        self.root = qemu.CACHE / "arm64"
        self.emulator = tap.need_tool("qemu-aarch64")
        if not (qemu.CACHE / "arm64.ini").exists():
            tap.skip("tool: no libraries for arm64; `sudo ./bootstrap cross` unpacks them")

    def check_program(self, tree, root=None):
        program = tree / "usr/sbin/spanprof"
        self.assertIn("AArch64", self.run_command(["readelf", "-hW", program], expect=0).stdout)
        done = self.run_command([self.emulator, "-L", root or self.root, program, "version"], expect=0)
        self.assertRegex(done.stdout, r"^spanprof \d")

    def contents(self, deb):
        text = self.run_command(["dpkg-deb", "--contents", deb], expect=0).stdout
        return {re.sub("(x86_64|aarch64)-linux-gnu", "TRIPLET", line.split()[5])
                for line in text.splitlines() if ".build-id" not in line}

    def field(self, deb, name):
        return self.run_command(["dpkg-deb", "--field", deb, name], expect=0).stdout.strip()

    def rpm(self, path, *query):
        return self.run_command(["rpm", "-qp", *query, path], expect=0).stdout

    def test_debs(self):
        output = packages.build(self.directory() / "debs", options=["--arm64", qemu.CACHE])
        debs = {path.name.split("_")[0]: path for path in output.glob("*.deb")}
        self.assertEqual(set(debs), {path.name.split("_")[0] for path in packages.directory().glob("*.deb")})
        for name, deb in debs.items():
            self.assertEqual(self.field(deb, "Architecture"), "arm64")
            self.assertEqual(self.contents(deb), self.contents(packages.of(name)), name)
            self.assertEqual(*(set(re.findall(r"lib[a-z][\w.+-]*", self.field(x, "Depends")))
                               for x in (deb, packages.of(name))), name)
        tree = self.directory() / "tree"
        self.run_command(["dpkg-deb", "--extract", debs["spanprof"], tree], expect=0)
        self.check_program(tree)

    def test_rpms_are_of_the_other_machine(self):
        top, tree = self.directory(), self.directory()
        build_rpms(self, top, "--target", "aarch64", "--define", f"cross_file {qemu.CACHE / 'arm64.ini'}")
        rpms = {path.name.rsplit("-", 2)[0]: path for path in top.rglob("*.rpm")}
        self.assertEqual(set(rpms), RPMS)
        for path in rpms.values():
            self.assertEqual(self.rpm(path, "--queryformat", "%{ARCH}"), "aarch64")
            self.run_command(["rpm2archive", path], expect=0)         # beside it
            self.run_command(["tar", "-xzf", f"{path}.tgz", "-C", tree], expect=0)
        self.check_program(tree)
        for path in tree.glob("usr/lib64/*.so.*"):
            self.assertIn("AArch64", self.run_command(["readelf", "-hW", path], expect=0).stdout)
        # what RPM reads in the program, and what the spec says of those that it loads
        needs = self.rpm(rpms["spanprof"], "--requires")
        noted = [tap.SOURCE_DIR / "packaging/libraries", "--noted", tree / "usr/sbin/spanprof"]
        for name in ["libelf.so.1", *self.run_command(noted, expect=0).stdout.split()]:
            self.assertIn(f"{name}()(64bit)", needs)


class Publishers(tap.TestCase):
    """What hints and README name below /usr/share/spanprof/sdk, taken from there by those who would."""

    TRACE = "00000000000000a100000000000000a2"

    def setUp(self):
        super().setUp()
        self.tree = self.directory() / "tree"
        for name in ("spanprof", "libspanprof-context0", "libspanprof-context-dev"):
            self.run_command(["dpkg-deb", "--extract", packages.of(name), self.tree], expect=0)
        self.sdk = self.tree / "usr/share/spanprof/sdk"
        # nobody writes into what a package has installed
        for path in (self.sdk, *self.sdk.rglob("*")):
            path.chmod(path.stat().st_mode & ~0o222)

    def fetched(self, done):
        """Skips where a registry cannot be asked."""
        unreached = r"(?i)network|resolve|connection|ENOTFOUND|No matching distribution"
        if done.returncode and re.search(unreached, done.stderr):
            tap.skip(f"machine: no registry: {done.stderr[-300:]}")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def publishes(self, command, **environment):
        """A program with a span that sleeps: `contexts` sees it."""
        child = self.spawn(command, env={**os.environ, **environment})
        child.wait_for("^ready")
        tap.wait_until(lambda: self.TRACE in self.spanprof("contexts", child.pid).stdout, f"a span of {child}")

    def test_python(self):
        tap.need_root()
        venv = self.directory() / "venv"
        self.run_command(["python3", "-m", "venv", venv], expect=0, timeout=300)
        self.fetched(self.run_command([venv / "bin/pip", "install", "opentelemetry-sdk",
                                       self.sdk / "python.tar.gz"], timeout=600))
        program = ("import time\nfrom opentelemetry import trace\n"
                   f"context = trace.SpanContext(0x{self.TRACE}, 0xb3, False)\n"
                   "with trace.use_span(trace.NonRecordingSpan(context)):\n    print('ready', flush=True)\n    time.sleep(600)\n")
        self.publishes([venv / "bin/python", "-c", program], OTEL_PYTHON_CONTEXT="spanprof")

    def test_node(self):
        tap.need_root()
        npm, service = tap.need_tool("npm"), self.directory()
        (service / "package.json").write_text('{ "private": true }')
        self.fetched(self.run_command([npm, "install", "--no-audit", "--no-fund", "--foreground-scripts", self.sdk / "node.tgz",
                                       "@opentelemetry/context-async-hooks"], cwd=service, timeout=600))
        if not (service / "node_modules/spanprof-otel/record.node").exists():   # npm asks before it runs scripts
            self.fetched(self.run_command([npm, "rebuild", "--foreground-scripts", "spanprof-otel"], cwd=service, timeout=600))
        program = service / "service.js"
        program.write_text(
            "const { context, trace, ROOT_CONTEXT } = require('@opentelemetry/api');\n"
            "const { AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');\n"
            "context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());\n"
            f"const span = trace.wrapSpanContext({{ traceId: '{self.TRACE}', spanId: 'b2'.repeat(8) }});\n"
            "context.with(trace.setSpan(ROOT_CONTEXT, span), () => {\n    console.log('ready');\n"
            "    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\n});\n")
        self.publishes([tap.need_tool("node"), program], NODE_OPTIONS="--require spanprof-otel/register",
                       NODE_PATH=str(service / "node_modules"))

    def test_java(self):
        tap.need_tool("javac")
        jar = self.directory() / "spanprof-otel.jar"
        self.run_command([self.sdk / "java/otel/make-jar.sh", jar], expect=0, timeout=300)
        names = self.run_command(["jar", "tf", jar], expect=0).stdout.split()
        self.assertIn("spanprof/otel/Extension.class", names)
        self.assertIn(f"native/linux-{os.uname().machine}/libspanprof-otel.so", names)
        self.assertFalse([name for name in names if name.startswith("io/")], "stubs stay outside")

    def test_go(self):
        go, folder = tap.need_tool("go"), self.directory()
        (folder / "go.mod").write_text("module example/app\n\ngo 1.24.0\n")
        (folder / "main.go").write_text('package main\n\nimport _ "spanprof.example/spanprofotel"\n\nfunc main() {}\n')
        self.run_command([go, "mod", "edit", "-require", "spanprof.example/spanprofotel@v0.0.0", "-replace",
                          f"spanprof.example/spanprofotel={self.sdk}/go"], cwd=folder, expect=0)
        for words in (["mod", "tidy"], ["build", "-o", "app", "."]):
            self.fetched(self.run_command([go, *words], cwd=folder, timeout=600))
        self.run_command([folder / "app"], expect=0)

    def test_rust(self):
        cargo, folder = tap.need_tool("cargo"), self.directory()
        (folder / "src").mkdir()
        (folder / "Cargo.toml").write_text('[package]\nname = "app"\nversion = "0.1.0"\nedition = "2021"\n\n[dependencies]\n'
                                           f'spanprof-otel = {{ path = "{self.sdk}/rust" }}\n')
        (folder / "src/main.rs").write_text("fn main() { assert!(spanprof_otel::install()); }\n")
        self.fetched(self.run_command([cargo, "run", "--quiet"], cwd=folder, timeout=900))

    def test_the_header_for_cplusplus(self):
        """It is compiled with opentelemetry-cpp by test-otel-cpp.py; here it is the same file."""
        header = "include/spanprof/opentelemetry.hpp"
        self.assertEqual((self.sdk / header).read_text(), (tap.SOURCE_DIR / "sdk" / header).read_text())
        self.assertEqual((self.tree / "usr" / header).read_text(), (tap.SOURCE_DIR / "sdk" / header).read_text())


class Completions(tap.TestCase):
    def complete(self, *words):
        """What bash would offer for the last of @words."""
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _spanprof 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"'
        file = tap.BUILD_DIR / "packaging/spanprof"
        return self.run_command(["bash", "-c", script, "bash", file, "spanprof", *words],
                                expect=0).stdout.split()

    def test_bash_knows_verbs_options_and_choices(self):
        listing = re.findall(r"^  ([a-z]+) ", self.spanprof("help").stdout, re.M)
        self.assertEqual(set(self.complete("")), set(listing))
        self.assertEqual(self.complete("conf"), ["config"])
        for verb in listing:
            options = set(
                re.findall(
                    r"--([a-z-]+)",
                    " ".join(re.findall(r"^ +(?:-\w, )?--\S+",
                                        self.spanprof(verb, "--help", "--all").stdout, re.M))))
            self.assertEqual({word.strip("-=") for word in self.complete(verb, "--")}, options, verb)
        self.assertEqual(set(self.complete("run", "--compression", "")), {"gzip", "none"})
        self.assertEqual(self.complete("run", "--compression", "=", "g"), ["gzip"])

    def test_zsh_can_read_its_own(self):
        zsh = tap.need_tool("zsh")
        self.run_command([zsh, "-n", tap.BUILD_DIR / "packaging/_spanprof"], expect=0)
        text = (tap.BUILD_DIR / "packaging/_spanprof").read_text()
        self.assertIn("'--frequency=[samples per second and CPU]:HZ:'", text)


class Image(tap.TestCase):
    def sources(self):
        def ignored(folder, names):
            is_top = pathlib.Path(folder) == tap.SOURCE_DIR
            return [name for name in names if is_top and (name.startswith("build") or name == ".git")]

        folder = self.directory() / "sources"
        shutil.copytree(tap.SOURCE_DIR, folder, ignore=ignored, symlinks=True)
        return folder

    def test_is_made_of_the_sources_and_debian_alone(self):
        """Both stages of the Containerfile: compiler and libraries by apt, on a Debian made here. tests/container runs what is in it."""
        tap.need_root()
        engine = buildah.Buildah(self)
        config, layers = engine.build("--from", engine.base(nspawn.cached_root()), context=self.sources())
        root = buildah.unpack(self, layers)
        self.assertEqual(config["Entrypoint"], ["/usr/sbin/spanprof"])
        self.assertLessEqual(sum(path.stat().st_size for path in root.rglob("*") if path.is_file()), 30 << 20)
        done = self.run_command(["chroot", root, *config["Entrypoint"], "version"], expect=0)
        self.assertRegex(done.stdout, r"^spanprof \d")

    def test_for_two_processors_is_one_index(self):
        """Both are compiled here; the program of the other one runs under qemu-aarch64, with the image's files alone."""
        tap.need_root()
        engine, emulator = buildah.Buildah(self), tap.need_tool("qemu-aarch64")
        if os.uname().machine != "x86_64":
            tap.skip("machine: its own processor is no x86-64")
        parts = engine.build_index(["linux/amd64", "linux/arm64"], "--build-arg", "BUILDPLATFORM=linux/amd64", "--from",
                                   engine.base(nspawn.cached_root()), context=self.sources())
        self.assertEqual(set(parts), {"linux/amd64", "linux/arm64"})
        for platform, (image, layers) in parts.items():
            with self.subTest(platform=platform):
                name, machine, elf = {"linux/amd64": ("amd64", "x86_64", "X86-64"),
                                      "linux/arm64": ("arm64", "aarch64", "AArch64")}[platform]
                self.assertEqual((image["architecture"], image["os"]), (name, "linux"))
                self.assertEqual(image["config"]["Entrypoint"], ["/usr/sbin/spanprof"])
                root = buildah.unpack(self, layers)
                self.assertLessEqual(sum(p.stat().st_size for p in root.rglob("*") if p.is_file()), 33 << 20)
                program = root / "usr/sbin/spanprof"
                for file in (program, *root.rglob("*.so.*")):
                    self.assertRegex(self.run_command(["readelf", "-hW", file], expect=0).stdout, f"Machine: .*{elf}")
                if machine == os.uname().machine:
                    start = ["chroot", root, "/usr/sbin/spanprof"]
                else:
                    start = [emulator, "-L", root, program]
                # names each library that it is linked with or loads, by the file that it found
                done = self.run_command([*start, "version"], expect=0)
                self.assertRegex(done.stdout, rf"(?m)^build: +{machine}, ")
                loaded = re.search(r"(?m)^libraries: (.*)$", done.stdout)[1].split(", ")
                self.assertGreater(len(loaded), 10)
                for library in loaded:
                    self.assertTrue(list(root.rglob(library)), library)
                self.assertIn("Usage: spanprof run", self.run_command([*start, "run", "--help"], expect=0).stdout)


tap.main()
