"""The page that says what the cluster tests show: each test's name, read as the sentence that it is."""

import ast
from collections.abc import Iterator
from pathlib import Path

CLUSTER = Path(__file__).parents[1] / "cluster"
NODE_WORDS = ("INSIDE", "node: Node")
"""In the text of a module whose tests need a real node."""
HEAD = """# What the cluster tests show

Written by `python -m tests.reference` from the names of the tests. They run against a real etcd, API server, controller manager
and kube-scheduler, those marked *node* with a real kubelet and containerd as well: `tox -e cluster` on the newest Kubernetes that
can be built, `tox -e cluster-oldest` on the oldest that is supported. [Their own page](../../tests/cluster/README.md) says what
they need.

| Subject | Tests | Node |
|---|---|---|
"""


def cluster_tests_page() -> str:
    """A table of subjects, then the sentences of each."""
    rows, parts = [], []
    for path in sorted(CLUSTER.glob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        module = ast.parse(text)
        subject = (ast.get_docstring(module) or path.stem).splitlines()[0].rstrip(".")
        sentences = list(_sentences(module))
        name = path.stem.removeprefix("test_").replace("_", " ")
        on_node = "yes" if any(word in text for word in NODE_WORDS) else ""
        rows.append(f"| [{subject}](#{name.replace(' ', '-')}) | {len(sentences)} | {on_node} |")
        parts.append(f"\n## {name}\n\n{subject}:\n\n" + "".join(f"* {sentence}\n" for sentence in sentences))
    return HEAD + "\n".join(rows) + "\n" + "".join(parts)


def _sentences(module: ast.Module) -> Iterator[str]:
    found = (one for one in ast.walk(module) if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))
    for one in sorted(found, key=lambda one: one.lineno):
        yield one.name.removeprefix("test_").replace("_", " ")
