// SPDX-License-Identifier: Apache-2.0

// With OpenTelemetry's SDK for Go and sdk/go: otel-requests CPU-SECONDS. Three goroutines, each on a thread of its
// own: one has nested spans, one starts another goroutine inside of its span, one takes contexts from a channel.
// Each prints what it did without a pause between:
//
//	busy TRACE SPAN THREAD BEGIN END        CLOCK_MONOTONIC, ns; TRACE and SPAN are `-` outside of all spans
//
// tests/integration/host/spans/test-otel-go.py reads it.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"unsafe"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"spanprof.example/spanprofotel"
)

const (
	monotonic  = 1
	processCPU = 2
)

var (
	tracer = spanprofotel.Wrap(sdk.NewTracerProvider()).Tracer("requests")
	end    int64
)

func now(clock uintptr) int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func going() bool { return now(processCPU) < end }

// burn works for s, as the program itself knows it; no look at labels.
func burn(milliseconds int64, s trace.Span) {
	ids, begin := "- -", now(monotonic)
	if s != nil {
		ids = s.SpanContext().TraceID().String() + " " + s.SpanContext().SpanID().String()
	}
	x := uint64(1)
	for until := begin + milliseconds*1000000; now(monotonic) < until; {
		for range 1000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	runtime.KeepAlive(x)
	fmt.Printf("busy %s %d %d %d\n", ids, syscall.Gettid(), begin, now(monotonic))
}

func nested() {
	ctx, outer := tracer.Start(context.Background(), "outer")
	burn(15, outer)
	_, inner := tracer.Start(ctx, "inner")
	burn(15, inner)
	inner.End()
	burn(10, outer)
	outer.End()
	burn(10, nil)
}

// The goroutine that a span starts has its labels; this one waits meanwhile.
func inherited() {
	ctx, outer := tracer.Start(context.Background(), "outer")
	done := make(chan bool)
	go func() {
		runtime.LockOSThread()
		burn(15, outer)
		_, inner := tracer.Start(ctx, "inner")
		burn(15, inner)
		inner.End()
		burn(10, outer)
		close(done)
	}()
	<-done
	outer.End()
	burn(10, nil)
}

func worker(contexts <-chan context.Context) {
	for ctx := range contexts {
		spanprofotel.Run(ctx, func(ctx context.Context) { burn(20, trace.SpanFromContext(ctx)) })
		burn(10, nil)
	}
}

func send(contexts chan<- context.Context) {
	ctx, s := tracer.Start(context.Background(), "sent")
	contexts <- ctx
	s.End()
}

func main() {
	seconds, err := strconv.ParseFloat(os.Args[1], 64)
	if err != nil {
		os.Exit(1)
	}
	end = now(processCPU) + int64(seconds*1e9)
	contexts := make(chan context.Context)
	var group sync.WaitGroup
	for _, work := range []func(){nested, inherited, func() { send(contexts) }} {
		group.Go(func() {
			runtime.LockOSThread()
			for going() {
				work()
			}
		})
	}
	var workers sync.WaitGroup
	workers.Go(func() {
		runtime.LockOSThread()
		worker(contexts)
	})
	group.Wait()
	close(contexts)
	workers.Wait()
}
