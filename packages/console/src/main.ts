// The start of the page: asks the router once a second while the page is visible, and draws its report.

import { render } from "preact";
import { use } from "./views/element.ts";
import { Page, UNREADABLE } from "./app.ts";
import type { PageState } from "./app.ts";
import { withReport } from "./history.ts";
import { RouterClient } from "./router-client.ts";

const ASK_MS = 1000;

const client = new RouterClient({
  fetch: (path, init) => fetch(path, init),
  nowMs: () => performance.now(),
  timeout: (ms) => AbortSignal.timeout(ms),
  storage: sessionStorage,
});
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.querySelector("#root")!;
let state: PageState = { kind: "loading" };
let answeredAtMs = performance.now();
let timer: ReturnType<typeof setTimeout> | undefined;
let isAsking = false;

async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function onKey(key: string): void {
  client.setKey(key);
  state = { kind: "loading" };
  draw();
  void ask();
}

function draw(): void {
  const { origin } = location;
  render(use(Page, { state, client, origin, isDark: dark.matches, copy, onKey }), root);
}

async function next(): Promise<PageState> {
  const answer = await client.report();
  switch (answer.kind) {
    case "answered": {
      const before = state.kind === "shown" ? state.samples : [];
      const samples = withReport(before, answer.value, Date.now() / 1000);
      return { kind: "shown", report: answer.value, samples, silent: undefined };
    }
    case "refused":
      return { kind: "login", message: answer.message, wasTried: client.hasKey };
    case "failed":
    case "silent":
      return silentAfter(state, answer.message);
  }
}

/** Keeps the last report. */
function silentAfter(before: PageState, message: string): PageState {
  if (before.kind !== "shown") return { kind: "silent", message };
  return { ...before, silent: { sinceMs: performance.now() - answeredAtMs, message } };
}

async function ask(): Promise<void> {
  clearTimeout(timer);
  if (isAsking) return;
  isAsking = true;
  const before = state;
  try {
    state = await next();
    draw();
    if (state.kind === "shown" && state.silent === undefined) answeredAtMs = performance.now();
  } catch {
    // The report of another release than the page's, or a proxy's answer: without a word, the last report would look like the state.
    state = silentAfter(before, UNREADABLE);
    draw();
  }
  isAsking = false;
  // A login waits for a key; a hidden page waits until it is shown.
  if (state.kind !== "login" && !document.hidden) timer = setTimeout(() => void ask(), ASK_MS);
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && state.kind !== "login") void ask();
});
dark.addEventListener("change", draw);
draw();
void ask();
