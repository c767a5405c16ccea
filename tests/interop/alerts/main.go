// SPDX-License-Identifier: Apache-2.0

// Prometheus' engine of rules over series of somebody's choice: which alerts fire, and when.
//
//	alerts FILE <SERIES
//
// SERIES are lines as promtool's tests write them, a value a minute: up{job="spanprof"} 1x60. The rules of FILE are judged each
// minute until the longest series ends. The answer is JSON, one entry for each minute in which an alert fires:
// [{"minute": 5, "alert": NAME, "labels": {…}, "annotations": {…}}, …].
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
)

type firing struct {
	Minute      int               `json:"minute"`
	Alert       string            `json:"alert"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func minutes(series []string, words parser.Parser) (n int, err error) {
	for _, line := range series {
		_, values, err := words.ParseSeriesDesc(line)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", line, err)
		}
		n = max(n, len(values))
	}
	return n, nil
}

func judge(file string, series []string) (fired []firing, err error) {
	words := parser.NewParser(parser.Options{})
	n, err := minutes(series, words)
	if err != nil {
		return nil, err
	}
	store, err := promqltest.NewLazyLoader("load 1m\n  "+strings.Join(series, "\n  "),
		promqltest.LazyLoaderOpts{EnableAtModifier: true, EnableNegativeOffset: true})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute,
		EnableAtModifier: true, EnableNegativeOffset: true,
		NoStepSubqueryIntervalFn: func(int64) int64 { return time.Minute.Milliseconds() }})
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc:  rules.EngineQueryFunc(engine, store.Storage()),
		Appendable: store.Storage(),
		Context:    context.Background(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
		Logger:     promslog.NewNopLogger(),
		Parser:     words,
	})
	groups, problems := manager.LoadGroups(time.Minute, labels.EmptyLabels(), "", nil, false, file)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	fired = []firing{}
	for minute := 0; minute < n && err == nil; minute++ {
		now := time.Unix(int64(minute)*60, 0).UTC()
		store.WithSamplesTill(now, func(failed error) {
			err = failed
			for _, group := range groups {
				group.Eval(store.Context(), now)
			}
		})
		for _, group := range groups {
			for _, rule := range group.AlertingRules() {
				if rule.LastError() != nil {
					return nil, fmt.Errorf("%s: %w", rule.Name(), rule.LastError())
				}
				for _, alert := range rule.ActiveAlerts() {
					if alert.State == rules.StateFiring {
						fired = append(fired, firing{minute, rule.Name(), alert.Labels.Map(), alert.Annotations.Map()})
					}
				}
			}
		}
	}
	return fired, err
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: alerts FILE <SERIES")
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	fired, err := judge(os.Args[1], strings.Split(strings.TrimSpace(string(text)), "\n"))
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(fired)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "alerts:", err)
		os.Exit(1)
	}
}
