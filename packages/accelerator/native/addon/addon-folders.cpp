// Looks into folders for JavaScript: any number of folders in one step of the thread pool.

#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "addon/addon-work.h"
#include "addon/addon.h"
#include "files/folder-look.h"

namespace winnow {

namespace {

struct AskedFolder {
  std::string path;
  bool withFacts;
};

class FolderWork : public AsyncWork {
 public:
  FolderWork(std::vector<AskedFolder> folders, size_t entriesMax)
      : folders_(std::move(folders)), entriesMax_(entriesMax) {}

  void execute() override {
    try {
      for (const AskedFolder& folder : folders_) {
        looks_.push_back(lookInto(folder.path, entriesMax_, folder.withFacts));
      }
    } catch (const std::bad_alloc&) {
      isOutOfMemory_ = true;
    }
  }

  napi_value settle(napi_env env, napi_value* error) override {
    if (isOutOfMemory_) {
      *error = makeError(env, "ENOMEM", "not enough memory to list folders");
      return nullptr;
    }
    napi_value values = nullptr;
    check(env, napi_create_array_with_length(env, looks_.size(), &values));
    for (size_t at = 0; at < looks_.size(); ++at) {
      const napi_value value = looks_[at].isWhole ? makeLook(env, looks_[at]) : makeUndefined(env);
      check(env, napi_set_element(env, values, static_cast<uint32_t>(at), value));
    }
    return values;
  }

 private:
  static napi_value makeLook(napi_env env, const FolderLook& look) {
    std::string names;
    std::vector<double> facts;
    for (const FolderEntry& entry : look.entries) {
      if (!facts.empty()) names += '/';
      names += entry.name;
      facts.push_back(static_cast<double>(entry.kind));
      facts.insert(facts.end(), {entry.bytes, entry.modifiedMs, entry.changedMs});
    }
    napi_value value = nullptr;
    check(env, napi_create_object(env, &value));
    check(env, napi_set_named_property(env, value, "names", makeText(env, names.c_str())));
    check(env, napi_set_named_property(env, value, "facts", makeDoubles(env, facts)));
    return value;
  }

  std::vector<AskedFolder> folders_;
  size_t entriesMax_;
  std::vector<FolderLook> looks_;
  bool isOutOfMemory_ = false;
};

}  // namespace

napi_value lookIntoFolders(napi_env env, napi_callback_info info) {
  return guardCall(env, [&] {
    const Arguments<3> arguments(env, info);
    uint32_t count = 0;
    check(env, napi_get_array_length(env, arguments.values[0], &count));
    const ArrayView<uint8_t> withFacts = toBytes(env, arguments.values[1]);
    if (withFacts.count != count) throwTypeError(env, "each folder needs one flag");
    std::vector<AskedFolder> folders;
    for (uint32_t at = 0; at < count; ++at) {
      napi_value path = nullptr;
      check(env, napi_get_element(env, arguments.values[0], at, &path));
      folders.push_back({toLongText(env, path), withFacts.data[at] != 0});
    }
    const uint32_t entriesMax = toUint32(env, arguments.values[2]);
    return AsyncWork::start(env, new FolderWork(std::move(folders), entriesMax));
  });
}

}  // namespace winnow
