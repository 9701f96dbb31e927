// The evidence record: typed by hand, or one of the run's with the facts about its server to fill in.

import { byId, chosenFile, clearErrors, download, element, inForm, keep, kept, post, say, showErrors, typed } from "./common.js";

const form = byId("record-form");
const source = byId("record-source");
const boxes = [...form.querySelectorAll(".field")];
const inputs = Object.fromEntries(boxes.map((box) => [box.dataset.field, box.querySelector("input, select, textarea")]));
const isFact = (name) => "fact" in inputs[name].closest(".field").dataset;

export class RecordPart {
  constructor(reopen) {
    this.reopen = reopen; // asks the server for the run again
    this.run = null;
    this.sheet = null; // set by whoever has both
    this.typed = kept("record", {});
    this.before = null; // the typed record that was replaced last
    this.listen();
    this.show();
  }

  listen() {
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => this.changed());
    source.addEventListener("change", () => this.show());
    byId("record-filter").addEventListener("input", () => this.filter());
    byId("record-only-facts").addEventListener("click", (event) => {
      event.target.setAttribute("aria-pressed", String(event.target.getAttribute("aria-pressed") !== "true"));
      this.filter();
    });
    byId("record-open-all").addEventListener("click", (event) => {
      const open = event.target.getAttribute("aria-pressed") !== "true";
      event.target.setAttribute("aria-pressed", String(open));
      event.target.textContent = open ? "Close all" : "Open all";
      for (const group of form.querySelectorAll("details")) group.open = open;
    });
    byId("record-check").addEventListener("click", () => this.check());
    byId("record-save").addEventListener("click", async () => {
      const found = await this.check();
      if (found) download(found.file, found.text, "application/json");
    });
    byId("record-file").addEventListener("change", (event) => this.open(event.target));
    byId("record-to-sheet").addEventListener("click", () => this.sheet.addRecord(this.typed));
    byId("record-clear").addEventListener("click", () => {
      this.replaceTyped({});
      say("The typed record is empty. Undo brings it back.");
    });
    byId("record-undo").addEventListener("click", () => {
      this.replaceTyped(this.before);
      say("The typed record is as it was before.");
    });
    byId("facts-save").addEventListener("click", () => this.saveFacts());
    byId("facts-merge").addEventListener("click", () => this.merge());
    byId("run-save").addEventListener("click", () => download(this.shown.file, this.shown.text, "application/json"));
    byId("run-copy").addEventListener("click", () => {
      this.replaceTyped(this.shown.fields);
      say("Copied: what you change from here on is typed by hand, so its grade is transcribed.");
    });
  }

  // The record of the run that is shown; null for the typed one.
  get shown() {
    return source.value === "typed" ? null : this.run.records[Number(source.value)];
  }

  setRun(run) {
    const chosen = this.run === null ? null : source.value;
    this.run = run;
    const options = (run?.records ?? []).map((record, place) => element("option", { value: String(place), textContent: `${run.run_id}: ${record.label}` }));
    source.replaceChildren(...options, element("option", { value: "typed", textContent: "Typed by hand" }));
    source.value = chosen !== null && (chosen === "typed" || run?.records[Number(chosen)]) ? chosen : options.length ? "0" : "typed";
    this.show();
  }

  choose(label) {
    const place = (this.run?.records ?? []).findIndex((record) => record.label === label);
    if (place < 0) return false;
    source.value = String(place);
    this.show();
    return true;
  }

  show() {
    clearErrors("record");
    byId("record-result").replaceChildren();
    const record = this.shown;
    byId("typed-actions").hidden = record !== null;
    byId("run-actions").hidden = record === null;
    byId("record-only-facts").hidden = record === null;
    const grade = byId("record-grade");
    grade.textContent = record ? record.grade : "transcribed";
    grade.className = `badge ${record?.grade === "performance" ? "pass" : "warn"}`;
    byId("record-about").textContent = record
      ? "Measured figures stand as they were judged. What is marked as a fact is yours to fill in: it is written into the run's facts.toml, and the " +
        "records are made again by llm-locust merge. Facts are those of the whole run. What you type takes the place of what was given before " +
        "load (--facts); where the server said something else, it is refused." +
        (record.reasons.length ? ` For the grade performance it lacks: ${record.reasons.join("; ")}.` : "")
      : "Figures of another tool, a paper or a colleague. A record typed by hand is graded transcribed, and held to the rules of llm-locust validate.";
    const draft = record ? this.factsDraft() : null;
    for (const [name, input] of Object.entries(inputs)) {
      const yours = record === null || isFact(name);
      input.value = record === null ? (this.typed[name] ?? "") : yours ? (draft[name] ?? "") : (record.fields[name] ?? "");
      if (input.tagName === "SELECT") input.disabled = !yours;
      else input.readOnly = !yours;
      this.tellKnown(name, record);
    }
    this.count();
    this.filter();
  }

  tellKnown(name, record) {
    const told = byId(`record-${name}-known`);
    const { said = {}, stated = {} } = record && isFact(name) ? this.run.facts : {};
    told.textContent =
      name in said ? `The server said: ${said[name]}` : name in stated ? `Given before load: ${stated[name]}` : "";
    told.hidden = told.textContent === "";
  }

  factsDraft() {
    const draft = kept("facts", null);
    return draft?.run === this.run.run_id ? draft.fields : this.run.facts.typed;
  }

  changed() {
    byId("record-result").replaceChildren();
    if (this.shown === null) {
      this.typed = typed(form);
      keep("record", this.typed);
    } else {
      keep("facts", { run: this.run.run_id, fields: this.typedFacts() });
    }
    this.count();
  }

  typedFacts() {
    return Object.fromEntries(Object.entries(typed(form)).filter(([name]) => isFact(name)));
  }

  fillTyped(fields) {
    this.replaceTyped({ ...this.typed, ...fields });
  }

  replaceTyped(fields) {
    this.before = this.typed;
    byId("record-undo").hidden = false;
    this.typed = Object.fromEntries(Object.entries(fields).filter(([name, text]) => name in inputs && text !== ""));
    keep("record", this.typed);
    source.value = "typed";
    this.show();
  }

  count() {
    for (const group of form.querySelectorAll("details")) {
      const all = [...group.querySelectorAll("input, select, textarea")];
      const known = all.filter((input) => input.value.trim() !== "" || !byId(`${input.id}-known`).hidden).length;
      group.querySelector("[data-count]").textContent = `${known} of ${all.length} known`;
    }
  }

  filter() {
    const words = byId("record-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const button = byId("record-only-facts");
    const onlyFacts = !button.hidden && button.getAttribute("aria-pressed") === "true";
    for (const box of boxes) {
      const text = box.textContent.toLowerCase();
      box.hidden = !words.every((word) => text.includes(word)) || (onlyFacts && !("fact" in box.dataset));
    }
    for (const group of form.querySelectorAll("details")) {
      const found = group.querySelectorAll(".field:not([hidden])").length;
      group.hidden = found === 0;
      if ((words.length || onlyFacts) && found) group.open = true;
    }
  }

  async check() {
    say("Checking ...");
    const { ok, data } = await post("record", this.typed);
    if (!ok) {
      byId("record-result").replaceChildren();
      showErrors("record", data, inForm("record"));
      return null;
    }
    clearErrors("record");
    say("");
    byId("record-result").replaceChildren(
      element("p", { className: "banner pass", textContent: `Valid: ${data.filled} of ${data.fields} fields are known. Grade: ${data.grade}. Typed by hand, not a test.` }),
    );
    return data;
  }

  async open(input) {
    try {
      const text = await chosenFile(input);
      if (text === null) return;
      const record = JSON.parse(text);
      if (record === null || typeof record !== "object" || Array.isArray(record)) throw new Error("it is no record");
      this.replaceTyped(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, asTyped(name, value)])));
      const unknown = Object.keys(record).filter((name) => !(name in inputs) && !["schema_version", "evidence_grade", "evidence_grade_reasons"].includes(name));
      say(`Opened as a typed record, so its grade is transcribed.${unknown.length ? ` Left out, since no record has them: ${unknown.join(", ")}.` : ""}`);
    } catch (error) {
      showErrors("record", { request: `The file cannot be opened: ${error.message}` }, () => null);
    }
  }

  async saveFacts() {
    say("Saving ...");
    const { ok, data } = await post(`facts?run=${encodeURIComponent(this.run.run_id)}`, this.typedFacts());
    if (!ok) return showErrors("record", data, inForm("record"));
    this.run.facts = { typed: data.typed, said: data.said, stated: data.stated, problem: null };
    keep("facts", null);
    this.show();
    byId("record-result").replaceChildren(
      element("p", {
        className: "banner",
        textContent: `${data.known} of ${data.of} facts are written to ${data.file}. The records still hold what was known before: make them again.`,
      }),
    );
    say("The facts are saved.");
  }

  async merge() {
    if (JSON.stringify(this.typedFacts()) !== JSON.stringify(this.run.facts.typed)) {
      await this.saveFacts();
      if (!byId("record-errors").hidden) return;
    }
    const button = byId("facts-merge");
    button.disabled = true;
    say("llm-locust merge is making the records again ...");
    const { ok, data } = await post(`merge?run=${encodeURIComponent(this.run.run_id)}`, {});
    button.disabled = false;
    if (!ok) return showErrors("record", data, inForm("record"));
    await this.reopen();
    byId("record-result").replaceChildren(
      element("p", { className: "banner pass", textContent: "The records, the worksheet and the reports were made again." }),
      element("pre", { textContent: data.output }),
    );
    say("The records were made again.");
  }
}

// A value of JSON as it would be typed into its field.
function asTyped(name, value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "object" && Object.keys(value).length === 0) return inputs[name] && "canBeNone" in inputs[name].closest(".field").dataset ? "none" : "";
  if (Array.isArray(value) && value.every((text) => typeof text === "string")) return value.join("\n");
  if (typeof value !== "object") return String(value);
  if (inputs[name]?.tagName === "TEXTAREA") return JSON.stringify(value);
  return Object.entries(value).map(([key, count]) => (name === "slo" && key === "quality" ? key : `${key}=${count}`)).join(", ");
}
