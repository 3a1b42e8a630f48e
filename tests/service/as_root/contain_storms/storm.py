"""A server that makes it hard to be stopped. `storm.py HOW`, with its streams as standard input and output:

    forks       workers that fork all the time, two generations deep
    chain       each process starts the next, and waits for it
    execs       programs that execute themselves anew
    threads     threads that come and go, fork, and execute the program anew
    spawns      children that are started while their parent waits (vfork)
    leaderless  the main thread is gone, and the others fork
    continues   processes that wake up all others while they fork
    traced      a process that is held by another one
    reaper      what loses its parent becomes the server's child
    runaway     a process that hands over to a child and is gone, again and again
    detached    a child of nobody, which holds the wire
    sibling     a child of the server's parent (CLONE_PARENT), which holds the wire
    bystander   no server: others' processes that come and go, and take every number that becomes free

All of them end by themselves after a while.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

END = time.monotonic() + 60
libc = ctypes.CDLL(None, use_errno=True)


def goes_on():
    return time.monotonic() < END


def child(work, *arguments):
    if (pid := os.fork()) == 0:
        try:
            work(*arguments)
        finally:
            os._exit(0)
    return pid


def reap():
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def breed(generations, pause=0.001):
    """Forks children that live for a moment, and have children themselves."""
    while goes_on():
        child(breed_once, generations - 1) if generations else time.sleep(pause)
        reap()
        time.sleep(pause)


def breed_once(generations):
    if generations:
        os.waitpid(child(breed_once, generations - 1), 0)
    time.sleep(0.002)


def forks():
    for _ in range(3):
        child(breed, 2)
    breed(2)


def chain(depth=0):
    while goes_on():
        if depth < 60:
            os.waitpid(child(chain, depth + 1), 0)
        time.sleep(0.001)
        if depth:
            return


def execs():
    again = 'i=$((i+1)); [ "$i" -gt 20000 ] || exec sh -c "$again"'
    environment = {**os.environ, "again": again, "i": "0"}
    for _ in range(2):
        child(os.execvpe, "sh", ["sh", "-c", again], environment)
    os.execvpe("sh", ["sh", "-c", again], environment)


def threads():
    def short():
        time.sleep(0.001)

    def again():
        # The kernel ends all other threads, and this one takes the main thread's place.
        os.execv(sys.executable, [sys.executable, *sys.argv])

    child(breed, 1)
    restart = time.monotonic() + 0.02
    while goes_on():
        threading.Thread(target=short).start()
        if time.monotonic() > restart:
            threading.Thread(target=again).start()
            time.sleep(1)


def spawns():
    def spawn():
        while goes_on():
            subprocess.run(["sleep", "0.002"])

    for _ in range(3):
        threading.Thread(target=spawn).start()
    spawn()


def leaderless():
    for _ in range(3):
        threading.Thread(target=breed, args=(1,)).start()
    libc.syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)


def continues():
    os.setpgid(0, 0)

    def wake():
        while goes_on():
            os.killpg(0, signal.SIGCONT)

    for _ in range(2):
        child(wake)
    breed(1)


def traced():
    held = child(breed, 1)
    time.sleep(0.01)
    libc.ptrace(0x4206, held, None, None)  # PTRACE_SEIZE
    while goes_on():
        libc.ptrace(0x4207, held, None, None)  # PTRACE_INTERRUPT
        pid, status = os.waitpid(held, 0x40000000)
        if os.WIFSTOPPED(status):
            # Without the signal, if it was one.
            libc.ptrace(7, held, None, None)
        time.sleep(0.001)


def reaper():
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    def orphan():
        child(breed_once, 2)

    while goes_on():
        child(orphan)
        reap()
        time.sleep(0.001)


def runaway():
    child(run)
    while goes_on():
        reap()
        time.sleep(0.01)


def run():
    while goes_on():
        if os.fork():
            os._exit(0)
        time.sleep(0.002)


def detached():
    os.waitpid(child(lambda: child(time.sleep, 60)), 0)
    breed(1)


def sibling():
    number = {"x86_64": 56, "aarch64": 220}[os.uname().machine]
    if libc.syscall(number, 0x8000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        time.sleep(60)
        os._exit(0)
    breed(1)


def bystander():
    """Tells on standard output, after the first line, when one of its own was stopped or ended by another."""
    alive = []
    while True:
        # The next processes of all, not just of this one, get the lowest numbers that are free.
        with open("/proc/sys/kernel/ns_last_pid", "w") as last:
            last.write(str(os.getpid()))
        alive.append(child(time.sleep, 0.01))
        for pid in list(alive):
            found, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if found and (os.WIFSTOPPED(status) or os.WIFSIGNALED(status)):
                print(f"process {pid} was signalled: {status}", flush=True)
            if found:
                alive.remove(pid)
        time.sleep(0.001)


os.write(1, b"it begins\n")
globals()[sys.argv[1]]()
