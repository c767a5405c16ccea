// SPDX-License-Identifier: Apache-2.0
// Made go-cpu.pb.gz: go build -o goprof . && ./goprof go-cpu.pb.gz; and go-cpu.top.txt, by somebody else than we:
// go tool pprof -top -sample_index=cpu -nodecount=100 go-cpu.pb.gz > go-cpu.top.txt
package main
import ("os";"runtime/pprof";"context";"time")
//go:noinline
func hot(n int) int { s := 0; for i := 0; i < n; i++ { s += i * i ^ s }; return s }
//go:noinline
func warm(n int) int { s := 1; for i := 0; i < n; i++ { s = s*3 + i }; return s }
func main() {
 f,_ := os.Create(os.Args[1]); pprof.StartCPUProfile(f)
 x := 0
 end := time.Now().Add(2*time.Second)
 for time.Now().Before(end) {
  pprof.Do(context.Background(), pprof.Labels("operation","checkout"), func(context.Context){ x += hot(300000) })
  pprof.Do(context.Background(), pprof.Labels("operation","search"), func(context.Context){ x += warm(100000) })
 }
 pprof.StopCPUProfile(); f.Close()
 if x == 42 { println(x) }
}
