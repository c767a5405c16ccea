// SPDX-License-Identifier: Apache-2.0

// A shop of net/http with OpenTelemetry's otelhttp. It prints `listens PORT`, and at the end of standard input what
// each route has used: `used ROUTE MICROSECONDS`. tests/integration/host/spans/test-otel-go.py is its customer.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"syscall"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"spanprof.example/spanprofotel"
)

var (
	lock sync.Mutex
	used = map[string]int64{}
)

func threadMicroseconds() int64 {
	var u syscall.Rusage
	syscall.Getrusage(1, &u) // RUSAGE_THREAD
	return u.Utime.Nano()/1000 + u.Stime.Nano()/1000
}

// work uses the CPU for some milliseconds of its thread's own time.
func work(route string, milliseconds int64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, x := threadMicroseconds(), uint64(1)
	for threadMicroseconds() < begin+milliseconds*1000 {
		for range 10000 {
			x = x*6364136223846793005 + 1442695040888963407
		}
	}
	runtime.KeepAlive(x)
	lock.Lock()
	used[route] += threadMicroseconds() - begin
	lock.Unlock()
}

func main() {
	otel.SetTracerProvider(spanprofotel.Wrap(sdk.NewTracerProvider()))
	mux := http.NewServeMux()
	mux.Handle("GET /cart/{id}", otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work("/cart/{id}", 30)
		io.WriteString(w, r.PathValue("id"))
	}), "GET /cart/{id}"))
	mux.Handle("GET /search", otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		work("/search", 10)
		io.WriteString(w, "none")
	}), "GET /search"))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, mux)
	fmt.Println("listens", listener.Addr().(*net.TCPAddr).Port)
	io.Copy(io.Discard, os.Stdin)
	lock.Lock()
	for route, microseconds := range used {
		fmt.Println("used", route, microseconds)
	}
}
