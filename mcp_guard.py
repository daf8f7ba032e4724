"""What the process that answers a tool's call may touch: it reads the package, Python and one folder, and nothing else.

The interpreter itself asks: every file it opens, folder it lists, process it starts and connection it makes passes the
hook below first (PEP 578). A hook cannot be taken back, so this is for a process that does nothing else.
"""

import os
import site
import sys
import sysconfig
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
MOST_BYTES = 4 << 30
READS = {"open", "os.listdir", "os.scandir"}
REFUSED = (
    *("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.utime"),
    *("os.chmod", "os.chown", "os.chflags", "os.setxattr", "os.removexattr", "os.chdir", "os.fchdir", "os.mkfifo"),
    *(
        "subprocess.Popen",
        "os.exec",
        "os.posix_spawn",
        "os.spawn",
        "os.startfile",
        "os.system",
        "os.fork",
        "os.forkpty",
    ),
    *("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.gethostbyname"),
    *("pty.spawn", "webbrowser.open", "urllib.Request"),
)


def readable_folders(root: Path | None) -> tuple[str, ...]:
    """The folders that may be read: Python's own modules, this package, and `root`."""
    paths = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    paths |= {site.getusersitepackages(), str(Path(__file__).parent), *([str(root)] if root else [])}
    return tuple(sorted(os.path.realpath(path) for path in paths))


def confine(root: Path | None) -> None:
    """From here on this process reads `root`, if there is one, and what it runs on; relative names are of `root`."""
    sys.dont_write_bytecode = True
    _limit_memory()
    if root is not None:
        os.chdir(root)
    folders = readable_folders(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in REFUSED:
            raise PermissionError(1, f"refused by the read-only server ({event})")
        if event in READS and not isinstance(arguments[0], int):
            _check_read(arguments, folders)

    sys.addaudithook(hook)


def _limit_memory() -> None:
    """Where the system can: more memory than MOST_BYTES is not given, which ends the call and not the machine."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = MOST_BYTES if hard == resource.RLIM_INFINITY else min(MOST_BYTES, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def _check_read(arguments: tuple[Any, ...], folders: tuple[str, ...]) -> None:
    path = os.fsdecode(arguments[0] or ".")
    flags = arguments[2] if len(arguments) > 2 else 0
    if isinstance(flags, int) and flags & WRITING:
        raise PermissionError(1, "the server writes nothing", path)
    real = os.path.realpath(path)
    if not any(real == folder or real.startswith(folder + os.sep) for folder in folders):
        raise PermissionError(13, "is outside the folder this server reads (--root)", path)
