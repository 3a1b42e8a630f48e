"""Servers whose words are made to be misread.

words.py HOW:
    banner           prints lines of no meaning before anything else
    binary           prints 64 KiB of noise first
    headers          answers with Content-Length headers, as language servers do
    lying-headers    with headers that are wrong
    http             begins like a server of the web
    windows          ends its lines like Windows
    mark             begins each line with a byte order mark
    utf16            answers in UTF-16
    blanks           writes half a megabyte of blanks before each answer
    empty-lines      writes thousands of empty lines between its answers
    zeros            writes NUL bytes before each answer
    torn             tears characters apart, and waits in the middle
    late-half        writes half of an answer and goes on after two seconds
    carriage-return  puts noise before a carriage return on the line of each answer
    escaped          writes the names of the members with escapes
    doubled          has members twice
    deep             nests its answer a thousand levels deep
    trailing         has a second object on the line of each answer
    batches          puts each answer into a list
    unasked          answers requests that nobody made
    mirrored         sends each request back before its answer
    separators       has separators of lines in Unicode within its answers
    not-unicode      has bytes in its texts that are no characters
    lines-of-logs    answers among JSON lines of another kind
    huge-number      has numbers of thousands of digits
    reordered        begins with what only clients say
    posing           acts as a client until its client speaks, and then answers
    slow             writes five bytes at a time, with pauses
    half-line        leaves a half line in front of its first answer
"""

import json
import os
import sys
import time

from serving import Server, answer

server = Server()


def text_of(request):
    return json.dumps(answer(request)).encode()


def each(change):
    """Answers with what `change` makes of the text of each answer."""
    while (request := server.request()) is not None:
        server.write(change(text_of(request)))


def banner():
    server.write(b"Loading the model ...\n[1/3] listening on stdio\n{not json\n")
    server.serve()


def binary():
    noise = os.urandom(1 << 16).replace(b"\n", b" ")
    server.write(noise + b"\n")
    server.serve()


def headers():
    each(lambda text: b"Content-Length: %d\r\n\r\n%s\n" % (len(text) + 1, text))


def lying_headers():
    each(lambda text: b"Content-Length: 1\r\nContent-Length: 999999999\r\n\r\n%s\n" % text)


def http():
    server.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n")
    each(lambda text: text + b"\n")


def windows():
    each(lambda text: text + b"\r\n")


def mark():
    each(lambda text: b"\xef\xbb\xbf" + text + b"\n")


def utf16():
    each(lambda text: text.decode().encode("utf-16-le") + b"\n")


def blanks():
    each(lambda text: b" " * (1 << 19) + text + b"\t\t\n")


def empty_lines():
    each(lambda text: b"\n" * 3000 + text + b"\r\n\r\n\n")


def zeros():
    each(lambda text: b"\0" * 20 + b"\n" + text + b"\n")


def torn():
    while (request := server.request()) is not None:
        reply = dict(answer(request), note="\u20ac" * 20)
        *pieces, last = json.dumps(reply, ensure_ascii=False).encode().split(b"\x82")
        for piece in pieces:
            server.write(piece)
            time.sleep(0.001)
            server.write(b"\x82")
        server.write(last + b"\n")


def late_half():
    server.serve(1)
    for _ in range(2):
        text = text_of(server.request())
        server.write(text[:40])
        time.sleep(2)
        server.write(text[40:] + b"\n")
    server.serve()


def carriage_return():
    each(lambda text: b"Content-Length: 5\r" + text + b"\n")


def escaped():
    each(lambda text: text.replace(b'"jsonrpc"', b'"\\u006asonrpc"').replace(b'"result"', b'"re\\u0073ult"') + b"\n")


def doubled():
    each(lambda text: text[:-1] + b', "id": "other", "jsonrpc": "1.0"' + text[-1:] + b"\n")


def deep():
    each(lambda text: text[:-1] + b', "deep": ' + b"[" * 1000 + b"]" * 1000 + b"}\n")


def trailing():
    each(lambda text: text + b' {"jsonrpc":"2.0","method":"notifications/other"}\n')


def batches():
    each(lambda text: b"[" + text + b"]\n")


def unasked():
    while (request := server.request()) is not None:
        server.say({"jsonrpc": "2.0", "id": 4711, "result": {"tools": []}})
        server.say({"jsonrpc": "2.0", "id": str(request["id"]), "result": {}})
        server.say(answer(request))


def mirrored():
    while (request := server.request()) is not None:
        server.say(dict(request, id=str(request["id"])))
        server.say(answer(request))


def separators():
    each(lambda text: text.replace(b"xxx", "x\u2028\u2029\x85".encode()) + b"\n")


def not_unicode():
    each(lambda text: text.replace(b"xxx", b"\xff\xc0\xaf") + b"\n")


def lines_of_logs():
    log = b'{"level":"info","msg":"served","time":"2025-01-01T00:00:00Z"}\n' * 20
    server.write(log)
    each(lambda text: log + text + b"\n")


def huge_number():
    each(lambda text: text[:-1] + b', "number": ' + b"9" * 5000 + b"}\n")


def reordered():
    server.say({"jsonrpc": "2.0", "id": "own", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
    server.serve()


def posing():
    server.say({"jsonrpc": "2.0", "id": "own-0", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}})
    server.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
    for number in range(1, 20):
        call = {"name": "note", "arguments": {}}
        server.say({"jsonrpc": "2.0", "id": f"own-{number}", "method": "tools/call", "params": call})
    server.serve()


def slow():
    def write(data):
        for at in range(0, len(data), 5):
            os.write(1, data[at:at + 5])
            time.sleep(0.0005)

    server.write = write
    server.serve()


def half_line():
    server.write(b"Enter your password: ")
    server.serve()


globals()[sys.argv[1].replace("-", "_")]()
