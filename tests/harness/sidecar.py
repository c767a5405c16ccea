# SPDX-License-Identifier: Apache-2.0
"""The sidecar of packaging/kubernetes, beside a service, in containers as engines make them (runc).

    class Case(sidecar.Case):
        service = self.service()                # a pod of one container, whose program publishes spans
        box = self.sidecar(service.pid, VARIABLE="value")
        self.shown_by_sidecar(service, without=("BPF",))        # which features of PAYS it shows
"""
import contextlib
import importlib
import pathlib
import re

import boxed
import oracle
import otlp_read
import runc
import session
import tap

FOLDER = tap.SOURCE_DIR / "packaging/kubernetes"
OWN_USER = 29473                        # of the image
# Right, mount or namespace of the sidecar → what is missing without it
PAYS = {
    "BPF": "it samples", "PERFMON": "it samples", "SYS_PTRACE": "spans of the pod", "DAC_READ_SEARCH": "spans of the pod",
    "SETUID": "a user of its own", "SETGID": "a user of its own", "CHOWN": "a user of its own",
    "SETPCAP": "no way back to root", "/run/spanprof": "the probe", "pid": "spans of the pod"
}


def module(name):
    """Of the virtual environment."""
    oracle.need()
    try:
        return importlib.import_module(name)
    except ImportError:
        tap.skip(f"library: no {name}; run tests/interop/setup-venv.sh {tap.BUILD_DIR}")


def documents(name):
    return list(module("yaml").safe_load_all((FOLDER / name).read_text()))


def pod_of(objects):
    pod = next(d for d in objects if d["kind"] in ("Pod", "DaemonSet"))["spec"]
    return pod.get("template", {"spec": pod})["spec"]


def container_of(name):
    return next(c for c in pod_of(documents(name))["containers"] if c["name"] == "spanprof")


def capabilities(name):
    return container_of(name)["securityContext"]["capabilities"]["add"]


class Case(session.TestCase):
    def image(self):
        """What the first stage of the Containerfile leaves."""
        root = self.directory() / "image"
        self.run_command([tap.SOURCE_DIR / "packaging/container/collect", tap.SPANPROF, root], expect=0)
        self.assertTrue([*root.rglob("libcurl.so.*")], "loaded when it is needed: ldd does not show it")
        return root

    def service(self):
        """A container whose processes the others of its pod see; its program publishes contexts."""
        bundle = self.directory()
        boxed.make_root(bundle / "root", session.SERVICE)
        return runc.Box(
            self, bundle, {
                "ociVersion": "1.0.2",
                "root": {"path": "root"},
                "process": {
                    "args": ["/bin/boxed", "--duration", "300"], "cwd": "/", "user": {
                        "uid": 1000, "gid": 1000
                    }, "noNewPrivileges": True, "env": ["OTEL_SERVICE_NAME=checkout"]
                },
                "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}],
                "linux": {
                    "namespaces": [{"type": name} for name in ("pid", "ipc", "uts", "mount", "network")]
                },
            })

    def sidecar(self, pid, without=(), **environment):
        """As an engine makes it from the example, in the PID namespace of @pid and the host's network.
        @without: capabilities, destinations of mounts, and `pid`, that it does not get."""
        example, root = container_of("sidecar.yaml"), self.image()
        rights = example["securityContext"]
        held = [f"CAP_{name}" for name in capabilities("sidecar.yaml") if name not in without]
        self.assertEqual((rights["privileged"], rights["seccompProfile"], rights["capabilities"]["drop"]),
                         (False, {"type": "Unconfined"}, ["ALL"]))
        for name in ("proc", "sys", "dev", "run/spanprof"):
            (root / name).mkdir(parents=True, exist_ok=True)
        variables = {entry["name"]: entry["value"] for entry in example["env"]} | environment
        return runc.Box(
            self, root.parent, {
                "ociVersion": "1.0.2",
                "root": {"path": root.name, "readonly": rights["readOnlyRootFilesystem"]},
                "process": {
                    "args": ["/usr/sbin/spanprof", *example["args"]], "cwd": "/", "user": {
                        "uid": rights["runAsUser"], "gid": 0
                    }, "env": [f"{key}={value}" for key, value in variables.items()
                               ], "noNewPrivileges": not rights["allowPrivilegeEscalation"],
                    "capabilities": {kind: held for kind in ("bounding", "effective", "permitted")}
                },
                "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {
                    "destination": "/dev", "type": "tmpfs", "source": "tmpfs",
                    "options": ["nosuid", "mode=755"]
                }, {
                    "destination": "/sys", "type": "sysfs", "source": "sysfs",
                    "options": ["nosuid", "noexec", "nodev", "ro"]
                }, *({"destination": mount["mountPath"], "type": "tmpfs", "source": "tmpfs"}
                     for mount in example["volumeMounts"] if mount["mountPath"] not in without)],
                "linux": {
                    "namespaces": [{"type": "pid"} | ({} if "pid" in without else {"path": f"/proc/{pid}/ns/pid"}),
                                   *({"type": name} for name in ("ipc", "uts", "mount"))],
                    "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"],
                    "readonlyPaths": [
                        "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"
                    ]
                },
            })

    def shown_by_sidecar(self, service, without=()):
        """What of PAYS a sidecar shows within some seconds. Waits for what it should show, not for what it should not."""
        receiver = session.Receiver(self)
        box = self.sidecar(service.pid, without, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
                           SPANPROF_FREQUENCY="499", SPANPROF_METRICS="127.0.0.1:0", SPANPROF_EXPORT_INTERVAL="1s")
        shown = set()

        def look():
            if "profiles go to" in box.output:
                shown.add("it samples")
            if any(s.span_id for path in receiver.paths() for s in otlp_read.samples(path)):
                shown.add("spans of the pod")
            with contextlib.suppress(OSError):
                status = pathlib.Path(f"/proc/{box.pid}/status").read_text()
                if re.search(rf"Uid:(\s+{OWN_USER}){{4}}\n", status):
                    shown.add("a user of its own")
                if re.search(r"CapBnd:\s*0+\n", status):
                    shown.add("no way back to root")
            if box.execute(container_of("sidecar.yaml")["livenessProbe"]["exec"]["command"]) == (0, "ok\n"):
                shown.add("the probe")
            return shown == set(PAYS.values())

        with contextlib.suppress(AssertionError):
            tap.wait_until(look, "all of it", 12 if without else 2 * tap.PATIENCE)
        box.remove()
        return shown
