// How elements are made, and the small elements that all views share. Everything that comes from
// the cluster is handed over as a child, and so becomes text: no view sets HTML.

import { h as make } from "preact";
import type { ComponentChildren, VNode } from "preact";

/** What may stand in an element. */
export type Children = ComponentChildren;

/** An element. */
export function h(
  tag: string,
  properties: Readonly<Record<string, unknown>>,
  ...children: Children[]
): VNode {
  return make(tag, properties, ...children);
}

/** A component with a state of its own. */
export function use<Properties extends object>(
  component: (properties: Properties) => VNode,
  properties: Properties & { readonly key?: string },
): VNode {
  return make(component, properties) as VNode;
}

/** A section with a heading, which names it for screen readers. */
export function section(id: string, heading: string, ...children: Children[]): VNode {
  return h(
    "section",
    { id, "aria-labelledby": `${id}-heading`, class: "panel" },
    h("h2", { id: `${id}-heading` }, heading),
    ...children,
  );
}

/** A word in a colour of its own; the word says it without the colour. */
export function badge(tone: string, text: string): VNode {
  return h("span", { class: `badge ${tone}` }, text);
}

/** A fraction as a bar, with its words. */
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

/** A table that scrolls sideways where it has no room. */
export function table(caption: string, head: readonly string[], rows: readonly VNode[]): VNode {
  return h(
    "div",
    { class: "scroll", tabIndex: 0, role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, ...head.map((each) => h("th", { scope: "col" }, each)))),
      h("tbody", {}, ...rows),
    ),
  );
}

/** What stands where there is nothing to show. */
export function empty(text: string): VNode {
  return h("p", { class: "empty" }, text);
}
