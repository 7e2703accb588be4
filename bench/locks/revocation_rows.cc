// How often a writer has to call back readers that entered without a shared write, per write. The peer is the same lock
// with one write in a thousand operations, where reads have earned back what a revocation costs.
#include <memory>

#include "absl/status/status.h"
#include "locks/mix.h"
#include "locks/rows.h"
#include "stockade/locks/reentrant_shared_mutex.h"
#include "stockade/metrics/metrics_registry.h"

namespace stockade::bench {
namespace {

constexpr char kMetric[] = "stockade_lock_revocations_total";
constexpr size_t kThreads = 2;

class CountedMix {
 public:
  explicit CountedMix(double write_share) : write_share_(write_share) {}

  double RevocationsPerWrite(Worker& worker, absl::Duration span) {
    worker.Once([this] { before_ = Revocations(); });
    const Throughput throughput = mix_.Run(worker, span);
    return (Revocations() - before_) / (static_cast<double>(throughput.ops) * write_share_);
  }

 private:
  double Revocations() const {
    for (const prometheus::MetricFamily& family : registry_.Collect()) {
      if (family.name == kMetric && family.metric.size() == 1) return family.metric[0].counter.value;
    }
    return Require<double>(absl::NotFoundError("a named lock does not export the metric exactly once"), kMetric);
  }

  const double write_share_;
  double before_ = 0;
  MetricsRegistry registry_;
  Mix<ReentrantSharedMutex> mix_{kThreads, write_share_, LockOptions{.name = "bench", .metrics = &registry_}};
};

Measurement RevocationsPerWrite(double write_share, absl::Duration span) {
  return [=, mix = std::make_shared<CountedMix>(write_share)](Worker& worker) {
    return mix->RevocationsPerWrite(worker, span);
  };
}

}  // namespace

void AddRevocationRows(Suite& suite) {
  suite.Add({.name = "revocations a write, 90 % reads, 2 threads",
             .unit = "revocations",
             .peer = "ours, 99.9 % reads",
             .target = "<= 0.01 revocations"},
            {.threads = kThreads, .prepare = [](const Scale& scale) -> Contestants {
               return {RevocationsPerWrite(0.1, scale.span), RevocationsPerWrite(0.001, scale.span)};
             }});
}

}  // namespace stockade::bench
