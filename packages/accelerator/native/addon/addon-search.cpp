// Searches for JavaScript: a device is a team of threads and a kernel; a search is started, gives a
// promise, and can be cancelled while it runs.

#include <new>

#include "addon/addon-work.h"
#include "addon/addon.h"
#include "addon/shared-objects.h"
#include "search/search.h"
#include "threads/thread-team.h"

namespace winnow {

namespace {

struct Device {
  Device(uint32_t threads, const Kernel* chosen) : team(threads), kernel(chosen) {}
  ThreadTeam team;
  const Kernel* kernel;
  ScratchStore scratch;
};

constexpr napi_type_tag DEVICE_TAG = {0x6b1f3d0a52c84f17, 0x91c7d5e3a80b264d};
constexpr napi_type_tag FILTER_TAG = {0x53b8e1d27fc0964a, 0xd60f92c3781ae5b4};
constexpr napi_type_tag SEARCH_TAG = {0x0e9a7c61b4d25f38, 0xa3f1846bd7590ce2};

using SharedFilters = SharedObjects<const RowFilter>;

void set(napi_env env, napi_value object, const char* name, napi_value value) {
  check(env, napi_set_named_property(env, object, name, value));
}

/** What a search that has run found; where it has not been completed, null and an error. */
napi_value resultOf(napi_env env, Search& search, bool isComplete, napi_value* error) {
  if (!isComplete) {
    *error = search.isOutOfMemory()
                 ? makeError(env, "ENOMEM", "not enough memory for this search")
                 : makeError(env, "ECANCELED", "the search was cancelled");
    return nullptr;
  }
  const SearchAnswer& answer = search.answer();
  const SearchCounters& counters = search.counters();
  const auto counted = [&](const std::atomic<uint64_t>& count) {
    return makeNumber(env, static_cast<double>(count.load()));
  };
  napi_value result = nullptr;
  check(env, napi_create_object(env, &result));
  set(env, result, "counts",
      makeArray(env, napi_uint32_array, answer.counts.data(), answer.counts.size()));
  set(env, result, "scores",
      makeArray(env, napi_float32_array, answer.scores.data(), answer.scores.size()));
  set(env, result, "rows",
      makeArray(env, napi_uint32_array, answer.rows.data(), answer.rows.size()));
  set(env, result, "rescored", counted(counters.rescored));
  set(env, result, "repeatedQueries", counted(counters.repeatedQueries));
  set(env, result, "denseQueries", counted(counters.denseQueries));
  set(env, result, "directQueries", counted(counters.directQueries));
  return result;
}

class SearchWork : public AsyncWork {
 public:
  SearchWork(std::shared_ptr<Device> device, std::shared_ptr<Search> search)
      : device_(std::move(device)), search_(std::move(search)) {}

  void execute() override { isComplete_ = search_->run(device_->team); }

  napi_value settle(napi_env env, napi_value* error) override {
    return resultOf(env, *search_, isComplete_, error);
  }

 private:
  std::shared_ptr<Device> device_;
  /** Declared after the device, so that it is destroyed first: its memory is the device's. */
  std::shared_ptr<Search> search_;
  bool isComplete_ = false;
};

std::vector<TablePointer> tablesOf(napi_env env, napi_value array) {
  uint32_t count = 0;
  check(env, napi_get_array_length(env, array, &count));
  std::vector<TablePointer> tables;
  for (uint32_t i = 0; i < count; ++i) {
    napi_value handle = nullptr;
    check(env, napi_get_element(env, array, i, &handle));
    const auto& table = fromHandle<Table>(env, TABLE_TAG, handle);
    if (!table->shape().isSearched) throwTypeError(env, "a table was loaded for gathering only");
    tables.push_back(table);
  }
  return tables;
}

/** Starts and ends must lie within the rows, or a scan would read beyond them. */
void readExcluded(napi_env env, napi_value rows, napi_value starts, SearchRequest& request) {
  if (isUndefined(env, rows)) return;
  const ArrayView<uint32_t> excluded = toWords(env, rows);
  const ArrayView<uint32_t> begins = toWords(env, starts);
  request.excludedRows.assign(excluded.data, excluded.data + excluded.count);
  request.excludedStarts.assign(begins.data, begins.data + begins.count);
  bool isSound = begins.count == size_t{request.queries} + 1 &&
                 request.excludedStarts.back() <= excluded.count;
  for (size_t i = 1; isSound && i < begins.count; ++i) {
    isSound = request.excludedStarts[i - 1] <= request.excludedStarts[i];
  }
  if (!isSound) throwTypeError(env, "the lists of excluded rows do not fit the queries");
}

/** `handles`: all tables' handles of the first filter, then those of the second. */
void readFilters(napi_env env, napi_value handles, napi_value numbers, SearchRequest& request) {
  if (isUndefined(env, handles)) return;
  const ArrayView<uint32_t> filterOf = toWords(env, numbers);
  request.filterOf.assign(filterOf.data, filterOf.data + filterOf.count);
  const size_t tables = request.tables.size();
  uint32_t count = 0;
  check(env, napi_get_array_length(env, handles, &count));
  for (uint32_t i = 0; i < count; ++i) {
    napi_value handle = nullptr;
    check(env, napi_get_element(env, handles, i, &handle));
    if (i % tables == 0) request.filters.emplace_back();
    const auto& filter = fromHandle<const RowFilter>(env, FILTER_TAG, handle);
    const bool fits = filter->rows() == request.tables[i % tables]->shape().rows;
    if (!fits) throwTypeError(env, "a filter was made for another table");
    request.filters.back().push_back(filter);
  }
  bool isSound = count % tables == 0 && filterOf.count == request.queries;
  for (const uint32_t number : request.filterOf) {
    isSound = isSound && (number == SearchRequest::NO_FILTER || number < request.filters.size());
  }
  if (!isSound) throwTypeError(env, "the filters do not fit the queries");
}

SearchRequest requestOf(napi_env env, const napi_value* values) {
  SearchRequest request;
  request.tables = tablesOf(env, values[0]);
  if (request.tables.empty()) throwTypeError(env, "a search needs a table");
  request.dim = request.tables[0]->shape().dim;
  uint64_t rows = 0;
  for (const TablePointer& table : request.tables) {
    if (table->shape().dim != request.dim) throwTypeError(env, "the tables differ in dim");
    rows += table->shape().rows;
  }
  const ArrayView<float> vectors = toFloats(env, values[1]);
  if (vectors.count == 0) throwTypeError(env, "a search needs a query");
  if (vectors.count % request.dim != 0) throwTypeError(env, "half a query");
  request.queries = static_cast<uint32_t>(vectors.count / request.dim);
  request.vectors.assign(vectors.data, vectors.data + vectors.count);
  request.k = toUint32(env, values[2]);
  if (request.k == 0) throwTypeError(env, "a search for no rows");
  if (request.k > rows) throwTypeError(env, "k exceeds the rows");
  readExcluded(env, values[3], values[4], request);
  readFilters(env, values[5], values[6], request);
  if (!isUndefined(env, values[7])) {
    const ArrayView<double> weights = toDoubles(env, values[7]);
    if (weights.count != 4) throwTypeError(env, "four weights are needed");
    const double* w = weights.data;
    request.weights = {w[0], w[1], w[2], w[3]};
  }
  return request;
}

}  // namespace

napi_value createFilter(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<2> arguments(env, info);
    const auto& table = fromHandle<Table>(env, TABLE_TAG, arguments.values[0]);
    if (!table->shape().isSearched) throwTypeError(env, "a table was loaded for gathering only");
    const ArrayView<uint8_t> bits = toBytes(env, arguments.values[1]);
    const auto filter = std::make_shared<const RowFilter>(*table, bits.data, bits.count);
    napi_value made = nullptr;
    check(env, napi_create_object(env, &made));
    const double admitted = filter->admitted();
    const double bytes = static_cast<double>(RowFilter::occupiedBytes(filter->rows()));
    check(env, napi_set_named_property(env, made, "admitted", makeNumber(env, admitted)));
    check(env, napi_set_named_property(env, made, "bytes", makeNumber(env, bytes)));
    const napi_value handle = makeHandle<const RowFilter>(env, FILTER_TAG, filter);
    check(env, napi_set_named_property(env, made, "handle", handle));
    return made;
  });
}

napi_value releaseFilter(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    fromHandle<const RowFilter>(env, FILTER_TAG, arguments.values[0]).reset();
    return makeUndefined(env);
  });
}

napi_value shareFilter(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    const auto& filter = fromHandle<const RowFilter>(env, FILTER_TAG, arguments.values[0]);
    return makeNumber(env, SharedFilters::ofProcess().add(filter));
  });
}

napi_value sharedFilter(napi_env env, napi_callback_info info) {
  return guardCall(env, [&]() -> napi_value {
    const Arguments<1> arguments(env, info);
    RowFilterPointer filter = SharedFilters::ofProcess().at(toNumber(env, arguments.values[0]));
    if (filter == nullptr) return makeUndefined(env);
    return makeHandle<const RowFilter>(env, FILTER_TAG, std::move(filter));
  });
}

napi_value createDevice(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<2> arguments(env, info);
    const uint32_t threads = toUint32(env, arguments.values[0]);
    const bool isAny = isUndefined(env, arguments.values[1]);
    const std::string name = isAny ? "" : toText(env, arguments.values[1]);
    const Kernel* kernel = selectKernel(isAny ? nullptr : name.c_str());
    napi_value device = nullptr;
    check(env, napi_create_object(env, &device));
    const auto team = std::make_shared<Device>(threads, kernel);
    const napi_value handle = makeHandle<Device>(env, DEVICE_TAG, team);
    check(env, napi_set_named_property(env, device, "handle", handle));
    check(env, napi_set_named_property(env, device, "kernel", makeText(env, kernel->name)));
    return device;
  });
}

napi_value releaseDevice(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    fromHandle<Device>(env, DEVICE_TAG, arguments.values[0]).reset();
    return makeUndefined(env);
  });
}

napi_value startSearch(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<9> arguments(env, info);
    const auto& device = fromHandle<Device>(env, DEVICE_TAG, arguments.values[0]);
    SearchRequest request = requestOf(env, arguments.values + 1);
    const auto search = std::make_shared<Search>(std::move(request), *device->kernel, device->scratch);
    napi_value started = nullptr;
    check(env, napi_create_object(env, &started));
    // The handle may live until JavaScript collects it, so it must not hold the tables.
    const napi_value handle = makeHandle(env, SEARCH_TAG, search->stopFlag());
    check(env, napi_set_named_property(env, started, "handle", handle));
    const napi_value promise = AsyncWork::start(env, new SearchWork(device, search));
    check(env, napi_set_named_property(env, started, "answer", promise));
    return started;
  });
}

napi_value runSearch(napi_env env, napi_callback_info info) {
  return guardCall(env, [&]() -> napi_value {
    const Arguments<10> arguments(env, info);
    const std::shared_ptr<Device> device = fromHandle<Device>(env, DEVICE_TAG, arguments.values[0]);
    SearchRequest request = requestOf(env, arguments.values + 1);
    if (!isUndefined(env, arguments.values[9])) {
      request.denseValuesMax = toUint32(env, arguments.values[9]);
    }
    Search search(std::move(request), *device->kernel, device->scratch);
    napi_value error = nullptr;
    const bool isComplete = search.run(device->team);
    // Nobody else can stop this search: it would have scored too many values.
    if (!isComplete && !search.isOutOfMemory()) return makeUndefined(env);
    const napi_value result = resultOf(env, search, isComplete, &error);
    if (error != nullptr) check(env, napi_throw(env, error));
    return result;
  });
}

napi_value cancelSearch(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<1> arguments(env, info);
    fromHandle<std::atomic<bool>>(env, SEARCH_TAG, arguments.values[0])->store(true);
    return makeUndefined(env);
  });
}

}  // namespace winnow
