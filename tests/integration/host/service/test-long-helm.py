#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Helm chart, by Helm itself: what it makes follows the API, and its configuration is one that `run` takes."""
import oracle

oracle.enter()

import importlib
import json
import os
import pathlib
import re
import subprocess

import tap

CHART = tap.SOURCE_DIR / "packaging/helm/spanprof"
VERSIONS = ("1.29.0", "1.37.0")         # as in test-container.py
# of the Prometheus operator, for which kubeconform has no schema here
OTHERS = ("PodMonitor", "PrometheusRule")
IMAGE = "image.repository=registry.example/spanprof"    # as in the examples
KINDS = ("daemonset", "priorityclass", "configmap", "networkpolicy", "serviceaccount", "clusterrole",
         "clusterrolebinding")
EVERYTHING = ("targets.java=true", "targets.python=true", "targets.exe={node,/opt/shop/*}", "targets.exclude={comm=x}",
              "targets.containers={*}", "metrics.podMonitor=true", "metrics.rules=true", "podsFromApi=true",
              "paranoidNodes=true", "symbols=local",
              "resourceAttributes.k8s\\.cluster\\.name=c1", "image.pullSecrets[0].name=s", "nodeSelector.disk=ssd")


class Chart(tap.TestCase):
    def setUp(self):
        oracle.need()
        self.yaml = importlib.import_module("yaml")
        for name in ("helm", "kubeconform"):
            if not (tap.BUILD_DIR / name).exists():
                done = subprocess.run(["sh", tap.SOURCE_DIR / "tests/interop/setup-helm.sh", tap.BUILD_DIR],
                                      capture_output=True, text=True)
                if done.returncode:
                    tap.skip(f"machine: no {name}: {done.stderr.strip().splitlines()[-1]}")

    def helm(self, *arguments):
        home = self.directory()
        return self.run_command([tap.BUILD_DIR / "helm", *arguments],
                                env={**os.environ, "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")})

    def make(self, *values, file="/dev/null", expect=0):
        """The objects that the chart makes with these values, of an image that has a place."""
        done = self.helm("template", "profiler", CHART, "--namespace", "observed", "--kube-version", VERSIONS[0],
                         "--values", file, *(word for value in (IMAGE, *values) for word in ("--set", value)))
        self.assertEqual(done.returncode, expect, done.stderr)
        return [d for d in self.yaml.safe_load_all(done.stdout) if d] if not expect else done.stderr

    def of(self, objects, kind):
        return next(d for d in objects if d["kind"] == kind)

    def configuration(self, objects):
        """The text of its files, each of which `config check` takes."""
        folder = self.directory()
        for name, text in self.of(objects, "ConfigMap")["data"].items():
            (folder / name).write_text(text)
        for path in folder.iterdir():
            # its spool is a directory of the pod
            path.write_text(path.read_text().replace("/var/lib/spanprof/spool", str(self.directory() / "spool")))
            self.spanprof("config", "check", path)
        return "".join(path.read_text() for path in sorted(folder.iterdir()))

    def example_configuration(self):
        """What the DaemonSet of the examples says, without its comments."""
        objects = self.yaml.safe_load_all((tap.SOURCE_DIR / "packaging/kubernetes/daemonset.yaml").read_text())
        return re.sub(r"(?m)^#.*\n", "", self.configuration(objects))

    def schemas(self):
        """Those of kubernetes_validate, with references that a reader of files can follow."""
        package = pathlib.Path(importlib.import_module("kubernetes_validate").__file__).parent
        folder = self.directory()
        for version in VERSIONS:
            (folder / f"v{version}").mkdir()
            for path in (package / f"kubernetes-json-schema/v{version}-local-strict").glob("*.json"):
                if path.name.split("-")[0] in KINDS or path.name == "_definitions.json":
                    text = path.read_text().replace('"/api/_definitions.json#', '"_definitions.json#')
                    text = text.replace("#/$defs/", "#/definitions/").replace('"$defs"', '"definitions"')
                    schema = json.loads(text)
                    # an address on the network, to which others would be relative
                    schema.pop("$id", None)
                    schema.pop("$schema", None)
                    (folder / f"v{version}" / path.name).write_text(json.dumps(schema))
        return folder

    def test_helm_finds_no_fault(self):
        for values in ((), EVERYTHING):
            done = self.helm("lint", "--strict", CHART, *(w for v in (IMAGE, *values) for w in ("--set", v)))
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_it_makes_follows_the_api(self):
        location = f"{self.schemas()}/{{{{ .NormalizedKubernetesVersion }}}}/{{{{ .ResourceKind }}}}" \
            "{{ .KindSuffix }}.json"
        for values in ((), EVERYTHING, ("spool.hostPath=", "metrics.from=", "priorityClass.create=false")):
            objects = self.make(*values)
            path = self.directory() / "objects.yaml"
            path.write_text(self.yaml.safe_dump_all(d for d in objects if d["kind"] not in OTHERS))
            for version in VERSIONS:
                command = [tap.BUILD_DIR / "kubeconform", "-strict", "-kubernetes-version", version,
                           "-schema-location", location]
                done = self.run_command([*command, path])
                self.assertEqual(done.returncode, 0, done.stdout)
            self.of(objects, "DaemonSet")["spec"]["template"]["spec"]["hostPid"] = True
            path.write_text(self.yaml.safe_dump_all(objects[:]))
            self.assertNotEqual(self.run_command([*command, path]).returncode, 0, "it finds a misspelt key")

    def test_its_configuration_is_taken(self):
        both = "publishers = on\nexe = java, python, python[23]*\n"
        self.assertIn(both, self.configuration(self.make()))
        self.assertIn(both, self.example_configuration())
        alone = self.configuration(self.make("targets.java=false", "targets.python=false"))
        self.assertIn("publishers = on\n", alone)
        self.assertNotIn("exe =", alone)
        self.assertIn("publishers = off\n", self.configuration(self.make("targets.publishers=false")))
        text = self.configuration(self.make(*EVERYTHING))
        self.assertIn("exe = node, /opt/shop/*, java, python, python[23]*\n", text)
        self.assertIn("container = *\n", text)
        self.assertIn("symbols = local\n", text)
        self.assertIn("frequency = 49", self.configuration(self.make("config=[sampling]\nfrequency = 49")))

    def test_a_file_of_values_reaches_it_unchanged(self):
        path = self.directory() / "values.yaml"
        path.write_text(json.dumps({"priorityClass": {"value": 10**6}, "spool": {"maxBytes": 2**31}, "maxMemory": 2**29,
                                    "resourceAttributes": {"build": 2 * 10**6, "part": 0.5, "team": "a: b #c"}}))
        objects = self.make(file=path)
        self.assertEqual(self.of(objects, "PriorityClass")["value"], 10**6)
        text = self.configuration(objects)
        self.assertIn(f"spool-max-bytes = {2**31}\n", text)
        self.assertIn(f"max-memory = {2**29}\n", text)
        container = self.of(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
        self.assertTrue(next(e["value"] for e in container["env"] if e["name"] == "SPANPROF_RESOURCE_ATTRIBUTES")
                        .endswith(",build=2000000,part=0.5,team=a: b #c"))

    def test_it_is_the_daemonset_of_the_examples(self):
        """But for what is a value: names, labels, the spool's option, and the annotations."""
        def core(daemonset):
            pod = daemonset["spec"]["template"]["spec"]
            container = pod["containers"][0]
            for key in ("priorityClassName", "volumes"):
                pod.pop(key)
            for key in ("args", "imagePullPolicy"):
                container.pop(key, None)
            return pod

        example = list(self.yaml.safe_load_all((tap.SOURCE_DIR / "packaging/kubernetes/daemonset.yaml").read_text()))
        self.assertEqual(core(self.of(self.make(), "DaemonSet")), core(self.of(example, "DaemonSet")))

    def test_the_api_server_is_asked_by_options_that_run_takes(self):
        pod = self.of(self.make("podsFromApi=true"), "DaemonSet")["spec"]["template"]["spec"]
        asked = {e["name"]: e["value"] for e in pod["containers"][0]["env"] if e["name"].startswith("SPANPROF_PODS_")}
        secrets = self.directory()
        for name in ("token", "ca.crt"):
            (secrets / name).write_text("x")
        asked = {key: re.sub("^/var/run/secrets/kubernetes.io/serviceaccount", str(secrets), value)
                 for key, value in asked.items()}
        done = self.spanprof("config", "show", env={**os.environ, **asked})
        for key, value in asked.items():
            option = key.removeprefix("SPANPROF_").lower().replace("_", "-")
            self.assertRegex(done.stdout, rf"(?m)^{option} += {re.escape(value)} +# {key}$")

    def test_values_reach_the_pod(self):
        objects = self.make(*EVERYTHING)
        pod = self.of(objects, "DaemonSet")["spec"]["template"]["spec"]
        environment = {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}
        self.assertEqual(environment["SPANPROF_RESOURCE_ATTRIBUTES"],
                         "host.name=$(NODE_NAME),k8s.node.name=$(NODE_NAME),k8s.cluster.name=c1")
        self.assertEqual(pod["nodeSelector"], {"disk": "ssd", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})
        for arch in ("arm64", ""):
            chosen = self.of(self.make(f"arch={arch}"), "DaemonSet")["spec"]["template"]["spec"]["nodeSelector"]
            self.assertEqual(chosen, {"kubernetes.io/os": "linux", **({"kubernetes.io/arch": arch} if arch else {})})
        self.assertEqual(pod["containers"][0]["securityContext"]["capabilities"]["add"][-1], "SYS_ADMIN")
        plain = self.of(self.make(), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
        self.assertNotIn("SYS_ADMIN", plain["securityContext"]["capabilities"]["add"])
        self.assertTrue(pod["automountServiceAccountToken"])
        self.assertTrue(environment["SPANPROF_PODS_URL"].endswith("=spec.nodeName=$(NODE_NAME)&resourceVersion=0"))
        account, role = (self.of(objects, kind) for kind in ("ServiceAccount", "ClusterRole"))
        binding = self.of(objects, "ClusterRoleBinding")
        self.assertEqual(pod["serviceAccountName"], account["metadata"]["name"])
        self.assertEqual(binding["subjects"], [{"kind": "ServiceAccount", **{key: account["metadata"][key]
                                                                             for key in ("name", "namespace")}}])
        self.assertEqual(binding["roleRef"]["name"], role["metadata"]["name"])
        self.assertEqual(role["rules"], [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}])
        rules = self.of(objects, "PrometheusRule")["spec"]["groups"]
        shipped = self.yaml.safe_load((CHART / "files/spanprof.rules.yaml").read_text())
        self.assertEqual(rules, shipped["groups"])
        self.assertIn("endpoint: where profiles go", self.make("endpoint=", expect=1))

    def test_an_image_that_no_registry_has_must_be_named(self):
        self.assertRegex(self.make("image.repository=", expect=1), "image.repository: no registry has the image; build it "
                         "by packaging/container/Containerfile, .* --set image.repository=REGISTRY/spanprof")
        container = self.of(self.make("image.tag=7"), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["image"], "registry.example/spanprof:7")


tap.main()
