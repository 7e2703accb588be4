// Units of two items at once, one shard each: every outcome is that of one moment, and nobody waits in a circle.
//
// Basket(me, first, second)   ShardedStock::TakeTogether() twice, of lines for `first` and then for `second`.
// Taker(me, item)             Take(2) of `item`, then Take(1) of the other one.
// Depositor(item)             Deposit(1) to `item`, then Deposit(2) to the other one.
//
// Invariants.
//  - Of neither item are more units taken than were put in, and none gets lost. A basket is taken whole or not at all:
//    `stock` is lowered for both items in one step.
//  - A refusal names an item of which at one moment within the call there were fewer than were wanted (`low`).
//  - What is read of a frozen item is its stock.
//  - Nobody waits for ever (no invalid end state).
//
// `stock` is the ghost that all this is said of. A basket lowers it once both items are frozen and known to be enough.
//
// Abstracted, as in stock_narrow.pml, which shows what many shards make of it: here an item has one, so that freezing and
// unfreezing it are one step each. Whether a take that finds too little may refuse, as of a narrow stock, or has to freeze
// first, is left open.
//
// Broken: UNSORTED (takes the slow locks in the order of the lines), READ_UNFROZEN (reads the second item before it
// freezes it), UNDO (takes from the first item and thaws it, and gives back where the second is short).

#define ITEMS 2
#define CALLERS 3
#define NONE ITEMS
#define AT(item) (me * ITEMS + (item))

byte units[ITEMS] = 1;
bool frozen[ITEMS];
bool slow_lock[ITEMS];

// Ghosts.
byte stock[ITEMS] = 1;
byte stocked[ITEMS] = 1;
byte taken[ITEMS];
byte wanted[CALLERS * ITEMS];  // Zero outside of a call.
bool low[CALLERS * ITEMS];

#define NOTE(k) low[k] = low[k] || stock[(k) % ITEMS] < wanted[k]

inline NoteLow() {
  d_step { NOTE(0); NOTE(1); NOTE(2); NOTE(3); NOTE(4); NOTE(5) }
}

inline Took(it, units_) {
  stock[it] = stock[it] - units_;
  taken[it] = taken[it] + units_;
  assert(taken[it] <= stocked[it]);
}

inline Lock(it) { atomic { !slow_lock[it] -> slow_lock[it] = true } }
inline Unlock(it) { slow_lock[it] = false }

inline Freeze(it, sum) { d_step { frozen[it] = true; sum = units[it] } }

// Takes so many units.
inline GatherAndThaw(it, units_) {
  d_step {
    units[it] = units[it] - units_;
    frozen[it] = false
  }
}

// Sets `refused` to the item, where it is narrow and empty.
inline LookIfEmpty(it) {
  d_step {
    if
    :: refused == NONE && !frozen[it] && units[it] == 0 -> refused = it
    :: true
    fi
  }
}

inline LockBoth(one, other) {
#ifdef UNSORTED
  Lock(one);
  Lock(other);
#else
  Lock(0);
  Lock(1);
#endif
}

#ifdef UNDO
inline Take2(one, n1, other, n2) {
  Freeze(one, total);
  if
  :: total < n1 -> refused = one; GatherAndThaw(one, 0)
  :: else ->
     GatherAndThaw(one, n1);
     Freeze(other, total2);
     if
     :: total2 < n2 ->
        refused = other;
        GatherAndThaw(other, 0);
        units[one] = units[one] + n1
     :: else -> atomic { Took(one, n1); Took(other, n2); NoteLow() }; GatherAndThaw(other, n2)
     fi
  fi
}
#else
inline Take2(one, n1, other, n2) {
  Freeze(one, total);
#ifdef READ_UNFROZEN
  total2 = units[other];
  frozen[other] = true;
#else
  Freeze(other, total2);
#endif
  assert(total == stock[one] && total2 == stock[other]);
  if
  :: total < n1 -> refused = one
  :: total >= n1 && total2 < n2 -> refused = other
  :: else -> atomic { Took(one, n1); Took(other, n2); NoteLow() }
  fi;
  if
  :: refused == NONE -> GatherAndThaw(one, n1); GatherAndThaw(other, n2)
  :: else -> GatherAndThaw(one, 0); GatherAndThaw(other, 0)
  fi
}
#endif

inline TakeTogether(line1, wanted1, line2, wanted2) {
  atomic { wanted[AT(line1)] = wanted1; wanted[AT(line2)] = wanted2; NoteLow() }
  LookIfEmpty(line1);
  LookIfEmpty(line2);
  if
  :: refused == NONE ->
     LockBoth(line1, line2);
     LookIfEmpty(line1);
     LookIfEmpty(line2);
     if
     :: refused == NONE -> Take2(line1, wanted1, line2, wanted2)
     :: else
     fi;
     Unlock(line1);
     Unlock(line2)
  :: else
  fi;
  d_step {
    assert(refused == NONE || low[AT(refused)]);
    wanted[AT(0)] = 0;
    wanted[AT(1)] = 0;
    low[AT(0)] = false;
    low[AT(1)] = false;
    refused = NONE;
    total = 0;
    total2 = 0
  }
}

proctype Basket(byte me; byte first; byte second) {
  byte total;
  byte total2;
  byte refused = NONE;
  TakeTogether(first, 1, second, 1);
  TakeTogether(first, 1, second, 2);
}

mtype = {unclear, yes, no};

inline Take(from, want) {
  atomic { wanted[AT(from)] = want; NoteLow() }
  atomic {
    if
    :: !frozen[from] && units[from] < want -> outcome = no
    :: frozen[from] || units[from] < want
    :: else -> units[from] = units[from] - want; outcome = yes; Took(from, want); NoteLow()
    fi
  }
  if
  :: outcome == unclear ->
     Lock(from);
     Freeze(from, total);
     assert(total == stock[from]);
     if
     :: total >= want -> atomic { Took(from, want); NoteLow(); outcome = yes }; GatherAndThaw(from, want)
     :: else -> outcome = no; GatherAndThaw(from, 0)
     fi;
     Unlock(from)
  :: else
  fi;
  d_step {
    assert(outcome == yes || low[AT(from)]);
    wanted[AT(from)] = 0;
    low[AT(from)] = false;
    outcome = unclear;
    total = 0
  }
}

proctype Taker(byte me; byte item) {
  byte total;
  mtype outcome = unclear;
  Take(item, 2);
  Take(1 - item, 1);
}

inline TryAdd(it, units_) {
  d_step {
    if
    :: frozen[it]
    :: else -> units[it] = units[it] + units_; stock[it] = stock[it] + units_; done = true
    fi
  }
}

// Also with the slow lock, as where the units do not fit.
inline Deposit(to, added) {
  stocked[to] = stocked[to] + added;
  if
  :: TryAdd(to, added)
  :: true
  fi;
  if
  :: done
  :: else ->
     Lock(to);
     frozen[to] = true;
     d_step { units[to] = units[to] + added; stock[to] = stock[to] + added }
     frozen[to] = false;
     Unlock(to)
  fi;
  done = false
}

proctype Depositor(byte item) {
  bool done;
  Deposit(item, 1);
  Deposit(1 - item, 2);
}

init {
  atomic {
    run Basket(0, 0, 1);
    run Basket(1, 1, 0);
    run Taker(2, 0);
    run Depositor(0);
  }
  // All have ended.
  _nr_pr == 1;
  assert(units[0] == stock[0] && stock[0] + taken[0] == stocked[0] && !frozen[0]);
  assert(units[1] == stock[1] && stock[1] + taken[1] == stocked[1] && !frozen[1]);
}
