#include "ledger/rows.h"

int main(int argc, char** argv) { return stockade::bench::BenchMain(argc, argv, stockade::bench::AddLedgerRows); }
