package main

// This peer's own account of the wire; same format as the Rust one (wirelog.rs).

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unicode/utf8"
)

const textLimit = 2048

type frame struct {
	Way    string  `json:"way"`
	Bytes  int     `json:"bytes"`
	Sha256 string  `json:"sha256"`
	Text   *string `json:"text"`
}

type wireLog struct {
	mutex sync.Mutex
	file  *os.File
}

func openWireLog(role string) *wireLog {
	directory := os.Getenv("WIRE_LOG_DIR")
	if directory == "" {
		return &wireLog{}
	}
	path := filepath.Join(directory, fmt.Sprintf("%s-%d.jsonl", role, os.Getpid()))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	check(err)
	return &wireLog{file: file}
}

// note takes down a message that was sent or received.
func (log *wireLog) note(way string, message []byte) {
	if log.file == nil {
		return
	}
	sum := sha256.Sum256(message)
	line := frame{Way: way, Bytes: len(message), Sha256: hex.EncodeToString(sum[:])}
	if len(message) <= textLimit && utf8.Valid(message) {
		text := string(message)
		line.Text = &text
	}
	encoded, err := json.Marshal(line)
	check(err)
	log.mutex.Lock()
	defer log.mutex.Unlock()
	_, err = log.file.Write(append(encoded, '\n'))
	check(err)
}
