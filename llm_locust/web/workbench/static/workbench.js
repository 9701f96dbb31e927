// The workbench page: which part is shown, and what the run fills in.

import { startGoodput, startKv } from "./calculators.js";
import { byId, element, opening, say } from "./common.js";
import { RecordPart } from "./record.js";
import { SheetPart } from "./sheet.js";

const PARTS = ["record", "worksheet", "goodput", "kv"];

function showPart() {
  const chosen = PARTS.includes(location.hash.slice(1)) ? location.hash.slice(1) : "record";
  for (const part of PARTS) byId(`part-${part}`).hidden = part !== chosen;
  for (const link of document.querySelectorAll(".parts a")) {
    if (link.hash === `#${chosen}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showRun(run, problem) {
  const told = byId("run");
  const problems = [problem, run?.facts.problem && `The facts file cannot be used, and is written anew when you save: ${run.facts.problem}`].filter(Boolean);
  const texts = run ? [`Filled from run ${run.run_id}, in ${run.folder}.`] : [];
  told.replaceChildren(
    ...texts.map((text) => element("p", { textContent: text })),
    ...problems.map((text) => element("p", { className: "error", textContent: text })),
  );
  told.hidden = told.children.length === 0;
}

async function reopen() {
  const { ok, data } = await opening();
  if (!ok) return say(data.request);
  showRun(data.run, data.problem);
  record.setRun(data.run);
  sheet.setRun(data.run);
  if (data.run?.worksheet.length) sheet.fill();
}

const record = new RecordPart(reopen);
const sheet = new SheetPart(record);
record.sheet = sheet;
startGoodput(record);
startKv();
window.addEventListener("hashchange", showPart);
showPart();

say("Loading ...");
const { ok, data } = await opening();
if (ok) {
  say("");
  showRun(data.run, data.problem);
  record.setRun(data.run);
  sheet.start(data.columns, data.run);
} else {
  say(data.request);
}
byId("bench").dataset.ready = "yes";
