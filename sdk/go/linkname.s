// SPDX-License-Identifier: Apache-2.0
// With a file of the assembler beside them, functions of Go may have no body: they are other packages' (spanprof.go).
