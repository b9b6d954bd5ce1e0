// `experiment.yaml` → a checked experiment. Every error names the line and the field.
// docs/experiment.schema.json is its JSON Schema.
//
//   arms:
//     - { name: control, model: movies, version: 3, weight: 90 }
//     - { name: new-tower, model: movies, version: 4, weight: 10 }
//   sticky: { input: user_id }
//   shadow: { model: movies, version: 5, share: 0.1, budget: 500ms }

import {
  ARM_NAME,
  ARM_WEIGHT_MAX,
  HEADER_NAME,
  SALT_BYTES_MAX,
  STAGE_BUDGET_MS_MAX,
  excerpt,
  experimentFault,
} from "@winnow/core";
import type {
  ArmTarget,
  Experiment,
  ExperimentArm,
  ExperimentShadow,
  StickyKey,
} from "@winnow/core";
import { yamlDocument } from "../pipeline-directory/yaml-fields.ts";
import type { Field, Members } from "../pipeline-directory/yaml-fields.ts";

/** The file that makes a version directory an experiment. */
export const EXPERIMENT_FILE = "experiment.yaml";
/** Experiments that people write are shorter. */
export const EXPERIMENT_BYTES_MAX: number = 64 * 1024;

const TARGET_FIELDS = ["model", "version", "label"] as const;

/** Reads an experiment. @throws WinnowError INVALID_ARGUMENT naming file, line and field */
export function parseExperiment(content: Uint8Array): Experiment {
  const document = yamlDocument(content, EXPERIMENT_FILE);
  const fields = document.members(["arms", "sticky", "salt", "fallback", "shadow"]);
  const arms = fields.needed("arms");
  const sticky = fields.get("sticky");
  const salt = fields.get("salt");
  const fallback = fields.get("fallback");
  const shadow = fields.get("shadow");
  const experiment: Experiment = {
    arms: readArms(arms),
    ...(sticky && { sticky: readSticky(sticky) }),
    ...(salt && { salt: readSalt(salt) }),
    ...(fallback && { fallback: readName(fallback) }),
    ...(shadow && { shadow: readShadow(shadow) }),
  };
  const wrong = experimentFault(experiment);
  if (wrong === undefined) return experiment;
  const place = placeOf(fields, wrong.field);
  throw place?.refused(wrong.fault) ?? document.refused(`${wrong.field} ${wrong.fault}`);
}

/** The field that an error names, such as `arms[2].name`; `undefined` if the file lacks it. */
function placeOf(fields: Members, path: string): Field | undefined {
  const [, name = "", at, member] = /^(\w+)(?:\[(\d+)\])?(?:\.(\w+))?$/.exec(path) ?? [];
  const field = fields.get(name);
  const element = at === undefined ? field : field?.elements()?.[Number(at)];
  return member === undefined ? element : element?.members().get(member);
}

function readArms(field: Field): readonly ExperimentArm[] {
  const elements = field.elements();
  if (elements === undefined) throw field.refused("is not a list of arms");
  return elements.map((element) => readArm(element));
}

function readArm(field: Field): ExperimentArm {
  const members = field.members(["name", ...TARGET_FIELDS, "weight"]);
  const name = readName(members.needed("name"));
  return {
    name,
    weight: members.needed("weight").number(0, ARM_WEIGHT_MAX),
    ...readTarget(members),
  };
}

/** The budget of a shadow without one. */
const SHADOW_BUDGET_MS = 1000;

function readShadow(field: Field): ExperimentShadow {
  const members = field.members([...TARGET_FIELDS, "share", "budget"]);
  const budget = members.get("budget");
  const share = members.needed("share").number(0, 1);
  const budgetMs = budget?.durationMs(STAGE_BUDGET_MS_MAX) ?? SHADOW_BUDGET_MS;
  return { ...readTarget(members), share, budgetMs };
}

function readTarget(members: Members): ArmTarget {
  const model = members.needed("model").text();
  const version = members.get("version");
  const label = members.get("label");
  if (version === undefined) return { model, ...(label && { label: label.text() }) };
  if (label !== undefined) throw label.refused("stands beside a version; name one of them");
  return { model, version: version.integer(0, Number.MAX_SAFE_INTEGER) };
}

function readSticky(field: Field): StickyKey {
  const members = field.members(["input", "header", "missing"]);
  const [input, header, missing] = ["input", "header", "missing"].map((name) => members.get(name));
  if ((input === undefined) === (header === undefined)) {
    throw field.refused("names neither or both of input and header; name one");
  }
  if (input !== undefined) {
    if (missing === undefined) return { by: "input", name: input.text() };
    throw missing.refused("is for headers; a request has all inputs");
  }
  const name = header!.text();
  if (!HEADER_NAME.test(name)) throw header!.refused(`is "${excerpt(name)}", which is no header`);
  return { by: "header", name, ...(missing && { missing: readName(missing) }) };
}

function readName(field: Field): string {
  const name = field.text();
  if (ARM_NAME.test(name)) return name;
  throw field.refused(
    `is "${excerpt(name)}"; arms have names of 1 to 64 letters, digits, "_", "." and "-", a letter or digit first`,
  );
}

function readSalt(field: Field): string {
  const salt = field.text();
  if (Buffer.byteLength(salt) <= SALT_BYTES_MAX) return salt;
  throw field.refused(`is longer than ${SALT_BYTES_MAX} bytes`);
}
