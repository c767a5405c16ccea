#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The root of the container image, run with exactly the capabilities of the Kubernetes examples; and those examples."""
import oracle

oracle.enter()

import ctypes
import importlib.util
import os
import re
import subprocess

import session
import tap

FOLDER = tap.SOURCE_DIR / "packaging/kubernetes"
NUMBERS = {"DAC_READ_SEARCH": 2, "SYS_PTRACE": 19, "SYSLOG": 34, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40}
PR_CAPBSET_DROP = 24
CLONE_NEWNS = 0x20000
MAX_IMAGE_BYTES = 30 << 20

# What of the API these files may use: kind of object → its keys; a misspelt key is ignored by some servers. "*" = any.
PROBE = {"httpGet": {"path": str, "port": (str, int)}, "periodSeconds": int, "failureThreshold": int}
SECURITY = {"runAsUser": int, "privileged": bool, "allowPrivilegeEscalation": bool, "readOnlyRootFilesystem": bool,
            "seccompProfile": {"type": str}, "capabilities": {"add": [str], "drop": [str]}}
CONTAINER = {"name": str, "image": str, "args": [str], "env": [{"name": str, "value": str}],
             "ports": [{"name": str, "containerPort": int}], "securityContext": SECURITY, "livenessProbe": PROBE,
             "readinessProbe": PROBE, "resources": {"requests": {"cpu": str, "memory": str}, "limits": {"memory": str}},
             "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}]}
POD = {"hostPID": bool, "shareProcessNamespace": bool, "automountServiceAccountToken": bool, "terminationGracePeriodSeconds": int,
       "tolerations": [{"operator": str}], "containers": [CONTAINER],
       "volumes": [{"name": str, "configMap": {"name": str}, "hostPath": {"path": str, "type": str}, "emptyDir": {}}]}
META = {"name": str, "namespace": str, "labels": "*", "annotations": "*"}
KINDS = {
    ("v1", "ConfigMap"): {"apiVersion": str, "kind": str, "metadata": META, "data": "*"},
    ("v1", "Pod"): {"apiVersion": str, "kind": str, "metadata": META, "spec": POD},
    ("apps/v1", "DaemonSet"): {"apiVersion": str, "kind": str, "metadata": META,
                               "spec": {"selector": {"matchLabels": "*"}, "template": {"metadata": META, "spec": POD}}},
}


def problems(value, schema, where=""):
    if schema == "*":
        return
    if isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{where}: no list"
            return
        for i, item in enumerate(value):
            yield from problems(item, schema[0], f"{where}[{i}]")
    elif isinstance(schema, dict):
        if not isinstance(value, dict):
            yield f"{where}: no mapping"
            return
        for key, item in value.items():
            if key not in schema:
                yield f"{where}.{key}: unknown"
            else:
                yield from problems(item, schema[key], f"{where}.{key}")
    elif not isinstance(value, schema) or (schema is int and isinstance(value, bool)):
        yield f"{where}: {value!r} is no {schema}"


def documents(name):
    """Parsed by Python's yaml where there is one, else by Debian's, outside of the test's environment."""
    script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))"
    for python in ("/usr/bin/python3", "python3"):
        done = subprocess.run([python, "-c", script, FOLDER / name], capture_output=True, text=True)
        if not done.returncode:
            return importlib.import_module("json").loads(done.stdout)
    tap.skip("library: no Python module yaml (python3-yaml)")


def capabilities(name):
    pod = next(d for d in documents(name) if d["kind"] in ("Pod", "DaemonSet"))["spec"]
    pod = pod.get("template", {"spec": pod})["spec"]
    container = next(c for c in pod["containers"] if c["name"] == "spanprof")
    return container["securityContext"]["capabilities"]["add"]


class Kubernetes(tap.TestCase):
    def test_examples_follow_the_api(self):
        for name in ("daemonset.yaml", "sidecar.yaml"):
            for document in documents(name):
                schema = KINDS[document["apiVersion"], document["kind"]]
                self.assertEqual(list(problems(document, schema, document["kind"])), [])
        broken = {"kind": "Pod", "spec": {"hostPid": True, "containers": [{"name": 5}]}}
        self.assertEqual(len(list(problems(broken, KINDS["v1", "Pod"]))), 2)

    def test_nothing_is_privileged_and_the_capabilities_are_those_of_the_unit(self):
        unit = (tap.SOURCE_DIR / "systemd/spanprof.service.in").read_text()
        held = {name.removeprefix("CAP_") for name in re.findall(r"^AmbientCapabilities=(\w+)$", unit, re.M)}
        self.assertEqual(set(capabilities("daemonset.yaml")), held)
        self.assertEqual(set(capabilities("sidecar.yaml")), {"BPF", "PERFMON", "SYS_PTRACE"})
        for name in ("daemonset.yaml", "sidecar.yaml"):
            text = (FOLDER / name).read_text()
            self.assertNotIn("privileged: true", text)
            self.assertIn('drop: ["ALL"]', text)

    def test_volumes_and_configuration_fit(self):
        for name in ("daemonset.yaml", "sidecar.yaml"):
            objects = documents(name)
            pod = next(d for d in objects if d["kind"] in ("Pod", "DaemonSet"))["spec"]
            pod = pod.get("template", {"spec": pod})["spec"]
            volumes = {v["name"] for v in pod["volumes"]}
            for container in pod["containers"]:
                for mount in container.get("volumeMounts", ()):
                    self.assertIn(mount["name"], volumes)
            for config in (d for d in objects if d["kind"] == "ConfigMap"):
                for text in config["data"].values():
                    path = self.directory() / "x.conf"
                    path.write_text(text)
                    self.spanprof("config", "check", path)


class Image(session.TestCase):
    def image(self):
        root = self.directory() / "image"
        self.run_command([tap.SOURCE_DIR / "packaging/container/collect", tap.SPANPROF, root], expect=0)
        return root

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
        size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        self.assertLessEqual(size, MAX_IMAGE_BYTES)
        self.assertFalse((root / "bin/sh").exists())
        done = subprocess.run(["/usr/sbin/spanprof", "version"], preexec_fn=self.inside(root, []), capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^spanprof \d")

    def test_profiles_with_the_capabilities_of_each_example(self):
        root, victim = self.image(), self.victim("chain", 5)
        for name in ("daemonset.yaml", "sidecar.yaml"):
            with self.subTest(example=name):
                receiver = session.Receiver(self)
                run = self.spawn(["/usr/sbin/spanprof", "run", "--pid", victim.pid, "--frequency", "499", "--duration", "2s",
                                  "--export-interval", "1s"], preexec_fn=self.inside(root, capabilities(name)),
                                 env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "SPANPROF_STOP_TIMEOUT": "20s"})
                self.assertEqual(run.wait(), 0, run)
                self.assertRegex(run.err, r"[1-9]\d* samples delivered \+ 0 lost")
                self.assertGreater(len(receiver.paths()), 0)
                lost = "capabilities that are missing" in run.err
                self.assertEqual(lost, name == "sidecar.yaml", run.err)


tap.main()
