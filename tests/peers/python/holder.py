"""Holds sockets and pipes, each of which was once the standard input and output of a short child.

holder.py USER PAIRS: becomes USER, prints "held" once it holds PAIRS socket pairs and pairs of pipes, in turn, and holds them until
its standard input ends.
"""

import os
import resource
import socket
import sys


def main() -> None:
    user, pairs = int(sys.argv[1]), int(sys.argv[2])
    most = 4 * pairs + 64
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.setgroups([])
    os.setgid(user)
    os.setuid(user)
    held = []
    for turn in range(pairs):
        if turn % 2 == 0:
            left, right = socket.socketpair()
            held.append((left, right))
            source = target = left.fileno()
        else:
            (source, _), (_, target) = os.pipe(), os.pipe()
        actions = [
            (os.POSIX_SPAWN_DUP2, source, 0),
            (os.POSIX_SPAWN_DUP2, target, 1),
        ]
        child = os.posix_spawn("/bin/true", ["true"], {}, file_actions=actions)
        os.waitpid(child, 0)
    print("held", flush=True)
    sys.stdin.read()


main()
