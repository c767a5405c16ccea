// SPDX-License-Identifier: Apache-2.0

// Known numbers of goroutines that wait in known functions, for as long as standard input is open. At each line
// that it gets it says what runtime/pprof knows of them: what others find is compared with that. A second
// argument is a number of pairs that hand values to each other without end, from two places.
package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"time"
)

var (
	never  = make(chan int)
	mutex  sync.Mutex
	rw     sync.RWMutex
	group  sync.WaitGroup
	cond   = sync.NewCond(&sync.Mutex{})
	ends   []net.Conn
	budget int
)

//go:noinline
func receives() { <-never; budget++ }

//go:noinline
func sends(to chan int) { to <- 1; budget++ }

//go:noinline
func selects(other chan int) {
	select {
	case <-never:
	case <-other:
	}
	budget++
}

//go:noinline
func selectsNothing() { select {} }

//go:noinline
func locks() { mutex.Lock(); budget++ }

//go:noinline
func readLocks() { rw.RLock(); budget++ }

//go:noinline
func sleeps() { time.Sleep(time.Hour); budget++ }

//go:noinline
func waitsForGroup() { group.Wait(); budget++ }

//go:noinline
func waitsForCond() { cond.L.Lock(); cond.Wait(); budget++ }

//go:noinline
func reads(from net.Conn) {
	var buffer [1]byte
	from.Read(buffer[:])
	budget++
}

//go:noinline
func descends(n int) {
	if n == 0 {
		<-never
	} else {
		descends(n - 1)
	}
	budget++
}

//go:noinline
func works(ctx context.Context) {
	trace, span := "000000000000000100000000000000ab", "00000000000000cd"
	pprof.Do(ctx, pprof.Labels("trace_id", trace, "span_id", span, "tenant", "blue"), func(context.Context) { receives() })
	budget++
}

// Each of a pair is in east() and west() in turn, at another depth, and parks in the same way in both.

//go:noinline
func east(n int, values chan int, sends bool) {
	if n > 0 {
		east(n-1, values, sends)
	} else if sends {
		values <- 1
	} else {
		<-values
	}
	budget++
}

//go:noinline
func west(n int, values chan int, sends bool) {
	if n > 0 {
		west(n-1, values, sends)
	} else if sends {
		values <- 1
	} else {
		<-values
	}
	budget++
}

func moves(values chan int, sends bool) {
	for {
		east(5, values, sends)
		west(5, values, sends)
	}
}

func pipe(listener net.Listener) net.Conn {
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		panic(err)
	}
	far, err := listener.Accept()
	if err != nil {
		panic(err)
	}
	ends = append(ends, far)
	return near
}

func many(n int, what func()) {
	for i := 0; i < n; i++ {
		go what()
	}
}

func main() {
	scale := 1
	if len(os.Args) > 1 {
		scale, _ = strconv.Atoi(os.Args[1])
	}
	mutex.Lock()
	rw.Lock()
	group.Add(1)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	many(7*scale, receives)
	many(3*scale, func() { sends(make(chan int)) })
	many(5*scale, func() { selects(make(chan int)) })
	many(2*scale, selectsNothing)
	many(4*scale, locks)
	many(6*scale, readLocks)
	many(8*scale, sleeps)
	many(9*scale, waitsForGroup)
	many(10*scale, waitsForCond)
	for i := 0; i < 11; i++ {
		near := pipe(listener)
		go func() { reads(near) }()
	}
	many(12*scale, func() { descends(20) /* older releases show 32 frames */ })
	many(13*scale, func() { works(context.Background()) })
	if len(os.Args) > 2 {
		pairs, _ := strconv.Atoi(os.Args[2])
		for i := 0; i < pairs; i++ {
			values := make(chan int)
			go moves(values, true)
			go moves(values, false)
		}
	}
	time.Sleep(100 * time.Millisecond)
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		pprof.Lookup("goroutine").WriteTo(os.Stdout, 1)
		fmt.Println("profile ends")
		pprof.Lookup("goroutine").WriteTo(os.Stdout, 2)
		fmt.Println("stacks end")
	}
}
