"""Servers whose wire is not where one would look for it.

descriptors.py HOW, after the first answer:
    moved         takes the wire away from descriptors 0 and 1
    swapped       exchanges 0 and 1
    wandering     moves it to another number before each answer
    reopened      opens its pipes anew by /proc/self/fd and closes the old descriptors
    handed        a child that it had before gets the wire in a message and serves
    stranger      the same with a process that is nobody's child any more
    last-message  the same, in the last of 40 messages that are received at once
    nested        the wire is in a socket that is itself in a socket for a while
    taken         a child takes the wire out of it with pidfd_getfd
    shared-table  a process that shares its table serves, and it is gone
    vanishing     forks before each answer, and the child goes on
    nonblocking   never waits in a read
    packets       makes its output keep the borders between writes
    tiny-pipe     makes its pipes hold a page, and answers with more
    late          answers the last request after its client has closed its end
    half-closed   closes what it reads from while it answers the last request
    hoarder       keeps hundreds of copies of both descriptors in as many children
"""

import array
import ctypes
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import time

from serving import Server, answer

F_SETPIPE_SZ = 1031
PIDFD_GETFD = 438
CLONE_FILES = 0x400
SYS_CLONE = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
server = Server()


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def occupy():
    """Puts something else where the wire was."""
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def moved():
    server.source, server.target = fcntl.fcntl(0, fcntl.F_DUPFD, 200), fcntl.fcntl(1, fcntl.F_DUPFD, 300)
    occupy()
    server.serve()


def swapped():
    source, target = os.dup(0), os.dup(1)
    os.dup2(source, 1)
    os.dup2(target, 0)
    os.close(source)
    os.close(target)
    server.source, server.target = 1, 0
    server.serve()


def wandering():
    at = 10
    while server.serve(1):
        at += 20
        for name, number in (("source", at), ("target", at + 1)):
            old = getattr(server, name)
            os.dup2(old, number)
            os.close(old)
            setattr(server, name, number)


def reopened():
    source = os.open("/proc/self/fd/0", os.O_RDONLY)
    target = os.open("/proc/self/fd/1", os.O_WRONLY)
    occupy()
    server.source, server.target = source, target
    server.serve()


def give(channel, copies=1):
    wire = array.array("i", [0, 1])
    for _ in range(copies - 1):
        channel.send(b"-")
    channel.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, wire)])


def receive(channel):
    size = socket.CMSG_SPACE(8)
    _, control, _, _ = channel.recvmsg(1, size)
    wire = array.array("i")
    wire.frombytes(control[0][2])
    return wire


def helper(serve_from, detached=False):
    """A process without the wire that serves what it gets by a socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    child = os.fork()
    if child == 0:
        ours.close()
        occupy()
        if detached:
            os.setsid()
            if os.fork():
                os._exit(0)
        source, target = serve_from(theirs)
        Server(source, target).serve()
        os._exit(0)
    if detached:
        os.waitpid(child, 0)
    theirs.close()
    return ours, child


def handed():
    # The first answer was this process's; nothing waits to be read.
    channel, child = helper(receive)
    give(channel)
    occupy()
    os.waitpid(child, 0)


def stranger():
    channel, _ = helper(receive, detached=True)
    give(channel)
    occupy()
    # Its end of the channel tells when the other has left.
    select.select([channel], [], [])


def last_message():
    class Message(ctypes.Structure):
        _fields_ = [("header", ctypes.c_byte * 56), ("length", ctypes.c_uint), ("unused", ctypes.c_uint)]

    def receive_at_once(channel):
        select.select([channel], [], [])
        time.sleep(0.1)
        count, space = 40, socket.CMSG_SPACE(8)
        messages = (Message * count)()
        keep = []
        for message in messages:
            data, control = ctypes.create_string_buffer(8), ctypes.create_string_buffer(space)
            vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(data), 8))
            header = struct.pack("PIxxxxPNPNi", 0, 0, ctypes.addressof(vector), 1, ctypes.addressof(control), space, 0)
            ctypes.memmove(message.header, header, len(header))
            keep.append((data, control, vector))
        got = checked(libc.recvmmsg(channel.fileno(), messages, count, 0, None))
        return struct.unpack("ii", keep[got - 1][1].raw[16:24])

    channel, child = helper(receive_at_once)
    give(channel, copies=40)
    occupy()
    os.waitpid(child, 0)


def nested():
    outer_ours, outer_theirs = socket.socketpair()
    inner_ours, inner_theirs = socket.socketpair()
    give(inner_ours)
    both = array.array("i", [inner_theirs.fileno()])
    outer_ours.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, both)])
    inner_theirs.close()
    occupy()
    time.sleep(1)
    _, control, _, _ = outer_theirs.recvmsg(1, socket.CMSG_SPACE(4))
    inner = socket.socket(fileno=struct.unpack("i", control[0][2])[0])
    server.source, server.target = receive(inner)
    server.serve()


def taken():
    parent = os.getpid()

    def take(channel):
        channel.recv(1)
        pidfd = os.pidfd_open(parent)
        return [checked(libc.syscall(PIDFD_GETFD, pidfd, number, 0)) for number in (0, 1)]

    channel, child = helper(take)
    channel.send(b"x")
    os.waitpid(child, 0)


def shared_table():
    if checked(libc.syscall(SYS_CLONE, CLONE_FILES | signal.SIGCHLD, 0, 0, 0, 0)) == 0:
        time.sleep(0.2)
        server.serve()
    os._exit(0)


def vanishing():
    while server.serve(1):
        if os.fork():
            os._exit(0)


def nonblocking():
    for number in (0, 1):
        os.set_blocking(number, False)
    wait = select.poll()
    wait.register(0, select.POLLIN)
    plain_read, plain_write = server.read, server.write

    def read():
        while True:
            try:
                return plain_read()
            except BlockingIOError:
                wait.poll()

    def write(data):
        for at in range(0, len(data), 100):
            try:
                plain_write(data[at:at + 100])
            except BlockingIOError as error:
                raise SystemExit("the pipe is full") from error

    server.read, server.write = read, write
    server.serve()


def packets():
    fcntl.fcntl(1, fcntl.F_SETFL, fcntl.fcntl(1, fcntl.F_GETFL) | os.O_DIRECT)
    plain_write = server.write
    server.write = lambda data: [plain_write(data[at:at + 37]) for at in range(0, len(data), 37)]
    server.serve()


def tiny_pipe():
    for number in (0, 1):
        fcntl.fcntl(number, F_SETPIPE_SZ, 4096)
    while (request := server.request()) is not None:
        server.say(answer(request, 40_000))


def late():
    while (request := server.request()) is not None:
        if request["params"].get("name") == "last":
            # Its client's end is closed.
            select.select([0], [], [])
            time.sleep(0.5)
        server.say(answer(request))


def half_closed():
    while (request := server.request()) is not None:
        if request["params"].get("name") == "last":
            os.close(0)
            time.sleep(0.3)
            server.say(answer(request))
            os._exit(0)
        server.say(answer(request))


def hoarder():
    for _ in range(300):
        if os.fork() == 0:
            signal.pause()
    os.setpgid(0, 0)
    server.serve()


signal.signal(signal.SIGCHLD, signal.SIG_DFL)
os.setpgid(0, 0)
how = sys.argv[1]
server.serve(1)
globals()[how.replace("-", "_")]()
if how == "hoarder":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
