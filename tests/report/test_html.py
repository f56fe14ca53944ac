"""A report as a page and as Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from wattlaw.law.bundled import bundled
from wattlaw.law.footprint import Prices, footprint
from wattlaw.law.prediction import predict
from wattlaw.report.document import DataTable, Document, Figure, Section, Snippet
from wattlaw.report.html import POLICY, as_html, shown
from wattlaw.report.markdown import MOST_ROWS, as_markdown
from wattlaw.report.run_report import run_document
from wattlaw.run.spec_file import spec_from_mapping

VOID = {"meta", "link", "br", "img", "input"}


class Checker(HTMLParser):
    """Collects ids, links and tags, and fails where tags do not nest."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.targets, self.loads = [], [], [], []

    def handle_starttag(self, tag, attributes):
        """Open a tag."""
        found = dict(attributes)
        self.ids += [found["id"]] if "id" in found else []
        self.targets += [found["href"][1:]] if found.get("href", "").startswith("#") else []
        self.loads += [found[name] for name in ("src", "href") if not found.get(name, "#").startswith("#")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        """Open and close a tag."""
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        """Close the innermost tag."""
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def document():
    """The report of a run with carbon."""
    spec = spec_from_mapping({
        "name": "a <b>bold</b> run",
        "model": {"preset": "bert-base-uncased", "head": "classification"},
        "recipe": {"batch_size": 32, "seq_len": 128, "precision": "fp16", "steps": 1000},
        "hardware": {"gpu": "rtx-2080-ti"},
        "layout": {"strategy": "fsdp", "num_devices": 2},
    })  # fmt: skip
    (prediction,) = predict([spec], bundled())
    costs = footprint(prediction, Prices(carbon_g_per_kwh=400.0), num_devices=2.0)
    return run_document(spec, prediction, costs, bundled(), carbon_source="given")


def checked(page):
    """Parse a page."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert checker.open == []
    return checker


def test_a_page_stands_alone(document):
    """Nothing is loaded, the policy forbids it, no script runs, every link has its target, and no id is twice."""
    page = as_html(document)
    found = checked(page)
    assert found.loads == []
    assert POLICY in page
    assert "<script" not in page
    assert "default-src 'none'" in POLICY
    assert len(set(found.ids)) == len(found.ids)
    assert set(found.targets) <= set(found.ids)
    assert len(page) < 2_000_000


def test_every_figure_has_its_words_and_its_data(document):
    """Each figure of a prediction is drawn, described, and followed by its table."""
    page = as_html(document)
    figures = [block for section in document.sections for block in section.blocks if isinstance(block, Figure)]
    assert [figure.name for figure in figures] == ["terms", "tree", "roofline", "comparison"]
    for figure in figures:
        whole = re.search(rf'<figure id="{figure.name}">.*?</figure>', page, re.DOTALL)[0]
        assert "<svg" in whole
        assert "<summary>" in whole
        assert whole.count("<tr>") == len(figure.table.rows) + 1


def test_dark_and_light_have_all_colours(document):
    """Every variable that a drawing uses has a value in the light style and in the dark one."""
    page = as_html(document)
    used = set(re.findall(r"var\((--[a-z0-9-]+)", page))
    light, dark = re.search(
        r":root \{(.*?)\}\n@media \(prefers-color-scheme: dark\) \{(.*?)\n\}", page, re.DOTALL
    ).groups()
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", light))
    assert used <= set(re.findall(r"(--[a-z0-9-]+):", dark))


def test_text_is_never_markup(document):
    """What a name holds is shown and not run."""
    page = as_html(document)
    assert "<b>bold</b>" not in page
    assert "a &lt;b&gt;bold&lt;/b&gt; run" in page
    table = DataTable.of("<i>", [{"<u>": "</td><script>alert(1)</script>"}])
    whole = as_html(Document(title="t", kind="records", sections=(Section(heading="h", blocks=(table,)),)))
    assert "<script>" not in whole
    checked(whole)


def test_an_interactive_page_holds_its_library(document):
    """The figures' descriptions and the library are in the page, still without anything to load."""
    page = as_html(document, interactive=True)
    assert checked(page).loads == []
    assert page.count('data-figure="') == 4
    assert "unsafe-eval" in page
    assert len(page) < 2_000_000


def test_a_model_card_is_there_where_the_carbon_is(document):
    """The snippet has the emissions in grams."""
    snippets = [block for section in document.sections for block in section.blocks if isinstance(block, Snippet)]
    assert [snippet.language for snippet in snippets] == ["toml", "yaml"]
    assert "co2_eq_emissions:" in snippets[1].text


def test_markdown_has_its_figures_beside_it(document):
    """Each image of the text is among the files, with its words, and long tables are cut with a count."""
    text, files = as_markdown(document, folder="figures")
    images = re.findall(r"!\[(.+?)\]\(figures/(.+?)\)", text)
    assert [name for _, name in images] == list(files)
    assert all(content.startswith("<svg") and "prefers-color-scheme" in content for content in files.values())
    long = DataTable.of("long", [{"row|number": number} for number in range(MOST_ROWS + 5)])
    text, _ = as_markdown(
        Document(title="t", kind="records", sections=(Section(heading="h", blocks=(long,)),)), folder="f"
    )
    assert "5 further rows are not shown." in text
    assert "| row\\|number |" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.1 + 0.2, "0.3"), (1234567.8, "1.23457e+06"), (12, "12"), ("a", "a"), (True, "True")],
)
def test_cells_are_short(value, text):
    """Six digits of a number, nothing for what is not known."""
    assert shown(value) == text


def test_a_table_counts_what_it_leaves_out():
    """Beyond the most rows the others are counted only."""
    table = DataTable.of("many", [{"at": number} for number in range(7)], most=5)
    assert (len(table.rows), table.left_out) == (5, 2)
