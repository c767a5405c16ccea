#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Collector's own builder makes a Collector of sdk/collector/builder.yaml and published modules, and that
one runs; in Kubernetes its processor k8sattributes finds the pod of each resource; of traces that its
processor tail_sampling chooses, the flight recorder ships what it has. Minutes the first time."""
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.parse
import urllib.request

import oracle
import tap

oracle.enter()

import collector
import groups
import real_server
import session

ROOT = pathlib.Path(os.environ.get("MESON_SOURCE_ROOT") or pathlib.Path(__file__).resolve().parents[2])
SOURCE = ROOT / "sdk/collector"


def go():
    """The Go that setup-collector.sh uses."""
    script = f'cache="${{XDG_CACHE_HOME:-$HOME/.cache}}/spanprof"; . {ROOT}/tests/interop/go.sh; find_go'
    found = subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, text=True).stdout.strip()
    if not found:
        tap.skip("machine: no Go 1.25 or later, and none could be installed")
    return found


# what a Collector of traces has besides
MORE = {"receivers": "go.opentelemetry.io/collector/receiver/otlpreceiver v0.162.0",
        "processors": "github.com/open-telemetry/opentelemetry-collector-contrib/processor/tailsamplingprocessor v0.160.0"}
N_TRACES, BURN_MS = 4, 100
SLOW = 2, 4                     # traces that are said to have lasted a second
UID = "0f5f6c5e-1b3a-4a6e-9d59-2f6b7b0d7a11"
SERVED = {
    "/api/v1/pods": ("v1", "Pod", {"metadata": {
        "name": "cart-7d9f-x2", "namespace": "shop", "uid": UID, "resourceVersion": "5",
        "creationTimestamp": "2026-01-02T03:04:05Z", "labels": {"team": "a", "secret": "no", "pod-template-hash": "7d9f"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-7d9f", "uid": "rs-1",
                             "controller": True}]},
        "spec": {"nodeName": "n7", "containers": [{"name": "cart", "image": "r.example/cart:1"}]},
        "status": {"phase": "Running", "podIP": "10.1.2.3"}}),
    "/apis/apps/v1/replicasets": ("apps/v1", "ReplicaSet", {"metadata": {
        "name": "cart-7d9f", "namespace": "shop", "uid": "rs-1", "resourceVersion": "5",
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "cart", "uid": "d-1",
                             "controller": True}]}}),
}


class ApiServer:
    """Lists of SERVED, and watches in which nothing changes, as informers of client-go ask for them."""

    def __init__(self, test):
        over = threading.Event()
        self.asked = asked = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                url = urllib.parse.urlsplit(self.path)
                words = urllib.parse.parse_qs(url.query)
                asked.append(url.path)
                if url.path not in SERVED:
                    self.answer(404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404})
                elif "watch" in words:
                    self.watch(url.path, "sendInitialEvents" in words)
                else:
                    version, kind, item = SERVED[url.path]
                    self.answer(200, {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "5"},
                                      "items": [item]})

            def answer(self, status, what):
                body = json.dumps(what).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def watch(self, path, initial):
                version, kind, item = SERVED[path]
                head = {"apiVersion": version, "kind": kind}
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                if initial:
                    end = {"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}}
                    for event in ({"type": "ADDED", "object": {**head, **item}},
                                  {"type": "BOOKMARK", "object": {**head, **end}}):
                        self.wfile.write(json.dumps(event).encode() + b"\n")
                self.wfile.flush()
                over.wait()
                self.close_connection = True

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        server.block_on_close = False
        self.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for function in (server.server_close, server.shutdown, over.set):
            test.addCleanup(function)

    def config(self):
        """As kubectl reads it."""
        return {"apiVersion": "v1", "kind": "Config", "current-context": "here",
                "clusters": [{"name": "here", "cluster": {"server": self.url}}],
                "users": [{"name": "me", "user": {}}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}]}


class Builder(session.NamingCase):
    @classmethod
    def setUpClass(cls):
        """By the commands of the README."""
        super().setUpClass()
        cls.here = pathlib.Path(tempfile.mkdtemp(prefix="spanprof-test-")) / "collector"
        cls.addClassCleanup(shutil.rmtree, cls.here.parent, ignore_errors=True)
        shutil.copytree(SOURCE, cls.here)
        cls.here.parent.chmod(0o711)
        parts = cls.here / "builder.yaml"
        for kind, module in MORE.items():
            parts.write_text(parts.read_text().replace(f"{kind}:\n", f"{kind}:\n  - gomod: {module}\n"))
        build, cls.run_line = re.findall(
            r"^    (\S.*)$", (SOURCE / "README.md").read_text().split("## Build")[1], re.M)
        path = f"{pathlib.Path(go()).parent}:{os.environ['PATH']}"
        done = subprocess.run(build.split(), cwd=cls.here, timeout=1500, capture_output=True, text=True,
                              env={**os.environ, "PATH": path, "GOTOOLCHAIN": "local"})
        assert done.returncode == 0, done.stdout + done.stderr

    def collect(self, *parts, **environment):
        """A Collector with one pipeline."""
        (self.here / "collector.yaml").write_text(collector.config(*parts))
        return self.spawn(self.run_line.split(), cwd=self.here, env={**os.environ, **environment})

    def samples_of(self, child, processors=None, **environment):
        """What its log says of a victim's samples, once there are some."""
        command = [tap.SPANPROF, "run", "--pid", str(child.pid), "--export-interval", "1s"]
        running = self.collect({"spanprof": {"socket": self.here / "s", "command": command}},
                               {"debug": {"verbosity": "detailed"}}, "profiles", processors, **environment)
        running.wait_for(r"process\.pid: Int\(%d\)" % child.pid)
        return running

    def test_makes_a_collector_by_the_commands_of_the_readme(self):
        self.samples_of(self.victim("chain", "120")).stop()

    def test_its_k8sattributes_finds_the_pod_by_the_uid_that_the_daemon_says(self):
        """The daemon asks nobody: it reads the uid in the control group."""
        child = self.victim("chain", "120")
        server = ApiServer(self)
        group = groups.make(self, "kubepods", "burstable", f"pod{UID}", 64 * "a")
        self.addCleanup(child.stop)
        groups.enter(group, child.pid)
        kubeconfig = self.directory() / "config"
        kubeconfig.write_text(json.dumps(server.config()))
        running = self.samples_of(child, {"k8sattributes": {
            "auth_type": "kubeConfig", "wait_for_metadata": True,
            "extract": {"metadata": ["k8s.pod.name", "k8s.namespace.name", "k8s.deployment.name", "k8s.node.name"],
                        "labels": [{"tag_name": "team", "key": "team", "from": "pod"}]},
            "pod_association": [{"sources": [{"from": "resource_attribute", "name": "k8s.pod.uid"}]}],
        }}, KUBECONFIG=str(kubeconfig))
        for key, value in (("k8s.pod.uid", UID), ("k8s.pod.name", "cart-7d9f-x2"), ("k8s.namespace.name", "shop"),
                           ("k8s.deployment.name", "cart"), ("k8s.node.name", "n7"), ("team", "a")):
            running.wait_for(rf"-> {re.escape(key)}: Str\({value}\)")
        running.stop()
        self.assertIn("/api/v1/pods", server.asked)

    @staticmethod
    def trace_id(n):
        return f"{9:016x}{n:016x}"

    def requests(self, *options):
        """A run whose recorder has N_TRACES traces of a victim."""
        log = self.directory() / "log"
        log.touch()
        victim = self.victim("traces", log, str(N_TRACES), str(BURN_MS), stdin=subprocess.PIPE)
        back = victim.wait_for(r"back (\d+)")[1]
        run = self.start("--pid", f"{victim.pid},{back}", "--recorder", "10m", *options)
        victim.process.stdin.write(b"go\n")
        victim.process.stdin.flush()
        victim.wait_for("^done")
        return run

    def say_spans(self, port, traces, ns):
        """Tells a Collector of a span of @ns in each."""
        spans = [{"traceId": self.trace_id(n), "spanId": "00000000000000ab", "name": "cart", "startTimeUnixNano": "1",
                  "endTimeUnixNano": str(1 + ns)} for n in traces]
        body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/traces", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=tap.PATIENCE) as answer:
            self.assertEqual(answer.status, 200)

    def test_its_tail_sampling_chooses_what_the_recorder_ships(self):
        chosen = {self.trace_id(n) for n in SLOW}
        token, (hook, port) = self.directory() / "token", real_server.free_ports(2)
        token.write_text("s3cret\n")
        token.chmod(0o644)
        run = self.requests("--recorder-listen", f"127.0.0.1:{hook}", "--recorder-token", token)
        running = self.collect(
            {"otlp": {"protocols": {"http": {"endpoint": f"127.0.0.1:{port}"}}}},
            {"otlp_http": {"endpoint": f"http://127.0.0.1:{hook}", "headers": {"Authorization": "Bearer s3cret"}}},
            "traces", {"tail_sampling": {"decision_wait": "1s", "policies": [
                {"name": "slow", "type": "latency", "latency": {"threshold_ms": 500}}]}})
        running.wait_for("Everything is ready")
        # what is told first is judged first
        self.say_spans(port, set(range(1, N_TRACES + 1)) - set(SLOW), 10**6)
        self.say_spans(port, SLOW, 10**9)
        self.wait_for(run, lambda all: chosen <= {s.trace_id for s in all if s.type == "kept_samples"},
                      "the chosen traces at the receiver")
        running.stop()
        result = run.stop()
        self.assertEqual({s.trace_id for s in result.kept}, chosen)
        self.assertEqual({s.resource["profile.kept.reason"] for s in result.kept}, {"tail-sampling"})
        keeps = result.counter("recorder_keeps_total")
        self.assertEqual((keeps["by_hook"], keeps["unread"]), (len(SLOW), 0))


if __name__ == "__main__":
    tap.main()
