package main

// The client. It calls `echo` with as many letters as each size says: one call after the other, or, with
// `together`, all at once. `two`: it offers HTTP/2, or without TLS, speaks nothing else. `await`: it goes on when
// the file `go` is in the directory of its log.

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

type client struct {
	url     string
	http    http.Client
	log     *wireLog
	session string
	number  atomic.Int64
}

func call(url, sizes string, words []string) {
	if has(words, "await") {
		// With an internet socket, it may speak TLS.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		check(err)
		defer listener.Close()
		awaitFile(filepath.Join(os.Getenv("WIRE_LOG_DIR"), "go"))
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	if path := os.Getenv("SSL_CERT_FILE"); path != "" {
		certificate, err := os.ReadFile(path)
		check(err)
		trusted := x509.NewCertPool()
		trusted.AppendCertsFromPEM(certificate)
		transport.TLSClientConfig = &tls.Config{RootCAs: trusted, NextProtos: []string{"http/1.1"}}
		if has(words, "two") {
			transport.TLSClientConfig.NextProtos = nil
			transport.ForceAttemptHTTP2 = true
		}
	} else if has(words, "two") {
		transport.Protocols = new(http.Protocols)
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	c := &client{url: url, http: http.Client{Transport: transport}, log: openWireLog("client")}
	c.ask("initialize", object{
		"protocolVersion": "2025-06-18",
		"capabilities":    object{},
		"clientInfo":      object{"name": "go", "version": "1"},
	})
	c.post(object{"jsonrpc": "2.0", "method": "notifications/initialized"})
	c.ask("tools/list", object{})
	var calls sync.WaitGroup
	for _, size := range strings.Split(sizes, ",") {
		letters, err := strconv.Atoi(size)
		check(err)
		parameters := object{"name": "echo", "arguments": object{"message": strings.Repeat("m", letters)}}
		if !has(words, "together") {
			c.ask("tools/call", parameters)
			continue
		}
		calls.Add(1)
		go func() {
			defer calls.Done()
			c.ask("tools/call", parameters)
		}()
	}
	calls.Wait()
	transport.CloseIdleConnections()
}

func awaitFile(path string) {
	for {
		if _, err := os.Stat(path); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func (c *client) ask(method string, parameters object) {
	id := c.number.Add(1)
	c.post(object{"jsonrpc": "2.0", "id": id, "method": method, "params": parameters})
}

func (c *client) post(message object) {
	body, err := json.Marshal(message)
	check(err)
	c.log.note("sent", body)
	request, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader(body))
	check(err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	request.Header.Set("MCP-Protocol-Version", "2025-06-18")
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
	}
	response, err := c.http.Do(request)
	check(err)
	defer response.Body.Close()
	if session := response.Header.Get("Mcp-Session-Id"); session != "" {
		c.session = session
	}
	answer, err := io.ReadAll(response.Body)
	check(err)
	switch {
	case response.StatusCode == http.StatusAccepted:
	case response.StatusCode != http.StatusOK:
		check(fmt.Errorf("%s: %s", response.Status, answer))
	case response.Header.Get("Content-Type") == "text/event-stream":
		lines := bufio.NewReader(bytes.NewReader(answer))
		for {
			line, err := lines.ReadBytes('\n')
			if data, is := bytes.CutPrefix(line, []byte("data: ")); is {
				c.log.note("received", bytes.TrimSuffix(data, []byte("\n")))
			}
			if err != nil {
				return
			}
		}
	default:
		c.log.note("received", answer)
	}
}
