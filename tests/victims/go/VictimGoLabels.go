// SPDX-License-Identifier: Apache-2.0

// Goroutines that know their own ids and labels: VictimGoLabels [GOROUTINES] [LABELS]. Prints `ready`, works
// until its standard input ends, then prints what it did and sleeps:
//
//	region SPAN TRACE GOID BEGIN END        labels of a goroutine, from before they were set until after they
//	                                        were taken back, or for good; CLOCK_MONOTONIC, ns
//
// SPAN and TRACE are hexadecimal, of OpenTelemetry's labels; with TRACE `-` SPAN is of Datadog's, whose root is
// SPAN + 1000000. Each set has `tenant` (t and SPAN % 7) and, inside of inner(), `phase` = inner. LABELS (0) more
// ones are called more0, more1 …, with the tenant as their value. All work is done with labels on, in work() and
// what it calls. Build it with VictimGoSpin.go, or with VictimGoSpinC.go for a part of the work in C.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

type region struct {
	span, goid uint64
	trace      string
	begin, end int64
}

var (
	mutex   sync.Mutex
	regions []region
	spans   uint64
	stopped int32
	more    int
	sink    uint64
)

func now() int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&t)), 0)
	return t.Sec*1000000000 + t.Nsec
}

func goid() uint64 {
	var text [64]byte
	fields := bytes.Fields(text[:runtime.Stack(text[:], false)])
	id, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return id
}

func remember(span uint64, trace string, begin, end int64) {
	r := region{span, goid(), trace, begin, end}
	mutex.Lock()
	regions = append(regions, r)
	mutex.Unlock()
}

//go:noinline
func inner(n uint64) uint64 {
	x := n
	for i := uint64(0); i < 200000; i++ {
		x = x*6364136223846793005 + i
	}
	return x
}

// Code of the compiler, assembly, the runtime on its own stack, the collector, C: in each of them g is elsewhere.
//
//go:noinline
func work(ctx context.Context, n uint64) uint64 {
	x := n
	block := make([]byte, 64<<10)
	for i := 0; i < 3; i++ {
		sum := sha256.Sum256(block)
		copy(block[i*4096:], sum[:])
		x += uint64(sum[0])
	}
	numbers := make([]int, 2000)
	for i := range numbers {
		x = x*6364136223846793005 + 1
		numbers[i] = int(x >> 40)
	}
	sort.Ints(numbers)
	words := map[string]int{}
	for i := 0; i < 300; i++ {
		words[fmt.Sprintf("%d-%d", n, i)] += i
	}
	x += spin(n)
	pprof.Do(ctx, pprof.Labels("phase", "inner"), func(context.Context) { x += inner(x) })
	return x + uint64(len(words))
}

func labels(span uint64) (pprof.LabelSet, string) {
	tenant := fmt.Sprintf("t%d", span%7)
	pairs := []string{"tenant", tenant}
	trace := "-"
	if span%3 == 0 {
		pairs = append(pairs, "span id", strconv.FormatUint(span, 10), "local root span id",
			strconv.FormatUint(span+1000000, 10))
	} else {
		trace = fmt.Sprintf("%032x", span*1000003+1<<40)
		pairs = append(pairs, "span_id", fmt.Sprintf("%016x", span), "trace_id", trace)
	}
	for i := 0; i < more; i++ {
		pairs = append(pairs, fmt.Sprintf("more%d", i), tenant)
	}
	return pprof.Labels(pairs...), trace
}

func serve(ctx context.Context, done func()) {
	defer done()
	for atomic.LoadInt32(&stopped) == 0 {
		span := atomic.AddUint64(&spans, 1)
		set, trace := labels(span)
		begin := now()
		pprof.Do(ctx, set, func(ctx context.Context) {
			for i := 0; i < 4; i++ {
				atomic.AddUint64(&sink, work(ctx, span))
			}
			if span%5 == 0 { // its labels are inherited
				var child sync.WaitGroup
				child.Add(1)
				go func() {
					atomic.AddUint64(&sink, work(ctx, span))
					remember(span, trace, begin, 1<<62)
					child.Done()
				}()
				child.Wait()
			}
		})
		remember(span, trace, begin, now())
		if span%11 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

func main() {
	var all sync.WaitGroup
	n := 6
	if len(os.Args) > 1 {
		n, _ = strconv.Atoi(os.Args[1])
	}
	if len(os.Args) > 2 {
		more, _ = strconv.Atoi(os.Args[2])
	}
	for i := 0; i < n; i++ {
		all.Add(1)
		go serve(context.Background(), all.Done)
	}
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	atomic.StoreInt32(&stopped, 1)
	all.Wait()
	for _, r := range regions {
		fmt.Printf("region %016x %s %d %d %d\n", r.span, r.trace, r.goid, r.begin, r.end)
	}
	fmt.Println("done")
	time.Sleep(time.Hour)
}
