// An interceptor that checks the keys of calls before their messages are read. A key is metadata:
// `authorization: Bearer <key>`, as in an HTTP header. Health checks and the protocol's probes need none.
// Handlers learn the id of a call's key by the call's metadata, which is the same object for both.

import { ServerInterceptingCall, ServerListenerBuilder } from "@grpc/grpc-js";
import type { Metadata, ServerInterceptor } from "@grpc/grpc-js";
import type { Admitted, KeyGuard, KeyRole } from "@winnow/cluster";
import type { WinnowError } from "@winnow/core";
import { INFERENCE_SERVICE, MODEL_SERVICE, PREDICTION_SERVICE } from "../serving-definition.ts";
import { failureStatus } from "./status-details.ts";

const ROLES: ReadonlyMap<string, readonly KeyRole[]> = new Map([
  [`/${PREDICTION_SERVICE}/GetModelMetadata`, ["predict", "status"]],
  [`/${MODEL_SERVICE}/GetModelStatus`, ["status"]],
  [`/${MODEL_SERVICE}/HandleReloadConfigRequest`, ["administer"]],
  [`/${INFERENCE_SERVICE}/ModelMetadata`, ["predict", "status"]],
  [`/${INFERENCE_SERVICE}/ModelReady`, ["predict", "status"]],
  // Any key, as over HTTP.
  [`/${INFERENCE_SERVICE}/ServerMetadata`, []],
]);
const HEALTH = "/grpc.health.v1.Health/";
const PROBES: ReadonlySet<string> = new Set(
  ["ServerLive", "ServerReady"].map((method) => `/${INFERENCE_SERVICE}/${method}`),
);

/** Ids of the keys of calls that were let in. */
const idOfKey = new WeakMap<object, string>();

/** Gives, once, the id of the key with which the call of this metadata was let in. */
export function takeKeyId(metadata: object): string | undefined {
  const id = idOfKey.get(metadata);
  idOfKey.delete(metadata);
  return id;
}

/** Notes that a call was refused, and gives the metadata of its answer. */
export type RefusedCall = (path: string, metadata: Metadata, error: WinnowError) => Metadata;

/** To be passed with the server's options. */
export function keyInterceptor(keys: KeyGuard, refused: RefusedCall): ServerInterceptor {
  return ({ path }, call) => {
    if (path.startsWith(HEALTH) || PROBES.has(path)) return new ServerInterceptingCall(call);
    const roles = ROLES.get(path) ?? ["predict"];
    let admitted: Admitted | undefined;
    const listener = new ServerListenerBuilder()
      .withOnReceiveMetadata((metadata, next) => {
        try {
          const headers = metadata.get("authorization").map(String);
          admitted = keys.admit(headers.length > 1 ? headers : headers[0], roles);
          idOfKey.set(metadata, admitted.key);
        } catch (error) {
          call.sendMetadata(refused(path, metadata, error as WinnowError));
          call.sendStatus(failureStatus(error as WinnowError));
          return;
        }
        next(metadata);
      })
      .withOnCancel(() => {
        admitted?.release();
        admitted = undefined;
      })
      .build();
    return new ServerInterceptingCall(call, { start: (next) => next(listener) });
  };
}
