// How a piece of work is queued, run and settled.

#include "addon/addon-work.h"

#include <memory>

#include "addon/addon-values.h"

namespace winnow {

napi_value AsyncWork::start(napi_env env, AsyncWork* work) {
  std::unique_ptr<AsyncWork> owner(work);
  napi_value promise = nullptr;
  check(env, napi_create_promise(env, &work->deferred_, &promise));
  const auto execute = [](napi_env, void* data) { static_cast<AsyncWork*>(data)->execute(); };
  check(env, napi_create_async_work(env, nullptr, makeText(env, "winnow"), execute, complete, work,
                                    &work->work_));
  check(env, napi_queue_async_work(env, work->work_));
  owner.release();
  return promise;
}

void AsyncWork::complete(napi_env env, napi_status, void* data) {
  const std::unique_ptr<AsyncWork> work(static_cast<AsyncWork*>(data));
  napi_delete_async_work(env, work->work_);
  napi_value error = nullptr;
  napi_value value = nullptr;
  try {
    value = work->settle(env, &error);
  } catch (const PendingException&) {
    napi_get_and_clear_last_exception(env, &error);
  }
  if (error != nullptr) {
    napi_reject_deferred(env, work->deferred_, error);
  } else {
    napi_resolve_deferred(env, work->deferred_, value);
  }
}

}  // namespace winnow
