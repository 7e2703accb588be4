#ifndef STOCKADE_TESTS_LIMITS_REFUSED_CALLS_H_
#define STOCKADE_TESTS_LIMITS_REFUSED_CALLS_H_

namespace stockade::testing {

// What the system can refuse to this process.
enum class Scarce {
  kThread,      // pthread_create(): EAGAIN
  kDescriptor,  // eventfd(), socket(), pipe(), epoll_create1(), open() and their kin: EMFILE
};

// Refuses calls of this process by their number while the object lives. The program that has refused_calls.cc in it
// takes these functions in the system's place, for all libraries that it uses. One object at a time.
class RefusedCalls {
 public:
  // From the call number `first` on, which is at least 1, refuses `count` calls.
  RefusedCalls(Scarce what, int first, int count);
  ~RefusedCalls();
  RefusedCalls(const RefusedCalls&) = delete;
  RefusedCalls& operator=(const RefusedCalls&) = delete;

  // How many there have been, the refused ones included.
  int calls() const;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_LIMITS_REFUSED_CALLS_H_
