// The worksheet: rows of tests, filled from the run, typed or pasted; every change is kept in the browser at once.

import { byId, clearErrors, download, element, keep, kept, post, say, showErrors } from "./common.js";

const MOST_ROWS = 200;
const GRADE = "decision: evidence grade";
const FREE = new Set(["test", "decision: owner", "decision: test again after"]); // changing them changes no figure
const table = byId("sheet");

export class SheetPart {
  constructor(record) {
    this.record = record;
    this.columns = [];
    this.group = kept("sheet-group", "");
    const state = kept("sheet", {});
    this.rows = Array.isArray(state.rows) ? state.rows : [];
    this.filled = Array.isArray(state.filled) ? state.filled : []; // runs whose rows are, or were, here
    this.undone = Array.isArray(state.undone) ? state.undone : [];
    this.next = this.rows.reduce((most, row) => Math.max(most, row.id), 0) + 1;
    this.run = null;
    this.listen();
  }

  listen() {
    byId("sheet-add").addEventListener("click", () => {
      const row = this.add({ cells: { test: `test ${this.rows.length + 1}`, [GRADE]: "transcribed" } });
      if (row) this.focus(row, "test");
    });
    byId("sheet-undo").addEventListener("click", () => this.undo());
    byId("sheet-fill").addEventListener("click", () => this.fill());
    byId("sheet-csv").addEventListener("click", () => this.save("worksheet/csv", "text/csv"));
    byId("sheet-markdown").addEventListener("click", () => this.save("worksheet/markdown", "text/markdown"));
    table.addEventListener("input", (event) => this.typed(event.target));
    table.addEventListener("keydown", (event) => this.key(event));
    table.addEventListener("paste", (event) => this.paste(event));
    table.addEventListener("click", (event) => this.click(event.target.closest("button")));
  }

  // --- rows ------------------------------------------------------------------------------------------------------

  start(columns, run) {
    this.columns = columns;
    this.setRun(run);
    const names = [...new Set(columns.map((column) => column.group))];
    if (![...names, "all"].includes(this.group)) this.group = names[0];
    byId("sheet-groups").replaceChildren(
      ...[...names, "all"].map((name) => {
        const button = element("button", { type: "button", textContent: name === "all" ? "All columns" : name[0].toUpperCase() + name.slice(1) });
        button.dataset.group = name;
        button.addEventListener("click", () => this.choose(name));
        return button;
      }),
    );
    this.draw();
  }

  setRun(run) {
    this.run = run;
    byId("sheet-fill").hidden = !run?.worksheet.length;
    if (run?.worksheet.length && !this.filled.includes(run.run_id)) this.fill();
  }

  // The rows of the run anew; those that somebody changed are no longer the run's, and stay.
  fill() {
    const fresh = this.run.worksheet.map((cells) => ({ id: this.next++, origin: "run", run: this.run.run_id, cells: { ...cells } }));
    for (const row of fresh) delete row.cells.run;
    const others = this.rows.filter((row) => !(row.origin === "run" && row.run === this.run.run_id));
    this.rows = [...others, ...fresh].slice(0, MOST_ROWS);
    this.filled = [...this.filled.filter((id) => id !== this.run.run_id), this.run.run_id].slice(-50);
    this.keepAndDraw();
    say(`The worksheet holds the ${fresh.length === 1 ? "1 row" : `${fresh.length} rows`} of run ${this.run.run_id}.`);
  }

  add({ cells, at = this.rows.length }) {
    if (this.rows.length >= MOST_ROWS) {
      say(`A worksheet has at most ${MOST_ROWS} rows.`);
      return null;
    }
    const row = { id: this.next++, origin: "typed", run: "", cells };
    this.rows.splice(at, 0, row);
    this.keepAndDraw();
    return row;
  }

  addRecord(fields) {
    const cells = { test: fields.evidence_stage ?? fields.test_id ?? `test ${this.rows.length + 1}`, [GRADE]: "transcribed" };
    for (const { key, field } of this.columns) if (field && fields[field]) cells[key] = fields[field];
    cells[GRADE] = "transcribed";
    if (!this.add({ cells })) return;
    location.hash = "#worksheet";
    say(`Row ${this.rows.length} holds the record.`);
  }

  remember(change) {
    this.undone = [...this.undone, change].slice(-20);
  }

  undo() {
    const change = this.undone.pop();
    if (!change) return;
    if (change.what === "delete") {
      this.rows.splice(change.at, 0, change.row);
    } else {
      const added = new Set(change.added);
      this.rows = this.rows.filter((row) => !added.has(row.id));
      for (const { id, ...was } of change.were) Object.assign(this.rows.find((row) => row.id === id) ?? {}, was);
    }
    this.keepAndDraw();
    say(`The ${change.what} was undone.`);
    if (change.what === "delete") this.focus(change.row, "test");
  }

  keepNow() {
    keep("sheet", { rows: this.rows, filled: this.filled, undone: this.undone });
  }

  keepAndDraw() {
    this.keepNow();
    this.draw();
  }

  // A figure that somebody typed was not measured by the run.
  set(row, key, text) {
    if (text.trim() === "") delete row.cells[key];
    else row.cells[key] = text;
    if (row.origin === "run" && !FREE.has(key)) {
      row.origin = "typed";
      row.cells[GRADE] = "transcribed";
      say(`Row ${this.rows.indexOf(row) + 1} was changed by hand: its grade is transcribed now.`);
      return true;
    }
    return false;
  }

  // --- the table -------------------------------------------------------------------------------------------------

  get shown() {
    return this.columns.filter((column) => this.group === "all" || column.group === this.group);
  }

  choose(group) {
    this.group = group;
    keep("sheet-group", group);
    this.draw();
    byId("sheet-scroll").scrollLeft = 0;
  }

  draw() {
    for (const button of byId("sheet-groups").children) button.setAttribute("aria-pressed", String(button.dataset.group === this.group));
    const undo = byId("sheet-undo");
    undo.disabled = this.undone.length === 0;
    undo.textContent = this.undone.length ? `Undo ${this.undone.at(-1).what}` : "Undo";
    const head = element("tr", {}, element("th", { scope: "col", className: "test", textContent: "Test" }));
    for (const column of this.shown) {
      const name = element("th", { scope: "col", className: column.unit ? "number" : "" }, column.name);
      if (column.unit) name.append(element("br"), element("span", { className: "unit", textContent: `[${column.unit}]` }));
      head.append(name);
    }
    const body = this.rows.map((row, place) => this.line(row, place));
    if (!body.length) body.push(element("tr", {}, element("td", { colSpan: this.shown.length + 1, className: "soft", textContent: "No row yet: add one, paste into it, or run a test." })));
    table.replaceChildren(element("caption", { className: "visually-hidden", textContent: "Worksheet" }), element("thead", {}, head), element("tbody", {}, ...body));
  }

  line(row, place) {
    const name = row.cells.test || `row ${place + 1}`;
    const button = (what, label) => {
      const made = element("button", { type: "button", textContent: what, ariaLabel: `${label}: ${name}` });
      made.dataset.what = what;
      made.dataset.row = row.id;
      return made;
    };
    const from = row.origin === "run" ? `of run ${row.run}` : row.run ? `of run ${row.run}, changed by hand` : "typed by hand";
    const first = element(
      "th",
      { scope: "row", className: "test" },
      this.cell(row, place, "test", "Test"),
      element("span", { className: "from", textContent: from, title: from }),
      element("div", { className: "row-bar" }, button("Copy", "Copy the row"), button("Record", "Open as a record"), button("Delete", "Delete the row")),
    );
    const made = element("tr", {}, first);
    for (const column of this.shown) {
      made.append(element("td", { className: column.unit ? "number" : "" }, this.cell(row, place, column.key, `${column.name}${column.unit ? ` [${column.unit}]` : ""}`)));
    }
    return made;
  }

  cell(row, place, key, label) {
    const input = element("input", { value: row.cells[key] ?? "", ariaLabel: `Row ${place + 1}, ${label}`, autocomplete: "off", spellcheck: false });
    input.dataset.row = row.id;
    input.dataset.key = key;
    return input;
  }

  rowOf(input) {
    return this.rows.find((row) => row.id === Number(input.dataset.row));
  }

  input(row, key) {
    return table.querySelector(`input[data-row="${row.id}"][data-key="${CSS.escape(key)}"]`);
  }

  focus(row, key) {
    const column = this.columns.find((one) => one.key === key);
    if (column && !this.shown.includes(column)) this.choose(column.group);
    const input = this.input(row, key);
    input?.focus();
    input?.select();
  }

  typed(input) {
    const row = this.rowOf(input);
    if (!row) return;
    input.removeAttribute("aria-invalid");
    if (this.set(row, input.dataset.key, input.value)) {
      const grade = this.input(row, GRADE);
      if (grade) grade.value = "transcribed";
      input.closest("tr").querySelector(".from").textContent = `of run ${row.run}, changed by hand`;
    }
    this.keepNow();
  }

  key(event) {
    const step = { Enter: event.shiftKey ? -1 : 1, ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.target.tagName !== "INPUT" || event.isComposing) return;
    const to = this.rows[this.rows.indexOf(this.rowOf(event.target)) + step];
    event.preventDefault();
    if (to) this.focus(to, event.target.dataset.key);
  }

  click(button) {
    const row = button && this.rowOf(button);
    if (!row) return;
    const at = this.rows.indexOf(row);
    if (button.dataset.what === "Copy") {
      const copy = this.add({ cells: { ...row.cells, test: `${row.cells.test ?? ""} (copy)`.trim(), [GRADE]: "transcribed" }, at: at + 1 });
      if (!copy) return;
      this.focus(copy, "test");
      say(`Row ${at + 2} is a copy; its grade is transcribed.`);
    } else if (button.dataset.what === "Delete") {
      this.rows.splice(at, 1);
      this.remember({ what: "delete", row, at });
      this.keepAndDraw();
      byId("sheet-undo").focus();
      say(`Row ${at + 1}, ${row.cells.test ?? ""}, was deleted. Undo brings it back.`);
    } else {
      this.toRecord(row);
    }
  }

  toRecord(row) {
    const own = row.origin === "run" && this.run?.run_id === row.run && this.record.choose(row.cells.test);
    if (!own) {
      const fields = { evidence_stage: row.cells.test };
      for (const { key, field } of this.columns) if (field && field !== "evidence_grade" && row.cells[key]) fields[field] = row.cells[key];
      this.record.replaceTyped(fields);
      say("The row stands in the typed record; Undo brings back the one before. Name the test and when it was made.");
    }
    location.hash = "#record";
  }

  // --- paste and export ------------------------------------------------------------------------------------------

  paste(event) {
    const text = event.clipboardData.getData("text/plain");
    const input = event.target;
    if (input.tagName !== "INPUT" || !/[\t\n]/.test(text.replace(/\r?\n$/, ""))) return;
    event.preventDefault();
    let cells = spreadsheet(text);
    let keys = ["test", ...this.shown.map((column) => column.key)];
    keys = keys.slice(keys.indexOf(input.dataset.key));
    const all = new Set(["run", "test", ...this.columns.map((column) => column.key)]);
    if (cells.length > 1 && cells[0].length > 1 && cells[0].every((name) => all.has(name))) [keys, ...cells] = cells; // with the header of an export
    const first = this.rows.indexOf(this.rowOf(input));
    const change = { what: "paste", added: [], were: [] };
    let lost = 0;
    for (const [step, line] of cells.entries()) {
      let row = this.rows[first + step];
      if (!row && this.rows.length >= MOST_ROWS) {
        lost += line.length;
        continue;
      }
      if (row) change.were.push({ id: row.id, origin: row.origin, cells: { ...row.cells } });
      else {
        row = { id: this.next++, origin: "typed", run: "", cells: { test: `test ${this.rows.length + 1}`, [GRADE]: "transcribed" } };
        this.rows.push(row);
        change.added.push(row.id);
      }
      for (const [place, cell] of line.entries()) {
        if (place >= keys.length) lost += cell === "" ? 0 : 1;
        else if (keys[place] !== "run") this.set(row, keys[place], cell);
      }
    }
    this.remember(change);
    this.keepAndDraw();
    this.input(this.rows[first], input.dataset.key)?.focus();
    const many = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
    say(`Pasted ${many(cells.length, "row")} of ${many(cells[0]?.length ?? 0, "cell")}.${lost ? ` ${many(lost, "cell")} did not fit.` : ""}`);
  }

  async save(question, type) {
    say("Exporting ...");
    const rows = this.rows.map((row) => ({ ...row.cells, ...(row.run ? { run: row.run } : {}) }));
    const { ok, data } = await post(question, { rows });
    if (!ok) return showErrors("sheet", data, (name) => this.named(name));
    clearErrors("sheet");
    download(data.file, data.text, type);
    say(`${data.file} was made.`);
  }

  // `row 2, observations: TTFT P95 [ms]`
  named(name) {
    const [, place, key] = /^row (\d+), (.*)$/s.exec(name) ?? [];
    const row = this.rows[Number(place) - 1];
    if (!row) return null;
    return {
      label: `Row ${place}, ${key.replace(/^[^:]*: /, "")}`,
      focus: () => {
        this.focus(row, key);
        this.input(row, key)?.setAttribute("aria-invalid", "true");
      },
      mark: () => this.input(row, key)?.setAttribute("aria-invalid", "true"),
    };
  }
}

// Tab-separated cells as spreadsheets copy them: a cell with a tab, a line end or a quote stands in quotes.
function spreadsheet(text) {
  const found = [[]];
  const cell = /(?:"((?:[^"]|"")*)"|([^\t\n\r]*))(\t|\r?\n|\r|$)/gy;
  const whole = text.replace(/\r?\n$/, "");
  for (let match = cell.exec(whole); match; match = cell.exec(whole)) {
    found.at(-1).push((match[1]?.replaceAll('""', '"') ?? match[2]).replace(/\s+/g, " ").trim());
    if (match[3] === "") break;
    if (match[3] !== "\t") found.push([]);
  }
  return found;
}
