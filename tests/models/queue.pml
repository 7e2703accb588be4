// The lock's word, its queue, and how a thread comes in and goes out. Included by hand_off.pml, which says what is
// modelled and how, and by favour.pml. In the code, of AccessGate:
//   Open, ENTERABLE, TryEnter       lock_word's IsOpen(), IsOpenToHead(); TryEnter(), TryEnterExclusive()
//   Append, WithHead                Append(); WithHead() and WakeHead()
//   Enter, GiveUp                   Enter(), TakeTurn(), ClaimAndSpin(), CallBack(); LeaveQueue() of who has not entered
//   Leave                           LeaveExclusive(), LeaveShared(), LeaveAndWake(); Downgrade(), which is Leave(central_read)
//   Unpark, signal                  ThreadRecord::Wake(), PrepareToSleep(), Sleep()
// `me`, `mine`, `timed`, `how` and the other lower-case names that are not defined here are the calling process's.
//
// FAVOUR adds the favoured writer, who is thread 0, OWNER. Includers may define how a step waits for the stores that
// its thread has not in memory yet: RMW before a read-modify-write, RELEASE where it also releases.

#ifndef FAVOUR
#define THREADS 4
#define FAVOURED false
#define CALLED_BACK false
#define RMW true
#define RELEASE true
#endif

#define NOBODY THREADS

mtype = {shared, exclusive};
mtype = {out, gave_up, published_read, central_read, write, published_write};

// The word.
bool writer;
bool bias = BIASED;
bool published = BIASED;
bool queued;
bool must_wake;
bool claim;
byte central;

// Guarded by the mutex.
bool mutex;
chan queue = [THREADS] of {byte};
mtype mode[THREADS] = shared;
bool woken[THREADS];

bool signal[THREADS];

// Ghosts: readers by publication, who is inside, who must not be passed; whose thread is between two looks at the word,
// and who has been woken since it last set kMustWake.
byte by_publication;
byte reading;
bool writing;
byte claimant = NOBODY;
bool busy[THREADS];
bool awake[THREADS];

#ifdef FIFO
#define IS_FIFO true
#else
#define IS_FIFO false
#endif

#define IS_HEAD queue?[eval(me)]
#define ENTERABLE(mode_) (!writer && (mode_ == shared || central == 0))
#define OPEN(mode_) (!writer && !claim && !FAVOURED && (mode_ == shared || (!published && central == 0)))

inline Inside(who, mode_) {
  assert(claimant == NOBODY || claimant == who);
  assert(!writing && (mode_ == shared || reading == 0));
  if
  :: mode_ == shared -> reading++
  :: else -> writing = true
  fi;
}

inline Lock() { atomic { !mutex && RMW -> mutex = true } }

inline Unlock() {
  atomic {
    RELEASE ->
#ifndef NO_BIT_CHECKS
    assert(queued == (len(queue) > 0));
    assert(queued || (!must_wake && !claim));
    assert(!bias || (published && !writer && !queued));
    assert(!writer || central == 0);
    if
    :: queue?<h> ->
       assert(must_wake || awake[h] || busy[h]);
       assert(!must_wake || (!awake[h] && !ENTERABLE(mode[h]) && !CALLED_BACK))
    :: empty(queue)
    fi;
    h = NOBODY;
#ifdef FAVOUR
    assert(!favoured || !(writer || published || queued || called_back || central > 0));
    assert(!called_back || claim);
#endif
#endif
    mutex = false
  }
}

// `to_wake`: whom to unpark once the mutex is let go.
inline Unpark() {
  if
  :: to_wake != NOBODY -> atomic { signal[to_wake] = true; to_wake = NOBODY }
  :: else
  fi;
}

inline WakeHead() {
  must_wake = false;
  woken[h] = true;
  awake[h] = true;
  to_wake = h;
}

// The word for what is the head now, and woken is who has to be. Part of the step that it is called in, with the mutex.
inline WithHead() {
  if
  :: queue?<h> ->
     claim = IS_FIFO || CALLED_BACK || (mode[h] == exclusive && central > 0);
     if
     :: ENTERABLE(mode[h]) -> WakeHead()
     :: else -> must_wake = true
     fi
  :: empty(queue) ->
     queued = false;
     claim = false;
     must_wake = false;
     bias = published && !writer
  fi;
  h = NOBODY;
}

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
  :: atomic { favoured -> Queue(); favoured = false; called_back = true; claim = true }
  :: !favoured ->
     atomic {
       assert(!favoured);  // The look is out of date: the word must not change so while the mutex is held.
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
          assert(!writer && !must_wake && !published && central == 0);
          queued = false;
          claim = false;
          favoured = true
#endif
       :: else -> WithHead()
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
#define MAY_SPIN (woken[me] && !spun)

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
     :: must_wake = true; Park()
#else
     :: atomic { !ENTERABLE(mine) ->
          must_wake = true;
          awake[me] = false;
          if
          :: IS_FIFO || woken[me] || central > 0 -> claim = true; claimant = me
          :: else
          fi }
        Park()
     :: ENTERABLE(mine)  // The word has changed.
#endif
     fi
  :: how == out && !IS_HEAD -> Park()
  od;
  atomic { busy[me] = false; woken[me] = false; spun = false }
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
     Unpark()
  :: atomic { !left && !(must_wake && (how == write || central == 1)) && RELEASE -> LeaveWord(to) }
#endif
  od
}

inline LeaveWord(to) {
  if
  :: how == write -> assert(writer); writer = false; writing = false
  :: how == central_read -> assert(central > 0); central--; reading--
  fi;
  if
  :: to == central_read -> central++; reading++
  :: else
  fi;
  how = to;
  left = true;
}
