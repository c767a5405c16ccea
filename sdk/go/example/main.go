// SPDX-License-Identifier: Apache-2.0

// A program with two operations; the labels of its goroutines say for which span each works.
package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"spanprof.example/spanprofotel"
)

func hash(n int) (sum [32]byte) {
	for range n {
		sum = sha256.Sum256(sum[:])
	}
	return
}

func operation(tracer trace.Tracer, name string, n int) {
	_, span := tracer.Start(context.Background(), name)
	defer span.End()
	hash(n)
}

func main() {
	tracer := spanprofotel.Wrap(sdk.NewTracerProvider()).Tracer("shop")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		operation(tracer, "checkout", 30000)
		operation(tracer, "search", 10000)
	}
	fmt.Println("checkout is three quarters of it")
}
