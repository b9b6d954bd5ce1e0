"""Writes the small Parquet files under parquet/: one table in the ways that writers store it.

    python record_parquet.py

Needs pyarrow and numpy. Each file has a column of embeddings, float32 [rows, 3], and columns of ids; values.json
has what pyarrow reads of them.
"""

import json
from decimal import Decimal
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent / "parquet"
ROWS = 150

WAYS = {
    "plain": {"compression": "none", "use_dictionary": False},
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip"},
    "brotli": {"compression": "brotli"},
    "zstd": {"compression": "zstd"},
    "pages_v2": {"data_page_version": "2.0", "compression": "snappy"},
    "pages_v2_plain": {"data_page_version": "2.0", "compression": "none", "use_dictionary": False},
    "row_groups": {"row_group_size": 37, "data_page_size": 64, "write_batch_size": 5},
    "many_row_groups": {"row_group_size": 10},
    "byte_stream_split": {"use_dictionary": False, "use_byte_stream_split": ["embedding.list.element"]},
    "format_1": {"version": "1.0", "compression": "gzip"},
    "no_statistics": {"write_statistics": False, "store_schema": False},
    "page_checksums": {"write_page_checksum": True},
    "page_index": {"write_page_index": True, "data_page_size": 128, "write_batch_size": 8},
}
REFUSED = {
    "delta": {"use_dictionary": False, "column_encoding": {"id": "DELTA_BYTE_ARRAY"}},
    "lz4": {"compression": "lz4"},
}


def table(rows=ROWS, fixed=False, required=False):
    # Few values, so that dictionaries have many readers.
    floats = (np.arange(rows * 3) % 23 / 8 - 1).astype(np.float32)
    items = list(floats.reshape(-1, 3))
    kind = pa.list_(pa.float32(), 3) if fixed else pa.list_(pa.field("element", pa.float32(), nullable=not required))
    columns = {
        "id": pa.array([f"item {row}" if row % 5 else f"日本 {row}" for row in range(rows)]),
        "number": pa.array(np.arange(rows, dtype=np.int64) * 10**12 - 5),
        "small": pa.array(np.arange(rows, dtype=np.int32) - 7),
        "embedding": pa.array(items, type=kind),
    }
    fields = [pa.field(name, column.type, nullable=not required) for name, column in columns.items()]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


HERE.mkdir(exist_ok=True)
for name, options in {**WAYS, **REFUSED}.items():
    pq.write_table(table(), HERE / f"{name}.parquet", **options)
pq.write_table(table(fixed=True), HERE / "fixed_size_lists.parquet")
pq.write_table(table(required=True), HERE / "required.parquet")
lists = [[1.0, 2.0, 3.0]] * 8
wrong = {
    "null_row": lists[:4] + [None] + lists[:3],
    "null_value": lists[:4] + [[1.0, None, 3.0]] + lists[:3],
    "other_lengths": lists[:4] + [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0]] + lists[:2],
    "short_row": lists[:4] + [[1.0, 2.0]] + lists[:3],
}
for name, rows in wrong.items():
    columns = {"id": [str(row) for row in range(8)], "embedding": pa.array(rows, type=pa.list_(pa.float32()))}
    pq.write_table(pa.table(columns), HERE / f"{name}.parquet")
doubles = pa.array(lists, type=pa.list_(pa.float64()))
pq.write_table(pa.table({"id": ["a"] * 8, "embedding": doubles}), HERE / "doubles.parquet")

kinds = {
    "uint32": pa.array(np.arange(8, dtype=np.uint32) + np.uint32(2**32 - 8)),
    "uint16": pa.array(np.arange(8, dtype=np.uint16) + np.uint16(2**16 - 8)),
    "uint64": pa.array(np.arange(8, dtype=np.uint64) + np.uint64(2**63 - 8)),
    "beyond": pa.array(np.arange(8, dtype=np.uint64) + np.uint64(2**63 - 7)),
    "date": pa.array(np.arange(8, dtype=np.int32)).cast(pa.date32()),
    "decimal": pa.array([Decimal(row) for row in range(8)], type=pa.decimal128(9, 0)),
    "embedding": pa.array(lists, type=pa.list_(pa.float32())),
}
pq.write_table(pa.table(kinds), HERE / "kinds_of_ids.parquet", store_decimal_as_integer=True)

found = pq.read_table(HERE / "plain.parquet").to_pydict()
(HERE / "values.json").write_text(json.dumps(found, ensure_ascii=False) + "\n")
