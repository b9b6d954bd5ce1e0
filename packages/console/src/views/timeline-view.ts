// The timeline of a request: stages, and the workers that each of them asked, over the time of the request.

import type { VNode } from "preact";
import { timelineLanes } from "../timeline.ts";
import { durationText } from "../words.ts";
import { h } from "./element.ts";

/** Empty if the router sent no timeline. */
export function timelineView(told: string | undefined): VNode | null {
  const lanes = timelineLanes(told);
  if (lanes.length === 0) return null;
  const whole = Math.max(0.001, ...lanes.map(({ toMs }) => toMs));
  const percent = (ms: number): string => `${(100 * ms) / whole}%`;
  const rows = lanes.map(({ name, isWorker, fromMs, toMs, fault }) =>
    h(
      "li",
      { class: isWorker ? "lane worker" : "lane" },
      h("span", { class: "lane-name" }, name),
      h(
        "span",
        { class: "lane-track", "aria-hidden": "true" },
        h("span", {
          class: fault === undefined ? "lane-bar" : "lane-bar left",
          style: { left: percent(fromMs), width: percent(Math.max(toMs - fromMs, whole / 200)) },
        }),
      ),
      h(
        "span",
        { class: "lane-time" },
        `${durationText(toMs - fromMs)} from ${durationText(fromMs)}`,
        fault === undefined ? "" : `, ${fault}`,
      ),
    ),
  );
  return h(
    "div",
    { class: "timeline" },
    h("h3", { id: "timeline-heading" }, `On the router, ${durationText(whole)}`),
    h("ol", { "aria-labelledby": "timeline-heading" }, ...rows),
  );
}
