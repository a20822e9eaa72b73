"""The limiter against the vendor's headers: nothing forgotten, nothing misspelt, no prototype wrong."""

import re
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "simulator"))

import headers  # noqa: E402
import surface  # noqa: E402

HOOKS = re.findall(r"^HOOK0?\(CUresult, (\w+)", (ROOT / "src/hooks.def").read_text(), re.MULTILINE)
WORDS = ("forwarded", "gap", "refused")


def patterns() -> dict[str, tuple[str, str]]:
    """Pattern → word and reason."""
    found: dict[str, tuple[str, str]] = {}
    for line in (ROOT / "src/classified.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        word, rest = line.split(maxsplit=1)
        names, reason = rest.split(":", 1)
        assert word in WORDS, line
        assert reason.strip(), line
        for name in names.split("|"):
            assert name.strip() not in found, name
            found[name.strip()] = (word, reason.strip())
    return found


@pytest.mark.parametrize("version", headers.PACKAGES)
def test_every_entry_point_that_matters_is_classified(version: str) -> None:
    known = patterns()
    matter = [one.name for one in surface.driver_surface(headers.headers(version)) if one.does]
    assert len(matter) > 200
    unclassified = [n for n in matter if n not in HOOKS and not any(fnmatchcase(n, p) for p in known)]
    assert unclassified == [], "say in src/classified.txt what becomes of these, or hook them"


def test_no_classification_is_about_nothing() -> None:
    everything = {one.name for version in headers.PACKAGES for one in surface.driver_surface(headers.headers(version))}
    assert [p for p in patterns() if not any(fnmatchcase(n, p) for n in everything)] == []
    assert [n for n in HOOKS if n not in everything and n != "cuGetProcAddress_v2_ptsz"] == []


def without_comments(path: Path) -> str:
    return re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("version", headers.PACKAGES)
@pytest.mark.parametrize(
    ("lists", "header"), [(("hooks.def", "calls.def"), "cuda.h"), (("nvml.def", "nvml_calls.def"), "nvml.h")]
)
def test_our_prototypes_are_the_vendors(version: str, lists: tuple[str, ...], header: str, tmp_path: Path) -> None:
    folder = headers.headers(version)
    if header == "cuda.h":
        names = {one.name for one in surface.driver_surface(folder)}
        switches = "#define __CUDA_API_VERSION_INTERNAL\n"
    else:
        names = {one.name for one in surface.management_surface(folder)}
        switches = "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n"
    text = "\n".join(without_comments(ROOT / "src" / one) for one in lists)
    body = [switches, f'#include "{header}"\n']
    checked = 0
    for match in re.finditer(r"\b(?:NV)?(?:HOOK|CALL)(0?)\((.*?)\)\n", text + "\n", re.DOTALL):
        inside = match[2]
        status, name, rest = (
            ("nvmlReturn_t", *inside.split(",", 1))
            if header == "nvml.h"
            else inside.split(",", 2)
            if not match[1]
            else (*inside.split(","), "(void)")
        )
        name = name.strip()
        parameters = rest.strip()[: balanced(rest.strip())]
        if name not in names:
            continue
        body.append(
            f"\n#undef {name}\n_Static_assert(__builtin_types_compatible_p("
            f'__typeof__(&{name}), {status}(*){parameters}), "{name}");'
        )
        checked += 1
    assert checked >= (100 if header == "cuda.h" else 7)
    source = tmp_path / "prototypes.c"
    source.write_text("".join(body) + "\n")
    done = subprocess.run(
        ["cc", "-std=c11", "-fsyntax-only", "-w", f"-I{folder}", str(source)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def balanced(text: str) -> int:
    """Length of the parenthesis that a text begins with."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i + 1
    raise ValueError(text)


def test_versions_are_those_of_the_vendors_typedefs() -> None:
    told = dict(re.findall(r"INTRODUCED\((\w+), (\d+)\)", (ROOT / "src/versions.def").read_text()))
    surface_now = {one.name: one for one in surface.driver_surface(headers.headers())}
    several = {}
    for one in surface_now.values():
        several.setdefault((one.base, one.suffix), []).append(one)
    expected = {
        one.name: str(one.introduced)
        for group in several.values()
        if len(group) > 1
        for one in group
        if one.name in HOOKS
    }
    assert told == expected


def test_the_protocol_holds_and_its_model_can_fail() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tests/model/owner_word.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_steps_have_the_same_names_in_model_and_library() -> None:
    model = (ROOT / "tests/model/owner_word.py").read_text()
    names = re.findall(r"STEP_(\w+)", (ROOT / "src/steps.h").read_text())
    outside = {
        "ASK",
        "ANNOUNCE",
        "LEAVE",
        "COUNT",
    }  # asking the kernel is part of a step of the model; the others change nothing shared
    assert [n for n in names if n not in outside and n not in model] == []
