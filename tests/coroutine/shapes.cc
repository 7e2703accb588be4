// What a compiler makes of a co_await expression: shapes of its arguments, and its place in a statement. Needs nothing
// of Stockade. shapes.sh compiles it with each compiler and runs it.
//
// Each case runs in a process of its own, because what is compiled wrongly may crash. Ends with 1 if one went wrong
// that Stockade's users may write; and, with g++ 12 and clang, if another one did not go as the list says: if a
// compiler is mended, its rule for users may go.
#include <sys/wait.h>
#include <unistd.h>

#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace {

#if defined(__clang__)
constexpr bool kGcc12 = false, kKnown = true;
#else
constexpr bool kGcc12 = __GNUC__ == 12, kKnown = kGcc12;
#endif

int alive = 0;    // Objects of Count.
int foreign = 0;  // Those that were destroyed at another address than they were made at.

class Count {
 public:
  Count() { ++alive; }
  Count(const Count&) { ++alive; }
  Count(Count&&) noexcept { ++alive; }
  Count& operator=(const Count&) { return *this; }
  ~Count() {
    --alive;
    if (self_ != this) ++foreign;
    self_ = nullptr;
  }

 private:
  const Count* self_ = this;
};

// As AcquireOptions: an aggregate with members that have destructors.
struct Options {
  int wait = 0;
  Count stop = {};
  std::optional<Count> more = {};
};
// As AwaitOn: with a constructor.
struct On {
  On(int& executor_in, Count stop_in = {}) : executor(executor_in), stop(stop_in) {}
  On By(int) const { return *this; }
  int& executor;
  Count stop;
};
// As AwaitOn was in a draft.
struct AggregateOn {
  AggregateOn Within(int) const { return *this; }
  int& executor;
  Count stop = {};
};

std::coroutine_handle<> suspended;

struct Awaiter {
  explicit Awaiter(const Count& argument) : count(argument) {}
  Awaiter(Awaiter&&) = default;
  Awaiter&& operator co_await() && { return std::move(*this); }
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> frame) { suspended = frame; }
  int await_resume() { return 1; }
  Count count;
};

struct Routine {
  struct promise_type {
    Routine get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

Awaiter ByRef(const Options& options) { return Awaiter(options.stop); }
Awaiter ByValue(Options options) { return Awaiter(options.stop); }
Awaiter OnRef(std::string, const On& on) { return Awaiter(on.stop); }
Awaiter OnValue(On on) { return Awaiter(on.stop); }
Awaiter AggregateOnRef(const AggregateOn& on) { return Awaiter(on.stop); }
template <typename F>
Awaiter ByLambda(F f) {
  return Awaiter(f());
}
template <typename F>
Awaiter ByLambdaRef(const F& f) {
  return Awaiter(f());
}
struct Service {
  Awaiter Ref(const Options& options) { return Awaiter(options.stop); }
  Awaiter Val(Options options) { return Awaiter(options.stop); }
};

int executor = 0;
Service service;
const char* const kLong = "a name that is too long for the string to hold it";
Options MadeOptions() { return {.wait = 1}; }
AggregateOn MadeOn() { return {executor}; }

// What users may write.
Routine NamedOptions() {
  const Options named = {.wait = 1};
  co_await ByRef(named);
}
Routine NamedOptionsCopied() {
  const Options named = {.wait = 1};
  co_await ByValue(named);
}
Routine NamedOptionsMoved() {
  Options named = {.wait = 1};
  co_await ByValue(std::move(named));
}
Routine NamedOn() {
  const On on(executor);
  co_await OnRef(kLong, on);
}
Routine BracedOn() { co_await OnRef(kLong, {executor}); }
Routine BracedOnWithAStop() {
  const Count stop;
  co_await OnRef(kLong, {executor, stop});
}
Routine TypedOn() { co_await OnRef(kLong, On(executor)); }
Routine OnByValue() { co_await OnValue(On(executor)); }
Routine OnByBracesByValue() { co_await OnValue({executor}); }
Routine OnWithADeadline() {
  const On on(executor);
  co_await OnRef(kLong, on.By(2));
}
Routine NamedLambda() {
  const Count captured;
  const auto lambda = [captured] { return captured; };
  co_await ByLambda(lambda);
}
Routine ReturnedOptions() { co_await ByRef(MadeOptions()); }
Routine ReturnedOptionsByValue() { co_await ByValue(MadeOptions()); }
Routine Stored() {
  const On on(executor);
  auto begun = OnRef(kLong, on);
  co_await std::move(begun);
}
Routine UsedInAnInitializer() {
  const On on(executor);
  const int answer = co_await OnRef(kLong, on);
  (void)answer;
}

// What they may not, for g++ 12 destroys it twice.
Routine Braced() { co_await ByRef({.wait = 1}); }
Routine BracedWithATemporary() { co_await ByRef({.wait = 1, .stop = Count()}); }
Routine BracedWithACopy() {
  const Count stop;
  co_await ByRef({.wait = 1, .stop = stop});
}
Routine BracedByValue() { co_await ByValue({.wait = 1}); }
Routine BracedByValueWithACopy() {
  const Count stop;
  co_await ByValue({.wait = 1, .stop = stop});
}
Routine TypedBracesByValue() {
  const Count stop;
  co_await ByValue(Options{.wait = 1, .stop = stop});
}
Routine Lambda() {
  const Count captured;
  co_await ByLambda([captured] { return captured; });
}
Routine LambdaByRef() {
  const Count captured;
  co_await ByLambdaRef([captured] { return captured; });
}
Routine Member() { co_await service.Ref({.wait = 1}); }
Routine MemberByValue() {
  const Count stop;
  co_await service.Val({.wait = 1, .stop = stop});
}
Routine BracedWithAnOptional() {
  const Count more;
  co_await ByRef({.wait = 1, .stop = {}, .more = more});
}
Routine BracedAndUsed() {
  const Count stop;
  const int answer = co_await ByRef({.wait = 1, .stop = stop});
  (void)answer;
}
Routine BracedAggregateOn() { co_await AggregateOnRef({executor}); }
Routine TypedAggregateOn() { co_await AggregateOnRef(AggregateOn{executor}); }
Routine ReturnedAggregateOn() { co_await AggregateOnRef(MadeOn()); }
Routine AggregateOnWithin() {
  const AggregateOn on = {executor};
  co_await AggregateOnRef(on.Within(2));
}

// A lazy coroutine that another one awaits: for places in a statement.
class Task {
 public:
  struct promise_type {
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> frame) noexcept {
        return frame.promise().then;
      }
      void await_resume() noexcept {}
    };
    Final final_suspend() noexcept { return {}; }
    void return_value(int returned) { value = returned; }
    void unhandled_exception() { std::abort(); }
    int value = 0;
    std::coroutine_handle<> then = std::noop_coroutine();
  };

  explicit Task(std::coroutine_handle<promise_type> frame) : frame_(frame) {}
  Task(Task&& other) noexcept : frame_(std::exchange(other.frame_, nullptr)) {}
  ~Task() {
    if (frame_) frame_.destroy();
  }
  bool await_ready() { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> then) {
    frame_.promise().then = then;
    return frame_;
  }
  int await_resume() { return frame_.promise().value; }
  void Run() { frame_.resume(); }

 private:
  std::coroutine_handle<promise_type> frame_;
};

Task Ask(int& seen, int more) {
  seen += more;
  co_return more < 0 ? 503 : 200;
}

// What users may write. Each adds 2.
Task Named(int& n) {
  const int code = co_await Ask(n, 1);
  if (code == 200) ++n;
  co_return 0;
}
Task InitOfIf(int& n) {
  if (const int code = co_await Ask(n, 1); code == 200) ++n;
  co_return 0;
}
Task Expression(int& n) {
  const int code = (co_await Ask(n, 1)) + 1;
  n += code == 201 ? 1 : 0;
  co_return 0;
}
Task Argument(int& n) {
  n += std::abs(co_await Ask(n, 1)) / 200;
  co_return 0;
}
Task Returned(int& n) {
  ++n;
  co_return co_await Ask(n, 1);
}
Task Discarded(int& n) {
  (void)co_await Ask(n, 1);
  ++n;
  co_return 0;
}

// What they may not: g++ 12 compiles conditions wrongly where the body declares no variable before.
Task Condition(int& n) {
  if (co_await Ask(n, 1) == 200) ++n;
  co_return 0;
}
Task ConditionWithBraces(int& n) {
  if (co_await Ask(n, 1) == 200) {
    ++n;
  }
  co_return 0;
}
Task ConditionWithElse(int& n) {
  if ((co_await Ask(n, 1)) == 200) {
    ++n;
  } else {
    n += 100;
  }
  co_return 0;
}
Task Negated(int& n) {
  if (!(co_await Ask(n, 1) == 503)) ++n;
  co_return 0;
}
Task AfterAnEarlyReturn(int& n) {
  if (n < 0) co_return 1;
  if (co_await Ask(n, 1) == 200) ++n;
  co_return 0;
}
Task Switch(int& n) {
  switch (co_await Ask(n, 1)) {
    case 200: ++n; break;
    default: n += 100;
  }
  co_return 0;
}

struct Case {
  const char* name;
  bool promised;
  bool right_on_gcc12;  // g++ 12 makes it right.
  Routine (*shape)();
  Task (*place)(int& n);
};

constexpr Case kCases[] = {
    {"named options", true, true, NamedOptions, nullptr},
    {"named options, copied", true, true, NamedOptionsCopied, nullptr},
    {"named options, moved", true, true, NamedOptionsMoved, nullptr},
    {"named AwaitOn", true, true, NamedOn, nullptr},
    {"AwaitOn as {executor}", true, true, BracedOn, nullptr},
    {"AwaitOn as {executor, stop}", true, true, BracedOnWithAStop, nullptr},
    {"AwaitOn(executor)", true, true, TypedOn, nullptr},
    {"AwaitOn(executor) by value", true, true, OnByValue, nullptr},
    {"AwaitOn as {executor} by value", true, true, OnByBracesByValue, nullptr},
    {"on.By(deadline)", true, true, OnWithADeadline, nullptr},
    {"named lambda", true, true, NamedLambda, nullptr},
    {"options returned by a function", true, true, ReturnedOptions, nullptr},
    {"options returned by a function, by value", true, true, ReturnedOptionsByValue, nullptr},
    {"stored, then awaited", true, true, Stored, nullptr},
    {"initializer", true, true, UsedInAnInitializer, nullptr},
    {"braced options", false, false, Braced, nullptr},
    {"braced options with a temporary", false, false, BracedWithATemporary, nullptr},
    {"braced options with a copy", false, false, BracedWithACopy, nullptr},
    {"braced options by value", false, false, BracedByValue, nullptr},
    {"braced options by value with a copy", false, false, BracedByValueWithACopy, nullptr},
    {"Options{...} by value", false, false, TypedBracesByValue, nullptr},
    {"lambda that captures", false, false, Lambda, nullptr},
    {"lambda that captures, by reference", false, false, LambdaByRef, nullptr},
    {"member function, braced", false, false, Member, nullptr},
    {"member function, braced by value", false, false, MemberByValue, nullptr},
    {"braced options with an optional", false, false, BracedWithAnOptional, nullptr},
    {"braced options, answer used", false, false, BracedAndUsed, nullptr},
    {"aggregate AwaitOn as {executor}", false, false, BracedAggregateOn, nullptr},
    {"aggregate AwaitOn{executor}", false, false, TypedAggregateOn, nullptr},
    {"aggregate AwaitOn, returned", false, true, ReturnedAggregateOn, nullptr},
    {"aggregate AwaitOn, Within()", false, true, AggregateOnWithin, nullptr},
    {"named answer", true, true, nullptr, Named},
    {"if (auto r = co_await F(); ...)", true, true, nullptr, InitOfIf},
    {"(co_await F()) + 1", true, true, nullptr, Expression},
    {"g(co_await F())", true, true, nullptr, Argument},
    {"co_return co_await F()", true, true, nullptr, Returned},
    {"(void)co_await F()", true, true, nullptr, Discarded},
    {"if (co_await F() == 200) s;", false, false, nullptr, Condition},
    {"if (co_await F() == 200) { s; }", false, false, nullptr, ConditionWithBraces},
    {"if ((co_await F()) == 200) ... else ...", false, false, nullptr, ConditionWithElse},
    {"if (!(co_await F() == 503))", false, false, nullptr, Negated},
    {"condition after an early co_return", false, false, nullptr, AfterAnEarlyReturn},
    {"switch (co_await F())", false, false, nullptr, Switch},
};

bool RunsRight(const Case& test) {
  if (test.place != nullptr) {
    int n = 0;
    for (int i = 0; i < 10; ++i) {
      Task task = test.place(n);
      task.Run();
    }
    return n == 20;
  }
  bool right = true;
  for (const bool destroyed : {false, true}) {  // While it is suspended.
    alive = foreign = 0;
    suspended = nullptr;
    test.shape();
    destroyed ? suspended.destroy() : suspended.resume();
    right = right && alive == 0 && foreign == 0;
  }
  return right;
}

// Whether the process ends as it should: with 0, and without a crash or an endless loop.
bool IsRight(const Case& test) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(RunsRight(test) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

int main() {
  bool as_listed = true;
  for (const Case& test : kCases) {
    if (!test.promised && !kKnown) continue;
    const bool expected = test.promised || !kGcc12 || test.right_on_gcc12;
    if (IsRight(test) == expected) continue;
    std::printf("%s: expected to be compiled %s\n", test.name, expected ? "rightly" : "wrongly");
    as_listed = false;
  }
  return as_listed ? 0 : 1;
}
