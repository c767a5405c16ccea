#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every command line that documents, manual, help, messages, packaging and the demo print works as it stands,
for a user of the package. RUN (with `swap`: by other values), NOT_RUN (with the reason) and NAMES know each; one
that is new fails here by name.

    test-lines.py                           all
    LINES=targets test-lines.py works       those with this word

Lines run in namespaces of network and mounts of their own, with the package's files in place, names of
receivers that are this machine's, services that publish, and recordings in the directory. A duration becomes
a second.
"""
import concurrent.futures
import contextlib
import dataclasses
import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import groups
import printed_lines
import session
import tap

WORLD = pathlib.Path("/mnt/lines")      # a tmpfs in our namespace
CLONE = tap.SOURCE_DIR
SIDE_BY_SIDE = 4
PATIENCE = 4 * tap.PATIENCE


@dataclasses.dataclass
class Run:
    """How a line is run and what it must do."""

    says: str = ""                      # on either output
    leaves: str = ""                    # a file below its directory, by a pattern
    status: tuple = (0,)
    swap: dict = dataclasses.field(default_factory=dict)        # what of the text is another one here
    until: str = ""                     # it has no end: Ctrl-C when it has said this
    needs: str = ""                     # a program that may be missing
    turn: str = ""                      # those of one name run one after the other, in the table's order
    apart: bool = False                 # on a network of its own: its port is taken here
    environment: dict = dataclasses.field(default_factory=dict)
    first: str = ""                     # a line before it
    then: str = ""                      # a line that must work after it (before Ctrl-C), beside it


SERVICE_READY = r"profiles go to"
DELIVERED = r"[1-9]\d* samples delivered"
PORT = r"listening on http"
SEND = "spanprof convert app.jfr -o sent.pb --endpoint http://localhost:4318"
STARTS = ("tests/", "build/tests/", "python3", "unshare")
NO_PIP = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "false", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

HERE = {"4711": "{pid}", "812": "{pid}"}
PID = {"PID": "{pid}"}
PAYLOAD = {"FILE": "FILE.pb"}

RUN = {
    # ---- recording at the desk
    **dict.fromkeys(("sudo spanprof record -- ./app", "spanprof record -- ./app -x", "spanprof record -- ./app",
                     "sudo spanprof record --off-cpu -- ./app"), Run(says="in spans", leaves="spanprof.html")),
    "sudo spanprof record --off-cpu -o waits.html -- ./app": Run(leaves="waits.html"),
    'sudo spanprof record -- sudo -u "$USER" ./app': Run(leaves="spanprof.html"),
    "spanprof record --comm checkout -d 30": Run(leaves="spanprof.html", says=r"checkout"),
    "spanprof record --comm checkout --page-faults -d 30": Run(leaves="spanprof.html"),
    "spanprof record --comm checkout --jfr -d 60": Run(leaves="spanprof.html"),
    "spanprof record --comm checkout --goroutines 100 -d 30": Run(leaves="spanprof.html"),
    "spanprof record -d 10 -p 812 -o hot.pb.gz": Run(swap=HERE, leaves="hot.pb.gz", then="spanprof report hot.pb.gz"),
    "spanprof record -a -d 30 -F 499 -o all.html": Run(leaves="all.html"),
    "spanprof record --compare main.pb --fail-above 5 -- ./bench": Run(status=(0, 3), says="Functions by change"),
    "spanprof record -u nginx -d 10 -o - --format folded | flamegraph.pl >nginx.svg": Run(leaves="nginx.svg"),
    # ---- looking at what runs
    **dict.fromkeys(("spanprof top", "sudo spanprof top"), Run(until="CPU")),
    "spanprof top -u nginx --view spans": Run(until="spans"),
    "spanprof top -u shop --view operations": Run(until="operation  "),
    **dict.fromkeys(("spanprof top -p 812 --view waits", "sudo spanprof top --view waits -p 812"), Run(swap=HERE, until="blocked")),
    "spanprof top -p 812 -n 1 -i 10 --json": Run(swap=HERE, says=r"^\{"),
    **dict.fromkeys(("spanprof stacks 4711", "sudo spanprof stacks 4711", "spanprof stacks PID"),
                    Run(swap=HERE | PID, says=r"threads")),
    "spanprof stacks 4711 --json": Run(swap=HERE, says=r"^\{"),
    "spanprof stacks 4711 -o hang.html": Run(swap=HERE, leaves="hang.html"),
    # the process is none of Go
    **dict.fromkeys(("spanprof heap 4711", "sudo spanprof heap 4711", "spanprof heap 4711 -o heap.pb.gz",
                     "spanprof heap 4711 -o heap.html", "spanprof heap PID"),
                    Run(swap=HERE | PID, says="is no program of Go", status=(1,))),
    "spanprof stacks -u shop": Run(says="threads"),
    "spanprof stacks --comm checkout": Run(says="threads"),
    **dict.fromkeys(("spanprof contexts 4711", "spanprof contexts PID", "sudo spanprof contexts PID"),
                    Run(swap=HERE | PID, says="ring")),
    **dict.fromkeys(("spanprof contexts --check 4711", "sudo spanprof contexts --check PID"),
                    Run(swap=HERE | PID, says=r"ring-magic +ok", status=(0, 1))),
    "spanprof contexts --watch 4711": Run(swap=HERE, until="ring", status=(-signal.SIGINT,)),
    **dict.fromkeys(("spanprof targets", "sudo spanprof targets"), Run(says="publishes context")),
    **dict.fromkeys(("spanprof targets --verbose", "sudo spanprof targets --verbose"), Run(says="publishes no context")),
    "spanprof targets --verbose --comm checkout": Run(says="checkout"),
    "spanprof targets -u nginx --exclude user=root": Run(says="excluded|0 of"),
    **dict.fromkeys(("spanprof targets --verbose --pid %u", "spanprof targets --verbose --pid PID"),
                    Run(swap={"%u": "{pid}", "PID": "{pid}"}, says="{pid}")),
    **dict.fromkeys(("spanprof doctor", "sudo spanprof doctor"), Run(says="ok")),
    # ---- the daemon
    **dict.fromkeys(("spanprof run", "sudo spanprof run",
                     "sudo spanprof run --endpoint http://collector:4318 --export-interval 30s",
                     "sudo spanprof run --backend pyroscope --comm 'app*'",
                     "sudo spanprof run --backend pyroscope --endpoint http://localhost:4040 --comm 'app*'",
                     "sudo spanprof run --symbols local --comm 'app*' --endpoint http://localhost:4318",
                     "spanprof run --comm checkout --page-faults", "spanprof run --comm checkout --jfr",
                     "spanprof run --comm checkout --allocated-bytes",
                     "spanprof run --comm checkout --allocations",
                     "spanprof run --all --crashes", "spanprof run --recorder 10m",
                     "spanprof run --watch-builds 30m --symbols local",
                     "spanprof run --comm checkout --goroutines 100", "sudo spanprof run --off-cpu --unit shop"),
                    Run(until=SERVICE_READY, says=DELIVERED)),
    "sudo spanprof run --backend parca --endpoint http://localhost:4318": Run(until=SERVICE_READY, says=DELIVERED),
    **dict.fromkeys(("spanprof run -C 'nginx*' -d 30s",
                     "sudo spanprof run --endpoint http://localhost:4318 --comm 'app*' -d 30s"), Run(says=DELIVERED)),
    "spanprof run -p 812 --endpoint http://collector:4318": Run(swap=HERE, until=SERVICE_READY, says=DELIVERED),
    "spanprof run --pid PID": Run(swap=PID, until=SERVICE_READY, says=DELIVERED),
    "sudo spanprof run --pid PID --endpoint http://localhost:4040 --symbols upload --upload-paths '/opt/shop/*' "
    "--spool /var/lib/spanprof/spool": Run(swap=PID, until=SERVICE_READY, turn="spool"),
    "sudo spanprof run --duration 1s --log-level debug": Run(says="libbpf"),
    "sudo build/spanprof run --log-level debug --duration 1s": Run(says="libbpf"),
    **dict.fromkeys(("spanprof status", "sudo spanprof status"), Run(says="delivered", turn="daemon")),
    "spanprof status --json": Run(says=r"^\{", turn="daemon"),
    "spanprof status | grep ^lost": Run(swap={"^lost": "lost"}, says="lost", turn="daemon"),         # without losses it has no line
    # a daemon without runtimes and names has no such lines
    **{f"spanprof status | grep {what}": Run(swap={what: "delivered"}, says="delivered", turn="daemon")
       for what in ("-A9 ^runtimes", "^names")},
    "spanprof status --json | grep nameless": Run(says="nameless", turn="daemon"),
    "spanprof status --probe health": Run(says="ok", turn="daemon"),
    "spanprof status --probe ready": Run(says="ok|ready", turn="daemon"),
    "spanprof pause": Run(turn="daemon", then="spanprof status | grep -i paused"),
    "spanprof resume": Run(turn="daemon"),
    "touch /etc/spanprof/disabled": Run(turn="daemon"),
    "sudo rm /etc/spanprof/disabled": Run(turn="daemon"),
    "spanprof config show": Run(says="frequency"),
    "spanprof config show | grep debuginfod": Run(says="debuginfod"),
    "spanprof config show | grep -E 'endpoint|headers'": Run(says="endpoint"),
    "spanprof config check": Run(says="valid"),
    "spanprof config check [FILE]": Run(swap={"[FILE]": "/etc/spanprof/spanprof.conf"}, says="valid"),
    "printf '[export]\\nendpoint = http://collector.example:4318\\n' > /etc/spanprof/spanprof.conf.d/50-endpoint.conf":
        Run(turn="spool", then="spanprof config show | grep ^endpoint.*collector.example:4318"),
    # ---- receivers
    **dict.fromkeys(("spanprof receive -o profiles/", "spanprof receive -o profiles", "spanprof receive --port 4318 -o profiles/"),
                    Run(until=PORT, apart=True, then=SEND, leaves="profiles/*.pb")),
    "spanprof receive -o profiles/ &": Run(swap={" &": ""}, until=PORT, apart=True, then=SEND, leaves="profiles/*.pb"),
    **dict.fromkeys(("spanprof receive -o /srv/profiles --store-layout partitioned",
                     "spanprof receive --listen 0.0.0.0 -o /srv/profiles --store-layout partitioned --max-bytes 100GiB "
                     "--max-files 10000000"),
                    Run(until=PORT, apart=True, turn="srv", then=SEND + " && ls /srv/profiles/*/*/*/*.pb")),
    "spanprof receive --port 0 --forward http://collector:4318": Run(until=PORT),
    "spanprof receive --listen 0.0.0.0 --token-file /etc/spanprof/tokens -o /srv/profiles":
        Run(swap={"/etc/spanprof/tokens": "tokens", "/srv/profiles": "profiles"}, first="umask 077; echo abc > tokens", until=PORT,
            apart=True, then=SEND + " --headers Authorization=Bearer%20abc", leaves="profiles/*.pb"),
    "rm -r /srv/profiles/2026-01-*": Run(then="test ! -e /srv/profiles/2026-01-31"),
    "spanprof report /srv/profiles --service checkout --host 'web-*' --start 2026-01-31T12:00:00Z --end 2026-01-31T13:00:00Z":
        Run(swap={"2026-01-31T12": "{hour_ago}", "2026-01-31T13": "{next_hour}"}, says="checkout"),
    # ---- files
    "spanprof report profiles/": Run(says="checkout"),
    "spanprof report --process shop --thread 'io-*' --start +10s --end +20s *.pb": Run(),
    "spanprof report cpu.pb.gz -o cpu.md": Run(leaves="cpu.md"),
    "spanprof report --diff before.pb after.pb": Run(says="Functions by change"),
    "spanprof report --diff BEFORE AFTER": Run(swap={"BEFORE": "before.pb", "AFTER": "after.pb"}),
    "spanprof report --diff before.pb after.pb -o diff.html": Run(leaves="diff.html"),
    "spanprof report --diff --fail-above 5 a.pb b.pb": Run(),
    "spanprof report --annotate src/main.c *.pb": Run(swap={"src/main.c": "sdk/example/operations.c"}, says="checkout"),
    "spanprof report --annotate SOURCE FILE": Run(swap=PAYLOAD | {"SOURCE": "sdk/example/operations.c", "FILE": "main.pb"}),
    "spanprof report --explain *.pb": Run(),
    "spanprof report --spans spans.csv *.pb": Run(says="checkout"),
    "spanprof report --type off_cpu profile.pb": Run(),
    "spanprof report trace.db -o coroutines.html": Run(leaves="coroutines.html"),
    "spanprof report 4711 -d 5s": Run(swap={"4711": "{coroutines}"}),
    "spanprof report PID": Run(swap={"PID": "{coroutines}"}),
    "spanprof report FILE…": Run(swap={"FILE…": "FILE.pb"}),
    "spanprof validate profiles/*.pb": Run(says="valid"),
    "spanprof validate --json - <request.json": Run(says=r"\{"),
    "spanprof validate --backend pyroscope profiles/*.pb": Run(says="valid"),
    "spanprof validate --backend pyroscope FILE": Run(swap=PAYLOAD, says="valid"),
    "spanprof validate --backend BACKEND FILE": Run(swap=PAYLOAD | {"BACKEND": "parca"}, says="valid"),
    "spanprof convert app.jfr -o app.pb --resource service.name=shop": Run(leaves="app.pb", then="spanprof validate app.pb"),
    "spanprof convert app.jfr -o app.html": Run(leaves="app.html"),
    "spanprof convert profiles/*.pb -o app.html": Run(leaves="app.html"),
    "spanprof convert profiles/*.pb -o all.json": Run(leaves="all.json", then="spanprof validate all.json"),
    "spanprof convert *.jfr.lz4 --endpoint http://collector:4318 --log-level debug": Run(),
    "cat app.jfr | spanprof convert - -o - --format folded | flamegraph.pl": Run(says="<svg"),
    "spanprof convert --backend %s FILE -o OTHER.pb":
        Run(swap={"%s": "pyroscope", "FILE -o": "FILE.pb -o"}, leaves="OTHER.pb",
            then="spanprof validate --backend pyroscope OTHER.pb"),
    "spanprof convert FILE -o FILE.json --pretty": Run(swap={"FILE -o": "FILE.pb -o"}, leaves="FILE.json"),
    "spanprof convert FILE -o FILE.json": Run(swap={"FILE -o": "FILE.pb -o"}, leaves="FILE.json"),
    "spanprof convert FILE -o FILE.folded": Run(swap={"FILE -o": "FILE.pb -o"}, leaves="FILE.folded"),
    "spanprof convert FILE.pb -o FILE.json": Run(leaves="FILE.json"),
    "spanprof convert FILE… -o FILE": Run(swap={"FILE… -o FILE": "FILE.pb -o two.pb.gz"}, leaves="two.pb.gz"),
    # ---- spool
    **dict.fromkeys(("spanprof spool ls", "sudo spanprof spool ls"), Run(turn="spool", says="samples")),
    "spanprof spool extract -o requests/": Run(turn="spool", leaves="requests/*"),
    "spanprof spool retry": Run(turn="spool"),
    "spanprof spool flush --endpoint http://collector:4318": Run(turn="spool"),
    "spanprof spool flush": Run(turn="spool"),
    "df /var/lib/spanprof": Run(says="lib"),
    # ---- coroutines
    "spanprof coro -n 10000 -o trace.jsonl -- ./server": Run(leaves="trace.jsonl"),
    "spanprof coro -o trace.db -- ./server; sqlite3 trace.db 'SELECT * FROM coro_stations WHERE NOT dead'":
        Run(says=r"\|", leaves="trace.db", needs="sqlite3"),
    "spanprof coro --pid 812 -d 10s -o trace.jsonl": Run(swap={"812": "{coroutines}"}, leaves="trace.jsonl"),
    "spanprof coro -- PROGRAM": Run(swap={"PROGRAM": "./server"}, leaves="coro-trace.jsonl"),
    "spanprof corotracer -export sqlite -in trace.jsonl": Run(leaves="*.db"),
    "spanprof corotracer -n 512 -cmd './server 4' -out trace.jsonl": Run(leaves="trace.jsonl"),
    "spanprof corotracer -help": Run(says="-export"),
    # ---- help
    **{line: Run(says="Usage: spanprof " + line.split()[1]) for line in
       ("spanprof record --help", "spanprof stacks --help")},
    "spanprof help": Run(says="Verbs:"),
    "spanprof version": Run(says=r"libbpf"),
    "spanprof VERB --help": Run(swap={"VERB": "record"}, says="Usage"),
    "spanprof %s --help": Run(swap={"%s": "top"}, says="Usage"),
    "spanprof %s --help --all": Run(swap={"%s": "top"}, says="Usage"),
    "./bootstrap help": Run(says="usage:"),
    # ---- fixes of the doctor
    "sed 's|runbook: \"/usr/share/doc/spanprof/OPERATING.md|runbook_url: \"https://wiki.example/spanprof|' "
    "/usr/share/spanprof/monitoring/spanprof.rules.yaml > spanprof.rules.yaml":
        Run(then="grep -q 'runbook_url: \"https://wiki.example/spanprof#' spanprof.rules.yaml "
                 "&& ! grep -q runbook: spanprof.rules.yaml"),
    "df -h %s": Run(swap={"%s": "/var/lib"}, says="Mounted"),
    "ip -brief address": Run(says="lo"),
    "curl -v '%s'": Run(swap={"%s": "http://localhost:4318/"}, says="HTTP/1", needs="curl"),
    "curl -v -X POST -H 'Content-Type: application/x-protobuf' '%s'":
        Run(swap={"%s": "http://localhost:4318/v1development/profiles"}, says="HTTP/1", needs="curl"),
    'curl -v -x "$%s" \'%s\'': Run(swap={"$%s": "http://localhost:4318", "'%s'": "http://localhost:4318/"},
                                   says="HTTP/1", needs="curl"),
    "openssl x509 -in %s -noout -enddate": Run(swap={"%s": "client.pem"}, says="notAfter", needs="openssl"),
    "openssl x509 -noout -enddate -in FILE": Run(swap={"FILE": "client.pem"}, says="notAfter", needs="openssl"),
    "sudo install -m 600 NEW.pem %s.new && sudo mv %s.new %s": Run(swap={"NEW.pem": "client.pem", "%s": "other.pem"}, leaves="other.pem"),
    "install -m 600 new.pem x.tmp && mv x.tmp client.pem": Run(leaves="client.pem"),
    "sudo useradd --system --no-create-home spanprof": Run(turn="user", then="id spanprof", needs="useradd"),
    "sudo install -d -m 700 -o spanprof -g spanprof %s": Run(swap={"%s": "a/spool"}, turn="user", leaves="a/spool"),
    "sudo chown -R spanprof:spanprof %s && sudo chmod 700 %s": Run(swap={"%s": "profiles"}, turn="user"),
    "chown root": Run(swap={"root": "root app.jfr"}),
    "grep '^cpu ' /proc/stat": Run(says="cpu"),
    "grep 'open files' /proc/1/limits": Run(says="open files"),
    "grep -E 'LOC|RES' /proc/interrupts": Run(says="LOC"),
    "grep -E 'Seccomp|NoNewPrivs' /proc/self/status": Run(says="Seccomp"),
    "sudo dmesg | grep -iE 'clocksource|tsc'": Run(swap={"sudo dmesg": "echo tsc"}, says="tsc"),
    "sudo sed -i '/^ *run-as/d' /etc/spanprof/spanprof.conf": Run(turn="spool", then="spanprof config check"),
    "sudo sysctl -w kernel.kptr_restrict=1": Run(swap={"-w": "-n", "=1": ""}, says=r"^\d", needs="sysctl"),
    "sudo sysctl -w kernel.perf_cpu_time_max_percent=50": Run(swap={"-w": "-n", "=50": ""}, says=r"^\d", needs="sysctl"),
    "sudo sysctl -w kernel.perf_event_max_sample_rate=%": Run(swap={"-w": "-n", "=%": ""}, says=r"^\d", needs="sysctl"),
    "sudo sysctl -w kernel.perf_event_paranoid=2": Run(swap={"-w": "-n", "=2": ""}, says=r"^-?\d", needs="sysctl"),
    "sysctl kernel.perf_event_paranoid=2": Run(swap={"sysctl ": "sysctl -n ", "=2": ""}, says=r"^-?\d", needs="sysctl"),
    "sysctl fs.file-nr": Run(says="file-nr", needs="sysctl"),
    "sysctl kernel.perf_event_max_sample_rate kernel.perf_cpu_time_max_percent": Run(says="percent", needs="sysctl"),
    "grep %s= /boot/config-*": Run(swap={"%s": "CONFIG_BPF", "/boot/config-*": "config"}, says="CONFIG_BPF"),
    "ulimit -n": Run(says=r"\d"),
    "uname -r": Run(says=r"\d"),
    # ---- publishers
    **dict.fromkeys(("pip install /usr/share/spanprof/sdk/python.tar.gz", "pip install ./sdk/python"),
                    Run(says="Successfully installed spanprof-otel", environment=NO_PIP, turn="pip", needs="venv",
                        then="python -c 'from spanprof_otel import _record'")),
    **dict.fromkeys(("sudo /usr/share/spanprof/sdk/java/otel/make-jar.sh /opt/spanprof-otel.jar",
                     "sudo /usr/share/spanprof/sdk/java/otel/make-jar.sh /opt/spanprof-otel.jar && "
                     "export OTEL_JAVAAGENT_EXTENSIONS=/opt/spanprof-otel.jar"),
                    Run(needs="javac", turn="jar", then="jar tf /opt/spanprof-otel.jar | grep native/linux-")),
    "export OTEL_JAVAAGENT_EXTENSIONS=/usr/share/java/spanprof-otel.jar": Run(),
    "sdk/java/otel/make-jar.sh spanprof-otel.jar": Run(needs="javac", then="jar tf spanprof-otel.jar | grep native/linux-"),
    "javac -d classes sdk/java/spanprof/ThreadContext.java sdk/example/java/Requests.java": Run(needs="javac", leaves="classes/Requests.class"),
    "java -Dspanprof.library=build/sdk/libspanprof-context.so -cp classes Requests":
        Run(needs="javac", first="javac -d classes sdk/java/spanprof/ThreadContext.java sdk/example/java/Requests.java"),
    "cc app.c $(pkg-config --cflags --libs spanprof-context)": Run(leaves="a.out", then="./a.out", needs="pkg-config"),
    "cc app.c -Isdk/include build/sdk/libspanprof-context.a -pthread": Run(then="./a.out"),
    "build/sdk/example/example-service --duration 10 --spans spans.csv --json truth.json": Run(leaves="truth.json"),
    "go mod edit -require spanprof.example/spanprofotel@v0.0.0 -replace spanprof.example/spanprofotel=/usr/share/spanprof/sdk/go":
        Run(needs="go", then="go list -m spanprof.example/spanprofotel", environment={"GOFLAGS": "-mod=mod", "GOPROXY": "off"}),
}

# pattern of a line → why it is not run here, and where its parts are
NOT_RUN = {
    r"sudo spanprof run --crashes --duration 1s --log-level debug.*": "what doctor names where crashes fail to load",
    r"go run go\.opentelemetry\.io/collector/cmd/builder@.*": "minutes of downloads: test-long-builder.py runs it",
    # this machine would be another one
    r"(sudo )?(apt|apt-get|dnf) .*|uname -r; sudo apt-get .*": "installs or removes packages",
    r"sudo date --set .*|sudo sed -i 's/lockdown.*": "sets the clock, or how the machine starts",
    r"(sudo )?systemctl .*|journalctl .*|coredumpctl .*|d=/etc/systemd/.*|spanprof config check && systemctl .*":
        "needs a service manager: test-long-service.py has one",
    r"dmesg \| grep perf": "the kernel's messages may be none",
    r"spanprof record -p (4711|PID) --jfr .*": "needs a JVM: test-run-recordings.py",
    r"spanprof report --type alloc_space .*": "needs what the line before has recorded",
    r"spanprof boost .*": "needs a daemon: test-run-boost.py",
    r"spanprof keep .*": "needs a daemon with a flight recorder: test-run-recorder.py",
    r"(sudo )?spanprof watch( -o .*)?": "needs a daemon that watches builds: test-run-watch.py",
    r"sudo sysctl -w net\.core\.bpf_jit_enable=1": "is not shown in a network of its own",
    # minutes, gigabytes
    r"(sudo )?\./bootstrap (demo|install|build|cross|static|test( .*)?)": "builds, for minutes. Demo has the demo's half; "
        "`install` is build-deb and apt: test-long-package.py, test-long-service.py",
    r"meson (setup|dist|test) .*|ninja .*|packaging/(build-deb|release) .*|packaging/build-deb --arm64|rpmbuild .*":
        "builds, for minutes: test-long-package.py",
    r"packaging/bundle .*|sudo tar -C / .*|sudo /opt/spanprof/.*|sudo rm -r /opt/spanprof|"
    r"sudo systemd-sysusers /opt/.*|sudo install -D .* /opt/spanprof/.*":
        "changes /opt: test-long-distributions.py does it in a Debian 11",
    r"sudo (groupadd|usermod) .*|sudo rm /usr/local/bin/spanprof": "would change users or programs of this machine",
    r"sudo install -m 750 .*|sudo setcap .*": "test-record.py runs them with other paths and a group that is there",
    r"buildah .*": "a registry to push to, and one with Debian's image: test-long-package.py builds the image",
    r"sudo bpftool .*|llvm-objdump .*": "leaves a program in the kernel, or pages of instructions",
    # a cluster, an engine
    r"kubectl .*|helm .*": "needs a cluster: test-long-helm.py, test-container.py",
    r"docker .*": "needs an engine and an image in a registry: test-container.py",
    # other people's programs
    r"pyroscope.*|parca.*|curl -[sH] .*localhost:4040.*": "a backend that no package has: test-pyroscope.py",
    r"git clone .*|go build -o .*|go mod edit -replace github\.com/.*": "clones of other projects",
    r"packaging/version X\.Y\.Z": "changes the tree: test-version.py",
    r"promtool .*": "Prometheus' own tool: test-monitoring.py judges by its code",
    r"xdg-open .*": "a browser",
    r"gpg .*": "a release: test-long-package.py makes one, signs and verifies it",
    # registries
    r"npm (install|rebuild) .*|NODE_OPTIONS=.* node .*":
        "npm's registry has what the package needs: test-installs.py, test-otel-node.py",
    r"packaging/sdk .*": "registries have what its tools need: test-installs.py",
    r"OTEL_PYTHON_CONTEXT=\S+ sudo -E .*": "needs opentelemetry-sdk of PyPI: test-otel-python.py",
    r"OTEL_JAVAAGENT_EXTENSIONS=\S+ java .*": "needs OpenTelemetry's agent of Maven Central: test-otel-java.py",
    r"go mod tidy|go test( .*)?": "a module proxy: test-otel-go.py",
    r"cargo bench": "minutes, and crates of a registry: test-otel-rust.py",
    r"g\+\+ app\.cc .*": "needs opentelemetry-cpp, which Debian 13 has: test-otel-cpp.py",
    # for who works on this tree; test_programs_of_tests_take_what_is_written looks at these
    r"(sudo |PYTHONPATH=\S+ |unshare -fp --mount-proc |python3 )*(build/)?tests/.*": "for who works on this tree: by hand, minutes",
}

# names in prose, of others' programs or of a part of a line: nobody types just that
NAMES = (r"perf (record|report|script|sched)( .*)?", r"perf --call-graph dwarf", r"corotracer -export csv",
         r"unshare -fp --mount-proc", r"sudo nsenter --target 1 --time( COMMAND)?",
         r"go tool \w+( -top| -diff_base)?", r"go build -pgo=", r"readelf -\S+( \S+)?",
         r"node --perf-basic-prof", r"node --use-largepages", r"corotracer FLAG…",
         r"flamegraph\.pl FILE.*", r"go tool pprof -http=.*",
         r"spanprof --config", r"spanprof record -- (COMMAND|PROGRAM)", r"spanprof spool")

# texts of other meaning that begin with a program's name
NO_COMMANDS = (r"(java|python) (%u|\d).*", r"go (on|labels) .*", r"export %.*", r"spanprof (- |on Linux|%s).*", r"spanprof top: .*",
               r"spanprof page \d", r"/usr/lib/spanprof of .*", r"tests/harness/arm64-root unpacks .*",
               r"spanprof %s")


def reason(text):
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, text)), None)


def one_of(patterns, text):
    return any(re.fullmatch(pattern, text) for pattern in patterns)


def mistakes_of_a_name(text):
    """Of `spanprof VERB --option`: what of it is not there. None if it is something else."""
    words = re.fullmatch(r"(?:sudo )?spanprof ([a-z]+)((?: -[\w-]+(?:[ =][^\s-]\S*)?)*)", text)
    if not words:
        return None
    shown = printed_lines.helps(tap.SPANPROF).get(f"spanprof {words[1]} --help")
    if shown is None:
        return [f"no verb {words[1]}"]
    options = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", shown))
    return [f"no option {option}" for option in re.findall(r" (--?[a-zA-Z][\w-]*)", words[2]) if option not in options]


class Namespaces:
    """Ours: of network, where receivers have the names that documents give them; of mounts, with the package."""

    @staticmethod
    def enter():
        """Starts this script again in them, once."""
        if os.geteuid() == 0 and shutil.which("unshare") and not os.environ.get("SPANPROF_LINES_INSIDE"):
            os.environ["SPANPROF_LINES_INSIDE"] = "1"
            os.execvp("unshare", ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, *sys.argv])

    @staticmethod
    def furnish():
        call("ip", "link", "set", "lo", "up")
        call("mount", "-t", "tmpfs", "none", "/mnt")
        for name in ("usr", "etc", "var/lib", "opt", "srv"):
            above, work = (WORLD / "layers" / name / part for part in ("above", "work"))
            above.mkdir(parents=True)
            work.mkdir()
            call("mount", "-t", "overlay", "-o", f"lowerdir=/{name},upperdir={above},workdir={work}", "none", f"/{name}")
        call("mount", "-t", "tmpfs", "none", "/run")
        with open("/etc/hosts", "w", encoding="ascii") as hosts:
            hosts.write("127.0.0.1 localhost collector collector.example COLLECTOR\n")

    @staticmethod
    def install():
        """What the packages have, at the build's prefix; the documents' paths are those of a package, below /usr."""
        root = WORLD / "installed"
        call("meson", "install", "-C", tap.BUILD_DIR, "--no-rebuild", "--quiet", DESTDIR=str(root))
        shutil.copytree(root / "usr", "/usr", dirs_exist_ok=True, symlinks=True)
        program = next(root.rglob("sbin/spanprof"))
        prefix = pathlib.Path("/") / program.parent.parent.relative_to(root)
        shutil.copytree(next(root.rglob("etc/spanprof")), "/etc/spanprof", dirs_exist_ok=True)
        for name in ("sbin/spanprof", "share/spanprof", "share/spanprof-context", "lib/spanprof"):
            if not (pathlib.Path("/usr") / name).exists():
                (pathlib.Path("/usr") / name).symlink_to(prefix / name)
        shutil.copy(prefix / "lib/spanprof/libspanprof-otel.so", "/usr/lib/spanprof/")
        call("ldconfig")


def call(*words, **environment):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          env={**os.environ, **environment})
    if done.returncode:
        raise OSError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


# What stands for a program that is not here, or may not be used.
STAND_INS = {
    "sudo": """#!/bin/bash
while [ $# -gt 0 ]; do
        case $1 in
        -E) shift ;;
        -u) shift 2 ;;
        *=*) export "$1"; shift ;;
        *) exec "$@" ;;
        esac
done
""",
    "flamegraph.pl": """#!/bin/sh
grep -qE '.+ [0-9]+$' && echo '<svg/>'
""",
    "app": """#!/bin/sh
exec "$BUILD/sdk/example/example-service" --duration 1 --load 0.4
""",
    "server": """#!/bin/sh
exec "$BUILD/sdk/example/example-coroutines"
""",
}
JAVA = """
public class App {
        public static void main(String[] words) {
                java.lang.management.ThreadMXBean clock = java.lang.management.ManagementFactory.getThreadMXBean();
                long n = 0;
                while (clock.getCurrentThreadCpuTime() < 1_500_000_000L)
                        for (int i = 0; i < 100_000; i++)
                                n = n * 31 + i;
                System.out.println(n);
        }
}
"""
C = "#include <spanprof/context.h>\nint main(void) { spanprof_context_set(1, 2, 3); return 0; }\n"


class World:
    """What lines expect to be there: programs on PATH, services that run, recordings in a directory."""

    def __init__(self, test):
        self.test, self.bin, self.files, self.builders = test, WORLD / "bin", WORLD / "files", None
        for directory in (self.bin, self.files, WORLD / "runs", pathlib.Path("/run/spanprof")):
            directory.mkdir(parents=True)
        self.environment = session.clean_environment(
            PATH=f"{WORLD}/venv/bin:{self.bin}:/usr/sbin:{os.environ['PATH']}", BUILD=tap.BUILD_DIR, USER="root",
            HOME=WORLD, LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
        for name in ("sudo", "flamegraph.pl"):
            self.program(self.bin / name, STAND_INS[name])
        for name, text in (("app", "app"), ("bench", "app"), ("server", "server")):
            self.program(self.files / name, STAND_INS[text])
        self.start_services()
        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            jobs = [pool.submit(job) for job in (self.compile_java, self.make_venv, self.copy, self.record)]
            for job in jobs:
                job.result()

    @staticmethod
    def program(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def call(self, line, cwd=None):
        done = subprocess.run(["bash", "-c", line], cwd=cwd or self.files, env=self.environment,
                              capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode:
            raise AssertionError(f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def spawn(self, *words, **environment):
        return self.test.spawn(list(map(str, words)), env={**self.environment, **environment}, cwd=self.files)

    def service(self, name, unit):
        """The example service under another name, in a unit's control group."""
        path = WORLD / "services" / name
        path.parent.mkdir(exist_ok=True)
        shutil.copy(session.SERVICE, path)
        group = groups.make(self.test, f"spanprof-lines-{os.getpid()}", unit)
        child = self.spawn(path, "--load", "0.1", OTEL_SERVICE_NAME=name,
                           OTEL_RESOURCE_ATTRIBUTES="host.name=web-1")
        groups.enter(group, child.pid)
        return child

    def start_services(self):
        self.services = [self.service("app", "app.service"), self.service("checkout", "shop.service"),
                         self.service("nginx-worker", "nginx.service")]
        self.pid = self.services[0].pid
        self.python = self.spawn("python3", "-c", "import time\nwhile True:\n    sum(range(100000))\n    time.sleep(0.1)")
        self.spawn("spanprof", "coro", "-o", WORLD / "coroutines.jsonl", "--", "sh", "-c",
                   f"echo $$ >{WORLD}/coroutines.pid; exec {tap.BUILD_DIR}/sdk/example/example-coroutines 600000")
        for port, *where in ((4318, WORLD / "received-4318"), (4040, WORLD / "received-4040"),
                             (4319, "/srv/profiles", "--store-layout", "partitioned")):
            self.spawn("spanprof", "receive", "--port", port, "-o", *where).wait_for(PORT)
        self.daemon = self.spawn("spanprof", "run", "--spool", WORLD / "spool")
        self.daemon.wait_for(SERVICE_READY)

    def compile_java(self):
        if shutil.which("javac"):
            (WORLD / "java").mkdir()
            (WORLD / "java/App.java").write_text(JAVA)
            self.call(f"javac App.java && jar cfe {self.files}/app.jar App App.class", WORLD / "java")

    def make_venv(self):
        """With what pip builds with, where the publishers of tests are: no network is here to fetch it."""
        packages = next((tap.BUILD_DIR / "publishers/otel-python/venv/lib").glob("python3*/site-packages"), None)
        if packages:
            self.builders = packages
            self.call(f"/usr/bin/python3 -m venv {WORLD}/venv")

    def copy(self):
        data, files = tap.SOURCE_DIR / "tests/data", self.files
        self.call(f"gunzip -c {data}/async-profiler.jfr.gz >app.jfr && cp app.jfr app.jfr.lz4")
        shutil.copy(data / "go-cpu.pb.gz", files / "cpu.pb.gz")
        shutil.copytree(tap.SOURCE_DIR / "sdk", files / "sdk",
                        ignore=shutil.ignore_patterns("*.egg-info", "build", "target"))
        (files / "build").symlink_to(tap.BUILD_DIR)
        (files / "bootstrap").symlink_to(tap.SOURCE_DIR / "bootstrap")
        (files / "src").mkdir()
        shutil.copy(tap.SOURCE_DIR / "sdk/example/operations.c", files / "src/main.c")
        (files / "app.c").write_text(C)
        (files / "config").write_text("CONFIG_BPF=y\n")
        (files / "go.mod").write_text("module example/app\n\ngo 1.24\n")
        self.call("openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out client.pem -subj /CN=a")
        shutil.copy(files / "client.pem", files / "new.pem")
        pathlib.Path("/srv/profiles/2026-01-31/checkout/web-1").mkdir(parents=True)

    def fill_spool(self):
        """With requests that wait, of the user that the daemon becomes. Their names say that they were stored
        now: a spool drops what is older than a week."""
        spool = pathlib.Path("/var/lib/spanprof/spool")
        shutil.rmtree(spool, ignore_errors=True)
        spool.mkdir(parents=True)
        for path in (tap.SOURCE_DIR / "tests/data/spool-0.1.0").glob("*.batch"):
            shutil.copy(path, spool / f"{time.time_ns()}{path.name[19:]}")
        self.call("chown -R nobody /var/lib/spanprof/spool && chmod 700 /var/lib/spanprof/spool")

    def record(self):
        files, received = self.files, WORLD / "received-4040"
        for name in ("before", "after"):
            self.call(f"spanprof record --off-cpu -d 1 -p {self.pid},{self.services[1].pid} -o {name}.pb")
        for name, copy in (("before", "a"), ("after", "b"), ("after", "profile")):
            shutil.copy(files / f"{name}.pb", files / f"{copy}.pb")
        self.call(f"spanprof record -o main.pb -- {session.SERVICE} --duration 1 --spans spans.csv")
        self.call("spanprof coro -o trace.jsonl -- ./server && spanprof coro -o trace.db -- ./server")
        self.call("spanprof run --backend pyroscope --endpoint http://localhost:4040 --comm checkout -d 2")
        shutil.copytree(received, files / "profiles")
        shutil.copy(max(received.glob("*.pb"), key=lambda path: path.stat().st_size), files / "FILE.pb")
        self.call("spanprof convert FILE.pb -o request.json && "
                  "spanprof convert FILE.pb -o sent.pb --endpoint http://localhost:4319")

    def fill(self, text):
        coroutines = (WORLD / "coroutines.pid").read_text().strip()
        hours = {name: time.strftime("%Y-%m-%dT%H", time.gmtime(time.time() + shift))
                 for name, shift in (("{hour_ago}", -3600), ("{next_hour}", 3600))}
        for name, value in {"{pid}": str(self.pid), "{coroutines}": coroutines, **hours}.items():
            text = text.replace(name, value)
        return text


@functools.cache
def machine():
    """Nothing, or why lines cannot be run."""
    if os.geteuid():
        return "root: needs root"
    if not os.environ.get("SPANPROF_LINES_INSIDE"):
        return "tool: no unshare"
    try:
        Namespaces.furnish()
    except OSError as error:
        return f"machine: no namespace with mounts of its own: {error}"
    Namespaces.install()
    return None


class Lines(tap.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        found = printed_lines.collect(tap.SOURCE_DIR, tap.BUILD_DIR, tap.SPANPROF)
        cls.lines = {line.text: line for line in found}

    def test_every_line_is_known(self):
        strangers, wrong = [], []
        for text, line in self.lines.items():
            if text in RUN or reason(text) or one_of(NO_COMMANDS, text) or one_of(NAMES, text):
                continue
            mistakes = mistakes_of_a_name(text)
            if line.alone or mistakes is None:
                strangers.append(str(line))
            wrong += [f"{line}: {mistake}" for mistake in mistakes or ()]
        self.assertEqual((wrong, strangers), ([], []), "new: put them into RUN, or into NOT_RUN with a reason")
        self.assertGreater(len(self.lines), 300)

    def test_the_tables_have_no_line_that_nothing_prints(self):
        self.assertEqual([text for text in RUN if text not in self.lines], [])
        for table in (NOT_RUN, NAMES, NO_COMMANDS):
            for pattern in table:
                self.assertTrue(any(re.fullmatch(pattern, text) for text in self.lines), pattern)

    def test_programs_of_tests_take_what_is_written(self):
        """They are there, and their sources have each option."""
        n = 0
        for text, line in self.lines.items():
            path = re.search(r"(?<![\w/=:-])(?:build/)?tests/[\w./-]+", text)
            if not path or not reason(text) or not printed_lines.first_words(text)[0].startswith(STARTS):
                continue
            n += 1
            if "NAME" in path[0]:
                continue
            file = tap.SOURCE_DIR / path[0].removeprefix("build/")
            names = (file.name, file.name.removeprefix("bench-"))
            compiled = [source for name in names for source in (tap.SOURCE_DIR / "tests").rglob(name + ".c*")]
            sources = [file] if file.exists() else compiled
            self.assertTrue(sources, line)
            words = "".join(source.read_text() for source in sources) + "--filter"       # criterion's own
            for option in re.findall(r" \[?(--[a-z][\w-]*)", text.split(path[0])[1]):
                self.assertIn(option, words, line)
        self.assertGreater(n, 10)

    def test_lines_that_are_not_run_name_what_is_there(self):
        """Files of packaging/, commands of bootstrap, values of the chart, and our unit."""
        commands = set(re.findall(r"\./bootstrap (\w+)", printed_lines.run(CLONE / "bootstrap", "help")))
        values = (CLONE / "packaging/helm/spanprof/values.yaml").read_text()
        units = {"spanprof", "systemd-timesyncd"}
        n = 0
        for text in filter(reason, self.lines):
            for path in re.findall(r"(?<![\w/])packaging/[\w./-]+", text.replace("packaging/static/", "")):
                self.assertTrue((CLONE / path).exists(), text)
            for key in re.findall(r"(?:--set |,)([a-z][\w.]*)=", text) if text.startswith("helm") else ():
                parts = key.split(".")
                within = re.search(rf"(?m)^{parts[0]}:.*\n(?: .*\n|#.*\n|\n)*", values)
                self.assertTrue(within and re.search(rf"(?m)^ *{parts[-1]}:", within[0]), key)
                n += 1
            self.assertLessEqual(set(re.findall(r"\./bootstrap (\w+)", text)), commands, text)
            for unit in re.findall(r"systemctl (?:\w+ )(?:--now )?([\w-]+)$|journalctl .*-u (\w+)", text):
                self.assertIn("".join(unit), units, text)
        self.assertGreaterEqual(n, 3)

    def test_the_reader_finds_lines_wherever_they_stand(self):
        def found(read, text):
            return {line for line, alone in read(text) if printed_lines.is_command(line, alone)}

        self.assertEqual(found(printed_lines.of_markdown, "Say `spanprof top -p 1`, or `top`:\n\n    sudo spanprof run  # all\n"
                               "    helm x \\\n        --set y\n    Waits\n"),
                         {"spanprof top -p 1", "sudo spanprof run", "helm x --set y"})
        self.assertEqual(found(printed_lines.of_help, "  spanprof report x   what\n  -d  for\nSee `spanprof\nhelp`.\n"),
                         {"spanprof report x", "spanprof help"})
        self.assertEqual(found(printed_lines.of_c, 'f("sudo rm " PLACES_SDK\n  "/x   # all", "try `spanprof %s`\\n", "java");'),
                         {"sudo rm /usr/share/spanprof/sdk/x", "spanprof %s"})
        self.assertEqual(found(printed_lines.of_comments, "# buildah build \\\n#   .\n# is `df /x` of it\nkey: value\n"),
                         {"buildah build .", "df /x"})
        self.assertEqual(found(printed_lines.of_manual, ".B spanprof config show\nprints\n.RB x\n"), {"spanprof config show"})

    # ---- running

    def directory_of(self, number):
        """A new one with all that lines read: as links, since what a line writes replaces its file."""
        path = WORLD / "runs" / str(number)
        shutil.copytree(self.world.files, path, symlinks=True)
        return path

    def missing(self, run):
        if run.needs == "venv":
            return not self.world.builders
        return bool(run.needs) and not shutil.which(run.needs, path=self.world.environment["PATH"])

    def run_line(self, text, run, number):
        """Nothing, or what was wrong."""
        where = self.directory_of(number)
        printed = text
        for old, new in run.swap.items():
            text = text.replace(old, self.world.fill(new))
        if run.swap and text == printed:
            return f"{text}: there is nothing of {run.swap} to be replaced"
        text = re.sub(r"(?<=\S )(-d|--duration|-i) \d+s?(?= |$)", r"\1 1", text)
        environment = {**self.world.environment, **run.environment}
        if run.turn == "pip":
            environment["PYTHONPATH"] = self.world.builders
        shell = ["bash", "-c", text]
        if run.apart:
            shell = ["unshare", "--net", "bash", "-c", "ip link set lo up; exec bash -c \"$0\"", text]
        if run.turn == "spool":
            self.world.fill_spool()
        if run.first:
            self.world.call(run.first, where)
        child = tap.Child(shell, env=environment, cwd=where, start_new_session=True)
        try:
            self.finish(child, run, where, environment)
            self.judge(child, run, where)
            shutil.rmtree(where)
            return None
        except (AssertionError, OSError, subprocess.SubprocessError) as problem:
            return f"{text}: {problem}\n{child}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.kill()

    def finish(self, child, run, where, environment):
        if run.until:
            child.wait_for(run.until, PATIENCE)
            if run.says == DELIVERED or " record " in child.argv[-1]:
                session.wait_cpu([service.pid for service in self.world.services], 0.3)
        else:
            child.wait(PATIENCE)
        if run.then:
            inside = ["nsenter", f"--net=/proc/{child.pid}/ns/net"] if run.apart else []
            done = subprocess.run([*inside, "bash", "-c", run.then], cwd=where, env=environment,
                                  capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, f"then {run.then}: {done.stdout}{done.stderr}"
        if run.until:
            os.killpg(child.pid, signal.SIGINT)
            child.wait(PATIENCE)

    def judge(self, child, run, where):
        assert child.status in run.status, f"status {child.status}"
        said = child.out + child.err
        assert re.search(self.world.fill(run.says), said, re.M), f"does not say {run.says}"
        assert "Traceback" not in said and "unknown option" not in said
        assert not run.leaves or any(path.stat().st_size for path in where.glob(run.leaves)), f"leaves no {run.leaves}"

    def test_what_is_printed_works(self):
        tap.need_btf()
        if machine():
            tap.skip(machine())
        self.world = World(self)
        word = os.environ.get("LINES", "")
        turns = {}
        for number, (text, run) in enumerate(RUN.items()):
            if word in text and not self.missing(run):
                turns.setdefault(run.turn or number, []).append((text, run, number))

        def take(turn):
            return [self.run_line(*one) for one in turn]

        with concurrent.futures.ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            wrong = [problem for results in pool.map(take, turns.values()) for problem in results if problem]
        print(f"# {sum(map(len, turns.values())) - len(wrong)} lines work, {len(wrong)} do not; "
              f"{sum(bool(run.swap) for run in RUN.values())} of {len(RUN)} with other values; "
              f"{sum(map(bool, map(reason, self.lines)))} are known and not run")
        self.assertFalse(wrong, "\n\n".join(wrong))
        self.assertEqual(self.world.daemon.stop(), 0, self.world.daemon)


class Demo(tap.TestCase):
    # what follows `== Next`
    NEXT = {
        r"\S+ report \S+/\*\.pb \| less": Run(says="checkout"),
        r"\S+ convert \S+/\*\.pb -o \S+\.html": Run(leaves="demo.html"),
        r"\S+ convert \S+\.pb -o \S+\.json --pretty": Run(leaves="demo.json"),
        r"sudo \S+ record -- \S+/example-service --duration 5": Run(says="in spans"),
        r"sudo \S+ run --comm 'python3\*' --endpoint http://COLLECTOR:4318": Run(until=SERVICE_READY),
        r"sudo \./bootstrap install": None,            # NOT_RUN has why
    }

    def test_its_next_steps_work_as_it_prints_them(self):
        tap.need_btf()
        if machine():
            tap.skip(machine())
        where, out = WORLD / "demo", WORLD / "demo/out"
        where.mkdir()
        World.program(where / "sudo", STAND_INS["sudo"])
        environment = session.clean_environment(BUILD_DIR=tap.BUILD_DIR, DEMO_DIR=out, PATH=f"{where}:{os.environ['PATH']}")
        demo = self.run_command([sys.executable, tap.SOURCE_DIR / "sdk/example/demo.py", "2"], expect=0, cwd=where,
                                env=environment, timeout=PATIENCE)
        lines = [printed_lines.without_comment(line) for line in demo.stdout.split("== Next\n")[1].splitlines()]
        self.assertEqual(len(lines), len(self.NEXT), lines)
        for line, (pattern, run) in zip(lines, self.NEXT.items()):
            self.assertRegex(line, f"^{pattern}$")
            if run is None:
                self.assertTrue(reason(line))
                continue
            child = self.spawn(["bash", "-c", re.sub(r"--duration 5", "--duration 1", line)], cwd=where, env=environment,
                               start_new_session=True)
            if run.until:
                child.wait_for(run.until, PATIENCE)
                os.killpg(child.pid, signal.SIGINT)
            self.assertEqual(child.wait(PATIENCE), 0, child)
            self.assertIn(run.says, child.out + child.err, child)
            self.assertTrue(not run.leaves or (out / run.leaves).stat().st_size)


if __name__ == "__main__":
    Namespaces.enter()
    tap.main()
