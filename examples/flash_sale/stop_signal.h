#ifndef STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_
#define STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_

namespace flash_sale {

// From its construction on, SIGINT and SIGTERM no longer end the process but Wait(). One object at a time.
class StopSignal {
 public:
  StopSignal();
  // Returns once one of them has come.
  void Wait();
};

}  // namespace flash_sale

#endif  // STOCKADE_EXAMPLES_FLASH_SALE_STOP_SIGNAL_H_
