// SPDX-License-Identifier: Apache-2.0

// VictimGoLabels.go as a library (-buildmode=c-shared): C calls Serve(), which is its main().
package main

import "C"

//export Serve
func Serve() { main() }
