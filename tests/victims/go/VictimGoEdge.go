// SPDX-License-Identifier: Apache-2.0

// Burns CPU where the stack pointer is a multiple of 1 KiB, or a few words below one: recursion goes down by
// less than that, and only such levels burn. For $1 seconds.
package main

import (
	"os"
	"strconv"
	"time"
	"unsafe"
)

var sink uint64

//go:noinline
func down(n int) uint64 {
	var mark [2]uint64

	mark[0] = uint64(n)
	if uintptr(unsafe.Pointer(&mark))%1024 < 64 {
		for i := uint64(0); i < 2000000; i++ {
			mark[i%2] += i ^ sink
		}
	}
	if n > 0 {
		mark[1] += down(n - 1)
	}
	return mark[0] + mark[1]
}

func main() {
	seconds, _ := strconv.Atoi(os.Args[1])
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); {
		sink += down(70)
	}
}
