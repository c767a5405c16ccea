// SPDX-License-Identifier: Apache-2.0

// VictimGoChain: goroutines whose stacks are known. One is main.leaf ← main.middle ← main.outer ← main.main; the
// other is main.less, called back by package sort, above main.sorter. Both burn until the process is killed.
package main

import (
	"fmt"
	"sort"
)

var sink uint64

//go:noinline
func leaf(n uint64) uint64 {
	for i := uint64(0); i < 100000; i++ {
		n ^= n*7 + i
	}
	return n
}

//go:noinline
func middle(n uint64) uint64 {
	var frame [100]uint64 // larger than what one instruction can save below
	for i := range frame {
		frame[i] = n + uint64(i)
	}
	return leaf(frame[n%100]) + frame[3]
}

//go:noinline
func outer() {
	for {
		sink += middle(sink)
	}
}

//go:noinline
func less(a, b uint64) bool {
	return leaf(a)^a < leaf(b)^b
}

//go:noinline
func sorter() {
	for {
		numbers := make([]uint64, 50)
		for i := range numbers {
			numbers[i] = uint64(i*7919%101) + sink
		}
		sort.Slice(numbers, func(i, j int) bool { return less(numbers[i], numbers[j]) })
	}
}

func main() {
	fmt.Println("ready")
	go sorter()
	outer()
}
