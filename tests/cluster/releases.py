"""Which programs there are, in which versions, and where they lie once built."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

GOMOD = Path(__file__).parent / "gomod"
"""A folder per Go module; its ``tool`` directives are the programs, its ``go.mod`` their versions.

A module that is wanted for a folder of files instead says ``// data FOLDER`` above what it requires.
"""

OLDEST = "oldest"


def cache() -> Path:
    """Where built programs are kept, outside the checkout."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("HAMI_CLUSTER_CACHE") or base / "hami-cluster")


@dataclass(frozen=True)
class Module:
    """One Go module and the programs that come from it.

    :ivar data: a folder of the required module that is wanted instead; empty: none.
    """

    name: str
    directory: Path
    packages: tuple[str, ...]
    text: str
    data: str = ""

    def version_of(self, path: str) -> str:
        """Version of a required module. :raises ValueError: it is not required."""
        found = re.search(rf"(?:^|\s){re.escape(path)} (v\S+)", self.text)
        if found is None:
            raise ValueError(f"{self.directory}/go.mod: expected a requirement of {path}")
        return found[1]


@dataclass(frozen=True)
class Release:
    """A Kubernetes and what goes with it.

    :ivar name: empty for the newest.
    """

    name: str = ""

    @classmethod
    def chosen(cls) -> "Release":
        """The one that ``HAMI_CLUSTER_RELEASE`` names; by default the newest."""
        return cls(os.environ.get("HAMI_CLUSTER_RELEASE", ""))

    @property
    def folders(self) -> list[Path]:
        """Where its programs lie, its own before those it shares with the newest."""
        newest = cache() / "bin"
        return [cache() / f"bin-{self.name}", newest] if self.name else [newest]

    def folder_of(self, module: Module) -> Path:
        """Where a module's programs belong."""
        return self.folders[0] if module.directory.name.endswith(f"-{self.name}") else self.folders[-1]

    def program(self, name: str) -> Path:
        """One program. :raises FileNotFoundError: it is not built."""
        for folder in self.folders:
            if (folder / name).exists():
                return folder / name
        raise FileNotFoundError(f"{name} is in none of {self.folders}; run `python -m tests.cluster.build`")

    def files(self, name: str) -> Path:
        """The folder of files of a module. :raises FileNotFoundError: it is not there."""
        (module,) = self.modules([name])
        folder = self.folder_of(module) / name
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder} is not there; run `python -m tests.cluster.build`")
        return folder

    def modules(self, names: Iterable[str] = ()) -> list[Module]:
        """Its modules, all or those named; an older release has some of its own and shares the others."""
        wanted = set(names)
        found = []
        for directory in sorted(path for path in GOMOD.iterdir() if not path.name.endswith(f"-{OLDEST}")):
            own = GOMOD / f"{directory.name}-{self.name}"
            if not wanted or directory.name in wanted:
                found.append(_read(directory.name, own if self.name and own.exists() else directory))
        return found

    @property
    def kubernetes(self) -> str:
        """Version of Kubernetes, such as ``v1.37.2``."""
        (module,) = self.modules(["kubernetes"])
        return module.version_of("k8s.io/kubernetes")


def _read(name: str, directory: Path) -> Module:
    text = (directory / "go.mod").read_text(encoding="utf-8")
    block = re.search(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    tools = block[1].split() if block else re.findall(r"^tool (\S+)", text, re.MULTILINE)
    data = re.search(r"^// data (\S+)", text, re.MULTILINE)
    return Module(name=name, directory=directory, packages=tuple(tools), text=text, data=data[1] if data else "")
