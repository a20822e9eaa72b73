"""``python -m tests.vectors FILE.jsonl …``: each difference, what is not covered yet, and last the counts."""

import os
import sys
from collections.abc import Sequence

from tests.vectors.files import FOLDER, find, folder, our_answers, read_vectors
from tests.vectors.runner import run


def main(arguments: Sequence[str]) -> int:
    """Run files and print. :returns: 0 when nothing differs, 1 when something does, 2 on bad arguments."""
    paths = [find(name) for name in arguments]
    missing = [str(path) for path in paths if not path.is_file()]
    if not paths or missing:
        print("usage: python -m tests.vectors FILE.jsonl ...", *(f"no such file: {m}" for m in missing), sep="\n")
        return 2
    if not folder().is_dir():
        os.environ[FOLDER] = str(paths[0].parent)  # the configuration lies beside the vectors
    tally = run((vector for path in paths for vector in read_vectors(path)), our_answers())
    for name, problems in (tally.undecided | tally.differing).items():
        print(f"{name}:")
        for problem in problems:
            print(f"    {problem}")
    for what, count in sorted(tally.not_covered.items()):
        print(f"not covered yet: {count:4} {what}")
    if tally.undecided:
        print(f"not covered yet: {len(tally.undecided):4} answers that may differ, and do")
    print(tally)
    return 1 if tally.differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
