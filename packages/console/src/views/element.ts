// How elements are made, and the small elements that all views share. Everything that comes from the cluster
// is passed as a child, and so becomes text: no view sets HTML.

import { h as make } from "preact";
import type { ComponentChildren, VNode } from "preact";

/** What an element may contain. */
export type Children = ComponentChildren;

/** An element. */
export function h(
  tag: string,
  properties: Readonly<Record<string, unknown>>,
  ...children: Children[]
): VNode {
  return make(tag, properties, ...children);
}

/** A component with its own state. */
export function use<Properties extends object>(
  component: (properties: Properties) => VNode,
  properties: Properties & { readonly key?: string },
): VNode {
  return make(component, properties) as VNode;
}

/** A section whose heading names it for screen readers. */
export function section(id: string, heading: string, ...children: Children[]): VNode {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-heading`, class: "panel" },
    h("h2", { id: `${id}-heading` }, heading),
    ...children,
  );
}

/** A word in colour; the word has the meaning without the colour, too. */
export function badge(tone: string, text: string): VNode {
  return h("span", { class: `badge ${tone}` }, text);
}

/** A fraction as a bar with a text. */
export function bar(fraction: number, text: string, tone = ""): VNode {
  const width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return h(
    "span",
    { class: `bar ${tone}` },
    h(
      "span",
      { class: "bar-track", "aria-hidden": "true" },
      h("span", { class: "bar-fill", style: { width } }),
    ),
    h("span", { class: "bar-text" }, text),
  );
}

/** A table that scrolls sideways if it does not fit. */
export function table(caption: string, head: readonly string[], rows: readonly VNode[]): VNode {
  return h(
    "div",
    { class: "scroll", tabIndex: 0, role: "group", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, ...head.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, ...rows),
    ),
  );
}

/** A text in place of an empty table. */
export function empty(text: string): VNode {
  return h("p", { class: "empty" }, text);
}
