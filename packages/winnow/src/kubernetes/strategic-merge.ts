// Kubernetes' strategic merge: a patch has the form of the object; objects are merged by field, and lists of
// named elements by name. `null` deletes a field, `$patch: delete` an element or the whole object. Lists of
// custom resources are replaced, because nothing is known of their names. The result is compared with
// kubectl's (kustomization.test.ts).

/** A part of a manifest. */
export type Fields = Record<string, unknown>;

/** The field that identifies elements of a list, by the name of the list. */
const NAME_FIELDS: Readonly<Record<string, string>> = {
  containers: "name",
  initContainers: "name",
  env: "name",
  volumes: "name",
  volumeMounts: "mountPath",
  imagePullSecrets: "name",
  topologySpreadConstraints: "topologyKey",
};

/** Ports of containers and of services have different fields for their number. */
const PORT_FIELDS = ["containerPort", "port"] as const;

const BUILT_IN_GROUP = /^(v1$|apps\/|batch\/|autoscaling\/|policy\/|networking\.k8s\.io\/)/;

/** Whether this value has fields. */
export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object with the patch applied; `undefined` if the patch deletes it. Neither argument is changed. */
export function mergePatch(object: Fields, patch: Fields): Fields | undefined {
  if (patch["$patch"] === "delete") return undefined;
  const isBuiltIn = BUILT_IN_GROUP.test(String(object["apiVersion"]));
  return mergeFields(object, patch, isBuiltIn);
}

function mergeFields(object: Fields, patch: Fields, isBuiltIn: boolean): Fields {
  const merged: Fields = { ...object };
  for (const [name, value] of Object.entries(patch)) {
    const before = object[name];
    if (value === null) delete merged[name];
    else if (isFields(value)) {
      merged[name] = mergeFields(isFields(before) ? before : {}, value, isBuiltIn);
    } else if (name !== "$patch") {
      const field = isBuiltIn && Array.isArray(value) ? nameFieldOf(name, value) : undefined;
      merged[name] = field === undefined ? value : mergeList(listOf(before), listOf(value), field);
    }
  }
  return merged;
}

const listOf = (value: unknown): readonly unknown[] =>
  Array.isArray(value) ? (value as unknown[]) : [];

function nameFieldOf(list: string, elements: readonly unknown[]): string | undefined {
  if (!elements.every(isFields)) return undefined;
  if (list !== "ports") return NAME_FIELDS[list];
  return PORT_FIELDS.find((field) => elements.every((element) => field in element));
}

/** Elements named by the patch come first, in its order, as in kustomize. */
function mergeList(
  elements: readonly unknown[],
  patches: readonly unknown[],
  field: string,
): unknown[] {
  const nameOf = (element: unknown): unknown => (isFields(element) ? element[field] : undefined);
  const named = new Set(patches.map(nameOf));
  const merged = patches.flatMap((patch) => {
    if (!isFields(patch) || patch["$patch"] === "delete") return [];
    const before = elements.find((element) => nameOf(element) === patch[field]);
    return [mergeFields(isFields(before) ? before : {}, patch, true)];
  });
  return [...merged, ...elements.filter((element) => !named.has(nameOf(element)))];
}
