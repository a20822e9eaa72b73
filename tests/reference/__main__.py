"""``python -m tests.reference``: write the reference pages anew."""

from tests.reference.chart import CHART, chart_files
from tests.reference.pages import FOLDER, PAGES

for name, page in PAGES.items():
    (FOLDER / name).write_text(page(), encoding="utf-8")

for name, text in chart_files().items():
    (CHART / name).write_text(text, encoding="utf-8")
