"""Encrypts and decrypts as fast as it can, in memory, until its standard input ends. It speaks no MCP."""

import os
import ssl
import sys
import threading

server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server_context.load_cert_chain(os.environ["TLS_CERTIFICATE"], os.environ["TLS_KEY"])
client_context = ssl.create_default_context(cafile=os.environ["TLS_CERTIFICATE"])

to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
server = server_context.wrap_bio(to_server, to_client, server_side=True)
client = client_context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
waiting = [client, server]
while waiting:
    for end in list(waiting):
        try:
            end.do_handshake()
            waiting.remove(end)
        except ssl.SSLWantReadError:
            pass

ended = threading.Event()


def wait_for_end():
    sys.stdin.read()
    ended.set()


threading.Thread(target=wait_for_end, daemon=True).start()
while not ended.is_set():
    client.write(b"x")
    server.read(1)
