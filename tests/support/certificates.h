#ifndef STOCKADE_TESTS_SUPPORT_CERTIFICATES_H_
#define STOCKADE_TESTS_SUPPORT_CERTIFICATES_H_

#include <string>

#include "support/needs_program.h"
#include "support/temp_dir.h"

// For SetUp() or a test's body, before the first CertificateAuthority.
#define STOCKADE_NEEDS_OPENSSL() STOCKADE_NEEDS_PROGRAM("openssl", "openssl")

namespace stockade::testing {

// PEM files.
struct Certificate {
  std::string cert_file;
  std::string key_file;  // Not encrypted, and only for this certificate.
};

// Signs certificates. The files are gone with the object. Aborts if the program openssl fails. Not thread-safe.
class CertificateAuthority {
 public:
  // Two authorities of one name have different keys.
  explicit CertificateAuthority(std::string name = "stockade test CA");

  // The authority's own certificate, by which others check those that it signs.
  std::string ca_file() const { return dir_.File("ca.pem"); }

  // A certificate for `names`, "IP:127.0.0.1,DNS:localhost", that is valid from now on for so many days. If negative,
  // it has expired so many days ago.
  Certificate Issue(const std::string& names = "IP:127.0.0.1,DNS:localhost", int days = 2);

 private:
  const TempDir dir_;
  int issued_ = 0;
};

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_SUPPORT_CERTIFICATES_H_
