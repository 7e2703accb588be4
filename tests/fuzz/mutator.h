#ifndef STOCKADE_TESTS_REDIS_FUZZ_MUTATOR_H_
#define STOCKADE_TESTS_REDIS_FUZZ_MUTATOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace stockade::testing {

// Inputs by number: first the corpus as it is, then mutations of it, each made of nothing but corpus, seed and number,
// so that one can be had again without those before it. Immutable, and so thread-safe.
class Mutator {
 public:
  // `corpus` is not empty.
  Mutator(std::vector<std::string> corpus, uint64_t seed) : corpus_(std::move(corpus)), seed_(seed) {}

  size_t corpus_size() const { return corpus_.size(); }
  std::string Input(uint64_t index) const;

 private:
  class Random;

  const std::string& Pick(Random& random) const;
  void Mutate(std::string& input, Random& random) const;

  const std::vector<std::string> corpus_;
  const uint64_t seed_;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_REDIS_FUZZ_MUTATOR_H_
