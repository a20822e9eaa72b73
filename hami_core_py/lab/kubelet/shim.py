"""Keeps one container: starts its process, outlives the kubelet, and writes down how it ended.

Run by path, ``python -I -S shim.py DIRECTORY``, so that it imports nothing but the standard library. It reads
``config.json`` in the container's directory, returns once the process runs (or could not be started), and leaves
``state.json`` (the process) and later ``exit.json`` (its end) there; ``hidden.json`` names mounts that the process
does not see where they belong.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import sys
import time

Document = dict[str, object]


def start_ticks(pid: int, *, dead: str = "") -> int:
    """When a process started, in clock ticks since boot: with the pid, a name that is never used twice.

    0 for one that is gone, or in one of the states ``dead`` (Z: ended, but nobody has waited for it).
    """
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return 0 if fields[0] in dead else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def write(directory: str, name: str, document: Document | list[str]) -> None:
    """Write a file of the container's directory at once; the directory may be gone with its pod."""
    path = os.path.join(directory, name)
    try:
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(document, file)
        os.replace(path + ".new", path)
    except FileNotFoundError:
        return


def show_mounts(config: dict[str, object]) -> None:
    """Let this process see its mounts where they belong."""
    spec = importlib.util.spec_from_file_location("namespaces", str(config["namespaces"]))
    assert spec is not None
    assert spec.loader is not None
    namespaces = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(namespaces)
    folder = os.path.join(str(config["cwd"]), "layers")
    os.makedirs(folder, exist_ok=True)
    namespaces.enter()
    mounts: list[dict[str, object]] = config["mounts"]  # type: ignore[assignment]  # JSON that the kubelet wrote
    hidden = namespaces.show([(m["host_path"], m["container_path"], m["read_only"]) for m in mounts], folder)
    write(str(config["cwd"]), "hidden.json", hidden)


def execute(config: dict[str, object], report: int) -> None:
    """Become the container's process; what goes wrong is written to ``report``."""
    try:
        os.setsid()
        arguments = [str(one) for one in config["args"]]  # type: ignore[attr-defined]  # JSON that the kubelet wrote
        os.chdir(str(config["cwd"]))
        output = os.open(str(config["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if config.get("namespaces") and config["mounts"]:
            show_mounts(config)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(arguments[0], arguments, config["env"])  # type: ignore[arg-type]  # noqa: S606  # JSON again
    except OSError as error:
        os.write(report, str(error).encode())
    os._exit(128)


def keep(directory: str, config: dict[str, object], ready: int) -> None:
    """Start the process, tell the kubelet, wait for the end, write it down."""
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    failure, report = os.pipe()
    pid = os.fork()
    if pid == 0:
        execute(config, report)
    os.close(report)
    with os.fdopen(failure, "rb") as file:
        error = file.read().decode()
    keeper = os.getpid()
    state: Document = {"pid": pid, "pid_ticks": start_ticks(pid), "started_at": time.time()}
    write(directory, "state.json", state | {"keeper": keeper, "keeper_ticks": start_ticks(keeper)})
    if error:
        write(directory, "exit.json", {"exit_code": 128, "error": error, "finished_at": time.time()})
    os.write(ready, b"1")
    os.close(ready)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(OSError):  # nobody of the container's processes may outlive its first
        os.killpg(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status)
    if not error:
        ended: Document = {"exit_code": code if code >= 0 else 128 - code, "finished_at": time.time()}
        write(directory, "exit.json", ended | ({"signal": -code} if code < 0 else {}))


def main() -> None:
    """The command line."""
    directory = sys.argv[1]
    with open(os.path.join(directory, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    waiting, ready = os.pipe()
    if os.fork() == 0:
        os.close(waiting)
        keep(directory, config, ready)
        os._exit(0)
    os.close(ready)
    os.read(waiting, 1)


if __name__ == "__main__":
    main()
