#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The root of the container image, run with exactly the capabilities of the Kubernetes examples; and those examples."""
import oracle

oracle.enter()

import ctypes
import json
import os
import re
import signal
import subprocess
import urllib.request

import buildah
import otlp_read
import session
import sidecar
import tap
from sidecar import FOLDER, OWN_USER, capabilities, container_of, documents, module, pod_of

FOR_THE_START = {"SETUID", "SETGID", "SETPCAP", "CHOWN"}        # given up before anything of a target is read
NUMBERS = {
    "CHOWN": 0, "SETGID": 6, "SETUID": 7, "SETPCAP": 8, "DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "SYSLOG": 34,
    "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40
}
PR_CAPBSET_DROP = 24
CLONE_NEWNS = 0x20000
MAX_IMAGE_BYTES = 30 << 20

KUBERNETES = ("1.29", "1.37")           # the oldest that anybody still runs, and the newest of the schemas


class Kubernetes(tap.TestCase):
    def refusal(self, document, version):
        """What the API's own schema (of its OpenAPI, with every unknown key refused) says against it; None if nothing."""
        judge = module("kubernetes_validate")
        try:
            judge.validate(document, version, strict=True)
        except judge.ValidationError as error:
            return error.message
        return None

    def test_examples_follow_the_api(self):
        names = sorted(path.name for path in FOLDER.iterdir())
        self.assertEqual(names, ["daemonset.yaml", "sidecar.yaml"])
        for name in names:
            for document in documents(name):
                for version in KUBERNETES:
                    with self.subTest(file=name, kind=document["kind"], version=version):
                        self.assertIsNone(self.refusal(document, version))

    def test_what_checks_the_examples_finds_mistakes(self):
        def misspelt(pod):
            pod["hostPid"] = True

        def mistyped(pod):
            pod["terminationGracePeriodSeconds"] = "soon"

        def misplaced(pod):
            pod["containers"][0].setdefault("securityContext", {})["add"] = ["BPF"]

        def lacking(pod):
            del pod["containers"][0]["name"]

        for name in ("daemonset.yaml", "sidecar.yaml"):
            for spoil in (misspelt, mistyped, misplaced, lacking):
                with self.subTest(file=name, mistake=spoil.__name__):
                    objects = documents(name)
                    spoil(pod_of(objects))
                    self.assertEqual(
                        sum(self.refusal(document, KUBERNETES[-1]) is not None for document in objects), 1)

    def test_nothing_is_privileged_and_the_capabilities_are_those_of_the_unit(self):
        unit = (tap.SOURCE_DIR / "systemd/spanprof.service.in").read_text()
        held = {name.removeprefix("CAP_") for name in re.findall(r"^AmbientCapabilities=(\w+)$", unit, re.M)}
        held.remove("SYS_ADMIN")                    # for nodes whose kernel asks it: OPERATING says when to add it
        self.assertEqual(set(capabilities("daemonset.yaml")), held | FOR_THE_START)
        self.assertEqual(set(capabilities("sidecar.yaml")),
                         {"BPF", "PERFMON", "SYS_PTRACE", "DAC_READ_SEARCH"} | FOR_THE_START)
        for name in ("daemonset.yaml", "sidecar.yaml"):
            text = (FOLDER / name).read_text()
            self.assertNotIn("privileged: true", text)
            self.assertIn('drop: ["ALL"]', text)

    def test_health_is_asked_without_the_network_and_metrics_are_for_prometheus(self):
        for name in ("daemonset.yaml", "sidecar.yaml"):
            objects, container = documents(name), container_of(name)
            probes = {kind: probe for kind, probe in container.items() if kind.endswith("Probe")}
            self.assertIn("livenessProbe", probes)
            for probe in probes.values():
                self.assertEqual(probe["exec"]["command"][:3], ["/usr/sbin/spanprof", "status", "--probe"])
                self.assertGreater(probe["timeoutSeconds"], 5,
                                   "what `status` waits itself, so that it can say why")
            self.assertIn("/run/spanprof", [mount["mountPath"] for mount in container["volumeMounts"]],
                          "the control socket's")
            owner = next(d for d in objects if d["kind"] in ("Pod", "DaemonSet"))
            labels = owner["spec"].get("template", owner)["metadata"]["labels"]
            policy = next(d for d in objects if d["kind"] == "NetworkPolicy")
            self.assertEqual(policy["metadata"].get("namespace"), owner["metadata"].get("namespace"))
            self.assertLessEqual(policy["spec"]["podSelector"]["matchLabels"].items(), labels.items())
            self.assertEqual(policy["spec"]["policyTypes"], ["Ingress"])
            ports = {port["name"] for each in pod_of(objects)["containers"] for port in each.get("ports", ())}
            opened = {
                port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]
            }
            self.assertEqual(set(opened), ports, "nothing else of the pod is closed by it")
            self.assertTrue(opened["metrics"])

    def test_the_image_has_a_registry_that_the_reader_must_replace(self):
        """A name without one would be looked for in a registry that has no such image."""
        for name in ("daemonset.yaml", "sidecar.yaml"):
            self.assertRegex(container_of(name)["image"], r"^registry\.example/spanprof:\d+\.\d+\.\d+$")
            self.assertRegex((FOLDER / name).read_text(),
                             r"# REPLACE registry\.example by your registry.*\n.*\n +image: registry\.example/")

    def test_the_nodes_profiler_has_a_place_of_its_own_on_nodes_that_can_run_it(self):
        objects = documents("daemonset.yaml")
        of = {document["kind"]: document for document in objects}
        labels = of["Namespace"]["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "privileged", "hostPID and hostPath need it")
        for kind in ("ConfigMap", "DaemonSet", "NetworkPolicy"):
            self.assertEqual(of[kind]["metadata"]["namespace"], of["Namespace"]["metadata"]["name"])
        pod = pod_of(objects)
        self.assertEqual(pod["nodeSelector"], {"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"})
        self.assertEqual(pod["priorityClassName"], of["PriorityClass"]["metadata"]["name"])
        self.assertEqual(set(container_of("daemonset.yaml")["resources"]["requests"]), {"cpu", "memory"})

    def test_the_pod_monitor_finds_the_pods_and_names_the_job_of_the_alerts(self):
        folder = tap.SOURCE_DIR / "packaging/monitoring"
        monitor = module("yaml").safe_load((folder / "spanprof-podmonitor.yaml").read_text())
        daemons = next(d for d in documents("daemonset.yaml") if d["kind"] == "DaemonSet")
        labels = daemons["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(monitor["metadata"]["namespace"], daemons["metadata"]["namespace"])
        self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), labels.items())
        ports = {port["name"] for port in container_of("daemonset.yaml")["ports"]}
        self.assertEqual({end["port"] for end in monitor["spec"]["podMetricsEndpoints"]}, ports)
        rules = tap.SOURCE_DIR / "packaging/helm/spanprof/files/spanprof.rules.yaml"
        self.assertIn(f'job="{labels[monitor["spec"]["jobLabel"]]}"', rules.read_text())

    def test_volumes_and_configuration_fit(self):
        for name in ("daemonset.yaml", "sidecar.yaml"):
            objects = documents(name)
            pod = pod_of(objects)
            volumes = {v["name"] for v in pod["volumes"]}
            for container in pod["containers"]:
                for mount in container.get("volumeMounts", ()):
                    self.assertIn(mount["name"], volumes)
            for config in (d for d in objects if d["kind"] == "ConfigMap"):
                for text in config["data"].values():
                    path = self.directory() / "x.conf"
                    path.write_text(text)
                    self.spanprof("config", "check", path)


def contents(root):
    """Path → mode and content."""
    return {
        path.relative_to(root): (oct(path.lstat().st_mode), path.read_bytes() if path.is_file() else None)
        for path in root.rglob("*")
    }


class Image(sidecar.Case):
    def built(self):
        """The image that buildah makes of it by the Containerfile, whose first stage (a compiler) is what we have built already."""
        engine, stage = buildah.Buildah(self), self.image()
        config, layers = engine.build("--build-context", f"build={stage.parent}", context=self.directory())
        return stage, config, layers, buildah.unpack(self, layers)

    def inside(self, root, names):
        """For preexec_fn: a mount namespace with proc and sys in @root, and of all capabilities only @names."""
        libc = ctypes.CDLL(None, use_errno=True)
        numbers = {NUMBERS[name] for name in names}

        def enter():
            libc.prctl(1, 9)
            if libc.unshare(CLONE_NEWNS):
                os._exit(125)
            for name in ("proc", "sys"):
                os.makedirs(root / name, exist_ok=True)
                subprocess.run(["mount", "--make-rprivate", "/"], check=False)
                subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)
            os.chroot(root)
            os.chdir("/")
            for number in range(64):
                if number not in numbers:
                    libc.prctl(PR_CAPBSET_DROP, number)

        return enter

    def test_is_small_and_whole(self):
        root = self.image()
        size = sum(path.stat().st_size for path in root.rglob("*")
                   if path.is_file() and not path.is_symlink())
        self.assertLessEqual(size, MAX_IMAGE_BYTES)
        self.assertFalse((root / "bin/sh").exists())
        done = subprocess.run(["/usr/sbin/spanprof", "version"], preexec_fn=self.inside(root, []),
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^spanprof \d")

    def test_containerfile_makes_an_image_of_it(self):
        stage, config, layers, root = self.built()
        self.assertEqual(contents(root), contents(stage), "nothing more, nothing less")
        for size in (sum(layer.stat().st_size for layer in layers),
                     sum(path.stat().st_size for path in root.rglob("*") if path.is_file())):
            self.assertLessEqual(size, MAX_IMAGE_BYTES)
            self.assertGreater(size, 1 << 20)
        self.assertEqual((config["Entrypoint"], config["Cmd"]), (["/usr/sbin/spanprof"], ["run"]))

        receiver = session.Receiver(self)
        all_of_them = self.inside(root, capabilities("daemonset.yaml"))
        done = subprocess.run([*config["Entrypoint"], "doctor", "--json", "--endpoint", receiver.url],
                              preexec_fn=all_of_them, capture_output=True, text=True, timeout=60,
                              env=session.clean_environment())
        report = json.loads(done.stdout)
        self.assertEqual((done.returncode, [c for c in report["checks"] if c["result"] == "fail"]), (0, []),
                         done.stderr)
        victim = self.victim("chain", 5, rests=True)
        run = self.spawn(
            [*config["Entrypoint"], *config["Cmd"], "--duration", "2s"],
            preexec_fn=self.inside(root, capabilities("daemonset.yaml")),
            env=dict(entry.split("=", 1) for entry in config["Env"]) | {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "SPANPROF_STOP_TIMEOUT": "20s",
                "SPANPROF_PID": str(victim.pid)
            })
        self.assertEqual(run.wait(), 0, run)
        self.assertRegex(run.err, r"[1-9]\d* samples delivered \+ 0 lost")

    def test_profiles_with_the_capabilities_of_each_example(self):
        root, victim = self.image(), self.victim("chain", 5, rests=True)
        for name in ("daemonset.yaml", "sidecar.yaml"):
            with self.subTest(example=name):
                receiver = session.Receiver(self)
                run = self.spawn([
                    "/usr/sbin/spanprof", "run", "--pid", victim.pid, "--frequency", "499", "--duration",
                    "2s", "--export-interval", "1s"
                ], preexec_fn=self.inside(root, capabilities(name)), env={
                    "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "SPANPROF_STOP_TIMEOUT": "20s"
                })
                self.assertEqual(run.wait(), 0, run)
                self.assertRegex(run.err, r"[1-9]\d* samples delivered \+ 0 lost")
                self.assertGreater(len(receiver.paths()), 0)
                lost = "capabilities that are missing" in run.err
                self.assertEqual(lost, name == "sidecar.yaml", run.err)

    def test_probes_by_exec_answer_in_it(self):
        """Without a shell, without a port, with the capabilities of the container alone."""
        root, victim, receiver = self.image(), self.victim("chain", 5, rests=True), session.Receiver(self)
        for name in ("daemonset.yaml", "sidecar.yaml"):
            with self.subTest(example=name):
                probes = [
                    probe["exec"]["command"] for kind, probe in container_of(name).items()
                    if kind.endswith("Probe")
                ]

                def probe(command):
                    done = subprocess.run(command, preexec_fn=self.inside(root, capabilities(name)), env={},
                                          capture_output=True, text=True, timeout=tap.PATIENCE)
                    return done.returncode, done.stdout

                run = self.spawn(["/usr/sbin/spanprof", "run", "--pid", victim.pid],
                                 preexec_fn=self.inside(root, capabilities(name)),
                                 env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url})
                for command in probes:
                    tap.wait_until(lambda: probe(command) == (0, "ok\n"), "it is well")
                self.assertEqual(run.stop(), 0)
                self.assertEqual([probe(command) for command in probes], [(1, "")] * len(probes))

    def test_sidecar_profiles_its_pod_and_nobody_else(self):
        service, receiver = self.service(), session.Receiver(self)
        outside = self.spawn([session.SERVICE, "--duration", "300", "--load", "0.1"])
        box = self.sidecar(service.pid, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
                           SPANPROF_METRICS="127.0.0.1:0", SPANPROF_FREQUENCY="499",
                           SPANPROF_EXPORT_INTERVAL="1s", SPANPROF_STOP_TIMEOUT="20s",
                           SPANPROF_VALIDATE="on")
        tap.wait_until(lambda: "profiles go to" in box.output, "its start")
        status = open(f"/proc/{box.pid}/status").read()
        expected = sum(1 << NUMBERS[name] for name in set(capabilities("sidecar.yaml")) - FOR_THE_START)
        for name, value in {"CapBnd": 0, "CapInh": 0, "CapAmb": 0, "CapEff": expected,
                            "CapPrm": expected}.items():
            self.assertEqual(int(re.search(rf"{name}:\s*(\w+)", status)[1], 16), value, status)
        self.assertRegex(status, rf"Uid:(\s+{OWN_USER}){{4}}\nGid:(\s+{OWN_USER}){{4}}\n")
        self.assertRegex(status, r"NoNewPrivs:\s*1\n")
        self.assertEqual(os.readlink(f"/proc/{box.pid}/ns/pid"),
                         os.readlink(f"/proc/{service.pid}/ns/pid"))

        def arrived():
            found = [s for path in receiver.paths() for s in otlp_read.samples(path)]
            return found if sum(bool(s.span_id) for s in found) > 100 else None

        samples = tap.wait_until(
            lambda: self.assertEqual(box.state()["status"], "running", box.output) or arrived(),
            "samples in spans", 2 * tap.PATIENCE)
        port = re.search(r"metrics are at (http://127\.0\.0\.1:\d+)/", box.output)[1]
        self.assertEqual(urllib.request.urlopen(port + "/healthz", timeout=tap.PATIENCE).status, 200)
        probe = container_of("sidecar.yaml")["livenessProbe"]["exec"]["command"]
        self.assertEqual(box.execute(probe), (0, "ok\n"))
        box.kill("TERM")
        tap.wait_until(lambda: box.state()["status"] == "stopped", "the end of the sidecar")
        self.assertRegex(box.output, r"[1-9]\d* samples delivered \+ 0 lost")
        self.assertIsNone(outside.status)
        self.assertEqual(
            {(s.resource["service.name"], s.resource["process.pid"], s.resource["process.executable.path"])
             for s in samples}, {("checkout", 1, "/bin/boxed")},
            "ids are the pod's; the one outside is not seen")
        build_id = otlp_read.Symbols().build_id(str(session.SERVICE))
        self.assertIn(build_id, {f.build_id for s in samples for f in s.frames},
                      "its file is read in its own root")
        receiver.child.stop(signal.SIGINT)
        self.assertEqual(oracle.check(receiver.paths()), [])


tap.main()
