"""A server that answers for as long as it is asked, with as many bytes as each request wants.

steady.py [moved]: with `moved`, it takes its wire away from descriptors 0 and 1 first, as some SDKs do.
"""

import json
import os
import sys

source, target = 0, 1
if sys.argv[1:] == ["moved"]:
    source, target = os.dup(0), os.dup(1)
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)

with os.fdopen(source, "rb") as requests, os.fdopen(target, "wb") as answers:
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        wanted = request["params"].get("arguments", {}).get("wanted", 0)
        result = {"content": [{"type": "text", "text": "y" * wanted}]}
        if request["method"] == "initialize":
            result = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "steady", "version": "1"},
            }
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": result}
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()
