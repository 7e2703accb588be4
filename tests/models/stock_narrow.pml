// One item's stock over two shards: takes, deposits, how a refusal is proved, and how the stock becomes narrow (all
// units in shard 0) and wide again.
//
// Taker(me, first, second)      ShardedStock::Take() twice, of `first` and of `second` units, from either word first.
// Depositor(me, first, second)  Deposit() twice. `me`: the thread's own shard, while the stock is wide.
//
// Word 0 is {alone, frozen, units}, word 1 is {closed, frozen, units}.
//
// Invariants.
//  - Never are more units taken than were put in, and none gets lost: what is left and what was taken is what was
//    stocked.
//  - A take refuses only if at one moment within the call the stock was below what it wanted (`low`).
//  - The sum that is read while every open word is frozen is the stock. A closed word has no units.
//  - Nobody waits for ever (no invalid end state).
//
// `stock` is the ghost that all this is said of: the number of units, which every take and deposit changes at one
// moment within the call. Where units are moved word by word, under the slow lock and with every word frozen, that
// moment is the first one at which the outcome is certain.
//
// Abstracted. A loop of load and compare-and-swap on one word is one step: a swap that fails has no effect. Which word a
// thread tries is a hint in the code, which may be old: here it may always be shard 0. When the stock becomes narrow or
// wide is left open: the code decides by the number of units. The stores of the slow lock's holder are in memory at
// once: a store that is late shows to others as a holder that is slow, and each is in place before the lock is let go.
// kMaxUnits is left out.
//
// Broken: NO_FREEZE (becomes narrow without freezing), CLOSE_LATE (word 0 is alone before word 1 is closed), OPEN_FIRST (opens word 1
// before it freezes word 0), GATHER_UNFROZEN (unfreezes before it gathers), REFUSE_BY_OWN (an open word that is short
// refuses), STALE_MODE (who saw word 1 closed refuses by word 0, alone or not).

#define TAKERS 2

byte units[2] = 1;
bool frozen[2];
bool alone;   // Of word 0.
bool closed;  // Of word 1.
bool slow_lock;

// Ghosts.
byte stock = 2;
byte stocked = 2;
byte taken;
byte wanted[TAKERS];  // Zero outside of a call.
bool low[TAKERS];

inline NoteLow() {
  low[0] = low[0] || stock < wanted[0];
  low[1] = low[1] || stock < wanted[1];
}

inline Took() {
  stock = stock - wanted[me];
  taken = taken + wanted[me];
  assert(taken <= stocked);
  NoteLow();
}

inline Lock() { atomic { !slow_lock -> slow_lock = true } }
inline Unlock() { slow_lock = false }

// Returns with every open word frozen and their sum in `total`, as the code's Freeze().
inline Freeze() {
  d_step { frozen[0] = true; total = units[0] };
  if
  :: closed
  :: else -> d_step { frozen[1] = true; total = total + units[1] }
  fi;
  assert(total == stock)
}

inline Unfreeze() {
  frozen[1] = false;
  frozen[0] = false;
}

// Every open word is frozen. A word that is not open stays so: `closed`.
inline BecomeNarrow(sum) {
#ifdef CLOSE_LATE
  d_step { units[1] = (sum) / 2; frozen[1] = false };
  d_step { units[0] = (sum) - (sum) / 2; alone = true; frozen[0] = false };
  d_step { units[0] = units[0] + units[1]; units[1] = 0; closed = true }
#else
  d_step { units[0] = sum; alone = true; frozen[0] = false };
  d_step { units[1] = 0; closed = true; frozen[1] = false }
#endif
}

inline BecomeWide(sum) {
  d_step { units[0] = (sum) - (sum) / 2; alone = false; frozen[0] = false };
  d_step { units[1] = (sum) / 2; closed = false; frozen[1] = false }
}

mtype = {unclear, yes, refused};

// Sets `outcome`.
inline TakeFrom(word) {
  d_step {
    if
    :: frozen[word]
    :: !frozen[word] && units[word] >= wanted[me] -> units[word] = units[word] - wanted[me]; outcome = yes; Took()
    :: !frozen[word] && units[word] < wanted[me] && word == 0 && alone -> assert(units[0] == stock); outcome = refused
#ifdef REFUSE_BY_OWN
    :: !frozen[word] && units[word] < wanted[me] && word == 1 && !closed -> outcome = refused
#endif
#ifdef STALE_MODE
    :: !frozen[word] && units[word] < wanted[me] && word == 0 && !alone && seen_closed -> outcome = refused
#endif
    :: else
    fi
  }
}

inline Gather() {
  d_step {
    if
    :: units[me] < left -> left = left - units[me]; units[me] = 0
    :: else -> units[me] = units[me] - left; left = 0
    fi
  };
  units[1 - me] = units[1 - me] - left;
}

inline TakeFreezing() {
  Lock();
#ifdef NO_FREEZE
  total = units[0];
  total = total + units[1];
#else
  Freeze();
#endif
  d_step {
    if
    :: total >= wanted[me] -> left = wanted[me]; Took(); outcome = yes
    :: else -> outcome = refused
    fi
  };
  if
  :: true -> BecomeNarrow(total - left)
#ifdef GATHER_UNFROZEN
  :: !closed -> Unfreeze(); Gather()
#else
  :: !closed -> Gather(); Unfreeze()
#endif
  fi;
  Unlock();
}

inline Take(wanted_) {
  atomic { wanted[me] = wanted_; low[me] = false; outcome = unclear; NoteLow() }
  if
  :: atomic { seen_closed = closed; TakeFrom(1) }
     if
     :: outcome == unclear -> TakeFrom(0)
     :: else
     fi
  :: TakeFrom(0);
     if
     :: outcome == unclear -> TakeFrom(1)
     :: else
     fi
  fi;
  if
  :: outcome == unclear -> TakeFreezing()
  :: else
  fi;
  atomic {
    assert(outcome == yes || low[me]);
    wanted[me] = 0;
    low[me] = false;
    outcome = unclear;
    seen_closed = false;
    total = 0;
    left = 0
  }
}

proctype Taker(byte me; byte first; byte second) {
  byte total;
  byte left;
  bool seen_closed;
  mtype outcome = unclear;
  Take(first);
  Take(second);
}

inline TryAdd(word, added) {
  d_step {
    if
    :: frozen[word] || (word == 1 && closed)
    :: else -> units[word] = units[word] + added; stock = stock + added; done = true
    fi
  }
}

inline Deposit(added) {
  stocked = stocked + added;
  // The code adds to its own word only, and goes on with the slow lock; also if word 0 would have too many to be alone.
  if
  :: TryAdd(me, added)
  :: TryAdd(0, added)
  :: true
  fi;
  if
  :: done
  :: else ->
     Lock();
#ifdef OPEN_FIRST
     if
     :: closed -> d_step { stock = stock + added; units[1] = added; closed = false }; added_there = added
     :: else
     fi;
#endif
     Freeze();
#ifdef OPEN_FIRST
     d_step { stock = stock + added - added_there; total = total - added_there; added_there = 0 };
#else
     stock = stock + added;
#endif
     if
     :: BecomeNarrow(total + added)
     :: BecomeWide(total + added)
     fi;
     Unlock()
  fi;
  atomic { done = false; total = 0 }
}

proctype Depositor(byte me; byte first; byte second) {
  byte total;
#ifdef OPEN_FIRST
  byte added_there;
#endif
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
  assert(closed == alone && (!closed || units[1] == 0));
}
