// SPDX-License-Identifier: Apache-2.0

// What the codec of a Collector makes of requests: for each file one line of JSON, with its error, or with what it read in its
// own words. test-long-drift.py builds it with the codec of one release after the other.
package main

import (
	"encoding/json"
	"os"

	"go.opentelemetry.io/collector/pdata/pprofile"
)

type outcome struct {
	Error    string          `json:"error,omitempty"`
	Profiles json.RawMessage `json:"profiles,omitempty"`
}

func read(name string) outcome {
	data, err := os.ReadFile(name)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	profiles, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(data)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	text, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(profiles)
	if err != nil {
		return outcome{Error: err.Error()}
	}
	return outcome{Profiles: text}
}

func main() {
	for _, name := range os.Args[1:] {
		if err := json.NewEncoder(os.Stdout).Encode(read(name)); err != nil {
			panic(err)
		}
	}
}
