"""A client of MCP over HTTP on curl: curl_client.py URL SIZES WORD…

It calls `echo` with as many letters as each size says, each message by a curl of its own. `two` speaks HTTP/2.
"""

import json
import subprocess
import sys

import wirelog

url, sizes, *words = sys.argv[1:]
log = wirelog.WireLog("client")
session = []


def post(message):
    body = json.dumps(message)
    command = ["curl", "--silent", "--show-error", "--fail", "--max-time", "60", "--dump-header", "/dev/stderr"]
    command += ["--http2-prior-knowledge"] if "two" in words else ["--http1.1"]
    # By default, curl asks first whether it may send a large body.
    for header in ["Content-Type: application/json", "Accept: application/json, text/event-stream", *session]:
        command += ["--header", header]
    log.note("sent", body.encode() + b"\n")
    done = subprocess.run([*command, "--data-binary", "@-", url], input=body.encode(), capture_output=True)
    if done.returncode:
        sys.exit(done.stderr.decode())
    head = done.stderr.decode().splitlines()
    headers = dict(line.lower().split(": ", 1) for line in head if ": " in line)
    if name := headers.get("mcp-session-id"):
        exact = next(line for line in head if line.lower().startswith("mcp-session-id"))
        session[:] = [exact, "MCP-Protocol-Version: 2025-06-18"]
    if headers.get("content-type", "").startswith("text/event-stream"):
        for line in done.stdout.split(b"\n"):
            data = line.rstrip(b"\r").removeprefix(b"data:").strip()
            if line.startswith(b"data:") and data:
                log.note("received", data + b"\n")
    elif done.stdout:
        log.note("received", done.stdout + b"\n")


def ask(number, method, parameters):
    post({"jsonrpc": "2.0", "id": number, "method": method, "params": parameters})


about = {"name": "curl", "version": "1"}
ask(1, "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about})
post({"jsonrpc": "2.0", "method": "notifications/initialized"})
ask(2, "tools/list", {})
for number, size in enumerate(sizes.split(","), start=3):
    ask(number, "tools/call", {"name": "echo", "arguments": {"message": "c" * int(size)}})
