// How a role reaches the cluster, from its flags: a connector for streams to workers, membership through
// Redis or a fixed list, and what decides whether other members are trusted: the cluster's secret and the
// addresses that workers may have.

import path from "node:path";
import {
  type AddressRules,
  ClusterSecret,
  type ClusterTls,
  GrpcConnector,
  type MembershipStore,
  type RedisAccess,
  type SeenItems,
  type StateFile,
  OrderBook,
  RedisMembership,
  RedisSeenItems,
  type RefusalCounts,
  RefusedRecords,
  StaticMembership,
  type WorkerConnector,
  anyAddress,
  checkedUrl,
  loadRedis,
  logGrpcFaults,
  noSecret,
  openStateFile,
  parseAddressRules,
  parseMembers,
  readSecrets,
  stateFault,
} from "@winnow/cluster";
import { type Environment, WinnowError, workerId } from "@winnow/core";
import type { SavedWorkers } from "@winnow/router";
import { openConfigFile } from "../process/config-file.ts";
import { type RedisFlags, openRedisAccess } from "./redis-access.ts";
import { type ClusterTlsFlags, ProcessTls } from "../process/process-tls.ts";

/** Flags that say how members find each other, and which of them are trusted. */
export interface ClusterOptions extends ClusterTlsFlags, RedisFlags {
  readonly members?: string | undefined;
  /** Keeps clusters that share one Redis apart. */
  readonly cluster: string;
  /** A file with the secrets that sign what is kept in Redis. */
  readonly clusterSecretFile?: string | undefined;
  /** Whether unsigned records are accepted as well. */
  readonly acceptUnsigned: boolean;
  /** Addresses that workers may have, in the form of `parseAddressRules`. */
  readonly workerAddresses?: string | undefined;
  /** Redis with the items that users have seen. Default: that of membership, if there is one. */
  readonly seenRedis?: string | undefined;
  /** Where this process keeps its state across restarts. */
  readonly stateDir?: string | undefined;
}

/** The cluster as one process reaches it. */
export interface ClusterAccess {
  readonly connector: GrpcConnector;
  readonly membership: MembershipStore;
  readonly addresses: AddressRules;
  /** Reads what users have seen; `undefined` without Redis. */
  readonly seenItems: SeenItems | undefined;
  /** TLS between members, if it is configured. */
  readonly tls: ClusterTls | undefined;
  /** Counts of refused records, by reason. */
  readonly refusals: () => RefusalCounts;
  /** Opens the models order, kept in a state file of this name if given; `close` ends it too. */
  openOrders(name: string | undefined): OrderBook;
  /** The state file of a router's workers; `undefined` without a directory or with a fixed list. */
  savedWorkers(name: string): SavedWorkers | undefined;
  close(): Promise<void>;
}

/** Ms after which the file of secrets is read again, so that a secret can be replaced. */
const SECRET_POLL_MS = 2000;

/** What a cluster is opened for. */
interface OpenedFor {
  /** The id of the worker that opens it. */
  readonly worker?: string | undefined;
  /** The certificates of the process. */
  readonly certificates?: ProcessTls;
}

/**
 * Opens the cluster.
 * @throws WinnowError INVALID_ARGUMENT when neither or both of Redis and a list are given, or for a
 * flag that cannot be read; NOT_FOUND for a file of secrets that cannot be read
 */
export async function openCluster(
  options: ClusterOptions,
  environment: Environment,
  { worker, certificates = new ProcessTls(environment) }: OpenedFor = {},
): Promise<ClusterAccess> {
  logGrpcFaults(environment.log);
  const { workerAddresses } = options;
  const addresses = workerAddresses === undefined ? anyAddress : parseAddressRules(workerAddresses);
  const { secret, stopWatching } = await openSecret(options, environment);
  const refused = new RefusedRecords(environment.log);
  const tls = await certificates.openCluster(options);
  const connector = new GrpcConnector(environment.clock, addresses, tls);
  const trust = { secret, addresses, refused };
  const redis = await openRedisAccess(options, certificates);
  const parts = { connector, environment, trust, worker, redis: redis.access };
  const membership = await membershipOf(options, parts);
  const seenItems = await seenItemsOf(options, redis.access, environment);
  const books: OrderBook[] = [];
  return {
    connector,
    membership,
    addresses,
    seenItems,
    tls,
    refusals: () => refused.counts,
    openOrders: (name) => {
      const { cluster } = options;
      const file = name === undefined ? undefined : orderFileOf(options, name, environment);
      const store = membership instanceof RedisMembership ? membership.orders : undefined;
      const book = new OrderBook({ environment, cluster, secret, refused, store, file });
      books.push(book);
      return book;
    },
    savedWorkers: (name) => savedWorkersOf(options, name),
    close: async () => {
      stopWatching();
      redis.close();
      for (const book of books) book.close();
      seenItems?.close();
      await membership.close();
      connector.close();
      certificates.close();
    },
  };
}

/** A Redis other than that of membership has user and password in its URL. */
async function seenItemsOf(
  { redis, seenRedis }: ClusterOptions,
  access: RedisAccess,
  environment: Environment,
): Promise<SeenItems | undefined> {
  if (seenRedis === undefined) {
    if (redis === undefined || redis === "") return undefined;
    return new RedisSeenItems(await loadRedis(access), redis, environment);
  }
  const isSecure = seenRedis.startsWith("rediss:");
  const own = { tls: isSecure ? access.tls : undefined };
  checkedUrl(seenRedis, own);
  return new RedisSeenItems(await loadRedis(own), seenRedis, environment);
}

interface WatchedSecret {
  readonly secret: ClusterSecret;
  readonly stopWatching: () => void;
}

async function openSecret(
  { cluster, clusterSecretFile: file, acceptUnsigned }: ClusterOptions,
  environment: Environment,
): Promise<WatchedSecret> {
  if (file === undefined) {
    return { secret: noSecret(cluster), stopWatching: () => undefined };
  }
  const opened = await openConfigFile(
    { file, flag: "--cluster-secret-file", read: readSecrets, pollMs: SECRET_POLL_MS },
    environment,
  );
  const settings = { cluster, keys: opened.initial, acceptsUnsigned: acceptUnsigned };
  const secret = new ClusterSecret(settings);
  opened.follow((keys) => secret.replaceKeys(keys));
  return { secret, stopWatching: () => opened.close() };
}

/** The file of the order in force; a folder in which none can be written is told at once, before there is an order. */
function orderFileOf(
  { stateDir }: ClusterOptions,
  name: string,
  { log }: Environment,
): StateFile | undefined {
  if (stateDir === undefined || stateDir === "") return undefined;
  const directory = path.resolve(stateDir);
  void warnOfState(directory, name, log);
  return openStateFile(directory, name);
}

async function warnOfState(
  directory: string,
  name: string,
  log: Environment["log"],
): Promise<void> {
  const fault = await stateFault(directory, name);
  if (fault !== undefined) log.warn("no state can be kept", { message: fault.message });
}

function savedWorkersOf(
  { redis, cluster, stateDir }: ClusterOptions,
  name: string,
): SavedWorkers | undefined {
  const isStateful = stateDir !== undefined && stateDir !== "";
  if (!isStateful || redis === undefined || redis === "") return undefined;
  const { host, pathname } = new URL(redis);
  const file = openStateFile(path.resolve(stateDir), name);
  return { file, cluster: `${cluster} in Redis at ${host}${pathname}` };
}

interface MembershipParts {
  readonly redis: RedisAccess;
  readonly connector: WorkerConnector;
  readonly environment: Environment;
  readonly worker: string | undefined;
  readonly trust: {
    readonly secret: ClusterSecret;
    readonly addresses: AddressRules;
    readonly refused: RefusedRecords;
  };
}

async function membershipOf(
  options: ClusterOptions,
  parts: MembershipParts,
): Promise<MembershipStore> {
  const { redis, members, cluster } = options;
  // Empty ones are those of a script whose variable is not set, and a list of nobody would serve nothing, without a word.
  const isListed = members !== undefined && members.trim() !== "";
  const { connector, environment, trust, worker } = parts;
  if (redis !== undefined && redis !== "" && !isListed) {
    return new RedisMembership(
      environment,
      { url: redis, cluster, ...trust },
      await loadRedis(parts.redis),
    );
  }
  if (isListed && (redis === undefined || redis === "")) {
    const describe = connector.describe.bind(connector);
    const settings = { members: parseMembers(members), ...trust };
    const streams = worker === undefined ? undefined : { connector, own: workerId(worker) };
    return new StaticMembership({ environment, describe, streams }, settings);
  }
  throw new WinnowError(
    "INVALID_ARGUMENT",
    "Members find each other through --redis URL (WINNOW_REDIS) or --members id@host:port,… (WINNOW_MEMBERS): give one of them",
  );
}
