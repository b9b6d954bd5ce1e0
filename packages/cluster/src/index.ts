// Entrance of the package: membership, placement, the routing table and the wire contract.

export {
  announcementFromJson,
  announcementToJson,
  isWorkerId,
} from "./announcement/announcement-codec.ts";
export {
  VERSIONS_ANNOUNCED_MAX,
  holdingOf,
  holdingsOf,
  newestIncarnations,
} from "./announcement/announcement.ts";
export type {
  Announcement,
  HeldPartition,
  TableHolding,
  VersionHolding,
  WorkerState,
} from "./announcement/announcement.ts";
export { GrpcDoor } from "./grpc-door/grpc-door.ts";
export type { GrpcDoorParts, GrpcDoorSettings, PlaceLimits } from "./grpc-door/grpc-door.ts";
export { readContact } from "./announcement/contact.ts";
export type { Contact, WrittenContact } from "./announcement/contact.ts";
export type { MembershipStore, MembershipView, SilentMember } from "./membership/membership.ts";
export { createKey, readKeys, withoutKeys } from "./keys/api-keys.ts";
export type { ApiKeys, KeyRole, NewKey } from "./keys/api-keys.ts";
export { KeyGuard, TooManyRequests, authorizationOf } from "./keys/key-guard.ts";
export type { Admitted, KeyObserver, KeyOutcome } from "./keys/key-guard.ts";
export { checkedUrl, loadRedis } from "./membership/redis-connection.ts";
export type { OpenRedis, RedisAccess } from "./membership/redis-connection.ts";
export { RedisMembership } from "./membership/redis-membership.ts";
export type { RedisMembershipSettings } from "./membership/redis-membership.ts";
export { RedisSeenItems } from "./seen/redis-seen-items.ts";
export type { SeenItems, SeenMembers, SeenQuestion } from "./seen/seen-items.ts";
export { probeRedis } from "./membership/redis-probe.ts";
export { StaticMembership, parseMembers } from "./membership/static-membership.ts";
export type { Describe, StaticMembershipSettings } from "./membership/static-membership.ts";
export { incarnationAbove, meet, renumbered, unmet } from "./announcement/succession.ts";
export type { Meeting, Succession } from "./announcement/succession.ts";
export { signDrain } from "./orders/drain-order.ts";
export { ORDER_LIMITS, isAbove, isSameOrder } from "./orders/models-order.ts";
export type { ModelsOrder, OrderMark, OrderedModel, OrderedModels } from "./orders/models-order.ts";
export { OrderBook } from "./orders/order-book.ts";
export type { OrderAuthor, OrderBookParts } from "./orders/order-book.ts";
export type { OrderStore } from "./orders/order-store.ts";
export { partitionName, place, placeTable } from "./placement/placement.ts";
export type { PlacedTable } from "./placement/placement.ts";
export { fewerOwners } from "./placement/fewer-owners.ts";
export { replicationOf, swapReplicasOf } from "./placement/replication.ts";
export type { Replication } from "./placement/replication.ts";
export type { PlacementOptions } from "./placement/placement.ts";
export { planQueries } from "./routing/query-plan.ts";
export { isSameVersion, rolloutsOf, servingVersion } from "./default-version/rollout.ts";
export type { RolloutContext, VersionRollout } from "./default-version/rollout.ts";
export { partitionRanges } from "./routing/partition-ranges.ts";
export { haveEqualShares, proveTable } from "./routing/routed-table.ts";
export type { ReplicaConflict, RoutedTable, TableProof } from "./routing/routed-table.ts";
export { isComplete, isServable } from "./routing/routed-version.ts";
export type { RoutedStatus, RoutedVersion } from "./routing/routed-version.ts";
export { buildRoutingTable, routedVersion } from "./routing/routing-table.ts";
export type {
  RoutedModel,
  RoutedWorker,
  RoutingContext,
  RoutingTable,
} from "./routing/routing-table.ts";
export type {
  FailureReason,
  KeyedRows,
  LookupAsk,
  MemberNews,
  Pong,
  RouterFrame,
  ScanCounts,
  TopKAsk,
  WorkerAnswer,
  WorkerAsk,
  WorkerFrame,
  WorkerQuery,
  WorkerReply,
} from "./rpc/frames/frames.ts";
export { HealthService } from "./rpc/health-service.ts";
export { logGrpcFaults } from "./rpc/grpc-log.ts";
export { listenFault } from "./rpc/listen-fault.ts";
export type { HealthStatus } from "./rpc/health-service.ts";
export { keyBytes } from "./rpc/frames/key-codec.ts";
export type { Question } from "./rpc/query-window.ts";
export { GrpcConnector } from "./rpc/grpc-connector.ts";
export { WorkerChannel } from "./rpc/shard-channel.ts";
export type {
  Asked,
  WorkerChannelListener,
  WorkerChannelParts,
  WorkerChannelSettings,
  WorkerChannelState,
} from "./rpc/shard-channel.ts";
export { WorkerServer } from "./rpc/shard-server.ts";
export type {
  ListenForRouters,
  WorkerHealth,
  WorkerListener,
  WorkerServerParts,
  WorkerServerSettings,
} from "./rpc/shard-server.ts";
export type {
  FrameChannel,
  FrameHandlers,
  OrderMessage,
  ProgramQuery,
  WorkerConnector,
} from "./rpc/worker-connector.ts";
export type { LinkHandlers, ReceivedDrain, WorkerLink, WorkerService } from "./rpc/worker-link.ts";
export { openStateFile, stateFault, stateFileName } from "./state/state-file.ts";
export type { StateFile } from "./state/state-file.ts";
export { isMember, portCredentials } from "./tls/grpc-credentials.ts";
export type { ClusterTls } from "./tls/grpc-credentials.ts";
export { assertCertified, createHttpsServer } from "./tls/https-server.ts";
export { UNACCEPTED_MAX, keepRoom } from "./http-door/connection-room.ts";
export type { ConnectionRoom } from "./http-door/connection-room.ts";
export { peerNamed } from "./tls/peer-name.ts";
export type { PeerName } from "./tls/peer-name.ts";
export { memberFault } from "./tls/member-fault.ts";
export { TlsFiles, openTlsFiles, readTlsFile } from "./tls/tls-files.ts";
export { addMemberMetrics } from "./metrics/member-metrics.ts";
export type { MemberMetricsOptions } from "./metrics/member-metrics.ts";
export type { TlsFilesParts, TlsSource, TlsStatus } from "./tls/tls-files.ts";
export { TLS_LIMITS, secureOptions } from "./tls/tls-material.ts";
export type { TlsFileNames, TlsMaterial } from "./tls/tls-material.ts";
export { ClusterSecret, noSecret, readSecrets } from "./trust/cluster-secret.ts";
export type { ClusterSecretSettings } from "./trust/cluster-secret.ts";
export { isLoopback } from "./trust/loopback.ts";
export { RefusedRecords } from "./trust/refused-records.ts";
export type { RefusalCounts, RefusalReason } from "./trust/refused-records.ts";
export { anyAddress, parseAddress, parseAddressRules } from "./trust/worker-address.ts";
export type { AddressRules, HostAndPort } from "./trust/worker-address.ts";
