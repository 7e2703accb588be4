// Refusals of one SKU in a SQL ledger that many processes share. A process refuses without the ledger as long as it has
// a lease, and each refusal is true.
// fleet_orders.pml shows that transactions neither oversell nor lose units, whatever happens to packets. Therefore a
// transaction and its reply are one step here, except where the time between them matters.
//
// Process(p)    answers one call after another. It takes units from its segment, or merges the segments and takes. Or
//               it looks: it reads the stock, then the request id, and refuses. Or it refuses by its lease. Both
//               processes have calls with request id 0.
// Memory(p)     does the rest of the process's work. It reads that the SKU is latched, which starts a lease; it loads
//               the ids that took units; the lease expires.
// Depositor(d)  cancels orders and restocks. If its units went to limbo, it waits for 1.1 leases, and moves all of
//               limbo to its segment. It may crash between these steps. Afterwards it does what every process does
//               that sees units in limbo: it waits and moves them.
// World         latches the SKU, and commits orders.
//
// The SKU's row has a mode, an epoch and limbo. Open: units are for sale. Latched: all segments were locked and had no
// units, and limbo was empty; this began the epoch. Draining: units have come back since, and are in limbo. A deposit
// locks the row. In mode open it adds to a segment, otherwise to limbo. The mode is open again when limbo is moved to a
// segment. That is one transaction, which does nothing unless the epoch is the one in which its process has waited.
//
// Invariants.
//  - A call that is refused has a moment, between its beginning and its answer, at which the segments had fewer units
//    than it wants and its id had not taken units (`low`). So the refusal is linearizable, and no repeat of an id that
//    took units is refused.
//  - A refusal is kSoldOut if, when the lease or the look began, fewer units than wanted were in segments, limbo and
//    held orders; otherwise it is kAllHeld. By a look this is true at once, also while only limbo has units. COMMITS: a
//    kSoldOut by a lease is also true when it is given, if the units of a restock count from when Restock returns,
//    which is when they are for sale.
//  - The units in segments, limbo and orders are those that were granted.
//  - Units are taken in mode open only.
//  - CALM: once calls, deposits and crashes have ended, limbo becomes empty.
//
// Abstracted.
//  - Time. A lease may expire at any moment. A process waits for 1.1 leases from the reply that told it of units in
//    limbo. So it waits for all leases of reads before the mode became draining (`stale`), and for nothing else.
//  - A lease counts from when its read was sent. Here it counts from the read, which is later, so leases are longer
//    than in the code. A renewal is a lease that expires later.
//  - The epoch is not counted. What a process remembers of an epoch is of no use once the SKU is open again, because
//    the next latch begins a new one, so it is forgotten then.
//  - The transaction that latches is also a read of the latch; here that read is a step of its own.
//  - A process leaves out ids that none of its calls has when it loads those that took units.
//
// COMMITS: orders are also committed, and unsold units are counted. CALM: as above.
//
// Broken: SECOND_TO_POOL (only the deposit that finds the SKU latched goes to limbo), LATE_MOVER (limbo is moved in any
// epoch), LOOK_FIRST (a look reads the request id before the stock), IDS_FIRST (ids are loaded before the read that
// starts the lease), FROM_REPLY (a lease counts from the reply to its read), NO_WAIT (limbo is moved at once),
// WAIT_FROM_SENDING (the wait counts from when the deposit was sent), EMPTY_IS_SOLD_OUT (a process refuses when its own
// segment is short), NO_IDS (a lease is enough to refuse), KEEP_IDS (the ids of an epoch are kept in the next). For
// CALM: NO_LIMBO_CHECK (the latch does not look at limbo), DEPOSITOR_ALONE (only the process whose deposit went to
// limbo moves it). For COMMITS: RETURN_EARLY (Restock returns when its units are in limbo). NO_MODE_CHECKS leaves out
// the assertion that units are taken in mode open only, so that the search goes on to the refusal that is false.

#ifndef STOCK
#define STOCK 1
#endif
// The units that id 0 wants.
#ifndef BIG
#define BIG 1
#endif
#ifndef RESTOCKS
#define RESTOCKS 1
#endif

// Both processes have calls with id 0, and process 1 has calls with an id of its own. 3: so has process 0.
#ifndef IDS
#define IDS 3
#endif
#define NO_ID 3
#define OWN(p_) (p_ + IDS - 2)
#define OF(p_) (1 | (1 << OWN(p_)))  // One bit each.
#define WANT(i_) (i_ == 0 -> BIG : 1)

#define OPEN 0
#define LATCHED 1
#define DRAINING 2

#define NONE 0
#define HELD 1
#define SOLD 2
#define ENDED 3

// The ledger.
byte mode = OPEN;
byte units[2] = { STOCK, 0 };    // Of a segment.
byte limbo;
byte order[3];                   // State, by request id.
byte granted = STOCK;

// Processes.
byte id[2] = NO_ID;              // Of the call.
byte lease[2];                   // 0: none. 1: the latch was read, the reply is under way. 2: valid.
#ifdef COMMITS
byte unsold[2];                  // In segments, limbo and held orders, by the read of the lease.
#endif
bool has_ids[2];                 // `ids` was loaded in this epoch.
byte ids[2];                     // Those that took units, one bit each.

// Depositors.
#define WAITING 1
#define WAITED 2
byte mover[2];                   // 0: it knows of no units in limbo.

// Ghosts.
bool low[2];
bool stale[2];                   // The lease is of a read before the mode became draining.
#ifdef WAIT_FROM_SENDING
bool earlier[2];                 // There was a lease when the deposit was sent.
#endif
#ifdef COMMITS
byte on_the_way;                 // Restocked units in limbo: Restock has not returned.
#else
#define on_the_way 0
#endif
#ifdef CALM
bool calm;
#else
#define calm false
#endif

#define SUM (units[0] + units[1])
#define TOOK(i_) (order[i_] != NONE)
#define KNOWN (TOOK(0) | (TOOK(1) << 1) | (TOOK(2) << 2))
#define HOLDS(i_) (order[i_] == HELD -> WANT(i_) : 0)
#define SOLDS(i_) (order[i_] == SOLD -> WANT(i_) : 0)
#define UNSOLD (SUM + limbo + HOLDS(0) + HOLDS(1) + HOLDS(2))

inline Check() { assert(UNSOLD + SOLDS(0) + SOLDS(1) + SOLDS(2) == granted) }

inline Note(p_) {
  low[p_] = low[p_] || (id[p_] != NO_ID && SUM < WANT(id[p_]) && !TOOK(id[p_]))
}

inline Answered(p_) { id[p_] = NO_ID; low[p_] = false }

inline Refused(p_) { assert(low[p_]); Answered(p_) }

inline Take(p_) {
  if
  :: units[p_] >= WANT(id[p_]) -> units[p_] = units[p_] - WANT(id[p_])
  :: else -> units[0] = SUM - WANT(id[p_]); units[1] = 0
  fi;
  order[id[p_]] = HELD;
#ifndef NO_MODE_CHECKS
  assert(mode == OPEN);
#endif
  Check(); Answered(p_); Note(1 - p_)
}

proctype Process(byte p) {
  bool enough, looked;
end:
  do
  :: atomic {
       !calm ->
       if
       :: id[p] = 0
       :: id[p] = OWN(p)
       fi;
       Note(p) }
     do
     :: d_step { TOOK(id[p]) -> Answered(p) } -> break  // The ledger knows it: its first answer.
     :: d_step { !TOOK(id[p]) && SUM >= WANT(id[p]) -> Take(p) } -> break
#ifdef EMPTY_IS_SOLD_OUT
     :: d_step { !TOOK(id[p]) && units[p] < WANT(id[p]) -> Refused(p) } -> break
#endif
     // By the lease.
     :: d_step {
#ifdef NO_IDS
          lease[p] == 2 ->
#else
          lease[p] == 2 && has_ids[p] && !((ids[p] >> id[p]) & 1) ->
#endif
#ifdef COMMITS
          assert(unsold[p] >= WANT(id[p]) || UNSOLD - on_the_way < WANT(id[p]));  // kAllHeld or kSoldOut.
#endif
          Refused(p) } -> break
     // By a look.
#ifdef LOOK_FIRST
     :: looked = TOOK(id[p]);
        enough = SUM >= WANT(id[p]);
        if
        :: d_step { looked || enough -> looked = false; enough = false }
        :: d_step { else -> Refused(p) } -> break
        fi
#else
     :: enough = SUM >= WANT(id[p]);
        if
        :: d_step { TOOK(id[p]) || enough -> enough = false }
        :: d_step { else -> Refused(p) } -> break
        fi
#endif
     od
  od
}

#ifdef COMMITS
#define Unsold(p_, count_) unsold[p_] = count_
#else
#define Unsold(p_, count_) skip
#endif

inline RunOut(p_) { lease[p_] = 0; stale[p_] = false; Unsold(p_, 0) }

proctype Memory(byte p) {
end:
  do
  :: d_step { mode == LATCHED && lease[p] == 0 && !calm -> lease[p] = 1; Unsold(p, UNSOLD) }
  :: d_step { lease[p] == 1 -> lease[p] = 2 }
  :: d_step { lease[p] > 0 && (!calm || stale[p]) -> RunOut(p) }
#ifdef IDS_FIRST
  :: d_step { !has_ids[p] && lease[p] == 0 && !calm -> has_ids[p] = true; ids[p] = KNOWN & OF(p) }
#else
  :: d_step { !has_ids[p] && lease[p] > 0 -> has_ids[p] = true; ids[p] = KNOWN & OF(p) }
#endif
  od
}

inline Deposit(d_, count_) {
  if
  :: mode == OPEN -> units[d_] = units[d_] + count_
  :: mode == LATCHED ->
     mode = DRAINING;
#if defined(FROM_REPLY)
     stale[0] = lease[0] == 2; stale[1] = lease[1] == 2;
#elif defined(WAIT_FROM_SENDING)
     stale[0] = lease[0] > 0 && earlier[0]; stale[1] = lease[1] > 0 && earlier[1];
#else
     stale[0] = lease[0] > 0; stale[1] = lease[1] > 0;
#endif
     limbo = limbo + count_; mover[d_] = WAITING
  :: mode == DRAINING ->
#ifdef SECOND_TO_POOL
     units[d_] = units[d_] + count_
#else
     limbo = limbo + count_;
     mover[d_] = (mover[d_] == 0 -> WAITING : mover[d_])
#endif
  fi;
  Check()
}

inline EndEpoch() {
#ifndef KEEP_IDS
  has_ids[0] = false; has_ids[1] = false; ids[0] = 0; ids[1] = 0;
#endif
#ifndef LATE_MOVER
  mover[0] = 0; mover[1] = 0;
#endif
  skip
}

proctype Depositor(byte d) {
end:
  do
#ifdef WAIT_FROM_SENDING
  :: d_step { earlier[0] = lease[0] > 0; earlier[1] = lease[1] > 0 }
#endif
  :: d_step { !calm && order[0] == HELD -> order[0] = ENDED; Deposit(d, WANT(0)) }
  :: d_step { !calm && order[1] == HELD -> order[1] = ENDED; Deposit(d, 1) }
  :: d_step { !calm && order[2] == HELD -> order[2] = ENDED; Deposit(d, 1) }
  :: d_step {
       !calm && granted < STOCK + RESTOCKS ->
       granted++; Deposit(d, 1);
#if defined(COMMITS) && !defined(RETURN_EARLY)
       on_the_way = on_the_way + (mode != OPEN)
#endif
     }
#ifndef DEPOSITOR_ALONE
  :: d_step { mode == DRAINING && mover[d] == 0 -> mover[d] = WAITING }
#endif
#ifdef NO_WAIT
  :: d_step { mover[d] == WAITING -> mover[d] = WAITED }
#else
  :: d_step { mover[d] == WAITING && !stale[0] && !stale[1] -> mover[d] = WAITED }
#endif
  :: d_step { mover[d] == WAITED && mode == DRAINING ->
       units[d] = units[d] + limbo; limbo = 0; mode = OPEN; mover[d] = 0;
#ifdef COMMITS
       on_the_way = 0;
#endif
       EndEpoch(); Check() }
  :: d_step { mover[d] == WAITED && mode != DRAINING -> mover[d] = 0 }  // The move matches no row.
  :: d_step { mover[d] != 0 && !calm -> mover[d] = 0 }                  // It crashes.
  od
}

active proctype World() {
end:
  do
#ifdef NO_LIMBO_CHECK
  :: d_step { !calm && mode != LATCHED && SUM == 0 -> EndEpoch(); mode = LATCHED }
#else
  :: d_step { !calm && mode == OPEN && SUM == 0 -> assert(limbo == 0); mode = LATCHED }
#endif
#ifdef COMMITS
  :: d_step { !calm && order[0] == HELD -> order[0] = SOLD }
  :: d_step { !calm && order[1] == HELD -> order[1] = SOLD }
  :: d_step { !calm && order[2] == HELD -> order[2] = SOLD }
#endif
#ifdef CALM
  :: d_step { !calm -> calm = true }
  :: timeout -> assert(limbo == 0); break
#endif
  od
}

init {
  atomic {
    run Process(0); run Process(1); run Memory(0); run Memory(1); run Depositor(0); run Depositor(1)
  }
}
