"""Build the simulated driver: ``python build.py FOLDER`` leaves libcuda.so.1, libnvidia-ml.so.1, hami-sim, hami-sim-client,
hami-sim-bench and surface.json there; below certify/ what certifies limiters.

Variants, for tests of what programs do with other drivers: ``--api 12.9.79`` exports only what that version's header names,
``--omit NAME,...`` leaves names out, ``--no-symbolic`` lets a preloaded library capture the driver's own references.
"""

import argparse
import fcntl
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CERTIFY = HERE.parent / "certify"
sys.path.insert(0, str(HERE))

import headers as vendor  # noqa: E402
import surface  # noqa: E402

MODEL = ("state.c", "model.c", "judge.c", "engine.c", "configure.c", "faults.c", "mig.c")
FLAGS = (
    "-std=c11",
    "-O2",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-strict-aliasing",
    "-pthread",
    "-Wall",
    "-Wextra",
    "-Werror",
)
LENIENT = ("-Wno-deprecated-declarations", "-Wno-format-truncation")
NEWEST = next(reversed(vendor.PACKAGES))


def build(
    out: Path, api: str = NEWEST, omit: frozenset[str] = frozenset(), symbolic: bool = True, extra: Sequence[str] = ()
) -> None:
    """Generate, compile and link everything into a folder."""
    work = out / "work"
    work.mkdir(parents=True, exist_ok=True)
    with (work / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        _build(out, work, api, omit, symbolic, extra)


def _build(out: Path, work: Path, api: str, omit: frozenset[str], symbolic: bool, extra: Sequence[str]) -> None:
    # The programs beside the driver call it directly: one that lacks names is for tests of look-ups alone.
    programs = () if omit else ("client", "bench")
    include = vendor.headers(NEWEST)
    driver, management = surface.driver_surface(include), surface.management_surface(include)
    if api != NEWEST:
        known = {
            one.name
            for one in surface.driver_surface(vendor.headers(api)) + surface.management_surface(vendor.headers(api))
        }
        omit |= {one.name for one in driver + management} - known
    cuda_sources = sorted(HERE.glob("driver_*.c"))
    nvml_sources = sorted(HERE.glob("nvml_*.c"))
    real = surface.with_semantics(cuda_sources + nvml_sources)
    _write(work / "cuda_exports.c", surface.exports("cuda", driver, real, omit))
    _write(work / "nvml_exports.c", surface.exports("nvml", management, real, omit))
    _write(work / "cuda_errors.inc", surface.errors("cuda", (include / "cuda.h").read_text()))
    _write(work / "nvml_errors.inc", surface.errors("nvml", (include / "nvml.h").read_text()))
    _write(work / "profiles.c", profiles(tomllib.loads((HERE / "profiles.toml").read_text())))
    _write(out / "surface.json", surface.listing(driver, management, real))
    _write(work / "libcuda.map", "{ global: cu*; hami_sim_*; local: *; };\n")
    _write(work / "libnvidia-ml.map", "{ global: nvml*; hami_sim_*; local: *; };\n")

    model = [HERE / name for name in MODEL] + [work / "profiles.c"]
    sources = [
        *model,
        *cuda_sources,
        work / "cuda_exports.c",
        *nvml_sources,
        work / "nvml_exports.c",
        HERE / "command.c",
        HERE / "client.c",
        HERE / "bench.c",
    ]
    flags = [*FLAGS, *LENIENT, f"-I{include}", f"-I{HERE}", f"-I{work}", *extra]
    newest_header = max(one.stat().st_mtime for one in [*HERE.glob("*.h"), *work.glob("*.inc"), HERE / "build.py"])
    stamp = work / "flags"
    if not stamp.exists() or stamp.read_text() != " ".join(flags):
        newest_header = float("inf")

    def compiled(source: Path) -> Path:
        target = work / f"{source.stem}.o"
        if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest_header):
            _run(["cc", *flags, "-c", str(source), "-o", str(target)])
        return target

    with ThreadPoolExecutor(2) as pool:
        objects = dict(zip(sources, pool.map(compiled, sources), strict=True))
    stamp.write_text(" ".join(flags))

    def link(name: str, parts: Sequence[Path]) -> None:
        shared = ["-shared", f"-Wl,-soname,{name}.so.1", f"-Wl,--version-script={work / f'{name}.map'}", "-Wl,-z,defs"]
        bound = ["-Wl,-Bsymbolic"] if symbolic else []
        _link(out / f"{name}.so.1", [*extra, *shared, *bound], [objects[part] for part in parts])
        plain = out / f"{name}.so"
        if not plain.is_symlink():
            plain.symlink_to(f"{name}.so.1")

    link("libcuda", [*model, *cuda_sources, work / "cuda_exports.c"])
    link("libnvidia-ml", [*model, *nvml_sources, work / "nvml_exports.c"])
    shim(out, work, [one.name for one in driver if one.name not in omit], extra)
    _link(out / "hami-sim", extra, [objects[part] for part in [*model, HERE / "command.c"]])
    for program in programs:
        _link(out / f"hami-sim-{program}", [*extra, f"-L{out}"], [objects[HERE / f"{program}.c"]], ["-lcuda"])
    if not omit and not extra:
        _write(work / "old_exports.c", surface.exports("cuda", driver, real, OLD_LACKS))
        certify(out, work, flags, extra, [objects[part] for part in [*model, *cuda_sources]])


OLD_LACKS = frozenset(
    {
        "cuCtxSynchronize_v2",
        "cuMemAllocFromPoolAsync",
        "cuMemAllocFromPoolAsync_ptsz",
        "cuMemPoolTrimTo",
        "cuFuncGetName",
    }
)
PROBES = {
    "hami-sim-probe": (),
    "hami-sim-probe-linked": ("-DLINKED",),
    "hami-sim-probe-per-thread": ("-DLINKED", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"),
}


def certify(out: Path, work: Path, flags: Sequence[str], extra: Sequence[str], driver: Sequence[Path]) -> None:
    """What certifies limiters: programs that do as they are told, libraries for them to open, and ``old/libcuda.so.1``, a driver
    that lacks some names and looks others up while it is loaded."""
    folder = out / "certify"
    (folder / "old").mkdir(parents=True, exist_ok=True)
    newest_header = max((CERTIFY / "probe.h").stat().st_mtime, Path(__file__).stat().st_mtime)

    def compiled(source: Path, name: str, *more: str) -> Path:
        target = work / f"{name}.o"
        if not target.exists() or target.stat().st_mtime < max(source.stat().st_mtime, newest_header):
            _run(["cc", *flags, *more, "-c", str(source), "-o", str(target)])
        return target

    sources = sorted(CERTIFY.glob("probe*.c"))
    for name, more in PROBES.items():
        objects = [compiled(one, f"{name}_{one.stem}", *more) for one in sources]
        # What a driver lacks is missed when it is called, as by programs that were linked with a newer one.
        _link(folder / name, [*extra, f"-L{out}", "-Wl,-z,lazy"], objects, ["-lcuda", "-ldl"] if more else ["-ldl"])
    dependency = [compiled(CERTIFY / "dependency.c", "dependency")]
    _link(folder / "libhami-sim-dependency.so", [*extra, "-shared"], dependency)
    plugin = [compiled(CERTIFY / "plugin.c", "plugin")]
    beside = [*extra, f"-L{folder}", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN", "-shared"]
    _link(folder / "libhami-sim-plugin.so", beside, plugin, ["-lhami-sim-dependency", "-ldl"])
    old = [*driver, compiled(work / "old_exports.c", "old_exports"), compiled(CERTIFY / "early.c", "early")]
    named = [
        "-Wl,-soname,libcuda.so.1",
        f"-Wl,--version-script={work / 'libcuda.map'}",
        "-Wl,-z,defs",
        "-Wl,-Bsymbolic",
    ]
    _link(folder / "old" / "libcuda.so.1", [*extra, "-shared", *named], old, ["-ldl"])


JUMP = {
    "x86_64": "    movq sim_inner+{offset}(%rip), %r11\\n    jmp *%r11\\n",
    "aarch64": "    adrp x16, sim_inner\\n    add x16, x16, :lo12:sim_inner\\n"
    "    mov x17, #{offset}\\n    ldr x16, [x16, x17]\\n    br x16\\n",
}


def shim(out: Path, work: Path, names: Sequence[str], extra: Sequence[str]) -> None:
    """A driver in two parts: ``shim/libcuda.so.1`` forwards every call; look-ups tell addresses of the inner library."""
    folder = out / "shim"
    folder.mkdir(exist_ok=True)
    jump = JUMP[os.uname().machine]
    lines = ["#define _GNU_SOURCE", "#include <dlfcn.h>", "#include <stddef.h>", "#include <stdio.h>", ""]
    lines += [f"static const char *const names[] = {{{', '.join(f'{chr(34)}{name}{chr(34)}' for name in names)}}};"]
    lines += [f'__attribute__((visibility("hidden"))) void *sim_inner[{len(names)}];']
    lines += [
        f'__asm__(".text\\n.globl {name}\\n.type {name}, %function\\n{name}:\\n"'
        f'"{jump.format(offset=8 * index)}.size {name}, .-{name}\\n");'
        for index, name in enumerate(names)
    ]
    lines += [
        "__attribute__((constructor)) static void open_inner(void)",
        "{",
        "    Dl_info here;",
        "    char path[4096];",
        "    dladdr((void *)names, &here);",
        '    snprintf(path, sizeof path, "%s.inner", here.dli_fname);',
        "    void *inner = dlopen(path, RTLD_NOW | RTLD_LOCAL);",
        "    for (size_t i = 0; inner && i < sizeof names / sizeof *names; i++)",
        "        sim_inner[i] = dlsym(inner, names[i]);",
        "}",
        "",
    ]
    _write(work / "shim.c", "\n".join(lines))
    target = folder / "libcuda.so.1"
    if not target.exists() or target.stat().st_mtime < (work / "shim.c").stat().st_mtime:
        _run(
            [
                "cc",
                *extra,
                "-std=c11",
                "-fPIC",
                "-shared",
                "-Wl,-soname,libcuda.so.1",
                str(work / "shim.c"),
                "-o",
                str(target),
                "-ldl",
            ]
        )
    inner = folder / "libcuda.so.1.inner"
    inner.unlink(missing_ok=True)
    copied = folder / ".inner.new"
    copied.write_bytes((out / "libcuda.so.1").read_bytes())
    copied.replace(inner)


def _link(target: Path, flags: Sequence[str], objects: Sequence[Path], libraries: Sequence[str] = ()) -> None:
    """Beside and renamed: programs that run keep the file they opened."""
    if target.exists() and all(one.stat().st_mtime < target.stat().st_mtime for one in objects):
        return
    beside = target.with_name(f".{target.name}.new")
    _run(["cc", *flags, "-pthread", "-o", str(beside), *map(str, objects), *libraries, "-lm"])
    beside.replace(target)


def profiles(data: dict[str, dict[str, object]]) -> str:
    """The table of cards as C."""
    lines = [
        "/* Generated from profiles.toml. */",
        '#include "state.h"',
        "",
        "const struct sim_profile sim_profiles[] = {",
    ]
    for key, card in data.items():
        major, minor = card["compute"]  # type: ignore[misc]
        sm_clock, memory_clock = card["clocks"]  # type: ignore[misc]
        mig: list[list[object]] = card.get("mig", [])  # type: ignore[assignment]
        lines.append(
            f'    {{"{key}", "{card["name"]}", {card["memory"]}, {card["reserved"]}, {card["sms"]}, {major}, {minor}, '
            f"{card['threads_per_sm']}, {card['context']}, {card['nvlinks']}, {card['watts']}, {sm_clock}, {memory_clock}, "
            f"{card['shared_per_sm']}, {card['l2_mib']}, {card['pci_device']}, {len(mig)}, {{"
        )
        for number, identity, name, slices, sms, memory, starts, width in mig:
            bits = sum(1 << at for at in starts)  # type: ignore[union-attr]
            lines.append(f'        {{{number}, {identity}, {slices}, {sms}, {memory}, {width}, {bits}, "{name}"}},')
        lines.append("        {0}}}," if not mig else "    }},")
    lines += ["};", f"const unsigned sim_profile_count = {len(data)};", ""]
    return "\n".join(lines)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - the compiler on our own files
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--api", default=NEWEST, choices=list(vendor.PACKAGES))
    parser.add_argument("--omit", default="", help="entry points to leave out, separated by commas")
    parser.add_argument("--no-symbolic", action="store_true")
    parser.add_argument(
        "--flags", default=os.environ.get("HAMI_SIM_CFLAGS", ""), help="more compiler flags, such as -fsanitize=address"
    )
    args = parser.parse_args()
    omit = frozenset(name for name in args.omit.split(",") if name)
    build(args.folder.resolve(), args.api, omit, not args.no_symbolic, args.flags.split())


if __name__ == "__main__":
    main()
