"""Servers that hide what they say in where it is, how it is asked for, and who moves it.

buffers.py HOW, after the first answer:
    polled-out, polled-in    by io_uring with a kernel thread, so that no call is made at all
    queued-out, queued-in    by the kernel's older queue (io_submit)
    dropped-in               reads into memory that another thread unmaps all the time
    served-out               writes memory that is filled when it is read, and emptied right after (userfaultfd)
    many-vectors             1,024 vectors, of which one in the middle is nowhere
    impatient                reads with RWF_NOWAIT, and writes by pwritev2
    interrupted              a signal every 200 microseconds
    twins                    two threads in turn, through descriptors of their own
    table-of-its-own         a thread whose table was split off by close_range
    fabricated               32-bit calls that look like reads of requests that its client never sent
    resizing                 makes its pipes larger and smaller while there is something in them (pipes)
    gifts                    gives its pages away (vmsplice, pipes)
    flags                    sends and receives with every flag that may be (sockets)
    many-messages            many messages a call, some of them empty (sockets)
"""

import ctypes
import fcntl
import mmap
import os
import random
import select
import signal
import socket
import struct
import sys
import threading
import time

from serving import Server

F_SETPIPE_SZ = 1031
PAGE = 4096
NUMBERS = {
    "x86_64": {"io_setup": 206, "io_submit": 209, "io_getevents": 208, "userfaultfd": 323, "preadv2": 327, "pwritev2": 328},
    "aarch64": {"io_setup": 0, "io_submit": 2, "io_getevents": 4, "userfaultfd": 282, "preadv2": 286, "pwritev2": 287},
}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
server = Server()


def checked(result):
    if result is None or result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(name, *arguments):
    return checked(libc.syscall(NUMBERS[name], *arguments))


def mapped(length, flags, descriptor=-1, protection=mmap.PROT_READ | mmap.PROT_WRITE):
    place = libc.mmap(None, length, protection, flags, descriptor, 0)
    if place in (None, 2**64 - 1):
        raise OSError(ctypes.get_errno(), "mmap")
    return place


def wait_for(descriptor, events):
    poll = select.poll()
    poll.register(descriptor, events)
    poll.poll()


class PolledRing:
    """io_uring whose queue a kernel thread works off."""

    def __init__(self):
        parameters = bytearray(120)
        struct.pack_into("II", parameters, 8, 2, 0)  # IORING_SETUP_SQPOLL
        struct.pack_into("I", parameters, 16, 60_000)  # it never rests
        self.ring = checked(libc.syscall(425, 4, (ctypes.c_char * 120).from_buffer(parameters)))
        entries, completions = struct.unpack_from("II", parameters, 0)
        submission = struct.unpack_from("8I", parameters, 40)
        completion = struct.unpack_from("8I", parameters, 80)
        self.tail, self.mask, self.flags, self.array = (submission[n] for n in (1, 2, 4, 6))
        self.chead, self.ctail, self.cmask, self.cqes = (completion[n] for n in (0, 1, 2, 5))
        size = max(submission[6] + entries * 4, completion[5] + completions * 16)
        self.rings = mmap.mmap(self.ring, size, mmap.MAP_SHARED, offset=0)
        self.sqes = mmap.mmap(self.ring, entries * 64, mmap.MAP_SHARED, offset=0x10000000)

    def word(self, at):
        return struct.unpack_from("I", self.rings, at)[0]

    def call(self, operation, descriptor, address, length):
        tail = self.word(self.tail)
        slot = tail & self.word(self.mask)
        entry = struct.pack("BBHiQQI", operation, 0, 0, descriptor, 2**64 - 1, address, length).ljust(64, b"\0")
        self.sqes[slot * 64:slot * 64 + 64] = entry
        struct.pack_into("I", self.rings, self.array + 4 * slot, slot)
        struct.pack_into("I", self.rings, self.tail, tail + 1)
        head = self.word(self.chead)
        while self.word(self.ctail) == head:
            if self.word(self.flags) & 1:
                # It rests until its first work.
                libc.syscall(426, self.ring, 0, 0, 2, None, 0)
            time.sleep(0.0005)
        result = struct.unpack_from("Qi", self.rings, self.cqes + 16 * (head & self.word(self.cmask)))[1]
        struct.pack_into("I", self.rings, self.chead, head + 1)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def by_memory(move):
    """A writer by `move(address, length)`."""

    def write(data):
        buffer = ctypes.create_string_buffer(data, len(data))
        sent = 0
        while sent < len(data):
            sent += move(ctypes.addressof(buffer) + sent, len(data) - sent)

    return write


def polled_out():
    ring = PolledRing()
    server.write = by_memory(lambda address, length: ring.call(23, 1, address, length))


def polled_in():
    ring = PolledRing()
    buffer = ctypes.create_string_buffer(1 << 16)
    server.read = lambda: ctypes.string_at(buffer, ring.call(22, 0, ctypes.addressof(buffer), len(buffer)))


class Queue:
    def __init__(self):
        self.context = ctypes.c_ulong(0)
        call("io_setup", 4, ctypes.byref(self.context))

    def call(self, operation, descriptor, address, length):
        control = ctypes.create_string_buffer(64)
        struct.pack_into("QIIHhIQQqQII", control, 0, 0, 0, 0, operation, 0, descriptor, address, length, 0, 0, 0, 0)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(control))
        call("io_submit", self.context, 1, pointers)
        event = ctypes.create_string_buffer(32)
        call("io_getevents", self.context, 1, 1, event, None)
        result = struct.unpack_from("q", event.raw, 16)[0]
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return result


def queued_out():
    queue = Queue()
    server.write = by_memory(lambda address, length: queue.call(1, 1, address, length))


def queued_in():
    queue = Queue()
    buffer = ctypes.create_string_buffer(1 << 16)
    server.read = lambda: ctypes.string_at(buffer, queue.call(0, 0, ctypes.addressof(buffer), len(buffer)))


def dropped_in():
    """The pages stay in the file, and leave the page tables."""
    length = 1 << 16
    file = os.memfd_create("buffer")
    os.truncate(file, length)
    place = mapped(length, mmap.MAP_SHARED, file)
    again = mmap.mmap(file, length)

    def drop():
        while True:
            libc.madvise(place, length, 4)  # MADV_DONTNEED

    threading.Thread(target=drop, daemon=True).start()
    server.read = lambda: again[:checked(libc.read(0, ctypes.c_void_p(place), length))]


def served_out():
    length = 1 << 18
    place = mapped(length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    faults = call("userfaultfd", os.O_CLOEXEC)
    words = bytearray(struct.pack("QQQ", 0xAA, 0, 0))
    checked(libc.ioctl(faults, ctypes.c_ulong(0xC018AA3F), (ctypes.c_char * 24).from_buffer(words)))
    words = bytearray(struct.pack("QQQQ", place, length, 1, 0))
    checked(libc.ioctl(faults, ctypes.c_ulong(0xC020AA00), (ctypes.c_char * 32).from_buffer(words)))
    content = bytearray(length)

    def serve():
        while True:
            message = os.read(faults, 32)
            address = struct.unpack_from("Q", message, 16)[0] & ~(PAGE - 1)
            page = bytes(content[address - place:address - place + PAGE])
            source = ctypes.create_string_buffer(page, PAGE)
            words = bytearray(struct.pack("QQQQq", address, ctypes.addressof(source), PAGE, 0, 0))
            libc.ioctl(faults, ctypes.c_ulong(0xC028AA03), (ctypes.c_char * 40).from_buffer(words))

    threading.Thread(target=serve, daemon=True).start()

    def move(data):
        content[:len(data)] = data
        sent = 0
        while sent < len(data):
            sent += checked(libc.write(1, ctypes.c_void_p(place + sent), len(data) - sent))
            libc.madvise(place, length, 4)

    server.write = move


def many_vectors():
    def write(data):
        while data:
            parts = [data[at:at + 1] for at in range(min(len(data), 1024))]
            buffers = [ctypes.create_string_buffer(part, len(part)) for part in parts]
            words = [(ctypes.addressof(buffer), 1) for buffer in buffers]
            words += [(0, 0)] * (1024 - len(words))
            middle = min(len(parts) - 1, 500)
            if middle:
                words[middle] = (1, 1)
            vectors = b"".join(struct.pack("QQ", *word) for word in words)
            count = libc.writev(1, vectors, 1024)
            if count < 0:
                # A pipe takes nothing then.
                count = checked(libc.writev(1, vectors[:16 * middle], middle))
            data = data[count:]

    server.write = write


def impatient():
    buffer = ctypes.create_string_buffer(1 << 16)

    def read():
        vector = struct.pack("PN", ctypes.addressof(buffer), len(buffer))
        while True:
            count = libc.syscall(NUMBERS["preadv2"], 0, vector, 1, ctypes.c_long(-1), ctypes.c_long(-1), 8)
            if count >= 0:
                return buffer.raw[:count]
            wait_for(0, select.POLLIN)

    def move(address, length):
        vector = struct.pack("PN", address, length)
        return call("pwritev2", 1, vector, 1, ctypes.c_long(-1), ctypes.c_long(-1), 0)

    server.read = read
    server.write = by_memory(move)


def interrupted():
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.siginterrupt(signal.SIGALRM, True)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)


def twins():
    wires = [os.dup(1), os.dup(1)]
    turn = [threading.Semaphore(1), threading.Semaphore(0)]
    pieces, done = [], threading.Semaphore(0)

    def serve(number):
        while True:
            turn[number].acquire()
            while not pieces:
                time.sleep(0.0005)
            piece = pieces.pop(0)
            while piece:
                piece = piece[os.write(wires[number], piece):]
            done.release()
            turn[1 - number].release()

    for number in (0, 1):
        threading.Thread(target=serve, args=(number,), daemon=True).start()

    def write(data):
        parts = [data[at:at + 7] for at in range(0, len(data), 7)]
        pieces.extend(parts)
        for _ in parts:
            done.acquire()

    server.write = write


def table_of_its_own():
    wire = fcntl.fcntl(1, fcntl.F_DUPFD, 50)
    orders, ready = [], threading.Semaphore(0)
    done = threading.Semaphore(0)

    def serve():
        # All below and above, in a table that is this thread's alone.
        checked(libc.syscall(436, 51, 0xFFFFFFFF, 2))
        while True:
            ready.acquire()
            data = orders.pop(0)
            while data:
                data = data[os.write(wire, data):]
            done.release()

    threading.Thread(target=serve, daemon=True).start()

    def write(data):
        orders.append(data)
        ready.release()
        done.acquire()

    time.sleep(0.05)
    os.close(wire)
    null = os.open("/dev/null", os.O_WRONLY)
    os.dup2(null, 1)
    server.write = write


def fabricated():
    """By the 32-bit table, `lseek` has the number of `readv`. It returns a number of its caller's choice, and its
    other arguments are in other registers."""
    lie = b'{"jsonrpc":"2.0","id":"lie","method":"tools/call","params":{"name":"wipe","arguments":{}}}\n'
    code = mapped(PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40, protection=7)
    # push rbx; mov ebx,ecx; mov ecx,r8d; mov eax,r9d; int 0x80; pop rbx; ret
    text = b"\x53\x89\xcb\x44\x89\xc1\x44\x89\xc8\xcd\x80\x5b\xc3"
    ctypes.memmove(code, text, len(text))
    function = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_ulong] * 6)(code)
    buffer = ctypes.create_string_buffer(lie, len(lie))
    vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(buffer), len(lie)))
    plain = server.read

    def read():
        data = plain()
        file = os.memfd_create("nothing")
        # readv(0, vector, 1), and lseek(file, length, SEEK_CUR).
        if function(0, ctypes.addressof(vector), 1, file, len(lie), 19) != len(lie):
            raise SystemExit("lseek did not answer")
        os.close(file)
        return data

    server.read = read


def resizing():
    plain_write, plain_read = server.write, server.read

    def resize(descriptor):
        try:
            fcntl.fcntl(descriptor, F_SETPIPE_SZ, random.choice((4096, 8192, 1 << 16, 1 << 20)))
        except OSError:
            pass  # what is in it does not fit

    def write(data):
        for at in range(0, len(data), 100):
            resize(1)
            plain_write(data[at:at + 100])
            resize(1)

    def read():
        resize(0)
        return plain_read()

    server.write, server.read = write, read


def gifts():
    def write(data):
        while data:
            place = mapped(PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            piece = data[:PAGE]
            ctypes.memmove(place, piece, len(piece))
            vector = struct.pack("PN", place, len(piece))
            data = data[checked(libc.vmsplice(1, vector, 1, 8)):]  # SPLICE_F_GIFT

    server.write = write


def flags():
    wire = socket.socket(fileno=os.dup(1))
    source = socket.socket(fileno=os.dup(0))
    wanted = [0, 0x8000, 0x4000, 0x8000 | 0x4000 | 0x80, 0x4000000, 0x40 | 0x4000]

    def write(data):
        turn = 0
        while data:
            try:
                data = data[wire.send(data[:50], wanted[turn % len(wanted)]):]
            except BlockingIOError:
                wait_for(1, select.POLLOUT)
            turn += 1

    def read():
        first = source.recv(1, socket.MSG_WAITALL)
        if not first:
            return first
        rest = b""
        try:
            rest, _, _, _ = source.recvmsg(1 << 16, 100, socket.MSG_DONTWAIT | socket.MSG_TRUNC | 0x40000000)
        except BlockingIOError:
            pass
        return first + rest

    server.write, server.read = write, read


def many_messages():
    def headers(pieces):
        buffers = [ctypes.create_string_buffer(piece, max(len(piece), 1)) for piece in pieces]
        vectors = [ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(buffer), len(piece))) for buffer, piece in zip(buffers, pieces)]
        packed = b"".join(struct.pack("PIxxxxPNPNixxxxIxxxx", 0, 0, ctypes.addressof(vector), 1, 0, 0, 0, 0) for vector in vectors)
        return ctypes.create_string_buffer(packed, len(packed)), buffers, vectors

    def lengths(block, count):
        return [struct.unpack_from("I", block.raw, 64 * at + 56)[0] for at in range(count)]

    def write(data):
        while data:
            pieces = [b"" if at % 5 == 4 else data[3 * at:3 * at + 3] for at in range(20)]
            # What an empty one stands for is said by the next call.
            pieces = [piece for at, piece in enumerate(pieces) if at < 4] + [b""]
            block, *kept = headers(pieces)
            count = checked(libc.sendmmsg(1, block, len(pieces), 0))
            data = data[sum(lengths(block, count)):]

    def read():
        block, buffers, kept = headers([b"\0" * 40] * 16)
        count = checked(libc.recvmmsg(0, block, 16, 0x10000, None))  # MSG_WAITFORONE
        return b"".join(buffer.raw[:length] for buffer, length in zip(buffers, lengths(block, count)))

    server.write, server.read = write, read


how = sys.argv[1]
server.serve(1)
globals()[how.replace("-", "_")]()
server.serve()
os._exit(0)
