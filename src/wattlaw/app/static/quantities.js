// Numbers as people read them: three digits and the unit that fits.

const ENERGY = [["J", 1], ["Wh", 3600], ["kWh", 3.6e6], ["MWh", 3.6e9], ["GWh", 3.6e12]];
const TIME = [["ms", 1e-3], ["s", 1], ["min", 60], ["h", 3600], ["d", 86400]];
const POWER = [["W", 1], ["kW", 1e3], ["MW", 1e6]];
const MASS = [["g", 1], ["kg", 1e3], ["t", 1e6]];

export function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-3) return value.toExponential(2);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return value.toPrecision(3);
}

function scaled(units) {
  return (value) => {
    const fitting = units.filter(([, size]) => Math.abs(value) >= size);
    const [unit, size] = fitting.length ? fitting[fitting.length - 1] : units[0];
    return `${digits(value / size)} ${unit}`;
  };
}

export const energy = scaled(ENERGY);
export const duration = scaled(TIME);
export const power = scaled(POWER);
export const mass = scaled(MASS);
export const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

export function interval(ends, write) {
  const [low, high] = [write(ends.low), write(ends.high)];
  const [number, unit] = low.split(" ");
  return unit && unit === high.split(" ")[1] ? `${number} to ${high}` : `${low} to ${high}`;
}

// The unit that fits the largest of several values, for an axis.
export function axisUnit(values, kind) {
  const units = { energy: ENERGY, time: TIME }[kind];
  const largest = Math.max(...values);
  const fitting = units.filter(([, size]) => largest >= size);
  const [unit, size] = fitting.length ? fitting[fitting.length - 1] : units[0];
  return { unit, size };
}
