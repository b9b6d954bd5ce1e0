// gRPC's health service (https://grpc.io/docs/guides/health-checking), with the answers of
// grpc-health-check. That package would load protobufjs and a .proto file at start, for two
// messages.

import { status } from "@grpc/grpc-js";
import type {
  Server,
  ServerWritableStream,
  ServiceDefinition,
  handleServerStreamingCall,
  handleUnaryCall,
} from "@grpc/grpc-js";
import { ProtobufWriter } from "@winnow/core";
import { MessageCodec } from "./frames/message-codec.ts";

/** The health of a service. */
export type HealthStatus = "SERVING" | "NOT_SERVING";

interface HealthRequest {
  readonly service: string;
}

interface HealthReply {
  readonly status: number;
}

type HealthWatch = ServerWritableStream<HealthRequest, HealthReply>;

/** `ServingStatus` of health.proto. */
const STATUS_NUMBERS: Readonly<Record<HealthStatus, number>> = { SERVING: 1, NOT_SERVING: 2 };
const SERVICE_UNKNOWN = 3;
const NAMES_LISTED_MAX = 100;

const codec = new MessageCodec({
  Health: {
    methods: {
      Check: { requestType: "HealthCheckRequest", responseType: "HealthCheckResponse" },
      Watch: {
        requestType: "HealthCheckRequest",
        responseType: "HealthCheckResponse",
        responseStream: true,
      },
      List: { requestType: "HealthListRequest", responseType: "HealthCheckResponse" },
    },
  },
  HealthCheckRequest: { fields: { service: { type: "string", id: 1 } } },
  HealthCheckResponse: { fields: { status: { type: "uint32", id: 1 } } },
  HealthListRequest: { fields: {} },
});
const methods = codec.service("grpc.health.v1", "Health");
const healthService: ServiceDefinition = {
  ...methods,
  List: { ...methods["List"]!, responseSerialize: encodeList },
};

/** Answers health checks from the statuses that were set last. */
export class HealthService {
  readonly #numbers = new Map<string, number>();
  readonly #watches = new Map<string, Set<HealthWatch>>();

  /** Sets the health of a service and sends it to its watches. */
  setStatus(service: string, health: HealthStatus): void {
    const number = STATUS_NUMBERS[health];
    this.#numbers.set(service, number);
    for (const watch of this.#watches.get(service) ?? []) watch.write({ status: number });
  }

  /** Adds the health service to a server that does not listen yet. */
  addToServer(server: Server): void {
    server.addService(healthService, {
      Check: this.#check,
      Watch: this.#watch,
      List: this.#list,
    });
  }

  readonly #check: handleUnaryCall<HealthRequest, HealthReply> = ({ request }, reply) => {
    const number = this.#numbers.get(request.service);
    if (number !== undefined) return reply(null, { status: number });
    const details = `Health status unknown for service ${request.service}`;
    reply({ code: status.NOT_FOUND, details });
  };

  readonly #watch: handleServerStreamingCall<HealthRequest, HealthReply> = (call) => {
    const { service } = call.request;
    const watches = this.#watches.get(service) ?? new Set();
    this.#watches.set(service, watches.add(call));
    call.on("cancelled", () => {
      watches.delete(call);
      if (watches.size === 0 && this.#watches.get(service) === watches) {
        this.#watches.delete(service);
      }
    });
    call.write({ status: this.#numbers.get(service) ?? SERVICE_UNKNOWN });
  };

  readonly #list: handleUnaryCall<object, ReadonlyMap<string, number>> = (_, reply) => {
    if (this.#numbers.size <= NAMES_LISTED_MAX) return reply(null, this.#numbers);
    reply({ code: status.RESOURCE_EXHAUSTED, details: "Too many services to list." });
  };
}

/** HealthListResponse { map<string, HealthCheckResponse> statuses = 1; } */
function encodeList(numbers: ReadonlyMap<string, number>): Buffer {
  const writer = new ProtobufWriter();
  for (const [service, number] of numbers) {
    writer.entry(1, service, (value) => value.int(1, number));
  }
  return writer.finish();
}
