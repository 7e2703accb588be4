#include "support/certificates.h"

#include <vector>

#include "stockade/base/log.h"
#include "stockade/base/strings.h"
#include "support/subprocess.h"

namespace stockade::testing {

using ::stockade::base_internal::Concat;

namespace {

void OpenSsl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "openssl");
  const RunResult result = RunToEnd(arguments);
  if (result.status != 0) base_internal::Fatal(Concat("openssl ", arguments[1], ": ", result.out, result.err));
}

// A new key, and `more` to make of it.
void Request(const std::string& subject, const std::string& key_file, const std::string& out_file,
             const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"req",    "-newkey", "ec",    "-pkeyopt", "ec_paramgen_curve:prime256v1",
                                        "-nodes", "-subj",   subject, "-keyout",  key_file,
                                        "-out",   out_file};
  arguments.insert(arguments.end(), more.begin(), more.end());
  OpenSsl(std::move(arguments));
}

}  // namespace

CertificateAuthority::CertificateAuthority(std::string name) {
  Request("/CN=" + name, dir_.File("ca-key.pem"), ca_file(), {"-x509", "-days", "2"});
}

Certificate CertificateAuthority::Issue(const std::string& names, int days) {
  const std::string number = std::to_string(++issued_);
  const Certificate issued = {.cert_file = dir_.File(number + ".pem"), .key_file = dir_.File(number + "-key.pem")};
  const std::string request = dir_.File("request.pem");
  Request("/CN=stockade test", issued.key_file, request, {"-addext", "subjectAltName=" + names});
  OpenSsl({"x509", "-req", "-in", request, "-copy_extensions", "copy", "-days", std::to_string(days), "-CA", ca_file(),
           "-CAkey", dir_.File("ca-key.pem"), "-set_serial", number, "-out", issued.cert_file});
  return issued;
}

}  // namespace stockade::testing
