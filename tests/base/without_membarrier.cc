// without_membarrier <program> [args]: runs it where the kernel refuses membarrier(2), as some container runtimes do.
#include <unistd.h>

#include <cstdio>

#include "base/refuse_membarrier.h"

int main(int argc, char** argv) {
  if (argc < 2 || !stockade::testing::RefuseMembarrier()) {
    std::perror("without_membarrier");
    return 125;
  }
  execvp(argv[1], argv + 1);
  std::perror(argv[1]);
  return 127;
}
