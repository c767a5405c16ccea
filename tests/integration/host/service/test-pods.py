#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names, labels and owners of pods by a kubelet's list of them, over TLS with a token; and lists that are none."""
import oracle

oracle.enter()

import contextlib
import http.server
import json
import os
import pathlib
import secrets
import threading
import uuid

import prometheus
import session
import tap
from certificates import Certificates
from unix_http import metrics

GROUPS = pathlib.Path("/sys/fs/cgroup")


def pod(uid, name="cart-7d9f", namespace="shop"):
    return {"metadata": {"name": name, "namespace": namespace, "uid": uid,
                         "labels": {"name": "no", "uid": "no", "app.kubernetes.io/name": f"app-of-{name}",
                                    "pod-template-hash": "7d9f"},
                         "ownerReferences": [{"kind": "Job", "name": "no", "uid": str(uuid.uuid4())},
                                             {"kind": "ReplicaSet", "name": f"{namespace}-set-7d9f",
                                              "uid": str(uuid.uuid4()), "controller": True}]},
            "spec": {"containers": [{"name": "no"}], "hostPID": True}, "status": {"phase": "Running"}}


def pods(*all_of_them):
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": all_of_them}).encode()


class Kubelet:
    """Answers GET by `answer` (status, body), to who shows the token; keeps what it was asked."""

    def __init__(self, test, token, context=None):
        kubelet = self
        self.answer, self.requests, self.location = (200, pods()), [], None

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                kubelet.requests.append((self.path, self.headers.get("Authorization")))
                right = token is None or self.headers.get("Authorization") == f"Bearer {token}"
                status, body = kubelet.answer if right else (401, b'{"kind":"Status","code":401}')
                self.send_response(status)
                if kubelet.location:
                    self.send_header("Location", kubelet.location)
                self.end_headers()
                with contextlib.suppress(OSError):
                    for part in [body] if isinstance(body, bytes) else body:
                        self.wfile.write(part)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.url = f"http{'s' if context else ''}://localhost:{server.server_port}/pods"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        test.addCleanup(server.server_close)
        test.addCleanup(server.shutdown)


class Pods(Certificates, session.NamingCase):
    def setUp(self):
        self.uid, self.token = str(uuid.uuid4()), secrets.token_hex(20)
        self.child = self.victim("chain", 5, rests=True)
        self.enter_pod(self.child.pid)
        self.control = self.directory() / "control.sock"
        self.token_file = self.directory() / "token"
        self.token_file.write_text(self.token + "\n")

    def enter_pod(self, pid):
        """Into a control group as a kubelet makes it."""
        root = GROUPS if (GROUPS / "cgroup.procs").exists() else next(
            (path for path in sorted(GROUPS.iterdir()) if (path / "cgroup.procs").exists()), None)
        folder = root / f"kubepods/burstable/pod{self.uid}" / secrets.token_hex(32) if root else None
        made = [p for p in (folder, *folder.parents) if not p.exists()] if folder else []
        try:
            folder.mkdir(parents=True)
            (folder / "cgroup.procs").write_text(str(pid))
        except (AttributeError, OSError) as problem:
            tap.skip(f"machine: no control group can be made: {problem}")
        finally:
            def remove():
                for path in made:
                    with contextlib.suppress(OSError):
                        path.rmdir()

            self.addCleanup(remove)
            self.addCleanup(self.child.stop)

    def begin(self, kubelet, *options):
        return self.start("--pid", self.child.pid, "--control", self.control, "--export-interval", "1s", "--pods-url",
                          kubelet.url, *options)

    def count(self, result):
        return prometheus.value(metrics(self.control), "spanprof_pod_lists_total", result=result)

    def named(self, run):
        def find(samples):
            return next((s.resource for s in samples if "k8s.pod.name" in s.resource), None)

        return self.wait_for(run, find, "a pod's name")

    def test_by_tls_and_a_token(self):
        kubelet = Kubelet(self, self.token, self.server_context())
        kubelet.answer = 200, pods(pod(str(uuid.uuid4()), "other"), pod(self.uid))
        run = self.begin(kubelet, "--pods-token", self.token_file, "--pods-certificate", self.path("ours.pem"),
                         "--pods-labels", "team,app.kubernetes.io/*")
        self.named(run)
        self.assertGreater(self.count("taken"), 0)
        result = run.stop()
        names = {(s.resource["k8s.namespace.name"], s.resource["k8s.pod.name"], s.resource["k8s.pod.uid"])
                 for s in result.samples if "k8s.pod.name" in s.resource}
        self.assertEqual(names, {("shop", "cart-7d9f", self.uid)})
        more = [{key: value for key, value in s.resource.items() if key.startswith("k8s.") and "pod.uid" not in key}
                for s in result.samples if "k8s.pod.name" in s.resource]
        self.assertEqual(more, len(more) * [{
            "k8s.namespace.name": "shop", "k8s.pod.name": "cart-7d9f", "k8s.replicaset.name": "shop-set-7d9f",
            "k8s.deployment.name": "shop-set", "k8s.pod.label.app.kubernetes.io/name": "app-of-cart-7d9f"}])
        self.assertEqual(set(kubelet.requests), {("/pods", f"Bearer {self.token}")})
        self.assertNotIn(self.token, run.log)

    def test_labels_need_a_server_that_knows_them(self):
        done = self.spanprof("run", "--pods-labels", "team", "--pods-directory", self.directory(), "--duration", "1s",
                             expect=78)
        self.assertIn("pods-labels: labels come from `pods-url` alone", done.stderr)

    def test_another_server_than_that_of_the_certificate_gets_no_token(self):
        kubelet = Kubelet(self, self.token, self.server_context("server"))
        run = self.begin(kubelet, "--pods-token", self.token_file, "--pods-certificate", self.path("other.pem"))
        tap.wait_until(lambda: self.count("failed"), "a failed request")
        self.assertEqual(kubelet.requests, [])
        self.assertIn("pods have no names by https://localhost", run.log)
        run.stop()

    def test_a_token_is_not_sent_in_the_clear(self):
        kubelet = Kubelet(self, self.token)
        done = self.spanprof("run", "--pods-url", kubelet.url, "--pods-token", self.token_file, "--duration", "1s",
                             expect=78)
        self.assertIn("pods-token", done.stderr)
        self.assertIn("https://", done.stderr)
        self.assertEqual(kubelet.requests, [])

    def test_a_token_goes_to_no_other_server_and_must_be_one(self):
        """A daemon for each, side by side."""
        other = Kubelet(self, self.token, self.server_context())
        kubelet = Kubelet(self, self.token, self.server_context())
        kubelet.answer, kubelet.location = (302, b""), other.url
        empty, pipe = self.directory() / "token", self.directory() / "token"
        empty.write_text("\n")
        os.mkfifo(pipe)
        done = self.spanprof("run", "--pods-url", kubelet.url, "--pods-token", pipe, "--duration", "1s", expect=78)
        self.assertIn("not a regular file", done.stderr)
        runs = []
        for token, words in ((self.token_file, "status 302: redirects are not followed"), (empty, "holds no token")):
            self.control = self.directory() / "control.sock"
            runs.append((words, self.control, self.begin(kubelet, "--pods-token", token, "--pods-certificate",
                                                         self.path("ours.pem"))))
        for words, self.control, run in runs:
            tap.wait_until(lambda: self.count("failed"), words)
            self.assertIn(words, run.log)
            run.stop()
        self.assertEqual(other.requests, [])
        self.assertEqual(set(kubelet.requests), {("/pods", f"Bearer {self.token}")})

    def test_hostile_answers_are_counted_and_name_nothing(self):
        """A daemon for each, side by side. test-pod-list.c has more of them."""
        def endless():
            for _ in range(64):
                yield b" " * (1 << 20)

        whole = pods(pod(self.uid))
        wrong = pods(pod(self.uid, "Cart"), pod(self.uid, "a_b"), pod(self.uid, "a\nb"), pod(self.uid, "x" * 300),
                     pod(self.uid, namespace=""))
        cases = [("malformed", (200, whole[:-3])), ("malformed", (200, b'{"items":' + b"[" * 10**6)),
                 ("failed", (500, whole)), ("too_large", (200, endless())), ("taken", (200, wrong))]
        runs = []
        for result, answer in cases:
            kubelet = Kubelet(self, None)
            kubelet.answer, self.control = answer, self.directory() / "control.sock"
            runs.append((result, self.control, self.begin(kubelet)))
        for result, self.control, run in runs:
            tap.wait_until(lambda: self.count(result), f"{result} of {self.control}")
            run.wait_events(20, self.child.pid)
            self.assertEqual([s for s in run.stop().samples if "k8s.pod.name" in s.resource], [], result)


tap.main()
