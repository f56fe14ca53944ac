"""The page in a real browser."""

from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner

from wattlaw.cli import cli
from wattlaw.report import quantities
from wattlaw.report.published import compared_with_published
from wattlaw.run.record import record_to_mapping

#: A first visitor sees numbers within this, of an answer that takes milliseconds.
FIRST_VISIT_MS = 1000


def energy_of(page):
    """Read the joules that the page shows."""
    return float(page.locator("#totals").get_attribute("data-energy"))


def until(page, expression):
    """Wait until an expression holds; from outside, as the page's policy lets nobody evaluate text inside of it."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    pytest.fail(f"never came to hold: {expression}")


def settled(page, change):
    """Change something and wait until the numbers follow."""
    before = page.evaluate("Number(document.documentElement.dataset.predicted)")
    change()
    until(page, f"Number(document.documentElement.dataset.predicted) > {before}")


def test_a_first_visit_predicts(browser, site):
    """The numbers of the example run stand there within a second of opening the page."""
    context = browser.new_context()
    opened = context.new_page()
    took = []
    for _ in range(10):  # the machine may be busy with other tests
        opened.goto("about:blank")
        opened.goto(site.address)
        opened.wait_for_selector("#totals [data-number=energy]")
        took.append(opened.evaluate("performance.now()"))
        if took[-1] < FIRST_VISIT_MS:
            break
    context.close()
    assert min(took) < FIRST_VISIT_MS


def test_numbers_follow_the_number_of_devices(page):
    """Energy, tree, comparison and address change with the device count, and one device is ``single``."""
    before, trail = energy_of(page), page.url
    settled(page, lambda: page.get_by_label("Number of devices", exact=True).fill("2"))
    assert energy_of(page) != before
    assert page.url != trail
    assert "num_devices=2" in page.url
    until(page, "document.querySelector('#compare tr.chosen td:nth-child(2)')?.textContent === '2'")
    settled(page, lambda: page.get_by_label("Number of devices, slider").press("Home"))
    assert page.locator("[name=strategy]").input_value() == "single"


def test_the_address_holds_the_state(page, browser):
    """Another visitor who opens the address sees the same run and the same numbers."""
    settled(page, lambda: page.get_by_label("Tokens per sequence", exact=True).fill("96"))
    context = browser.new_context()
    other = context.new_page()
    other.goto(page.url)
    other.wait_for_selector("#totals [data-number=energy]")
    assert energy_of(other) == energy_of(page)
    assert other.locator("[name=seq_len]").input_value() == "96"
    context.close()


def test_a_config_that_is_dropped_is_read_or_refused(page):
    """A broken config.json shows one line of error and a good one becomes the model."""
    page.locator("#config-file").set_input_files({"name": "config.json", "mimeType": "", "buffer": b'{"model_type": '})
    page.wait_for_selector("#error:not([hidden])")
    line = page.locator("#error").inner_text()
    assert line.startswith("config.json: ")
    assert "\n" not in line
    config = {"model_type": "bert", "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4,
              "intermediate_size": 1024, "vocab_size": 30522, "max_position_embeddings": 512}  # fmt: skip
    dropping = """([text]) => {
      const carried = new DataTransfer();
      carried.items.add(new File([text], "config.json", { type: "application/json" }));
      const options = { dataTransfer: carried, bubbles: true, cancelable: true };
      document.getElementById("drop").dispatchEvent(new DragEvent("drop", options));
    }"""
    settled(page, lambda: page.evaluate(dropping, [json.dumps(config)]))
    assert page.locator("#error").is_hidden()
    assert page.locator("#config-about").inner_text() == "config.json is the model"
    assert "config=" in page.url


def test_the_tree_totals_what_the_command_line_says(page):
    """The root of the tree, in joules, is the energy that ``wattlaw predict`` prints for the copied command."""
    page.wait_for_selector("#tree[data-energy]")
    root = float(page.locator("#tree").get_attribute("data-energy"))
    typed = page.evaluate("""async () => (await (await fetch("api/predict", { method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify((await import("./static/state.js")).request()) })).json()).command""")
    result = CliRunner().invoke(cli, [*typed.split()[1:], "--json"], catch_exceptions=False)
    assert math.isclose(root, json.loads(result.output)["energy_j"]["mid"], rel_tol=1e-9)


def test_the_tree_opens_by_keyboard(page):
    """A part is opened from the table with Enter, and the way back has the focus."""
    page.wait_for_selector("#tree td button")
    page.locator("#tree td button", has_text="blocks").press("Enter")
    page.wait_for_selector("#tree .trail button")
    assert page.evaluate("document.activeElement.closest('.trail') !== null")
    assert "attention" in page.locator("#tree").inner_text()


def test_the_plan_keeps_a_deadline(page):
    """With a deadline shorter than the best plan takes, another plan is best, and it keeps the deadline."""
    page.wait_for_selector("#plan-about[data-duration]")
    slow = float(page.locator("#plan-about").get_attribute("data-duration"))
    page.get_by_label("Deadline, hours").fill(f"{0.8 * slow / 3600:.6f}")
    until(page, f"Number(document.getElementById('plan-about').dataset.duration) < {slow}")
    assert float(page.locator("#plan-about").get_attribute("data-duration")) <= 0.8 * slow * (1 + 1e-6)
    assert page.locator("#plan-about").inner_text().startswith("Best within")


def test_published_trainings_fill_the_form(page):
    """Opening a published training sets the whole form, so that its numbers are those of the comparison."""
    (bloom,) = (one for one in compared_with_published() if one.run.name == "BLOOM 176B")
    button = page.get_by_role("button", name="BLOOM 176B")
    button.wait_for()
    settled(page, button.click)
    assert page.locator("#config-about").inner_text() == "BLOOM 176B is the model"
    assert page.locator("[name=num_devices]").input_value() == str(bloom.run.tables["layout"]["num_devices"])
    assert page.locator("[name=sequence_parallel]").input_value() == "1"
    assert quantities.duration(bloom.duration_s.mid) in page.locator("#totals").inner_text()


def test_uploaded_records_are_fitted(page, records):
    """Records of a file are fitted, drawn, and predicted with."""
    content = b"\n".join(json.dumps(record_to_mapping(one)).encode() for one in records[:20])
    page.locator("[name=law]").select_option("paper")
    page.locator("[name=records]").set_input_files({"name": "mine.jsonl", "mimeType": "", "buffer": content})
    page.get_by_role("button", name="Fit", exact=True).click()
    page.wait_for_selector("#fit-figures svg", timeout=60_000)
    assert "20 records fitted" in page.locator("#fit-about").inner_text()
    settled(page, page.get_by_role("button", name="Predict with this law").click)
    assert "mine.jsonl" in page.locator("#law-name").inner_text()
    until(page, "document.getElementById('tree').innerText.includes('the paper law')")  # which has no parts


@pytest.mark.parametrize("width", [390, 1600])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_stands_in_the_way(browser, site, width, scheme):
    """Axe finds nothing serious or critical, at both widths, in light and dark; and nothing scrolls sideways."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="the accessibility check is not here")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=True)
    opened = context.new_page()
    opened.goto(site.address)
    for part in ("#tree svg", "#compare svg", "#plan-front svg", "#examples table"):
        opened.wait_for_selector(part)
    found = axe.Axe().run(opened).response["violations"]
    overflow = opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    context.close()
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    assert overflow <= 0
