// The tables of the page: which figure stands in which column.

import { NONE, bytes, count, figure, lasting, percent, seconds } from "./format.js";
import { Table } from "./tables.js";

const number = (head, unit, cell) => ({ head, unit, number: true, cell });
const text = (head, cell, more = {}) => ({ head, cell, ...more });

// One percentile of one latency; marked where it is over the limit of that name.
function latency(name, rank, run, group) {
  const value = group?.latencies[name]?.[rank] ?? null;
  const limit = run().slo[name];
  const over = value !== null && limit !== undefined && value > limit;
  return { text: figure(value), over, title: over ? `over the limit of ${figure(limit)} ms` : "" };
}

const whole = (stage) => stage.groups[0] ?? null;
export const named = (stage) => (stage.round > 0 ? `${stage.label}, round ${stage.round + 1}` : stage.label);

function standing(stage) {
  if (stage.result !== null) return { text: stage.result, badge: stage.result };
  if (stage.interrupted !== null && stage.phase === "done") return { text: "interrupted", badge: "warn" };
  const left = stage.phase === "done" || stage.left_s === null ? "" : `, ${stage.phase === "cool-down" ? "at most " : ""}${lasting(stage.left_s)} left`;
  return { text: stage.phase + left, badge: stage.phase === "done" ? "" : "live" };
}

function keepsUp({ generator }) {
  const title = generator.warnings.join(" ");
  if (generator.lost_workers.length > 0) return { text: "worker lost", over: true, title };
  if (generator.keeps_up === null) return { text: NONE, title: "too early to say" };
  return generator.keeps_up ? { text: "keeps up", title } : { text: "is late", over: true, title };
}

function reporting({ lost, age_s: age }, running) {
  if (lost !== null) return { text: "lost", badge: "fail" };
  if (age === null || !running) return NONE;
  return age > 5 ? { text: "silent", badge: "warn" } : { text: "reports", badge: "pass" };
}

export function makeTables(run, choose) {
  const shown = (name, rank) => (stage) => latency(name, rank, run, whole(stage));
  const of = (name, rank) => (group) => latency(name, rank, run, group);
  return {
    stages: new Table("stages", [
      text("Stage", (stage, place) => ({ text: named(stage), press: () => choose(place) })),
      text("Result", standing),
      number("Offered", "req/s", (stage) => (stage.rate_rps === null && stage.concurrency !== null ? `${stage.concurrency} at once` : figure(stage.rate_rps))),
      number("Planned", "", (stage) => count(stage.planned)),
      number("Sent", "", (stage) => count(stage.sent)),
      number("Done", "", (stage) => count(stage.completed)),
      number("In flight", "", (stage) => count(stage.in_flight)),
      number("Goodput", "req/s", (stage) => figure(whole(stage)?.goodput_rps)),
      number("Attained", "good of measured", (stage) => percent(whole(stage)?.attainment)),
      number("Errors", "of measured", (stage) => percent(whole(stage)?.error_rate)),
      number("TTFT P95", "ms", shown("ttft", "p95")),
      number("TPOT P95", "ms", shown("tpot", "p95")),
      number("E2E P95", "ms", shown("e2e", "p95")),
      text("Generator", keepsUp),
    ], { empty: "No stage has begun." }),
    groups: new Table("groups", [
      text("Slice", (group) => group.slice ?? "all"),
      text("User class", (group) => group.user ?? "all"),
      number("Measured", "", (group) => count(group.measured)),
      number("Ok", "", (group) => count(group.ok)),
      number("Good", "", (group) => count(group.good)),
      number("Attained", "", (group) => percent(group.attainment)),
      number("Errors", "", (group) => percent(group.error_rate)),
      number("Goodput", "req/s", (group) => figure(group.goodput_rps)),
      ...["ttft", "tpot"].flatMap((name) => ["p50", "p95", "p99"].map((rank) => number(`${name.toUpperCase()} ${rank.toUpperCase()}`, "ms", of(name, rank)))),
      number("ITL P95", "ms", of("itl", "p95")),
      number("E2E P50", "ms", of("e2e", "p50")),
      number("E2E P95", "ms", of("e2e", "p95")),
      number("Longest gap P95", "ms", of("max_gap", "p95")),
      number("Client wait P95", "ms", of("client_wait", "p95")),
    ], { empty: "No request of this stage's window has ended yet." }),
    outcomes: new Table("outcomes", [
      text("Outcome", ({ name }) => name),
      number("Requests", "", ({ many }) => count(many)),
      number("Share", "", ({ share }) => percent(share)),
      text("", ({ name, share }) => ({ bar: share, tone: name === "ok" ? "pass" : "fail" })),
    ], { empty: "No request of this stage's window has ended yet." }),
    statuses: new Table("statuses", [
      text("Status", ({ name }) => name || "none"),
      number("Requests", "", ({ many }) => count(many)),
      number("Share", "", ({ share }) => percent(share)),
    ], { empty: "No answer with a status yet." }),
    workers: new Table("workers", [
      text("Worker", (worker) => String(worker.worker)),
      text("Host", (worker) => worker.host),
      text("State", (worker) => reporting(worker, run().state === "running")),
      number("Last report", "ago", (worker) => seconds(worker.age_s)),
      number("CPU", "% of a core", (worker) => ({ text: figure(worker.cpu_percent), over: worker.cpu_percent > 90 })),
      number("Loop lag", "ms", (worker) => figure(worker.loop_lag_ms)),
      number("Clock ±", "ms", (worker) => figure(worker.clock_uncertainty_ms)),
      number("Sent", "", (worker) => count(worker.sent)),
      number("In flight", "", (worker) => count(worker.in_flight)),
      number("Held back", "", (worker) => count(worker.waiting)),
      number("Failures", "in a row", (worker) => ({ text: count(worker.failures_in_a_row), over: worker.failures_in_a_row > 2 })),
      text("Said last", (worker) => worker.lost ?? worker.last_failure ?? "", { wide: true }),
    ], { empty: "No worker has reported yet." }),
    servers: new Table("servers", [
      text("Metrics page", (server) => server.target),
      text("Engine", (server) => server.engine ?? NONE),
      number("Read", "ago", (server) => ({ text: seconds(server.age_s), over: run().state === "running" && server.age_s > 10 })),
      number("Running", "", (server) => figure(server.running)),
      number("Waiting", "", (server) => figure(server.waiting)),
      number("KV cache", "of blocks", (server) => percent(server.kv_usage_max)),
      number("Queue P95", "ms, at most", (server) => figure(server.queue_p95_ms)),
      number("Residency", "on the GPU", (server) => percent(server.residency)),
      text("Error", (server) => ({ text: server.error ?? "", over: server.error !== null }), { wide: true }),
    ], { empty: "No metrics page of the server is read (--metrics-url)." }),
    devices: new Table("devices", [
      text("Device", (device) => device.device),
      text("Kind", (device) => device.kind),
      number("Utilisation", "%", (device) => figure(device.utilisation_pct)),
      number("Memory", "in use", (device) => bytes(device.memory_used_bytes)),
      number("Memory", "in all", (device) => bytes(device.memory_total_bytes)),
      number("Power", "W", (device) => figure(device.power_w)),
    ], { empty: "No GPU was sampled." }),
  };
}

// Counts by name as rows, the most frequent first.
export function shares(counts) {
  const all = Object.values(counts ?? {}).reduce((sum, many) => sum + many, 0);
  return Object.entries(counts ?? {})
    .filter(([, many]) => many > 0)
    .sort(([, one], [, other]) => other - one)
    .map(([name, many]) => ({ name, many, share: many / all }));
}
