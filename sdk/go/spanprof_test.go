// SPDX-License-Identifier: Apache-2.0
package spanprofotel

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

var goroutineLabels = regexp.MustCompile(`# labels: \{(.*)\}`)

// says returns the labels of the calling goroutine as Go's own profile of goroutines shows them.
func says(t *testing.T) string {
	var text bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(text.String(), "\n\n") {
		if !strings.Contains(part, "spanprofotel.says") {
			continue
		}
		if found := goroutineLabels.FindStringSubmatch(part); found != nil {
			return found[1]
		}
		return ""
	}
	t.Fatal("this goroutine is not in the profile")
	return ""
}

var spanName = regexp.MustCompile(`"span\.name":"[^"]*", `)

func expect(t *testing.T, s trace.Span) {
	t.Helper()
	want := ""
	if s != nil {
		want = fmt.Sprintf(`"span_id":"%s", "trace_id":"%s"`, s.SpanContext().SpanID(), s.SpanContext().TraceID())
	}
	got := spanName.ReplaceAllString(says(t), "") // tests of names have them
	if got != want {
		t.Fatalf("labels %q, expected %q", got, want)
	}
}

func newTracer(options ...sdk.TracerProviderOption) trace.Tracer {
	return Wrap(sdk.NewTracerProvider(options...)).Tracer("test")
}

func TestNested(t *testing.T) {
	tracer := newTracer()
	expect(t, nil)
	ctx, outer := tracer.Start(context.Background(), "outer")
	expect(t, outer)
	_, inner := tracer.Start(ctx, "inner")
	expect(t, inner)
	inner.End()
	expect(t, outer)
	inner.End() // a second time changes nothing
	expect(t, outer)
	if trace.SpanFromContext(ctx) != outer {
		t.Fatal("the context has another span")
	}
	if _, ok := outer.(interface{ Unwrap() trace.Span }).Unwrap().(sdk.ReadOnlySpan); !ok {
		t.Fatal("the span below is not the SDK's")
	}
	outer.End()
	expect(t, nil)
}

// Each value of a byte at each place of an id.
func TestDigits(t *testing.T) {
	for i := 0; i < 256*8; i++ {
		var id trace.SpanID
		var text [16]byte
		id[i%8], id[(i+3)%8] = byte(i/8), byte(i/8+101)
		if hex(&text, (*[8]byte)(&id)); string(text[:]) != id.String() {
			t.Fatalf("%s, expected %s", text, id)
		}
	}
}

func TestOutOfOrder(t *testing.T) {
	tracer := newTracer()
	ctx, outer := tracer.Start(context.Background(), "outer")
	_, inner := tracer.Start(ctx, "inner")
	outer.End()
	expect(t, inner)
	inner.End()
	pprof.SetGoroutineLabels(context.Background())
}

func TestOtherGoroutines(t *testing.T) {
	tracer := newTracer()
	ctx, outer := tracer.Start(context.Background(), "outer")
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		expect(t, outer) // inherited
		_, other := tracer.Start(context.Background(), "other")
		expect(t, other)
		outer.End() // not this goroutine's
		expect(t, other)
		other.End()
		expect(t, outer)
	}()
	group.Wait()
	pprof.SetGoroutineLabels(context.Background())
	Run(ctx, func(context.Context) { expect(t, outer) })
	expect(t, nil)
}

func TestOtherLabelsStay(t *testing.T) {
	tracer := newTracer()
	pprof.Do(context.Background(), pprof.Labels("zone", "north"), func(ctx context.Context) {
		_, s := tracer.Start(ctx, "s")
		if got := says(t); !strings.Contains(got, `"zone":"north"`) || !strings.Contains(got, "span_id") {
			t.Fatal(got)
		}
		s.End()
		if got := says(t); got != `"zone":"north"` {
			t.Fatal(got)
		}
	})
}

func TestNoSpan(t *testing.T) {
	ctx, s := Wrap(noop.NewTracerProvider()).Tracer("x").Start(context.Background(), "x")
	expect(t, nil)
	s.End()
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
	Run(trace.ContextWithSpanContext(ctx, remote), func(context.Context) { expect(t, nil) })
	ctx, other := newTracer().Start(pprof.WithLabels(ctx, pprof.Labels("zone", "north")), "other")
	Run(trace.ContextWithSpanContext(ctx, remote), func(context.Context) {
		if got := says(t); got != `"zone":"north"` {
			t.Fatal(got)
		}
	})
	after := says(t)
	other.End()
	expect(t, nil)
	if !strings.Contains(after, other.SpanContext().SpanID().String()) {
		t.Fatal(after)
	}
}

// The context of a span is one of its parent: values, end and deadline.
func TestContext(t *testing.T) {
	type key struct{}
	parent, cancel := context.WithTimeout(context.WithValue(context.Background(), key{}, "value"), time.Hour)
	ctx, s := newTracer().Start(parent, "s")
	defer s.End()
	child, cancelChild := context.WithCancel(ctx)
	defer cancelChild()
	before, ok := parent.Deadline()
	if after, same := ctx.Deadline(); after != before || ok != same || ctx.Value(key{}) != "value" || ctx.Err() != nil {
		t.Fatal("the context is not one of its parent")
	}
	cancel()
	<-child.Done()
	if ctx.Err() != context.Canceled || child.Err() != context.Canceled || trace.SpanFromContext(child) != s {
		t.Fatal(ctx.Err(), child.Err())
	}
	pprof.Do(ctx, pprof.Labels("zone", "north"), func(context.Context) {
		if got := says(t); !strings.Contains(got, `"zone":"north"`) || !strings.Contains(got, s.SpanContext().SpanID().String()) {
			t.Fatal(got)
		}
	})
}

// expectNames expects the labels of s, with these names beside them.
func expectNames(t *testing.T, s trace.Span, name, route string) {
	t.Helper()
	want := fmt.Sprintf(`"span_id":"%s", "trace_id":"%s"`, s.SpanContext().SpanID(), s.SpanContext().TraceID())
	if name != "" {
		want = fmt.Sprintf(`"span.name":"%s", `, name) + want
	}
	if route != "" {
		want = fmt.Sprintf(`"http.route":"%s", `, route) + want
	}
	if got := says(t); got != want {
		t.Fatalf("labels %q, expected %q", got, want)
	}
}

func route(path string) attribute.KeyValue { return attribute.String("http.route", path) }

func TestNamesOfTheEntrySpan(t *testing.T) {
	tracer := newTracer()
	ctx, entry := tracer.Start(context.Background(), "GET")
	expectNames(t, entry, "GET", "")
	childCtx, child := tracer.Start(ctx, "query")
	expectNames(t, child, "GET", "")
	child.SetName("other query")
	child.SetAttributes(route("/inner"))
	expectNames(t, child, "GET", "")
	entry.SetAttributes(attribute.Int("x", 1), route("/cart/{id}"))
	_, late := tracer.Start(childCtx, "late")
	expectNames(t, late, "GET /cart/{id}", "/cart/{id}")
	late.End()
	child.End()
	expectNames(t, entry, "GET /cart/{id}", "/cart/{id}")
	entry.SetName("cart")
	expectNames(t, entry, "cart", "/cart/{id}")
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		entry.SetName("cart of all")
		expectNames(t, entry, "cart of all", "/cart/{id}")
		Run(ctx, func(context.Context) { expectNames(t, entry, "cart of all", "/cart/{id}") })
	}()
	group.Wait()
	expectNames(t, entry, "cart", "/cart/{id}") // nobody may write another goroutine's labels
	_, other := tracer.Start(ctx, "job", trace.WithNewRoot())
	expectNames(t, other, "job", "")
	other.End()
	entry.End()
	expect(t, nil)
}

func TestNamesOfOtherParents(t *testing.T) {
	tracer := newTracer(sdk.WithSampler(sdk.NeverSample()))
	ids := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true}
	ctx := trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(ids))
	_, entry := tracer.Start(ctx, "order", trace.WithAttributes(route("/order")))
	expectNames(t, entry, "order", "/order")
	entry.End()
	ids.Remote = false
	_, unknown := tracer.Start(trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(ids)), "of nobody")
	expectNames(t, unknown, "", "")
	unknown.End()
}

func TestNamesAreBounded(t *testing.T) {
	defer known.Store(known.Swap(nil))
	tracer := newTracer()
	_, long := tracer.Start(context.Background(), strings.Repeat("\u20ac", 100))
	expectNames(t, long, strings.Repeat("\u20ac", 42), "")
	long.End()
	before := NamesRefused()
	for i := 1; i < 1000; i++ {
		_, s := tracer.Start(context.Background(), fmt.Sprint("name ", i))
		s.End()
	}
	ctx, last := tracer.Start(context.Background(), "name 999")
	expectNames(t, last, "name 999", "")
	_, s := tracer.Start(ctx, "one more", trace.WithNewRoot())
	expectNames(t, s, "", "")
	if NamesRefused() != before+1 {
		t.Fatal(NamesRefused())
	}
	s.End()
	last.End()
}

func TestNamesAreOff(t *testing.T) {
	if os.Getenv("SPANPROF_SPAN_NAMES") != "off" {
		again := exec.Command(os.Args[0], "-test.run", "^TestNamesAreOff$")
		again.Env = append(os.Environ(), "SPANPROF_SPAN_NAMES=off")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatal(string(out))
		}
		return
	}
	_, entry := newTracer().Start(context.Background(), "GET", trace.WithAttributes(route("/cart")))
	entry.SetName("cart")
	expectNames(t, entry, "", "")
	entry.End()
}

var sink int

// userTime is of the process: on a busy machine it passes more slowly, and not less of it.
func userTime(t *testing.T) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano())
}

// A CPU profile of the runtime: samples of busy goroutines carry the ids of their spans.
func TestCPUProfile(t *testing.T) {
	var data bytes.Buffer
	if err := pprof.StartCPUProfile(&data); err != nil {
		t.Skip(err)
	}
	_, s := newTracer().Start(context.Background(), "busy")
	for end := userTime(t) + 300*time.Millisecond; userTime(t) < end; {
		for i := 0; i < 100000; i++ {
			sink += i
		}
	}
	s.End()
	pprof.StopCPUProfile()
	reader, err := gzip.NewReader(&data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil || !bytes.Contains(text, []byte(s.SpanContext().SpanID().String())) {
		t.Fatal("the profile does not name the span", err)
	}
}

func bench(b *testing.B, tracer trace.Tracer) {
	b.ReportAllocs()
	for b.Loop() {
		_, s := tracer.Start(context.Background(), "x")
		s.End()
	}
}

func BenchmarkWithout(b *testing.B) { bench(b, sdk.NewTracerProvider().Tracer("x")) }
func BenchmarkWith(b *testing.B)    { bench(b, newTracer()) }
