// One item's stock over shards of {units, frozen, latched}: takes, deposits, and how a refusal is proved.
//
// Taker(me, first, second)      ShardedStock::Take() twice, of `first` and of `second` units.
// Depositor(me, first, second)  Deposit() twice. `me` is the number of the thread's own shard.
//
// Invariants.
//  - Never are more units taken than were put in, and none gets lost: what is left and what was taken is what was
//    stocked.
//  - A take refuses only if at one moment within the call the stock was below what it wanted (`low`).
//  - The sum that is read while every shard is frozen is the stock; while any shard is latched the stock is zero.
//  - Nobody waits for ever (no invalid end state).
//
// `stock` is the ghost that all this is said of: the number of units, which every take and deposit changes at one
// moment within the call. Where units are moved shard by shard, under the slow lock and with every shard frozen, that
// moment is the first one at which the outcome is certain.
//
// Abstracted. A loop of load and compare-and-swap on one word is one step: a swap that fails has no effect. The order
// of the sweep over other shards does not matter with two. The stores of the slow lock's holder are in memory at once:
// a store that is late shows to others as a holder that is slow, and each is in place before the lock is let go.
// kMaxUnits is left out.
//
// Broken: NO_FREEZE (refuses after a sweep that found nothing), LATCH_WITHOUT_TOTAL (latches on any refusal),
// IGNORE_LATCH (a deposit adds to a latched word), LATCH_UNFROZEN (unfreezes before it latches), LATCH_EARLY (latches
// each empty shard as it freezes it, before all are frozen), ADD_EARLY (a deposit unlatches, fills and unfreezes shard
// after shard, so that it adds before all are unlatched), GATHER_UNFROZEN (unfreezes before it gathers). With
// NO_LATCH_CHECKS wrong latches are followed to the wrong answer.

#define SHARDS 2
#define TAKERS 2
#define START 1

#ifdef NO_LATCH_CHECKS
#define LATCH_CHECK skip
#else
#define LATCH_CHECK assert(stock == 0)
#endif

byte units[SHARDS] = START;
bool frozen[SHARDS];
bool latched[SHARDS];
bool slow_lock;

// Ghosts.
byte stock = 2;
byte stocked = 2;
byte taken;
byte wanted[TAKERS];  // Zero outside of a call.
bool low[TAKERS];
#ifdef ADD_EARLY
byte arriving;  // Of a deposit that no take and no return has shown yet: as late as can be, lest the ghost be blamed.
#endif

inline NoteLow() {
  low[0] = low[0] || stock < wanted[0];
  low[1] = low[1] || stock < wanted[1];
}

inline Took() {
#ifdef ADD_EARLY
  stock = stock + arriving;
  arriving = 0;
#endif
  stock = stock - wanted[me];
  taken = taken + wanted[me];
  assert(taken <= stocked);
  NoteLow();
}

inline Lock() { atomic { !slow_lock -> slow_lock = true } }
inline Unlock() { slow_lock = false }

// Returns with every shard frozen and their sum in `total`, as the code's Freeze().
inline Freeze() {
  total = 0;
  i = 0;
  do
#ifdef LATCH_EARLY
  :: i < SHARDS -> d_step { frozen[i] = true; total = total + units[i]; latched[i] = (total == 0); i++ }
#else
  :: i < SHARDS -> d_step { frozen[i] = true; total = total + units[i]; i++ }
#endif
  :: else -> break
  od;
}

inline Unfreeze() {
  i = 0;
  do
  :: i < SHARDS -> d_step { frozen[i] = false; latched[i] = false; i++ }
  :: else -> break
  od;
}

inline Latch() {
#ifdef LATCH_UNFROZEN
  Unfreeze();
#endif
  i = 0;
  do
  :: i < SHARDS -> d_step { units[i] = 0; frozen[i] = false; latched[i] = true; i++ }
  :: else -> break
  od;
}

mtype = {unclear, yes, refused};

// Sets `outcome`.
inline TakeFrom(shard) {
  atomic {
    if
    :: latched[shard] -> LATCH_CHECK; outcome = refused
    :: !latched[shard] && (frozen[shard] || units[shard] < wanted[me])
    :: else -> units[shard] = units[shard] - wanted[me]; outcome = yes; Took()
    fi
  }
}

inline Gather() {
  left = wanted[me];
  i = me;
  do
  :: left > 0 ->
     d_step {
       if
       :: units[i] < left -> left = left - units[i]; units[i] = 0
       :: else -> units[i] = units[i] - left; left = 0
       fi;
       i = (i + 1) % SHARDS
     }
  :: else -> break
  od;
}

inline TakeFreezing() {
  Lock();
  if
  :: latched[0] -> LATCH_CHECK; outcome = refused
  :: else ->
     Freeze();
     assert(total == stock);
     if
#ifdef GATHER_UNFROZEN
     :: total >= wanted[me] -> Unfreeze(); atomic { Took(); outcome = yes }; Gather()
#else
     :: total >= wanted[me] -> atomic { Took(); outcome = yes }; Gather()
#endif
     :: else -> outcome = refused
     fi;
     if
#ifdef LATCH_WITHOUT_TOTAL
     :: outcome == refused || total == wanted[me] -> Latch()
#else
     :: total == 0 || total == wanted[me] -> Latch()
#endif
     :: else -> Unfreeze()
     fi
  fi;
  Unlock();
}

inline Take(wanted_) {
  atomic { wanted[me] = wanted_; low[me] = false; outcome = unclear; NoteLow() }
  TakeFrom(me);
  if
  :: outcome == unclear -> TakeFrom(1 - me)
  :: else
  fi;
  if
#ifdef NO_FREEZE
  :: outcome == unclear -> outcome = refused
#else
  :: outcome == unclear -> TakeFreezing()
#endif
  :: else
  fi;
  atomic {
    assert(outcome == yes || low[me]);
    wanted[me] = 0;
    low[me] = false;
    outcome = unclear;
    total = 0;
    left = 0;
    i = 0
  }
}

proctype Taker(byte me; byte first; byte second) {
  byte total;
  byte left;
  byte i;
  mtype outcome = unclear;
  Take(first);
  Take(second);
}

inline TryAdd(added) {
  atomic {
    if
#ifdef IGNORE_LATCH
    :: frozen[me]
#else
    :: frozen[me] || latched[me]
#endif
    :: else -> units[me] = units[me] + added; stock = stock + added; done = true
    fi
  }
}

// Each shard's share, the same in the code: units / count, and one more in the first units % count.
inline Spread(added) {
  i = 0;
#ifdef ADD_EARLY
  arriving = added;
  do
  :: i < SHARDS ->
     d_step {
       latched[i] = false;
       units[i] = units[i] + added / SHARDS + (i < added % SHARDS -> 1 : 0);
       frozen[i] = false;
       i++
     }
  :: else -> break
  od;
  atomic { stock = stock + arriving; arriving = 0 }
#else
  do
  :: i < SHARDS -> latched[i] = false; i++
  :: else -> break
  od;
  stock = stock + added;
  i = 0;
  do
  :: i < SHARDS -> d_step { units[i] = units[i] + added / SHARDS + (i < added % SHARDS -> 1 : 0); i++ }
  :: else -> break
  od;
#endif
}

inline Deposit(added) {
  stocked = stocked + added;
  TryAdd(added);
  if
  :: done
  :: else ->
     Lock();
     TryAdd(added);
     if
     :: done
     :: else ->
        Freeze();
        assert(total == stock);
        Spread(added);
        Unfreeze()
     fi;
     Unlock()
  fi;
  atomic { done = false; total = 0; i = 0 }
}

proctype Depositor(byte me; byte first; byte second) {
  byte total;
  byte i;
  bool done;
  Deposit(first);
  Deposit(second);
}

init {
  atomic {
    run Taker(0, 2, 1);
    run Taker(1, 1, 2);
    run Depositor(0, 1, 1);
    run Depositor(1, 2, 1);
  }
  // All have ended.
  _nr_pr == 1;
  assert(units[0] + units[1] == stock && stock + taken == stocked && !frozen[0] && !frozen[1]);
}
