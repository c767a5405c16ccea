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
# of the Prometheus operator and OpenShift, for which kubeconform has no schema here
OTHERS = ("PodMonitor", "PrometheusRule", "SecurityContextConstraints")
IMAGE = "image.repository=registry.example/spanprof"    # as in the examples
KINDS = ("daemonset", "priorityclass", "configmap", "secret", "networkpolicy", "serviceaccount", "clusterrole",
         "clusterrolebinding")
EVERYTHING = ("targets.java=true", "targets.python=true", "targets.exe={node,/opt/shop/*}", "targets.exclude={comm=x}",
              "targets.containers={*}", "metrics.podMonitor=true", "metrics.rules=true", "podsFromApi=true",
              "paranoidNodes=true", "symbols=local",
              "resourceAttributes.k8s\\.cluster\\.name=c1", "image.pullSecrets[0].name=s", "nodeSelector.disk=ssd")
# Each value of values.yaml, set to another than its default. What excludes another value is in another set.
COMPLETE = {
    "image": {"repository": "r.example/s", "tag": "7", "pullPolicy": "Always", "pullSecrets": [{"name": "pull"}]},
    "nameOverride": "cpu", "fullnameOverride": "", "endpoint": "https://o.example:4318", "backend": "parca",
    "headers": {"values": {"Authorization": "Bearer a,b=c%+d", "X-Shop": 7}, "secret": "", "key": "otlp"},
    "tls": {"secret": "tls", "ca": "authorities.pem", "certificate": "tls.crt", "key": "tls.key"},
    "resourceAttributes": {"team": "a"},
    "targets": {"publishers": False, "java": False, "python": False, "exe": ["node"], "containers": ["*"], "all": True,
                "exclude": ["comm=x"]},
    "podsDirectory": "/var/log/others", "podsFromApi": True, "podsLabels": ["team", "app.kubernetes.io/*"],
    "paranoidNodes": True, "seLinuxOptions": {"type": "spc_t", "level": "s0"}, "openshift": {"scc": True},
    "appArmorProfile": {"type": "Localhost", "localhostProfile": "profiler"}, "symbols": "local", "frequency": 49,
    "maxCpu": 7, "maxMemory": "256MiB", "config": "[sampling]\ndepth = 64\n",
    "spool": {"hostPath": "/data/spanprof/", "maxBytes": "2GiB"},
    "metrics": {"port": 9999, "podMonitor": True, "runbookUrl": "https://wiki.example/spanprof",
                "rules": True, "from": [{"podSelector": {"matchLabels": {"a": "b"}}}]},
    "resources": {"limits": {"memory": "300Mi"}},
    "priorityClass": {"create": True, "value": 5, "name": ""},
    "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}},
    "tolerations": [{"key": "gpu", "operator": "Exists"}], "arch": "arm64", "nodeSelector": {"disk": "ssd"},
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}},
    "podLabels": {"team": "a"}, "podAnnotations": {"prometheus.io/scrape": "false"},
    "extraEnv": [{"name": "https_proxy", "value": "http://proxy.example:3128"}],
    "envFrom": [{"secretRef": {"name": "more"}}],
    "extraVolumes": [{"name": "debug", "hostPath": {"path": "/usr/lib/debug"}}],
    "extraVolumeMounts": [{"name": "debug", "mountPath": "/usr/lib/debug", "readOnly": True}],
}
SECOND = {**COMPLETE, "fullnameOverride": "profiles", "headers": {"values": {}, "secret": "mine", "key": "otlp"},
          "priorityClass": {"create": False, "value": 1000, "name": "theirs"}, "updateStrategy": {"type": "OnDelete"}}
THIRD = {**COMPLETE, "priorityClass": {"create": False, "value": 5, "name": ""}}
# how each wrong value is refused
WRONG = (
    ({"url": "http://o.example:4318"}, "Additional property url is not allowed"),
    ({"endpoint": "collector:4318"}, "endpoint: Does not match pattern '^((https?://|unix:)"),
    ({"backend": "tempo"}, 'backend: backend must be one of the following: "otlp", "pyroscope", "parca"'),
    ({"symbols": "yes"}, 'symbols: symbols must be one of the following: "", "remote", "local", "upload"'),
    ({"frequency": "often"}, "frequency: Invalid type. Expected: integer, given: string"),
    ({"frequency": 20000}, "frequency: Must be less than or equal to 10000"),
    ({"maxMemory": "384Mi B"}, "maxMemory: Does not match pattern"),
    ({"image": {"pullPolicy": "Sometimes"}}, "image.pullPolicy must be one of the following"),
    ({"targets": {"exe": "node"}}, "targets.exe: Invalid type. Expected: array, given: string"),
    ({"targets": {"exe": ["a\nall = on"]}}, "targets.exe.0: Does not match pattern"),
    ({"metrics": {"port": 0}}, "metrics.port: Must be greater than or equal to 1"),
    ({"metrics": {"runbookUrl": "wiki/spanprof"}}, "metrics.runbookUrl: Does not match pattern"),
    ({"arch": "x86_64"}, 'arch: arch must be one of the following: "", "amd64", "arm64"'),
    ({"updateStrategy": {"type": "Recreate"}}, "updateStrategy.type must be one of the following"),
    ({"podLabels": {"app.kubernetes.io/name": "x"}}, 'Property name of "app.kubernetes.io/name" does not match'),
    ({"extraEnv": {"https_proxy": "x"}}, "extraEnv: Invalid type. Expected: array, given: object"),
    ({"extraVolumeMounts": [{"name": "x"}]}, "extraVolumeMounts.0: mountPath is required"),
    ({"fullnameOverride": "Big_Name"}, "fullnameOverride: Does not match pattern"),
    ({"headers": {"values": {"a": "b"}, "secret": "mine"}}, "headers.values and headers.secret: set one of them"),
    ({"tls": {"secret": "t", "certificate": "c"}}, "tls.certificate and tls.key: set both, to keys of tls.secret"),
    ({"tls": {"certificate": "c", "key": "k"}}, "tls.secret: name the Secret whose keys"),
    ({"tls": {"secret": "t", "ca": ""}}, "tls.ca, tls.certificate: name at least one key of tls.secret"),
    ({"seLinuxOptions": {"kind": "spc_t"}}, "seLinuxOptions: Additional property kind is not allowed"),
    ({"openshift": {"scc": "yes"}}, "openshift.scc: Invalid type. Expected: boolean, given: string"),
    ({"appArmorProfile": {"type": "Off"}}, "appArmorProfile.type must be one of the following"),
    ({"appArmorProfile": {"type": "Localhost"}}, "appArmorProfile.localhostProfile: the name of a profile of the node"),
    ({"appArmorProfile": {"type": "Unconfined", "localhostProfile": "x"}}, "with type Localhost alone"),
    ({"podsLabels": ["team"]}, "podsLabels: labels come from the API server; set podsFromApi=true, too"),
    ({"tls": {"secret": "t"}}, "endpoint: tls.secret is for https, and this is http://otel-collector.monitoring:4318"),
)


def leaves(values, path=()):
    """Paths of values: of those in maps of values.yaml that have keys of their own."""
    return [leaf for key, value in values.items() for leaf in
            (leaves(value, (*path, key)) if isinstance(value, dict) and key in NESTED else [(*path, key)])]


def value_of(values, path):
    for key in path:
        values = values[key]
    return values


def with_value(values, path, value):
    """A copy of values, changed in one place."""
    return {**values, path[0]: with_value(values[path[0]], path[1:], value) if path[1:] else value}


NESTED = ("image", "headers", "tls", "targets", "openshift", "spool", "metrics", "priorityClass")


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

    def render(self, values, release="profiler", namespace="observed", version=VERSIONS[0]):
        """What Helm says of the chart with these values."""
        path = self.directory() / "values.yaml"
        path.write_text(json.dumps(values))
        return self.helm("template", release, CHART, "--namespace", namespace, "--kube-version", version,
                         "--values", path)

    def objects(self, values, **where):
        done = self.render(values, **where)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [d for d in self.yaml.safe_load_all(done.stdout) if d]

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
        secrets = self.directory()
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (secrets / name).write_text("x")
        for path in folder.iterdir():
            # its spool is a directory of the pod, and so are files of Secrets
            path.write_text(path.read_text().replace("/var/lib/spanprof/spool", str(self.directory() / "spool"))
                            .replace("/etc/spanprof/tls", str(secrets)))
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

    def conforms(self, location, version, objects):
        """What kubeconform says of objects of a cluster of this version."""
        path = self.directory() / "objects.yaml"
        path.write_text(self.yaml.safe_dump_all(d for d in objects if d["kind"] not in OTHERS))
        return self.run_command([tap.BUILD_DIR / "kubeconform", "-strict", "-kubernetes-version", version,
                                 "-schema-location", location, path])

    def test_what_it_makes_follows_the_api(self):
        location = f"{self.schemas()}/{{{{ .NormalizedKubernetesVersion }}}}/{{{{ .ResourceKind }}}}" \
            "{{ .KindSuffix }}.json"
        made = [self.make(*values) for values in ((), EVERYTHING, ("spool.hostPath=", "metrics.from=",
                                                                   "priorityClass.create=false"))]
        for objects in (*made, self.objects(COMPLETE), self.objects(SECOND)):
            for version in VERSIONS:
                done = self.conforms(location, version, objects)
                self.assertEqual(done.returncode, 0, done.stdout)
            self.of(objects, "DaemonSet")["spec"]["template"]["spec"]["hostPid"] = True
            self.assertNotEqual(self.conforms(location, version, objects).returncode, 0, "it finds a misspelt key")
        # of a newer cluster, whose containers have a field that 1.29 does not know
        objects = self.objects(COMPLETE, version=VERSIONS[1])
        answers = [self.conforms(location, version, objects) for version in VERSIONS]
        self.assertEqual([done.returncode for done in answers], [1, 0], answers)
        self.assertIn("'appArmorProfile' not allowed", answers[0].stdout)

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
        ours, theirs = self.of(self.make(), "DaemonSet"), self.of(example, "DaemonSet")
        self.assertEqual(ours["spec"]["updateStrategy"], theirs["spec"]["updateStrategy"])
        self.assertEqual(core(ours), core(theirs))

    def test_the_api_server_is_asked_by_options_that_run_takes(self):
        pod = self.of(self.make("podsFromApi=true", "podsLabels={team,app*}"), "DaemonSet")["spec"]["template"]["spec"]
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

    def test_selinux_and_apparmor_reach_the_container(self):
        """Of AppArmor by an annotation of the pod, where the cluster has no field for it."""
        annotation = "container.apparmor.security.beta.kubernetes.io/spanprof"
        for profile, text in (({}, None), ({"type": "Unconfined"}, "unconfined"),
                              ({"type": "RuntimeDefault"}, "runtime/default"),
                              (COMPLETE["appArmorProfile"], "localhost/profiler")):
            values = {**COMPLETE, "appArmorProfile": profile}
            for version, field, expected in ((VERSIONS[0], None, text), ("1.30.0", profile or None, None),
                                             (VERSIONS[1], profile or None, None)):
                pod = self.of(self.objects(values, version=version), "DaemonSet")["spec"]["template"]
                container = pod["spec"]["containers"][0]
                self.assertEqual(container["name"], annotation.split("/")[1])
                self.assertEqual(container["securityContext"].get("appArmorProfile"), field)
                self.assertEqual(pod["metadata"]["annotations"].get(annotation), expected)
                self.assertEqual(container["securityContext"]["seLinuxOptions"], COMPLETE["seLinuxOptions"])

    def test_openshift_s_constraints_allow_what_the_pod_asks_for(self):
        """And no more of what makes a container strong: in the words of each, one beside the other."""
        for values in (COMPLETE, {**COMPLETE, "paranoidNodes": False, "podsFromApi": False, "podsLabels": []}):
            objects = self.objects(values)
            constraints = self.of(objects, "SecurityContextConstraints")
            account = self.of(objects, "ServiceAccount")["metadata"]
            pod = self.of(objects, "DaemonSet")["spec"]["template"]["spec"]
            context = pod["containers"][0]["securityContext"]
            self.assertEqual(pod["serviceAccountName"], account["name"])
            self.assertEqual((constraints["users"], constraints["groups"]),
                             ([f"system:serviceaccount:{account['namespace']}:{account['name']}"], []))
            self.assertEqual(constraints["allowedCapabilities"], context["capabilities"]["add"])
            self.assertEqual(constraints["requiredDropCapabilities"], context["capabilities"]["drop"])
            self.assertEqual(constraints["seccompProfiles"], [context["seccompProfile"]["type"].lower()])
            ports = pod["containers"][0]["ports"]
            for allowed, asked in (("allowPrivilegedContainer", context["privileged"]),
                                   ("allowPrivilegeEscalation", context["allowPrivilegeEscalation"]),
                                   ("readOnlyRootFilesystem", context["readOnlyRootFilesystem"]),
                                   ("allowHostPID", pod["hostPID"]), ("allowHostIPC", pod.get("hostIPC", False)),
                                   ("allowHostNetwork", pod.get("hostNetwork", False)),
                                   ("allowHostPorts", any("hostPort" in port for port in ports))):
                self.assertEqual(constraints[allowed], asked, allowed)
            kinds = {key for volume in pod["volumes"] for key in volume if key != "name"}
            # projected: the account's token
            self.assertLessEqual(kinds | {"projected"}, set(constraints["volumes"]))
            self.assertTrue(constraints["allowHostDirVolumePlugin"])
            self.assertFalse([d for d in objects if d["kind"] == "ClusterRole"] and not values["podsFromApi"])
        self.assertFalse({"SecurityContextConstraints", "ServiceAccount"} & {d["kind"] for d in self.make()})

    def test_each_value_is_known_described_and_changes_what_is_made(self):
        default = self.yaml.safe_load((CHART / "values.yaml").read_text())
        schema = json.loads((CHART / "values.schema.json").read_text())
        words = set(re.findall(r"`([\w.]+)`", (CHART / "README.md").read_text()))
        self.assertEqual(set(leaves(COMPLETE)), set(leaves(default)))
        self.assertEqual({*default, "global"}, set(schema["properties"]))
        for key in NESTED:
            self.assertEqual(set(default[key]), set(schema["properties"][key]["properties"]), key)
        whole = [(values, self.render(values).stdout) for values in (COMPLETE, SECOND, THIRD)]
        for path in leaves(default):
            self.assertIn(".".join(path), words)
            # a refusal is a change, too
            self.assertTrue(any(self.render(with_value(values, path, value_of(default, path))).stdout != text
                                for values, text in whole), path)

    def test_with_every_value_its_configuration_is_taken_and_reaches_the_pod(self):
        objects = self.objects(COMPLETE)
        text = self.configuration(objects)
        for line in ("endpoint = https://o.example:4318", "backend = parca", "symbols = local", "frequency = 49", "depth = 64",
                     "spool-max-bytes = 2GiB", "metrics = 0.0.0.0:9999", "max-cpu = 7", "max-memory = 256MiB", "all = on"):
            self.assertIn(line + "\n", text)
        for option, name in (("certificate", "ca.crt"), ("client-certificate", "tls.crt"), ("client-key", "tls.key")):
            self.assertRegex(text, rf"(?m)^{option} = /.*/{name}$")
        daemonset = self.of(objects, "DaemonSet")
        pod = daemonset["spec"]["template"]["spec"]
        container = pod["containers"][0]
        for key in ("affinity", "tolerations"):
            self.assertEqual(pod[key], COMPLETE[key])
        self.assertEqual(daemonset["spec"]["updateStrategy"], COMPLETE["updateStrategy"])
        metadata = daemonset["spec"]["template"]["metadata"]
        self.assertEqual(metadata["labels"]["team"], "a")
        self.assertEqual(metadata["annotations"]["prometheus.io/scrape"], "false")
        self.assertEqual(container["envFrom"], COMPLETE["envFrom"])
        for inside, key in ((container["env"], "extraEnv"), (container["volumeMounts"], "extraVolumeMounts"),
                            (pod["volumes"], "extraVolumes")):
            self.assertEqual(inside[-1:], COMPLETE[key])
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        self.assertEqual(volumes["tls"]["secret"]["items"], [
            {"key": "authorities.pem", "path": "ca.crt"}, {"key": "tls.crt", "path": "tls.crt"},
            {"key": "tls.key", "path": "tls.key"}])
        self.assertIn({"name": "tls", "mountPath": "/etc/spanprof/tls", "readOnly": True}, container["volumeMounts"])

    def test_headers_come_from_a_secret_and_run_takes_them(self):
        def reference(objects):
            container = self.of(objects, "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
            return next(e["valueFrom"]["secretKeyRef"] for e in container["env"] if e["name"] == "SPANPROF_HEADERS")

        objects = self.objects(COMPLETE)
        secret = self.of(objects, "Secret")
        self.assertEqual(reference(objects), {"name": secret["metadata"]["name"], "key": "otlp"})
        text = secret["stringData"]["otlp"]
        # RFC 3986: what is no letter of a name stands as its byte
        self.assertEqual(text, "Authorization=Bearer%20a%2Cb%3Dc%25%2Bd,X-Shop=7")
        self.assertNotIn("Bearer", str([d for d in objects if d["kind"] != "Secret"]))
        shown = self.spanprof("config", "show", env={**os.environ, "SPANPROF_HEADERS": text}).stdout
        self.assertRegex(shown, "(?m)^headers += .*# SPANPROF_HEADERS$")
        objects = self.objects(SECOND)
        self.assertEqual(reference(objects), {"name": "mine", "key": "otlp"})
        self.assertFalse([d for d in objects if d["kind"] == "Secret"])

    def test_a_priority_class_is_the_release_s_own_or_theirs_or_none(self):
        def names(values):
            objects = self.objects(values)
            return (self.of(objects, "DaemonSet")["spec"]["template"]["spec"].get("priorityClassName"),
                    [d["metadata"]["name"] for d in objects if d["kind"] == "PriorityClass"])

        own = "observed-profiler-cpu"
        self.assertEqual(names(COMPLETE), (own, [own]))
        self.assertEqual(names(SECOND), ("theirs", []))
        self.assertEqual(names(THIRD), (None, []))

    def test_alerts_link_to_the_runbook_by_one_setting(self):
        rules = [rule for group in self.of(self.objects(COMPLETE), "PrometheusRule")["spec"]["groups"]
                 for rule in group["rules"]]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            self.assertEqual(rule["annotations"]["runbook_url"],
                             f"https://wiki.example/spanprof#{rule['alert'].lower()}")
            self.assertNotIn("runbook", rule["annotations"])

    def test_a_change_of_headers_starts_the_pods_again(self):
        def checksum(value):
            objects = self.objects(with_value(COMPLETE, ("headers", "values"), {"Authorization": value}))
            return self.of(objects, "DaemonSet")["spec"]["template"]["metadata"]["annotations"]["checksum/configuration"]

        self.assertEqual(checksum("a"), checksum("a"))
        self.assertNotEqual(checksum("a"), checksum("b"))

    def test_two_releases_stand_side_by_side(self):
        """Of two releases, no two objects have one kind, namespace and name, and no two pods one folder of the node."""
        plain = {"podsFromApi": True, **{key: COMPLETE[key] for key in ("image", "headers", "metrics")}}
        there = [("spanprof", "observed"), ("canary", "observed"), ("spanprof", "other")]
        seen, folders = set(), set()
        for release, namespace in there:
            objects = self.objects(plain, release=release, namespace=namespace)
            names = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in objects}
            self.assertFalse(names & seen)
            seen |= names
            volumes = self.of(objects, "DaemonSet")["spec"]["template"]["spec"]["volumes"]
            folders.add(next(v["hostPath"]["path"] for v in volumes if v["name"] == "spool"))
        self.assertEqual(len(folders), len(there))
        self.assertIn(("DaemonSet", "observed", "spanprof"), seen)
        self.assertIn(("DaemonSet", "observed", "canary-spanprof"), seen)

    def test_a_wrong_value_is_told(self):
        for values, text in WRONG:
            done = self.render({"image": {"repository": "r.example/s"}, **values})
            self.assertNotEqual(done.returncode, 0, values)
            self.assertIn(text, done.stderr)

    def test_an_image_that_no_registry_has_must_be_named(self):
        self.assertRegex(self.make("image.repository=", expect=1), "image.repository: no registry has the image; build it "
                         "by packaging/container/Containerfile, .* --set image.repository=REGISTRY/spanprof")
        container = self.of(self.make("image.tag=7"), "DaemonSet")["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["image"], "registry.example/spanprof:7")


tap.main()
