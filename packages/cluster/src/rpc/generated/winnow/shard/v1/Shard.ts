// Original file: proto/winnow/shard/v1/shard.proto

import type * as grpc from "@grpc/grpc-js";
import type { MethodDefinition } from "@grpc/proto-loader";
import type {
  Announcement as _winnow_shard_v1_Announcement,
  Announcement__Output as _winnow_shard_v1_Announcement__Output,
} from "../../../winnow/shard/v1/Announcement.ts";
import type {
  DescribeRequest as _winnow_shard_v1_DescribeRequest,
  DescribeRequest__Output as _winnow_shard_v1_DescribeRequest__Output,
} from "../../../winnow/shard/v1/DescribeRequest.ts";
import type {
  DrainWorkerReply as _winnow_shard_v1_DrainWorkerReply,
  DrainWorkerReply__Output as _winnow_shard_v1_DrainWorkerReply__Output,
} from "../../../winnow/shard/v1/DrainWorkerReply.ts";
import type {
  DrainWorkerRequest as _winnow_shard_v1_DrainWorkerRequest,
  DrainWorkerRequest__Output as _winnow_shard_v1_DrainWorkerRequest__Output,
} from "../../../winnow/shard/v1/DrainWorkerRequest.ts";
import type {
  FollowOrderReply as _winnow_shard_v1_FollowOrderReply,
  FollowOrderReply__Output as _winnow_shard_v1_FollowOrderReply__Output,
} from "../../../winnow/shard/v1/FollowOrderReply.ts";
import type {
  FollowOrderRequest as _winnow_shard_v1_FollowOrderRequest,
  FollowOrderRequest__Output as _winnow_shard_v1_FollowOrderRequest__Output,
} from "../../../winnow/shard/v1/FollowOrderRequest.ts";
import type {
  GetOrderReply as _winnow_shard_v1_GetOrderReply,
  GetOrderReply__Output as _winnow_shard_v1_GetOrderReply__Output,
} from "../../../winnow/shard/v1/GetOrderReply.ts";
import type {
  GetOrderRequest as _winnow_shard_v1_GetOrderRequest,
  GetOrderRequest__Output as _winnow_shard_v1_GetOrderRequest__Output,
} from "../../../winnow/shard/v1/GetOrderRequest.ts";
import type {
  ProgramChunk as _winnow_shard_v1_ProgramChunk,
  ProgramChunk__Output as _winnow_shard_v1_ProgramChunk__Output,
} from "../../../winnow/shard/v1/ProgramChunk.ts";
import type {
  ProgramRequest as _winnow_shard_v1_ProgramRequest,
  ProgramRequest__Output as _winnow_shard_v1_ProgramRequest__Output,
} from "../../../winnow/shard/v1/ProgramRequest.ts";
import type {
  RouterFrame as _winnow_shard_v1_RouterFrame,
  RouterFrame__Output as _winnow_shard_v1_RouterFrame__Output,
} from "../../../winnow/shard/v1/RouterFrame.ts";
import type {
  WorkerFrame as _winnow_shard_v1_WorkerFrame,
  WorkerFrame__Output as _winnow_shard_v1_WorkerFrame__Output,
} from "../../../winnow/shard/v1/WorkerFrame.ts";

export interface ShardClient extends grpc.Client {
  /**
   * Who this worker is and what it holds.
   */
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  Describe(
    argument: _winnow_shard_v1_DescribeRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * Who this worker is and what it holds.
   */
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;
  describe(
    argument: _winnow_shard_v1_DescribeRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_Announcement__Output>,
  ): grpc.ClientUnaryCall;

  /**
   * Has this worker hand over and end, as on SIGTERM. Answered when the drain has begun.
   */
  DrainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  DrainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  DrainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  DrainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * Has this worker hand over and end, as on SIGTERM. Answered when the drain has begun.
   */
  drainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  drainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  drainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;
  drainWorker(
    argument: _winnow_shard_v1_DrainWorkerRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_DrainWorkerReply__Output>,
  ): grpc.ClientUnaryCall;

  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  Exchange(
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  Exchange(
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  exchange(
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;
  exchange(
    options?: grpc.CallOptions,
  ): grpc.ClientDuplexStream<_winnow_shard_v1_RouterFrame, _winnow_shard_v1_WorkerFrame__Output>;

  /**
   * Hands on the models order in force, or asks whether the worker would follow a draft of one.
   */
  FollowOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  FollowOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  FollowOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  FollowOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * Hands on the models order in force, or asks whether the worker would follow a draft of one.
   */
  followOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  followOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  followOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  followOrder(
    argument: _winnow_shard_v1_FollowOrderRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_FollowOrderReply__Output>,
  ): grpc.ClientUnaryCall;

  /**
   * The highest models order that this worker knows.
   */
  GetOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  GetOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  GetOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  GetOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  /**
   * The highest models order that this worker knows.
   */
  getOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    metadata: grpc.Metadata,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  getOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    metadata: grpc.Metadata,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  getOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    options: grpc.CallOptions,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;
  getOrder(
    argument: _winnow_shard_v1_GetOrderRequest,
    callback: grpc.requestCallback<_winnow_shard_v1_GetOrderReply__Output>,
  ): grpc.ClientUnaryCall;

  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  GetProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  GetProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  getProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    metadata: grpc.Metadata,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
  getProgram(
    argument: _winnow_shard_v1_ProgramRequest,
    options?: grpc.CallOptions,
  ): grpc.ClientReadableStream<_winnow_shard_v1_ProgramChunk__Output>;
}

export interface ShardHandlers extends grpc.UntypedServiceImplementation {
  /**
   * Who this worker is and what it holds.
   */
  Describe: grpc.handleUnaryCall<
    _winnow_shard_v1_DescribeRequest__Output,
    _winnow_shard_v1_Announcement
  >;

  /**
   * Has this worker hand over and end, as on SIGTERM. Answered when the drain has begun.
   */
  DrainWorker: grpc.handleUnaryCall<
    _winnow_shard_v1_DrainWorkerRequest__Output,
    _winnow_shard_v1_DrainWorkerReply
  >;

  /**
   * The data path. Both sides greet first; then queries and replies, matched by id.
   */
  Exchange: grpc.handleBidiStreamingCall<
    _winnow_shard_v1_RouterFrame__Output,
    _winnow_shard_v1_WorkerFrame
  >;

  /**
   * Hands on the models order in force, or asks whether the worker would follow a draft of one.
   */
  FollowOrder: grpc.handleUnaryCall<
    _winnow_shard_v1_FollowOrderRequest__Output,
    _winnow_shard_v1_FollowOrderReply
  >;

  /**
   * The highest models order that this worker knows.
   */
  GetOrder: grpc.handleUnaryCall<
    _winnow_shard_v1_GetOrderRequest__Output,
    _winnow_shard_v1_GetOrderReply
  >;

  /**
   * The program of one version, in chunks (core/program/program-codec).
   */
  GetProgram: grpc.handleServerStreamingCall<
    _winnow_shard_v1_ProgramRequest__Output,
    _winnow_shard_v1_ProgramChunk
  >;
}

export interface ShardDefinition extends grpc.ServiceDefinition {
  Describe: MethodDefinition<
    _winnow_shard_v1_DescribeRequest,
    _winnow_shard_v1_Announcement,
    _winnow_shard_v1_DescribeRequest__Output,
    _winnow_shard_v1_Announcement__Output
  >;
  DrainWorker: MethodDefinition<
    _winnow_shard_v1_DrainWorkerRequest,
    _winnow_shard_v1_DrainWorkerReply,
    _winnow_shard_v1_DrainWorkerRequest__Output,
    _winnow_shard_v1_DrainWorkerReply__Output
  >;
  Exchange: MethodDefinition<
    _winnow_shard_v1_RouterFrame,
    _winnow_shard_v1_WorkerFrame,
    _winnow_shard_v1_RouterFrame__Output,
    _winnow_shard_v1_WorkerFrame__Output
  >;
  FollowOrder: MethodDefinition<
    _winnow_shard_v1_FollowOrderRequest,
    _winnow_shard_v1_FollowOrderReply,
    _winnow_shard_v1_FollowOrderRequest__Output,
    _winnow_shard_v1_FollowOrderReply__Output
  >;
  GetOrder: MethodDefinition<
    _winnow_shard_v1_GetOrderRequest,
    _winnow_shard_v1_GetOrderReply,
    _winnow_shard_v1_GetOrderRequest__Output,
    _winnow_shard_v1_GetOrderReply__Output
  >;
  GetProgram: MethodDefinition<
    _winnow_shard_v1_ProgramRequest,
    _winnow_shard_v1_ProgramChunk,
    _winnow_shard_v1_ProgramRequest__Output,
    _winnow_shard_v1_ProgramChunk__Output
  >;
}
