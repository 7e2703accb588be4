#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ticket_office {

// Accidents that happen to a seller. A pause is a SIGSTOP; a closed laptop, a swapping machine or a debugger cause the
// same. The seller's code cannot notice it, before or meanwhile. The scenario ends the pause, so nothing depends on
// luck.
enum class Fate {
  kNone,
  kPausedAtEachRead,  // Between its look at the number and its write.
  kPausedAtFirstRead,
  kPausedBeforeLeaving,  // After its first sale, before it leaves the lock; then it sells one more and goes home.
  kCrashesAtFirstRead,   // By SIGKILL.
};

// The part of the program that sells, in a process of its own.
struct SellerPlan {
  char scenario = 'a';
  Fate fate = Fate::kNone;
  std::string redis = {};
  std::string locks = {};  // For ConnectLocks().
  std::string place = {};  // Of its TicketStore.
};

// The arguments that start `program` as this seller.
std::vector<std::string> SellerArgs(const std::string& program, const SellerPlan& plan);
// Whether this process was started in this way.
bool IsSeller(int argc, char** argv);

// Sells until there are no tickets left, or until it gives up waiting for the lock. Returns the exit status: 0, or 2
// after a line on standard error.
int SellerMain(char** argv);

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_
