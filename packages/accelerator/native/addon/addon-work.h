// Work off the event loop: runs on a thread of Node's pool, then settles a promise. Node waits for
// such work before it tears an environment down, so no work outlives what it uses.

#pragma once

#include <node_api.h>

namespace winnow {

/** One piece of work; deleted after it has settled its promise. */
class AsyncWork {
 public:
  virtual ~AsyncWork() = default;
  /** On a pool thread; must not throw and must not touch JavaScript. */
  virtual void execute() = 0;
  /** On the event loop: the promise's value, or null after setting `*error` to reject with. */
  virtual napi_value settle(napi_env env, napi_value* error) = 0;

  /** Queues the work, which it takes over, and gives the promise. */
  static napi_value start(napi_env env, AsyncWork* work);

 private:
  static void complete(napi_env env, napi_status status, void* data);

  napi_async_work work_ = nullptr;
  napi_deferred deferred_ = nullptr;
};

}  // namespace winnow
