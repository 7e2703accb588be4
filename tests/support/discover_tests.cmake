# Run when a test program has been linked: asks it for its tests, and writes a file with one ctest test per suite, all cases
# of a typed suite in one. Each runs the suite's cases in one process, without those that the patterns in
# EXCLUDED match. A suite that is a pattern, as `Suite.*`, gets no test.
#   cmake -D PROGRAM=... -D OUTPUT=... -D PREFIX=... -D PROPERTIES=... -D EXCLUDED=... -P discover_tests.cmake
execute_process(COMMAND "${PROGRAM}" --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE result TIMEOUT 600)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests ends with ${result}")
endif()
# Suites are the lines that are not indented: "Suite." or "Instance/Suite/0.  # TypeParam = int".
string(REGEX MATCHALL "(^|\n)[A-Za-z_][^ \n]*\\." lines "${listed}")
set(suites "")
foreach(line IN LISTS lines)
  string(STRIP "${line}" line)
  string(REGEX REPLACE "(/[0-9]+)?\\.$" "" suite "${line}")
  if(NOT line MATCHES "^Running main")
    list(APPEND suites "${suite}")
    list(APPEND filter_${suite} "${line}*")
  endif()
endforeach()
list(REMOVE_DUPLICATES suites)
if(suites STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
set(script "")
foreach(suite IN LISTS suites)
  if(":${EXCLUDED}:" MATCHES ":${suite}\\.\\*:")
    continue()
  endif()
  list(JOIN filter_${suite} ":" filter)
  string(REGEX MATCHALL ":${suite}\\.[^:]*" excluded ":${EXCLUDED}")
  if(excluded)
    list(JOIN excluded "" excluded)  # ":pattern:pattern": a pattern that is empty matches nothing.
    string(APPEND filter "-${excluded}")
  endif()
  string(APPEND script "add_test([=[${PREFIX}${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${filter}]=])\n"
    "set_tests_properties([=[${PREFIX}${suite}]=] PROPERTIES ${PROPERTIES})\n")
endforeach()
file(WRITE "${OUTPUT}" "${script}")
