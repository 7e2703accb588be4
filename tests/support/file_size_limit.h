#ifndef STOCKADE_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_
#define STOCKADE_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_

#include <signal.h>
#include <sys/resource.h>

namespace stockade::testing {

// No file of this process may grow beyond `bytes` while the object lives: a disk that is full.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : old_action_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_action_);
  }

 private:
  rlimit old_limit_;
  const sighandler_t old_action_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_FILE_SIZE_LIMIT_H_
