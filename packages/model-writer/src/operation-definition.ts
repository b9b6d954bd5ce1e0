// Definitions of the operations that the writer uses. Every export lists them beside its graph
// (`stripped_op_list`), and a reader without TensorFlow's own list learns the outputs of nodes
// there.
//
//   inputs and outputs   name:T (attribute) · name:=bool (type) · name:T*N (repeated) · name:[Tin]
//   attributes           name:kind, or name:kind=default

import type { ProtobufWriter } from "@winnow/core";
import { type GraphType, numberOfType } from "./graph-type.ts";

interface Definition {
  readonly inputs?: string;
  readonly outputs?: string;
  readonly attributes?: string;
  readonly stateful?: true;
}

const T = "T:type";
const OPERATIONS: Readonly<Record<string, Definition>> = {
  AddV2: { inputs: "x:T y:T", outputs: "z:T", attributes: T },
  AssignVariableOp: {
    inputs: "resource:=resource value:dtype",
    attributes: "dtype:type validate_shape:bool=false",
    stateful: true,
  },
  BiasAdd: {
    inputs: "value:T bias:T",
    outputs: "output:T",
    attributes: `${T} data_format:string=NHWC`,
  },
  ConcatV2: {
    inputs: "values:T*N axis:Tidx",
    outputs: "output:T",
    attributes: `N:int ${T} Tidx:type=int32`,
  },
  Const: { outputs: "output:dtype", attributes: "value:tensor dtype:type" },
  Equal: {
    inputs: "x:T y:T",
    outputs: "z:=bool",
    attributes: `${T} incompatible_shape_error:bool=true`,
  },
  HashTableV2: {
    outputs: "table_handle:=resource",
    attributes:
      "container:string= shared_name:string= use_node_name_sharing:bool=false " +
      "key_dtype:type value_dtype:type",
    stateful: true,
  },
  Identity: { inputs: "input:T", outputs: "output:T", attributes: T },
  InitializeTableFromTextFileV2: {
    inputs: "table_handle:=resource filename:=string",
    attributes: "key_index:int value_index:int vocab_size:int=-1 delimiter:string=\t offset:int=0",
    stateful: true,
  },
  LookupTableFindV2: {
    inputs: "table_handle:=resource keys:Tin default_value:Tout",
    outputs: "values:Tout",
    attributes: "Tin:type Tout:type",
    stateful: true,
  },
  LookupTableImportV2: {
    inputs: "table_handle:=resource keys:Tin values:Tout",
    attributes: "Tin:type Tout:type",
    stateful: true,
  },
  MatMul: {
    inputs: "a:T b:T",
    outputs: "product:T",
    attributes: `transpose_a:bool=false transpose_b:bool=false ${T}`,
  },
  NoOp: {},
  Placeholder: { outputs: "output:dtype", attributes: "dtype:type shape:shape" },
  ReadVariableOp: {
    inputs: "resource:=resource",
    outputs: "value:dtype",
    attributes: "dtype:type",
    stateful: true,
  },
  Relu: { inputs: "features:T", outputs: "activations:T", attributes: T },
  ResourceGather: {
    inputs: "resource:=resource indices:Tindices",
    outputs: "output:dtype",
    attributes: "batch_dims:int=0 validate_indices:bool=true dtype:type Tindices:type",
    stateful: true,
  },
  RestoreV2: {
    inputs: "prefix:=string tensor_names:=string shape_and_slices:=string",
    outputs: "tensors:[dtypes]",
    attributes: "dtypes:list(type)",
    stateful: true,
  },
  SaveV2: {
    inputs: "prefix:=string tensor_names:=string shape_and_slices:=string tensors:[dtypes]",
    attributes: "dtypes:list(type)",
    stateful: true,
  },
  SelectV2: { inputs: "condition:=bool t:T e:T", outputs: "output:T", attributes: T },
  StatefulPartitionedCall: {
    inputs: "args:[Tin]",
    outputs: "output:[Tout]",
    attributes: "Tin:list(type) Tout:list(type) f:func",
    stateful: true,
  },
  StringToHashBucketFast: {
    inputs: "input:=string",
    outputs: "output:=int64",
    attributes: "num_buckets:int",
  },
  TopKV2: {
    inputs: "input:T k:Tk",
    outputs: "values:T indices:index_type",
    attributes: `sorted:bool=true ${T} Tk:type=int32 index_type:type=int32`,
  },
  VarHandleOp: {
    outputs: "resource:=resource",
    attributes: "container:string= shared_name:string= dtype:type shape:shape",
    stateful: true,
  },
};

/** Writes the definitions of these operations as an `OpList`. */
export function writeOperations(list: ProtobufWriter, names: Iterable<string>): void {
  for (const name of [...new Set(names)].toSorted()) {
    const definition = OPERATIONS[name];
    if (definition === undefined) throw new RangeError(`operation ${name} without a definition`);
    list.message(1, (operation) => {
      operation.text(1, name);
      writeArguments(operation, 2, definition.inputs);
      writeArguments(operation, 3, definition.outputs);
      writeAttributes(operation, definition.attributes);
      if (definition.stateful) operation.int(17, 1);
    });
  }
}

function writeArguments(operation: ProtobufWriter, field: number, text = ""): void {
  for (const part of words(text)) {
    const [name = "", type = ""] = part.split(":");
    operation.message(field, (argument) => {
      argument.text(1, name);
      const [attribute = "", count] = type.split("*");
      if (type.startsWith("=")) argument.int(3, numberOfType(type.slice(1) as GraphType));
      else if (type.startsWith("[")) argument.text(6, type.slice(1, -1));
      else argument.text(4, attribute);
      if (count !== undefined) argument.text(5, count);
    });
  }
}

function writeAttributes(operation: ProtobufWriter, text = ""): void {
  for (const part of words(text)) {
    const [name = "", rest = ""] = part.split(":");
    const [kind = "", value] = rest.split("=");
    operation.message(4, (attribute) => {
      attribute.text(1, name).text(2, kind);
      if (value !== undefined) attribute.message(3, (target) => writeDefault(target, kind, value));
    });
  }
}

function writeDefault(target: ProtobufWriter, kind: string, value: string): void {
  if (kind === "type") target.int(6, numberOfType(value as GraphType));
  else if (kind === "int") target.int(3, Number(value));
  else if (kind === "bool") target.int(5, value === "true" ? 1 : 0);
  else target.text(2, value);
}

function words(text: string): string[] {
  return text.split(" ").filter((word) => word !== "");
}
