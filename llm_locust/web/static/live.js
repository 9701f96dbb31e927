// The live page: asks for the picture, keeps the points, shows both.

import { Board } from "./live/board.js";
import { Connection, LoggedOut } from "./live/connection.js";
import { clock, percent } from "./live/format.js";
import { showGenerator, showHeader, showNow } from "./live/header.js";
import { askedFrom, joined } from "./live/points.js";
import { makeTables, named, shares } from "./live/run_tables.js";
import { StopDialog } from "./live/stop.js";

const byId = (id) => document.getElementById(id);
const page = byId("page").dataset;

let run = null;
let series = null;
let answer = null;
let paused = null; // the time since when, or null
let chosen = null; // the place of a stage that a person chose

const board = new Board(byId("charts"), { hovered: (text) => paused === null && tellHover(text) });
const tables = makeTables(() => run, choose);
const stop = new StopDialog(page.stop, { done: () => connection.look() });
const connection = new Connection(page.data, { query, answered, lost });

byId("pause").addEventListener("click", () => pause(paused === null));
byId("stage-choice").addEventListener("change", (event) => choose(event.target.value === "" ? null : Number(event.target.value)));
connection.look();

function query() {
  const asked = new URLSearchParams();
  const since = askedFrom(series);
  if (run !== null && since !== null) {
    asked.set("generation", run.generation);
    asked.set("run", run.run_id ?? "");
    asked.set("since", since);
    asked.set("step", series.step_s);
  }
  if (chosen !== null) asked.set("stage", chosen);
  return asked;
}

function answered(news) {
  const another = run === null || run.generation !== news.run.generation || run.run_id !== news.run.run_id;
  if (another) {
    board.forget();
    series = null;
    chosen = null;
    pause(false);
  }
  series = joined(series, news.run.series);
  answer = news;
  run = news.run;
  const status = byId("connection");
  status.className = "soft";
  status.textContent = `as of ${clock(run.now_s)}`;
  document.title = `${run.state === "running" ? "● " : ""}Live - llm_locust`;
  showHeader(run, answer, page);
  stop.allow(run);
  if (paused === null) show();
}

function lost({ since, retryMs, reason }) {
  const status = byId("connection");
  status.className = "lost";
  const again = `trying again in ${retryMs / 1000} s`;
  if (reason instanceof LoggedOut) status.textContent = `logged out: load the page again (${again})`;
  else status.textContent = `no answer since ${since === null ? "the page was opened" : clock(since)}; ${again}`;
  stop.allow(null);
}

// Everything that a pause holds still.
function show() {
  const nothing = run.run_id === null && run.stages.length === 0;
  byId("idle").hidden = !nothing;
  byId("shown").hidden = nothing;
  if (nothing) return;
  showNow(run);
  const { chosen: place } = answer;
  byId("sketch-error").textContent = percent(run.sketch_error);
  byId("so-far").textContent = run.state === "running" ? "So far" : "To its end";
  byId("when-judged").textContent = run.state === "judged" ? "Judged from its files: see the report." : "A run is judged from its files, when it has ended.";
  byId("stage-count").textContent = run.stage_count === null ? "" : `${run.stages.length} of ${run.stage_count}`;
  const list = byId("stages").parentElement;
  const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 4;
  tables.stages.show(run.stages, (_, at) => at === place);
  if (atEnd) list.scrollTop = list.scrollHeight; // a long ladder shows its newest stage
  showStage(place);
  tables.workers.show(run.workers);
  tables.servers.show(run.servers);
  tables.devices.show(run.devices);
  board.show(run, series);
}

function showStage(place) {
  const choice = byId("stage-choice");
  const options = ["the newest", ...run.stages.map(named)];
  while (choice.options.length > options.length) choice.remove(choice.options.length - 1);
  options.forEach((label, at) => {
    if (!choice.options[at]) choice.add(new Option(label, at === 0 ? "" : String(at - 1)));
    else if (choice.options[at].textContent !== label) choice.options[at].textContent = label;
  });
  choice.value = chosen === null ? "" : String(chosen);
  const stage = place === null ? null : run.stages[place];
  byId("stage-title").textContent = stage === null ? "Slices and outcomes of a stage" : `Slices and outcomes: ${named(stage)}`;
  byId("generator").hidden = stage === null;
  if (stage !== null) showGenerator(stage);
  tables.groups.show(stage?.groups ?? []);
  tables.outcomes.show(shares(stage?.groups[0]?.outcomes));
  tables.statuses.show(shares(stage?.groups[0]?.status_counts));
}

function choose(place) {
  chosen = place;
  pause(false);
  connection.look();
}

function pause(wanted) {
  if (wanted === (paused !== null)) return;
  paused = wanted ? Date.now() / 1000 : null;
  const button = byId("pause");
  button.classList.toggle("on", wanted);
  button.textContent = wanted ? "Resume" : "Pause";
  tellHover("");
  if (!wanted && run !== null) show();
}

function tellHover(text) {
  byId("hover").textContent = paused === null ? text : `paused at ${clock(paused)}; the run goes on and its data arrive`;
}
