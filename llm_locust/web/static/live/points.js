// The run over time: what the page has, joined with what came.

// The points that the page has now. Never changes what it is given: a paused chart still shows its own.
export function joined(own, news) {
  if (own === null || news.whole || own.step_s !== news.step_s || news.t.length === 0) {
    return news.whole || own === null ? news : own;
  }
  let kept = own.t.length;
  while (kept > 0 && own.t[kept - 1] >= news.t[0]) kept -= 1;
  const columns = {};
  for (const name of Object.keys(news.columns)) {
    columns[name] = (own.columns[name] ?? []).slice(0, kept).concat(news.columns[name]);
  }
  return { step_s: own.step_s, whole: true, t: own.t.slice(0, kept).concat(news.t), columns };
}

// From when on to ask: rows that reached the master late may still change the newest steps.
export const askedFrom = (own) => (own === null || own.t.length < 4 ? null : own.t[own.t.length - 3]);

export const hasValue = (values) => values !== undefined && values.some((value) => value !== null);
