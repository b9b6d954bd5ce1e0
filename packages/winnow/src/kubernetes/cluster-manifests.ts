// Composes the manifests for a requested cluster: the base, the components that fit, and patches for the
// values that components leave to their users. Combinations that do not work are refused before anything is
// composed.

import { WinnowError, isObjectUrl, parseObjectUrl } from "@winnow/core";
import {
  type ImageChange,
  type Kustomization,
  type Manifest,
  type PatchEntry,
  type ReadText,
  compose,
} from "./kustomization.ts";

/** A cluster as the flags of `winnow k8s render` describe it. */
export interface ClusterRequest {
  readonly namespace: string;
  /** Image with tag or digest; `undefined`: the one in the manifests. */
  readonly image?: string;
  /** Image of workers with a GPU; `undefined`: the name of `image` with `-gpu` appended. */
  readonly gpuImage?: string;
  readonly routers: number;
  readonly workers: number;
  readonly replication: number;
  /** Replicas of versions while one replaces another; `undefined`: all. */
  readonly swapReplicas?: number;
  readonly accelerator: "cpu" | "gpu";
  /** Memory of a worker in Kubernetes' notation: `8Gi`. */
  readonly workerMemory: string;
  readonly workerCpu: string;
  /** `claim` (the one in the manifests), `claim:<name>` for an existing one, or the URL of an object store. */
  readonly models: string;
  readonly storage: string;
  readonly storageClass?: string;
  readonly redis: "own" | "external";
  readonly tls: boolean;
  /** The host of an Ingress. */
  readonly ingress?: string;
  readonly ingressClass?: string;
  readonly clusterSecret: boolean;
  readonly monitoring: boolean;
  readonly autoscaleRouters?: number;
  readonly autoscaleWorkers?: number;
  /** URL of the Prometheus server that KEDA queries. */
  readonly prometheus?: string;
}

const NAMESPACE = "winnow";
const CLAIM = "winnow-models";

/** The manifests, and the Secrets that must exist before they are applied. @throws WinnowError INVALID_ARGUMENT */
export function clusterManifests(
  request: ClusterRequest,
  folder: string,
  read: ReadText,
): { readonly manifests: readonly Manifest[]; readonly needs: readonly string[] } {
  checkRequest(request);
  const kustomization: Kustomization = {
    namespace: request.namespace,
    resources: ["base"],
    components: componentsOf(request).map((name) => `components/${name}`),
    configMapGenerator: [
      {
        name: "winnow-settings",
        behavior: "merge",
        literals: [
          `WINNOW_REPLICATION=${request.replication}`,
          ...(request.swapReplicas === undefined
            ? []
            : [`WINNOW_SWAP_REPLICAS=${request.swapReplicas}`]),
        ],
      },
    ],
    replicas: replicasOf(request),
    images: imagesOf(request),
    patches: patchesOf(request),
  };
  const manifests = compose(kustomization, folder, read);
  const placed = manifests.map((manifest) => inNamespace(manifest, request.namespace) as Manifest);
  return {
    manifests: placed.toSorted(
      (a, b) => Number(b.kind === "Namespace") - Number(a.kind === "Namespace"),
    ),
    needs: [...secretsOf(request), ...packagesOf(request)],
  };
}

function refuse(text: string): never {
  throw new WinnowError("INVALID_ARGUMENT", text);
}

const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const HOST = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$/;
const QUANTITY = /^\d+(\.\d+)?(m|[KMGTP]i?)?$/;
const IMAGE = /^[a-z0-9][\w./:-]*(@sha256:[0-9a-f]{64})?$/i;

/** Each value, the pattern that it must match, and an example. */
function valuesOf(request: ClusterRequest): [string, string | undefined, RegExp, string][] {
  const claim = /^claim:(.*)$/.exec(request.models)?.[1];
  return [
    ["--namespace", request.namespace, LABEL, "recommendations"],
    ["--image", request.image, IMAGE, "registry.example.com/winnow:1.2.3"],
    ["--gpu-image", request.gpuImage, IMAGE, "registry.example.com/winnow-gpu:1.2.3"],
    ["--worker-memory", request.workerMemory, QUANTITY, "8Gi"],
    ["--worker-cpu", request.workerCpu, QUANTITY, "4"],
    ["--storage", request.storage, QUANTITY, "100Gi"],
    ["--storage-class", request.storageClass, LABEL, "standard"],
    ["--models claim:", claim, LABEL, "claim:my-models"],
    ["--ingress", request.ingress, HOST, "recommendations.example.com"],
    ["--ingress-class", request.ingressClass, LABEL, "nginx"],
    [
      "--prometheus",
      request.prometheus,
      /^https?:\/\/[^\s"]+$/,
      "http://prometheus.monitoring.svc:9090",
    ],
  ];
}

function checkRequest(request: ClusterRequest): void {
  for (const [flag, value, form, example] of valuesOf(request)) {
    if (value === undefined || form.test(value)) continue;
    refuse(`${flag} "${value}" is not of the form that Kubernetes wants; ${example} would be`);
  }
  if (isObjectUrl(request.models)) parseObjectUrl(request.models);
  else if (!/^claim(:.+)?$/.test(request.models)) {
    refuse(
      `--models "${request.models}" is none of claim, claim:<name> and a URL of an object store (s3://<bucket>/<prefix>)`,
    );
  }
  checkTogether(request);
}

/** For each flag, whether another flag that it needs is missing. */
function checkTogether(request: ClusterRequest): void {
  const { workers, replication, routers, accelerator } = request;
  const { autoscaleRouters = routers, autoscaleWorkers = workers } = request;
  const faults: [boolean, string][] = [
    [
      replication > workers,
      `--replication ${replication} needs as many workers, but --workers is ${workers}`,
    ],
    [
      autoscaleRouters < routers || autoscaleWorkers < workers,
      "--autoscale-routers and --autoscale-workers are maxima: not less than --routers and --workers",
    ],
    [
      accelerator === "gpu" && !hasGpuImage(request),
      "--image with a digest says nothing of the image with GPUs: name it by --gpu-image",
    ],
    [
      request.ingressClass !== undefined && request.ingress === undefined,
      "--ingress-class needs --ingress <host>",
    ],
    [
      request.prometheus !== undefined && request.autoscaleWorkers === undefined,
      "--prometheus is for --autoscale-workers <most>, which is not given",
    ],
  ];
  const found = faults.find(([isFault]) => isFault);
  if (found !== undefined) refuse(found[1]);
}

/** Whether the image for GPUs is known. */
function hasGpuImage({ image, gpuImage }: ClusterRequest): boolean {
  return gpuImage !== undefined || image?.includes("@") !== true;
}

function componentsOf(request: ClusterRequest): string[] {
  const wanted: [string, boolean][] = [
    ["autoscale-router", request.autoscaleRouters !== undefined],
    ["autoscale-worker", request.autoscaleWorkers !== undefined],
    ["cluster-secret", request.clusterSecret],
    ["gpu", request.accelerator === "gpu"],
    ["ingress", request.ingress !== undefined],
    ["models-s3", isObjectUrl(request.models)],
    ["monitoring", request.monitoring],
    ["redis-external", request.redis === "external"],
    // A Redis outside the cluster has its own certificates.
    [request.redis === "own" ? "tls" : "tls-members", request.tls],
  ];
  return wanted.filter(([, isWanted]) => isWanted).map(([name]) => name);
}

/** The image has what reads s3://, and a package for another store is the user's to add. */
function packagesOf({ models }: ClusterRequest): string[] {
  const store = /^(gs|az):/.exec(models);
  if (store === null) return [];
  return [
    `an image with the package that reads ${store[1]}://: docs/object-stores.md has its lines`,
  ];
}

/** The Secrets that are to be made by hand, with the commands that make them. */
function secretsOf(request: ClusterRequest): string[] {
  const scheme = request.tls ? "rediss" : "redis";
  const needed: [string, string, boolean][] = [
    [
      "winnow-cluster-secret",
      `generic winnow-cluster-secret --from-literal=secrets="$(openssl rand -hex 32)"`,
      request.clusterSecret,
    ],
    [
      "winnow-redis",
      `generic winnow-redis --from-literal=url='${scheme}://user:password@redis.example.com:6379'`,
      request.redis === "external",
    ],
    [
      "winnow-api-keys",
      "generic winnow-api-keys --from-file=keys=FILE  # a line of winnow keys create for each client",
      request.tls,
    ],
    [
      "winnow-metrics-key",
      "generic winnow-metrics-key --from-literal=key=KEY  # by winnow keys create --id prometheus --roles status",
      request.tls && request.monitoring,
    ],
    [
      "winnow-ingress-tls",
      "tls winnow-ingress-tls --cert=CHAIN.pem --key=KEY.pem",
      request.ingress !== undefined,
    ],
  ];
  return needed
    .filter(([, , isNeeded]) => isNeeded)
    .map(([name, made]) => {
      return `the Secret ${name}: kubectl -n ${request.namespace} create secret ${made}`;
    });
}

function replicasOf(request: ClusterRequest): NonNullable<Kustomization["replicas"]> {
  const { routers, workers, autoscaleRouters, autoscaleWorkers } = request;
  return [
    ...(autoscaleRouters === undefined ? [{ name: "winnow-router", count: routers }] : []),
    ...(autoscaleWorkers === undefined ? [{ name: "winnow-shard", count: workers }] : []),
  ];
}

/** The images; workers with GPUs get the other one, by default with `-gpu` appended to its name. */
function imagesOf({ image, gpuImage }: ClusterRequest): NonNullable<Kustomization["images"]> {
  const changes = image === undefined ? [] : [imageChange("winnow", image, "")];
  if (gpuImage !== undefined) return [...changes, imageChange("winnow-gpu", gpuImage, "")];
  if (image === undefined || image.includes("@")) return changes;
  return [...changes, imageChange("winnow-gpu", image, "-gpu")];
}

function imageChange(name: string, image: string, suffix: string): ImageChange {
  const [, before, tag, digest] = /^(.*?)(?::([^/:@]*))?(?:@(.*))?$/.exec(image)!;
  return {
    name,
    newName: `${before!}${suffix}`,
    ...(tag === undefined ? {} : { newTag: tag }),
    ...(digest === undefined ? {} : { digest }),
  };
}

/** A patch of one object's fields; empty if there is no such object. */
function patch(kind: string, name: string, fields: object): PatchEntry {
  return { target: { kind, name }, patch: JSON.stringify(fields) };
}

function patchesOf(request: ClusterRequest): PatchEntry[] {
  return [
    ...workerPatches(request),
    ...modelPatches(request),
    ...scalePatches(request),
    ...ingressPatches(request),
  ];
}

function workerPatches({ workerCpu, workerMemory, replication }: ClusterRequest): PatchEntry[] {
  const resources = {
    requests: { cpu: workerCpu, memory: workerMemory },
    limits: { memory: workerMemory },
  };
  const containers = [{ name: "worker", resources }];
  // With three replicas or more, one stays beside the one that answers, so that a fault during the rollout is
  // survived.
  const maxUnavailable = Math.max(1, replication - 2);
  return [
    patch("StatefulSet", "winnow-shard", { spec: { template: { spec: { containers } } } }),
    patch("PodDisruptionBudget", "winnow-shard", { spec: { maxUnavailable } }),
  ];
}

function modelPatches({ models, storage, storageClass }: ClusterRequest): PatchEntry[] {
  const ofWorkers = (spec: object): PatchEntry =>
    patch("StatefulSet", "winnow-shard", { spec: { template: { spec } } });
  if (isObjectUrl(models)) {
    const env = [{ name: "WINNOW_MODELS", value: models }];
    return [ofWorkers({ containers: [{ name: "worker", env }] })];
  }
  if (models.startsWith("claim:")) {
    const claim = { claimName: models.slice("claim:".length), readOnly: true };
    const volumes = [{ name: "models", persistentVolumeClaim: claim }];
    return [ofWorkers({ volumes }), patch("PersistentVolumeClaim", CLAIM, { $patch: "delete" })];
  }
  const spec = {
    resources: { requests: { storage } },
    ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
  };
  return [patch("PersistentVolumeClaim", CLAIM, { spec })];
}

function scalePatches(request: ClusterRequest): PatchEntry[] {
  const { routers, workers, autoscaleRouters, autoscaleWorkers, prometheus } = request;
  const ofRouters = { minReplicas: routers, maxReplicas: autoscaleRouters };
  const ofWorkers = {
    minReplicaCount: workers,
    maxReplicaCount: autoscaleWorkers,
    fallback: { replicas: workers },
  };
  return [
    ...(autoscaleRouters === undefined
      ? []
      : [patch("HorizontalPodAutoscaler", "winnow-router", { spec: ofRouters })]),
    ...(autoscaleWorkers === undefined
      ? []
      : [patch("ScaledObject", "winnow-shard", { spec: ofWorkers })]),
    ...(prometheus === undefined ? [] : [triggerPatch(prometheus)]),
  ];
}

/** KEDA's list of triggers has no names, so the patch replaces the whole list. */
function triggerPatch(serverAddress: string): PatchEntry {
  const query = `sum(avg_over_time(winnow_worker_queue_rows{namespace="${NAMESPACE}"}[1m]))`;
  const trigger = { type: "prometheus", metadata: { serverAddress, query, threshold: "32" } };
  return patch("ScaledObject", "winnow-shard", { spec: { triggers: [trigger] } });
}

function ingressPatches({ ingress, ingressClass }: ClusterRequest): PatchEntry[] {
  if (ingress === undefined) return [];
  const backend = { service: { name: "winnow", port: { name: "rest" } } };
  const paths = [{ path: "/v1/models", pathType: "Prefix", backend }];
  const spec = {
    ...(ingressClass === undefined ? {} : { ingressClassName: ingressClass }),
    tls: [{ hosts: [ingress], secretName: "winnow-ingress-tls" }],
    rules: [{ host: ingress, http: { paths } }],
  };
  return [patch("Ingress", "winnow", { spec })];
}

/** Replaces the namespace within texts: names in certificates, and KEDA's query. */
function inNamespace(value: unknown, namespace: string): unknown {
  if (typeof value === "string") {
    return value
      .replace(/^winnow\.winnow(?=$|\.svc)/, `winnow.${namespace}`)
      .replaceAll(`{namespace="${NAMESPACE}"}`, `{namespace="${namespace}"}`);
  }
  if (Array.isArray(value)) return value.map((each) => inNamespace(each, namespace));
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, inner]) => [key, inNamespace(inner, namespace)]);
  return Object.fromEntries(entries) as unknown;
}
