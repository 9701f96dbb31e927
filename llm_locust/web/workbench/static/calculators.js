// Goodput from counts, and the KV preflight: a form each; every figure comes from the server.

import { byId, chosenFile, clearErrors, element, inForm, keep, keepForm, lines, post, say, showErrors, typed } from "./common.js";

function calculator(part, show) {
  const form = byId(`${part}-form`);
  keepForm(form, part);
  form.addEventListener("input", () => byId(`${part}-result`).replaceChildren()); // it is no longer the result of what stands there
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    say("Computing ...");
    const asked = JSON.stringify(typed(form));
    const { ok, data } = await post(part, typed(form));
    if (asked !== JSON.stringify(typed(form))) return say("");
    byId(`${part}-result`).replaceChildren();
    if (!ok) return showErrors(part, data, inForm(part));
    clearErrors(part);
    say("");
    byId(`${part}-result`).replaceChildren(...show(data));
  });
  return form;
}

export function startGoodput(record) {
  let last = null;
  const form = calculator("goodput", (found) => {
    last = found;
    return [element("p", { className: "soft", textContent: found.label }), lines(found.lines)];
  });
  form.addEventListener("input", () => (last = null));
  byId("goodput-to-record").addEventListener("click", async () => {
    if (!last) {
      const { ok, data } = await post("goodput", typed(form));
      if (!ok) return showErrors("goodput", data, inForm("goodput"));
      last = data;
    }
    const fields = {
      measured_requests: last.measured, successful_requests: last.successful, failed_requests: last.failed, good_requests: last.good,
      seconds: last.seconds, request_throughput_rps: last.request_throughput_rps, goodput_rps: last.goodput_rps,
      attainment: last.attainment, error_rate: last.error_rate,
    };
    record.fillTyped(Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, value === null ? "" : String(value)])));
    location.hash = "#record";
    say("The counts and what follows from them stand in the typed record.");
  });
}

export function startKv() {
  const form = calculator("kv", (found) => {
    const shown = [element("p", { className: "soft", textContent: found.label })];
    if (!found.available) shown.push(element("p", { className: "banner", textContent: "Unavailable: no formula holds for this model." }));
    return [...shown, lines(found.lines)];
  });
  byId("kv-file").addEventListener("change", async (event) => {
    try {
      const text = await chosenFile(event.target);
      if (text === null) return;
      form.elements.namedItem("config").value = text;
      keep("kv", typed(form));
      byId("kv-result").replaceChildren();
      say("The file is in the form.");
    } catch (error) {
      showErrors("kv", { config: error.message }, inForm("kv"));
    }
  });
}
