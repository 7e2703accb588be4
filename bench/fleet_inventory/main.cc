#include "fleet_inventory/rows.h"
#include "measure/bench_main.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, stockade::bench::AddFleetInventoryRows);
}
