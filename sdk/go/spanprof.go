// SPDX-License-Identifier: Apache-2.0

// Package spanprofotel sets the profiler labels trace_id and span_id of a goroutine to the span that it works for.
// Profilers outside of the process read them (spanprof run), and so do CPU profiles of runtime/pprof.
//
//	otel.SetTracerProvider(spanprofotel.Wrap(provider))
//
// Start sets them for the calling goroutine, End puts back what was there before. A goroutine inherits the labels of the one
// that starts it, by Go itself. Work that is handed to a goroutine which runs already needs Run.
//
// The labels span.name and http.route say which request it is: they are those of the span that it began with in this process.
//
// OpenTelemetry's context for Go belongs to no goroutine, so a span that ends on another goroutine than it began on cannot
// take its labels away there: they stay until that goroutine's next span. End does not touch the goroutine that it is called on
// then.
package spanprofotel

import (
	"context"
	"encoding/binary"
	"runtime/pprof"
	"sync/atomic"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// Names of the labels; the first two are 32 and 16 hexadecimal digits.
const (
	TraceLabel = "trace_id"
	SpanLabel  = "span_id"
	NameLabel  = "span.name"
	RouteLabel = "http.route"
)

// The set of labels of the calling goroutine. Go has a function that sets it, and none that reads it; these two are kept for
// packages that need them (the comments of runtime/proflabel.go and runtime/pprof/label.go).
//
//go:linkname getLabels runtime/pprof.runtime_getProfLabel
func getLabels() unsafe.Pointer

//go:linkname setLabels runtime/pprof.runtime_setProfLabel
func setLabels(labels unsafe.Pointer)

type provider struct{ trace.TracerProvider }

type tracer struct {
	trace.Tracer
	provider trace.TracerProvider
}

type span struct {
	trace.Span
	tracer       *tracer
	entry        *span                 // that it is named by: itself, one above it, or nil
	names        atomic.Pointer[names] // of an entry span; nil = there are too many
	outer        *span                 // whose labels were there before, or nil
	parent       context.Context       // of the context that has this span
	before, mine unsafe.Pointer        // sets of labels
	first        *names                // in `mine`
	renamed      atomic.Pointer[renamed]
	ended        atomic.Bool
}

// renamed is a set of labels with a name that came late. There is more than one of a span where that is renamed again, or on
// goroutines that have inherited an older set.
type renamed struct {
	labels unsafe.Pointer
	names  *names
	next   *renamed
}

// carrier is a span as the context that has it: one allocation for both.
type carrier span

// probe is a context that remembers what was looked up in it.
type probe struct {
	context.Context
	key any
}

func (p *probe) Value(key any) any {
	p.key = key
	return nil
}

// spanKey is the key under which OpenTelemetry looks for a context's span: its package shows it to contexts alone.
var spanKey = func() any {
	p := &probe{Context: context.Background()}
	trace.SpanFromContext(p)
	return p.key
}()

// noSpan is what contexts without a span have.
var noSpan = trace.SpanFromContext(context.Background())

// Wrap returns a provider whose spans are labels, too. All else is done by the one that it is given.
func Wrap(wrapped trace.TracerProvider) trace.TracerProvider {
	return &provider{wrapped}
}

func (p *provider) Tracer(name string, options ...trace.TracerOption) trace.Tracer {
	return &tracer{p.TracerProvider.Tracer(name, options...), p}
}

func (t *tracer) Start(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	before := ctx
	ctx, started := t.Tracer.Start(ctx, name, options...)
	ids := started.SpanContext()
	if !ids.IsValid() {
		return ctx, started
	}
	s := t.newSpan(before, &ids, name, options)
	s.Span = started
	s.first = s.namesNow()
	s.parent = labeled(ctx, &ids, s.first)
	pprof.SetGoroutineLabels(s.parent)
	if s.entry == nil || s.entry == s {
		if trace.SpanFromContext(before) != noSpan {
			if _, stale := pprof.Label(before, NameLabel); stale {
				pprof.SetGoroutineLabels(labeled(unlabeled(ctx), &ids, s.first))
			}
		}
	}
	s.mine = getLabels()
	return (*carrier)(s), s
}

// newSpan finds what the span is named by: the parent's entry span, or itself, or nothing if that parent is of no tracer
// of ours.
func (t *tracer) newSpan(before context.Context, ids *trace.SpanContext, name string, options []trace.SpanStartOption) *span {
	labels := getLabels()
	parent := trace.SpanFromContext(before)
	var outer *span
	if p, ok := parent.(*span); ok {
		if _, ok := p.shows(labels); ok {
			outer = p
		}
		if of := p.SpanContext(); of.TraceID() == ids.TraceID() {
			return &span{tracer: t, before: labels, outer: outer, entry: p.entry}
		}
	} else if of := parent.SpanContext(); of.IsValid() && !of.IsRemote() && of.TraceID() == ids.TraceID() {
		return &span{tracer: t, before: labels}
	}
	if namesAreOff {
		return &span{tracer: t, before: labels, outer: outer}
	}
	s := &span{tracer: t, before: labels, outer: outer}
	s.entry = s
	s.names.Store(namesAtStart(name, options))
	return s
}

func (s *span) namesNow() *names {
	if s.entry == nil {
		return nil
	}
	return s.entry.names.Load()
}

// shows returns the names in a set of labels, and whether the set is one of this span.
func (s *span) shows(labels unsafe.Pointer) (*names, bool) {
	if labels == s.mine {
		return s.first, true
	}
	for r := s.renamed.Load(); r != nil; r = r.next {
		if r.labels == labels {
			return r.names, true
		}
	}
	return nil, false
}

func (s *span) End(options ...trace.SpanEndOption) {
	if !s.ended.Swap(true) {
		if _, ok := s.shows(getLabels()); ok {
			setLabels(s.before)
			if s.outer != nil {
				s.outer.relabel()
			}
		}
	}
	s.Span.End(options...)
}

func (s *span) SetName(name string) {
	s.Span.SetName(name)
	if s.entry == s {
		s.rename(func(t *texts) { t.name = name })
		s.relabel()
	}
}

func (s *span) SetAttributes(attributes ...attribute.KeyValue) {
	s.Span.SetAttributes(attributes...)
	if s.entry != s {
		return
	}
	if route, ok := routeOf(attributes); ok {
		s.rename(func(t *texts) { t.route = route })
		s.relabel()
	}
}

// relabel gives the calling goroutine the name of now, if it works for this very span.
func (s *span) relabel() {
	now := s.namesNow()
	if shown, ok := s.shows(getLabels()); !ok || shown == now {
		return
	}
	for r := s.renamed.Load(); r != nil; r = r.next {
		if r.names == now {
			setLabels(r.labels)
			return
		}
	}
	ids := s.SpanContext()
	pprof.SetGoroutineLabels(labeled(s.parent, &ids, now))
	added := &renamed{getLabels(), now, s.renamed.Load()}
	for !s.renamed.CompareAndSwap(added.next, added) {
		added.next = s.renamed.Load()
	}
}

func (s *span) TracerProvider() trace.TracerProvider {
	return s.tracer.provider
}

func (c *carrier) Value(key any) any {
	if key == spanKey {
		return (*span)(c)
	}
	return c.parent.Value(key)
}

func (c *carrier) Deadline() (time.Time, bool) { return c.parent.Deadline() }
func (c *carrier) Done() <-chan struct{}       { return c.parent.Done() }
func (c *carrier) Err() error                  { return c.parent.Err() }

// Unwrap returns the span below, for code that must know its type.
func (s *span) Unwrap() trace.Span {
	return s.Span
}

// Run calls f with the labels of the span in ctx on the calling goroutine: for workers that take contexts from a queue. A ctx without a
// span, or with a span of another service, is no span: f runs without the two labels.
func Run(ctx context.Context, f func(context.Context)) {
	before := getLabels()
	defer setLabels(before)
	ids := trace.SpanContextFromContext(ctx)
	if ids.IsValid() && !ids.IsRemote() {
		var is *names
		if s, ok := trace.SpanFromContext(ctx).(*span); ok {
			is = s.namesNow()
		}
		ctx = labeled(ctx, &ids, is)
		pprof.SetGoroutineLabels(ctx)
	} else {
		pprof.SetGoroutineLabels(unlabeled(ctx))
	}
	f(ctx)
}

// hex are the 16 digits of 8 bytes: each half's nibbles are spread to bytes, and all eight become digits at once.
func hex(to *[16]byte, from *[8]byte) {
	value := binary.BigEndian.Uint64(from[:])
	binary.BigEndian.PutUint64(to[:8], digits(value>>32))
	binary.BigEndian.PutUint64(to[8:], digits(value&(1<<32-1)))
}

func digits(x uint64) uint64 {
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	letters := (x + 0x0606060606060606) >> 4 & 0x0101010101010101 // 1 in each byte of 10 and more
	return x + 0x3030303030303030 + letters*('a'-'0'-10)
}

func labeled(ctx context.Context, ids *trace.SpanContext, is *names) context.Context {
	both := new([48]byte) // one text, of which both labels are parts; nothing writes it afterwards
	traceID, spanID := ids.TraceID(), ids.SpanID()
	hex((*[16]byte)(both[:16]), (*[8]byte)(traceID[:8]))
	hex((*[16]byte)(both[16:32]), (*[8]byte)(traceID[8:]))
	hex((*[16]byte)(both[32:]), (*[8]byte)(&spanID))
	text := unsafe.String(&both[0], len(both))
	switch {
	case is == nil:
		return pprof.WithLabels(ctx, pprof.Labels(SpanLabel, text[32:], TraceLabel, text[:32]))
	case is.route == "":
		return pprof.WithLabels(ctx, pprof.Labels(NameLabel, is.name, SpanLabel, text[32:], TraceLabel, text[:32]))
	default:
		return pprof.WithLabels(ctx, pprof.Labels(RouteLabel, is.route, NameLabel, is.name, SpanLabel, text[32:],
			TraceLabel, text[:32]))
	}
}

// unlabeled returns a context with the other labels of ctx.
func unlabeled(ctx context.Context) context.Context {
	var others []string
	pprof.ForLabels(ctx, func(key, value string) bool {
		if key != TraceLabel && key != SpanLabel && key != NameLabel && key != RouteLabel {
			others = append(others, key, value)
		}
		return true
	})
	return pprof.WithLabels(context.Background(), pprof.Labels(others...))
}
