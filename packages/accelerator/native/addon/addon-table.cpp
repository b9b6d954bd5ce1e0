// Tables for JavaScript: made, filled chunk by chunk, built off the event loop, gathered from.

#include <cstring>
#include <new>

#include "addon/addon-work.h"
#include "addon/addon.h"
#include "addon/shared-objects.h"

namespace winnow {

namespace {

/**
 * Copies a chunk off the event loop: the first write to each page of new memory makes the system
 * grant that page, which takes longer than the copy.
 */
class AppendWork : public AsyncWork {
 public:
  /** Keeps the array alive; nobody else may write to it or give it away until this has settled. */
  AppendWork(napi_env env, std::shared_ptr<Table> table, napi_value array)
      : env_(env), table_(std::move(table)), values_(toFloats(env, array)) {
    check(env, napi_create_reference(env, array, 1, &array_));
    position_ = table_->claim(values_.count);
  }
  ~AppendWork() override { napi_delete_reference(env_, array_); }

  void execute() override { finite_ = table_->fill(position_, values_.data, values_.count); }

  napi_value settle(napi_env env, napi_value*) override {
    return makeNumber(env, static_cast<double>(finite_));
  }

 private:
  napi_env env_;
  std::shared_ptr<Table> table_;
  ArrayView<float> values_;
  napi_ref array_ = nullptr;
  size_t position_ = 0;
  size_t finite_ = 0;
};

class BuildWork : public AsyncWork {
 public:
  explicit BuildWork(std::shared_ptr<Table> table) : table_(std::move(table)) {}

  void execute() override {
    try {
      table_->build();
    } catch (const std::bad_alloc&) {
      isOutOfMemory_ = true;
    }
  }

  napi_value settle(napi_env env, napi_value* error) override {
    if (isOutOfMemory_) *error = makeError(env, "ENOMEM", "not enough memory to build codes");
    return makeUndefined(env);
  }

 private:
  std::shared_ptr<Table> table_;
  bool isOutOfMemory_ = false;
};

using SharedTables = SharedObjects<Table>;

/** In a longer row a sum of products could exceed 32 bits. */
constexpr uint32_t DIM_MAX = 32768;

TableShape shapeOf(napi_env env, const napi_value* values) {
  TableShape shape{};
  shape.rows = toUint32(env, values[0]);
  shape.dim = toUint32(env, values[1]);
  shape.firstRow = toUint32(env, values[2]);
  shape.isSearched = toBoolean(env, values[3]);
  if (shape.dim == 0 || shape.dim > DIM_MAX) throwTypeError(env, "a table of no such dim");
  // The last unit may be a part of one; its end must be a number of 32 bits, too.
  constexpr uint32_t ROWS_MAX = UINT32_MAX - UNIT_ROWS;
  if (shape.firstRow > ROWS_MAX || shape.rows > ROWS_MAX - shape.firstRow) {
    throwTypeError(env, "rows beyond the last number");
  }
  return shape;
}

}  // namespace

napi_value tableBytes(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<4> arguments(env, info);
    const TableShape shape = shapeOf(env, arguments.values);
    napi_value bytes = nullptr;
    check(env, napi_create_object(env, &bytes));
    const double occupied = static_cast<double>(Table::occupiedBytes(shape));
    const double building = static_cast<double>(Table::buildBytes(shape));
    check(env, napi_set_named_property(env, bytes, "occupied", makeNumber(env, occupied)));
    check(env, napi_set_named_property(env, bytes, "building", makeNumber(env, building)));
    return bytes;
  });
}

napi_value createTable(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<4> arguments(env, info);
    const TableShape shape = shapeOf(env, arguments.values);
    return makeHandle<Table>(env, TABLE_TAG, std::make_shared<Table>(shape));
  });
}

napi_value appendRows(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<2> arguments(env, info);
    const auto& table = fromHandle<Table>(env, TABLE_TAG, arguments.values[0]);
    const ArrayView<float> values = toFloats(env, arguments.values[1]);
    const size_t room = size_t{table->shape().rows} * table->shape().dim - table->taken();
    if (values.count > room) throwTypeError(env, "more values than the table has room for");
    return AsyncWork::start(env, new AppendWork(env, table, arguments.values[1]));
  });
}

napi_value buildTable(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    const auto& table = fromHandle<Table>(env, TABLE_TAG, arguments.values[0]);
    const size_t values = size_t{table->shape().rows} * table->shape().dim;
    if (table->taken() != values) throwTypeError(env, "rows are missing");
    return AsyncWork::start(env, new BuildWork(table));
  });
}

napi_value gatherRows(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<3> arguments(env, info);
    const auto& table = fromHandle<Table>(env, TABLE_TAG, arguments.values[0]);
    const ArrayView<uint32_t> rows = toWords(env, arguments.values[1]);
    const ArrayView<float> target = toFloats(env, arguments.values[2]);
    const uint32_t dim = table->shape().dim;
    if (target.count != rows.count * dim) throwTypeError(env, "the target has the wrong size");
    for (size_t i = 0; i < rows.count; ++i) {
      if (rows.data[i] >= table->shape().rows) throwTypeError(env, "a row is outside the table");
      std::memcpy(target.data + i * dim, table->row(rows.data[i]), dim * sizeof(float));
    }
    return makeUndefined(env);
  });
}

napi_value releaseTable(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    fromHandle<Table>(env, TABLE_TAG, arguments.values[0]).reset();
    return makeUndefined(env);
  });
}

napi_value shareTable(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    return makeNumber(env, SharedTables::ofProcess().add(
                                fromHandle<Table>(env, TABLE_TAG, arguments.values[0])));
  });
}

napi_value sharedTable(napi_env env, napi_callback_info info) {
  return guardCall(env, [&]() -> napi_value {
    const Arguments<1> arguments(env, info);
    std::shared_ptr<Table> table =
        SharedTables::ofProcess().at(toNumber(env, arguments.values[0]));
    if (table == nullptr) return makeUndefined(env);
    return makeHandle<Table>(env, TABLE_TAG, std::move(table));
  });
}

}  // namespace winnow
