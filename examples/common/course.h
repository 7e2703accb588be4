#ifndef STOCKADE_EXAMPLES_COMMON_COURSE_H_
#define STOCKADE_EXAMPLES_COMMON_COURSE_H_

#include <cstddef>
#include <vector>

namespace examples {

// The moments of a run, for a page to draw. Of a longer run, every other moment is dropped, repeatedly; the newest is
// always there. One thread at a time.
template <typename Moment>
class Course {
 public:
  void Add(const Moment& moment) {
    // The newest takes the place of one that is not to be kept.
    if (passed_ > 0) moments_.pop_back();
    moments_.push_back(moment);
    passed_ = (passed_ + 1) % each_;
    if (passed_ > 0 || moments_.size() < kMost) return;
    std::vector<Moment> thinner;
    for (size_t i = 1; i < moments_.size(); i += 2) thinner.push_back(moments_[i]);
    moments_.swap(thinner);
    each_ *= 2;
  }

  // Ascending by time.
  const std::vector<Moment>& moments() const { return moments_; }

 private:
  // The number of moments that a page can draw.
  static constexpr size_t kMost = 400;

  std::vector<Moment> moments_;
  size_t each_ = 1;    // One of so many is kept...
  size_t passed_ = 0;  // ... and so many have come since the last one that was.
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_COURSE_H_
