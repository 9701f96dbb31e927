// What is drawn: one line a chart. Names of columns are those of the live picture's series.

const percentiles = (of, ...names) => names.map((name, at) => line(`${of}_${name}_ms`, name.toUpperCase(), ["s1", "s2", "s4"][at]));

function line(column, label, colour, dash = false) {
  return { column, label, colour, dash };
}

export const SECTIONS = [
  {
    title: "Load and goodput",
    charts: [
      { name: "requests", title: "Requests", unit: "req/s", missing: "nothing was sent yet", lines: [line("planned_rps", "planned", "muted", true), line("sent_rps", "sent", "s1"), line("completed_rps", "completed", "s3")] },
      { name: "goodput", title: "Goodput against offered", unit: "req/s", missing: "nothing was sent yet", lines: [line("planned_rps", "offered", "muted", true), line("ok_rps", "ok", "s1"), line("good_rps", "good", "pass")] },
      { name: "ladder", ladder: true },
      { name: "in-flight", title: "In flight", unit: "requests", missing: "nothing was sent yet", lines: [line("in_flight", "in flight", "s1"), line("waiting", "held back by the cap", "s2")] },
      { name: "failures", title: "Outcomes that are not ok", unit: "req/s", missing: "nothing has ended yet", lines: [line("failed_rps", "all", "fail"), line("rejected_rps", "rejected", "s2"), line("timeout_rps", "timeout", "s4")] },
      { name: "tokens", title: "Output tokens", unit: "tokens/s", missing: "no output was counted", lines: [line("output_tokens_tps", "output", "s3")] },
    ],
  },
  {
    title: "Latency",
    wide: true,
    charts: [
      { name: "ttft", title: "TTFT: time to first token", unit: "ms", limit: "ttft", missing: "no request is ok yet", lines: percentiles("ttft", "p50", "p95", "p99") },
      { name: "tpot", title: "TPOT: time per output token", unit: "ms", limit: "tpot", missing: "no reply of two tokens is ok yet", lines: percentiles("tpot", "p50", "p95", "p99") },
      { name: "e2e", title: "E2E: until the reply is complete", unit: "ms", limit: "e2e", missing: "no request is ok yet", lines: percentiles("e2e", "p50", "p95") },
      { name: "itl", title: "ITL: gap between output events", unit: "ms", missing: "gaps are not kept", lines: [line("itl_p95_ms", "P95", "s2")] },
    ],
  },
  {
    title: "Server and GPU",
    charts: [
      { name: "server-requests", title: "Requests in the server", unit: "requests", missing: "no metrics page was read", lines: [line("server_running", "running", "s1"), line("server_waiting", "waiting", "s2")] },
      { name: "server-kv", title: "KV cache in use", unit: "% of blocks", top: 100, missing: "the server shows no KV usage", lines: [line("server_kv_usage_pct", "usage", "s5")] },
      { name: "server-queue", title: "Queue time in the server", unit: "ms", missing: "the server shows no queue time", lines: [line("server_queue_p95_ms", "P95, upper bound", "s2")] },
      { name: "gpu", title: "GPU utilisation", unit: "%", top: 100, missing: "no GPU was sampled", lines: [line("gpu_utilisation_pct", "utilisation", "s3")] },
      { name: "gpu-memory", title: "GPU memory in use", unit: "GB", missing: "no GPU was sampled", lines: [line("gpu_memory_gb", "memory", "s5")] },
    ],
  },
  {
    title: "Load generator",
    charts: [
      { name: "lag", title: "Dispatch lag and client wait", unit: "ms", limit: "lag", missing: "nothing was sent yet", lines: [line("dispatch_lag_p99_ms", "lag P99", "s1"), line("client_wait_p95_ms", "wait P95", "s2")] },
      { name: "worker-cpu", title: "CPU of the busiest worker", unit: "% of a core", top: 100, missing: "no worker has reported", lines: [line("worker_cpu_pct_max", "CPU", "s1")] },
      { name: "worker-loop", title: "Event loop lag of the slowest worker", unit: "ms", missing: "no worker has reported", lines: [line("worker_loop_lag_ms_max", "loop lag", "s4")] },
    ],
  },
];
