// How a thread comes in and goes out. Included by hand_off.pml, which says what is modelled and how, and by favour.pml;
// both define CallBack(). In the code, of AccessGate:
//   TryEnter        TryEnter(), TryEnterExclusive()
//   Append          Append()
//   Enter, GiveUp   Enter(), TakeTurn(), ClaimAndSpin(), and LeaveQueue()
//   Leave           LeaveExclusive(), LeaveShared(), Downgrade(), LeaveAndWake()
//   Sleep           ThreadRecord::PrepareToSleep(), Sleep()
// `me`, `mine`, `timed`, `how` and the other lower-case names that are not in queue.pml are the calling process's.

#include "queue.pml"

// Sets `how`.
inline TryEnter() {
  if
  :: atomic { bias && mine == shared ->
       how = published_read; by_publication++; Inside(me, shared);
#ifdef FIFO
       assert(empty(queue));
#endif
     }
  :: atomic { OPEN(mine) && RMW ->
       if
       :: mine == shared ->
          how = central_read;
          central++;
          if
          :: !queued -> bias = true; published = true
          :: true  // Too few central reads yet.
          fi
       :: else -> how = write; writer = true
       fi;
       Inside(me, mine);
#ifdef FIFO
       assert(empty(queue));
#endif
     }
  :: !OPEN(mine)
  fi;
}

inline Queue() {
  queue!me;
  queued = true;
  busy[me] = true;
}

inline Append() {
#ifdef FAVOUR
  if
  :: atomic { favoured -> Queue(); favoured = false; called_back = true; claim = APPEND_CLAIMS }
  :: !favoured ->
     atomic {
       CHECK(!favoured);  // The look is out of date: the word must not change so while the mutex is held.
#else
     atomic {
#endif
       Queue();
       claim = claim || IS_FIFO;
#ifndef KEEP_BIAS
       bias = false
#endif
     }
#ifdef FAVOUR
  fi;
#endif
}

inline GiveUp() {
  atomic {
    if
    :: IS_HEAD -> queue?eval(me);
       if
#ifdef NO_PASS_ON
       :: len(queue) > 0
#endif
#ifdef FAVOUR
       :: len(queue) == 0 && called_back ->
          called_back = false;
          CHECK(!writer && !must_wake && !published && central == 0);
          writer = false;  // It is a store of the whole word.
          queued = false;
          must_wake = false;
          claim = false;
          central = 0;
          favoured = true
#endif
       :: else ->
#ifdef DROP_CALL_BACK
          called_back = false;
#endif
          WithHead()
       fi
    :: !IS_HEAD -> queue??eval(me)
    fi;
    if
    :: claimant == me -> claimant = NOBODY
    :: else
    fi;
    awake[me] = false;
    how = gave_up
  }
}

#ifdef FAVOUR
#define MUST_CALL_BACK (called_back || (ENTERABLE(mine) && mine == exclusive && published))
#else
#define MUST_CALL_BACK (ENTERABLE(mine) && mine == exclusive && published)
#endif
#define MAY_SPIN ((woken[me] || IS_FIFO) && !spun)

inline Enter() {
  Lock();
  Append();
  do
  :: how != out -> break
  :: how == out && IS_HEAD && MUST_CALL_BACK -> CallBack()
  :: atomic { how == out && IS_HEAD && !MUST_CALL_BACK && ENTERABLE(mine) ->
       if
       :: mine == shared -> central++; how = central_read
       :: else -> writer = true; how = write
       fi;
       queue?eval(me);
       WithHead();
       Inside(me, mine);
       claimant = NOBODY;
       awake[me] = false }
  :: atomic { how == out && IS_HEAD && !MUST_CALL_BACK && !ENTERABLE(mine) && MAY_SPIN ->
       spun = true;
#ifndef NO_CLAIM
       claim = true;
#endif
       claimant = me }
     Unlock();
     Lock()
  :: how == out && IS_HEAD && !MUST_CALL_BACK && !ENTERABLE(mine) && !MAY_SPIN ->
     if
#ifdef NO_RECHECK
     :: must_wake = true; Sleep()
#else
     :: atomic { !ENTERABLE(mine) ->
          must_wake = true;
          awake[me] = false;
          if
          :: IS_FIFO || woken[me] || central > 0 -> claim = true; claimant = me
          :: else
          fi }
        Sleep()
     :: ENTERABLE(mine)  // The word has changed.
#endif
     fi
  :: how == out && !IS_HEAD -> Sleep()
  od;
  atomic { busy[me] = false; woken[me] = false; spun = false }
  Unlock();
  Wake();
}

inline Sleep() {
  if
  :: true ->
     atomic { awake[me] = false; spun = false; signal[me] = false; busy[me] = false }
     Unlock();
     if
     :: signal[me]
     :: timed
     fi;
     Lock();
     busy[me] = true
  :: timed -> GiveUp()
  fi;
}

// A central read from now on, or out. A thread may destroy the lock once it has it for itself: so whoever left may not
// touch it any more, unless someone is queued, who needs the mutex to get out of his call.
inline Leave(to) {
  left = false;
  do
  :: left -> break
#ifdef LEAVE_BLIND
  :: atomic { !left && RELEASE -> LeaveWord(to) }
#else
  :: !left && must_wake && (how == write || central == 1) ->
     Lock();
     if
#ifndef LEAVE_UNDER_MUTEX
     :: !must_wake  // The head gave up meanwhile.
     :: atomic { must_wake && RELEASE ->
#else
     :: atomic { RELEASE ->
#endif
          LeaveWord(to);
          assert(to != out || len(queue) > 0);
          if
          :: queue?<h> ->
             if
             :: ENTERABLE(mode[h]) -> WakeHead()
             :: else -> claim = true
             fi
          :: empty(queue)
          fi;
          h = NOBODY }
     fi;
     Unlock();
     Wake()
  :: atomic { !left && !(must_wake && (how == write || central == 1)) && RELEASE -> LeaveWord(to) }
#endif
  od
}

inline LeaveWord(to) {
  if
  :: how == write -> CHECK(writer); writer = false; writing = false
  :: how == central_read -> CHECK(central > 0); central--; reading--
  fi;
  if
  :: to == central_read -> central++; reading++
  :: else
  fi;
  how = to;
  left = true;
}
