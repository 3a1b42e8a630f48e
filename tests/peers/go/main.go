// A server and a client of MCP over HTTP and HTTPS on Go's standard library.
//
//	peer server PORT [WORD…]
//	peer client URL SIZES [WORD…]
package main

import (
	"fmt"
	"os"
	"slices"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "peer server PORT [WORD…] | peer client URL SIZES [WORD…]")
		os.Exit(2)
	}
	switch os.Args[1] {
	case "server":
		serve(os.Args[2], os.Args[3:])
	case "client":
		call(os.Args[2], os.Args[3], os.Args[4:])
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func has(words []string, word string) bool {
	return slices.Contains(words, word)
}
