"""A backend of somebody else's: made from the template, in a folder of its own, as its author would."""

import shutil
import subprocess
import sys
from functools import cached_property
from pathlib import Path

from images import python
from tests.cluster import our_images
from tests.cluster.node import Node

TEMPLATE = python.ROOT / "backends" / "_template"
DRIVER = "/sys/class/acme_npu"
DEVICE_NODES = "/dev/acme/{path.name}"


class Outside:
    """The template under another name, reading its devices where it pleases."""

    name, title = "quasar", "Quasar"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.driver = directory / "driver"
        self.reference = f"example.org/hami-backend-{self.name}:1"
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def count(self) -> str:
        """Its resource of devices."""
        return f"{self.name}.example/npu"

    @property
    def memory(self) -> str:
        """Its resource of memory, given in blocks of 512 MiB."""
        return f"{self.name}.example/npu-memory"

    @cached_property
    def wheel(self) -> Path:
        """What its author publishes."""
        source = self.directory / f"hami-backend-{self.name}"
        shutil.copytree(TEMPLATE, source, ignore=shutil.ignore_patterns("__pycache__"))
        words = {DRIVER: "/var/lib/npu-driver", DEVICE_NODES: "/dev/null"}
        words |= {"acme": self.name, "Acme": self.title, "ACME": self.name.upper()}
        for path in [path for path in source.rglob("*") if path.is_file()]:
            text = path.read_text()
            for old, new in words.items():
                text = text.replace(old, new)
            path.write_text(text)
        (source / "src/hami_backend_acme").rename(source / f"src/hami_backend_{self.name}")
        dist = self.directory / "dist"
        our_images.outside("-m", "build", "--wheel", "--outdir", str(dist), str(source))
        (wheel,) = dist.glob("*.whl")
        return wheel

    def image(self) -> bytes:
        """An image that holds its packages alone."""
        archive = self.directory / "image.tar"
        our_images.outside("-m", "images.plugin", self.reference, str(self.wheel), "--out", str(archive))
        return archive.read_bytes()

    def definition(self) -> Path:
        """What its author gives with it to people who use the chart: ``hami backends chart NAME``."""
        site = self.directory / "site"
        python.install(self.directory, [self.wheel], site=Path("site"))
        program = [sys.executable, "-m", "hami_core_py", "backends", "chart", self.name]
        done = subprocess.run(program, env={"PYTHONPATH": str(site)}, capture_output=True, text=True, check=True)
        path = self.directory / f"{self.name}.values.yaml"
        path.write_text(done.stdout)
        return path

    def values(self) -> Path:
        """What its author tells people to add: where its Python comes from, and where its driver lies on a node."""
        path = self.directory / "more.values.yaml"
        path.write_text(
            f"""
backends:
  {self.name}:
    plugin:
      image: {self.reference}
    agent:
      hostPaths:
        - {{hostPath: {self.driver}, mountPath: /var/lib/npu-driver}}
"""
        )
        return path

    def connect_devices(self, node: Node, count: int) -> None:
        """What its driver says on a node."""
        for number in range(count):
            folder = self.driver / f"npu{number}"
            folder.mkdir(parents=True, exist_ok=True)
            facts = {"serial": f"serial-{node.name}-{number}", "model": "Quasar 1", "memory_mib": "16384"}
            for name, value in facts.items():
                (folder / name).write_text(value)
