// The lock's word, its queue and the hand-off: who waits, who wakes, who may pass.
//
// Thread(me, mode, timed, rounds)  a thread that enters and leaves, for writing (and maybe downgrades) or for reading,
//                                  and gives up on its deadline at any moment if it is timed.
// queue.pml and enter_leave.pml name the functions of the code.
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
//  - A lock that favours a thread is in favour.pml, TryUpgrade() in upgrade.pml.
//  - A published read is a count that grows in one step while kBias is set, and Drain() waits for that count to be
//    zero: read_revocation.pml shows that this is what the entries amount to.
//  - Sleeping is a condition on `signal`: parking.pml shows that. A Wake() comes after the mutex is let go, and so
//    may strike a later wait of its thread.
//
// -DFIFO: the fair lock.
// Broken: NO_RECHECK (a head parks on a stale look: it sets kMustWake without comparing), NO_PASS_ON (a head that gives
// up leaves the next one alone), LEAVE_BLIND (leaving without a look at kMustWake), LEAVE_UNDER_MUTEX (who found
// kMustWake set leaves under the mutex, whatever the word has become), KEEP_BIAS (kBias stays when the first waiter
// comes), NO_CLAIM (a head that was woken for nothing does not claim). NO_BIT_CHECKS leaves the checks of the queue's
// bits out, to see what comes of it.

#define BIASED true

#include "enter_leave.pml"

inline CallBack() {
  atomic { claim = true; claimant = me }
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
  drained = false;
}

proctype Thread(byte me; mtype mine; bool timed; byte rounds) {
  mtype how = out;
  byte h = NOBODY;
  byte to_wake = NOBODY;
  bool spun;
  bool drained;
  bool left;
  mode[me] = mine;
  do
  :: rounds == 0 -> break
  :: else ->
     TryEnter();
     if
     :: how == out -> Enter()
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
     atomic { left = false; how = out }
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
