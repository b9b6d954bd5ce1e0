// The health sentence, what to do, and all other findings.

import type { ClusterReport, Finding, Severity } from "@winnow/router";
import type { VNode } from "preact";
import { badge, h } from "./element.ts";

const WORDS: Readonly<Record<Severity, string>> = { ok: "OK", degraded: "Degraded", down: "Down" };

/** What is wrong above all, or that all is well. */
export function healthSentence({ health }: ClusterReport): string {
  const { severity, findings, sentence } = health;
  return severity === "ok" ? sentence : (findings[0]?.text ?? sentence);
}

/** The state of the cluster in words. */
export function healthView(report: ClusterReport): VNode {
  const { health } = report;
  const { severity, findings } = health;
  const told = severity === "ok" ? findings : findings.slice(1);
  return h(
    "section",
    { id: "health", class: `health ${severity}`, "aria-labelledby": "health-sentence" },
    h(
      "p",
      { id: "health-sentence", class: "sentence" },
      badge(severity, WORDS[severity]),
      " ",
      healthSentence(report),
    ),
    health.remedy === "" ? null : h("p", { class: "remedy" }, health.remedy),
    told.length === 0 ? null : h("ul", { class: "findings" }, ...told.map(findingView)),
  );
}

function findingView({ severity, text, remedy }: Finding): VNode {
  const word = severity === "ok" ? "news" : WORDS[severity].toLowerCase();
  return h(
    "li",
    {},
    badge(severity, word),
    " ",
    text,
    remedy === "" ? null : h("span", { class: "remedy" }, ` — ${remedy}`),
  );
}
