"""What ``hami lab run`` tells beside its steps: where a pod went and why, and why one that waits fits nowhere."""

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from hami_core_py.cluster.client import Client
from hami_core_py.commands.common import Loaded
from hami_core_py.commands.explain import refusal_text
from hami_core_py.commands.sources import snapshot_of
from hami_core_py.errors import HamiError
from hami_core_py.lab.play import Outcome
from hami_core_py.lab.pod_facts import shares_of
from hami_core_py.lab.report import print_outcome
from hami_core_py.models.views import pod_view
from hami_core_py.services.snapshot import Explanation, JsonObject


class Reporter:
    """Prints outcomes as they happen; explains each pod the first time that it is seen bound or waiting."""

    def __init__(self, console: Console, client: Client, loaded: Loaded) -> None:
        self._console, self._client, self._loaded = console, client, loaded
        self._explained: set[tuple[str, bool]] = set()

    def __call__(self, outcome: Outcome) -> None:
        """Print one outcome."""
        print_outcome(self._console, outcome)
        pod = outcome.pod
        if pod is None or not outcome.ok:
            return
        node = pod["spec"].get("nodeName") or ""
        seen = pod["metadata"]["uid"], bool(node)
        if seen in self._explained or not (shares_of(pod) or not node):
            return
        self._explained.add(seen)
        try:
            lines = list(why(self._explain(pod), node))
        except HamiError as problem:
            lines = [str(problem)]
        for line in lines:
            self._console.print(Text(f"        {line}", style="cyan"), highlight=False)

    def _explain(self, pod: JsonObject) -> Explanation:
        nodes, _ = self._client.list("/api/v1/nodes")
        pods, _ = self._client.list("/api/v1/pods")
        return snapshot_of(nodes, pods, self._loaded.ask, self._loaded.settings).explain(pod_view(pod))


def why(explanation: Explanation, node: str) -> Iterator[str]:
    """Lines that say why a pod is on a node, or, without a node, what struck each device."""
    fitting = [f"{n.node} ({n.score:.2f})" for n in explanation.nodes if n.fits]
    if node:
        yield f"why {node}: score of each node that fits is {', '.join(fitting)}" if fitting else f"on {node}"
        return
    for refused in (n for n in explanation.nodes if not n.fits):
        yield f"{refused.node}:"
        for refusal in refused.refusals:
            yield f"  {refusal_text(refusal)}"
