// SPDX-License-Identifier: Apache-2.0

// Caddy with the modules that it has when it is not told otherwise.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

func main() {
	caddycmd.Main()
}
