// The worker's gRPC server: streams of routers, Describe, GetProgram, health.

import { WinnowError } from "@winnow/core";
import type { Environment } from "@winnow/core";
import type { WorkerService } from "./worker-link.ts";

/** What Kubernetes' probes ask: first load done; event loop turns; takes traffic. */
export interface WorkerHealth {
  readonly started: boolean;
  readonly ready: boolean;
}

/** Where and how a worker listens. */
export interface WorkerServerSettings {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly messageBytesMax: number;
  /** Bytes of replies a router may leave unread before it is disconnected. */
  readonly unreadBytesMax: number;
}

/** A listening worker. */
export class WorkerServer {
  readonly port: number;

  private constructor(port: number) {
    this.port = port;
  }

  /** Listens. @throws WinnowError UNAVAILABLE when the port is taken */
  static async listen(
    parts: { readonly service: WorkerService; readonly environment: Environment },
    settings: Partial<WorkerServerSettings>,
  ): Promise<WorkerServer> {
    throw new WinnowError(
      "UNIMPLEMENTED",
      `${settings.port}${parts.service.announcement().address}`,
    );
  }

  /** Sets what the health service answers. */
  setHealth(health: WorkerHealth): void {
    void health;
  }

  /**
   * Refuses new streams, sends DRAIN on each open one, waits until the routers have ended them (at
   * most `graceMs`), then closes the server.
   */
  async drain(graceMs: number): Promise<void> {
    throw new WinnowError("UNIMPLEMENTED", String(graceMs));
  }

  /** Closes at once. */
  close(): void {}
}
