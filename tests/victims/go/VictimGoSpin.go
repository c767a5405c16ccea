// SPDX-License-Identifier: Apache-2.0

package main

//go:noinline
func spin(n uint64) uint64 {
	for i := uint64(0); i < 100000; i++ {
		n ^= n*7 + i
	}
	return n
}
