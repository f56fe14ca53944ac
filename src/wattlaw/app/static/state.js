// The form, the address that holds its state, and the request that it makes.

import { byId } from "./elements.js";

const form = () => byId("run");

// A first visitor sees BERT-base on SST-2; what is left empty is not sent.
const FIRST = {
  preset: "bert-base-uncased", head: "classification", batch_size: "32", seq_len: "128", padded_len: "40.2",
  amount: "samples", quantity: "67349", epochs: "3", precision: "fp16", gpu: "rtx-2080-ti", num_devices: "4",
  strategy: "fsdp", level: "95",
};
const TABLES = {
  model: ["head"],
  recipe: ["batch_size", "seq_len", "padded_len", "grad_accumulation", "precision", "optimizer", "checkpointing", "attention_kernel", "software", "adapter_rank"],
  hardware: ["gpu", "node", "power_limit_w"],
  layout: ["strategy", "num_devices", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel", "pipeline_interleaving", "sequence_parallel", "vocabulary_parallel", "num_nodes"],
  prices: ["region", "carbon_g_per_kwh", "pue", "price_per_kwh", "price_per_device_hour"],
};
const TEXTS = new Set(["head", "precision", "optimizer", "checkpointing", "attention_kernel", "software", "gpu", "node", "strategy", "region"]);
// What a run spec has where it says nothing: not sent, so that the command stays short.
const UNSAID = { optimizer: "adamw", checkpointing: "none", attention_kernel: "fused", software: "eager", adapter_rank: "0", grad_accumulation: "1", num_nodes: "1",
  pipeline_interleaving: "1", sequence_parallel: "0", vocabulary_parallel: "0" };

// The degree of each axis, and the axis in the name of a strategy.
export const AXES = { tensor_parallel: "tp", pipeline_parallel: "pp", context_parallel: "cp", expert_parallel: "ep" };

export const state = { config: null, configName: "", law: null, lawName: "" };

export function value(name) {
  return form().elements[name].value.trim();
}

export function set(name, text) {
  const field = form().elements[name];
  if (!field) return;
  if (field instanceof HTMLSelectElement && text && ![...field.options].some((option) => option.value === text)) {
    field.append(new Option(text, text));
  }
  field.value = text ?? "";
}

export function reset(values) {
  state.config = null;
  state.configName = "";
  for (const field of form().elements) {
    if (field.name) set(field.name, values[field.name] ?? (field instanceof HTMLSelectElement ? (UNSAID[field.name] ?? "") : ""));
  }
}

// The part behind the # never leaves the browser.
export function readAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const known = Object.keys(given).some((name) => form().elements[name]);
  reset(known ? given : FIRST);
  if (known && !given.level) set("level", "95");
  if (given.config) {
    try {
      const bytes = Uint8Array.from(atob(given.config.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
      state.config = JSON.parse(new TextDecoder().decode(bytes));
      state.configName = given.name || "config.json";
    } catch {
      return "the address holds a config that cannot be read";
    }
  }
  return "";
}

export function writeAddress() {
  const found = new URLSearchParams();
  for (const field of form().elements) {
    if (!field.name || !field.value || UNSAID[field.name] === field.value) continue;
    if (state.config && field.name === "preset") continue;
    if (field.name === "level" && field.value === "95") continue;
    found.set(field.name, field.value);
  }
  if (state.config) {
    const bytes = new TextEncoder().encode(JSON.stringify(state.config));
    found.set("config", btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""));
    found.set("name", state.configName);
  }
  history.replaceState(null, "", `#${found}`);
}

export function request() {
  const tables = {};
  for (const [table, names] of Object.entries(TABLES)) {
    tables[table] = {};
    for (const name of names) {
      const text = value(name);
      const said = name in AXES ? degreeNeeded(name) : true;
      if (text && said && UNSAID[name] !== text) tables[table][name] = TEXTS.has(name) ? text : Number(text);
    }
  }
  if (state.config) tables.model.config = state.config;
  else tables.model = { preset: value("preset"), ...tables.model };
  if (value("quantity")) tables.recipe[value("amount")] = Number(value("quantity"));
  if (value("amount") === "samples" && value("epochs")) tables.recipe.epochs = Number(value("epochs"));
  const { prices, ...run } = tables;
  const asked = { run, prices, level: Number(value("level") || 95) / 100 };
  return state.law ? { ...asked, law: state.law } : asked;
}

// Within a product, a degree must be said; alone, an axis takes all devices.
export function degreeNeeded(name) {
  const axes = value("strategy").split(/\s*x\s*/);
  return axes.length > 1 && axes.includes(AXES[name]);
}

// Fill the form with a run in the tables of a request.
export function open({ name, model, recipe, hardware, layout }, prices = {}) {
  const amount = ["steps", "samples", "tokens"].find((one) => recipe[one] != null) ?? "samples";
  const flat = { ...recipe, ...hardware, ...layout, ...prices, level: 95, amount, quantity: recipe[amount], preset: model.preset ?? FIRST.preset, head: model.head };
  reset(Object.fromEntries(Object.entries(flat).filter(([, one]) => one != null).map(([key, one]) => [key, String(one)])));
  if (model.config) {
    state.config = model.config;
    state.configName = name;
  }
}
