// SPDX-License-Identifier: Apache-2.0

// Allocations from known places, each of them sampled. `rest DIRECTORY`, a line of standard input, collects twice
// and says what runtime.MemProfile knows, a line for each bucket: allocs, frees, bytes of both, addresses; its
// file heap.pb.gz is what runtime/pprof writes. `more` allocates from new places and collects once.
//
// `load` begins allocations without end. Some goroutines, each with objects of another size, allocate one object
// at each depth of descend() in turn: so whenever all stand still, the count at each depth is that of the one above
// it, or lower by one. `hold N` keeps N MiB more, and collects twice. `leak N` keeps N MiB more each second, until it is killed. The line behind `ready` says where descend() begins. `collect` asks for collections, too.
// The first argument is runtime.MemProfileRate, if it is not empty.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const depths = 20

var (
	sizes = []int{64, 128, 256, 512}
	kept  [][]byte
	maps  []map[string]int
	texts []string
	whole []interface{}
	trees []*tree
	sinks [4][]byte
	paths int32
)

type tree struct {
	left, right *tree
	value       [3]int
}

func setRate() bool {
	if len(os.Args) > 1 && os.Args[1] != "" {
		rate, err := strconv.Atoi(os.Args[1])
		if err != nil {
			panic(err)
		}
		runtime.MemProfileRate = rate
	}
	return true
}

var _ = setRate()

//go:noinline
func descend(n, size int) []byte {
	if n == 0 {
		return make([]byte, size)
	}
	return descend(n-1, size)[:size:size]
}

// Both are inlined where they are called.
func inner(n int) []byte { return make([]byte, n) }
func outer(n int) []byte { return inner(n + 8) }

//go:noinline
func viaInlined(n int) { kept = append(kept, outer(n)) }

//go:noinline
func grow[T int32 | int64](n int) []T {
	var list []T
	for i := 0; i < n; i++ {
		list = append(list, T(i))
	}
	return list
}

func (t *tree) add(n int) *tree {
	if n > 0 {
		t.left = (&tree{}).add(n - 1)
		t.right = (&tree{}).add(n - 1)
	}
	return t
}

//go:noinline
func left(path, n int) []byte {
	if n == 0 {
		return make([]byte, 48)
	}
	return turn(path, n)
}

//go:noinline
func right(path, n int) []byte {
	if n == 0 {
		return make([]byte, 48)
	}
	return turn(path, n)
}

// A stack of its own for each path of n turns.
//
//go:noinline
func turn(path, n int) []byte {
	if path&1 == 0 {
		return left(path>>1, n-1)
	}
	return right(path>>1, n-1)
}

// New buckets: what allocates before and what allocates after them have theirs far from each other in memory, so
// that it takes a while to come from one to the other.
//
//go:noinline
func spread() {
	for i := 0; i < 100; i++ {
		turn(int(atomic.AddInt32(&paths, 1)), 16)
	}
}

//go:noinline
func hold(n int) {
	for i := 0; i < n; i++ {
		block := make([]byte, 1<<20)
		for k := 0; k < len(block); k += 4096 {
			block[k] = 1
		}
		kept = append(kept, block)
	}
}

// Until it is killed. Collections come as they do in other programs.
//
//go:noinline
func leak(rate int) {
	debug.SetGCPercent(100)
	for begin, n := time.Now(), 0; ; time.Sleep(time.Millisecond) {
		for ; n < int(time.Since(begin).Seconds()*float64(rate)*16); n++ {
			block := make([]byte, 64<<10)
			for k := 0; k < len(block); k += 4096 {
				block[k] = 1
			}
			kept = append(kept, block)
		}
	}
}

func allocate(round int) {
	for i := 0; i < 16; i++ {
		kept = append(kept, descend(i, sizes[i%len(sizes)]))
		descend(i, 96)
		viaInlined(16 * i)
	}
	kept = append(kept, descend(300, 64)) // deeper than what Go keeps of a stack
	whole = append(whole, grow[int32](100), grow[int64](100+round))
	trees = append(trees, (&tree{}).add(5))
	m := map[string]int{}
	for i := 0; i < 100; i++ {
		m[fmt.Sprint("key ", i)] = i
	}
	maps = append(maps, m)
	texts = append(texts, strings.Repeat("text", 50)+strconv.Itoa(round))
	func() { kept = append(kept, make([]byte, 1<<20)) }()
	done := make(chan bool)
	go func() { kept = append(kept, make([]byte, 4096)); close(done) }()
	<-done
	for i := 0; i < 64; i++ {
		kept = append(kept, turn(i|round<<6, 8))
	}
}

// As of the collection that has ended last.
func dump(directory string) {
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+500)
	n, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("more buckets than before")
	}
	out := bufio.NewWriter(os.Stdout)
	for _, r := range records[:n] {
		fmt.Fprint(out, "bucket ", r.AllocObjects, " ", r.FreeObjects, " ", r.AllocBytes, " ", r.FreeBytes)
		for _, pc := range r.Stack() {
			fmt.Fprintf(out, " %x", pc)
		}
		fmt.Fprintln(out)
	}
	file, err := os.Create(directory + "/heap.pb.gz")
	if err != nil {
		panic(err)
	}
	if err := pprof.Lookup("heap").WriteTo(file, 0); err != nil {
		panic(err)
	}
	file.Close()
	fmt.Fprintln(out, "done")
	out.Flush()
}

func collect() {
	for {
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
}

func main() {
	debug.SetGCPercent(-1)
	allocate(0)
	fmt.Println("ready")
	fmt.Printf("descend %x\n", reflect.ValueOf(descend).Pointer())
	lines := bufio.NewScanner(os.Stdin)
	for round := 1; lines.Scan(); {
		switch words := strings.Fields(lines.Text()); words[0] {
		case "rest":
			runtime.GC()
			runtime.GC()
			dump(words[1])
		case "dump":
			dump(words[1])
		case "more":
			allocate(round)
			round++
			runtime.GC()
			fmt.Println("done")
		case "hold":
			n, err := strconv.Atoi(words[1])
			if err != nil {
				panic(err)
			}
			hold(n)
			runtime.GC()
			runtime.GC()
			fmt.Println("done")
		case "leak":
			n, err := strconv.Atoi(words[1])
			if err != nil {
				panic(err)
			}
			leak(n)
		case "load":
			debug.SetGCPercent(100)
			for i, size := range sizes {
				i, size := i, size
				go func() {
					for isFirst := true; ; isFirst = false {
						for n := 0; n < depths; n++ {
							sinks[i] = descend(n, size)
							if isFirst {
								spread()
							}
						}
					}
				}()
			}
			go func() {
				for i := 0; ; i++ {
					turn(i, 10)
				}
			}()
			fmt.Println("done")
		case "collect":
			go collect()
			fmt.Println("done")
		}
	}
}
