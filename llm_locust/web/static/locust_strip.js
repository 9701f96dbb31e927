// The strip above Locust's own page: how the run does, and where the rest is. It stands beside what Locust draws, never in it.
"use strict";
(() => {
  const { told, live, workbench, report } = document.currentScript.dataset;
  const BUSY_MS = 1000;
  const IDLE_MS = 3000;
  const BUSY = new Set(["starting", "running", "draining", "stopping", "judging"]);

  const make = (name, className, text = "") => {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  };
  const link = (url, text) => {
    const element = make("a", "", text);
    element.href = url;
    return element;
  };

  const strip = make("aside", "llm-strip");
  strip.setAttribute("aria-label", "LLM run");
  const state = make("span", "state", "LLM");
  const text = make("span", "text");
  text.setAttribute("role", "status");
  const synthetic = make("span", "synthetic", "synthetic engine: never performance");
  const links = document.createElement("nav");
  links.setAttribute("aria-label", "LLM pages");
  const reportLink = link(report, "Report");
  links.append(link(live, "Live charts, stop"), link(workbench, "Workbench"), reportLink);
  strip.append(state, text, synthetic, links);
  synthetic.hidden = reportLink.hidden = true;
  document.body.prepend(strip);

  // The start form's fields of this project stand in a section that is closed at first, though some must be filled in. Each
  // time the form is drawn, its section is opened once; whoever closes it, leaves it closed.
  const opened = new WeakSet();
  const open = () => {
    for (const head of document.querySelectorAll("form .MuiAccordionSummary-root")) {
      if (opened.has(head) || !head.textContent.includes("Custom parameters")) continue;
      opened.add(head);
      if (head.getAttribute("aria-expanded") === "false") head.click();
    }
  };
  new MutationObserver(open).observe(document.body, { childList: true, subtree: true });
  open();

  const show = (run) => {
    strip.dataset.state = run.state;
    state.textContent = run.state;
    if (text.textContent !== run.text) text.textContent = run.text;
    synthetic.hidden = !run.synthetic;
    reportLink.hidden = !run.report;
  };

  let since = null;
  const look = async () => {
    let wait = IDLE_MS;
    try {
      const answer = await fetch(told, { headers: { accept: "application/json" }, cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const run = await answer.json();
      since = null;
      show(run);
      if (BUSY.has(run.state)) wait = BUSY_MS;
    } catch {
      since = since ?? new Date();
      strip.dataset.state = "away";
      state.textContent = "no answer";
      text.textContent = `Locust does not answer since ${since.toLocaleTimeString()}`;
    }
    setTimeout(look, document.hidden ? 5 * wait : wait);
  };
  look();
})();
