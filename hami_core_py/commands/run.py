"""``hami run``: a program of this machine, and its children, held to a share of a device, without any cluster."""

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from hami_core_py import namespaces
from hami_core_py.codecs.executables import HEAD_BYTES, Executable, read_executable
from hami_core_py.codecs.quantities import MIB, parse_quantity
from hami_core_py.commands.common import configure_logging, fail, load
from hami_core_py.errors import BadInputError, HamiError, RequestError
from hami_core_py.services.local import Local, prepare

CANNOT_HOLD = (
    "not held: children that are linked statically or against musl, and programs that leave this namespace; "
    "whoever owns this process can end or change it"
)
NO_ROOT = "run it as root, or let users make namespaces of their own"
POWERLESS_ROOT = (
    "this process is root without the right to mount, as in a container: give it CAP_SYS_ADMIN, or run it where processes may "
    "make user namespaces, which seccomp profiles of containers often forbid"
)
NOT_STARTED = 127
MOST_INTERPRETERS = 4


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--config", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Device configuration (YAML)."
)
@click.option("--memory", metavar="QUANTITY", help="Memory of each device, such as 4000Mi; default: all of it.")
@click.option(
    "--cores", type=click.IntRange(1, 100), metavar="PERCENT", help="Compute of each device; default: all of it."
)
@click.option(
    "--device", "devices", multiple=True, metavar="N|ID", help="Which device; may be repeated. Default: the first."
)
@click.option("--quiet", is_flag=True, help="Do not tell what is held and what is not.")
@click.argument("program", nargs=-1, required=True, metavar="PROGRAM [ARGUMENT]...")
def command(
    config: Path | None,
    memory: str | None,
    cores: int | None,
    devices: tuple[str, ...],
    quiet: bool,
    program: tuple[str, ...],
) -> None:
    """Run PROGRAM so that it and its children get no more of a device than they are given.

    Ends with PROGRAM's exit status, 127 when it could not be started. Needs root, or a kernel that lets users make
    namespaces; /etc and /usr/local are read-only for PROGRAM.
    """
    configure_logging("error")
    folder = Path(tempfile.mkdtemp(prefix="hami-run-"))
    try:
        path = find_program(program[0])
        local = prepare(
            load(config).ask,
            folder,
            memory_mib=None if memory is None else memory_mib(memory),
            core_percent=cores,
            devices=devices,
        )
        if not quiet:
            click.echo(f"{describe(local, memory, cores)}; {CANNOT_HOLD}", err=True)
        status = run(local, folder, path, program)
    except HamiError as problem:
        fail(problem)
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(status)


def describe(local: Local, memory: str | None, cores: int | None) -> str:
    """What the program gets, in one line."""
    amounts = [f"{memory} of memory" if memory else "all memory", f"{cores} % of compute" if cores else "all compute"]
    return f"held to {' and '.join(amounts)} of {', '.join(str(device.id) for device in local.devices)}"


def memory_mib(text: str) -> int:
    """Whole MiB of an amount of memory. :raises BadInputError: it is none, or less than one."""
    try:
        amount = parse_quantity(text, "--memory")
    except RequestError as problem:
        raise BadInputError("--memory", problem.expected, problem.got, "write 4000Mi or 4Gi") from problem
    if amount < MIB:
        raise BadInputError("--memory", "1Mi or more", repr(text), f"write {text}Mi" if text.isdigit() else "")
    return int(amount // MIB)


def find_program(name: str) -> str:
    """Path of a program whose loader takes orders from /etc/ld.so.preload.

    :raises BadInputError: there is no such program, or it is one that no library can be loaded into.
    """
    path = shutil.which(name)
    if path is None:
        raise BadInputError("PROGRAM", "a program that can be run", repr(name))
    by: str | None = path
    for _ in range(MOST_INTERPRETERS):
        found = _executable(by or path)
        if found.kind != "script":
            break
        by = shutil.which(found.by)
        if by is None:
            raise BadInputError(path, "an interpreter that is there", repr(found.by))
    if found.kind == "static" or found.is_musl:
        why = "linked statically" if found.kind == "static" else "linked against musl"
        raise BadInputError(str(by), "a program of the C library glibc", f"one that is {why}", "nothing would hold it")
    return path


def _executable(path: str) -> Executable:
    try:
        with open(path, "rb") as file:
            return read_executable(file.read(HEAD_BYTES), path)
    except OSError as problem:
        raise BadInputError(path, "a program that can be read", str(problem.strerror)) from problem


def run(local: Local, folder: Path, path: str, arguments: Sequence[str]) -> int:
    """Start the program in mounts of its own and wait for its end. :returns: its status as a shell tells it.

    :raises HamiError: this machine does not allow it.
    """
    layers = folder / "layers"
    layers.mkdir()
    failure, report = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(failure)
        _become(local, str(layers), path, arguments, report)
    os.close(report)
    forwarded = {n: signal.signal(n, lambda n, _: _send(child, n)) for n in (signal.SIGTERM, signal.SIGHUP)}
    # Whoever presses ^C means the program, which gets it from the terminal as we do.
    forwarded[signal.SIGINT] = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with os.fdopen(failure, "rb") as file:
            problem = file.read().decode()
        _, status = os.waitpid(child, 0)
    finally:
        for number, handler in forwarded.items():
            signal.signal(number, handler)
    if problem:
        raise HamiError(problem)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _become(local: Local, layers: str, path: str, arguments: Sequence[str], report: int) -> NoReturn:
    """Turn this child into the program; what goes wrong is written to ``report``."""
    try:
        here = Path.cwd()
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        try:
            namespaces.enter()
        except OSError as problem:
            raise OSError(0, f"{problem.strerror}; {NO_ROOT if os.geteuid() else POWERLESS_ROOT}") from problem
        binds = [(mount.host_path, mount.container_path, mount.read_only) for mount in local.mounts]
        hidden = namespaces.show(binds, layers)
        if hidden:
            raise OSError(0, f"cannot show {'; '.join(hidden)}")
        os.chdir(here)
        os.execve(path, list(arguments), {**os.environ, **local.env})  # noqa: S606 - what this command is for
    except OSError as problem:
        os.write(report, (problem.strerror or str(problem)).encode())
    os._exit(NOT_STARTED)
