// The two ways to end a run, each asked for once more before it is done.

const WAYS = {
  drain: { title: "Stop after drain?", what: "Drain: nothing more is sent, what is in flight lands or meets its deadline. Then the run is judged.", confirm: "Stop after drain" },
  now: { title: "Stop now?", what: "Now: what is in flight is cancelled; every request keeps its row. Then the run is judged, as interrupted.", confirm: "Stop now" },
};
const byId = (id) => document.getElementById(id);

export class StopDialog {
  constructor(url, { done }) {
    Object.assign(this, { url, done, how: null, dialog: byId("stop-dialog") });
    for (const how of Object.keys(WAYS)) byId(`stop-${how}`).addEventListener("click", () => this.ask(how));
    byId("stop-cancel").addEventListener("click", () => this.dialog.close());
    byId("stop-confirm").addEventListener("click", () => this.post());
  }

  ask(how) {
    this.how = how;
    byId("stop-title").textContent = WAYS[how].title;
    byId("stop-what").textContent = WAYS[how].what;
    byId("stop-confirm").textContent = WAYS[how].confirm;
    byId("stop-error").textContent = "";
    this.dialog.showModal();
    byId("stop-cancel").focus();
  }

  async post() {
    const confirm = byId("stop-confirm");
    confirm.disabled = true;
    try {
      const response = await fetch(this.url, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ how: this.how }),
      });
      if (response.ok && !response.redirected) {
        this.dialog.close();
        this.done();
      } else {
        const answer = await response.json().catch(() => ({}));
        byId("stop-error").textContent = answer.reason ?? `not stopped: the server answered ${response.status}`;
      }
    } catch {
      byId("stop-error").textContent = "not stopped: the server does not answer";
    } finally {
      confirm.disabled = false;
    }
  }

  // Which buttons make sense now; a dialog about a run that has ended by itself closes.
  allow(run) {
    const running = run !== null && run.state === "running";
    byId("stop-drain").disabled = !running || run.stopping !== null;
    byId("stop-now").disabled = !running || run.stopping === "now";
    if (!running && this.dialog.open) this.dialog.close();
  }
}
