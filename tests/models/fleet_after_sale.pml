// What a fleet does with orders after the sale, of one SKU that may be latched: Return, Restock and forgetting.
// fleet_sold_out.pml is the model of latch, lease and limbo without them; this one has its rules, with one segment.
// fleet_orders.pml shows that transactions neither lose nor repeat changes whatever happens to packets, so a
// transaction is one step here. What a call has READ before its transaction is a step of its own, because everything
// may change between the two.
//
// Process(p)    answers requests for one unit. Both processes have requests with id 0, process 1 also has id 1.
// Memory(p)     reads that the SKU is latched, which starts a lease, and loads the ids that took units.
// Returner(r)   Return(order 0, to stock) with ONE request id in two processes: the second one is a repeat. A returner
//               may crash after its transaction; the caller then sends the request again.
// Restocker     Restock of one unit, once.
// Upkeep        forgets orders that have ended.
// Mover(d)      waits for 1.1 leases and moves limbo to the segment; may crash.
// World         latches, commits and cancels orders.
//
// `unsold` of a lease says kAllHeld or kSoldOut. A cancelled order does not change it: its units were unsold before. A
// return and a restock RAISE it. So these two calls answer only after limbo was moved.
//
// Invariants.
//  - granted = units + limbo + held + sold + sold_forgotten, where sold is without what was returned.
//  - A refusal has a moment within the call at which the segment had no unit and the id had not taken one (`low`).
//  - A kSoldOut is true when it is given, if units of Return and Restock count from the answer of these calls.
//  - Units are taken in mode open only.
//  - The request id of a return counts once, also after its order is forgotten.
//  - CALM: limbo becomes empty, and each Return that was not given up by a crash is answered.
//
// RESTOCK, FORGET, CALM: as above. BIG=2 STOCK=2: order 0 has two units, and its Return is of one of them.
// NO_MODE_CHECKS follows wrong deposits to the wrong answer.
//
// Broken: RETURN_EARLY, RESTOCK_EARLY (the call answers although its unit is in limbo), REPEAT_EARLY (a repeat of a
// Return answers at once), OLD_MODE (the unit goes where the mode that was read says), SECOND_TO_STOCK (a return to a
// draining SKU goes to the segment), NO_RETURN_CHECK (a return does not look at what was returned), NO_RETURN_ID (nor
// at its request id), WAIT_FOR_OPEN (it waits for mode open and not for the end of the epoch of its unit),
// FORGET_BY_READ (forgetting counts as sold what was read, and only looks at the state), FORGET_RETURN_ID (the request
// id of a return is forgotten with its order).

#define OPEN 0
#define LATCHED 1
#define DRAINING 2

#define NONE 0
#define HELD 1
#define SOLD 2
#define ENDED 3
#define FORGOTTEN 4   // Its row is gone. It was sold or ended.

#ifndef STOCK
#define STOCK 1
#endif
#define NO_ID 2
// The units of order 0. A Return is of one.
#ifndef BIG
#define BIG 1
#endif
#define WANT(i_) (i_ == 0 -> BIG : 1)

// The ledger.
byte mode;
byte units = STOCK;
byte limbo;
byte granted = STOCK;
byte order[2];
byte returned;               // Units of order 0.
byte sold_forgotten;
bool return_id;              // The row of the Return's request id.
bool up;                     // The Restock was done.

// Processes.
byte id[2] = NO_ID;
byte lease[2];               // 0: none. 1: read, the reply is under way. 2: valid.
byte unsold[2];
bool has_ids[2];
byte ids[2];

#define WAITING 1
#define WAITED 2
byte mover[2];

// Ghosts.
bool low[2];
bool stale[2];
byte on_the_way;             // Units in limbo of Return and Restock that have not answered.
byte returns;                // Transactions of Return.
bool waits[2];               // A Return that has its unit in limbo, of this epoch.
bool calm;

#define TOOK(i_) (order[i_] != NONE && order[i_] != FORGOTTEN)
#define HELDS ((order[0] == HELD -> BIG : 0) + (order[1] == HELD))
#define SOLDS ((order[0] == SOLD -> BIG - returned : 0) + (order[1] == SOLD))
#define UNSOLD (units + limbo + HELDS)

#ifdef NO_RETURN_ID
#define RETURN_ID_FREE true
#else
#define RETURN_ID_FREE (!return_id)
#endif
#ifdef NO_RETURN_CHECK
#define NOT_RETURNED free
#else
#define NOT_RETURNED (order[0] == SOLD && returned < BIG)
#endif
#ifdef OLD_MODE
#define SAME_MODE true
#else
#define SAME_MODE (mode == seen)
#endif
#ifdef FORGET_BY_READ
#define AS_READ true
#else
#define AS_READ (returned == was_returned)
#endif

inline Check() {
  assert(UNSOLD + SOLDS + sold_forgotten == granted);
  assert(returns <= 1);
#ifndef NO_MODE_CHECKS
  assert(mode == OPEN || units == 0);                       // The constraint `latched`.
#endif
  skip
}

inline Note(p_) { low[p_] = low[p_] || (id[p_] != NO_ID && units < WANT(id[p_]) && !TOOK(id[p_])) }
inline Notes() { Note(0); Note(1) }
inline Answered(p_) { id[p_] = NO_ID; low[p_] = false }

proctype Process(byte p) {
  bool enough;
end:
  do
  :: atomic {
       !calm ->
       if
       :: id[p] = 0
       :: p == 1 -> id[p] = 1
       fi;
       Note(p) }
     do
     :: d_step { order[id[p]] != NONE -> Answered(p) } -> break     // A repeat: its first answer, or forgotten.
     :: d_step { order[id[p]] == NONE && units >= WANT(id[p]) ->
#ifndef NO_MODE_CHECKS
          assert(mode == OPEN);
#endif
          units = units - WANT(id[p]); order[id[p]] = HELD; Check(); Answered(p); Notes() } -> break
     // By the lease.
     :: d_step { lease[p] == 2 && has_ids[p] && !((ids[p] >> id[p]) & 1) ->
          assert(unsold[p] >= WANT(id[p]) || UNSOLD - on_the_way < WANT(id[p]));  // kAllHeld, or a true kSoldOut.
          // An id that the ledger has forgotten may be refused, as docs/INVENTORY.md says.
          assert(low[p] || order[id[p]] == FORGOTTEN);
          Answered(p) } -> break
     // By a look: the stock first, the id last.
     :: enough = units >= WANT(id[p]);
        if
        :: d_step { order[id[p]] != NONE || enough -> enough = false }
        :: d_step { else -> assert(low[p]); Answered(p) } -> break
        fi
     od
  od
}

inline RunOut(p_) { lease[p_] = 0; stale[p_] = false; unsold[p_] = 0 }

proctype Memory(byte p) {
end:
  do
  :: d_step { mode == LATCHED && lease[p] == 0 && !calm -> lease[p] = 1; unsold[p] = UNSOLD }
  :: d_step { lease[p] == 1 -> lease[p] = 2 }
  :: d_step { lease[p] > 0 && (!calm || stale[p]) -> RunOut(p) }
  :: d_step { !has_ids[p] && lease[p] > 0 -> has_ids[p] = true; ids[p] = TOOK(0) | (TOOK(1) << 1) }
  od
}

// One unit comes back, by the mode m_.
inline Deposit(m_) {
  if
  :: m_ == OPEN -> units++
#ifdef SECOND_TO_STOCK
  :: m_ == DRAINING -> units++
#else
  :: m_ == DRAINING -> limbo++
#endif
  :: m_ == LATCHED ->
     mode = DRAINING; stale[0] = lease[0] > 0; stale[1] = lease[1] > 0; limbo++
  fi
}

proctype Returner(byte r) {
  byte seen;
  bool free;
end:
  do
  :: d_step { !calm && order[0] == SOLD -> seen = mode; free = returned < BIG }     // Reads.
     if
     :: d_step {                                                      // The request id is there: a repeat.
          return_id ->
#ifdef REPEAT_EARLY
          on_the_way = 0
#else
          waits[r] = (mode == DRAINING)
#endif
        }
     :: d_step { RETURN_ID_FREE && NOT_RETURNED && SAME_MODE ->        // The transaction.
          returned++; return_id = true; returns++;
          if
          :: order[0] == SOLD -> skip
          :: else -> sold_forgotten = (sold_forgotten > 0 -> sold_forgotten - 1 : 0)
          fi;
          Deposit(seen);
#ifndef RETURN_EARLY
          on_the_way = on_the_way + (mode == DRAINING); waits[r] = (mode == DRAINING);
#endif
          Check(); Notes() }
     :: d_step { else -> skip }                                       // Something has changed: reads again.
     fi;
     d_step { seen = 0; free = false };
     if
#ifdef WAIT_FOR_OPEN
     :: d_step { waits[r] && mode == OPEN -> waits[r] = false }
     :: d_step { !waits[r] -> skip }
#else
     :: d_step { !waits[r] -> skip }                                  // Limbo of that epoch was moved: it answers.
#endif
     :: d_step { waits[r] && !calm -> waits[r] = false }              // It crashes: no answer.
     fi
  od
}

#ifdef RESTOCK
proctype Restocker() {
  byte seen;
end:
  do
  :: d_step { !calm && !up -> seen = mode }
     if
     :: d_step { mode == seen -> up = true; granted++; Deposit(seen);
#ifndef RESTOCK_EARLY
          on_the_way = on_the_way + (mode == DRAINING);
#endif
          Check(); Notes() }
     :: d_step { else -> skip }
     fi;
     seen = 0
  od
}
#endif

#ifdef FORGET
proctype Upkeep() {
  byte i;
  byte was_sold, was_returned;
end:
  do
  // Forgetting of an order.
  :: d_step { !calm && (order[0] == SOLD || order[0] == ENDED) ->
       i = 0; was_sold = (order[0] == SOLD -> BIG - returned : 0); was_returned = returned }
     if
     :: d_step { (order[i] == SOLD || order[i] == ENDED) && AS_READ ->
          order[i] = FORGOTTEN; sold_forgotten = sold_forgotten + was_sold;
#ifdef FORGET_RETURN_ID
          return_id = false;
#endif
          Check() }
     :: d_step { else -> skip }
     fi;
     d_step { i = 0; was_sold = 0; was_returned = 0 }
  od
}
#endif

inline EndEpoch() {
  has_ids[0] = false; has_ids[1] = false; ids[0] = 0; ids[1] = 0; mover[0] = 0; mover[1] = 0;
#ifndef WAIT_FOR_OPEN
  waits[0] = false; waits[1] = false;
#endif
  skip
}

proctype Mover(byte d) {
end:
  do
  :: d_step { mode == DRAINING && mover[d] == 0 -> mover[d] = WAITING }
  :: d_step { mover[d] == WAITING && !stale[0] && !stale[1] -> mover[d] = WAITED }
  :: d_step { mover[d] == WAITED && mode == DRAINING ->
       units = units + limbo; limbo = 0; mode = OPEN; on_the_way = 0; EndEpoch(); Check() }
  :: d_step { mover[d] != 0 && !calm -> mover[d] = 0 }                // It crashes.
  od
}

active proctype World() {
end:
  do
  :: d_step { !calm && mode == OPEN && units == 0 -> assert(limbo == 0); mode = LATCHED }
  :: d_step { !calm && order[0] == HELD -> order[0] = SOLD }
  :: d_step { !calm && order[1] == HELD -> order[1] = SOLD }
  :: d_step { !calm && order[1] == HELD -> order[1] = ENDED; Deposit(mode); Check(); Notes() }  // Cancel.
#ifdef CALM
  :: d_step { !calm -> calm = true }
  :: timeout -> assert(limbo == 0 && !waits[0] && !waits[1]); break
#endif
  od
}

init {
  atomic {
    run Process(0); run Process(1); run Memory(0); run Memory(1); run Mover(0);
    run Returner(0);
#ifdef RESTOCK
    run Restocker();
#else
    run Returner(1);
#endif
#ifdef FORGET
    run Upkeep();
#endif
    skip
  }
}
