// The lock's word, its queue and the hand-off: who waits, who wakes, who may pass.
//
// Thread(me, mode, timed, rounds)  a thread that enters and leaves, for writing (and maybe downgrades) or for reading,
//                                  and gives up on its deadline at any moment if it is timed.
//
// Invariants.
//  - Writers are alone inside; so are readers of both kinds, against writers (assertions).
//  - Nobody sleeps for ever (no invalid end state). Stronger, whenever the queue's mutex is let go: kQueue tells of the
//    queue; the head is up and about, or kMustWake is set; and kMustWake is never set while the head could enter.
//  - Bounded passing: once a head has run after it was woken, or waits for readers, nobody enters before it. With FIFO
//    nobody ever enters before a waiter.
//
// Abstracted.
//  - A loop of load and compare-and-swap is one step: a swap that fails has no effect, and what the swap is decided by
//    is the word, and what the queue's mutex guards. All of memory's order that is relied on is the word's own, of
//    read-modify-writes, and the mutex's: so sequential consistency loses nothing.
//  - Spinning is waiting, so it shows as a thread that is slow.
//  - A published read is a count that grows in one step while kBias is set, and Drain() waits for that count to be
//    zero: read_revocation.pml shows that this is what the entries amount to.
//  - Parking is a condition on `signal`: parking.pml shows that. An Unpark() comes after the mutex is let go, and so
//    may strike a later wait of its thread.
//
// -DFIFO: the fair lock.
// Broken: NO_RECHECK (a head parks on a stale look: it sets kMustWake without comparing), NO_PASS_ON (a head that gives
// up leaves the next one alone), LEAVE_BLIND (leaving without a look at kMustWake), LEAVE_UNDER_MUTEX (who found
// kMustWake set leaves under the mutex, whatever the word has become), KEEP_BIAS (kBias stays when the first waiter
// comes), NO_CLAIM (a head that was woken for nothing does not claim). NO_BIT_CHECKS leaves the checks of the queue's
// bits out, to see what comes of it.

#include "queue.pml"

// Sets `how`.
inline TryEnter() {
  if
  :: atomic { how == out && mine == shared && bias ->
       how = published_read; by_publication++; Inside(me, shared);
#ifdef FIFO
       assert(empty(queue));
#endif
     }
  :: atomic { mine == shared && !writer && !claim ->
       how = central_read; central++; MayBias(); Inside(me, shared);
#ifdef FIFO
       assert(empty(queue));
#endif
     }
  :: atomic { mine == exclusive && !writer && !published && !claim && central == 0 ->
       how = write; writer = true; Inside(me, exclusive);
#ifdef FIFO
       assert(empty(queue));
#endif
     }
  :: !(mine == shared && !writer && !claim) &&
     !(mine == exclusive && !writer && !published && !claim && central == 0)
  fi;
}

inline GiveUp() {
  atomic {
    if
    :: queue?[eval(me)] -> queue?eval(me);
#ifdef NO_PASS_ON
       if
       :: len(queue) == 0 -> ArrangeForHead()
       :: else
       fi;
#else
       ArrangeForHead();
#endif
       if
       :: len(queue) == 0 && published && !writer -> bias = true
       :: else
       fi
    :: !queue?[eval(me)] -> queue??eval(me)
    fi;
    if
    :: claimant == me -> claimant = NOBODY
    :: else
    fi;
    awake[me] = false;
    how = gave_up
  }
}

inline EnterFromQueue() {
  Lock();
  atomic {
    queue!me;
    queued = true;
#ifndef KEEP_BIAS
    bias = false;
#endif
    claim = claim || IS_FIFO;
    busy[me] = true;
    woken_before = false;
    spun = false
  }
  do
  :: how != out -> break
  :: else ->
     if
     :: atomic { queue?[eval(me)] && ENTERABLE(mine) && mine == exclusive && published ->
          bias = false; claim = true; claimant = me }
        Unlock();
        if
        :: by_publication == 0 -> drained = true
        :: timed -> drained = false
        fi;
        Lock();
        if
        :: drained -> published = false
        :: else -> GiveUp()
        fi;
        drained = false
     :: atomic { queue?[eval(me)] && ENTERABLE(mine) && !(mine == exclusive && published) ->
          if
          :: mine == shared -> central++; how = central_read
          :: else -> writer = true; how = write
          fi;
          queue?eval(me);
          ArrangeForHead();
          if
          :: mine == shared -> MayBias()
          :: else
          fi;
          Inside(me, mine);
          claimant = NOBODY;
          awake[me] = false }
     :: atomic { queue?[eval(me)] && !ENTERABLE(mine) && awake[me] && !spun ->
          spun = true;
          woken_before = true;
#ifndef NO_CLAIM
          claim = true;
#endif
          claimant = me }
        Unlock();
        Lock()
     :: (queue?[eval(me)] && !ENTERABLE(mine) && !(awake[me] && !spun)) || !queue?[eval(me)] ->
        if
#ifdef NO_RECHECK
        :: queue?[eval(me)] -> must_wake = true; Park()
#else
        :: atomic { queue?[eval(me)] && !ENTERABLE(mine) ->
             must_wake = true;
             if
             :: IS_FIFO || woken_before || (mine == exclusive && central > 0) -> claim = true; claimant = me
             :: else
             fi }
           Park()
        :: queue?[eval(me)] && ENTERABLE(mine)  // The word has changed.
#endif
        :: !queue?[eval(me)] -> Park()
        fi
     fi
  od;
  busy[me] = false;
  Unlock();
  Unpark();
}

inline Park() {
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
  :: atomic { !left ->
#else
  :: atomic { !left && must_wake && (how == write || central == 1) -> skip }
     Lock();
     if
#ifndef LEAVE_UNDER_MUTEX
     :: !must_wake -> skip  // The head gave up meanwhile.
     :: atomic { must_wake ->
#else
     :: atomic { true ->
#endif
          LeaveWord(to);
          assert(to != out || len(queue) > 0);
          if
          :: queue?<h> ->
             if
             :: ENTERABLE(mode[h]) -> must_wake = false; awake[h] = true; to_wake = h
             :: !ENTERABLE(mode[h]) && to == central_read -> claim = true
             :: !ENTERABLE(mode[h]) && to != central_read
             fi
          :: empty(queue)
          fi;
          h = NOBODY }
     fi;
     Unlock();
     Unpark()
  :: atomic { !left && !(must_wake && (how == write || central == 1)) ->
#endif
       LeaveWord(to) }
  od
}

inline LeaveWord(to) {
  if
  :: how == write -> writer = false; writing = false
  :: how == central_read -> central--; reading--
  fi;
  if
  :: to == central_read -> central++; reading++
  :: else
  fi;
  how = to;
  left = true;
}

mtype = {out, gave_up, published_read, central_read, write};

proctype Thread(byte me; mtype mine; bool timed; byte rounds) {
  mtype how = out;
  byte h = NOBODY;
  byte to_wake = NOBODY;
  bool woken_before;
  bool spun;
  bool drained;
  bool left;
  mode[me] = mine;
  do
  :: rounds == 0 -> break
  :: else ->
     TryEnter();
     if
     :: how == out -> EnterFromQueue()
     :: else
     fi;
     if
     :: how == write -> Leave(central_read)
     :: how == write
     :: else
     fi;
     if
     :: how == published_read -> atomic { by_publication--; reading-- }
     :: how == gave_up
     :: how == write || how == central_read -> Leave(out)
     fi;
     left = false;
     how = out;
     rounds--
  od
}

init {
  atomic {
    run Thread(0, exclusive, false, 1);
    run Thread(1, exclusive, true, 1);
    run Thread(2, shared, false, 2);
    run Thread(3, shared, true, 1);
  }
}
