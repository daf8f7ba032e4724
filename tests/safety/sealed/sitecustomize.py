"""A Python in which no connection can be made: on PYTHONPATH it is loaded by every Python before its program.

The interpreter's own events (PEP 578) tell which connection was tried, each as a line of the file $SEALED_LOG, and the
attempt fails. On Linux the kernel ends a process, or a child of any kind, that asks for an internet socket: native code
has no such events. Sockets of this machine (pipes between processes) stay.
"""

import os
import sys

LOG = os.environ["SEALED_LOG"]
REFUSED = (
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.getnameinfo"),
    *("socket.gethostbyname", "socket.gethostbyaddr", "http.client.connect", "urllib.Request", "ftplib.connect"),
)
MACHINES = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # AUDIT_ARCH and the number of socket(2)
INTERNET = (2, 10)  # AF_INET, AF_INET6


def refuse(event: str, arguments: tuple[object, ...]) -> None:
    local = event.startswith("socket.") and getattr(arguments[0], "family", None) == 1  # AF_UNIX
    if event in REFUSED and not local:
        with open(LOG, "a", encoding="utf-8") as file:
            file.write(f"{event} {arguments!r} in {sys.argv}\n")
        raise PermissionError(1, f"sealed: {event}")


def seal() -> None:
    """The kernel's part, where it has one: a filter of system calls, inherited by every child."""
    import ctypes
    import struct

    machine, socket_call = MACHINES[os.uname().machine]
    load, equal, done = 0x20, 0x15, 0x06
    program = [
        (load, 0, 0, 4),  # the machine these numbers are of
        (equal, 0, 5, machine),
        (load, 0, 0, 0),  # the call
        (equal, 0, 3, socket_call),
        (load, 0, 0, 16),  # its first argument: the family
        (equal, 2, 0, INTERNET[0]),
        (equal, 1, 0, INTERNET[1]),
        (done, 0, 0, 0x7FFF0000),  # allow
        (done, 0, 0, 0x80000000),  # end the process: SIGSYS
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))

    class Filter(ctypes.Structure):
        _fields_ = (("steps", ctypes.c_ushort), ("code", ctypes.c_void_p))

    kernel = ctypes.CDLL(None, use_errno=True)
    wanted = Filter(len(program), ctypes.addressof(code))
    no_new_privileges, set_filter, filter_mode = 38, 22, 2
    if kernel.prctl(no_new_privileges, 1, 0, 0, 0) or kernel.prctl(set_filter, filter_mode, ctypes.byref(wanted), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")


if sys.platform == "linux" and os.uname().machine in MACHINES:
    seal()
sys.addaudithook(refuse)
