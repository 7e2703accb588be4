#ifndef STOCKADE_TESTS_REDIS_SUPPORT_SLOW_NAMES_H_
#define STOCKADE_TESTS_REDIS_SUPPORT_SLOW_NAMES_H_

namespace stockade::testing {

// A name server that does not answer. A program with slow_names.cc among its sources has its own getaddrinfo(3), which
// gives 127.0.0.1 for "fast.test", "slow.test" and all names that end with ".slow.test". It keeps lookups of the slow
// ones waiting until Answer() is called.
class SlowNames {
 public:
  // From now on, lookups wait.
  static void Reset();
  // Lets all go, and those that come. Blocks until they have gone.
  static void Answer();
  // Lets so many of those that wait go. Blocks until they have gone.
  static void LetGo(int count);
  // Blocks until so many lookups wait.
  static void AwaitWaiting(int count);

  static int waiting();
  static int most_waiting();  // At a time, since Reset().
  static int lookups();       // Of slow names, since Reset().
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_SUPPORT_SLOW_NAMES_H_
