package main

// The server. It has the tool `echo`, which gives back its message, and a plain page beside MCP's path.
// `events`: it answers with streams of events. `two`: it speaks HTTP/2 as well.

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
)

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Arguments struct {
			Message string `json:"message"`
		} `json:"arguments"`
	} `json:"params"`
}

type answer struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type object = map[string]any

var sessions atomic.Int64

func serve(port string, words []string) {
	http.HandleFunc("/page", func(out http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(out, "a page")
	})
	http.HandleFunc("/mcp", func(out http.ResponseWriter, in *http.Request) {
		handle(out, in, has(words, "events"))
	})
	server := &http.Server{Addr: "127.0.0.1:" + port}
	certificate := os.Getenv("TLS_CERTIFICATE")
	if certificate == "" {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(has(words, "two"))
		check(server.ListenAndServe())
	}
	if !has(words, "two") {
		server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){}
	}
	check(server.ListenAndServeTLS(certificate, os.Getenv("TLS_KEY")))
}

func handle(out http.ResponseWriter, in *http.Request, events bool) {
	if in.Method != http.MethodPost {
		http.Error(out, "only POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(in.Body)
	if err != nil {
		return
	}
	var asked request
	if err := json.Unmarshal(body, &asked); err != nil {
		http.Error(out, err.Error(), http.StatusBadRequest)
		return
	}
	if asked.ID == nil {
		out.WriteHeader(http.StatusAccepted)
		return
	}
	encoded, err := json.Marshal(answer{"2.0", asked.ID, result(asked)})
	check(err)
	if asked.Method == "initialize" {
		out.Header().Set("Mcp-Session-Id", fmt.Sprintf("go-%d-%d", os.Getpid(), sessions.Add(1)))
	}
	if events {
		out.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(out, "event: message\ndata: %s\n\n", encoded)
		return
	}
	out.Header().Set("Content-Type", "application/json")
	_, _ = out.Write(encoded)
}

func result(asked request) any {
	switch asked.Method {
	case "initialize":
		return object{
			"protocolVersion": "2025-06-18",
			"capabilities":    object{"tools": object{}},
			"serverInfo":      object{"name": "go-echo", "version": "1"},
		}
	case "tools/list":
		schema := object{"type": "object", "properties": object{"message": object{"type": "string"}}}
		return object{"tools": []any{object{
			"name":        "echo",
			"description": "Gives back the message.",
			"inputSchema": schema,
		}}}
	default:
		text := asked.Params.Arguments.Message
		return object{"content": []any{object{"type": "text", "text": text}}}
	}
}
