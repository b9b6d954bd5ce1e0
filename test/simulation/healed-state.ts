// The state that a cluster must reach some seconds after the last fault: as if there had been no fault.

import { placeTable } from "@winnow/cluster";
import type { Announcement } from "@winnow/cluster";
import { workerId } from "@winnow/core";
import type { TableSpec } from "@winnow/core";
import { MODEL } from "./simulated-models.ts";
import type { VersionContent } from "./simulated-models.ts";
import type { RouterPlace } from "./simulated-routers.ts";
import type { WorkerPlace } from "./simulated-workers.ts";
import type { SimulatedWorld } from "./simulated-world.ts";

/** Reports whatever is not as it should be. */
export async function checkHealed(world: SimulatedWorld): Promise<void> {
  for (const worker of world.staff) checkWorker(world, worker);
  for (const router of world.routers) await checkRouter(world, router);
  world.orders.checkHealed();
}

/** The versions that a policy of the newest `count` keeps, and flawed ones that are in its way. */
function keptVersions(world: SimulatedWorld): { kept: number[]; tried: Set<number> } {
  const { disk, scenario } = world;
  const kept = disk.sound.slice(-scenario.versionsKept);
  return { kept, tried: new Set(disk.flawed) };
}

function checkWorker(world: SimulatedWorld, { name, worker, device }: WorkerPlace): void {
  if (worker?.isReady !== true) {
    world.violate("L3", `${name} is not ready: ${JSON.stringify(worker?.announcement())}`);
    return;
  }
  const announcement = worker.announcement();
  if (announcement.state !== "ready") world.violate("L3", `${name} is ${announcement.state}`);
  const { kept, tried } = keptVersions(world);
  let resident = 0;
  for (const version of kept) {
    const expected = intendedOn(world, name, version);
    resident += expected.length;
    const held = heldOf(announcement, world.disk.contentOf(version));
    if (held.join(" ") === expected.join(" ")) continue;
    const texts = `holds [${held.join(" ")}] instead of [${expected.join(" ")}]`;
    world.violate("L3", `${name} ${texts} of version ${version}: ${summary(announcement)}`);
  }
  // A flawed version may be tried again and again, and is held while it is checked.
  const others = announcement.versions.filter(
    ({ version, fingerprint }) =>
      !tried.has(version) &&
      (!kept.includes(version) ||
        fingerprint !== world.disk.contentOf(version).program.fingerprint),
  );
  if (others.length > 0) world.violate("L4", `${name} still holds ${summary(announcement)}`);
  const flawedRows = announcement.versions.some(
    ({ version, tables }) => tried.has(version) && tables.some(({ held }) => held.length > 0),
  );
  if (device !== undefined && device.residents.size !== resident && !flawedRows) {
    const texts = `${device.residents.size} replicas on the device instead of ${resident}`;
    world.violate("L4", `${name}: ${texts}: ${summary(announcement)}`);
  }
}

/** `table/partition` of all that a worker should hold, ascending: tables that are not cut are on each worker, with what is added to them. */
function intendedOn(world: SimulatedWorld, name: string, version: number): string[] {
  const ids = world.staff.map((each) => workerId(each.name));
  const { replication } = world.scenario;
  return world.disk
    .contentOf(version)
    .program.tables.flatMap((table, at) =>
      placeTable({ model: MODEL, table }, ids, { replication }).flatMap((owners, partition) =>
        owners.includes(workerId(name)) || isUncut(table) ? [`${at}/${partition}`] : [],
      ),
    );
}

function isUncut(table: TableSpec): boolean {
  const { partitions } = (table.kind === "candidate" ? table.original : undefined) ?? table;
  return partitions === 1;
}

function heldOf({ versions }: Announcement, { version, program }: VersionContent): string[] {
  const holding = versions.find(
    (each) => each.version === version && each.fingerprint === program.fingerprint,
  );
  const tables = holding?.tables ?? [];
  return tables.flatMap(({ table, held }) =>
    held.map(({ partition }) => `${table}/${partition}`).toSorted(byPartition),
  );
}

const byPartition = (a: string, b: string): number =>
  Number(a.split("/")[1]) - Number(b.split("/")[1]);

function summary({ versions }: Announcement): string {
  return versions
    .map(({ version, fingerprint, state, serving, error, tables }) => {
      const held = tables.map((table) => `${table.held.length}/${table.partitions}`).join(" ");
      const marks = `${serving === true ? " serving" : ""}${error ? ` ${error.message}` : ""}`;
      const content = fingerprint === undefined ? "" : `.${fingerprint.slice(0, 4)}`;
      return `${version}${content} ${state}${marks} (${held})`;
    })
    .join(", ");
}

async function checkRouter(world: SimulatedWorld, { name, router }: RouterPlace): Promise<void> {
  if (router?.ready !== true) return world.violate("L1", `${name} is not ready`);
  const newest = world.disk.sound.at(-1);
  try {
    const pinned = await router.pin({ model: MODEL });
    pinned.release();
    const content = newest === undefined ? undefined : world.disk.contentOf(newest);
    if (pinned.program.fingerprint !== content?.program.fingerprint) {
      const versions = JSON.stringify(router.status(MODEL));
      world.violate("L4", `${name} answers by ${pinned.version}, not ${newest}: ${versions}`);
    }
  } catch (error) {
    world.violate("L1", `${name} cannot answer: ${String(error)}`);
  }
  const partitions = router.clusterStatus().models[0]?.partitions;
  if (partitions === undefined || partitions.lost + partitions.underreplicated > 0) {
    world.violate("L3", `${name} knows ${JSON.stringify(partitions)}`);
  }
  const strangers = router
    .workers()
    .filter(({ askable, trusted }) => !askable || !trusted)
    .map(({ id }) => id);
  if (strangers.length > 0) world.violate("L3", `${name} cannot ask ${strangers.join(" ")}`);
  const { pins, requests, questions } = router.counters;
  if (pins + requests + questions > 0) {
    world.violate("R5", `${name} is busy with ${JSON.stringify(router.counters)}`);
  }
}
