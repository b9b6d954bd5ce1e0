// Which workers should hold which partitions, as workers come and go: transcripts that a person can
// check by eye.

import path from "node:path";
import { workerId } from "@winnow/core";
import type { WorkerId } from "@winnow/core";
import { transcriptTests } from "../../../../test/transcript.ts";
import { placeTable } from "./placement.ts";

type Owners = readonly (readonly WorkerId[])[];

transcriptTests(path.join(import.meta.dirname, "transcripts"), () => {
  const table = { name: "candidates", partitions: 0 };
  let replication = 0;
  let workers: readonly WorkerId[] = [];
  let before: Owners = [];

  return (event) => {
    const [verb = "", ...words] = event.split(" ");
    switch (verb) {
      case "table": {
        const [partitions, replicas] = event.match(/\d+/g) ?? [];
        table.partitions = Number(partitions);
        replication = Number(replicas);
        return [];
      }
      case "join":
        workers = [...workers, ...words.map(workerId)];
        break;
      case "leave":
        workers = workers.filter((worker) => !words.includes(worker));
        break;
      default:
        throw new RangeError(`No such event: ${event}`);
    }
    const owners = placeTable({ model: "movies", table }, workers, { replication });
    const members = new Set([...before.flat(), ...workers]);
    const lines = grid([...members].toSorted(), before, owners);
    before = owners;
    return lines;
  };
});

/** A row for each worker, a column for each partition. */
function grid(workers: readonly WorkerId[], before: Owners, after: Owners): readonly string[] {
  const heading = `    ${after.map((_, partition) => partition % 10).join("")}`;
  const rows = workers.map((worker) => {
    const cells = after.map((owners, partition) => {
      const held = before[partition]?.includes(worker) === true;
      if (owners.includes(worker)) return held || before.length === 0 ? "#" : "+";
      return held ? "-" : ".";
    });
    const load = after.filter((owners) => owners.includes(worker)).length;
    return `${worker.padEnd(3)} ${cells.join("")}  ${load}`;
  });
  const moved = after.flatMap((owners, partition) =>
    owners.filter((owner) => before.length > 0 && !before[partition]!.includes(owner)),
  ).length;
  return [heading, ...rows, ...(before.length === 0 ? [] : [`replicas to load: ${moved}`])];
}
