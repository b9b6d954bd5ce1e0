// Logs the progress of loading: a line for each version opened, for each tenth of an assignment loaded, for
// each failure, and one with the figures when the assignment is complete. The observer is told of failures
// and of the end.

import type { Environment } from "@winnow/core";

import { isRefused, loadedOf, openedOf } from "./replica-set.ts";
import type { HeldVersion, ReplicaEvent, ReplicaSet } from "./replica-set.ts";
import { Assignment, isLoading } from "./assignment.ts";
import type { Intent } from "./assignment.ts";
import { updateBytesOf } from "../models/growing-file.ts";
import type { WorkerObserver } from "../worker-observer.ts";

interface Course {
  /** `undefined` once the assignment is complete: a later load begins anew. */
  readonly startedAtMs: number | undefined;
  /** Time in which at least one load was under way. */
  readonly loadMs: number;
  /** When the last load ended. */
  readonly loadedAtMs: number;
  readonly bytesRead: number;
  /** Tenths of the assignment already reported. */
  readonly tenths: number;
}

const NO_COURSE: Course = {
  startedAtMs: undefined,
  loadMs: 0,
  loadedAtMs: 0,
  bytesRead: 0,
  tenths: 0,
};

/** Where versions come faster than they can be loaded, each of them ends so, and the default stays what it was. */
const GIVEN_UP =
  "version given up before it was loaded: it is gone, or a newer one has come; publish no faster than versions load";

/** How workers come to one state of a file that grows (`models/growing-file.ts`). */
const OTHER_LENGTH =
  "content given up before it was loaded: other workers load fewer lines of its item updates, or the files were replaced";

/** Logs loads, and remembers what it has logged. */
export class LoadLog {
  readonly #environment: Environment;
  readonly #observer: WorkerObserver | undefined;
  readonly #courses = new Map<string, Course>();

  constructor(environment: Environment, observer: WorkerObserver | undefined) {
    this.#environment = environment;
    this.#observer = observer;
  }

  /**
   * Contents of which it is known how far they are loaded.
   *
   * @internal tests read it
   */
  get courses(): number {
    return this.#courses.size;
  }

  /** Logs an event; `held` is the version after the event. */
  note(event: ReplicaEvent, held: HeldVersion, intent: Intent | undefined): void {
    const { log, clock } = this.#environment;
    const name = { model: held.model, version: held.version };
    const key = event.id;
    if (event.kind === "opened") {
      const tables = event.opened.tables.map(({ name: table, rows, dim }) => ({
        table,
        rows,
        dim,
      }));
      // Files that hold a content that is open already begin no load: that content goes on under its own name.
      if (held.life.phase === "open") {
        this.#courses.set(key, { ...NO_COURSE, startedAtMs: clock.nowMs() });
      }
      log.info("version opened", { ...name, fingerprint: event.opened.fingerprint, tables });
    } else if ("error" in event) {
      const { code, message } = event.error;
      const leftMs = (held.trouble?.retryAtMs ?? Infinity) - clock.nowMs();
      const retryInMs = Math.max(0, Math.round(leftMs));
      log.error("version failed", { ...name, code, message, retryInMs });
      this.#observer?.loadFailed({ model: held.model, code });
    } else if (event.kind === "loaded" && intent !== undefined) {
      this.#noteLoaded(event, held, intent);
    } else if (event.kind === "closed") {
      this.#courses.delete(key);
      this.#noteClosed(held, name);
    }
  }

  #noteClosed(
    { status, trouble, stamp }: HeldVersion,
    name: Readonly<Record<string, unknown>>,
  ): void {
    const { log } = this.#environment;
    if (status.kind !== "incomplete" || trouble !== undefined) log.info("version unloaded", name);
    else if (updateBytesOf(stamp) === undefined) log.warn(GIVEN_UP, name);
    else log.info(OTHER_LENGTH, name);
  }

  /** Logs each assignment that the plan refuses, or has wait for memory, once for as long as it does. */
  noteRefusals(before: ReplicaSet, now: ReplicaSet): void {
    for (const [id, held] of now.versions) {
      const { model, version, refusal } = held;
      if (refusal === undefined || before.versions.get(id)?.refusal?.code === refusal.code)
        continue;
      const { code, message } = refusal;
      if (!isRefused(held)) {
        this.#environment.log.info("version waits for memory", { model, version, message });
        continue;
      }
      this.#environment.log.error("version refused", { model, version, code, message });
      this.#observer?.loadFailed({ model, code });
    }
  }

  /** Logs each model whose default version has changed. */
  noteServing(before: ReplicaSet, now: ReplicaSet): void {
    for (const model of new Set([...now.serving.keys(), ...before.serving.keys()])) {
      const [from, to] = [before.serving.get(model), now.serving.get(model)];
      if (from?.version === to?.version && from?.fingerprint === to?.fingerprint) continue;
      const fields = { model, version: to?.version, before: from?.version };
      this.#environment.log.info("serving version changed", fields);
    }
  }

  #noteLoaded(event: ReplicaEvent & { kind: "loaded" }, held: HeldVersion, intent: Intent): void {
    const { log, clock } = this.#environment;
    const opened = openedOf(held);
    if (opened === undefined) return;
    const nowMs = clock.nowMs();
    const before = this.#courses.get(event.id) ?? NO_COURSE;
    const startedAtMs = before.startedAtMs ?? nowMs - event.loaded.elapsedMs;
    const assignment = new Assignment(held, opened, intent);
    const missing = assignment.missing(held);
    const course = {
      ...before,
      startedAtMs,
      // Loads overlap, so the time of a load counts from the end of the previous one at the earliest.
      loadMs: before.loadMs + Math.min(event.loaded.elapsedMs, nowMs - before.loadedAtMs),
      loadedAtMs: nowMs,
      bytesRead: before.bytesRead + event.loaded.bytesRead,
      tenths: Math.floor(assignment.loadedRatio(held) * 10),
    };
    this.#courses.set(event.id, course);
    const name = { model: held.model, version: held.version };
    const isWhole = missing.length === 0 && !isLoading(held);
    if (course.tenths > before.tenths && !isWhole) {
      log.info("loading", { ...name, loadedPercent: course.tenths * 10 });
    }
    if (isWhole) {
      const loaded = [...held.replicas.values()].map(loadedOf).filter((each) => each !== undefined);
      const elapsedMs = Math.round(nowMs - startedAtMs);
      this.#observer?.assignmentLoaded({ model: held.model, elapsedMs });
      log.info("assignment loaded", {
        ...name,
        partitions: loaded.length,
        bytes: loaded.reduce((sum, { bytes }) => sum + bytes, 0),
        bytesRead: course.bytesRead,
        elapsedMs,
        gigabytesPerSecond: Number(
          (course.bytesRead / 1e6 / Math.max(0.001, course.loadMs)).toFixed(3),
        ),
      });
      this.#courses.set(event.id, { ...NO_COURSE, tenths: 10 });
    }
  }
}
