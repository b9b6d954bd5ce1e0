// The manifests as tests see them: rendered by kubectl, looked into by path, judged by schemas. No
// cluster is needed.

import { execFileSync } from "node:child_process";
import path from "node:path";
import { dumpYaml, loadYaml } from "@kubernetes/client-node";
import { parse, parseAllDocuments, stringify } from "yaml";

/** Anything with names in it. */
export type Fields = Record<string, unknown>;

/** What `kubectl apply` would be given. */
export interface KubernetesObject extends Fields {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly spec: Fields;
}

/** A container of a pod template. */
export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly resources: { readonly requests: Fields; readonly limits: Fields };
  readonly securityContext: Fields;
  readonly readinessProbe?: Fields;
  readonly livenessProbe?: Fields;
}

/** The repository's root. */
export const repositoryRoot: string = path.resolve(import.meta.dirname, "../..");

/** Whether a program of this name can be run here; says so on stderr where it cannot. */
export function isInstalled(command: string, versionArgs: readonly string[]): boolean {
  try {
    execFileSync(command, versionArgs, { stdio: "ignore" });
    return true;
  } catch {
    process.stderr.write(`${command} is not installed: tests that need it are skipped\n`);
    return false;
  }
}

/** All objects of a YAML text. */
export function objectsOf(text: string): KubernetesObject[] {
  return parseAllDocuments(text).map((document) => {
    if (document.errors[0] !== undefined) throw document.errors[0];
    return document.toJSON() as KubernetesObject;
  });
}

/** What kubectl gave for each kustomization: all tests of a process ask it once. */
const renderedTexts = new Map<string, string>();

/** What a kustomization below `deploy/kubernetes` renders to; no test changes those files. */
export function render(kustomization: string): KubernetesObject[] {
  const directory = path.join(repositoryRoot, "deploy/kubernetes", kustomization);
  const text =
    renderedTexts.get(kustomization) ??
    execFileSync("kubectl", ["kustomize", directory], { encoding: "utf8" });
  renderedTexts.set(kustomization, text);
  return objectsOf(text);
}

/** Whether the object belongs to the Prometheus operator, to KEDA or to cert-manager, not to Kubernetes. */
export function isForOperator(object: KubernetesObject): boolean {
  return /^(monitoring\.coreos\.com|keda\.sh|cert-manager\.io)\//.test(object.apiVersion);
}

/** Fields of what cert-manager is given here, as its reference names them; those it must have first. */
const CERT_MANAGER_FIELDS: Readonly<Record<string, readonly [string, string]>> = {
  Issuer: ["", "selfSigned ca acme vault venafi"],
  Certificate: [
    "secretName issuerRef",
    "isCA commonName duration renewBefore privateKey usages dnsNames ipAddresses uris subject",
  ],
};

function certManagerErrors({ kind, apiVersion, metadata, spec }: KubernetesObject): string[] {
  const fields = CERT_MANAGER_FIELDS[kind];
  const where = `${kind}/${metadata.name}`;
  if (fields === undefined || apiVersion !== "cert-manager.io/v1") return [`${where} is unknown`];
  const [needed, further] = fields.map((names) => names.split(" ").filter(Boolean)) as [
    string[],
    string[],
  ];
  return [
    ...needed.filter((name) => !(name in spec)).map((name) => `${where} lacks ${name}`),
    ...Object.keys(spec)
      .filter((name) => ![...needed, ...further].includes(name))
      .map((name) => `${where} has ${name}`),
  ];
}

/** Packages with the schemas of operators, by group. */
const MODELS_OF: Readonly<Record<string, string>> = {
  "monitoring.coreos.com": "@kubernetes-models/prometheus-operator",
  "keda.sh": "@kubernetes-models/keda",
};

/** Wrong types and missing fields, by the OpenAPI rules of Kubernetes, the Prometheus operator and KEDA. */
export async function schemaErrors(object: KubernetesObject): Promise<string[]> {
  if (object.apiVersion.startsWith("cert-manager.io/")) return certManagerErrors(object);
  const [group] = object.apiVersion.split("/");
  const models = MODELS_OF[group!] ?? "kubernetes-models";
  const module = (await import(`${models}/${object.apiVersion}/${object.kind}`)) as Record<
    string,
    new (data: unknown) => { validate(): void }
  >;
  const Model = module[object.kind];
  if (Model === undefined) return [`${object.kind} is unknown`];
  try {
    new Model(object).validate();
    return [];
  } catch (error) {
    return [`${object.kind}/${object.metadata.name}: ${String(error)}`];
  }
}

/** Misspelt fields: Kubernetes' typed client drops what it does not know. */
export function unknownFields(object: KubernetesObject): string[] {
  const kept: unknown = parse(dumpYaml(loadYaml(stringify(object))));
  return lostFields(object, kept, `${object.kind}/${object.metadata.name}`);
}

function lostFields(before: unknown, after: unknown, place: string): string[] {
  if (before === null || typeof before !== "object") return [];
  return Object.entries(before).flatMap(([key, value]) => {
    const kept = (after as Fields | undefined)?.[key];
    return kept === undefined ? [`${place}/${key}`] : lostFields(value, kept, `${place}/${key}`);
  });
}

/** The object of this kind and name. @throws Error if there is none */
export function find(
  objects: readonly KubernetesObject[],
  kind: string,
  name: string,
): KubernetesObject {
  const found = objects.find((object) => object.kind === kind && object.metadata.name === name);
  if (found === undefined) throw new Error(`${kind}/${name} is not rendered`);
  return found;
}

/** What lies at a path; `undefined` where the path ends early. */
export function at(value: unknown, ...keys: readonly string[]): unknown {
  return keys.reduce<unknown>((inner, key) => (inner as Fields | undefined)?.[key], value);
}

/** Whether the object makes pods. */
export function isWorkload(object: KubernetesObject): boolean {
  return at(object, "spec", "template") !== undefined;
}

/** Labels of the pods that a workload makes. */
export function podLabels(workload: KubernetesObject): Readonly<Record<string, string>> {
  return at(workload.spec, "template", "metadata", "labels") as Record<string, string>;
}

/** Containers of the pods that a workload makes. */
export function containersOf(workload: KubernetesObject): Container[] {
  return at(workload.spec, "template", "spec", "containers") as Container[];
}

/** Whether labels are as a selector's `matchLabels` wants them; none given fits all. */
export function fits(
  labels: Readonly<Record<string, string>>,
  selector: { readonly matchLabels?: Readonly<Record<string, string>> },
): boolean {
  return Object.entries(selector.matchLabels ?? {}).every(([key, value]) => labels[key] === value);
}
