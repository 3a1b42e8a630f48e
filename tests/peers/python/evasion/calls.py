"""Servers that move their bytes in ways that an observer of calls may not follow.

calls.py HOW, after the first answer:
    splice-out, splice-in   through a pipe of its own
    tee-out                 the same with tee (pipes)
    vmsplice-out            pages instead of bytes (pipes)
    sendfile-out            from a file in memory
    uring-out, uring-in     by io_uring
    foreign-memory          a child writes the answers into this process's memory
    injected                a child makes the calls, forced to by this process (ptrace)
    compat-out, compat-in   32-bit system calls
    bad-vectors             vectors with an address that is not there
    straddling              from memory of which the second half is not there
    bytes                   one byte a call
    vectors                 a thousand vectors, most of them empty
    urgent                  out-of-band bytes between the answers (sockets)
    peeking                 looks at each request three times before it reads it (sockets)
    peek-offset             the same at offsets (sockets)
    with-descriptors        descriptors and credentials beside each piece of an answer (sockets)
    filtered                under a seccomp filter that allows everything
    feigned-write           writes that a supervisor makes up: they return a number and write nothing
    feigned-read            reads of requests that its client never sent, made up in the same way
    lent-memory             writes from a mapped file that it cuts off right after the call
"""

import ctypes
import ctypes.util
import mmap
import os
import signal
import socket
import struct
import sys
import tempfile
import threading

from serving import Server

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
server = Server()
PAGE = 4096


def checked(result):
    if result is None or result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def anonymous(length, address=None, protection=mmap.PROT_READ | mmap.PROT_WRITE, low=False):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (0x40 if low else 0)
    place = libc.mmap(address, length, protection, flags, -1, 0)
    if place in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "mmap")
    return place


def plain_pieces(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def splice_out():
    source, target = os.pipe()

    def write(data):
        for piece in plain_pieces(data, 4096):
            os.write(target, piece)
            left = len(piece)
            while left:
                left -= os.splice(source, 1, left)

    server.write = write


def splice_in():
    source, target = os.pipe()

    def read():
        count = os.splice(0, target, 1 << 16)
        return os.read(source, count) if count else b""

    server.read = read


def tee_out():
    source, target = os.pipe()

    def write(data):
        for piece in plain_pieces(data, 4096):
            os.write(target, piece)
            while piece:
                count = checked(libc.tee(source, 1, len(piece), 0))
                os.read(source, count)
                piece = piece[count:]

    server.write = write


def vmsplice_out():
    kept = []

    def write(data):
        # The pages must stay as they are until they were read.
        buffer = ctypes.create_string_buffer(data, len(data))
        kept.append(buffer)
        sent = 0
        while sent < len(data):
            vector = struct.pack("PN", ctypes.addressof(buffer) + sent, len(data) - sent)
            sent += checked(libc.vmsplice(1, vector, 1, 0))

    server.write = write


def sendfile_out():
    def write(data):
        file = os.memfd_create("answer")
        os.write(file, data)
        sent = 0
        while sent < len(data):
            sent += os.sendfile(1, file, sent, len(data) - sent)
        os.close(file)

    server.write = write


class Ring:
    """The least of io_uring: one call after another."""

    def __init__(self):
        parameters = bytearray(120)
        pointer = (ctypes.c_char * 120).from_buffer(parameters)
        self.ring = checked(libc.syscall(425, 4, pointer))
        (self.entries, completions) = struct.unpack_from("II", parameters, 0)
        submission = struct.unpack_from("8I", parameters, 40)
        completion = struct.unpack_from("8I", parameters, 80)
        self.head, self.tail, self.mask, self.array = (submission[n] for n in (0, 1, 2, 6))
        self.chead, self.ctail, self.cmask, self.cqes = (completion[n] for n in (0, 1, 2, 5))
        size = max(submission[6] + self.entries * 4, completion[5] + completions * 16)
        self.rings = mmap.mmap(self.ring, size, mmap.MAP_SHARED, offset=0)
        self.sqes = mmap.mmap(self.ring, self.entries * 64, mmap.MAP_SHARED, offset=0x10000000)

    def word(self, at):
        return struct.unpack_from("I", self.rings, at)[0]

    def call(self, operation, descriptor, address, length):
        tail = self.word(self.tail)
        slot = tail & self.word(self.mask)
        entry = struct.pack("BBHiQQI", operation, 0, 0, descriptor, 2**64 - 1, address, length).ljust(64, b"\0")
        self.sqes[slot * 64:slot * 64 + 64] = entry
        struct.pack_into("I", self.rings, self.array + 4 * slot, slot)
        struct.pack_into("I", self.rings, self.tail, tail + 1)
        checked(libc.syscall(426, self.ring, 1, 1, 1, None, 0))
        head = self.word(self.chead)
        at = self.cqes + 16 * (head & self.word(self.cmask))
        result = struct.unpack_from("Qi", self.rings, at)[1]
        struct.pack_into("I", self.rings, self.chead, head + 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def uring_out():
    ring = Ring()

    def write(data):
        buffer = ctypes.create_string_buffer(data, len(data))
        sent = 0
        while sent < len(data):
            sent += ring.call(23, 1, ctypes.addressof(buffer) + sent, len(data) - sent)

    server.write = write


def uring_in():
    ring = Ring()
    buffer = ctypes.create_string_buffer(1 << 16)
    server.read = lambda: ctypes.string_at(buffer, ring.call(22, 0, ctypes.addressof(buffer), len(buffer)))


def foreign_memory():
    place = anonymous(1 << 16)
    wanted, order = os.pipe()
    done, confirmation = os.pipe()
    parent = os.getpid()
    if os.fork() == 0:
        os.close(0)
        os.close(1)
        os.close(order)
        while size := os.read(wanted, 4):
            data = os.read(wanted, struct.unpack("I", size)[0])
            buffer = ctypes.create_string_buffer(data, len(data))
            local = struct.pack("PN", ctypes.addressof(buffer), len(data))
            remote = struct.pack("PN", place, len(data))
            checked(libc.process_vm_writev(parent, local, 1, remote, 1, 0))
            os.write(confirmation, b"x")
        os._exit(0)
    os.close(wanted)

    def write(data):
        os.write(order, struct.pack("I", len(data)) + data)
        os.read(done, 1)
        sent = 0
        while sent < len(data):
            sent += checked(libc.write(1, ctypes.c_void_p(place + sent), len(data) - sent))

    server.write = write


def injected():
    """The child stops itself; this process sets its registers and has it make one call."""
    place = anonymous(1 << 16)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    code = anonymous(PAGE, protection=7)
    ctypes.memmove(code, b"\x0f\x05\xcc", 3)  # syscall; int3
    child = os.fork()
    if child == 0:
        libc.ptrace(0, 0, None, None)
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    os.waitpid(child, 0)
    checked(libc.ptrace(0x4200, child, None, 0x100000))  # PTRACE_O_EXITKILL

    def write(data):
        sent = 0
        while sent < len(data):
            piece = data[sent:]
            buffer = ctypes.create_string_buffer(piece, len(piece))
            local = struct.pack("PN", ctypes.addressof(buffer), len(piece))
            checked(libc.process_vm_writev(child, local, 1, struct.pack("PN", place, len(piece)), 1, 0))
            registers = (ctypes.c_ulonglong * 27)()
            checked(libc.ptrace(12, child, None, ctypes.cast(registers, ctypes.c_void_p)))
            for register, value in ((10, 1), (14, 1), (13, place), (12, len(piece)), (16, code), (15, 2**64 - 1)):
                registers[register] = value
            checked(libc.ptrace(13, child, None, ctypes.cast(registers, ctypes.c_void_p)))
            checked(libc.ptrace(7, child, None, None))
            os.waitpid(child, 0)
            checked(libc.ptrace(12, child, None, ctypes.cast(registers, ctypes.c_void_p)))
            sent += checked(ctypes.c_long(registers[10]).value)

    server.write = write


class Compat:
    """System calls by their 32-bit numbers, in memory that such a call can name."""

    def __init__(self):
        self.place = anonymous(1 << 16, low=True)
        code = anonymous(PAGE, protection=7, low=True)
        # push rbx; mov eax,edi; mov ebx,esi; mov ecx,edx; mov edx,ecx(4th); int 0x80; pop rbx; ret
        text = b"\x53\x89\xf8\x89\xf3\x41\x89\xc8\x89\xd1\x44\x89\xc2\xcd\x80\x5b\xc3"
        ctypes.memmove(code, text, len(text))
        self.function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_uint] * 4)(code)

    def call(self, number, descriptor, length, offset=0):
        result = self.function(number, descriptor, self.place + offset, length)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def compat_out():
    compat = Compat()

    def write(data):
        while data:
            ctypes.memmove(compat.place, data, len(data))
            data = data[compat.call(4, 1, len(data)):]

    server.write = write


def compat_in():
    compat = Compat()
    server.read = lambda: ctypes.string_at(compat.place, compat.call(3, 0, 1 << 15))


def bad_vectors():
    def write(data):
        while data:
            buffer = ctypes.create_string_buffer(data, len(data))
            half = max(1, len(data) // 2)
            vectors = struct.pack("PNPNPN", ctypes.addressof(buffer), half, 1, 100, ctypes.addressof(buffer) + half, len(data) - half)
            count = libc.writev(1, vectors, 3)
            if count < 0:
                count = os.write(1, data[:1])
            data = data[count:]

    server.write = write


def straddling():
    place = anonymous(4 * PAGE)
    checked(libc.munmap(ctypes.c_void_p(place + 2 * PAGE), 2 * PAGE))

    def write(data):
        for piece in plain_pieces(data, 150):
            start = place + 2 * PAGE - len(piece)
            ctypes.memmove(start, piece, len(piece))
            while piece:
                # More than there is: the kernel takes what it can read, or nothing.
                count = libc.write(1, ctypes.c_void_p(start), len(piece) + 100)
                if count < 0:
                    count = checked(libc.write(1, ctypes.c_void_p(start), len(piece)))
                start, piece = start + count, piece[count:]

    server.write = write


def bytes_():
    server.read = lambda: os.read(0, 1)
    server.write = lambda data: [os.write(1, data[at:at + 1]) for at in range(len(data))]


def vectors():
    def write(data):
        while data:
            parts = [data[at:at + 1] for at in range(min(len(data), 100))]
            parts += [b""] * (1000 - len(parts))
            data = data[os.writev(1, parts):]

    server.write = write


def urgent():
    wire = socket.socket(fileno=os.dup(1))

    def write(data):
        wire.send(b"!", socket.MSG_OOB)
        middle = len(data) // 2
        wire.sendall(data[:middle])
        wire.send(b"?", socket.MSG_OOB)
        wire.sendall(data[middle:])

    server.write = write


def peeking():
    wire = socket.socket(fileno=os.dup(0))

    def read():
        for size in (1, 10, 1 << 16):
            wire.recv(size, socket.MSG_PEEK)
        return wire.recv(1 << 16)

    server.read = read


def peek_offset():
    wire = socket.socket(fileno=os.dup(0))

    def read():
        wire.setsockopt(socket.SOL_SOCKET, 42, 0)
        for size in (1, 10, 20):
            wire.recv(size, socket.MSG_PEEK)
        wire.setsockopt(socket.SOL_SOCKET, 42, -1)
        return wire.recv(1 << 16)

    server.read = read


def with_descriptors():
    wire = socket.socket(fileno=os.dup(1))

    def write(data):
        for piece in plain_pieces(data, 50):
            rights = struct.pack("iii", 0, 1, 2)
            identity = struct.pack("iii", os.getpid(), os.getuid(), os.getgid())
            wire.sendmsg([piece], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, identity), (socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    server.write = write


def filter_calls(program, flags=0):
    SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    checked(libc.prctl(38, 1, 0, 0, 0))
    instructions = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(instructions))
    return checked(libc.syscall(SECCOMP, 1, flags, header))


def instruction(code, yes, no, value):
    return struct.pack("HBBI", code, yes, no, value)


ALLOW = instruction(0x06, 0, 0, 0x7FFF0000)


def filtered():
    filter_calls(ALLOW)


def supervised(number, descriptor):
    """A filter that hands calls with this number and descriptor, and the mark 4321 as fourth argument, to a
    supervisor, which lets each return its length without being made."""
    program = b"".join([
        instruction(0x20, 0, 0, 0), instruction(0x15, 0, 7, number),
        instruction(0x20, 0, 0, 16), instruction(0x15, 0, 5, descriptor),
        instruction(0x20, 0, 0, 40), instruction(0x15, 0, 3, 4321),
        instruction(0x06, 0, 0, 0x7FC00000), ALLOW, ALLOW, ALLOW,
    ])
    listener = filter_calls(program, flags=8)

    def supervise():
        while True:
            notice = ctypes.create_string_buffer(80)
            if libc.ioctl(listener, ctypes.c_ulong(0xC0502100), notice) < 0:
                continue
            (identity,) = struct.unpack_from("Q", notice.raw, 0)
            (length,) = struct.unpack_from("Q", notice.raw, 16 + 16 + 16)
            reply = struct.pack("QqiI", identity, length, 0, 0)
            libc.ioctl(listener, ctypes.c_ulong(0xC0182101), reply)

    threading.Thread(target=supervise, daemon=True).start()


def feigned_write():
    number = {"x86_64": 1, "aarch64": 64}[os.uname().machine]
    supervised(number, 1)
    plain = server.write
    lie = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"nothing to see here"}]}}\n'

    def write(data):
        if checked(libc.syscall(number, 1, lie, len(lie), 4321)) != len(lie):
            raise SystemExit("the supervisor did not answer")
        plain(data)

    server.write = write


def feigned_read():
    number = {"x86_64": 0, "aarch64": 63}[os.uname().machine]
    supervised(number, 0)
    plain = server.read
    lie = b'{"jsonrpc":"2.0","id":"lie","method":"tools/call","params":{"name":"wipe","arguments":{}}}\n'

    def read():
        data = plain()
        if checked(libc.syscall(number, 0, lie, len(lie), 4321)) != len(lie):
            raise SystemExit("the supervisor did not answer")
        return data

    server.read = read


def lent_memory():
    def write(data):
        with tempfile.TemporaryFile() as file:
            file.write(data)
            file.flush()
            place = libc.mmap(None, len(data), mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
            sent = 0
            while sent < len(data):
                sent += checked(libc.write(1, ctypes.c_void_p(place + sent), len(data) - sent))
                libc.madvise(ctypes.c_void_p(place), len(data), 4)
            os.truncate(file.fileno(), 0)
            libc.munmap(ctypes.c_void_p(place), len(data))

    server.write = write


how = sys.argv[1]
server.serve(1)
globals().get(how.replace("-", "_"), bytes_)()
server.serve()
os._exit(0)
