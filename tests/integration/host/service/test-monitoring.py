#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alert rules and dashboard ask for metrics that exist, by labels that exist."""
import json
import re

import prometheus
import tap

FOLDER = tap.SOURCE_DIR / "packaging/monitoring"
RULES = tap.SOURCE_DIR / "packaging/helm/spanprof/files/spanprof.rules.yaml"
FROM_PROMETHEUS = ("instance", "cluster", "node")       # labels that it adds, not we
VARIABLES = ("$instance", "$cluster", "$node")


def known():
    """Metric → label → values, as a daemon would serve them: from the sources, not from a run."""
    families = {}
    table = (tap.SOURCE_DIR / "bpf/border/counters.h").read_text()
    for metric, label, value in re.findall(r'X\(\w+, "(\w+)", "(?:(\w+)=\\"(\w+)\\")?"', table):
        name = "spanprof_" + metric.replace("_nanoseconds_total", "_seconds_total")
        families.setdefault(name, {}).setdefault(label, set()).add(value)
    for name in re.findall(r'append_number\(text, "(\w+)"',
                           (tap.SOURCE_DIR / "daemon/host/service/control/metrics.c").read_text()):
        families[name] = {}
    families["spanprof_build_info"] = {}
    files = (tap.SOURCE_DIR / "daemon/host/service/run/kernel-files.c").read_text()
    families["spanprof_kernel_file_readable"] = {
        "file": set(re.findall(r'\[KERNEL_FILE_\w+\] = \{ "([\w-]+)", "/', files))
    }
    # labels whose values are those of services: check-metrics.py holds the table against the sources
    for name, labels in re.findall(r"(?m)^\| `(\w+)` \| \w+ \| `([\w, ]+)` \|",
                                   (tap.SOURCE_DIR / "docs/METRICS.md").read_text()):
        for label in labels.split(", "):
            families.setdefault(name, {}).setdefault(label, set())
    exports = (tap.SOURCE_DIR / "daemon/host/service/control/exports.c").read_text()
    for name in re.findall(r'^        \{ "(\w+)", "[^"]+",\s', exports, re.M):
        families[f"spanprof_receiver_{name}"] = {"receiver": {"[export]"}}
    families["spanprof_certificate_end_seconds"] = {
        "receiver": {"[export]"},
        "certificate": set(re.findall(r'"(\w+)"', re.search(r"certificate_names\[\] = \{(.+?)\}", exports)[1]))
    }
    return families


def problems(expression, families):
    for name, labels in re.findall(r"\b((?:spanprof|process)_\w+)(?:\{([^}]*)\})?", expression):
        if name not in families:
            yield f"{name} does not exist: {expression}"
            continue
        for label, values in re.findall(r'(\w+)[=!]~?"([^"]*)"', labels):
            if label in FROM_PROMETHEUS:
                continue
            if label not in families[name]:
                yield f"{name} has no label {label}: {expression}"
            for value in values.split("|"):
                if value not in families[name].get(label, ()):
                    yield f"{name}: {label} is never {value}: {expression}"
    for groups in re.findall(r"by \(([^)]*)\)", expression):
        for label in groups.split(","):
            names = re.findall(r"\b(spanprof_\w+)", expression)
            if label.strip() not in FROM_PROMETHEUS and not any(label.strip() in families.get(n, {})
                                                                for n in names):
                yield f"no metric has the label {label}: {expression}"
    if expression.count("(") != expression.count(")") or expression.count("{") != expression.count("}"):
        yield f"brackets: {expression}"


def without_variables(expression):
    for variable in VARIABLES:
        expression = expression.replace(variable, ".*")
    return expression


class Monitoring(tap.TestCase):
    def test_the_check_finds_mistakes(self):
        families = known()
        self.assertIn("ring_full", families["spanprof_lost_total"]["reason"])
        self.assertIn("kallsyms", families["spanprof_kernel_file_readable"]["file"])
        self.assertEqual(len(list(problems('rate(spanprof_lots_total[5m])', families))), 1)
        self.assertEqual(len(list(problems('rate(spanprof_lost_total{cause="stop"}[5m])', families))), 2)
        self.assertEqual(len(list(problems('rate(spanprof_lost_total{reason="bad luck"}[5m])', families))), 1)
        self.assertEqual(len(list(problems('sum by (reason) (rate(spanprof_ticks_total[5m]))', families))), 1)

    def test_the_lint_of_metrics_finds_mistakes(self):
        good = "# HELP a_total x\n# TYPE a_total counter\na_total{b=\"c\"} 1\n"
        self.assertEqual(prometheus.lint(prometheus.parse(good)), [])
        for bad in (good.replace("counter", "gauge"), good.replace("HELP a_total x", "HELP a_total "),
                    good.replace("a_total", "a_milliseconds_total"), good.replace("a_total", "aB_total")):
            self.assertTrue(prometheus.lint(prometheus.parse(bad)), bad)
        for bad in (good[:-1], good + 'a_total{b="c"} 2\n', good + "b 1\n", good.replace('"c"', "c")):
            with self.assertRaises(ValueError):
                prometheus.parse(bad)

    def test_alerts_ask_for_what_exists(self):
        text = RULES.read_text()
        rules = re.split(r"^      - alert: ", text, flags=re.M)[1:]
        self.assertGreater(len(rules), 5)
        for rule in rules:
            expression = re.search(r"^        expr: (.+)$", rule, re.M)
            self.assertIsNotNone(expression, rule)
            self.assertEqual(list(problems(expression[1], known())), [])
            self.assertRegex(rule, r"labels: \{severity: (info|warning|critical)\}")
            self.assertRegex(rule, r'summary: ".+"')
            section = re.search(r'^          runbook: "\S+/OPERATING.md#(\w+)"$', rule, re.M)
            self.assertIsNotNone(section, rule)
            self.assertIn('runbook: "/usr/share/doc/spanprof/OPERATING.md#', rule)
            self.assertEqual(section[1], rule.split()[0].lower())
            self.assertRegex((tap.SOURCE_DIR / "docs/OPERATING.md").read_text(),
                             rf"(?m)^### {rule.split()[0]}\n- Means: .+\n- See: `.+`\n- Do: .+\n")
        self.assertEqual(len({rule.split()[0] for rule in rules}), len(rules))

    def test_packages_install_what_alerts_link_to_as_plain_text(self):
        """dh_compress packs documents, and then no such file is there."""
        packaging = tap.SOURCE_DIR / "packaging"
        self.assertIn("docs/OPERATING.md", (packaging / "debian/spanprof.docs").read_text().split())
        self.assertIn("dh_compress -XOPERATING.md\n", (packaging / "debian/rules").read_text())
        self.assertRegex((packaging / "rpm/spanprof.spec").read_text(), r"(?m)^%doc .*docs/OPERATING\.md( |$)")

    def test_alerts_are_valid_for_prometheus(self):
        text = RULES.read_text()
        n = len(re.findall(r"^      - alert: ", text, re.M))
        self.assertEqual(prometheus.judge(self, "rules", RULES), (0, [f"{n} rules"]))
        broken = self.directory() / "rules.yaml"
        for what, instead in (("expr: ", "expr: )"), ("for: ", "fore: "), ("{{ $", "{{ $nothing"),
                              ("severity:", "not-a-label:")):
            with self.subTest(broken=what):
                self.assertIn(what, text)
                broken.write_text(text.replace(what, instead, 1))
                self.assertEqual(prometheus.judge(self, "rules", broken)[0], 1)

    def test_dashboard_asks_for_what_exists(self):
        board = json.loads((FOLDER / "spanprof-dashboard.json").read_text())
        expressions = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
        expressions += [v["query"] for v in board["templating"]["list"] if v["type"] == "query"]
        self.assertGreater(len(expressions), 10)
        for expression in expressions:
            self.assertEqual(list(problems(without_variables(expression), known())), [])
        self.assertEqual(len({panel["id"] for panel in board["panels"]}), len(board["panels"]))

    def test_dashboard_has_cpu_by_operation_and_memory(self):
        board = json.loads((FOLDER / "spanprof-dashboard.json").read_text())
        panels = {panel["title"]: " ".join(t["expr"] for t in panel["targets"]) for panel in board["panels"]}
        self.assertIn("by (service, operation) (rate(spanprof_span_cpu_seconds_total{", panels["CPU by operation"])
        self.assertIn("by (service, operation) (rate(spanprof_span_allocated_bytes_total{",
                      panels["Bytes allocated by operation"])
        self.assertIn("process_resident_memory_bytes", panels["Memory of the daemon"])
        wrong = panels["CPU by operation"].replace("operation", "route")
        self.assertTrue(list(problems(without_variables(wrong), known())))

    def test_dashboard_chooses_by_cluster_and_node(self):
        board = json.loads((FOLDER / "spanprof-dashboard.json").read_text())
        self.assertEqual([v["name"] for v in board["templating"]["list"]],
                         ["datasource", "cluster", "node", "instance"])
        for panel in board["panels"]:
            for target in panel["targets"]:
                for variable in VARIABLES:
                    self.assertIn(f'{variable[1:]}=~"{variable}"', target["expr"])

    def test_queries_of_the_dashboard_are_valid_for_prometheus(self):
        board = json.loads((FOLDER / "spanprof-dashboard.json").read_text())
        # what Grafana puts there itself
        queries = [
            without_variables(t["expr"].replace("$__rate_interval", "5m"))
            for panel in board["panels"] for t in panel["targets"]
        ]
        self.assertEqual(prometheus.judge(self, "queries", text="\n".join(queries)), (0, []))
        self.assertEqual(
            prometheus.judge(self, "queries", text="\n".join([queries[0] + ")", "rate(up)"]))[0], 1)


tap.main()
