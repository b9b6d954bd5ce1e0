// Entrance of the package: the predict API over HTTP and gRPC, scatter and gather.

export type { AnsweredCall, GrpcObserver } from "./grpc/grpc-observer.ts";
export { servingDescriptor } from "./grpc/generated/serving-descriptor.ts";
export { openGrpcServer } from "./grpc/grpc-opening.ts";
export type { GrpcServer } from "./grpc/server/grpc-server.ts";
export type { GrpcOptions, GrpcSettings } from "./grpc/grpc-settings.ts";
export type { ReloadModels, ReloadedModel, VersionPolicy } from "./grpc/calls/reload-call.ts";
export type { GrpcEnvironment } from "./grpc/server/serving-handlers.ts";
export { createHttpServer } from "./http/server/http-server.ts";
export type { HttpEnvironment, HttpServer } from "./http/server/http-server.ts";
export type {
  AnsweredRequest,
  HttpObserver,
  MetricsPage,
  PageFile,
  PageFiles,
} from "./http/http-observer.ts";
export { resolveHttpOptions } from "./http/http-settings.ts";
export type { HttpOptions, HttpSettings } from "./http/http-settings.ts";
export { createMetrics } from "./metrics/metrics.ts";
export type { Metrics } from "./metrics/metrics.ts";
export type {
  ModelTarget,
  PinnedModel,
  Prediction,
  PredictRequest,
  Predictor,
  ServingState,
  VersionStatus,
} from "./predictor.ts";
export type {
  ClusterStatus,
  ModelStatus,
  PartitionCounts,
  WorkerStatus,
} from "./workers/cluster-status.ts";
export { namedWorkers } from "./versions/model-orders.ts";
export type { Laggard, ModelOrders, OrderStatus } from "./versions/model-orders.ts";
export { ClusterWatch } from "./report/cluster-watch.ts";
export type { ClusterWatchParts, ReportedRouter } from "./report/cluster-watch.ts";
export type {
  ClusterReport,
  Finding,
  ModelReport,
  Severity,
  VersionReport,
  WorkerReport,
} from "./report/report-document.ts";
export type { WatchedRouter } from "./metrics/router-gauges.ts";
export { lackOf } from "./pipeline/member-check.ts";
export type { MemberOf } from "./pipeline/member-check.ts";
export { createRouter } from "./router.ts";
export type { Router, RouterCounters, RouterDependencies } from "./router.ts";
export type { SavedWorkers } from "./workers/worker-links.ts";
export type { RouterObserver, RouterStage, SecondAttempt } from "./router-observer.ts";
export { RequestContext } from "./request-context.ts";
export type { RequestLimits } from "./limits/request-limits.ts";
export { resolveRouterOptions } from "./router-settings.ts";
export type { RouterOptions, RouterSettings } from "./router-settings.ts";
export type { VersionLabels } from "./router-settings.ts";
