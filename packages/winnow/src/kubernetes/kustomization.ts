// Composes manifests from kustomizations: the part of kustomize that `deploy/kubernetes` uses, so that
// `winnow k8s render` needs no kubectl and the manifests stand in one place.
//
//   resources ─▶ generators ─▶ components ─▶ patches ─▶ namespace, labels, images, replicas      for each folder
//                                                └─▶ names of generated ConfigMaps get their hash   at the end
//
// A field outside this part is refused by name rather than ignored. Tests compare every overlay with
// kubectl's result.

import { createHash } from "node:crypto";
import path from "node:path";
import { parse, parseAllDocuments } from "yaml";
import { type Fields, isFields, mergePatch } from "./strategic-merge.ts";

/** An object, as `kubectl apply` takes it. */
export interface Manifest extends Fields {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Fields & { readonly name: string };
}

/** Another image, tag or digest for all containers with this image. */
export interface ImageChange {
  readonly name: string;
  readonly newName?: string;
  readonly newTag?: string;
  readonly digest?: string;
}

/** A patch from a file or inline; `target` if its text does not name an object. */
export interface PatchEntry {
  readonly path?: string;
  readonly patch?: string;
  readonly target?: { readonly kind: string; readonly name: string };
}

interface Generator {
  readonly name: string;
  readonly behavior?: "merge";
  readonly literals?: readonly string[];
  readonly files?: readonly string[];
  readonly options?: { readonly labels?: Fields; readonly disableNameSuffixHash?: boolean };
}

/** The fields of a `kustomization.yaml` that are supported. */
export interface Kustomization {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly namespace?: string;
  readonly labels?: readonly { readonly pairs: Fields; readonly includeTemplates?: boolean }[];
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
  readonly configMapGenerator?: readonly Generator[];
  readonly patches?: readonly PatchEntry[];
  readonly images?: readonly ImageChange[];
  readonly replicas?: readonly { readonly name: string; readonly count: number }[];
}

const KNOWN = new Set([
  "apiVersion",
  "kind",
  "namespace",
  "labels",
  "resources",
  "components",
  "configMapGenerator",
  "patches",
  "images",
  "replicas",
]);

/** Reads the text of a file. */
export type ReadText = (file: string) => string;

/** The objects so far, and the ConfigMaps whose names get a hash at the end. */
interface Composition {
  readonly objects: readonly Manifest[];
  readonly hashed: ReadonlySet<string>;
}

const FILE = "kustomization.yaml";
const HASH_CHARACTERS = 10;
/** Replacements for hexadecimal digits that could form a word or be misread; the same as kubectl's. */
const HASH_SPELLING: Readonly<Record<string, string>> = { 0: "g", 1: "h", 3: "k", a: "m", e: "t" };

/** The objects of a kustomization in `folder`. @throws RangeError for a field that is not supported */
export function compose(kustomization: Kustomization, folder: string, read: ReadText): Manifest[] {
  const { objects, hashed } = accumulate(kustomization, { folder, read, base: none });
  return objects.map((object) => withHashes(object, objects, hashed));
}

/** The kustomization of a folder. */
function readKustomization(folder: string, read: ReadText): Kustomization {
  const file = path.join(folder, FILE);
  const kustomization = parse(read(file)) as Kustomization;
  const unknown = Object.keys(kustomization).find((name) => !KNOWN.has(name));
  if (unknown !== undefined)
    throw new RangeError(`${file} has "${unknown}", which is not composed here`);
  return kustomization;
}

const none: Composition = { objects: [], hashed: new Set() };

interface Place {
  readonly folder: string;
  readonly read: ReadText;
  /** What a component is added to. */
  readonly base: Composition;
}

function accumulate(kustomization: Kustomization, place: Place): Composition {
  const { folder, read } = place;
  let made = place.base;
  for (const name of kustomization.resources ?? []) {
    made = joined(made, resourceOf(path.join(folder, name), read));
  }
  for (const generator of kustomization.configMapGenerator ?? []) {
    made = generated(generator, made, place);
  }
  for (const name of kustomization.components ?? []) {
    const below = path.join(folder, name);
    made = accumulate(readKustomization(below, read), { folder: below, read, base: made });
  }
  return { ...made, objects: transformed(kustomization, made.objects, place) };
}

function joined(one: Composition, other: Composition): Composition {
  return {
    objects: [...one.objects, ...other.objects],
    hashed: new Set([...one.hashed, ...other.hashed]),
  };
}

function resourceOf(at: string, read: ReadText): Composition {
  if (!at.endsWith(".yaml")) {
    return accumulate(readKustomization(at, read), { folder: at, read, base: none });
  }
  return { ...none, objects: objectsOf(read(at)) as Manifest[] };
}

function objectsOf(text: string): Fields[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJS() as Fields;
  });
}

function generated(generator: Generator, made: Composition, place: Place): Composition {
  const { name, literals = [], files = [], options = {} } = generator;
  const entries = [
    ...literals.map((literal) => pairOf(literal)),
    ...files.map((file): [string, string] => {
      const [key, from] = pairOf(file.includes("=") ? file : `${path.basename(file)}=${file}`);
      return [key, place.read(path.join(place.folder, from))];
    }),
  ];
  const data = Object.fromEntries(entries);
  if (generator.behavior === "merge") {
    const merged = made.objects.map((object) =>
      object.kind === "ConfigMap" && object.metadata.name === name
        ? { ...object, data: { ...(object["data"] as Fields), ...data } }
        : object,
    );
    return { ...made, objects: merged };
  }
  const labels = options.labels === undefined ? {} : { labels: options.labels };
  const map: Manifest = {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name, ...labels },
    data,
  };
  const hashed = options.disableNameSuffixHash === true ? [] : [name];
  return joined(made, { objects: [map], hashed: new Set(hashed) });
}

function pairOf(text: string): [string, string] {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
}

function transformed(
  kustomization: Kustomization,
  objects: readonly Manifest[],
  place: Place,
): Manifest[] {
  const { patches = [], namespace, labels = [], images = [], replicas = [] } = kustomization;
  let changed = [...objects];
  for (const entry of patches) changed = patched(entry, changed, place);
  if (namespace !== undefined) changed = changed.map((object) => inNamespace(object, namespace));
  for (const { pairs, includeTemplates = false } of labels) {
    changed = changed.map((object) => labelled(object, pairs, includeTemplates));
  }
  changed = changed.map((object) => mapContainers(object, (each) => withImage(each, images)));
  return changed.map((object) => counted(object, replicas));
}

function counted(object: Manifest, replicas: NonNullable<Kustomization["replicas"]>): Manifest {
  const wanted = replicas.find(({ name }) => name === object.metadata.name);
  const spec = object["spec"];
  if (wanted === undefined || !isFields(spec) || !("template" in spec)) return object;
  return { ...object, spec: { ...spec, replicas: wanted.count } };
}

function patched(entry: PatchEntry, objects: readonly Manifest[], place: Place): Manifest[] {
  const text = entry.patch ?? place.read(path.join(place.folder, entry.path!));
  const operations: unknown = parseAllDocuments(text)[0]?.toJS();
  if (Array.isArray(operations)) {
    return objects.map((object) =>
      isTarget(object, entry.target!) ? removedFrom(object, operations as Operation[]) : object,
    );
  }
  return objectsOf(text).reduce<Manifest[]>(
    (before, patch) => {
      const target = entry.target ?? { kind: String(patch["kind"]), name: nameIn(patch) };
      // A patch with a target may match nothing: this composition may lack the object.
      if (entry.target === undefined && !before.some((object) => isTarget(object, target))) {
        throw new RangeError(
          `${entry.path ?? "a patch"} wants ${target.kind}/${target.name}, which is not there`,
        );
      }
      return before.flatMap((object) =>
        isTarget(object, target)
          ? ((mergePatch(object, patch) as Manifest | undefined) ?? [])
          : [object],
      );
    },
    [...objects],
  );
}

const nameIn = (patch: Fields): string => String((patch["metadata"] as Fields)["name"]);

const isTarget = (
  object: Manifest,
  target: { readonly kind: string; readonly name: string },
): boolean => object.kind === target.kind && object.metadata.name === target.name;

interface Operation {
  readonly op: string;
  readonly path: string;
}

/** Applies a JSON Patch: only removals of fields are used. */
function removedFrom(object: Manifest, operations: readonly Operation[]): Manifest {
  const copy = structuredClone(object);
  for (const { op, path: pointer } of operations) {
    if (op !== "remove")
      throw new RangeError(`the operation "${op}" of a JSON patch is not composed here`);
    const names = pointer.split("/").slice(1);
    const last = names.pop()!;
    const holder = names.reduce<unknown>((inner, name) => (inner as Fields)[name], copy);
    delete (holder as Fields)[last];
  }
  return copy;
}

function inNamespace(object: Manifest, namespace: string): Manifest {
  const { metadata } = object;
  const named = object.kind === "Namespace" ? { name: namespace } : { namespace };
  return { ...object, metadata: { ...metadata, ...named } };
}

function labelled(object: Manifest, pairs: Fields, includeTemplates: boolean): Manifest {
  const add = (metadata: unknown): Fields => {
    const fields = isFields(metadata) ? metadata : {};
    return { ...fields, labels: { ...(fields["labels"] as Fields | undefined), ...pairs } };
  };
  const changed = { ...object, metadata: add(object.metadata) } as Manifest;
  const spec = object["spec"];
  if (!includeTemplates || !isFields(spec) || !isFields(spec["template"])) return changed;
  const template = spec["template"];
  return {
    ...changed,
    spec: { ...spec, template: { ...template, metadata: add(template["metadata"]) } },
  };
}

/** The object, with a function applied to every container of its pods. */
function mapContainers(object: Manifest, change: (container: Fields) => Fields): Manifest {
  const spec = object["spec"];
  if (!isFields(spec) || !isFields(spec["template"])) return object;
  const pod = spec["template"]["spec"];
  if (!isFields(pod)) return object;
  const containers = (pod["containers"] as Fields[]).map(change);
  return {
    ...object,
    spec: { ...spec, template: { ...spec["template"], spec: { ...pod, containers } } },
  };
}

function withImage(container: Fields, images: readonly ImageChange[]): Fields {
  const image = String(container["image"]);
  const found = images.find(({ name }) => nameOfImage(image) === name);
  if (found === undefined) return container;
  const name = found.newName ?? found.name;
  const rest = image.slice(nameOfImage(image).length);
  const tag = found.newTag === undefined ? rest : `:${found.newTag}`;
  return {
    ...container,
    image: found.digest === undefined ? `${name}${tag}` : `${name}@${found.digest}`,
  };
}

/** The part of an image before its tag or digest. */
function nameOfImage(image: string): string {
  return /^(.*?)(?::[^/:@]*)?(?:@.*)?$/.exec(image)![1]!;
}

/** The object with hashes in the names of ConfigMaps: in its own name, and in references. */
function withHashes(
  object: Manifest,
  objects: readonly Manifest[],
  hashed: ReadonlySet<string>,
): Manifest {
  const names = new Map(
    objects
      .filter(({ kind, metadata }) => kind === "ConfigMap" && hashed.has(metadata.name))
      .map((map) => [map.metadata.name, `${map.metadata.name}-${hashOf(map)}`]),
  );
  if (object.kind === "ConfigMap") {
    const name = names.get(object.metadata.name) ?? object.metadata.name;
    return { ...object, metadata: { ...object.metadata, name } };
  }
  return renamed(object, names) as Manifest;
}

const REFERENCES = new Set(["configMapRef", "configMapKeyRef", "configMap"]);

function renamed(value: unknown, names: ReadonlyMap<string, string>): unknown {
  if (Array.isArray(value)) return value.map((each) => renamed(each, names));
  if (!isFields(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      const name =
        isFields(inner) && REFERENCES.has(key) ? names.get(String(inner["name"])) : undefined;
      return [key, name === undefined ? renamed(inner, names) : { ...(inner as Fields), name }];
    }),
  );
}

function hashOf({ data }: Manifest): string {
  const sorted = Object.fromEntries(
    Object.entries(data as Fields).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
  const text = JSON.stringify({ data: sorted, kind: "ConfigMap", name: "" });
  // The name is empty for the hash, and some characters are escaped as Go's encoder does.
  const escaped = text.replaceAll(/[<>&]/g, (sign) => `\\u00${sign.charCodeAt(0).toString(16)}`);
  const hex = createHash("sha256").update(escaped).digest("hex").slice(0, HASH_CHARACTERS);
  return Array.from(hex, (digit) => HASH_SPELLING[digit] ?? digit).join("");
}
