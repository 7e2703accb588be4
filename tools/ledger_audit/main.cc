// Is all in a ledger's file that was acknowledged? Reads it with its log, and changes nothing.
//
//   ledger_audit orders.db

#include <iostream>

#include "absl/status/status.h"
#include "stockade/inventory/sqlite_ledger.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: ledger_audit FILE\n";
    return 2;
  }
  const absl::Status status = stockade::SqliteLedger::Audit(argv[1]);
  if (!status.ok()) {
    std::cerr << status << "\n";
    return 1;
  }
  std::cout << argv[1] << ": no damage found\n";
  return 0;
}
