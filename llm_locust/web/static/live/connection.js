// Asks for the newest picture, once a second while there are answers.

const USUAL_MS = 1000;
const LARGE_MS = 2000; // after a large answer
const LARGE = 200_000;
const HIDDEN_MS = 10_000; // in a tab that nobody sees
const PATIENCE_MS = 10_000;
const RETRIES_MS = [1000, 2000, 4000, 8000, 15_000];

export class Connection {
  // query(): what to ask; answered(answer): a picture came; lost({since, retryMs, reason}): none did.
  constructor(url, { query, answered, lost }) {
    Object.assign(this, { url, query, answered, lost, failures: 0, timer: null, asking: null, since: null });
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.look();
    });
  }

  // Ask at once. An answer that is on its way is waited for: asked before something was done, it may not show it yet.
  async look() {
    clearTimeout(this.timer);
    if (this.asking) return;
    this.asking = true;
    let wait;
    try {
      const { answer, size } = await this.fetched();
      this.failures = 0;
      this.since = Date.now() / 1000;
      this.answered(answer);
      wait = size > LARGE ? LARGE_MS : USUAL_MS;
    } catch (error) {
      wait = RETRIES_MS[Math.min(this.failures, RETRIES_MS.length - 1)];
      this.failures += 1;
      this.lost({ since: this.since, retryMs: wait, reason: error });
    } finally {
      this.asking = false;
      this.timer = setTimeout(() => this.look(), document.hidden ? Math.max(wait ?? 0, HIDDEN_MS) : (wait ?? USUAL_MS));
    }
  }

  async fetched() {
    const response = await fetch(`${this.url}?${this.query()}`, {
      signal: AbortSignal.timeout(PATIENCE_MS),
      headers: { Accept: "application/json" },
    });
    const kind = response.headers.get("Content-Type") ?? "";
    const ours = kind.startsWith("application/json");
    if (response.redirected || response.status === 401 || response.status === 403 || (response.ok && !ours)) throw new LoggedOut();
    if (!response.ok) throw new Error(`status ${response.status}`);
    const text = await response.text();
    return { answer: JSON.parse(text), size: text.length };
  }
}

export class LoggedOut extends Error {}
