// Records are sent once, fitted, and forgotten; what comes back stays in this page.

import { byId, folded, make, save, table } from "./elements.js";
import * as q from "./quantities.js";

export async function showFit(form, use) {
  const file = form.elements.records.files[0];
  const about = byId("fit-about");
  if (!file) return;
  about.textContent = `Fitting ${file.name} ...`;
  byId("fit-uses").hidden = true;
  byId("fit-figures").replaceChildren();
  const response = await fetch(`api/fit?law=${encodeURIComponent(form.elements.law.value)}`, {
    method: "POST", headers: { "content-type": "application/x-ndjson" }, body: file,
  }).catch((error) => ({ ok: false, json: async () => ({ error: error.message }) }));
  const found = await response.json();
  if (!response.ok) {
    about.textContent = found.error;
    return;
  }
  about.textContent = `${found.law} law, ${found.num_records} records fitted, ${found.num_left_out} left out. ${[...found.warnings, ...found.skipped].join(" ")}`;
  byId("fit-uses").hidden = false;
  const name = `the ${found.law} law fitted to ${file.name}`;
  byId("fit-use").onclick = () => use(found.calibration, name);
  byId("fit-save").onclick = () => save("law.json", JSON.stringify(found.calibration, null, 1), "application/json");
  byId("fit-report").onclick = () => save("report.html", found.report, "text/html");
  byId("fit-figures").replaceChildren(...found.figures.map(figure));
}

function figure(one) {
  const parsed = new DOMParser().parseFromString(one.svg, "image/svg+xml").documentElement;
  const numbers = one.columns.map((_, at) => one.rows.every((row) => typeof row[at] !== "string"));
  const shown = (value) => value == null ? "" : typeof value === "number" && value % 1 ? q.digits(value) : String(value);
  return make("figure", {}, make("figcaption", {}, one.title),
    make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": one.title }, document.importNode(parsed, true)),
    make("p", { class: "hint" }, one.alt),
    folded("The data of this figure as a table", table(one.title, one.columns.map((column, at) => [column, (row) => shown(row[at]), numbers[at]]), one.rows.slice(0, 500))));
}
