#ifndef STOCKADE_EXAMPLES_COMMON_PROGRESS_H_
#define STOCKADE_EXAMPLES_COMMON_PROGRESS_H_

#include <string>

namespace examples {

// Shows the progress on standard output: a bar that is redrawn on a terminal, otherwise one line per quarter. One
// thread at a time.
class Progress {
 public:
  Progress();

  // A line of its own.
  void Say(const std::string& line);
  // `share`: 0 to 1, of the stage called `label`.
  void Update(const std::string& label, double share, const std::string& detail);
  // The stage is over.
  void Finish(const std::string& label, const std::string& detail);

 private:
  void Clear();

  const bool terminal_;
  bool drawn_ = false;
  int quarters_told_ = 0;
};

}  // namespace examples

#endif  // STOCKADE_EXAMPLES_COMMON_PROGRESS_H_
