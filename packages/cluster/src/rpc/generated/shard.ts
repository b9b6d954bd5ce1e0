import type * as grpc from "@grpc/grpc-js";
import type { MessageTypeDefinition } from "@grpc/proto-loader";

import type {
  Announcement as _winnow_shard_v1_Announcement,
  Announcement__Output as _winnow_shard_v1_Announcement__Output,
} from "./winnow/shard/v1/Announcement.ts";
import type {
  Cancel as _winnow_shard_v1_Cancel,
  Cancel__Output as _winnow_shard_v1_Cancel__Output,
} from "./winnow/shard/v1/Cancel.ts";
import type {
  DescribeRequest as _winnow_shard_v1_DescribeRequest,
  DescribeRequest__Output as _winnow_shard_v1_DescribeRequest__Output,
} from "./winnow/shard/v1/DescribeRequest.ts";
import type {
  Drain as _winnow_shard_v1_Drain,
  Drain__Output as _winnow_shard_v1_Drain__Output,
} from "./winnow/shard/v1/Drain.ts";
import type {
  DrainWorkerReply as _winnow_shard_v1_DrainWorkerReply,
  DrainWorkerReply__Output as _winnow_shard_v1_DrainWorkerReply__Output,
} from "./winnow/shard/v1/DrainWorkerReply.ts";
import type {
  DrainWorkerRequest as _winnow_shard_v1_DrainWorkerRequest,
  DrainWorkerRequest__Output as _winnow_shard_v1_DrainWorkerRequest__Output,
} from "./winnow/shard/v1/DrainWorkerRequest.ts";
import type {
  Failure as _winnow_shard_v1_Failure,
  Failure__Output as _winnow_shard_v1_Failure__Output,
} from "./winnow/shard/v1/Failure.ts";
import type {
  FollowOrderReply as _winnow_shard_v1_FollowOrderReply,
  FollowOrderReply__Output as _winnow_shard_v1_FollowOrderReply__Output,
} from "./winnow/shard/v1/FollowOrderReply.ts";
import type {
  FollowOrderRequest as _winnow_shard_v1_FollowOrderRequest,
  FollowOrderRequest__Output as _winnow_shard_v1_FollowOrderRequest__Output,
} from "./winnow/shard/v1/FollowOrderRequest.ts";
import type {
  GetOrderReply as _winnow_shard_v1_GetOrderReply,
  GetOrderReply__Output as _winnow_shard_v1_GetOrderReply__Output,
} from "./winnow/shard/v1/GetOrderReply.ts";
import type {
  GetOrderRequest as _winnow_shard_v1_GetOrderRequest,
  GetOrderRequest__Output as _winnow_shard_v1_GetOrderRequest__Output,
} from "./winnow/shard/v1/GetOrderRequest.ts";
import type {
  Heard as _winnow_shard_v1_Heard,
  Heard__Output as _winnow_shard_v1_Heard__Output,
} from "./winnow/shard/v1/Heard.ts";
import type {
  KeyedRows as _winnow_shard_v1_KeyedRows,
  KeyedRows__Output as _winnow_shard_v1_KeyedRows__Output,
} from "./winnow/shard/v1/KeyedRows.ts";
import type {
  Keys as _winnow_shard_v1_Keys,
  Keys__Output as _winnow_shard_v1_Keys__Output,
} from "./winnow/shard/v1/Keys.ts";
import type {
  LookupAnswer as _winnow_shard_v1_LookupAnswer,
  LookupAnswer__Output as _winnow_shard_v1_LookupAnswer__Output,
} from "./winnow/shard/v1/LookupAnswer.ts";
import type {
  LookupAsk as _winnow_shard_v1_LookupAsk,
  LookupAsk__Output as _winnow_shard_v1_LookupAsk__Output,
} from "./winnow/shard/v1/LookupAsk.ts";
import type {
  Member as _winnow_shard_v1_Member,
  Member__Output as _winnow_shard_v1_Member__Output,
} from "./winnow/shard/v1/Member.ts";
import type {
  Members as _winnow_shard_v1_Members,
  Members__Output as _winnow_shard_v1_Members__Output,
} from "./winnow/shard/v1/Members.ts";
import type {
  Ping as _winnow_shard_v1_Ping,
  Ping__Output as _winnow_shard_v1_Ping__Output,
} from "./winnow/shard/v1/Ping.ts";
import type {
  Pong as _winnow_shard_v1_Pong,
  Pong__Output as _winnow_shard_v1_Pong__Output,
} from "./winnow/shard/v1/Pong.ts";
import type {
  Predecessor as _winnow_shard_v1_Predecessor,
  Predecessor__Output as _winnow_shard_v1_Predecessor__Output,
} from "./winnow/shard/v1/Predecessor.ts";
import type {
  ProgramChunk as _winnow_shard_v1_ProgramChunk,
  ProgramChunk__Output as _winnow_shard_v1_ProgramChunk__Output,
} from "./winnow/shard/v1/ProgramChunk.ts";
import type {
  ProgramRequest as _winnow_shard_v1_ProgramRequest,
  ProgramRequest__Output as _winnow_shard_v1_ProgramRequest__Output,
} from "./winnow/shard/v1/ProgramRequest.ts";
import type {
  Query as _winnow_shard_v1_Query,
  Query__Output as _winnow_shard_v1_Query__Output,
} from "./winnow/shard/v1/Query.ts";
import type {
  QueryBatch as _winnow_shard_v1_QueryBatch,
  QueryBatch__Output as _winnow_shard_v1_QueryBatch__Output,
} from "./winnow/shard/v1/QueryBatch.ts";
import type {
  Reply as _winnow_shard_v1_Reply,
  Reply__Output as _winnow_shard_v1_Reply__Output,
} from "./winnow/shard/v1/Reply.ts";
import type {
  ReplyBatch as _winnow_shard_v1_ReplyBatch,
  ReplyBatch__Output as _winnow_shard_v1_ReplyBatch__Output,
} from "./winnow/shard/v1/ReplyBatch.ts";
import type {
  RouterFrame as _winnow_shard_v1_RouterFrame,
  RouterFrame__Output as _winnow_shard_v1_RouterFrame__Output,
} from "./winnow/shard/v1/RouterFrame.ts";
import type {
  RouterHello as _winnow_shard_v1_RouterHello,
  RouterHello__Output as _winnow_shard_v1_RouterHello__Output,
} from "./winnow/shard/v1/RouterHello.ts";
import type {
  ShardClient as _winnow_shard_v1_ShardClient,
  ShardDefinition as _winnow_shard_v1_ShardDefinition,
} from "./winnow/shard/v1/Shard.ts";
import type {
  Strings as _winnow_shard_v1_Strings,
  Strings__Output as _winnow_shard_v1_Strings__Output,
} from "./winnow/shard/v1/Strings.ts";
import type {
  TableHolding as _winnow_shard_v1_TableHolding,
  TableHolding__Output as _winnow_shard_v1_TableHolding__Output,
} from "./winnow/shard/v1/TableHolding.ts";
import type {
  TopKAnswer as _winnow_shard_v1_TopKAnswer,
  TopKAnswer__Output as _winnow_shard_v1_TopKAnswer__Output,
} from "./winnow/shard/v1/TopKAnswer.ts";
import type {
  TopKAsk as _winnow_shard_v1_TopKAsk,
  TopKAsk__Output as _winnow_shard_v1_TopKAsk__Output,
} from "./winnow/shard/v1/TopKAsk.ts";
import type {
  VersionHolding as _winnow_shard_v1_VersionHolding,
  VersionHolding__Output as _winnow_shard_v1_VersionHolding__Output,
} from "./winnow/shard/v1/VersionHolding.ts";
import type {
  WorkerFrame as _winnow_shard_v1_WorkerFrame,
  WorkerFrame__Output as _winnow_shard_v1_WorkerFrame__Output,
} from "./winnow/shard/v1/WorkerFrame.ts";

type SubtypeConstructor<Constructor extends new (...args: any) => any, Subtype> = {
  new (...args: ConstructorParameters<Constructor>): Subtype;
};

export interface ProtoGrpcType {
  winnow: {
    shard: {
      v1: {
        Announcement: MessageTypeDefinition<
          _winnow_shard_v1_Announcement,
          _winnow_shard_v1_Announcement__Output
        >;
        Cancel: MessageTypeDefinition<_winnow_shard_v1_Cancel, _winnow_shard_v1_Cancel__Output>;
        DescribeRequest: MessageTypeDefinition<
          _winnow_shard_v1_DescribeRequest,
          _winnow_shard_v1_DescribeRequest__Output
        >;
        Drain: MessageTypeDefinition<_winnow_shard_v1_Drain, _winnow_shard_v1_Drain__Output>;
        DrainWorkerReply: MessageTypeDefinition<
          _winnow_shard_v1_DrainWorkerReply,
          _winnow_shard_v1_DrainWorkerReply__Output
        >;
        DrainWorkerRequest: MessageTypeDefinition<
          _winnow_shard_v1_DrainWorkerRequest,
          _winnow_shard_v1_DrainWorkerRequest__Output
        >;
        Failure: MessageTypeDefinition<_winnow_shard_v1_Failure, _winnow_shard_v1_Failure__Output>;
        FollowOrderReply: MessageTypeDefinition<
          _winnow_shard_v1_FollowOrderReply,
          _winnow_shard_v1_FollowOrderReply__Output
        >;
        FollowOrderRequest: MessageTypeDefinition<
          _winnow_shard_v1_FollowOrderRequest,
          _winnow_shard_v1_FollowOrderRequest__Output
        >;
        GetOrderReply: MessageTypeDefinition<
          _winnow_shard_v1_GetOrderReply,
          _winnow_shard_v1_GetOrderReply__Output
        >;
        GetOrderRequest: MessageTypeDefinition<
          _winnow_shard_v1_GetOrderRequest,
          _winnow_shard_v1_GetOrderRequest__Output
        >;
        Heard: MessageTypeDefinition<_winnow_shard_v1_Heard, _winnow_shard_v1_Heard__Output>;
        KeyedRows: MessageTypeDefinition<
          _winnow_shard_v1_KeyedRows,
          _winnow_shard_v1_KeyedRows__Output
        >;
        Keys: MessageTypeDefinition<_winnow_shard_v1_Keys, _winnow_shard_v1_Keys__Output>;
        LookupAnswer: MessageTypeDefinition<
          _winnow_shard_v1_LookupAnswer,
          _winnow_shard_v1_LookupAnswer__Output
        >;
        LookupAsk: MessageTypeDefinition<
          _winnow_shard_v1_LookupAsk,
          _winnow_shard_v1_LookupAsk__Output
        >;
        Member: MessageTypeDefinition<_winnow_shard_v1_Member, _winnow_shard_v1_Member__Output>;
        Members: MessageTypeDefinition<_winnow_shard_v1_Members, _winnow_shard_v1_Members__Output>;
        Ping: MessageTypeDefinition<_winnow_shard_v1_Ping, _winnow_shard_v1_Ping__Output>;
        Pong: MessageTypeDefinition<_winnow_shard_v1_Pong, _winnow_shard_v1_Pong__Output>;
        Predecessor: MessageTypeDefinition<
          _winnow_shard_v1_Predecessor,
          _winnow_shard_v1_Predecessor__Output
        >;
        ProgramChunk: MessageTypeDefinition<
          _winnow_shard_v1_ProgramChunk,
          _winnow_shard_v1_ProgramChunk__Output
        >;
        ProgramRequest: MessageTypeDefinition<
          _winnow_shard_v1_ProgramRequest,
          _winnow_shard_v1_ProgramRequest__Output
        >;
        Query: MessageTypeDefinition<_winnow_shard_v1_Query, _winnow_shard_v1_Query__Output>;
        QueryBatch: MessageTypeDefinition<
          _winnow_shard_v1_QueryBatch,
          _winnow_shard_v1_QueryBatch__Output
        >;
        Reply: MessageTypeDefinition<_winnow_shard_v1_Reply, _winnow_shard_v1_Reply__Output>;
        ReplyBatch: MessageTypeDefinition<
          _winnow_shard_v1_ReplyBatch,
          _winnow_shard_v1_ReplyBatch__Output
        >;
        RouterFrame: MessageTypeDefinition<
          _winnow_shard_v1_RouterFrame,
          _winnow_shard_v1_RouterFrame__Output
        >;
        RouterHello: MessageTypeDefinition<
          _winnow_shard_v1_RouterHello,
          _winnow_shard_v1_RouterHello__Output
        >;
        Shard: SubtypeConstructor<typeof grpc.Client, _winnow_shard_v1_ShardClient> & {
          service: _winnow_shard_v1_ShardDefinition;
        };
        Strings: MessageTypeDefinition<_winnow_shard_v1_Strings, _winnow_shard_v1_Strings__Output>;
        TableHolding: MessageTypeDefinition<
          _winnow_shard_v1_TableHolding,
          _winnow_shard_v1_TableHolding__Output
        >;
        TopKAnswer: MessageTypeDefinition<
          _winnow_shard_v1_TopKAnswer,
          _winnow_shard_v1_TopKAnswer__Output
        >;
        TopKAsk: MessageTypeDefinition<_winnow_shard_v1_TopKAsk, _winnow_shard_v1_TopKAsk__Output>;
        VersionHolding: MessageTypeDefinition<
          _winnow_shard_v1_VersionHolding,
          _winnow_shard_v1_VersionHolding__Output
        >;
        WorkerFrame: MessageTypeDefinition<
          _winnow_shard_v1_WorkerFrame,
          _winnow_shard_v1_WorkerFrame__Output
        >;
      };
    };
  };
}
