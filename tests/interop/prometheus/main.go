// SPDX-License-Identifier: Apache-2.0

// What of Prometheus judges our files: the linter and the parser of rules that promtool is made of, and PromQL's own parser.
//
//	prometheus metrics <TEXT       problems of a page of /metrics
//	prometheus rules FILE          problems of alert rules; the number of rules
//	prometheus queries <TEXT       problems of expressions, one a line
//
// Exit status 1 if there is a problem.
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

func metrics() (problems []string, err error) {
	found, err := promlint.New(os.Stdin).Lint()
	for _, problem := range found {
		problems = append(problems, problem.Metric+": "+problem.Text)
	}
	return problems, err
}

func rules(path string) (problems []string, err error) {
	groups, found := rulefmt.ParseFile(path, false, model.LegacyValidation, parser.NewParser(parser.Options{}))
	for _, problem := range found {
		problems = append(problems, problem.Error())
	}
	if groups != nil {
		n := 0
		for _, group := range groups.Groups {
			n += len(group.Rules)
		}
		fmt.Printf("%d rules\n", n)
	}
	return problems, nil
}

func queries() (problems []string, err error) {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if _, err := parser.NewParser(parser.Options{}).ParseExpr(lines.Text()); err != nil {
			problems = append(problems, lines.Text()+": "+err.Error())
		}
	}
	return problems, lines.Err()
}

func main() {
	var problems []string
	var err error

	switch {
	case len(os.Args) == 2 && os.Args[1] == "metrics":
		problems, err = metrics()
	case len(os.Args) == 3 && os.Args[1] == "rules":
		problems, err = rules(os.Args[2])
	case len(os.Args) == 2 && os.Args[1] == "queries":
		problems, err = queries()
	default:
		err = fmt.Errorf("usage: prometheus metrics | rules FILE | queries")
	}
	for _, problem := range problems {
		fmt.Println(problem)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}
