"""Private network namespaces: a process and those that join it share a loopback of their own, and nothing else.

Linux only, by the system calls themselves, so that one process can enter before it has a second thread (a
user namespace asks for that) and be joined by others later. Source: namespaces(7), user_namespaces(7).
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


def enter_new() -> None:
    """Leave the machine's network for a private one with a loopback. Raises ``OSError`` if that is not permitted."""
    if sys.platform != "linux":
        raise OSError(f"there are no network namespaces on {sys.platform}")
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _CLONE_NEWNET)
    except PermissionError:  # no administrator: become one of a user namespace of our own, still the same user
        _call("unshare", _CLONE_NEWUSER | _CLONE_NEWNET)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _bring_loopback_up()


def join(process: int) -> None:
    """Enter the network namespace of another process. Raises ``OSError``."""
    own, other = Path("/proc/self/ns"), Path(f"/proc/{process}/ns")
    for kind in ("user", "net"):
        if (own / kind).readlink() != (other / kind).readlink():
            descriptor = os.open(other / kind, os.O_RDONLY)
            try:
                _call("setns", descriptor, 0)
            finally:
                os.close(descriptor)


def refusal() -> str | None:
    """Why a process of ours cannot have a network of its own; None if it can."""
    tried = subprocess.run([sys.executable, "-I", __file__], capture_output=True, text=True)
    return None if tried.returncode == 0 else (tried.stderr.strip().splitlines() or ["?"])[-1]


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _bring_loopback_up() -> None:
    import fcntl  # Windows has none

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


if __name__ == "__main__":
    try:
        enter_new()
    except OSError as error:
        sys.exit(str(error))
