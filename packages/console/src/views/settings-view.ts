// The limits and times in effect; those that an operator has set are highlighted.

import type { ClusterReport } from "@winnow/router";
import type { VNode } from "preact";
import { ageText, sizeText } from "../words.ts";
import { badge, h, section, table } from "./element.ts";

/** The router, with its settings folded. */
export function settingsView({ router }: ClusterReport): VNode {
  const changed = new Set(router.changedSettings);
  const entries = Object.entries(router.settings).toSorted(
    ([a], [b]) => Number(changed.has(b)) - Number(changed.has(a)) || (a < b ? -1 : 1),
  );
  const rows = entries.map(([name, value]) =>
    h(
      "tr",
      { key: name },
      h("th", { scope: "row" }, name, changed.has(name) ? [" ", badge("label", "set")] : null),
      h("td", {}, typeof value === "object" ? JSON.stringify(value) : String(value)),
    ),
  );
  const name = router.name === undefined ? "" : `${router.name} of the routers on this port: `;
  const about = `${name}Winnow ${router.version}, up ${ageText(router.uptimeMs)}, ${router.isReady ? "ready" : "not ready"}, routing generation ${router.routingGeneration}, ${sizeText(router.memory.residentBytes)} of memory`;
  return section(
    "settings",
    "This router",
    h("p", {}, about),
    h(
      "details",
      {},
      h(
        "summary",
        {},
        `Limits and times in effect: ${entries.length}, ${changed.size} of them set`,
      ),
      table("Limits and times in effect", ["Setting", "Value"], rows),
    ),
  );
}
