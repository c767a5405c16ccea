// SPDX-License-Identifier: Apache-2.0
package spanprofotel

import (
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

const (
	maxName  = 128  // bytes of a label; longer ones are cut behind a whole character
	maxNames = 1000 // of a process
)

var namesAreOff = strings.EqualFold(os.Getenv("SPANPROF_SPAN_NAMES"), "off")

// names are labels as they are set, and the texts that they are of. They are made once for each pair, and kept.
type names struct {
	name, route string
	of          texts
}

type texts struct{ name, route string }

var (
	known   atomic.Pointer[map[texts]*names] // never changed: each addition makes another map
	adding  sync.Mutex
	refused atomic.Uint64
)

// NamesRefused returns how often a name was not set: the process had a thousand others already.
func NamesRefused() uint64 {
	return refused.Load()
}

func namesOf(given texts) *names {
	given = texts{cut(given.name), cut(given.route)}
	if all := known.Load(); all != nil {
		if found := (*all)[given]; found != nil {
			return found
		}
		if len(*all) >= maxNames {
			refused.Add(1)
			return nil
		}
	}
	adding.Lock()
	defer adding.Unlock()
	all := map[texts]*names{}
	if before := known.Load(); before != nil {
		if found := (*before)[given]; found != nil {
			return found
		}
		if len(*before) >= maxNames {
			refused.Add(1)
			return nil
		}
		all = maps.Clone(*before)
	}
	route := valid(given.route)
	all[given] = &names{valid(whole(given.name, route)), route, given}
	known.Store(&all)
	return all[given]
}

// cut returns a copy of what is kept, so that a long text is not.
func cut(text string) string {
	if len(text) <= maxName {
		return text
	}
	end := maxName
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.Clone(text[:end])
}

func valid(text string) string {
	return cut(strings.ToValidUTF8(text, "\ufffd"))
}

// whole returns `GET /cart/{id}` for `GET` or `HTTP GET`: OpenTelemetry's conventions name a span so once its route is known.
func whole(name, route string) string {
	method := strings.TrimPrefix(name, "HTTP ")
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY", "HTTP":
		if route != "" {
			return method + " " + route
		}
	}
	return name
}

func namesAtStart(name string, options []trace.SpanStartOption) *names {
	given := texts{name: name}
	if len(options) > 0 {
		config := trace.NewSpanStartConfig(options...)
		given.route, _ = routeOf(config.Attributes())
	}
	return namesOf(given)
}

func routeOf(attributes []attribute.KeyValue) (string, bool) {
	for _, one := range attributes {
		if one.Key == RouteLabel && one.Value.Type() == attribute.STRING {
			return one.Value.AsString(), true
		}
	}
	return "", false
}

var renaming sync.Mutex

// rename changes what an entry span and those below it are named by. A text that was not kept (NamesRefused) is none.
func (s *span) rename(change func(*texts)) {
	renaming.Lock()
	defer renaming.Unlock()
	var given texts
	if now := s.names.Load(); now != nil {
		given = now.of
	}
	change(&given)
	s.names.Store(namesOf(given))
}
