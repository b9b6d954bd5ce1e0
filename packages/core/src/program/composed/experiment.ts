// An experiment: which of several models, or versions of one model, answers which user. It is a model itself,
// without tables and steps: the router asks the model of the arm that a key of the request belongs to.
//
//   key (an input or a header) ─▶ arm, by hash and weight ─▶ its model answers
//                                                         └▶ a fraction of requests is also sent to the shadow

import type { HeaderReader } from "../header-reader.ts";
import { count, listOf, oneOf, optional, read, refuse, text } from "../header-reader.ts";
import { STAGE_BUDGET_MS_MAX } from "./pipeline.ts";

/** Arms of one experiment, at most. */
export const EXPERIMENT_ARMS_MAX = 16;
/** The largest weight of an arm; weights count relative to each other. */
export const ARM_WEIGHT_MAX = 1e6;
/** Bytes of a salt in UTF-8, at most. */
export const SALT_BYTES_MAX = 128;
/** Names of arms, which appear unchanged in headers and metrics. */
export const ARM_NAME: RegExp = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
/** Names of headers. */
export const HEADER_NAME: RegExp = /^[A-Za-z0-9-]{1,64}$/;

/**
 * A model that an experiment names: with a version, or with the version that its label or its name means when
 * a request arrives.
 */
export interface ArmTarget {
  readonly model: string;
  readonly version?: number | undefined;
  readonly label?: string | undefined;
}

/** One arm. */
export interface ExperimentArm extends ArmTarget {
  readonly name: string;
  /** The arm gets this part of the keys, relative to the sum of all weights; 0: none. */
  readonly weight: number;
}

/** The value that is hashed: an input of each instance, or a header of the whole request. */
export type StickyKey =
  | { readonly by: "input"; readonly name: string }
  | {
      readonly by: "header";
      readonly name: string;
      /** The arm of requests without the header; absent: such requests are refused. */
      readonly missing?: string | undefined;
    };

/**
 * A model to which a fraction of the requests is also sent. Its answers are compared and counted, never given
 * to clients.
 */
export interface ExperimentShadow extends ArmTarget {
  /** Fraction of the answered requests, 0 to 1. */
  readonly share: number;
  /** Ms that it may take, counted from the answer. */
  readonly budgetMs: number;
}

/** The arms with their weights, and the keys. */
export interface Experiment {
  /** Names are distinct, and at least one weight is positive. */
  readonly arms: readonly ExperimentArm[];
  /** May be absent if there is one arm only. */
  readonly sticky?: StickyKey | undefined;
  /** Hashed together with the key; absent: the name of the experiment's model. */
  readonly salt?: string | undefined;
  /** The arm that answers instead of one whose model does not exist; absent: that is an error. */
  readonly fallback?: string | undefined;
  readonly shadow?: ExperimentShadow | undefined;
}

/** A fault of an experiment, and the field that has it. */
export interface ExperimentFault {
  readonly field: string;
  readonly fault: string;
}

/** What is wrong with an experiment whose fields are valid one by one; `undefined` if nothing is. */
export function experimentFault(experiment: Experiment): ExperimentFault | undefined {
  const { arms, sticky } = experiment;
  if (arms.length === 0 || arms.length > EXPERIMENT_ARMS_MAX) {
    return {
      field: "arms",
      fault: `has ${arms.length} arms; 1 to ${EXPERIMENT_ARMS_MAX} are taken`,
    };
  }
  const names = arms.map(({ name }) => name);
  const twice = names.findIndex((name, at) => names.indexOf(name) < at);
  if (twice >= 0) return { field: `arms[${twice}].name`, fault: `is "${names[twice]}" again` };
  if (arms.every(({ weight }) => weight === 0)) {
    return { field: "arms", fault: "have no weight; give one of them more than 0" };
  }
  if (sticky === undefined && arms.length > 1) {
    const fault = "is missing; several arms need the input or header whose hash chooses among them";
    return { field: "sticky", fault };
  }
  return unknownArm(experiment, names);
}

function unknownArm(
  { sticky, fallback }: Experiment,
  names: readonly string[],
): ExperimentFault | undefined {
  const missing = sticky?.by === "header" ? sticky.missing : undefined;
  const named = [
    { field: "sticky.missing", name: missing },
    { field: "fallback", name: fallback },
  ];
  const unknown = named.find(({ name }) => name !== undefined && !names.includes(name));
  if (unknown === undefined) return undefined;
  const fault = `is "${unknown.name}", which is no arm; they are ${names.join(", ")}`;
  return { field: unknown.field, fault };
}

/** The model that an arm asks, in messages and drawings: `movies`, `movies/3`, `movies@stable`. */
export function targetText({ model, version, label }: ArmTarget): string {
  if (version !== undefined) return `${model}/${version}`;
  return label === undefined ? model : `${model}@${label}`;
}

function matching(pattern: RegExp, what: string): HeaderReader<string> {
  return (from) => {
    const found = text(from);
    if (!pattern.test(found)) throw refuse(from, what);
    return found;
  };
}

const armName = matching(ARM_NAME, "the name of an arm");
const headerName = matching(HEADER_NAME, "the name of a header");

function numberTo(most: number): HeaderReader<number> {
  return (from) => {
    const { value } = from;
    if (typeof value === "number" && value >= 0 && value <= most) return value;
    throw refuse(from, `a number from 0 to ${most}`);
  };
}

const saltReader: HeaderReader<string> = (from) => {
  const salt = text(from);
  if (Buffer.byteLength(salt) > SALT_BYTES_MAX) throw refuse(from, "a short salt");
  return salt;
};

const targetReader: HeaderReader<ArmTarget> = (from) => {
  const version = read(from, "version", optional(count));
  const label = read(from, "label", optional(text));
  if (version !== undefined && label !== undefined) throw refuse(from, "a version or a label");
  const model = read(from, "model", text);
  return { model, ...(version !== undefined && { version }), ...(label && { label }) };
};

const shadowReader: HeaderReader<ExperimentShadow> = (from) => {
  const share = read(from, "share", numberTo(1));
  const budgetMs = read(from, "budgetMs", count);
  if (budgetMs >= 1 && budgetMs <= STAGE_BUDGET_MS_MAX) {
    return { ...targetReader(from), share, budgetMs };
  }
  throw refuse(from, `given 1 to ${STAGE_BUDGET_MS_MAX} ms`);
};

const stickyReader: HeaderReader<StickyKey> = (from) => {
  const by = read(from, "by", oneOf("input", "header"));
  if (by === "input") return { by, name: read(from, "name", text) };
  const missing = read(from, "missing", optional(armName));
  return { by, name: read(from, "name", headerName), ...(missing && { missing }) };
};

/** Reads an experiment of an encoded program. */
const experimentReader: HeaderReader<Experiment> = (from) => {
  const arms = read(
    from,
    "arms",
    listOf((arm) => ({
      name: read(arm, "name", armName),
      weight: read(arm, "weight", numberTo(ARM_WEIGHT_MAX)),
      ...targetReader(arm),
    })),
  );
  const sticky = read(from, "sticky", optional(stickyReader));
  const salt = read(from, "salt", optional(saltReader));
  const fallback = read(from, "fallback", optional(armName));
  const shadow = read(from, "shadow", optional(shadowReader));
  const experiment: Experiment = {
    arms,
    ...(sticky && { sticky }),
    ...(salt !== undefined && { salt }),
    ...(fallback && { fallback }),
    ...(shadow && { shadow }),
  };
  const wrong = experimentFault(experiment);
  if (wrong !== undefined) throw refuse(from, `an experiment, but ${wrong.field} ${wrong.fault}`);
  return experiment;
};

/** An experiment, or `undefined`. */
export const optionalExperiment: HeaderReader<Experiment | undefined> = optional(experimentReader);
