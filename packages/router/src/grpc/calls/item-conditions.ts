// The gRPC counterparts of the REST API's `k`, `exclude`, `include`, `filter` and `return`: inputs with the
// following names, which no signature has.
//
//   winnow.k        int64 or int32, a scalar
//   winnow.exclude  ids as the model has them: a list [n] for all instances, or [instances, n]
//   winnow.include  the same for the only ids wanted
//   winnow.filter   string: a filter as JSON, a scalar for all instances, or [instances], "" for none
//   winnow.explain  bool, a scalar: of a pipeline; the output "explain" has a JSON object for each instance
//   winnow.return   string [n]: names of attributes, which are answered as the output "attributes", JSON objects
//   winnow.return_vectors  bool, a scalar: the vectors of the items as the output "vectors", float32 [instances, k, dim]

import { StringColumn, WinnowError, elementCount, parseFilter } from "@winnow/core";
import type { Dtype, Filter, SignatureProgram, Tensor } from "@winnow/core";
import {
  FILTER_TEXT_LIMITS,
  filtersOf,
  returnedNames,
} from "../../http/predict/request-extensions.ts";
import { JsonReader } from "../../http/json/json-reader.ts";
import { JsonSyntaxError } from "../../http/json/json-syntax-error.ts";
import { jsonValue } from "../../http/json/json-value.ts";
import { checkFilters, checkListedIds } from "../../limits/request-limits.ts";
import type { RequestLimits } from "../../limits/request-limits.ts";
import type { ItemConditions, PredictRequest } from "../../predictor.ts";
import { WIRE_TYPES } from "../tensors/data-type.ts";
import type { TensorBudget } from "../tensors/tensor-budget.ts";
import { outlineOf } from "../tensors/tensor-outline.ts";
import { readTensorProto } from "../tensors/tensor-proto-reader.ts";
import type { ExpectedInput } from "../tensors/tensor-proto-reader.ts";

/** How the names of Winnow's inputs begin. */
export const CONDITION_PREFIX = "winnow.";
/** The names of Winnow's inputs. */
export const CONDITION_NAMES: readonly string[] = [
  "k",
  "exclude",
  "include",
  "filter",
  "return",
  "return_vectors",
  "explain",
].map((field) => `${CONDITION_PREFIX}${field}`);
const NAMES: ReadonlySet<string> = new Set(CONDITION_NAMES);

/** TensorProtos by input name. */
type Protos = ReadonlyMap<string, Uint8Array>;

/** Splits the inputs of a request into the signature's and Winnow's. */
export function splitInputs(
  inputs: Protos,
  signature: SignatureProgram,
): { readonly inputs: Protos; readonly conditions: Protos } {
  const declared = new Set(signature.inputs.map(({ name }) => name));
  const isOwn = (name: string): boolean => NAMES.has(name) && !declared.has(name);
  const entries = [...inputs];
  const conditions = new Map(entries.filter(([name]) => isOwn(name)));
  if (conditions.size === 0) return { inputs, conditions };
  return { inputs: new Map(entries.filter(([name]) => !isOwn(name))), conditions };
}

/** Reads Winnow's inputs. @throws WinnowError INVALID_ARGUMENT naming the input */
export function readConditions(
  protos: Protos,
  { instances, limits }: { readonly instances: number; readonly limits: RequestLimits },
  budget: TensorBudget,
): ItemConditions & Pick<PredictRequest, "explain"> {
  const read = (name: string, dtypes: readonly Dtype[]): Tensor | undefined => {
    const proto = protos.get(name);
    if (proto === undefined) return undefined;
    const checkShape = (shape: readonly number[]): void => checkCount(name, shape, limits);
    return readOneOf(proto, { name, dtypes, checkShape }, budget);
  };
  const ids = ["string", "int64", "int32"] as const;
  const k = read("winnow.k", ["int64", "int32"]);
  const filter = read("winnow.filter", ["string"]);
  const attributes = read("winnow.return", ["string"]);
  const flag = (name: string): boolean | undefined => {
    const tensor = read(name, ["bool"]);
    return tensor && single(name, tensor) !== 0;
  };
  return {
    k: k && single("winnow.k", k),
    explain: flag("winnow.explain"),
    exclude: listsOf("winnow.exclude", read("winnow.exclude", ids), instances),
    include: listsOf("winnow.include", read("winnow.include", ids), instances),
    filter: filter && filtersOfTexts(filter, instances, limits),
    attributes: attributes && returnedNames(textsOf(attributes)),
    vectors: flag("winnow.return_vectors"),
  };
}

/** Checks how many values a condition has, before they are read. @throws WinnowError INVALID_ARGUMENT */
function checkCount(name: string, shape: readonly number[], limits: RequestLimits): void {
  const count = elementCount(shape);
  if (name === "winnow.exclude") checkListedIds(count, limits, "exclude");
  else if (name === "winnow.include") checkListedIds(count, limits, "include");
  else if (count > limits.instancesMax) {
    refuse(`${name} has ${count} values; at most ${limits.instancesMax} are allowed`);
  }
}

/** Reads a tensor that may have any of several dtypes. An error names the dtype that is wanted. */
function readOneOf(
  proto: Uint8Array,
  wanted: Omit<ExpectedInput, "dtype"> & { readonly dtypes: readonly Dtype[] },
  budget: TensorBudget,
): Tensor {
  const { dtypes } = wanted;
  const { dataType } = outlineOf(proto, budget.fields);
  const dtype = dtypes.find((each) => WIRE_TYPES[each].number === dataType) ?? dtypes[0]!;
  return readTensorProto(proto, { ...wanted, dtype }, budget);
}

function single(name: string, { data }: Tensor): number {
  if (data.length !== 1) refuse(`${name} has ${data.length} values; it must be a scalar`);
  return Number((data as Int32Array)[0]);
}

function listsOf(
  name: string,
  ids: Tensor | undefined,
  instances: number,
): readonly Tensor[] | undefined {
  if (ids === undefined) return undefined;
  const { shape } = ids;
  if (shape.length === 1) return [ids];
  if (shape.length !== 2 || shape[0] !== instances) {
    refuse(
      `${name} has shape [${shape.join(",")}]; it must be a list, or a list for each of ` +
        `${instances} instances`,
    );
  }
  const width = shape[1]!;
  return Array.from({ length: instances }, (_, at) => partOf(ids, at * width, (at + 1) * width));
}

function partOf(ids: Tensor, from: number, end: number): Tensor {
  const shape = [end - from];
  if (ids.dtype === "string") return { dtype: "string", shape, data: ids.data.slice(from, end) };
  return { ...ids, shape, data: ids.data.slice(from, end) } as Tensor;
}

function filtersOfTexts(
  texts: Tensor,
  instances: number,
  limits: RequestLimits,
): readonly Filter[] | undefined {
  const bytes = texts.data instanceof StringColumn ? texts.data.bytes.length : 0;
  const { bytesMax } = FILTER_TEXT_LIMITS;
  if (bytes > bytesMax) refuse(`winnow.filter has ${bytes} bytes; at most ${bytesMax} are allowed`);
  const list = textsOf(texts);
  if (texts.shape.length === 0 || (list.length === 1 && instances > 1)) {
    const [text = ""] = list;
    return text === "" ? undefined : filtersOf(parsed(text), instances);
  }
  if (list.length !== instances) {
    refuse(
      `winnow.filter has ${list.length} filters for ${instances} instances; give one for each`,
    );
  }
  const different = [...new Set(list)];
  checkFilters({ filters: different.length, conditions: 0 }, limits);
  const filters = new Map(different.map((text) => [text, filterOfText(text)]));
  return list.map((text) => filters.get(text)!);
}

function filterOfText(text: string): Filter {
  return text === "" ? { kind: "and", of: [] } : parseFilter(parsed(text));
}

function parsed(text: string): ReturnType<typeof jsonValue> {
  const document = new JsonReader({ valuesMax: FILTER_TEXT_LIMITS.valuesMax });
  try {
    document.parse(Buffer.from(text));
  } catch (error) {
    if (!(error instanceof JsonSyntaxError)) throw error;
    refuse(`winnow.filter is no JSON: ${error.message} at offset ${error.offset}`);
  }
  return jsonValue(document, 0, { where: "winnow.filter", ...FILTER_TEXT_LIMITS });
}

function textsOf({ data }: Tensor): readonly string[] {
  return data instanceof StringColumn ? data.toText() : [];
}

function refuse(message: string): never {
  throw new WinnowError("INVALID_ARGUMENT", message);
}
