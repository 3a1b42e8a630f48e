"""Servers that want another name than the one that they were launched under.

launches.py HOW, before the first answer:
    title          writes another command line over its own
    relocated      points the kernel to another command line (prctl PR_SET_MM)
    comm           gives its threads other names
    again          executes itself anew with an argument made up on the spot
    often          does that thirty times
    nameless       executes itself anew under the empty name
    verbose        executes itself anew with a megabyte of arguments
    detached       serves from a grandchild in a session of its own
    vfork-storm    starts short programs on its wire all the time
    exec-storm     has children on its wire that execute themselves again and again
    deleted        deletes its script and its folder
    replaced       puts another script in the place of its own
    in-memory      executes a copy of the interpreter that is in memory only
    loader         executes itself anew by the dynamic loader
    chrooted       changes its root directory
    namespaces     serves from new mount, network, IPC and host name namespaces
    other-user     serves from a user namespace of its own
    other-pids     serves as process 1 of a namespace of processes
    undumpable     hides what /proc shows of it
    nobody         serves as another user
    disguised      executes itself by links that are called like other programs
    recycled       a second process serves under the number of a first one that is gone
and as they are, but started in another way or under another name: plain
"""

import ctypes
import mmap
import os
import shutil
import struct
import sys
import tempfile
import threading

from serving import Server

libc = ctypes.CDLL(None, use_errno=True)
PR_SET_MM, PR_SET_MM_MAP, PR_SET_DUMPABLE, PR_SET_NAME = 35, 14, 4, 15
SCRIPT = os.path.abspath(sys.argv[0])


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def made_up():
    return "made-up-" + os.urandom(4).hex()


def serve():
    Server().serve()
    os._exit(0)


def serve_in_child():
    """Has a child serve, and waits for it."""
    child = os.fork()
    if child == 0:
        serve()
    os.waitpid(child, 0)
    os._exit(0)


def command_line():
    """Where the kernel has it."""
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[45]), int(fields[46])


def title():
    start, end = command_line()
    text = b"/usr/bin/node\0/usr/lib/node_modules/other/index.js\0"
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(text.ljust(end - start, b"\0")[:end - start])


def relocated():
    place = mmap.mmap(-1, 4096)
    text = b"/usr/bin/other\0server\0"
    place.write(text)
    address = ctypes.addressof(ctypes.c_char.from_buffer(place))
    with open("/proc/self/stat") as stat:
        # The rest begins with the third field of the line.
        field = [0, 0, 0] + stat.read().rpartition(")")[2].split()
    start_code, end_code, start_stack = (int(field[n]) for n in (26, 27, 28))
    start_data, end_data, start_brk = (int(field[n]) for n in (45, 46, 47))
    libc.sbrk.restype = ctypes.c_ulong
    layout = [
        start_code, end_code, start_data, end_data, start_brk, libc.sbrk(0), start_stack,
        address, address + len(text), int(field[50]), int(field[51]), 0,
    ]
    layout = struct.pack("12QIi", *layout, 0, -1)
    checked(libc.prctl(PR_SET_MM, PR_SET_MM_MAP, layout, len(layout), 0))
    # The mapping has to stay.
    globals()["kept"] = place


def comm():
    libc.prctl(PR_SET_NAME, b"systemd-journal", 0, 0, 0)
    thread = threading.Thread(target=lambda: libc.prctl(PR_SET_NAME, b"sshd: root", 0, 0, 0) or serve())
    thread.start()
    thread.join()


def again():
    os.execv(sys.executable, [sys.executable, SCRIPT, "plain", made_up()])


def often():
    left = int(sys.argv[2]) if len(sys.argv) > 2 else 30
    if left:
        os.execv(sys.executable, [sys.executable, SCRIPT, "often", str(left - 1), made_up()])


def nameless():
    # Python itself does not do that.
    words = (ctypes.c_char_p * 4)(b"", SCRIPT.encode(), b"plain", None)
    checked(libc.execv(sys.executable.encode(), words))


def verbose():
    os.execv(sys.executable, [sys.executable, SCRIPT, "plain"] + ["x" * 100_000] * 10)


def detached():
    done, alive = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.close(done)
            serve()
        os._exit(0)
    os.wait()
    os.close(alive)
    os.read(done, 1)
    os._exit(0)


def vfork_storm():
    def storm():
        while True:
            os.waitpid(os.posix_spawn("/bin/true", ["true", made_up()], {}), 0)

    for _ in range(2):
        threading.Thread(target=storm, daemon=True).start()


def exec_storm():
    for _ in range(2):
        if os.fork() == 0:
            loop = 'n=$1; test $n -gt 0 && exec sh -c "$0" "$0" $((n - 1)) made-up-$n'
            os.execv("/bin/sh", ["sh", "-c", loop, loop, "300"])


def deleted():
    shutil.rmtree(os.path.dirname(SCRIPT))


def replaced():
    other = SCRIPT + ".new"
    with open(other, "w") as file:
        file.write("raise SystemExit('another one')\n")
    os.rename(other, SCRIPT)


def in_memory():
    copy = os.memfd_create("node")
    with open(sys.executable, "rb") as program:
        shutil.copyfileobj(program, os.fdopen(os.dup(copy), "wb"))
    os.execve(copy, ["node", SCRIPT, "plain"], dict(os.environ, PYTHONHOME=sys.base_prefix))


def loader():
    with open("/proc/self/maps") as maps:
        path = next(line.split()[-1] for line in maps if "/ld-linux" in line)
    os.execv(path, [path, sys.executable, SCRIPT, "plain"])


def chrooted():
    os.chroot(tempfile.mkdtemp())
    os.chdir("/")


def namespaces():
    for flag in (0x20000, 0x40000000, 0x8000000, 0x4000000):
        checked(libc.unshare(flag))


def other_user():
    checked(libc.unshare(0x10000000))


def other_pids():
    checked(libc.unshare(0x20000000))
    serve_in_child()


def undumpable():
    checked(libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))


def nobody():
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)


def disguised():
    steps = ["npx", "node", "claude", "mcpinspectd"]
    at = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    if at < len(steps):
        folder = tempfile.mkdtemp()
        link = os.path.join(folder, steps[at])
        os.symlink(sys.executable, link)
        os.execv(link, [link, SCRIPT, "disguised", str(at + 1)])


def recycled():
    server = Server()
    first = os.fork()
    if first == 0:
        server.serve(1)
        os._exit(0)
    os.waitpid(first, 0)
    for _ in range(100):
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(first - 1))
        second = os.fork()
        if second == 0:
            if os.getpid() == first:
                server.serve()
                os._exit(0)
            os._exit(1)
        if os.waitpid(second, 0)[1] == 0 and second == first:
            os._exit(0)
    raise SystemExit("the number was never free")


if __name__ == "__main__":
    globals().get(sys.argv[1].replace("-", "_"), int)()
    serve()
