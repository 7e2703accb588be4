#include "limits/refused_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>

namespace {

using stockade::testing::Scarce;

std::atomic<int> refuses{-1};  // A Scarce, or -1.
std::atomic<int> first_refused{INT_MAX};
std::atomic<int> refused_calls{0};
std::atomic<int> calls_seen{0};

bool Refused(Scarce what) {
  if (refuses.load() != static_cast<int>(what)) return false;
  const int call = ++calls_seen;
  return call >= first_refused && call - first_refused < refused_calls;
}

template <typename Function>
Function* System(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The system's function of this name, or EMFILE.
template <typename Function, typename... Args>
int Open(const char* name, Args... args) {
  if (Refused(Scarce::kDescriptor)) {
    errno = EMFILE;
    return -1;
  }
  return System<Function>(name)(args...);
}

}  // namespace

// Each as the system declares it; what they are called by is found through the names alone.
extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  if (Refused(Scarce::kThread)) return EAGAIN;
  static auto* const create = System<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  return create(thread, attributes, body, argument);
}

int eventfd(unsigned count, int flags) noexcept { return Open<int(unsigned, int)>("eventfd", count, flags); }
int epoll_create1(int flags) noexcept { return Open<int(int)>("epoll_create1", flags); }
int socket(int domain, int type, int protocol) noexcept {
  return Open<int(int, int, int)>("socket", domain, type, protocol);
}
int pipe(int* ends) noexcept { return Open<int(int*)>("pipe", ends); }
int pipe2(int* ends, int flags) noexcept { return Open<int(int*, int)>("pipe2", ends, flags); }

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open<int(const char*, int, ...)>("open", path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return Open<int(const char*, int, ...)>("open64", path, flags, mode);
}

}  // extern "C"

namespace stockade::testing {

RefusedCalls::RefusedCalls(Scarce what, int first, int count) {
  calls_seen = 0;
  first_refused = first;
  refused_calls = count;
  refuses = static_cast<int>(what);
}

RefusedCalls::~RefusedCalls() { refuses = -1; }

int RefusedCalls::calls() const { return calls_seen; }

}  // namespace stockade::testing
