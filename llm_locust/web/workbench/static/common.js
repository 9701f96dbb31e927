// What every part of the workbench does: ask the server, keep what was typed, show what is wrong, hand over a file.

const bench = document.getElementById("bench");
const KEPT = "llm-locust-workbench/";

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

export function say(text) {
  byId("status").textContent = text;
}

// --- the server --------------------------------------------------------------------------------------------------

async function read(response) {
  try {
    return { ok: response.ok, data: await response.json() };
  } catch {
    return { ok: false, data: { request: "the answer could not be read: are you still logged in? Reload the page" } };
  }
}

async function answered(request) {
  try {
    return await read(await request());
  } catch {
    return { ok: false, data: { request: "Locust does not answer: is it still running?" } };
  }
}

export const opening = () => answered(() => fetch(`${bench.dataset.base}/opening`));

export function post(question, document_) {
  const body = JSON.stringify(document_);
  if (new Blob([body]).size > Number(bench.dataset.longest)) {
    return Promise.resolve({ ok: false, data: { request: "this is more than 1 MB: it cannot be sent" } });
  }
  const headers = { "Content-Type": "application/json" };
  return answered(() => fetch(`${bench.dataset.base}/${question}`, { method: "POST", headers, body }));
}

// --- what was typed ----------------------------------------------------------------------------------------------

export function keep(name, value) {
  try {
    localStorage.setItem(KEPT + name, JSON.stringify(value));
  } catch {
    const warning = byId("not-kept");
    warning.textContent = "This browser does not keep what you type here (its storage is full or switched off): export it before you leave.";
    warning.hidden = false;
  }
}

export function kept(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(KEPT + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keepForm(form, name) {
  for (const [field, text] of Object.entries(kept(name, {}))) {
    const input = form.elements.namedItem(field);
    if (input && typeof text === "string") input.value = text;
  }
  form.addEventListener("input", () => keep(name, typed(form)));
}

// The texts of a form by field; blank ones are left out: they are null.
export function typed(form) {
  const found = {};
  for (const input of form.elements) {
    if (input.name && input.value.trim() !== "") found[input.name] = input.value;
  }
  return found;
}

// --- what is wrong -----------------------------------------------------------------------------------------------

export function clearErrors(part) {
  const box = byId(`${part}-errors`);
  box.hidden = true;
  box.replaceChildren();
  for (const input of byId(`part-${box.dataset.part ?? part}`).querySelectorAll('[aria-invalid="true"]')) {
    input.removeAttribute("aria-invalid");
    const told = byId(`${input.id}-error`);
    if (told) told.hidden = true;
  }
}

// Mark the fields that are named, and list everything; `find` gives the input of a name and what it is called.
export function showErrors(part, wrong, find) {
  clearErrors(part);
  const list = element("ul");
  for (const [name, message] of Object.entries(wrong)) {
    const found = find(name);
    if (!found) {
      list.append(element("li", { textContent: name === "request" || name === "record" ? message : `${name}: ${message}` }));
      continue;
    }
    found.mark?.(message);
    const link = element("a", { href: "#", textContent: found.label });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      found.focus();
    });
    list.append(element("li", {}, link, `: ${message}`));
  }
  const box = byId(`${part}-errors`);
  const count = list.children.length;
  box.replaceChildren(element("strong", { textContent: count === 1 ? "This is to be mended:" : `${count} things are to be mended:` }), list);
  box.hidden = false;
  say("");
  box.focus({ preventScroll: false });
}

// The finder of showErrors for a form whose inputs are called `<part>-<field>`.
export const inForm = (part) => (name) => {
  const input = byId(`${part}-${name}`);
  if (!input) return null;
  return {
    label: input.closest(".field").querySelector("label").firstChild.textContent.trim(),
    focus() {
      const group = input.closest("details");
      if (group) group.open = true;
      input.closest(".field").hidden = false;
      input.focus();
    },
    mark(message) {
      input.setAttribute("aria-invalid", "true");
      const told = byId(`${input.id}-error`);
      told.textContent = message;
      told.hidden = false;
    },
  };
};

// --- files -------------------------------------------------------------------------------------------------------

export function download(name, text, type) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = element("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export async function chosenFile(input) {
  const file = input.files[0];
  input.value = ""; // so that choosing the same file again is noticed
  if (!file) return null;
  if (file.size > Number(bench.dataset.longest)) throw new Error(`${file.name} is larger than 1 MB`);
  return file.text();
}

export function lines(rows) {
  const body = element("tbody");
  for (const [name, ...texts] of rows) {
    const cells = texts.map((text, place) => element("td", { textContent: text, className: place === 0 && texts.length > 1 ? "figure" : "" }));
    body.append(element("tr", {}, element("th", { scope: "row", textContent: name }), ...cells));
  }
  return element("table", {}, body);
}
