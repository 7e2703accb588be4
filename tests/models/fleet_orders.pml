// Orders of one SKU in a SQL ledger that many processes share: stock in segments that nobody owns, and lanes. This is
// the algorithm of the fleet inventory; the ledger is MariaDB or MySQL.
//
// Process(p)     one lane of a process. It sends one packet at a time: a group commit that takes units for one or two
//                request ids, or commits, cancels or restocks. If no reply comes, it raises its lane's fence and reads
//                the lane's `batch` in one transaction. It may be killed at any step; then it starts again without
//                memory.
// Connection(s)  brings a packet to the ledger, at any time or never. A transaction is one step; the reply of a commit
//                is another step, and may be lost.
// World          closes a lane (a raise that arrives late does the same), and lets orders expire.
//
// A lane is a row with a nonce, a fence and a batch number. A process without a lane adopts a row: new nonce, batch 0.
// It may take a living process for dead. A packet runs only if the row still has its nonce and its fence. The lane of
// row l pays from segment l. If that is short, it sends a packet that locks all segments, merges them and pays, or
// refuses.
//
// Invariants.
//  - After each commit: no segment is below 0; units + held + sold is what was granted; held and sold are the numbers
//    of orders in those states; each restock was granted once.
//  - An answer "done" is in the ledger. A refused request id has no order.
//  - A call that was answered "nothing was done" has changed nothing, and nothing of it changes the ledger later.
//  - CALM: once calls and faults have ended, each open call is answered, after at most ATTEMPTS packets of its process.
//  - CRASH: no answer is lost when the server restarts without the commits that it had not flushed.
//
// Abstracted.
//  - Fences and nonces are not counted: a packet has a bit each that says whether the row still has its value. A new
//    nonce does not clear the bit of the fence, because after a restore a new row may get the id and the fence of a
//    lost one.
//  - `number` and `batch` are kept modulo 2, and relative to the number that the lane's process uses next. This is
//    enough, because that process uses a number until its batch has run.
//  - Only the sums of held and sold over the segments mean something, so only they are kept.
//  - A transaction that rolls back has changed nothing, so its reply belongs to the same step.
//  - A lane that is closed while it has no packet in flight is like one that is closed while the next packet is in
//    flight.
//  - A late packet that its guard refuses is dropped at once. A process has one late packet; an older one never
//    arrives.
//
// RESTOCKS: two deposits, and no ends of orders. RESHARD: one segment becomes two and two become one. CRASH: commits
// are visible before they are flushed. CALM: as above; packets and replies are lost for good.
//
// Broken: NO_FENCE, NO_NONCE (a packet's guard does not compare it), END_WITHOUT_GUARD (a packet that ends an order has
// no guard), RAISE_WITHOUT_NONCE (a process raises the fence of a row that is no longer its own), LOOK_BEFORE_FENCE (it
// reads the batch before it raises the fence), CLOSED_IS_NOT_RUN (a row with another nonce is taken to mean that the
// packet has not run), KEEP_BATCH (an adopted row keeps its batch number, and the process counts from 1), NO_CHECK (no
// CHECK (units >= 0)), NO_ROW_COUNT (an UPDATE that matches no row counts as done), MERGE_WITHOUT_LOCKS (the sum is
// read in one transaction and written in the next), REFUSE_WITHOUT_IDS (a refusal does not look for the request id),
// END_WITHOUT_STATE (an end does not look at the order's state), RESTOCK_WITHOUT_ID, ANSWER_BEFORE_COMMIT,
// REPEAT_SEES_UNFLUSHED (an answer that was read is not held back until what it read is flushed). For CALM: KEEP_LANE
// (a process whose lane was closed keeps it), ADOPT_LIVING (it adopts lanes of living processes), NO_TIME_OUT (it waits
// for a reply for ever).

#ifndef STOCK
#define STOCK 1
#endif
// The number of processes that may be killed.
#ifndef KILLS
#if defined(RESHARD) || defined(CALM) || defined(CRASH)
#define KILLS 0
#else
#define KILLS 1
#endif
#endif
#define ATTEMPTS 5
#if defined(CRASH) && (defined(RESHARD) || defined(RESTOCKS))
#error "a crash loses neither segments nor deposits here"
#endif

mtype = { take, commit, cancel, restock,                  // Kinds of packets.
          pending, done, lost,                            // Their states; done: committed.
          known, ended, refused, unpaid, gone, closed };  // Outcomes that change nothing.

#define NONE 0
#define HELD 1
#define SOLD 2
#define ENDED 3

// The ledger.
short units[2] = { STOCK, 0 };  // Of a segment.
short held;                     // The sum over the segments, like `sold`.
short sold;
byte granted = STOCK;
#ifdef RESHARD
bool two_segments = true;       // Otherwise one.
#else
#define two_segments true
#endif
byte order[2];                  // State, by request id.
byte restocked;                 // Request ids, one bit each.
bool batch[2];                  // Of a lane.

// Processes.
mtype call[2];
byte calls[2];                  // Request ids without an answer, one bit each.
bool has_lane[2];
bool unsure[2];                 // An earlier packet of these calls may have run.

// Packets. 0 and 1: those whose replies processes 0 and 1 wait for. 2 and 3: their late packets.
mtype state[4];
mtype kind[4];
byte ids[4];                    // One bit each.
byte segment[4];
bool merges[4];
byte lane[4];                   // Of 0 and 1, this and the next three outlive the packet: it is the process's lane.
bool nonce[4];                  // The row has the nonce of the packet.
bool fence[4];                  // The row has the fence of the packet.
bool number[4] = true;          // The batch number of the packet.

mtype outcome;                  // Zero between steps, like `chosen`.
byte chosen;

// Ghosts.
#define ANSWERED 0
#define OPEN 1
#define KILLED 2
byte caller[4];                 // What became of the callers of the packet.
byte effect[2];                 // Request ids of open calls that the ledger has committed.
#ifdef CALM
bool calm;
byte attempts[2];
#else
#define calm false
#endif
#ifdef LOOK_BEFORE_FENCE
bool looked[2];
#endif
#ifdef MERGE_WITHOUT_LOCKS
byte sum[4];
#endif

#define COUNT(s_) (((s_) & 1) + ((s_) >> 1))
#define LOWEST(s_) ((s_) & 1 -> 1 : 2)
#define ID(s_) ((s_) >> 1)
#define IN(state_) ((order[0] == state_) + (order[1] == state_))
#define KNOWN ((order[0] != NONE) | ((order[1] != NONE) << 1))
#define EXISTS(g_) (g_ == 0 || two_segments)

inline Check() {
  assert(units[0] >= 0 && units[1] >= 0);
  assert(units[0] + units[1] + held + sold == granted);
  assert(granted == STOCK + COUNT(restocked));
  assert(held == IN(HELD) && sold == IN(SOLD))
}

#ifdef CRASH
short flushed_units[2] = { STOCK, 0 };
short flushed_held;
short flushed_sold;
byte flushed_order[2];
bool flushed_batch[2];
bool flushed[2];                // Of a packet that is done.
byte told[2];                   // Ghost: the state of the order that a caller was told.
#define FLUSHED(p_) flushed[p_]
#define MAY_END (order[0] == HELD && told[0] == HELD)

inline Flush() {
  flushed_units[0] = units[0]; flushed_units[1] = units[1]; flushed_held = held; flushed_sold = sold;
  flushed_order[0] = order[0]; flushed_order[1] = order[1];
  flushed_batch[0] = batch[0]; flushed_batch[1] = batch[1];
  flushed[0] = state[0] == done; flushed[1] = state[1] == done
}

#define TERMINAL ((order[0] > HELD) | ((order[1] > HELD) << 1))

inline Crash() {
  units[0] = flushed_units[0]; units[1] = flushed_units[1]; held = flushed_held; sold = flushed_sold;
  order[0] = flushed_order[0]; order[1] = flushed_order[1];
  batch[0] = flushed_batch[0]; batch[1] = flushed_batch[1];
  if
  :: state[0] != 0 && !flushed[0] -> state[0] = lost
  :: else
  fi;
  if
  :: state[1] != 0 && !flushed[1] -> state[1] = lost
  :: else
  fi;
  Clear(2); Clear(3);
  effect[0] = effect[0] & (call[0] == take -> KNOWN : TERMINAL);
  effect[1] = effect[1] & (call[1] == take -> KNOWN : TERMINAL);
  assert(told[0] == NONE || told[0] == order[0] || told[0] == HELD && order[0] != NONE);
  assert(told[1] == NONE || told[1] == order[1] || told[1] == HELD && order[1] != NONE);
  Check()
}

// A caller that takes is told that the order was made, which may have ended.
#define TOLD(i_, p_) (call[p_] != take -> order[i_] : (told[i_] == NONE -> HELD : told[i_]))

inline Tell(p_, ids_) {
  told[0] = (ids_ & 1 -> TOLD(0, p_) : told[0]);
  told[1] = (ids_ & 2 -> TOLD(1, p_) : told[1])
}
#else
#define FLUSHED(p_) true
#define MAY_END (order[0] == HELD)
#define Flush() skip
#define Tell(p_, ids_) skip
#endif

#ifdef NO_NONCE
#define SAME_NONCE(s_) true
#else
#define SAME_NONCE(s_) nonce[s_]
#endif
#ifdef NO_FENCE
#define SAME_FENCE(s_) true
#else
#define SAME_FENCE(s_) fence[s_]
#endif
#ifdef END_WITHOUT_GUARD
#define GUARD(s_) (kind[s_] == commit || kind[s_] == cancel || SAME_NONCE(s_) && SAME_FENCE(s_))
#else
#define GUARD(s_) (SAME_NONCE(s_) && SAME_FENCE(s_))
#endif

inline ClearPacket(s_) {
  state[s_] = 0; kind[s_] = 0; ids[s_] = 0; segment[s_] = 0; merges[s_] = false;
  caller[s_] = ANSWERED
#ifdef CRASH
  ; flushed[s_ & 1] = (s_ < 2 -> false : flushed[s_ & 1])
#endif
#ifdef MERGE_WITHOUT_LOCKS
  ; sum[s_] = 0
#endif
}

inline ClearLane(s_) { lane[s_] = 0; nonce[s_] = false; fence[s_] = false; number[s_] = true }

inline Clear(s_) { ClearPacket(s_); ClearLane(s_) }

inline DropIfClosed(s_) {
  if
  :: state[s_] != 0 && !GUARD(s_) -> Clear(s_)
  :: else
  fi
}

inline NewFence(l_) {
  fence[0] = fence[0] && lane[0] != l_; fence[1] = fence[1] && lane[1] != l_;
  fence[2] = fence[2] && lane[2] != l_; fence[3] = fence[3] && lane[3] != l_;
  DropIfClosed(2); DropIfClosed(3)
}

#define IDLE_LOST(p_) (has_lane[p_] && calls[p_] == 0 && !SAME_NONCE(p_))

inline Adopt(p_, l_) {
  nonce[0] = nonce[0] && lane[0] != l_; nonce[1] = nonce[1] && lane[1] != l_;
  nonce[2] = nonce[2] && lane[2] != l_; nonce[3] = nonce[3] && lane[3] != l_;
  DropIfClosed(2); DropIfClosed(3);
  if
  :: IDLE_LOST(1 - p_) -> LoseLane(1 - p_)  // Its next packet would find the lane closed.
  :: else
  fi;
#ifndef KEEP_BATCH
  batch[l_] = false;
#endif
  has_lane[p_] = true; lane[p_] = l_; nonce[p_] = true; fence[p_] = true; number[p_] = true;
  Flush()
}

// The process goes on to the next number.
inline Advance(p_) {
  if
  :: SAME_NONCE(p_) ->
     batch[lane[p_]] = !batch[lane[p_]];
#ifdef CRASH
     flushed_batch[lane[p_]] = !flushed_batch[lane[p_]];
#endif
     number[0] = (p_ == 0 || lane[0] != lane[p_] || !has_lane[0] || !SAME_NONCE(0) -> number[0] : !number[0]);
     number[1] = (p_ == 1 || lane[1] != lane[p_] || !has_lane[1] || !SAME_NONCE(1) -> number[1] : !number[1]);
     number[2] = (lane[2] != lane[p_] || state[2] == 0 || !SAME_NONCE(2) -> number[2] : !number[2]);
     number[3] = (lane[3] != lane[p_] || state[3] == 0 || !SAME_NONCE(3) -> number[3] : !number[3])
  :: else -> LoseLane(p_)
  fi
}

inline LoseLane(p_) { has_lane[p_] = false; ClearLane(p_) }

inline Send(p_, ids_, merges_) {
  state[p_] = pending; kind[p_] = call[p_]; ids[p_] = ids_; merges[p_] = merges_; caller[p_] = OPEN;
  segment[p_] = (two_segments && !(merges_) -> lane[p_] : 0)
#ifdef CALM
  ;
  if
  :: calm -> attempts[p_]++; assert(attempts[p_] <= ATTEMPTS)
  :: else
  fi
#endif
}

inline Committed(s_) {
  state[s_] = done;
  batch[lane[s_]] = number[s_];
  assert(caller[s_] != ANSWERED);  // Nothing of an answered call runs.
  if
  :: caller[s_] == OPEN -> effect[s_ & 1] = effect[s_ & 1] | ids[s_]
  :: else
  fi;
  Check()
}

inline Take(s_) {
  order[0] = (ids[s_] & 1 -> HELD : order[0]);
  order[1] = (ids[s_] & 2 -> HELD : order[1]);
  Committed(s_)
}

inline RunTake(s_) {
  if
#ifdef REFUSE_WITHOUT_IDS
  :: merges[s_] && GUARD(s_) && units[0] + units[1] == 0 -> outcome = refused
  :: KNOWN & ids[s_] && !(merges[s_] && GUARD(s_) && units[0] + units[1] == 0) -> outcome = known
#else
  :: KNOWN & ids[s_] -> outcome = known
#endif
  :: !(KNOWN & ids[s_]) && !GUARD(s_) -> outcome = closed
  :: !(KNOWN & ids[s_]) && GUARD(s_) && !merges[s_] ->
     if
#ifdef RESHARD
     :: !EXISTS(segment[s_]) ->
#ifdef NO_ROW_COUNT
        Take(s_)
#else
        outcome = gone
#endif
#endif
#ifndef NO_CHECK
     :: EXISTS(segment[s_]) && units[segment[s_]] < COUNT(ids[s_]) -> outcome = unpaid
     :: EXISTS(segment[s_]) && units[segment[s_]] >= COUNT(ids[s_]) ->
#else
     :: EXISTS(segment[s_]) ->
#endif
        units[segment[s_]] = units[segment[s_]] - COUNT(ids[s_]);
        held = held + COUNT(ids[s_]);
        Take(s_)
     fi
#ifdef MERGE_WITHOUT_LOCKS
  :: !(KNOWN & ids[s_]) && GUARD(s_) && merges[s_] && sum[s_] == 0 && units[0] + units[1] > 0 ->
     sum[s_] = units[0] + units[1]
#define TOTAL sum[s_]
  :: !(KNOWN & ids[s_]) && GUARD(s_) && merges[s_] && (sum[s_] != 0 || units[0] + units[1] == 0) ->
#else
#define TOTAL (units[0] + units[1])
  :: !(KNOWN & ids[s_]) && GUARD(s_) && merges[s_] ->
#endif
     if
     :: TOTAL == 0 -> outcome = refused
     :: TOTAL > 0 && TOTAL < COUNT(ids[s_]) -> outcome = unpaid
     :: TOTAL >= COUNT(ids[s_]) ->
        segment[s_] = (two_segments -> lane[s_] : 0);
        units[segment[s_]] = TOTAL - COUNT(ids[s_]);
        units[1 - segment[s_]] = 0;
        held = held + COUNT(ids[s_]);
        Take(s_)
     fi
  fi
}

inline RunEnd(s_) {
  if
#ifndef END_WITHOUT_STATE
  :: order[ID(ids[s_])] != HELD -> outcome = ended
  :: order[ID(ids[s_])] == HELD && !GUARD(s_) -> outcome = closed
  :: order[ID(ids[s_])] == HELD && GUARD(s_) ->
#else
  :: !GUARD(s_) -> outcome = closed
  :: GUARD(s_) ->
#endif
     if
#ifdef RESHARD
     :: !EXISTS(segment[s_]) ->
#ifdef NO_ROW_COUNT
        order[ID(ids[s_])] = (kind[s_] == commit -> SOLD : ENDED);
        Committed(s_)
#else
        outcome = gone
#endif
#endif
     :: EXISTS(segment[s_]) ->
        held--;
        if
        :: kind[s_] == commit -> sold++; order[ID(ids[s_])] = SOLD
        :: kind[s_] == cancel -> units[segment[s_]]++; order[ID(ids[s_])] = ENDED
        fi;
        Committed(s_)
     fi
  fi
}

#ifdef RESTOCKS
inline RunRestock(s_) {
  if
#ifndef RESTOCK_WITHOUT_ID
  :: restocked & ids[s_] -> outcome = known
  :: !(restocked & ids[s_]) && !GUARD(s_) -> outcome = closed
  :: !(restocked & ids[s_]) && GUARD(s_) ->
#else
  :: !GUARD(s_) -> outcome = closed
  :: GUARD(s_) ->
#endif
     if
#ifdef RESHARD
     :: !EXISTS(segment[s_]) ->
#ifdef NO_ROW_COUNT
        granted++; restocked = restocked | ids[s_]; Committed(s_)
#else
        outcome = gone
#endif
#endif
     :: EXISTS(segment[s_]) ->
        units[segment[s_]]++; granted++; restocked = restocked | ids[s_];
        Committed(s_)
     fi
  fi
}
#endif

inline Answered(p_, ids_) {
  calls[p_] = calls[p_] & ~(ids_);
  effect[p_] = effect[p_] & ~(ids_);
  if
  :: calls[p_] == 0 ->
     call[p_] = 0; unsure[p_] = false;
     caller[p_ + 2] = (caller[p_ + 2] == OPEN -> ANSWERED : caller[p_ + 2])
  :: else
  fi
}

// Tells the callers that the ledger has it.
inline AnswerDone(p_, ids_) {
  if
  :: call[p_] == take -> assert((KNOWN & (ids_)) == (ids_)); Tell(p_, (ids_))
#ifdef RESTOCKS
  :: call[p_] == restock -> assert((restocked & (ids_)) == (ids_))
#endif
  :: call[p_] == commit || call[p_] == cancel ->
     assert(order[ID(ids_)] == SOLD || order[ID(ids_)] == ENDED); Tell(p_, (ids_))
  fi;
  Answered(p_, ids_)
}

#if defined(CALM) && !defined(ADOPT_LIVING)
#define MAY_ADOPT(p_, l_) (!calm || !(has_lane[1 - p_] && nonce[1 - p_] && lane[1 - p_] == l_))
#else
#define MAY_ADOPT(p_, l_) true
#endif

// Goes on with open calls, of which no packet can run any more.
inline Continue(p_) {
  if
  // The callers' time is over: they are told that nothing was done.
  :: d_step { !unsure[p_] -> assert((effect[p_] & calls[p_]) == 0); Answered(p_, calls[p_]) }
  :: d_step { has_lane[p_] -> Send(p_, calls[p_], false) }
  :: d_step { !has_lane[p_] && MAY_ADOPT(p_, 0) -> Adopt(p_, 0); Send(p_, calls[p_], false) }
  :: d_step { !has_lane[p_] && MAY_ADOPT(p_, 1) -> Adopt(p_, 1); Send(p_, calls[p_], false) }
  fi
}

// The packet may still arrive, but nobody waits for it any more.
inline MakeLate(p_, caller_) {
  if
  :: state[p_] == pending && GUARD(p_) ->
     state[p_ + 2] = pending; kind[p_ + 2] = kind[p_]; ids[p_ + 2] = ids[p_]; segment[p_ + 2] = segment[p_];
     merges[p_ + 2] = merges[p_]; lane[p_ + 2] = lane[p_]; nonce[p_ + 2] = nonce[p_]; fence[p_ + 2] = fence[p_];
     number[p_ + 2] = number[p_]; caller[p_ + 2] = caller_
#ifdef MERGE_WITHOUT_LOCKS
     ; sum[p_ + 2] = sum[p_]
#endif
  :: else
  fi;
  ClearPacket(p_)
}

#ifdef REPEAT_SEES_UNFLUSHED
#define FlushRead() skip
#else
#define FlushRead() Flush()
#endif

proctype Connection(byte s) {
end:
  do
  :: atomic {
       state[s] == pending ->
       d_step {
         if
         :: kind[s] == take -> RunTake(s)
         :: kind[s] == commit || kind[s] == cancel -> RunEnd(s)
#ifdef RESTOCKS
         :: kind[s] == restock -> RunRestock(s)
#endif
         fi;
         if
         :: s >= 2 && (outcome != 0 || state[s] == done) -> outcome = 0; Clear(s)
         :: s < 2 && outcome == known ->
            FlushRead();
            chosen = (kind[s] == take -> KNOWN & ids[s] : ids[s]);
            AnswerDone(s, chosen);
            chosen = 0;
            ClearPacket(s)
         :: s < 2 && outcome == ended -> FlushRead(); AnswerDone(s, ids[s]); ClearPacket(s)
         :: s < 2 && outcome == refused ->
            FlushRead();
            assert(!(KNOWN & ids[s]));
            Answered(s, ids[s]);
            ClearPacket(s)
         :: s < 2 && outcome == unpaid ->
            chosen = (merges[s] -> LOWEST(ids[s]) : ids[s]);
            Send(s, chosen, true);
            chosen = 0
         :: s < 2 && outcome == gone -> ClearPacket(s)
         :: s < 2 && outcome == closed ->
            ClearPacket(s);
#ifndef KEEP_LANE
            LoseLane(s)
#endif
         :: else
         fi;
         outcome = 0
       };
       if
       :: s < 2 && state[s] == 0 && calls[s] != 0 -> Continue(s)
       :: else
       fi }
  :: d_step { s >= 2 && state[s] == pending -> Clear(s) }  // It never arrives.
  od
}

proctype Process(byte p) {
end:
  do
  :: atomic {
       calls[p] == 0 && !calm ->
       if
       :: call[p] = take; calls[p] = 1
#ifdef RESTOCKS
       :: call[p] = restock; calls[p] = 1 << p
#else
       :: p == 1 -> call[p] = take; calls[p] = 2
       :: p == 1 -> call[p] = take; calls[p] = 3
       :: MAY_END -> call[p] = commit; calls[p] = 1
       :: MAY_END -> call[p] = cancel; calls[p] = 1
#endif
       fi;
       Continue(p) }

#ifdef ANSWER_BEFORE_COMMIT
  :: d_step { state[p] == pending -> chosen = ids[p]; AnswerDone(p, chosen); MakeLate(p, ANSWERED); chosen = 0 }
#endif

  // The reply of a packet that has committed.
  :: atomic {
       state[p] == done && FLUSHED(p) ->
       d_step { Advance(p); AnswerDone(p, ids[p]); ClearPacket(p) };
       if
       :: calls[p] != 0 -> Continue(p)
       :: else
       fi }

  // No reply: the process raises the lane's fence and reads its batch.
#ifdef LOOK_BEFORE_FENCE
  :: d_step { state[p] != 0 && !looked[p] && (!nonce[p] || batch[lane[p]] != number[p]) -> looked[p] = true }
#define RAN(p_) (!looked[p_] && batch[lane[p_]] == number[p_])
#else
#define RAN(p_) (batch[lane[p_]] == number[p_])
#endif
#ifndef NO_TIME_OUT
  :: atomic {
       state[p] != 0 && (!calm || state[p] == lost) ->
       d_step {
         chosen = ids[p];
         if
#ifdef RAISE_WITHOUT_NONCE
         :: has_lane[p] ->
#else
         :: SAME_NONCE(p) ->
#endif
            NewFence(lane[p]);
            MakeLate(p, OPEN);
            fence[p] = true;
            Flush();
            if
            :: RAN(p) -> Advance(p); AnswerDone(p, chosen)
            :: else
            fi
         :: else ->
            MakeLate(p, OPEN); LoseLane(p);
#ifndef CLOSED_IS_NOT_RUN
            unsure[p] = true
#endif
         fi;
#ifdef LOOK_BEFORE_FENCE
         looked[p] = false;
#endif
         chosen = 0
       };
       if
       :: calls[p] != 0 -> Continue(p)
       :: else
       fi }
#endif

  // The process is killed, and starts again.
  :: d_step {
       p < KILLS && !calm && (has_lane[p] || calls[p] != 0) ->
       calls[p] = 0; call[p] = 0; unsure[p] = false; effect[p] = 0;
       caller[p + 2] = (state[p + 2] != 0 -> KILLED : ANSWERED);
#ifdef LOOK_BEFORE_FENCE
       looked[p] = false;
#endif
       MakeLate(p, KILLED); LoseLane(p) }
  od
}

inline Expire(i_, g_) { order[i_] = ENDED; held--; units[g_]++; Check() }

#define CLOSES(s_, l_) (state[s_] == pending && fence[s_] && lane[s_] == l_)

active proctype World() {
end:
  do
  :: d_step { !calm && (CLOSES(0, 0) || CLOSES(1, 0) || CLOSES(2, 0) || CLOSES(3, 0)) -> NewFence(0) }
  :: d_step { !calm && (CLOSES(0, 1) || CLOSES(1, 1) || CLOSES(2, 1) || CLOSES(3, 1)) -> NewFence(1) }
  :: d_step { order[0] == HELD -> Expire(0, 0) }
  :: d_step { order[0] == HELD && two_segments -> Expire(0, 1) }
  :: d_step { order[1] == HELD -> Expire(1, 0) }
#ifdef RESHARD
  :: d_step { !calm && two_segments -> units[0] = units[0] + units[1]; units[1] = 0; two_segments = false; Check() }
  :: d_step { !calm && !two_segments -> two_segments = true }
#endif
#ifdef CRASH
  :: d_step { Flush() }
  :: d_step { Crash() }
#endif
#ifdef CALM
  :: d_step { !calm -> calm = true }
  :: d_step { !calm && state[0] != 0 -> state[0] = lost }
  :: d_step { !calm && state[1] != 0 -> state[1] = lost }
  :: timeout -> assert(calls[0] == 0 && calls[1] == 0); break
#endif
  od
}

init {
  atomic {
    run Connection(0); run Connection(1); run Connection(2); run Connection(3);
    run Process(0); run Process(1)
  }
}
