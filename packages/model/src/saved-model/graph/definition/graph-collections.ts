// Collections of a MetaGraphDef (`collection_def`): where TensorFlow 1 wrote what later versions say in
// fields and signatures, such as the node that fills tables and the names of asset files.

import type { ProtobufReader } from "@winnow/core";

/** What is read of one collection. */
export interface Collection {
  /** Names of nodes. */
  readonly nodes: readonly string[];
  /** Messages of any type, unread. */
  readonly messages: readonly ProtobufReader[];
}

/** Reads one entry of the map `collection_def`. @throws WinnowError DATA_LOSS */
export function readCollection(reader: ProtobufReader, into: Map<string, Collection>): void {
  const { key, value } = reader.mapEntry();
  const nodes: string[] = [];
  const messages: ProtobufReader[] = [];
  const collection = value?.message();
  while (collection?.next() === true) {
    if (collection.field === 1) readNodes(collection.message(), nodes);
    else if (collection.field === 5) readMessages(collection.message(), messages);
  }
  into.set(key, { nodes, messages });
}

function readNodes(list: ProtobufReader, into: string[]): void {
  while (list.next()) if (list.field === 1) into.push(list.text());
}

function readMessages(list: ProtobufReader, into: ProtobufReader[]): void {
  while (list.next()) {
    if (list.field !== 1) continue;
    const any = list.message();
    while (any.next()) if (any.field === 2) into.push(any.message());
  }
}
