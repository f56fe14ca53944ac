// The page: what is typed is asked, what is answered is shown.

import { showFit } from "./fitting.js";
import { byId, make } from "./elements.js";
import { AXES, degreeNeeded, open, readAddress, request, set, state, value, writeAddress } from "./state.js";
import { showChanges, showComparison, showExamples, showExplanation, showPlan, showPrediction } from "./views.js";

const PAUSE_MS = 90;
const LONG_PAUSE_MS = 350;
let options = null;
let asking = new AbortController();
let timers = [];
let answer = null;

async function ask(path, body, signal) {
  const response = await fetch(`api/${path}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body), signal,
  });
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  return found;
}

// Ask for the parts one by one, so that the numbers are there first; a newer question stops an older one.
async function follow(early = null) {
  asking.abort();
  asking = new AbortController();
  const { signal } = asking;
  const body = request();
  try {
    answer = await (early ?? ask("predict", body, signal));
    fail("");
    showPrediction(answer, options);
    document.documentElement.dataset.predicted = String(Number(document.documentElement.dataset.predicted ?? 0) + 1);
    const parts = [
      ask("compare", { ...body, counts: counts() }, signal).then((found) => showComparison(found, take), unsaid("compare")),
      ask("explain", body, signal).then(showExplanation, unsaid("tree", "tree-about")),
    ];
    await Promise.all(parts);
  } catch (error) {
    if (error.name !== "AbortError") fail(error.message);
  }
}

// Some laws say nothing of the parts: then the line says why, in their place.
function unsaid(place, ...others) {
  return (error) => {
    if (error.name === "AbortError") return;
    byId(place).replaceChildren(make("p", { class: "hint" }, error.message));
    for (const other of others) byId(other).replaceChildren();
  };
}

// What takes longer is asked once the hand rests.
async function rest() {
  ask("changes", request(), asking.signal).then(showChanges, unsaid("changes"));
  await plan();
}

async function plan() {
  const { signal } = asking;
  const fields = byId("plan").elements;
  const hours = Number(fields.plan_deadline.value);
  const body = {
    ...request(), num_devices: Number(fields.plan_devices.value || 8), objective: fields.plan_objective.value, caps: fields.plan_caps.checked,
    ...(hours > 0 ? { deadline_s: 3600 * hours } : {}),
  };
  try {
    showPlan(await ask("plan", body, signal), take, hours);
  } catch (error) {
    if (error.name !== "AbortError") showPlan({ error: error.message }, take, hours);
  }
}

function counts() {
  const own = Number(value("num_devices"));
  return [...new Set([1, 2, 4, 8, ...(own >= 1 && own <= 1e6 && own % 1 === 0 ? [own] : [])])].sort((a, b) => a - b);
}

function tell(text) {
  byId("error").hidden = !text;
  byId("error").textContent = text;
}

function fail(text) {
  tell(text);
  // What stands there is of another run until this one can be.
  for (const id of ["totals", "doubts", "terms", "tree", "tree-about", "changes", "compare"]) byId(id).classList.toggle("busy", Boolean(text));
  for (const button of document.querySelectorAll("[data-copy]")) button.disabled = button.dataset.copy !== "address" && (Boolean(text) || !answer);
  if (text) byId("brief").textContent = "This cannot be predicted";
}

function changed() {
  tidy();
  writeAddress();
  timers.forEach(clearTimeout);
  timers = [setTimeout(follow, PAUSE_MS), setTimeout(rest, LONG_PAUSE_MS)];
}

// Take over one of the ways that a drawing or a table offers.
function take(way) {
  for (const [name, text] of Object.entries(way)) set(name, text == null ? "" : String(text));
  changed();
}

// Show what belongs to what is chosen, and move sliders to their numbers.
function tidy() {
  for (const name of Object.keys(AXES)) byId(`${name.split("_")[0]}-label`).hidden = !degreeNeeded(name);
  byId("epochs-label").hidden = value("amount") !== "samples";
  byId("amount-label").querySelector("span").textContent = { samples: "Samples per epoch", steps: "Optimizer steps", tokens: "Tokens of the run" }[value("amount")];
  const gpu = options.gpus.find((one) => one.name === value("gpu"));
  if (gpu) {
    byId("cap-slider").max = gpu.power_limit_w;
    byId("cap-slider").min = Math.round(gpu.power_limit_w / 3);
  }
  for (const slider of document.querySelectorAll("input[type=range]")) {
    const number = Number(value(slider.dataset.of) || (slider.id === "cap-slider" ? slider.max : 1));
    slider.value = slider.dataset.scale === "powers" ? Math.log2(Math.max(number, 1)) : number;
    slider.setAttribute("aria-valuetext", String(number));
  }
  byId("config-about").textContent = state.config ? `${state.configName} is the model` : "";
  byId("config-clear").hidden = !state.config;
  byId("run").elements.preset.disabled = Boolean(state.config);
  byId("law-name").textContent = state.law ? state.lawName : "the shipped law";
  byId("law-clear").hidden = !state.law;
}

function slid(slider) {
  const number = slider.dataset.scale === "powers" ? 2 ** Number(slider.value) : Number(slider.value);
  set(slider.dataset.of, slider.id === "cap-slider" && slider.value === slider.max ? "" : String(number));
  if (slider.dataset.of === "num_devices") divided();
}

// One device divides nothing, and several must be used somehow.
function divided() {
  const several = Number(value("num_devices")) > 1;
  if (several && value("strategy") === "single") set("strategy", "fsdp");
  if (!several) set("strategy", "single");
}

async function dropped(file) {
  try {
    if (file.size > 1e6) throw new Error(`${file.name}: too large for a config.json; given ${file.size} bytes; allowed 1000000`);
    const text = await file.text();
    const head = value("head");
    // A config that does not say its head is read with the one that is chosen.
    const found = await ask("config", { text }).then((one) => ({ ...one, head: "" }),
      (error) => (head ? ask("config", { text, head }).then((one) => ({ ...one, head }), () => { throw error; }) : Promise.reject(error)));
    state.config = found.config;
    state.configName = file.name;
    set("head", found.head);
    changed();
  } catch (error) {
    tell(error.message); // the model that was chosen stays
  }
}

function fillSelects() {
  const add = (name, values, label = (one) => one) => {
    const select = document.querySelector(`[name="${name}"]`);
    const chosen = select.value;
    for (const one of [...select.options]) if (one.value) one.remove(); // what the address put there before the names were known
    for (const one of values) select.append(new Option(label(one), one.name ?? one.code ?? one));
    if (chosen) set(name, chosen);
  };
  add("preset", options.models, (one) => one.name);
  add("head", options.heads);
  for (const name of ["precision", "optimizer", "checkpointing", "attention_kernel", "software"]) add(name, options[`${name}s`]);
  add("gpu", options.gpus, (one) => one.full_name || one.name);
  add("node", options.nodes, (one) => `${one.name}, ${one.accelerators_per_node} devices`);
  add("strategy", [...options.strategies, "ddp x tp", "fsdp x tp", "ddp x pp", "tp x pp", "ddp x tp x pp", "fsdp x tp x pp", "fsdp x cp", "ddp x ep", "fsdp x ep"]);
  add("region", options.regions, (one) => `${one.name}, ${Math.round(one.carbon_g_per_kwh)} g/kWh (${one.year}, ${one.scope})`);
  add("law", options.laws);
}

async function copy(kind) {
  const texts = { toml: () => answer.toml, command: () => answer.command, address: () => location.href,
    json: () => JSON.stringify((({ toml, command, ...rest }) => rest)(answer), null, 2) };
  try {
    await navigator.clipboard.writeText(texts[kind]());
    byId("copied").textContent = "copied";
  } catch {
    byId("copied").replaceChildren(make("textarea", { "aria-label": `The ${kind} to copy`, readonly: true, rows: 4, cols: 60 }, texts[kind]()));
  }
  setTimeout(() => { if (byId("copied").textContent === "copied") byId("copied").textContent = ""; }, 2500);
}

function listen() {
  const run = byId("run");
  run.addEventListener("input", (event) => {
    if (event.target.type === "range") slid(event.target);
    if (event.target.name === "num_devices") divided();
    if (event.target.type !== "file") changed();
  });
  run.addEventListener("submit", (event) => event.preventDefault());
  byId("plan").addEventListener("input", () => { timers.push(setTimeout(plan, LONG_PAUSE_MS)); });
  byId("plan").addEventListener("submit", (event) => event.preventDefault());
  byId("config-file").addEventListener("change", (event) => { if (event.target.files[0]) dropped(event.target.files[0]); event.target.value = ""; });
  byId("config-clear").addEventListener("click", () => { state.config = null; changed(); byId("run").elements.preset.focus(); });
  byId("law-clear").addEventListener("click", () => { state.law = null; changed(); });
  const drop = byId("drop");
  for (const kind of ["dragenter", "dragover"]) addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  addEventListener("dragleave", () => drop.classList.remove("over"));
  addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files[0]) dropped(event.dataTransfer.files[0]);
  });
  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button.dataset.copy));
  addEventListener("hashchange", () => { const said = readAddress(); changed(); if (said) tell(said); });
  byId("fit").addEventListener("submit", (event) => { event.preventDefault(); showFit(event.target, (law, name) => { state.law = law; state.lawName = name; changed(); }); });
}

async function start() {
  const said = readAddress();
  // The first answer is on its way while the names are fetched.
  const early = ask("predict", request());
  early.catch(() => {});
  options = await (await fetch("api/options")).json();
  fillSelects();
  listen();
  tidy();
  await follow(early);
  if (said) tell(said);
  rest();
  const examples = await (await fetch("api/examples")).json();
  showExamples(examples, (row) => { open(row.run, row.prices); changed(); byId("results").focus(); byId("results").scrollIntoView(); });
}

start();
