"""A real Prometheus, and what it knows."""

import json
import urllib.parse
import urllib.request
from pathlib import Path

from hami_core_py.lab.loopback import answers, free_ports
from tests.cluster.daemons import Daemon, eventually
from tests.cluster.releases import Release

TARGET_LABELS = {"namespace": "hami-nodes", "pod": "hami-device-plugin-x", "container": "monitor"}
"""As the operator sets them for a ServiceMonitor: our own pod's. The labels of what we tell must win."""


class Prometheus:
    """One server, which scrapes some ports of this machine each second."""

    def __init__(self, directory: Path, release: Release) -> None:
        self.directory, self._release = directory, release
        self.daemon = Daemon(directory / "logs", "prometheus")
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"

    def start(self, *ports: int, rules: Path | None = None) -> None:
        """Start it; returns once it answers.

        :param rules: a file of alerting rules to evaluate each second. It ends at once when it does not understand them.
        """
        job = {
            "job_name": "monitor",
            "honor_labels": True,
            "static_configs": [{"targets": [f"127.0.0.1:{port}" for port in ports], "labels": TARGET_LABELS}],
        }
        config = self.directory / "prometheus.json"
        timing = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        files = [str(rules)] if rules else []
        config.write_text(json.dumps({"global": timing, "rule_files": files, "scrape_configs": [job]}))
        address = self.url.removeprefix("http://")
        flags = [f"--config.file={config}", f"--web.listen-address={address}", "--log.level=warn"]
        self.daemon.start(
            [self._release.program("prometheus"), *flags, f"--storage.tsdb.path={self.directory / 'tsdb'}"]
        )
        eventually("a ready Prometheus", lambda: answers(f"{self.url}/-/ready"), daemon=self.daemon)

    def values(self, query: str) -> list[float]:
        """Values of all series that an expression yields now."""
        question = urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(f"{self.url}/api/v1/query?{question}", timeout=10) as answer:
            told = json.load(answer)
        return [float(one["value"][1]) for one in told["data"]["result"]]
