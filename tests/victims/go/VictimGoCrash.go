// SPDX-License-Identifier: Apache-2.0

// VictimGoCrash: burns the CPU in serve(), until a line comes on standard input. Then it crashes in crashHere(), in span
// 1234 of trace (4711, 4712): `null` writes through a nil pointer, `panic` panics.
package main

/*
#include <spanprof/context.h>
*/
import "C"
import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
)

var hasOrder atomic.Bool
var how string
var sink uint64

//go:noinline
func crashHere(where *int) int {
	if how == "panic" {
		panic("asked for")
	}
	*where = 1
	return 1
}

//go:noinline
func serve() int {
	for n := uint64(1); !hasOrder.Load(); n = n*31 + 7 {
		sink = n
	}
	C.spanprof_context_set(4711, 4712, 1234)
	return crashHere(nil) + 1
}

func main() {
	runtime.LockOSThread()
	if C.spanprof_context_start(nil) != 0 {
		os.Exit(1)
	}
	fmt.Println("pid", os.Getpid())
	go func() {
		line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		how = strings.TrimSpace(line)
		hasOrder.Store(true)
	}()
	sink = uint64(serve())
}
