#include "measure/bench_main.h"
#include "stampede/rows.h"

int main(int argc, char** argv) { return stockade::bench::BenchMain(argc, argv, stockade::bench::AddStampedeRows); }
