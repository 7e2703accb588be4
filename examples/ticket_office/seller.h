#ifndef STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_
#define STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ticket_office {

// What befalls a seller. A pause is a SIGSTOP, as a laptop that is closed, a machine that swaps or a debugger make it:
// no code of the seller's can tell, before or meanwhile. It ends when the scenario says so, so nothing is left to luck.
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
// Whether we have been started in this way.
bool IsSeller(int argc, char** argv);

// Sells until there are no tickets, or it gives up waiting for the lock. The exit status: 0, or 2 with a line on
// standard error.
int SellerMain(char** argv);

}  // namespace ticket_office

#endif  // STOCKADE_EXAMPLES_TICKET_OFFICE_SELLER_H_
