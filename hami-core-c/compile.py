"""Compile the limiter with the machine's C compiler alone: ``python compile.py FOLDER`` leaves libvgpu.so there, and beside it
libvgpu.so.debug: the same with its symbols, for debuggers.

``--steps`` gives the test build whose protocol steps can be stopped at; ``--sanitize address``
(undefined, thread) an instrumented one.
CMake builds the same sources with the same flags (src/flags.txt).
"""

import argparse
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINK = ("-shared", "-Wl,-Bsymbolic", "-Wl,-z,now", "-Wl,--as-needed", "-Wl,-soname,libvgpu.so")
PROTECTION = {"x86_64": ("-fcf-protection=full",), "aarch64": ("-mbranch-protection=standard",)}


def compiler() -> list[str]:
    """The C compiler with its own arguments."""
    return shlex.split(os.environ.get("CC", "cc"))


def architecture() -> str:
    """For which machine the compiler works; ``HAMI_LIMITER_ARCH`` says so for cross compilers."""
    return os.environ.get("HAMI_LIMITER_ARCH") or platform.machine()


def build(
    folder: Path, *, steps: bool = False, sanitize: str = "", extra: Sequence[str] = (), tree: Path = HERE
) -> Path:
    """Compile what is older than its sources, link, and give the library's path.

    :param tree: holds include/ and src/. Objects do not depend on where it lies.
    """
    sources, folder = tree / "src", folder.resolve()
    arch = architecture()
    if arch not in PROTECTION:
        raise SystemExit(f"compile.py: {arch} has no entry for dlsym; expected one of {', '.join(PROTECTION)}")
    folder.mkdir(parents=True, exist_ok=True)
    flags = [
        *(sources / "flags.txt").read_text().split(),
        *PROTECTION[arch],
        "-Iinclude",
        "-Isrc",
        *extra,
    ]
    if steps:
        flags.append("-DHAMI_STEPS")
    if sanitize:
        flags += [f"-fsanitize={sanitize}", "-fno-omit-frame-pointer"]
    stamp = folder / "flags"
    same = stamp.exists() and stamp.read_text() == " ".join(flags)
    lists = [*sources.glob("*.h"), *sources.glob("*.def"), *(tree / "include").rglob("*.h")]
    newest = max(one.stat().st_mtime for one in lists) if same else float("inf")

    def compiled(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest):
            here = [f"-ffile-prefix-map={tree}=.", "-c", f"src/{source.name}"]
            subprocess.run([*compiler(), *flags, *here, "-o", str(target)], check=True, cwd=tree)  # noqa: S603
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(compiled, sorted(sources.glob("*.c"))))
    stamp.write_text(" ".join(flags))
    library = folder / "libvgpu.so"
    script = sources / f"exports-{arch}.map"
    if not library.exists() or library.stat().st_mtime < max(one.stat().st_mtime for one in [*objects, script]):
        beside = library.with_suffix(f".{os.getpid()}")
        link = [*compiler(), *LINK, *([f"-fsanitize={sanitize}"] if sanitize else []), f"-Wl,--version-script={script}"]
        for target, stripped in ((library.with_suffix(".so.debug"), ()), (library, () if sanitize else ("-s",))):
            subprocess.run([*link, *stripped, "-o", str(beside), *map(str, objects)], check=True)  # noqa: S603
            beside.replace(target)
    return library


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--sanitize", default="", choices=["", "address", "undefined", "thread"])
    options = parser.parse_args(arguments)
    print(build(options.folder, steps=options.steps, sanitize=options.sanitize))
    return 0


if __name__ == "__main__":
    sys.exit(main())
