// Figures as text. What was not measured is a dash, never 0.

export const NONE = "–";

const missing = (value) => value === null || value === undefined || Number.isNaN(value);

// Three significant digits below 1000, whole and grouped from there on.
export function figure(value) {
  if (missing(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 999.5) return Math.round(value).toLocaleString("en-US");
  return size < 0.001 ? "0" : String(Number(value.toPrecision(3)));
}

export const count = (value) => (missing(value) ? NONE : Math.round(value).toLocaleString("en-US"));

export const percent = (share) => (missing(share) ? NONE : `${(100 * share).toFixed(1)} %`);

export const bytes = (value) => (missing(value) ? NONE : `${figure(value / 1e9)} GB`);

export const seconds = (value) => (missing(value) ? NONE : `${figure(value)} s`);

const two = (value) => String(value).padStart(2, "0");

// A length of time: 0:07, 12:40, 3:05:10.
export function lasting(value) {
  if (missing(value)) return NONE;
  const whole = Math.max(0, Math.round(value));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

// Unix seconds as the time of day, where the reader is.
export function clock(value) {
  if (missing(value)) return NONE;
  const day = new Date(value * 1000);
  return `${two(day.getHours())}:${two(day.getMinutes())}:${two(day.getSeconds())}`;
}

// Marks of a time axis: no more than the distance between two of them tells apart.
export function mark(value, step) {
  const day = new Date(value * 1000);
  if (step >= 86400) return `${day.getMonth() + 1}/${day.getDate()}`;
  const text = `${two(day.getHours())}:${two(day.getMinutes())}`;
  return step < 60 ? `${text}:${two(day.getSeconds())}` : text;
}

// Marks of a value axis: 1.5k instead of 1,500.
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return size >= 1e3 ? Math.round(value).toLocaleString("en-US") : String(Number(value.toPrecision(6)));
}
