// What stands above the charts: run, banners, the stage of the moment and its figures.

import { NONE, clock, count, figure, lasting, percent } from "./format.js";
import { span } from "./tables.js";
import { named } from "./run_tables.js";

const STATES = { idle: "no run", running: "running", judging: "being judged", judged: "judged", failed: "failed" };
const LONG = 200; // letters of a verdict that is no headline any more
const TONES = { running: "live", judging: "warn", judged: "", failed: "fail" };
const byId = (id) => document.getElementById(id);

export function showHeader(run, answer, links) {
  byId("run").textContent = run.run_id === null ? "No run yet" : `Run ${run.run_id}`;
  const state = byId("state");
  state.hidden = run.state === "idle";
  state.className = `badge ${TONES[run.state] ?? ""}`;
  state.textContent = run.stopping !== null && run.state === "running" ? (run.stopping === "now" ? "being stopped" : "draining") : STATES[run.state];
  showFacts(run);
  showBanners(run, answer, links);
}

function showFacts(run) {
  const limits = Object.entries(run.slo).map(([name, limit]) => (name === "quality" ? "quality" : `${name} ≤ ${figure(limit)} ms`));
  const ended = run.state === "running" ? null : Math.max(...run.stages.map((stage) => stage.end_s ?? -Infinity), -Infinity);
  const until = ended === null || ended === -Infinity ? run.now_s : ended;
  const facts = [
    ["Server", run.host],
    ["Model", run.model],
    ["Started", run.started_s === null ? null : clock(run.started_s)],
    [run.state === "running" ? "Running for" : "Lasted", run.started_s === null ? null : lasting(until - run.started_s)],
    ["Limits", limits.length ? limits.join(", ") : run.run_id === null ? null : "none (--slo), so there is no goodput"],
    ["Gates", run.gates.length ? run.gates.join(", ") : null],
    ["Ended", run.state === "failed" ? null : run.reason],
  ].filter(([, value]) => value !== null);
  reuse(byId("facts"), facts, "span", (item, [name, value]) => {
    if (item.childElementCount === 0) item.append(span("", ""), document.createElement("b"));
    set(item.firstChild, `${name} `);
    set(item.lastChild, value);
  });
}

function showBanners(run, answer, links) {
  const banners = [];
  if (answer.version !== links.version) banners.push({ text: "This page is older than its server: load it again.", link: ["Load again", location.href] });
  if (run.synthetic) banners.push({ text: "Synthetic engine: these figures are never performance." });
  if (run.state === "running" && run.stopping === "drain") banners.push({ text: "Draining: nothing more is sent; what is in flight lands or meets its deadline." });
  if (run.state === "running" && run.stopping === "now") banners.push({ text: "Being stopped: what is in flight is cancelled." });
  if (run.state === "judging") banners.push({ text: "The run has ended and is being judged from its files. The report will be linked here." });
  const own = run.judged?.report && answer.report === run.run_id;
  if (run.state === "judged" && run.judged !== null) {
    banners.push({ tone: `${verdict(run)}${run.judged.sentence.length > LONG ? " long" : ""}`, text: run.judged.sentence, link: own ? ["Open the report", links.report] : null });
  }
  if (run.state === "failed") banners.push({ tone: "fail", text: `The run failed${run.reason ? `: ${run.reason}` : "."}`, link: own ? ["Open the report", links.report] : null });
  for (const note of run.notes ?? []) banners.push({ tone: "quiet", text: note });
  if (!own && answer.report !== null) banners.push({ tone: "quiet", text: `Judged before: run ${answer.report}.`, link: ["Open its report", links.report] });
  reuse(byId("banners"), banners, "p", (item, { tone = "", text, link }) => {
    item.className = tone === "quiet" ? "soft" : `banner ${tone}`;
    if (item.childElementCount === 0) item.append(span("", ""), document.createElement("a"));
    set(item.firstChild, link ? `${text} ` : text);
    const anchor = item.lastChild;
    anchor.hidden = !link;
    if (link) {
      set(anchor, link[0]);
      anchor.href = link[1];
    }
  });
}

// Exit code 0 says that the run was judged, not that it passed: a ladder that found its boundary has a stage that failed.
function verdict({ judged, stages }) {
  if (judged.exit_code === 3) return "fail";
  if (judged.exit_code !== 0) return "";
  return stages.length > 0 && stages.every((stage) => stage.result === "pass") ? "pass" : "plain";
}

// The stage of the moment: phase, what is left of it, and its figures so far.
export function showNow(run) {
  const stage = run.stages.findLast((one) => one.phase !== "preparing") ?? run.stages[0];
  byId("now-stage").textContent = stage ? named(stage) : "No stage has begun";
  const phase = byId("now-phase");
  phase.hidden = !stage;
  if (!stage) {
    byId("now-share").value = 0;
    byId("now-left").textContent = "";
    reuse(byId("tiles"), [], "div", () => {});
    return;
  }
  phase.textContent = stage.result ?? stage.phase;
  phase.className = `badge ${stage.result ?? (stage.phase === "window" ? "live" : "")}`;
  byId("now-share").value = stage.share;
  byId("now-left").textContent = left(stage);
  reuse(byId("tiles"), tiles(run, stage), "div", (item, { name, value, small, tone = "" }) => {
    if (item.childElementCount === 0) {
      item.append(...["dt", "dd", "dd"].map((kind) => document.createElement(kind)));
      item.children[1].className = "big";
      item.children[2].className = "small";
    }
    item.className = `tile ${tone}`;
    [name, value, small].forEach((text, at) => set(item.children[at], text));
  });
}

function left(stage) {
  if (stage.phase === "done") return "";
  if (stage.left_s !== null) return stage.phase === "cool-down" ? `at most ${lasting(stage.left_s)} left of the cool-down` : `${lasting(stage.left_s)} left of the ${stage.phase}`;
  return stage.phase === "window" ? "until it is stopped" : "";
}

// What decides is how many arrivals were late, not the P99: of fewer than 100 that is the latest one.
function lateness(generator, closed) {
  const { late = null, dispatched = null, lag_bound_ms: bound, dispatch_lag_p99_ms: lag } = generator;
  if (late !== null && dispatched) return `${count(late)} of ${count(dispatched)} over ${figure(bound)} ms late (1 % may)`;
  if (lag !== null) return `lag P99 ${figure(lag)} ms`;
  return closed ? "nothing is planned" : "too early to say";
}

function lateRule({ late = null, dispatched = null, lag_bound_ms: bound }) {
  if (late === null || !dispatched) return "";
  return `, ${count(late)} of ${count(dispatched)} late by more than ${figure(bound)} ms (allowed: 1 %, and one at least)`;
}

function tiles(run, stage) {
  const group = stage.groups[0] ?? null;
  const { generator } = stage;
  const closed = stage.rate_rps === null && stage.concurrency !== null;
  const latency = (name, title) => {
    const spread = group?.latencies[name];
    const limit = run.slo[name];
    const p95 = spread?.p95 ?? null;
    const over = limit !== undefined && p95 !== null && p95 > limit;
    return {
      name: `${title} P95`,
      value: p95 === null ? NONE : `${figure(p95)} ms`,
      small: limit === undefined ? `P50 ${figure(spread?.p50)}, no limit` : `${over ? "over the" : "P50 " + figure(spread?.p50) + ","} limit ${figure(limit)}`,
      tone: over ? "warn" : "",
    };
  };
  return [
    { name: "Offered", value: closed ? `${stage.concurrency} at once` : stage.rate_rps === null ? NONE : `${figure(stage.rate_rps)} req/s`, small: `${count(stage.sent)} of ${count(stage.planned)} sent` },
    { name: "Goodput", value: (group?.goodput_rps ?? null) === null ? NONE : `${figure(group.goodput_rps)} req/s`, small: group === null ? "nothing measured yet" : group.good === null ? (Object.keys(run.slo).length ? "not available yet" : "no limit was set") : `${percent(group.attainment)} of ${count(group.measured)} good` },
    { name: "In flight", value: count(stage.in_flight), small: stage.waiting > 0 ? `${count(stage.waiting)} held back by the cap` : `${count(stage.completed)} done`, tone: stage.waiting > 0 ? "warn" : "" },
    latency("ttft", "TTFT"),
    latency("tpot", "TPOT"),
    latency("e2e", "E2E"),
    { name: "Errors", value: percent(group?.error_rate), small: group === null ? "nothing measured yet" : `${count(group.failed)} of ${count(group.measured)}`, tone: group !== null && group.failed > 0 ? "warn" : "" },
    { name: "Load generator", value: generator.lost_workers.length ? "worker lost" : generator.keeps_up === null ? NONE : generator.keeps_up ? "keeps up" : "is late", small: lateness(generator, closed), tone: generator.keeps_up === false || generator.lost_workers.length ? "fail" : "" },
  ];
}

export function showGenerator(stage) {
  const { generator } = stage;
  const lines = [
    `Load generator: ${generator.keeps_up === null ? "too early to say" : generator.keeps_up ? "keeps up" : "is late"}. Dispatch lag P99 ${figure(generator.dispatch_lag_p99_ms)} ms${lateRule(generator)}, first output in a coalesced read ${percent(generator.first_coalesced_share)}, CPU of the busiest worker ${figure(generator.cpu_percent_max)} %, loop lag ${figure(generator.loop_lag_ms_max)} ms.`,
    ...generator.warnings,
    ...(generator.lost_workers.length ? [`Lost: worker ${generator.lost_workers.join(", ")}.`] : []),
    ...(stage.interrupted ? [`Interrupted: ${stage.interrupted}`] : []),
  ];
  reuse(byId("generator"), lines, "p", (item, line, at) => {
    item.className = at === 0 ? "soft" : "error";
    set(item, line);
  });
}

// As many children as there are items, made once and filled again.
export function reuse(parent, items, kind, fill) {
  while (parent.childElementCount > items.length) parent.lastElementChild.remove();
  items.forEach((item, at) => {
    let child = parent.children[at];
    if (!child) {
      child = document.createElement(kind);
      parent.append(child);
    }
    fill(child, item, at);
  });
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
