// Workers, and which partitions each of them serves: a row for each worker, a cell for each partition.

import type { ClusterReport, ModelReport, VersionReport, WorkerReport } from "@winnow/router";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ageText, countText, durationText, sizeText } from "../words.ts";
import { badge, bar, empty, h, section, table, use } from "./element.ts";

const TONES: Readonly<Record<WorkerReport["condition"], string>> = {
  ready: "ok",
  starting: "news",
  suspect: "degraded",
  draining: "news",
  unreachable: "down",
};

/** The table of workers. */
export function workersView({ workers }: ClusterReport): VNode {
  if (workers.length === 0) return section("workers", "Workers", empty("No worker is known."));
  const busiest = Math.max(1, ...workers.map(({ queueRows, questions }) => queueRows + questions));
  const head = [
    "Worker",
    "State",
    "Memory",
    "Load",
    "Usual answer",
    "Heard",
    "Replicas",
    "Accelerator",
  ];
  const rows = workers.map((worker) => workerRow(worker, busiest));
  return section("workers", "Workers", table("Workers", head, rows));
}

function workerRow(worker: WorkerReport, busiest: number): VNode {
  const {
    condition,
    latency,
    isStraggler,
    memoryUsedBytes: used,
    memoryCapacityBytes: most,
  } = worker;
  const load = worker.queueRows + worker.questions;
  const memory = most === 0 ? "–" : `${sizeText(used)} of ${sizeText(most)}`;
  return h(
    "tr",
    { key: worker.id, class: isStraggler ? "straggler" : condition },
    h("th", { scope: "row" }, worker.id, h("span", { class: "beside" }, worker.address)),
    h(
      "td",
      {},
      badge(TONES[condition], condition),
      isStraggler ? [" ", badge("degraded", "slow")] : null,
    ),
    h("td", {}, bar(most === 0 ? 0 : used / most, memory, used > 0.9 * most ? "degraded" : "")),
    h("td", {}, bar(load / busiest, `${worker.questions} asked, ${worker.queueRows} queued`)),
    h(
      "td",
      { class: "number" },
      latency === undefined
        ? "–"
        : [
            durationText(latency.p50Ms),
            h("span", { class: "beside" }, `p99 ${durationText(latency.p99Ms)}`),
          ],
    ),
    h(
      "td",
      { class: "number" },
      worker.heardAgoMs === undefined ? "never" : `${ageText(worker.heardAgoMs)} ago`,
    ),
    h("td", { class: "number" }, countText(worker.replicas)),
    h("td", { class: "device" }, worker.accelerator, h("span", { class: "beside" }, worker.device)),
  );
}

/** Most cells of a map; a table with more partitions is described in words. */
const CELLS_MAX = 8192;

/** Partitions up to which the rows of several workers stand beside each other. */
const NARROW_PARTITIONS_MAX = 4;

/** The kinds of cells, by their class, and what each says. */
const LEGEND: readonly (readonly [string, string])[] = [
  ["cell held", "held"],
  ["cell held few", "held, too few replicas"],
  ["cell", "not here"],
  ["cell lost", "held by nobody"],
];

const ENDING: ReadonlySet<string> = new Set(["UNLOADING", "END"]);

/** Versions up to which all maps are open. */
const OPEN_MAPS_MAX = 4;
/** Cells of all maps that are open by themselves: a browser takes seconds for a hundred thousand. */
const OPEN_CELLS_MAX = 4 * CELLS_MAX;

/** A version, and where its map is drawn. */
interface MapProps {
  readonly workers: readonly WorkerReport[];
  readonly model: ModelReport;
  readonly version: VersionReport;
}

/**
 * A map for each version that is the default, or is about to become it. Of many, those that are whole are folded, and of
 * large ones those beyond `OPEN_CELLS_MAX`.
 */
export function partitionsView(report: ClusterReport): VNode {
  const shown = report.models.flatMap((model) =>
    model.versions
      .filter(({ isOver, state, tables }) => !isOver && !ENDING.has(state) && tables.length > 0)
      .map((version) => ({ model, version })),
  );
  let cells = 0;
  const maps = shown.map(({ model, version }) => {
    const map = { workers: report.workers, model, version };
    const mayFold = shown.length > OPEN_MAPS_MAX;
    const wanted = !mayFold || !isWhole(version) || !version.isDefault;
    if (wanted) cells += cellsOf(map);
    const isOpen = wanted && cells <= OPEN_CELLS_MAX;
    if (isOpen && !mayFold) return openMap(map);
    return use(FoldedMap, { ...map, isOpen, key: mapName(model, version) });
  });
  if (maps.length === 0) {
    return section("partitions", "Partitions", empty("No version with tables is loaded."));
  }
  return section(
    "partitions",
    "Partitions",
    h(
      "p",
      { class: "legend", "aria-hidden": "true" },
      ...LEGEND.flatMap(([cell, text]) => [
        h("span", {}, h("i", { class: cell }), ` ${text}`),
        " ",
      ]),
    ),
    ...maps,
  );
}

function isWhole({ partitions }: VersionReport): boolean {
  return partitions.underreplicated + partitions.lost === 0;
}

function cellsOf({ workers, version }: MapProps): number {
  let cells = 0;
  for (const { replicas } of version.tables) {
    if (hasMap(replicas, workers)) cells += replicas.length * workers.length;
  }
  return cells;
}

function openMap(props: MapProps): VNode {
  const { model, version } = props;
  return h(
    "div",
    { key: mapName(model, version), class: "map" },
    mapHeading(model, version),
    ...tableMaps(props),
  );
}

/** It opens by itself when `isOpen` becomes true, and has no cells while it is folded. */
function FoldedMap({ isOpen, ...props }: MapProps & { readonly isOpen: boolean }): VNode {
  const { model, version } = props;
  const [isUnfolded, setUnfolded] = useState(isOpen);
  useEffect(() => setUnfolded(isOpen), [isOpen]);
  const { covered, underreplicated, lost } = version.partitions;
  const held = `${covered} of ${covered + underreplicated + lost} partitions with all replicas`;
  const onToggle = (event: Event): void =>
    setUnfolded((event.currentTarget as HTMLDetailsElement).open);
  return h(
    "details",
    { class: "map", open: isUnfolded, onToggle },
    h(
      "summary",
      {},
      mapHeading(model, version),
      " ",
      isWhole(version)
        ? h("span", { class: "beside" }, held)
        : badge(lost > 0 ? "down" : "degraded", held),
    ),
    ...(isUnfolded ? tableMaps(props) : []),
  );
}

function tableMaps({ workers, version }: MapProps): VNode[] {
  return version.tables.map((each) => tableMap(workers, version, each));
}

type Replicas = VersionReport["tables"][number]["replicas"];

function hasMap(
  replicas: Replicas,
  workers: readonly WorkerReport[],
): replicas is NonNullable<Replicas> {
  return replicas !== undefined && replicas.length * workers.length <= CELLS_MAX;
}

function mapName(model: ModelReport, version: VersionReport): string {
  return `${model.name}/${version.version}`;
}

function mapHeading(model: ModelReport, version: VersionReport): VNode {
  return h(
    "h3",
    {},
    mapName(model, version),
    " ",
    version.isDefault ? badge("ok", "default") : badge("news", version.state.toLowerCase()),
  );
}

function tableMap(
  workers: readonly WorkerReport[],
  version: VersionReport,
  { name, rows, dim, partitions, replicas }: VersionReport["tables"][number],
): VNode {
  const about = `${name}: ${countText(rows)} rows of ${dim}, ${partitions === 1 ? "one partition" : `${countText(partitions)} partitions`}`;
  const caption = h("p", { class: "map-caption" }, about);
  if (!hasMap(replicas, workers)) {
    return h("div", {}, caption, empty("Too many partitions for a map."));
  }
  const lines = workers.map((worker, position) => {
    const held = replicas.filter((ids) => ids.includes(position)).length;
    const cells = replicas.map((ids, partition) =>
      h("i", {
        class: cellClass(ids, position, version.replicasIntended),
        title: `${worker.id}, partition ${partition}: ${cellText(ids, position)}`,
      }),
    );
    const state = noteworthyState(worker);
    const holds = `${worker.id} holds ${held} of ${partitions} partitions`;
    const label = state === undefined ? holds : `${holds}, ${state.text}`;
    return h(
      "div",
      { key: worker.id, class: `map-row ${worker.isStraggler ? "straggler" : worker.condition}` },
      h("span", { class: "map-name" }, worker.id),
      h("span", { class: "cells", role: "img", "aria-label": label }, ...cells),
      h("span", { class: "beside" }, `${held}`, state && [" ", badge(state.tone, state.text)]),
    );
  });
  const isNarrow = partitions <= NARROW_PARTITIONS_MAX;
  return h(
    "div",
    {},
    caption,
    h("div", { class: isNarrow ? "map-rows narrow" : "map-rows" }, ...lines),
  );
}

/** What a row of the map says of its worker; nothing of one that is as it should be. */
function noteworthyState({
  condition,
  isStraggler,
}: WorkerReport): { readonly tone: string; readonly text: string } | undefined {
  if (isStraggler) return { tone: "degraded", text: "slow" };
  return condition === "ready" ? undefined : { tone: TONES[condition], text: condition };
}

function cellClass(ids: readonly number[], worker: number, intended: number): string {
  if (ids.length === 0) return "cell lost";
  if (!ids.includes(worker)) return "cell";
  return ids.length < intended ? "cell held few" : "cell held";
}

function cellText(ids: readonly number[], worker: number): string {
  if (ids.length === 0) return "held by nobody";
  const replicas = `${ids.length} ${ids.length === 1 ? "replica" : "replicas"}`;
  return ids.includes(worker) ? `held, ${replicas}` : `not here, ${replicas}`;
}
