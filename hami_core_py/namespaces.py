"""Showing a process files where a container would see them: a private mount namespace with bind mounts.

Needs root, or a kernel that lets users make namespaces of their own. Imports nothing but the standard library, so that
programs that start without ours may load it by path. ``python namespaces.py FOLDER`` tries it out: status 0 when it works.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

Bind = tuple[str, str, bool]
"""Path on the host, path that the process shall see, and whether it may only read."""

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _PRIVATE = 1, 32, 4096, 16384, 1 << 18
_KEPT = {os.ST_NOSUID: 2, os.ST_NODEV: 4, os.ST_NOEXEC: 8, os.ST_NOATIME: 1024, os.ST_NODIRATIME: 2048}
_RELATIME = (os.ST_RELATIME, 1 << 21)
_libc = ctypes.CDLL(None, use_errno=True)


def enter() -> None:
    """Give this process, which must have one thread, mounts of its own. :raises OSError: it is not allowed to."""
    user, group = os.geteuid(), os.getegid()
    if _libc.unshare(_NEW_MOUNTS) != 0:
        _check(_libc.unshare(_NEW_MOUNTS | _NEW_USER), "namespaces of one's own")
        try:
            for name, text in (
                ("setgroups", "deny"),
                ("uid_map", f"{user} {user} 1"),
                ("gid_map", f"{group} {group} 1"),
            ):
                with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                    file.write(text)
        except PermissionError:
            # Root without capabilities may not map itself. Unmapped it has another name, and its files are still its own.
            if user != 0:
                raise
    _mount(None, "/", None, _RECURSIVE | _PRIVATE)


def show(binds: Sequence[Bind], folder: str) -> list[str]:
    """Mount files and folders, in a namespace of its own (:func:`enter`).

    Where nothing is that could be mounted over, the nearest folder above is covered by a read-only one that holds what it
    held and an empty place more.

    :param folder: an empty folder for such places; it must outlive the process.
    :returns: paths that could not be shown, with why.
    """
    wanted = sorted((os.path.normpath(f"/{target}"), source, read_only) for source, target, read_only in binds)
    failed = dict(_make_places([(target, source) for target, source, _ in wanted], folder))
    for target, source, read_only in wanted:
        if target in failed:
            continue
        try:
            if not os.path.lexists(target):  # inside of another mount, which came before
                _make(source, target)
            _mount(source, target, None, _BIND | _RECURSIVE)
            if read_only:
                _mount(None, target, None, _BIND | _REMOUNT | _READ_ONLY | _flags(target))
        except OSError as error:
            failed[target] = error.strerror or str(error)
    return [f"{target}: {why}" for target, why in sorted(failed.items())]


def _make_places(wanted: Sequence[tuple[str, str]], folder: str) -> Iterator[tuple[str, str]]:
    """Cover folders that lack a place; yields paths that cannot be shown, with why."""
    above: dict[str, list[tuple[str, str]]] = {}
    targets = {target for target, _ in wanted}
    for target, source in wanted:
        parent = os.path.dirname(target)
        while not os.path.isdir(parent):
            parent = os.path.dirname(parent)
        inside = any(other != target and target.startswith(other + "/") for other in targets)
        if not os.path.lexists(target) and not inside:
            above.setdefault(parent, []).append((target, source))
    for number, (parent, places) in enumerate(sorted(above.items())):
        try:
            if parent == "/":
                raise OSError(0, "there is no such top-level folder on this machine")
            layer = os.path.join(folder, str(number))
            for target, source in places:
                _make(source, layer + target[len(parent) :])
            os.chmod(layer, os.stat(parent).st_mode & 0o7777)
            _cover(parent, layer)
        except OSError as error:
            yield from ((target, error.strerror or str(error)) for target, _ in places)


def _cover(parent: str, layer: str) -> None:
    """Put a layer over a folder; what is mounted below the folder stays visible."""
    if any(character in parent + layer for character in ":,\\"):
        raise OSError(0, "its path has characters that mount options cannot hold")
    kept = [(place, os.open(place, os.O_PATH)) for place in _mounted_below(parent)]
    try:
        _mount("overlay", parent, "overlay", _READ_ONLY, f"lowerdir={layer}:{parent}")
        for place, descriptor in kept:
            _mount(f"/proc/self/fd/{descriptor}", place, None, _BIND | _RECURSIVE)
    finally:
        for _, descriptor in kept:
            os.close(descriptor)


def _mounted_below(parent: str) -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        places = {_unescaped(line.split(" ")[4]) for line in file}
    below = sorted(place for place in places if place.startswith(parent + "/"))
    return [place for place in below if not any(place.startswith(outer + "/") for outer in below)]


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _make(source: str, target: str) -> None:
    """An empty place of the kind that the source is."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
        return
    os.stat(source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(target, os.O_CREAT | os.O_EXCL, 0o644))


def _flags(target: str) -> int:
    """What a remount must repeat, because it may not be taken away."""
    told = os.statvfs(target).f_flag
    pairs: Iterable[tuple[int, int]] = [*_KEPT.items(), _RELATIME]
    return sum(flag for bit, flag in pairs if told & bit)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
    _check(_libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]), f"mount on {target}")


def _check(answer: int, what: str) -> None:
    if answer != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def _try_out(folder: str) -> None:
    """Show a file where there is none. :raises OSError: it does not work here."""
    source, layers = os.path.join(folder, "source"), os.path.join(folder, "layers")
    with open(source, "w", encoding="ascii") as file:
        file.write("shown")
    os.mkdir(layers)
    enter()
    problems = show([(source, "/etc/hami-trial/file", True)], layers)
    if problems:
        raise OSError(0, problems[0])
    with open("/etc/hami-trial/file", encoding="ascii") as file:
        if file.read() != "shown":
            raise OSError(0, "a mount shows something else")


if __name__ == "__main__":
    try:
        _try_out(sys.argv[1])
    except OSError as error:
        sys.exit(error.strerror or str(error))
