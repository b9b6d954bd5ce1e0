// What screen readers are told without being asked. Sentences that people see count seconds and percentages, and would be
// told again with each report; so what is told stands apart from them, and stays as it is while only such figures change.

import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { h } from "./element.ts";

/** Ages, durations and percentages, as `words.ts` and the router write them. */
const PASSING_FIGURES = /\d[\d.,]* ?(?:ms|s|min|h|d|%)(?![\p{L}\d])/gu;

/** A text for screen readers alone; `alert` interrupts, `status` waits. */
export interface AnnouncementProps {
  readonly role: "alert" | "status";
  readonly text: string;
}

/** The text as it was when more than passing figures last changed. */
export function Announcement({ role, text }: AnnouncementProps): VNode {
  const told = useRef(text);
  if (withoutFigures(text) !== withoutFigures(told.current)) told.current = text;
  return h("p", { role, class: "hidden" }, told.current);
}

function withoutFigures(text: string): string {
  return text.replaceAll(PASSING_FIGURES, "#");
}
