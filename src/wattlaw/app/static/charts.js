// The page's drawings. Each is one picture to a screen reader, with its words; the numbers stand in a table beside it.

import { draw, make } from "./elements.js";
import * as q from "./quantities.js";

const STRATEGIES = { fsdp: 1, tp: 2, ddp: 3, "fsdp x tp": 4, "fsdp-grad-op": 5, pp: 6, single: 7 };
const BOUND_BY = { compute: 1, communication: 2, memory: 3, launch: 6 };

export const series = (strategy) => STRATEGIES[strategy] ?? 8;

function picture(words, width, height, ...children) {
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Drawing" },
    draw("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": words, class: "drawing" }, ...children));
}

export function legend(names) {
  return make("ul", { class: "legend" }, ...names.map(([name, number]) =>
    make("li", {}, draw("svg", { width: 11, height: 11, "aria-hidden": "true" }, draw("rect", { width: 11, height: 11, class: `s${number}` })), name)));
}

// Shares of the energy and of the time by term, as pairs of bars.
export function shares(rows, words) {
  const label = 190, width = 560, step = 34;
  const most = Math.max(...rows.flatMap((row) => [row.energy ?? 0, row.time ?? 0]), 0.01);
  const x = (share) => ((width - label - 50) * share) / most;
  const parts = rows.flatMap((row, at) => {
    const y = at * step + 4;
    const bar = (share, offset, number) => share == null ? [] : [
      draw("rect", { x: label, y: y + offset, width: Math.max(x(share), 0.5), height: 11, class: `s${number}` }),
      draw("text", { x: label + x(share) + 5, y: y + offset + 10, class: "soft" }, q.percent(share)),
    ];
    return [draw("text", { x: label - 8, y: y + 16, "text-anchor": "end" }, row.name), ...bar(row.energy, 0, 1), ...bar(row.time, 13, 2)];
  });
  return make("div", {}, legend([["energy", 1], ["time", 2]]), picture(words, width, rows.length * step + 8, ...parts));
}

// The tree below a node: a row per level, as wide as a part's share of the node's energy.
export function icicle(node, open, words) {
  const width = 860, row = 36, levels = 4;
  const parts = [];
  const place = (one, from, level) => {
    const wide = (width * one.energy_j) / node.energy_j;
    if (wide < 0.8 || level >= levels) return;
    const group = draw("g", { class: "node" },
      draw("rect", { x: from, y: level * row, width: wide, height: row, class: `part s${BOUND_BY[one.bottleneck] ?? 7}` },
        draw("title", {}, `${one.name}: ${q.energy(one.energy_j)}, ${q.percent(one.energy_share)} of the energy, bound by ${one.bottleneck}`)));
    if (one.name.length * 6.8 + 8 < wide) group.append(draw("text", { x: from + wide / 2, y: level * row + 22, "text-anchor": "middle", class: "on", "pointer-events": "none" }, one.name));
    if (one.children.length && one !== node) group.addEventListener("click", () => open(one));
    parts.push(group);
    let at = from;
    for (const child of one.children) {
      place(child, at, level + 1);
      at += (width * child.energy_j) / node.energy_j;
    }
  };
  place(node, 0, 0);
  const depth = (one) => 1 + Math.max(0, ...one.children.map(depth));
  return make("div", {}, legend(Object.entries(BOUND_BY).map(([name, number]) => [`bound by ${name}`, number])),
    picture(words, width, Math.min(depth(node), levels) * row, ...parts));
}

// Points of energy against time, both logarithmic, with their intervals.
export function scatter(points, words, { join = false } = {}) {
  const width = 560, height = 300, left = 62, bottom = 42, right = 20, top = 12;
  const energies = points.flatMap((point) => [point.energy_j.low, point.energy_j.high]);
  const times = points.map((point) => point.duration_s.mid);
  const x = scale(times, left, width - right, q.axisUnit(times, "time"));
  const y = scale(energies, height - bottom, top, q.axisUnit(energies, "energy"));
  const axes = [
    ...x.ticks.flatMap((tick) => [
      draw("line", { x1: x.place(tick), x2: x.place(tick), y1: top, y2: height - bottom, class: "grid" }),
      draw("text", { x: x.place(tick), y: height - bottom + 16, "text-anchor": "middle", class: "soft" }, x.label(tick)),
    ]),
    ...y.ticks.flatMap((tick) => [
      draw("line", { y1: y.place(tick), y2: y.place(tick), x1: left, x2: width - right, class: "grid" }),
      draw("text", { x: left - 6, y: y.place(tick) + 4, "text-anchor": "end", class: "soft" }, y.label(tick)),
    ]),
    draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, `time, ${x.unit}`),
    draw("text", { x: 12, y: height / 2 - 20, transform: `rotate(-90 12 ${height / 2 - 20})`, "text-anchor": "middle" }, `energy, ${y.unit}`),
  ];
  const line = join && points.length > 1 ? [draw("polyline", {
    points: points.map((point) => `${x.at(point.duration_s.mid)},${y.at(point.energy_j.mid)}`).join(" "), fill: "none", class: "axis" })] : [];
  const marks = points.flatMap((point) => {
    const number = series(point.strategy), across = x.at(point.duration_s.mid);
    const name = `${point.strategy} x ${point.num_devices}: ${q.energy(point.energy_j.mid)} in ${q.duration(point.duration_s.mid)}`;
    return [
      draw("line", { x1: across, x2: across, y1: y.at(point.energy_j.low), y2: y.at(point.energy_j.high), class: `l${number}`, "stroke-width": 2 }),
      draw("circle", { cx: across, cy: y.at(point.energy_j.mid), r: point.chosen ? 7 : 4.5, class: `s${number}` }, draw("title", {}, name)),
      point.mark ? draw("text", { x: Math.min(across + 8, width - 120), y: y.at(point.energy_j.mid) - 8 }, `${point.strategy} x ${point.num_devices}: ${point.mark}`) : null,
    ];
  });
  const names = [...new Set(points.map((point) => point.strategy))].map((name) => [name, series(name)]);
  return make("div", {}, legend(names), picture(words, width, height, ...axes, ...line, ...marks));
}

function scale(values, from, to, { unit, size }) {
  const low = Math.log10(Math.min(...values) / size) - 0.04, high = Math.log10(Math.max(...values) / size) + 0.04;
  const spread = Math.max(high - low, 1e-6);
  const ticks = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1) {
    for (const digit of spread > 1.5 ? [1] : spread > 0.7 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]) {
      const tick = digit * 10 ** power;
      if (Math.log10(tick) >= low && Math.log10(tick) <= high) ticks.push(tick);
    }
  }
  const kept = ticks.length > 8 ? ticks.filter((_, at) => at % 2 === 0) : ticks;
  return {
    unit,
    ticks: kept,
    place: (tick) => Math.round(10 * (from + ((to - from) * (Math.log10(tick) - low)) / spread)) / 10,
    at(value) { return this.place(value / size); },
    label: (tick) => String(Number(tick.toPrecision(2))),
  };
}
