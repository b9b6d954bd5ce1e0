"""Writes the small Parquet files under attributes/: items and their attributes in the ways that writers store
them, and what pyarrow reads of them.

    python record_attributes.py

Needs pyarrow (tried with 22.0 and 25.0).
"""

import datetime
import decimal
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent / "attributes"
ROWS = 37
UTC = datetime.timezone.utc


def every(count, value, start=0):
    """A value for each row, None for every `count`-th one."""
    return [None if count and row % count == start else value(row) for row in range(ROWS)]


def moment(row):
    return datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC) + datetime.timedelta(
        days=row * 97, microseconds=row * 1001
    )


def table():
    columns = {
        "id": pa.array([f"item {row}" for row in range(ROWS)]),
        "text": pa.array(every(5, lambda row: ["drama", "crime", "日", ""][row % 4])),
        "small": pa.array(every(7, lambda row: row % 11 - 5), pa.int32()),
        "long": pa.array(every(0, lambda row: 2**53 + row if row % 3 else -(2**62)), pa.int64()),
        "unsigned": pa.array(every(0, lambda row: 2**32 - 1 - row), pa.uint32()),
        "byte": pa.array(every(6, lambda row: row - 18), pa.int8()),
        "single": pa.array(every(9, lambda row: row / 8), pa.float32()),
        "double": pa.array(every(8, lambda row: -row / 7), pa.float64()),
        "flag": pa.array(every(4, lambda row: row % 3 == 0)),
        "none": pa.array([None] * ROWS, pa.string()),
        "day": pa.array(every(5, lambda row: moment(row).date()), pa.date32()),
        "millis": pa.array(every(0, lambda row: moment(row)), pa.timestamp("ms", tz="UTC")),
        "micros": pa.array(every(3, lambda row: moment(row)), pa.timestamp("us", tz="UTC")),
        "nanos": pa.array(
            [(row - 3) * 1_500_000_001 for row in range(ROWS)], pa.timestamp("ns", tz="UTC")
        ),
        "texts": pa.array(
            every(6, lambda row: [["crime", "drama", "sea"][at % 3] for at in range(row % 4)]),
            pa.list_(pa.string()),
        ),
        "numbers": pa.array(
            every(0, lambda row: [row % 5, None, row] if row % 2 else []), pa.list_(pa.int64())
        ),
    }
    return pa.table(columns)


def plain(value):
    """A value as JSON, times as microseconds since 1970, integers as texts."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, float)):
        return value
    if isinstance(value, datetime.datetime):
        delta = value.astimezone(UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)
        return {"us": str((delta.days * 86_400 + delta.seconds) * 10**6 + delta.microseconds)}
    if isinstance(value, datetime.date):
        return {"us": str((value - datetime.date(1970, 1, 1)).days * 86_400 * 10**6)}
    if isinstance(value, list):
        return [plain(each) for each in value if each is not None]
    return {"int": str(value)}


def column_values(written, name):
    if name != "nanos":
        return [plain(value) for value in written.column(name).to_pylist()]
    # Python's times have no nanoseconds: rounded down, as Winnow has them.
    numbers = written.column(name).cast(pa.int64()).to_pylist()
    return [{"us": str(number // 1000)} for number in numbers]


def warehouse():
    """Types that Spark, Hive and databases write by default."""
    digits = decimal.Decimal
    columns = {
        "id": pa.array([f"item {row}" for row in range(ROWS)]),
        "price": pa.array(every(5, lambda row: digits(row * 37 - 99) / 100), pa.decimal128(9, 2)),
        "total": pa.array(every(0, lambda row: digits(row - 9) * 10**12 / 1000), pa.decimal128(18, 3)),
        "rate": pa.array(
            every(4, lambda row: digits(row - 20) * (10**25 + 7) / 10**20), pa.decimal128(38, 20)
        ),
        "whole": pa.array(every(6, lambda row: digits(2**53 + 1 - row * 2**54)), pa.decimal128(38, 0)),
        "moment": pa.array(every(3, moment), pa.timestamp("us")),
    }
    return pa.table(columns)


def warehouse_values(written, name):
    values = written.column(name).to_pylist()
    if name in ("id", "moment"):
        return [plain(value and value.replace(tzinfo=UTC)) if name == "moment" else value for value in values]
    return [None if value is None else plain(int(value) if name == "whole" else float(value)) for value in values]


WAYS = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "snappy": {"compression": "snappy"},
    "gzip": {"compression": "gzip", "data_page_version": "2.0"},
    "small_pages": {"compression": "none", "data_page_size": 64, "write_batch_size": 4},
    "row_groups": {"compression": "snappy", "row_group_size": 5},
    "format_1": {"compression": "none", "version": "1.0"},
}


def main():
    HERE.mkdir(exist_ok=True)
    written = table()
    for name, options in WAYS.items():
        # Format 1 has no nanoseconds.
        stored = written.drop(["nanos"]) if options.get("version") == "1.0" else written
        pq.write_table(stored, HERE / f"{name}.parquet", **options)
    values = {name: column_values(written, name) for name in written.column_names}
    (HERE / "values.json").write_text(json.dumps(values, ensure_ascii=False, indent=0) + "\n")
    written = warehouse()
    for name, is_integer in (("warehouse", False), ("warehouse_integers", True)):
        pq.write_table(
            written,
            HERE / f"{name}.parquet",
            use_deprecated_int96_timestamps=True,
            store_decimal_as_integer=is_integer,
            use_dictionary=not is_integer,
        )
    values = {name: warehouse_values(written, name) for name in written.column_names}
    (HERE / "warehouse.json").write_text(json.dumps(values, indent=0) + "\n")
    struct = pa.array([{"a": 1}] * ROWS)
    nested = pa.array([[[1]]] * ROWS, pa.list_(pa.list_(pa.int64())))
    ids = written.column("id")
    pq.write_table(pa.table({"id": ids, "struct": struct}), HERE / "bad_struct.parquet")
    pq.write_table(pa.table({"id": ids, "nested": nested}), HERE / "bad_nested.parquet")
    pq.write_table(pa.table({"name": ids}), HERE / "bad_no_id.parquet")
    twice = pa.array(["a", "b", "a"])
    pq.write_table(pa.table({"id": twice, "x": [1, 2, 3]}), HERE / "bad_twice.parquet")
    rows = 20_000_000
    pq.write_table(
        pa.table({"id": pa.repeat(7, rows)}),
        HERE / "bad_rows.parquet",
        compression="gzip",
        row_group_size=rows,
        write_batch_size=rows,
        max_rows_per_page=rows,
        write_statistics=False,
        store_schema=False,
    )


if __name__ == "__main__":
    main()
