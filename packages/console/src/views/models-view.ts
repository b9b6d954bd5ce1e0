// Models with their versions: which one answers, the progress of the next one, which workers it waits for,
// why one failed.

import type { ClusterReport, ModelReport, VersionReport } from "@winnow/router";
import type { VNode } from "preact";
import { percentText } from "../words.ts";
import type { RouterClient } from "../router-client.ts";
import { CompositionView } from "./composition-view.ts";
import { badge, bar, empty, h, section, table, use } from "./element.ts";

/** The table of versions. */
export function modelsView({ models }: ClusterReport, client: RouterClient): VNode {
  if (models.length === 0)
    return section("models", "Models and versions", empty("No model is known."));
  const head = ["Model", "Version", "State", "Partitions", "Loaded", "What there is to know"];
  const rows = models.flatMap((model) =>
    model.versions.length === 0
      ? [
          h(
            "tr",
            { key: model.name },
            h("th", { scope: "row" }, model.name),
            h("td", { colSpan: 5 }, "no version"),
          ),
        ]
      : [
          ...model.versions.map((version, position) => versionRow(model, version, position === 0)),
          ...compositionRow(model, client),
        ],
  );
  return section("models", "Models and versions", table("Models and versions", head, rows));
}

function versionRow(model: ModelReport, version: VersionReport, isFirst: boolean): VNode {
  const { rollout, partitions, isOver } = version;
  const all = partitions.covered + partitions.underreplicated + partitions.lost;
  const isFailed =
    rollout.failedOn.length > 0 || (version.state === "END" && version.error !== undefined);
  const labels = Object.entries(model.labels).filter(([, number]) => number === version.version);
  return h(
    "tr",
    { key: `${model.name}/${version.version}`, class: isOver ? "over" : "" },
    h("th", { scope: "row" }, isFirst ? model.name : h("span", { class: "hidden" }, model.name)),
    h("td", { class: "number" }, String(version.version)),
    h(
      "td",
      {},
      stateBadge(version, isFailed),
      version.isDefault ? [" ", badge("ok", "default")] : null,
      ...labels.flatMap(([label]) => [" ", badge("label", label)]),
    ),
    h("td", {}, isOver || all === 0 ? "–" : partitionsText(version, all)),
    h(
      "td",
      {},
      isOver || version.state === "UNLOADING"
        ? "–"
        : bar(rollout.progress, percentText(rollout.progress), isFailed ? "down" : ""),
    ),
    h("td", { class: "reason" }, reasonText(version)),
  );
}

/** Only a model without tables may ask other models. */
function compositionRow({ name, versions, defaultVersion }: ModelReport, client: RouterClient) {
  const chosen = versions.find(({ isDefault }) => isDefault);
  if (chosen === undefined || chosen.tables.length > 0 || chosen.state !== "AVAILABLE") return [];
  const drawn = use(CompositionView, { client, model: name, version: defaultVersion });
  return [h("tr", { key: `${name} composed`, class: "composed" }, h("td", { colSpan: 6 }, drawn))];
}

function stateBadge({ state, isOver }: VersionReport, isFailed: boolean): VNode {
  if (isOver) return badge("news", "unloaded");
  if (isFailed) return badge("down", "failed");
  return badge(state === "AVAILABLE" ? "ok" : "news", state.toLowerCase());
}

function partitionsText({ partitions, replicasIntended }: VersionReport, all: number): string {
  const { underreplicated, lost } = partitions;
  if (lost > 0) return `${lost} of ${all} lost`;
  if (underreplicated > 0) return `${underreplicated} of ${all} lack replicas`;
  return `${all}, ${replicasIntended} ${replicasIntended === 1 ? "replica" : "replicas"} each`;
}

function reasonText({ rollout, error, conflicts, isOver, state }: VersionReport): string {
  const parts = [
    ...(rollout.failedOn.length > 0 ? [`failed on ${rollout.failedOn.join(", ")}`] : []),
    ...(error === undefined ? [] : [`${error.code}: ${error.message}`]),
    ...(rollout.waitingFor.length > 0 && !isOver && state !== "UNLOADING"
      ? [`waits for ${rollout.waitingFor.join(", ")}`]
      : []),
    ...conflicts,
  ];
  return parts.join("; ");
}
