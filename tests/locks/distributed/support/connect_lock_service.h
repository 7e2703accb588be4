#ifndef STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_CONNECT_LOCK_SERVICE_H_
#define STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_CONNECT_LOCK_SERVICE_H_

#include <memory>
#include <string>
#include <string_view>

#include "stockade/locks/lock_service.h"

namespace stockade::testing {

// Before the URLs of RedLock's servers: "redlock:redis://a,redis://b,redis://c".
inline constexpr std::string_view kRedlockScheme = "redlock:";

// A client of the servers that the URL names, of whatever engine. Aborts with the reason where it cannot be had.
std::unique_ptr<LockService> ConnectLockService(const std::string& url, LockServiceOptions options);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LOCKS_DISTRIBUTED_SUPPORT_CONNECT_LOCK_SERVICE_H_
