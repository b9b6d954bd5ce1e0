// The latest events, and the slowest requests.

import type { ClusterReport } from "@winnow/router";
import type { VNode } from "preact";
import { ageText, durationText } from "../words.ts";
import { badge, empty, h, section, table } from "./element.ts";

const EVENTS_SHOWN = 50;

/** Events, newest first. */
export function eventsView({ events }: ClusterReport): VNode {
  if (events.length === 0) {
    return section(
      "events",
      "Events",
      empty("Nothing has happened since this router was started."),
    );
  }
  const items = events
    .slice(0, EVENTS_SHOWN)
    .map(({ agoMs, severity, text }) =>
      h(
        "li",
        {},
        h("span", { class: "when" }, `${ageText(agoMs)} ago`),
        severity === "ok" ? null : badge(severity, severity),
        h("span", {}, text),
      ),
    );
  return section("events", "Events", h("ol", { class: "events" }, ...items));
}

/** The slowest requests of five minutes, with the time of each stage. */
export function slowRequestsView({ slowRequests }: ClusterReport): VNode {
  const heading = "Slowest requests of five minutes";
  if (slowRequests.length === 0) return section("slow", heading, empty("There was no request."));
  const slowest = slowRequests[0]!.elapsedMs;
  const rows = slowRequests.map((slow) =>
    h(
      "tr",
      {},
      h("td", { class: "number" }, durationText(slow.elapsedMs)),
      h("td", {}, stagesBar(slow.elapsedMs / slowest, slow.stages, slow.elapsedMs)),
      h("td", {}, slow.version === undefined ? slow.model : `${slow.model}/${slow.version}`),
      h("td", {}, slow.code === "OK" ? "OK" : badge("down", slow.code)),
      h("td", { class: "number" }, String(slow.instances)),
      h("td", { class: "number" }, `${ageText(slow.agoMs)} ago`),
      h("td", { class: "id" }, slow.requestId ?? ""),
    ),
  );
  const head = ["Time", "Stages", "Model", "Code", "Instances", "When", "Request"];
  return section("slow", heading, table(heading, head, rows));
}

function stagesBar(
  fraction: number,
  stages: Readonly<Record<string, number>>,
  elapsedMs: number,
): VNode {
  const entries = Object.entries(stages);
  const sum = Math.max(
    elapsedMs,
    entries.reduce((all, [, ms]) => all + ms, 0),
    0.001,
  );
  const text = entries.map(([stage, ms]) => `${stage} ${durationText(ms)}`).join(", ");
  const parts = entries.map(([stage, ms]) =>
    h("span", { class: `stage ${stage}`, style: { width: `${(ms / sum) * 100}%` } }),
  );
  return h(
    "span",
    { class: "stages" },
    h(
      "span",
      {
        class: "stage-track",
        "aria-hidden": "true",
        style: { width: `${Math.max(0.04, fraction) * 8}rem` },
      },
      ...parts,
    ),
    h("span", { class: "beside" }, text === "" ? "no stage was reached" : text),
  );
}
