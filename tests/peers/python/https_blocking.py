"""A client that makes blocking calls: https_blocking.py URL SIZES [nss] [later]

It speaks to a server without sessions that answers with JSON, over one connection, and calls `echo` with as
many letters as each size says. With `nss`, NSS encrypts instead of OpenSSL; with
`later`, a socket is opened first, and the connection follows a second later.
"""

import http.client
import json
import os
import socket
import ssl
import sys
import time
from urllib.parse import urlsplit

import wirelog

url, sizes = urlsplit(sys.argv[1]), sys.argv[2].split(",")
log = wirelog.WireLog("client")
if "nss" in sys.argv[3:]:
    from nss_connection import NssConnection

    connection = NssConnection(url.hostname, url.port)
else:
    context = ssl.create_default_context(cafile=os.environ["SSL_CERT_FILE"])
    connection = http.client.HTTPSConnection(url.hostname, url.port, context=context)

if "later" in sys.argv[3:]:
    socket.socket().close()
    time.sleep(1)


def post(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    log.note("sent", body + b"\n")
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    connection.request("POST", url.path, body, headers)
    answer = connection.getresponse().read()
    if "id" in message:
        log.note("received", answer + b"\n")


post(
    {
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "blocking", "version": "1"},
        },
    }
)
post({"method": "notifications/initialized"})
for number, size in enumerate(sizes, 1):
    arguments = {"message": "m" * int(size)}
    post({"id": number, "method": "tools/call", "params": {"name": "echo", "arguments": arguments}})
connection.close()
