#ifndef STOCKADE_TESTS_CACHE_SCHEDULES_CHECKER_H_
#define STOCKADE_TESTS_CACHE_SCHEDULES_CHECKER_H_

#include <string>

#include "cache/schedules/history.h"
#include "cache/schedules/model.h"

namespace stockade::testing {

// Whether the sequential model of a key (model.h) explains what was seen of each key. Empty: it does; else what is
// wrong. Keys are judged one by one, which is enough, since linearizability is local (Herlihy and Wing 1990).
//
// Looks for an order of the steps by trying each one that may come next (Wing and Gong 1993), and remembers the pairs
// of steps done and state that led nowhere (Lowe 2017).
std::string CheckHistory(const Rules& rules, const History& history, int keys);

}  // namespace stockade::testing

#endif  // STOCKADE_TESTS_CACHE_SCHEDULES_CHECKER_H_
