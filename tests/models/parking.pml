// How a queued thread sleeps until it is woken, or its deadline.
//
// Waiter    a thread that waits in queues, three times: each time until it has been granted what it waits for, or gives
//           up on its deadline: the loop in AccessGate::Enter(). It calls ThreadRecord::PrepareToSleep() (`signal` is
//           zero) under the queue's mutex, lets the mutex go, and calls Sleep().
// Waker(w)  a thread that grants one wait, under the mutex, as WakeHead() does, and calls ThreadRecord::Wake() after it
//           has let the mutex go: late, so that it may strike a later wait of the same thread.
//
// Invariant. Who has been granted his wait does not sleep on (no invalid end state). A grant is seen under the mutex
// only: so a stray wake-up cannot end a wait, and a time-out cannot lose a grant.
//
// Memory. The Waker's store to `signal` is on its way in `stored[w]`, and reaches the memory at any later time up to
// the futex call, which is a full fence. The Waiter's store of zero is there at once: letting the mutex go is a
// release, so whoever grants finds it in place, and a late Wake() may come before or after it in any case. The kernel
// compares and sleeps in one step. A time-out or a spurious end of the futex wait is a choice made when it begins: the
// thread may be slow to run on, so that is the same.
//
// Broken: NO_COMPARE (the kernel sleeps without comparing), RESET_AFTER_UNLOCK (`signal` is set to zero after the mutex
// has been let go).

#define WAITS 3

// Guarded by the mutex.
bool mutex;
bool waiting;
bool granted;

bool signal;
bool stored[WAITS];

// Ghost: whether the kernel has the Waiter asleep.
bool asleep;

inline Lock() { atomic { !mutex -> mutex = true } }
inline Unlock() { mutex = false }

// Sets `expired` on a time-out.
inline Sleep() {
  do
  :: signal -> break
  :: !signal ->
     if
#ifdef NO_COMPARE
     :: asleep = true
#else
     :: atomic { !signal -> asleep = true }
#endif
        !asleep
     :: signal
     :: true             // A spurious wake-up.
     :: expired = true; break
     fi
  od
}

active proctype Waiter() {
  byte waits;
  bool expired;
  do
  :: waits < WAITS ->
     Lock();
     atomic { waiting = true; granted = false }
     do
     :: granted || expired -> break
     :: else ->
#ifndef RESET_AFTER_UNLOCK
        signal = false;
#endif
        Unlock();
#ifdef RESET_AFTER_UNLOCK
        signal = false;
#endif
        Sleep();
        Lock()
     od;
     atomic { waiting = false; expired = false }
     Unlock();
     waits++
  :: else -> break
  od
}

proctype Waker(byte me) {
end:
  atomic { !mutex && waiting && !granted -> mutex = true }
  granted = true;
  Unlock();
  stored[me] = true;
  if
  :: atomic { stored[me] -> signal = true; stored[me] = false }  // The store reaches the memory before the call.
  :: true
  fi;
  atomic {
    signal = signal || stored[me];
    stored[me] = false;
    asleep = false
  }
}

init {
  atomic {
    run Waker(0);
    run Waker(1);
    run Waker(2);
  }
}
