#ifndef STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_

namespace flash_sale {

// From its construction to its destruction, SIGINT and SIGTERM end Wait() and not the process. One object at a time.
class StopSignal {
 public:
  StopSignal();
  // Ends the process if a signal came that Wait() did not report.
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // True once a signal has come. False once `other`, a file descriptor, can be read.
  bool Wait(int other);

 private:
  bool reported_ = false;
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_
