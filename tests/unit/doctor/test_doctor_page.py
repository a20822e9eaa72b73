"""Every finding has its section on the page, and no section is left over."""

import re
from pathlib import Path

from hami_core_py.decisions.doctor.checks import CHECK_FAILED, PAGE, Severity
from hami_core_py.decisions.doctor.cluster import CLUSTER_CHECKS
from hami_core_py.decisions.doctor.host import HOST_CHECKS

ROOT = Path(__file__).parents[3]
SECTION = re.compile(r"^### (\S+)\n\n(.*?)(?=\n#|\Z)", re.MULTILINE | re.DOTALL)


def sections() -> dict[str, str]:
    return dict(SECTION.findall((ROOT / PAGE).read_text(encoding="utf-8")))


def test_page_has_a_section_for_each_code_and_no_other() -> None:
    codes = [check.code for checks in (CLUSTER_CHECKS, HOST_CHECKS) for check in checks]
    assert len(codes) == len(set(codes))
    assert set(sections()) == {*codes, CHECK_FAILED}


def test_page_says_what_is_only_advice() -> None:
    known = sections()
    severities = {check.code: check.severity for checks in (CLUSTER_CHECKS, HOST_CHECKS) for check in checks}
    marked = {code for code, text in known.items() if text.startswith("*Advice.*")}
    assert marked == {code for code, severity in severities.items() if severity is Severity.ADVICE} | {CHECK_FAILED}
