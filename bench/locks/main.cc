#include "locks/rows.h"

int main(int argc, char** argv) {
  return stockade::bench::BenchMain(argc, argv, [](stockade::bench::Suite& suite) {
    stockade::bench::AddMutexRows(suite);
    stockade::bench::AddSharedMutexRows(suite);
  });
}
