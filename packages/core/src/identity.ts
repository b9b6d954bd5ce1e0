// Names and numbers that must not be mixed up. Each is a plain string or number at run time; the
// brand exists for the compiler only.

import { excerpt } from "./errors/errors.ts";

declare const brand: unique symbol;
type Brand<Value, Name extends string> = Value & { readonly [brand]: Name };

/** A worker's stable name: keeps its place on the ring across restarts. */
export type WorkerId = Brand<string, "WorkerId">;
/** Number of one worker process's life; of two live processes of one worker the higher is used. */
export type Incarnation = Brand<number, "Incarnation">;
/** Number of one routing-table snapshot of one router; only grows. */
export type Generation = Brand<number, "Generation">;
/**
 * Names a version's content: hex digits of a sha256. `FILE_DIGITS` of them cover the files that determine the
 * content, the others the tables that are made of these files.
 */
export type Fingerprint = Brand<string, "Fingerprint">;

/** Names a worker. */
export const workerId = (text: string): WorkerId => text as WorkerId;
/** Numbers a worker process's life. */
export const incarnation = (value: number): Incarnation => value as Incarnation;
/** Numbers a routing-table snapshot. */
export const generation = (value: number): Generation => value as Generation;
/** Names a version's content. */
export const fingerprint = (hex: string): Fingerprint => hex as Fingerprint;

/** What members of a cluster may call models and themselves: not `.` and `..`, which lead elsewhere in paths and URLs. */
export const ANNOUNCED_NAME: RegExp = /^(?!\.{1,2}$)[A-Za-z0-9_.:[\]-]{1,255}$/;

/** Names of folders that can stand in a URL. Hidden folders such as `.snapshot` are no models. */
const MODEL_NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$/;

/** Whether a folder of this name, among others in a directory of models, is served. */
export function isModelName(name: string): boolean {
  return MODEL_NAME.test(name);
}

/** Why a folder of this name is not served. */
export function misnamedModelText(name: string): string {
  return `${excerpt(name)} cannot be a model's name: write up to 128 letters, digits, _, - and . (not first)`;
}

/** Digits of a fingerprint that cover the files. */
export const FILE_DIGITS = 48;

/**
 * Whether two contents come from the same files. If they differ all the same, two releases read the files in
 * different ways.
 */
export function areOfSameFiles(a: Fingerprint, b: Fingerprint): boolean {
  return a.slice(0, FILE_DIGITS) === b.slice(0, FILE_DIGITS);
}

/** Things of models by their model, in their order. */
export function groupedByModel<Each extends { readonly model: string }>(
  all: Iterable<Each>,
): ReadonlyMap<string, readonly Each[]> {
  const byModel = new Map<string, Each[]>();
  for (const each of all) {
    const ofModel = byModel.get(each.model);
    if (ofModel === undefined) byModel.set(each.model, [each]);
    else ofModel.push(each);
  }
  return byModel;
}

/** One version of one model, identified by its content: two contents of one number never mix. */
export interface VersionKey {
  readonly model: string;
  readonly version: number;
  readonly fingerprint: Fingerprint;
}
