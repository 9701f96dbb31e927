// What each stage made of the rate it was offered: goodput and ok requests over the offered rate.

import { axisWidth, colour, frame, swatch } from "./charts.js";
import { figure, short } from "./format.js";
import { span } from "./tables.js";

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const ENOUGH_S = 3; // seconds of a window before its rate is worth a point

export class LadderChart {
  constructor() {
    this.spec = { name: "ladder", title: "Goodput of each stage", missing: "no stage has an offered rate and a measured request yet" };
    this.element = frame({ ...this.spec, unit: "req/s, over the offered req/s" });
    this.place = this.element.querySelector(".plot");
    this.plot = null;
    this.key = null;
    const legend = this.element.querySelector(".legend");
    for (const [label, look] of [["offered", { colour: "muted", dash: true }], ["ok", { colour: "s1", dot: true }], ["good", { colour: "pass", dot: true }]]) {
      const item = document.createElement("li");
      item.append(swatch(look), span("", label), span("value", ""));
      legend.append(item);
    }
    this.values = [...legend.querySelectorAll(".value")];
  }

  draw(_series, stages) {
    const rows = stages
      .filter((stage) => stage.rate_rps !== null && stage.groups.length > 0 && (stage.groups[0].seconds ?? 0) >= ENOUGH_S)
      .map((stage) => [stage.rate_rps, stage.groups[0].throughput_rps, stage.groups[0].goodput_rps])
      .sort((one, other) => one[0] - other[0]);
    if (rows.length === 0) return false;
    const rates = rows.map((row) => row[0]);
    this.data = [[0, ...rates], [0, ...rates], [null, ...rows.map((row) => row[1])], [null, ...rows.map((row) => row[2])]];
    const key = JSON.stringify(this.data);
    if (this.plot === null) {
      this.plot = new uPlot(this.options(), this.data, this.place);
      new ResizeObserver(() => this.resize()).observe(this.element);
    } else if (key !== this.key) this.plot.setData(this.data);
    this.key = key;
    this.tell(null);
    return true;
  }

  options() {
    const dots = (role) => ({ stroke: () => colour(role), width: 1.6, points: { show: true, size: 8, fill: () => colour(role) } });
    const top = (_, __, high) => [0, uPlot.rangeNum(0, Math.max(high ?? 0, 0.1), 0.1, true)[1]];
    const axis = { stroke: () => colour("--soft"), font: FONT, values: (_, splits) => splits.map(short) };
    return {
      width: Math.max(this.place.clientWidth, 200),
      height: innerWidth < 560 ? 170 : 200,
      padding: [16, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 10 }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: top }, y: { range: top } },
      axes: [
        { ...axis, grid: { show: false }, ticks: { stroke: () => colour("--c-grid"), size: 4 }, size: 28, space: 60 },
        { ...axis, grid: { stroke: () => colour("--c-grid"), width: 1 }, ticks: { show: false }, size: axisWidth, space: 34 },
      ],
      series: [{}, { stroke: () => colour("--c-muted"), width: 1.4, dash: [5, 3], points: { show: false } }, dots("--c-s1"), dots("--c-pass")],
      hooks: { setCursor: [(plot) => this.tell(plot.cursor.idx ?? null)] },
    };
  }

  tell(index) {
    const place = index ?? this.data[0].length - 1;
    this.values.forEach((value, at) => {
      value.textContent = figure(this.data[at + 1][place]);
    });
  }

  resize() {
    const width = this.place.clientWidth;
    if (this.plot !== null && width > 0 && width !== this.plot.width) this.plot.setSize({ width, height: this.plot.height });
  }

  redraw() {
    this.plot?.redraw();
  }

  end() {
    this.plot?.destroy();
    this.plot = null;
    this.key = null;
  }
}
