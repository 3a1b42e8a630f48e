"""HTTPS through NSS, the library of Firefox, by its C functions."""

import ctypes
import http.client
import io
import os
import socket
import struct

FOREVER = 0xFFFFFFFF
AF_INET = 2
PEEK = 2

nspr = ctypes.CDLL("libnspr4.so")
nss = ctypes.CDLL("libnss3.so")
ssl = ctypes.CDLL("libssl3.so")
for function in (nspr.PR_OpenTCPSocket, ssl.SSL_ImportFD):
    function.restype = ctypes.c_void_p
Verdict = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int
)
# The test's certificate is not in a database of NSS's own.
accept = Verdict(lambda argument, descriptor, check, is_server: 0)


def demand(is_good, what):
    if not is_good:
        raise OSError(f"{what}: NSPR error {nspr.PR_GetError()}")


demand(nss.NSS_NoDB_Init(None) == 0, "NSS_NoDB_Init")
demand(ssl.NSS_SetDomesticPolicy() == 0, "NSS_SetDomesticPolicy")


class Socket:
    """A connection. Its calls alternate between the two functions that there are for each direction."""

    def __init__(self, host, port):
        bare = nspr.PR_OpenTCPSocket(AF_INET)
        demand(bare, "PR_OpenTCPSocket")
        self.descriptor = ctypes.c_void_p(ssl.SSL_ImportFD(None, ctypes.c_void_p(bare)))
        demand(self.descriptor, "SSL_ImportFD")
        demand(ssl.SSL_AuthCertificateHook(self.descriptor, accept, None) == 0, "the hook")
        demand(ssl.SSL_SetURL(self.descriptor, host.encode()) == 0, "SSL_SetURL")
        # A `PRNetAddr`, which has room for the path of a Unix socket.
        address = ctypes.create_string_buffer(128)
        place = struct.pack("=H", AF_INET) + struct.pack(">H", port) + socket.inet_aton(host)
        ctypes.memmove(address, place, len(place))
        status = nspr.PR_Connect(self.descriptor, address, ctypes.c_uint32(FOREVER))
        demand(status == 0, "PR_Connect")
        self.calls = 0

    def alternates(self):
        self.calls += 1
        return self.calls % 2 == 0

    def sendall(self, data):
        data = bytes(data)
        while data:
            if self.alternates():
                count = nspr.PR_Write(self.descriptor, data, len(data))
            else:
                count = nspr.PR_Send(
                    self.descriptor, data, len(data), 0, ctypes.c_uint32(FOREVER)
                )
            demand(count > 0, "sending")
            data = data[count:]

    def receive(self, buffer):
        room = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        if self.alternates():
            count = nspr.PR_Read(self.descriptor, room, len(buffer))
        else:
            # Bytes that are looked at stay where they are.
            for length, flags in ((1, PEEK), (len(buffer), 0)):
                count = nspr.PR_Recv(
                    self.descriptor, room, length, flags, ctypes.c_uint32(FOREVER)
                )
                demand(count >= 0, "receiving")
        demand(count >= 0, "receiving")
        return count

    def makefile(self, mode):
        return io.BufferedReader(Reader(self))

    def close(self):
        nspr.PR_Close(self.descriptor)


class Reader(io.RawIOBase):
    """One answer's view of a connection, which outlives it."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.of.receive(buffer)


class NssConnection(http.client.HTTPConnection):
    def connect(self):
        # A file of NSPR's without TLS, which is nobody's business.
        nspr.PR_Open.restype = ctypes.c_void_p
        file = ctypes.c_void_p(nspr.PR_Open(os.fsencode(__file__), 1, 0))
        demand(file, "PR_Open")
        demand(nspr.PR_Read(file, ctypes.create_string_buffer(64), 64) == 64, "PR_Read")
        self.sock = Socket(self.host, self.port)
