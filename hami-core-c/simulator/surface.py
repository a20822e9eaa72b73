"""What the vendor's headers promise, and the C sources that export exactly that.

Prototypes are read from the preprocessed headers, with the vendor's own switches for "every name as it is
exported". An entry point has semantics when the sources define ``sim_NAME``; every other one answers "not supported".
"""

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

DRIVER, MANAGEMENT = "cuda", "nvml"

ANYTIME = frozenset(
    [
        "cuInit",
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetProcAddress",
        "cuGetProcAddress_v2",
        "cuGetExportTable",
        "nvmlInit",
        "nvmlInit_v2",
        "nvmlInitWithFlags",
        "nvmlErrorString",
    ]
)
"""Entry points that answer before the library is initialised."""

MEMORY_HANDLES = frozenset(
    [
        "CUdeviceptr",
        "CUdeviceptr_v1",
        "CUdeviceptr_v2",
        "CUarray",
        "CUmipmappedArray",
        "CUmemoryPool",
        "CUmemGenericAllocationHandle",
        "CUexternalMemory",
        "CUmemPoolPtrExportData",
        "CUmemPoolPtrExportData_v1",
        "CUipcMemHandle",
        "CUipcMemHandle_v1",
        "CUmemFabricHandle",
        "CUmemFabricHandle_v1",
        "CUlogicalEndpointId",
    ]
)
CONTEXT_HANDLES = frozenset(["CUcontext", "CUgreenCtx", "CUexecutionContext"])
CODE_HANDLES = frozenset(["CUmodule", "CUlibrary", "CUlinkState", "CUkernel", "CUfunction"])
OTHER_HANDLES = frozenset(
    ["CUgraphExec", "CUgraph", "CUgraphNode", "CUstream", "CUevent", "CUexternalSemaphore", "CUgraphicsResource"]
)
LAUNCH = re.compile(r"Launch(?!Attribute)")
GROW = re.compile(
    r"SetLimit|PoolSetAttribute|TrimTo|ExecUpdate|GraphUpload|Prefetch|MapArrayAsync|CtxEnablePeerAccess|SetMemPool|Checkpoint"
)
HAND_OVER = re.compile(
    r"Ipc|Export(?!Table)|Import|ShareableHandle|Multicast|RetainAllocationHandle|PointerExport|LogicalEndpoint|Fabric"
)
HOST_MEMORY = re.compile(r"cuMem(AllocHost|HostAlloc|HostRegister|HostGetDevicePointer)")


@dataclass(frozen=True)
class Parameter:
    """One parameter: its text without the name, and its name."""

    type: str
    name: str


@dataclass(frozen=True)
class EntryPoint:
    """One exported function.

    :ivar name: as the library exports it. :ivar base: as programs ask for it. :ivar revision: 1 if plain, n for ``_vn``.
    :ivar suffix: ``_ptds``, ``_ptsz`` or empty. :ivar introduced: driver version that brought it, 0 where the headers do not say.
    """

    name: str
    result: str
    parameters: tuple[Parameter, ...]
    base: str
    revision: int
    suffix: str
    introduced: int = 0
    does: tuple[str, ...] = field(default=())


def preprocessed(folder: Path, header: str, *switches: str) -> str:
    """One header after the preprocessor."""
    return subprocess.run(  # noqa: S603 - the compiler with fixed arguments
        ["cc", "-E", "-P", *switches, f"-I{folder}", str(folder / header)],  # noqa: S607
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def driver_surface(folder: Path) -> list[EntryPoint]:
    """Every entry point of ``libcuda.so.1``, by name."""
    plain = list(_prototypes(preprocessed(folder, "cuda.h", "-D__CUDA_API_VERSION_INTERNAL"), r"CUresult", "cu"))
    versions: dict[tuple[str, str], set[int]] = defaultdict(set)
    told = preprocessed(folder, "cudaTypedefs.h", "-D__CUDA_API_VERSION_INTERNAL")
    for base, version, suffix in re.findall(r"\(\s*\*\s*PFN_(cu\w+?)_v(\d+)(_ptds|_ptsz)?\s*\)", told):
        versions[base, suffix].add(int(version))
    exported: dict[tuple[str, str], list[EntryPoint]] = defaultdict(list)
    for one in plain:
        exported[one.base, one.suffix].append(one)
    found = []
    for key, entries in exported.items():
        entries.sort(key=lambda one: one.revision)
        introduced: Sequence[int] = sorted(versions.get(key, ()))
        if len(introduced) != len(entries):
            raise ValueError(
                f"{key}: {len(entries)} exported names but typedefs of versions {introduced}; teach surface.py the pairing"
            )
        for one, version in zip(entries, introduced, strict=True):
            found.append(_with(one, version))
    return sorted(found, key=lambda one: one.name)


def management_surface(folder: Path) -> list[EntryPoint]:
    """Every entry point of ``libnvidia-ml.so.1``, by name."""
    text = preprocessed(folder, "nvml.h", "-DNVML_NO_UNVERSIONED_FUNC_DEFS")
    found = {one.name: one for one in _prototypes(text, r"(?:nvmlReturn_t|const\s+char\s*\*)", "nvml")}
    return [found[name] for name in sorted(found)]


def _prototypes(text: str, result: str, prefix: str) -> Iterable[EntryPoint]:
    pattern = rf"\b({result})\s*({prefix}\w+)\s*\(([^;()]*)\)\s*;"
    for answer, name, inside in re.findall(pattern, text):
        parts = re.fullmatch(r"(\w+?)(?:_v(\d+))?(_ptds|_ptsz)?", name)
        assert parts is not None
        parameters = tuple(_parameter(one) for one in inside.split(",") if one.strip() not in ("", "void"))
        yield EntryPoint(name, " ".join(answer.split()), parameters, parts[1], int(parts[2] or 1), parts[3] or "")


def _parameter(text: str) -> Parameter:
    match = re.fullmatch(r"\s*(.*?)\s*\b(\w+)\s*((?:\[\w*\])*)\s*", text, re.DOTALL)
    assert match is not None, text
    return Parameter(" ".join((match[1] + " *" * match[3].count("[")).split()), match[2])


def _with(one: EntryPoint, introduced: int) -> EntryPoint:
    return EntryPoint(one.name, one.result, one.parameters, one.base, one.revision, one.suffix, introduced, does(one))


def does(one: EntryPoint) -> tuple[str, ...]:
    """What an entry point can do to memory and to the device, judged by its prototype and its name alone."""
    found = set()
    makes = re.match(
        r"cu\w*?(Create|Alloc|Load|Open|Import|Map|Reserve|Add|Instantiate|Retain|Register|Clone|Convert|Record|Bind|From)",
        one.base,
    )
    for parameter in one.parameters:
        kind = parameter.type.replace("const ", "")
        if not kind.endswith("*") or "const" in parameter.type.split():
            continue
        pointed = kind.rstrip("* ").strip()
        if pointed in MEMORY_HANDLES:
            found.add("creates-memory" if makes else "tells-memory")
        elif pointed in CONTEXT_HANDLES:
            found.add("creates-context" if makes else "tells-context")
        elif pointed in CODE_HANDLES:
            found.add("creates-code" if makes else "tells-code")
        elif pointed in OTHER_HANDLES:
            found.add("creates-object" if makes else "tells-object")
    if HOST_MEMORY.match(one.base):
        found.add("host-memory")
    if re.match(
        r"cuMem(Map|SetAccess|Release|Unmap|Free|AddressFree|HostUnregister|PoolDestroy)|cu\w+Destroy|cu\w+Unload|cuIpcClose",
        one.base,
    ):
        found.add("returns-memory")
    if GROW.search(one.base):
        found.add("grows-memory")
    if HAND_OVER.search(one.base):
        found.add("hands-over-memory")
    if LAUNCH.search(one.base):
        found.add("launches")
    if re.search(r"GraphAdd(Node|MemAlloc|MemFree|Kernel|ChildGraph)|BeginCapture|EndCapture", one.base):
        found.add("builds-graph")
    if re.search(r"ProcAddress|ExportTable", one.base):
        found.add("hands-out-entry-points")
    return tuple(sorted(found))


def with_semantics(sources: Iterable[Path]) -> set[str]:
    """Names for which the sources define ``sim_NAME``."""
    return {
        name
        for one in sources
        for name in re.findall(
            r"^(?:[\w \*]*\b|[A-Z_]+\()sim_((?:cu|nvml)[A-Z]\w*)\s*[(,]", one.read_text(), re.MULTILINE
        )
    }


def base_implementation(one: EntryPoint, real: set[str]) -> str:
    """Name whose ``sim_`` function answers this entry point; empty when none does."""
    if one.name in real:
        return one.name
    legacy = one.name.removesuffix(one.suffix) if one.suffix else one.name
    return legacy if legacy in real else ""


def exports(kind: str, surface: Sequence[EntryPoint], real: set[str], omitted: frozenset[str]) -> str:
    """The C unit that defines every exported function, and the table of their names."""
    lines = ["/* Generated from the vendor's headers by surface.py. */", f'#include "{kind}_unit.h"', ""]
    lines.append(f"const struct sim_entry sim_entries[] = {{ /* {len(surface)} */")
    lines += [
        f'    {{"{one.name}", "{one.base}", {one.introduced}, {suffix_number(one.suffix)}, '
        f"{0 if one.name in omitted else 1}, {1 if base_implementation(one, real) else 0}}},"
        for one in surface
    ]
    lines += ["};", f"const unsigned sim_entry_count = {len(surface)};", ""]
    for index, one in enumerate(surface):
        implementation = base_implementation(one, real)
        parameters = ", ".join(f"{p.type} {p.name}" for p in one.parameters) or "void"
        arguments = ", ".join(p.name for p in one.parameters)
        if implementation and implementation not in (
            e.name for e in surface[:index] if base_implementation(e, real) == implementation
        ):
            lines.append(f"{one.result} sim_{implementation}({parameters});")
        visible = "SIM_HIDDEN" if one.name in omitted else "SIM_EXPORT"
        lines.append(f"{visible} {one.result} {one.name}({parameters})")
        lines.append("{")
        lines += [f"    (void){p.name};" for p in one.parameters if not implementation]
        mode = f"{kind.upper()}_{'ANY' if one.name in ANYTIME else 'ENTRY'}"
        if one.result.endswith("*"):
            lines.append(f"    return sim_{implementation}({arguments});")
        elif not implementation:
            lines.append(f"    {kind.upper()}_REFUSE({index});")
        elif one.suffix:
            lines += [
                f"    {mode}({index});",
                "    SIM_PER_THREAD(1);",
                f"    {one.result} status = sim_{implementation}({arguments});",
            ]
            lines += ["    SIM_PER_THREAD(0);", "    return status;"]
        else:
            lines += [f"    {mode}({index});", f"    return sim_{implementation}({arguments});"]
        lines += ["}", ""]
    lines.append("void *const sim_addresses[] = {")
    lines += [f"    {'NULL' if one.name in omitted else f'(void *)(uintptr_t){one.name}'}," for one in surface]
    lines += ["};", ""]
    return "\n".join(lines)


def suffix_number(suffix: str) -> int:
    """0 plain, 1 per-thread default stream."""
    return 1 if suffix else 0


def errors(kind: str, text: str) -> str:
    """Names and sentences of the status codes, from the enumeration in the header."""
    tag = "CUDA_" if kind == DRIVER else "NVML_"
    body = re.search(r"typedef\s+enum\s+(?:cudaError_enum|nvmlReturn_enum)\s*\{(.*?)\}", text, re.DOTALL)
    assert body is not None
    names = re.findall(rf"\b({tag}(?:ERROR_\w+|SUCCESS))\b", body[1])
    lines = ["/* Generated from the vendor's headers by surface.py. */"]
    for name in dict.fromkeys(names):
        words = name.removeprefix(tag).removeprefix("ERROR_").replace("_", " ").lower()
        lines.append(f'    {{{name}, "{name}", "{words}"}},')
    return "\n".join(lines) + "\n"


def listing(driver: Sequence[EntryPoint], management: Sequence[EntryPoint], real: set[str]) -> str:
    """Every entry point with its properties, for programs that must classify them."""

    def one(kind: str, entry: EntryPoint) -> dict[str, object]:
        return {
            "name": entry.name,
            "base": entry.base,
            "library": kind,
            "introduced": entry.introduced,
            "per_thread_stream": bool(entry.suffix),
            "does": list(entry.does),
            "semantics": bool(base_implementation(entry, real)),
            "parameters": [f"{p.type} {p.name}" for p in entry.parameters],
        }

    rows = [one(DRIVER, entry) for entry in driver] + [one(MANAGEMENT, entry) for entry in management]
    return "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
