// Answers as numbers, drawings and tables.

import { icicle, scatter, shares } from "./charts.js";
import { byId, folded, make, table } from "./elements.js";
import * as q from "./quantities.js";

export function showPrediction(answer, options) {
  const level = `${Math.round(1000 * answer.energy_j.level) / 10} %`;
  const numbers = [
    [`energy (${answer.boundary || "boundary unknown"})`, answer.energy_j, q.energy],
    ["time", answer.duration_s, q.duration],
    ["energy (facility)", answer.facility_energy_j, q.energy],
    ["carbon", answer.carbon_g, q.mass],
    ["carbon of making the hardware", answer.embodied_g, q.mass],
    ["electricity", answer.electricity_cost, q.digits],
    ["devices", answer.device_cost, q.digits],
  ].filter(([, ends]) => ends);
  const cards = numbers.map(([name, ends, write]) => make("dl", { class: "number" },
    make("dt", {}, name), make("dd", { "data-number": name.split(" ")[0] }, write(ends.mid)), make("dd", { class: "range" }, `${q.interval(ends, write)} at ${level}`)));
  if (answer.power_w) cards.push(make("dl", { class: "number" }, make("dt", {}, "mean power"), make("dd", {}, q.power(answer.power_w))));
  const state = answer.cold ? "Cold: nothing was measured on such a machine." : "Warm: the law was fitted on such machines.";
  byId("totals").replaceChildren(make("p", {}, answer.run), make("div", { class: "numbers" }, ...cards), make("p", { class: "hint" }, `${state} Modelled; ${answer.calibration}.`));
  byId("totals").dataset.energy = answer.energy_j.mid;
  byId("brief").textContent = `${q.energy(answer.energy_j.mid)}${answer.duration_s ? ` in ${q.duration(answer.duration_s.mid)}` : ""}`;
  const words = (text) => text.replace(/\b\w+_\w+\b/g, (name) => options.columns[name] ?? name);
  byId("doubts").replaceChildren(...answer.warnings.map((warning) => make("li", {}, words(warning))));
  showTerms(answer, options.terms);
}

function showTerms(answer, names) {
  const keys = [...new Set([...Object.keys(answer.terms_j), ...Object.keys(answer.terms_s)])];
  const rows = keys.map((key) => ({
    name: names[key] ?? key.replaceAll("_", " "), joules: answer.terms_j[key], seconds: answer.terms_s[key],
    energy: answer.terms_j[key] == null ? null : answer.terms_j[key] / answer.energy_j.mid,
    time: answer.terms_s[key] == null || !answer.duration_s ? null : answer.terms_s[key] / answer.duration_s.mid,
  })).filter((row) => row.joules || row.seconds);
  const most = (key) => rows.reduce((best, row) => ((row[key] ?? 0) > (best[key] ?? 0) ? row : best), rows[0]);
  const words = `Shares of energy and time. Most of the energy: ${most("energy").name}, ${q.percent(most("energy").energy ?? 0)}.`;
  byId("terms").replaceChildren(shares(rows, words), folded("As a table", table("Terms of the law", [
    ["term", (row) => row.name], ["energy", (row) => row.joules == null ? "" : q.energy(row.joules), true],
    ["share", (row) => row.energy == null ? "" : q.percent(row.energy), true],
    ["time", (row) => row.seconds == null ? "" : q.duration(row.seconds), true], ["share", (row) => row.time == null ? "" : q.percent(row.time), true],
  ], rows)));
}

export function showExplanation(answer) {
  const { efficiency: merit } = answer;
  byId("tree-about").textContent = `Model FLOP utilisation ${q.percent(merit.mfu_fraction)}; ${q.digits(merit.tokens_per_s)} tokens per second; `
    + `${q.digits(merit.energy_per_token_j)} J per token; ${q.digits(merit.kwh_per_billion_tokens)} kWh per 10⁹ tokens.`;
  openNode([answer.tree]);
  byId("tree").dataset.energy = answer.tree.energy_j;
}

export function showChanges(answer) {
  const signed = (share) => share == null ? "" : `${share > 0 ? "+" : ""}${(100 * share).toFixed(1)} %`;
  byId("changes").replaceChildren(table("Each change by itself", [
    ["change", (row) => row.name], ["energy", (row) => row.refused ? "cannot be run" : signed(row.energy_change), true],
    ["time", (row) => signed(row.duration_change), true], ["energy per token", (row) => signed(row.energy_per_token_change), true],
  ], answer.changes));
}

// The path from the root to the part that is open; the last one is drawn.
function openNode(path, focus = false) {
  const node = path[path.length - 1];
  const step = (one) => openNode([...path, one], true);
  const trail = make("div", { class: "trail", role: "group", "aria-label": "Where in the tree" }, ...path.slice(0, -1).map((one, at) =>
    make("button", { type: "button", onclick: () => openNode(path.slice(0, at + 1), true) }, `‹ ${one.name}`)));
  const words = `${node.name}: ${node.children.map((one) => `${one.name} ${q.percent(one.energy_j / node.energy_j)}`).join(", ") || "no parts"}.`;
  const listed = node.children.length ? node.children : [node];
  byId("tree").replaceChildren(trail, icicle(node, (one) => openNode(pathTo(path, one), true), words), table(`Parts of ${node.name}`, [
    ["part", (one) => one.children.length && one !== node ? make("button", { type: "button", onclick: () => step(one) }, one.name) : one.name],
    ["energy", (one) => q.energy(one.energy_j), true], ["share of the run", (one) => q.percent(one.energy_share), true],
    ["time", (one) => q.duration(one.time_s), true], ["share", (one) => q.percent(one.time_share), true], ["bound by", (one) => one.bottleneck],
  ], listed));
  if (focus) (byId("tree").querySelector(".trail button:last-child") ?? byId("tree").querySelector("td button"))?.focus();
}

function pathTo(path, wanted) {
  const below = (one) => {
    if (one === wanted) return [one];
    for (const child of one.children) {
      const found = below(child);
      if (found) return [one, ...found];
    }
    return null;
  };
  return [...path.slice(0, -1), ...below(path[path.length - 1])];
}

export function showComparison(answer, take) {
  const rows = answer.rows.filter((row) => row.duration_s);
  if (!rows.length) {
    byId("compare").replaceChildren(make("p", { class: "hint" }, "This law says nothing of time."));
    return;
  }
  const least = (key) => rows.reduce((best, row) => (row[key].mid < best[key].mid ? row : best), rows[0]);
  const greenest = least("energy_j"), fastest = least("duration_s");
  for (const row of rows) row.mark = [row === greenest ? "greenest" : "", row === fastest ? "fastest" : ""].filter(Boolean).join(" and ");
  const name = (row) => `${row.strategy} x ${row.num_devices}`;
  const words = `Energy against time of ${rows.length} ways. Greenest: ${name(greenest)}. Fastest: ${name(fastest)}.`;
  byId("compare").replaceChildren(scatter(rows, words), table("Ways to do the same work", [
    ["strategy", (row) => row.strategy], ["devices", (row) => String(row.num_devices), true], ["energy", (row) => q.energy(row.energy_j.mid), true],
    ["interval", (row) => q.interval(row.energy_j, q.energy), true], ["time", (row) => q.duration(row.duration_s.mid), true], ["remark", (row) => row.mark],
    ["take it", (row) => row.chosen ? "this one" : make("button", { type: "button", "aria-label": `Take ${name(row)}`, onclick: () => take({ strategy: row.strategy, num_devices: row.num_devices }) }, "take")],
  ], rows, { chosen: (row) => row.chosen }));
}

export function showPlan(answer, take, hours) {
  const about = byId("plan-about");
  if (answer.error) {
    byId("plan-front").replaceChildren();
    about.textContent = answer.error;
    return;
  }
  const limit = hours > 0 ? ` within ${hours} h` : "";
  const said = `${answer.num_configurations.toLocaleString("en")} ways, ${answer.num_fitting.toLocaleString("en")} fit into memory, ${answer.num_feasible.toLocaleString("en")} keep the limits`;
  const name = (one) => `${one.strategy} x ${one.num_devices}, batch ${one.batch_size}${one.grad_accumulation > 1 ? ` x ${one.grad_accumulation}` : ""}`
    + `${one.checkpointing === "none" ? "" : `, ${one.checkpointing} checkpointing`}${one.power_limit_w ? `, ${one.power_limit_w} W` : ""}`;
  if (!answer.best) {
    const { nearest, misses } = answer.infeasible;
    about.textContent = `No way does it${limit} (${said}). Nearest: ${name(nearest)}${nearest.duration_s ? `, ${q.duration(nearest.duration_s.mid)}` : ""}; `
      + misses.map((miss) => `misses the ${miss.limit ?? miss.name}`).join(", ") + ".";
    byId("plan-front").replaceChildren();
    return;
  }
  const { best } = answer;
  about.textContent = `Best${limit}: ${name(best)}: ${q.energy(best.energy_j.mid)} in ${q.duration(best.duration_s.mid)} (${said}).`;
  about.dataset.duration = best.duration_s.mid;
  const rows = answer.front.filter((one) => one.duration_s);
  const words = `${rows.length} ways that nothing beats in time and energy, from ${name(rows[0])} to ${name(rows[rows.length - 1])}.`;
  byId("plan-front").replaceChildren(scatter(rows, words, { join: true }), folded(`The ${rows.length} ways as a table`, table("The front: nothing beats these in time and energy", [
    ["way", name], ["energy", (one) => q.energy(one.energy_j.mid), true], ["time", (one) => q.duration(one.duration_s.mid), true],
    ["take it", (one) => make("button", { type: "button", "aria-label": `Take ${name(one)}`, onclick: () => take(wayOf(one)) }, "take")],
  ], rows)));
}

// What a way of the plan sets in the form; degrees that its strategy implies stay unsaid.
function wayOf({ strategy, num_devices, tensor_parallel, pipeline_parallel, batch_size, grad_accumulation, checkpointing, power_limit_w }) {
  return { strategy, num_devices, tensor_parallel, pipeline_parallel, batch_size, grad_accumulation, checkpointing, power_limit_w };
}

export function showExamples(answer, open) {
  byId("examples").replaceChildren(table("Published and predicted", [
    ["training", (row) => row.run ? make("button", { type: "button", onclick: () => open(row) }, row.name) : row.name],
    ["devices", (row) => row.devices], ["published energy", (row) => row.published_j == null ? "not said" : q.energy(row.published_j), true],
    ["published, device-h", (row) => row.published_device_hours == null ? "not said" : q.digits(row.published_device_hours), true],
    ["predicted energy", (row) => row.energy_j ? q.energy(row.energy_j.mid) : "", true],
    ["95 % interval", (row) => row.energy_j ? q.interval(row.energy_j, q.energy) : "", true],
    ["predicted, device-h", (row) => row.predicted_device_hours == null ? "" : q.digits(row.predicted_device_hours), true],
    ["what was published", (row) => row.basis],
  ], answer.rows));
}
