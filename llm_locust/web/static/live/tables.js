// Tables that change in place: cells are reused, so that a selection, the focus and the place scrolled to stay.

// Columns: {head, unit, number, cell(row) -> text or {text, badge, over, title, press, pressed, bar, tone}}.
export class Table {
  constructor(id, columns, { empty }) {
    this.element = document.getElementById(id);
    this.columns = columns;
    this.empty = empty;
    const row = this.element.tHead.insertRow();
    for (const column of columns) {
      const head = document.createElement("th");
      head.scope = "col";
      head.textContent = column.head;
      if (column.number) head.className = "number";
      if (column.unit) head.append(span("unit", column.unit));
      row.append(head);
    }
  }

  show(rows, current = () => false) {
    const body = this.element.tBodies[0];
    if (rows.length === 0) {
      this.element.tHead.hidden = true;
      if (body.rows.length !== 1 || !body.rows[0].hasAttribute("data-empty")) {
        const row = document.createElement("tr");
        row.setAttribute("data-empty", "");
        row.insertCell().textContent = this.empty;
        body.replaceChildren(row);
      }
      return;
    }
    this.element.tHead.hidden = false;
    body.querySelector("tr[data-empty]")?.remove();
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, place) => {
      const line = body.rows[place] ?? body.insertRow();
      line.classList.toggle("current", current(row, place));
      this.columns.forEach((column, at) => fill(line.cells[at] ?? line.insertCell(), column, column.cell(row, place)));
    });
  }
}

function fill(cell, column, content) {
  const of = typeof content === "object" && content !== null ? content : { text: content };
  const kind = [column.number ? "number" : "", column.wide ? "wide" : "", of.over ? "over" : ""].filter(Boolean).join(" ");
  if (cell.className !== kind) cell.className = kind;
  if (of.title !== undefined && cell.title !== of.title) cell.title = of.title;
  if (of.press) return pressable(cell, of);
  if (of.badge !== undefined) return badge(cell, of);
  if (of.bar !== undefined) return bar(cell, of);
  if (cell.firstElementChild || cell.textContent !== of.text) cell.textContent = of.text;
}

function pressable(cell, { text, press }) {
  let button = cell.firstElementChild;
  if (button?.tagName !== "BUTTON") {
    button = document.createElement("button");
    button.type = "button";
    button.className = "link";
    cell.replaceChildren(button);
  }
  button.onclick = press;
  if (button.textContent !== text) button.textContent = text;
}

function badge(cell, { text, badge: tone }) {
  let mark = cell.firstElementChild;
  if (!mark?.classList.contains("badge")) {
    mark = span("badge", "");
    cell.replaceChildren(mark);
  }
  mark.className = `badge ${tone}`;
  if (mark.textContent !== text) mark.textContent = text;
}

function bar(cell, { bar: share, tone }) {
  let mark = cell.firstElementChild;
  if (!mark?.classList.contains("bar")) {
    mark = span("bar", "");
    mark.append(document.createElement("i"));
    cell.replaceChildren(mark);
  }
  mark.className = `bar ${tone}`;
  mark.firstElementChild.style.width = `${100 * share}%`;
}

export function span(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  return element;
}
