// One chart over time, drawn by uPlot: legend with values, stage markers, window shading, limit line.

import { figure, mark, short } from "./format.js";
import { hasValue } from "./points.js";
import { span } from "./tables.js";

const SVG = "http://www.w3.org/2000/svg";
const DASH = [5, 3];
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const FAR = 3; // a limit so many times above the highest value is named but would flatten the lines

let colours = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  colours = new Map();
});

export function colour(role) {
  if (!colours.has(role)) colours.set(role, getComputedStyle(document.documentElement).getPropertyValue(role).trim());
  return colours.get(role);
}

export class TimeChart {
  // shared: {range() -> [from, to], stages(), limit(name) -> number or null, zoom(from, to), whole(), hover(time or null)}.
  constructor(spec, shared) {
    Object.assign(this, { spec, shared, plot: null, data: null });
    this.element = frame(spec);
    this.place = this.element.querySelector(".plot");
    this.legend = this.element.querySelector(".legend");
    this.values = spec.lines.map((line, at) => this.key(line, at));
    this.limitKey = null;
    this.hovered = null;
  }

  key(line, at) {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    button.title = "Show or hide this line";
    const value = span("value", "");
    button.append(swatch(line), span("", line.label), value);
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      this.plot?.setSeries(at + 1, { show: shown });
    });
    item.append(button);
    this.legend.append(item);
    return value;
  }

  // Draw the series; returns whether there is anything to draw.
  draw(series) {
    const lines = this.spec.lines.map((line) => series.columns[line.column]);
    if (!lines.some(hasValue)) return false;
    this.data = [series.t, ...lines.map((values) => values ?? series.t.map(() => null))];
    if (this.plot === null) this.begin();
    else this.plot.setData(this.data);
    this.tell();
    return true;
  }

  begin() {
    this.plot = new uPlot(this.options(), this.data, this.place);
    new ResizeObserver(() => this.resize()).observe(this.element);
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
  }

  options() {
    const { spec, shared } = this;
    return {
      width: Math.max(this.place.clientWidth, 200),
      height: innerWidth < 560 ? 170 : 200,
      padding: [16, 24, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        points: { size: 7 },
        drag: { x: true, y: false, setScale: false, dist: 6 },
        sync: { key: "run", setSeries: false, filters: { pub: (type) => type !== "mousedown" && type !== "mouseup" } },
        bind: { dblclick: () => () => (shared.whole(), null) },
      },
      scales: { x: { range: () => shared.range() }, y: { range: (_, low, high) => this.heights(high) } },
      axes: [
        { stroke: () => colour("--soft"), grid: { show: false }, ticks: { stroke: () => colour("--c-grid"), size: 4 }, font: FONT, size: 28, space: 60, values: (_, splits, __, ___, step) => splits.map((value) => mark(value, step)) },
        { stroke: () => colour("--soft"), grid: { stroke: () => colour("--c-grid"), width: 1 }, ticks: { show: false }, font: FONT, size: axisWidth, space: 34, values: (_, splits) => splits.map(short) },
      ],
      series: [
        {},
        ...spec.lines.map((line) => ({
          label: line.label,
          stroke: () => colour(`--c-${line.colour}`),
          width: 1.8,
          dash: line.dash ? DASH : undefined,
          points: { show: true, size: 5, width: 1, fill: () => colour(`--c-${line.colour}`), filter: alone },
        })),
      ],
      hooks: {
        drawClear: [(plot) => this.shade(plot)],
        draw: [(plot) => this.marks(plot)],
        setCursor: [(plot) => this.follow(plot.cursor.idx)],
        setSelect: [(plot) => this.selected(plot)],
      },
    };
  }

  heights(high) {
    const limit = this.limit();
    const top = Math.max(high ?? 0, limit !== null && limit <= FAR * (high ?? 0) ? limit * 1.05 : 0);
    if (this.spec.top !== undefined) return [0, Math.max(this.spec.top, top)];
    return [0, top > 0 ? uPlot.rangeNum(0, top, 0.08, true)[1] : 1];
  }

  limit() {
    return this.spec.limit === undefined ? null : this.shared.limit(this.spec.limit);
  }

  shade(plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.globalAlpha = 0.4;
    ctx.fillStyle = colour("--c-grid");
    for (const stage of this.shared.stages()) {
      if (stage.window_start_s === null) continue;
      const from = at(plot, stage.window_start_s);
      const to = stage.window_end_s === null ? bbox.left + bbox.width : at(plot, stage.window_end_s);
      const [left, right] = [Math.max(from, bbox.left), Math.min(to, bbox.left + bbox.width)];
      if (right > left) ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
  }

  marks(plot) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.font = FONT.replace("11px", `${10.5 * ratio}px`);
    ctx.textBaseline = "bottom";
    ctx.textAlign = "left";
    let free = bbox.left;
    for (const stage of this.shared.stages()) {
      if (stage.start_s === null) continue;
      const x = Math.round(at(plot, stage.start_s));
      if (x < bbox.left - 1 || x > bbox.left + bbox.width) continue;
      stroke(ctx, colour("--c-muted"), ratio, [2 * ratio, 3 * ratio], [x, bbox.top], [x, bbox.top + bbox.height]);
      const label = stage.round > 0 ? `${stage.label} (${stage.round + 1})` : stage.label;
      const wide = ctx.measureText(label).width;
      const left = Math.min(x, bbox.left + bbox.width + 20 * ratio - wide);
      if (left >= free) {
        ctx.fillStyle = colour("--soft");
        ctx.fillText(label, left, bbox.top - 2 * ratio);
        free = left + wide + 8 * ratio;
      }
    }
    const limit = this.limit();
    if (limit !== null) {
      const y = Math.round(plot.valToPos(limit, "y", true));
      if (y >= bbox.top && y <= bbox.top + bbox.height) {
        stroke(ctx, colour("--c-limit"), 1.4 * ratio, [6 * ratio, 4 * ratio], [bbox.left, y], [bbox.left + bbox.width, y]);
      }
    }
    ctx.restore();
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 6) return;
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.shared.zoom(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
  }

  follow(index) {
    this.hovered = index ?? null;
    this.tell();
    this.shared.hover(this.hovered === null ? null : this.data[0][this.hovered]);
  }

  // Values at the pointer, else the newest.
  tell() {
    const place = this.hovered ?? this.data[0].length - 1;
    this.values.forEach((value, at_) => {
      const text = figure(this.data[at_ + 1][place]);
      if (value.textContent !== text) value.textContent = text;
    });
    const limit = this.limit();
    if (limit === null) {
      this.limitKey?.remove();
      this.limitKey = null;
    } else {
      if (this.limitKey === null) {
        this.limitKey = document.createElement("li");
        this.limitKey.append(swatch({ colour: "limit", dash: true }), span("", ""));
        this.legend.append(this.limitKey);
      }
      this.limitKey.lastChild.textContent = `${this.spec.limit === "lag" ? "bound of the lag" : "limit"} ${figure(limit)}`;
    }
  }

  // The range, the colours or the stages have changed.
  redraw() {
    if (this.plot !== null) this.plot.setData(this.data);
  }

  end() {
    this.plot?.destroy();
    this.plot = null;
    this.data = null;
    this.hovered = null;
  }
}

export function frame({ name, title, unit }) {
  const figureElement = document.createElement("figure");
  figureElement.className = "chart";
  figureElement.id = `chart-${name}`;
  const caption = document.createElement("figcaption");
  const heading = document.createElement("h3");
  heading.append(`${title} `, span("unit", unit));
  const legend = document.createElement("ul");
  legend.className = "legend";
  caption.append(heading, legend);
  const plot = document.createElement("div");
  plot.className = "plot";
  plot.setAttribute("role", "img");
  plot.setAttribute("aria-label", `${title}, ${unit}`);
  figureElement.append(caption, plot);
  return figureElement;
}

export function swatch({ colour: role, dash, dot }) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 22 10");
  svg.setAttribute("aria-hidden", "true");
  const shape = document.createElementNS(SVG, dot ? "circle" : "path");
  if (dot) {
    for (const [name, value] of [["cx", 11], ["cy", 5], ["r", 4]]) shape.setAttribute(name, value);
    shape.setAttribute("fill", `var(--c-${role})`);
  } else {
    shape.setAttribute("d", "M0 5H22");
    shape.setAttribute("stroke", `var(--c-${role})`);
    shape.setAttribute("stroke-width", "2.4");
    if (dash) shape.setAttribute("stroke-dasharray", "5 3");
  }
  svg.append(shape);
  return svg;
}

export const axisWidth = (_, values) => Math.max(34, 12 + 6.5 * Math.max(...(values ?? []).map((value) => value.length), 1));

const at = (plot, time) => plot.valToPos(time, "x", true);

function stroke(ctx, style, width, dash, [x0, y0], [x1, y1]) {
  ctx.strokeStyle = style;
  ctx.lineWidth = width;
  ctx.setLineDash(dash);
  ctx.beginPath();
  ctx.moveTo(x0, y0);
  ctx.lineTo(x1, y1);
  ctx.stroke();
  ctx.setLineDash([]);
}

// A value between two steps without one has no line to be seen by: it gets a dot.
function alone(plot, place) {
  const values = plot.data[place];
  const [from, to] = plot.series[0].idxs;
  const found = [];
  for (let k = from; k <= to; k += 1) {
    if (values[k] !== null && (values[k - 1] ?? null) === null && (values[k + 1] ?? null) === null) found.push(k);
  }
  return found;
}
