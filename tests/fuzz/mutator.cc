#include "mutator.h"

#include <iterator>
#include <string_view>

namespace stockade::testing {
namespace {

constexpr size_t kMaxInputBytes = size_t{1} << 16;
constexpr size_t kMaxMutations = 6;

// What URLs and RESP take for more than a letter, and numbers at the ends of their ranges.
constexpr std::string_view kMarks = "\n %@:/?#&=,[]$*+-0\x7f\xff";
constexpr std::string_view kTokens[] = {
    "\r\n", "%00", "%zz", "://", "-1", "65536", "536870913", "2147483648", "9223372036854775808", "rediss", "&tls_"};

// The finalizer of SplitMix64.
uint64_t Mixed(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

// SplitMix64, because there is one for each input and std::mt19937_64 takes longer to seed than most inputs to run.
class Mutator::Random {
 public:
  Random(uint64_t seed, uint64_t index) : state_(Mixed(seed + kStep) ^ index) {}

  uint64_t Next() { return Mixed(state_ += kStep); }
  size_t Below(size_t bound) { return static_cast<size_t>(Next() % bound); }

 private:
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  uint64_t state_;
};

const std::string& Mutator::Pick(Random& random) const { return corpus_[random.Below(corpus_.size())]; }

std::string Mutator::Input(uint64_t index) const {
  if (index < corpus_.size()) return corpus_[index];
  Random random(seed_, index);
  std::string input = Pick(random);
  for (size_t left = 1 + random.Below(kMaxMutations); left > 0; --left) Mutate(input, random);
  if (input.size() > kMaxInputBytes) input.resize(kMaxInputBytes);
  return input;
}

void Mutator::Mutate(std::string& input, Random& random) const {
  const size_t at = random.Below(input.size() + 1);
  const size_t length = 1 + random.Below(16);
  switch (random.Below(9)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << random.Below(8)));
      break;
    case 1:
      if (at < input.size()) input[at] = static_cast<char>(random.Next());
      break;
    case 2: input.resize(at); break;
    case 3: input.erase(at, length); break;
    case 4: input.insert(at, std::string(input, at, length)); break;
    case 5: {  // A splice: ours up to here, another's from anywhere.
      const std::string& other = Pick(random);
      input.replace(at, std::string::npos, other, random.Below(other.size() + 1), std::string::npos);
      break;
    }
    case 6: {  // Many of one, for what counts or recurses.
      const std::string repeated(input, at, length);
      for (size_t times = random.Below(100); times > 0; --times) input.insert(at, repeated);
      break;
    }
    case 7: input.insert(at, 1, kMarks[random.Below(kMarks.size())]); break;
    default: input.insert(at, kTokens[random.Below(std::size(kTokens))]); break;
  }
}

}  // namespace stockade::testing
