#include "distributed_locks/load_rows.h"

#include <utility>

namespace stockade::bench {
namespace {

constexpr size_t kThreads = 16;

struct Load {
  const char* name;
  size_t threads;
  bool own_names;
  bool has_target;
};

constexpr Load kLoads[] = {
    {.name = "alone", .threads = 1, .own_names = true, .has_target = true},
    {.name = "16 threads, one name", .threads = kThreads, .own_names = false, .has_target = true},
    {.name = "16 threads, own names", .threads = kThreads, .own_names = true, .has_target = false},
};

}  // namespace

LockRun RunOf(std::shared_ptr<OurLocks> ours) {
  return [ours = std::move(ours)](Worker& worker, bool own_names, absl::Duration span) {
    return ours->Run(worker, LockKind::kReentrant, own_names, span);
  };
}

void AddLoadRows(Suite& suite, const std::string& engine, const std::string& peer, const std::string& target,
                 const std::function<LockSides(const Scale& scale)>& open) {
  for (const Load& load : kLoads) {
    suite.Add({.name = engine + ": lock + unlock, " + load.name,
               .unit = "us",
               .peer = peer,
               .target = load.has_target ? target : "-"},
              {.threads = load.threads, .prepare = [=](const Scale& scale) -> Contestants {
                 const LockSides sides = open(scale);
                 const auto figure = [load, span = 10 * scale.span](Worker& worker, const LockRun& run) {
                   return run(worker, load.own_names, span).NsPerOp() / 1000;
                 };
                 return {[=](Worker& worker) { return figure(worker, sides.ours); },
                         [=](Worker& worker) { return figure(worker, sides.peer); }};
               }});
  }
}

}  // namespace stockade::bench
