// All charts together: one range, one pointer, and what is not drawn is said.

import { TimeChart } from "./charts.js";
import { SECTIONS } from "./chart_list.js";
import { clock } from "./format.js";
import { LadderChart } from "./ladder_chart.js";

const SHORTEST_S = 30; // a run of a few seconds does not fill the chart
const KEPT = "llm-locust range";

export class Board {
  constructor(place, { hovered }) {
    this.range = kept();
    this.run = null;
    this.series = null;
    const shared = {
      range: () => this.shownRange(),
      stages: () => this.run?.stages ?? [],
      limit: (name) => this.limit(name),
      zoom: (from, to) => this.choose([from, to]),
      whole: () => this.choose("all"),
      hover: (time) => hovered(time === null ? "" : this.where(time)),
    };
    this.sections = SECTIONS.map(({ title, wide, charts }) => {
      const section = document.createElement("section");
      const heading = document.createElement("h2");
      heading.textContent = title;
      const grid = document.createElement("div");
      grid.className = wide ? "charts wide" : "charts";
      const said = document.createElement("p");
      said.className = "note undrawn";
      section.append(heading, grid, said);
      place.append(section);
      const all = charts.map((spec) => (spec.ladder ? new LadderChart() : new TimeChart(spec, shared)));
      for (const chart of all) {
        chart.element.hidden = true;
        grid.append(chart.element);
      }
      return { charts: all, said };
    });
    this.buttons = [...document.querySelectorAll("[data-range]")];
    for (const button of this.buttons) {
      button.addEventListener("click", () => this.choose(button.dataset.range === "all" ? "all" : Number(button.dataset.range)));
    }
    this.press();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  get charts() {
    return this.sections.flatMap((section) => section.charts);
  }

  // Draw what is known now.
  show(run, series) {
    this.run = run;
    this.series = series;
    for (const { charts, said } of this.sections) {
      const without = [];
      for (const chart of charts) {
        chart.element.hidden = false; // uPlot measures where it draws
        const drawn = chart.draw(series, run.stages);
        chart.element.hidden = !drawn;
        if (!drawn) without.push(`${chart.spec.title} (${chart.spec.missing})`);
      }
      const text = without.length ? `Not drawn: ${without.join("; ")}.` : "";
      if (said.textContent !== text) said.textContent = text;
    }
  }

  // Another run: nothing of the last one stays.
  forget() {
    for (const chart of this.charts) {
      chart.end();
      chart.element.hidden = true;
    }
    this.run = null;
    this.series = null;
    if (Array.isArray(this.range)) this.choose("all");
  }

  shownRange() {
    const { t, step_s: step } = this.series;
    if (Array.isArray(this.range)) return this.range;
    const first = t[0] ?? 0;
    const last = (t.at(-1) ?? first) + step;
    const from = this.range === "all" ? first : Math.max(first, last - this.range);
    return [from, Math.max(last, from + SHORTEST_S)];
  }

  choose(range) {
    this.range = range;
    this.press();
    try {
      if (!Array.isArray(range)) sessionStorage.setItem(KEPT, String(range));
    } catch {
      // a browser that keeps nothing shows the whole run after a reload
    }
    this.redraw();
  }

  press() {
    for (const button of this.buttons) button.setAttribute("aria-pressed", String(button.dataset.range === String(this.range)));
  }

  redraw() {
    if (this.series !== null) for (const chart of this.charts) chart.redraw();
  }

  limit(name) {
    if (name !== "lag") return this.run?.slo[name] ?? null;
    return this.run?.stages.findLast((stage) => stage.generator.lag_bound_ms !== null)?.generator.lag_bound_ms ?? null;
  }

  where(time) {
    const stage = this.run.stages.findLast((one) => one.start_s !== null && one.start_s <= time && (one.end_s === null || time <= one.end_s));
    if (!stage) return `at ${clock(time)}`;
    const inWindow = stage.window_start_s !== null && time >= stage.window_start_s && (stage.window_end_s === null || time < stage.window_end_s);
    const before = stage.window_start_s === null || time < stage.window_start_s;
    return `at ${clock(time)} · ${stage.label}, ${inWindow ? "window" : before ? "warm-up" : "after the window"}`;
  }
}

function kept() {
  try {
    const text = sessionStorage.getItem(KEPT);
    return text === null || text === "all" || !Number(text) ? "all" : Number(text);
  } catch {
    return "all";
  }
}
