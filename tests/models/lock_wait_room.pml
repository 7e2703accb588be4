// Who waits in a lock service, and who is told that a try may be worth it.
//
// Waiter(me)  an acquire: it tries, joins its client's room, tries again for each hint, may give up at any time, and
//             releases what it got: Acquisition, WaitRoom::Join(), ForgetHint(), DoubtHints(), Leave(). A lease may
//             be released before its acquire leaves the room, as by a callback.
// Client(c)   what the engine sends to a client, each message the same: WaitRoom::Hint(), LockEngine::Watch(). Hearing
//             begins late, and may break off and begin again: what was under way is lost, and a hint comes once it is
//             heard again.
// Writer()    READERS: somebody who holds at first, and tries once more without waiting.
//
// Two waiters of one client and one of another, for an exclusive lock; READERS: three of one client, who read. A reader
// may stay inside until all others have been in or have given up: nobody may need its release to enter.
//
// Invariants. Nobody waits for ever for what it could enter (no invalid end state). That is so without the clock, by
// which the first one in the code looks again. Who is told that it holds is alone, or all read (assertion).
//
// Of all tries FAILURES fail: unanswered, run or not, and are sent again or taken back; or are refused for good. What
// comes of those that arrive late is in lock_steps.pml.
//
// Abstracted. What the room's mutex guards is one step. To wake is a condition on the hint. Hints under way to a client
// are one: it comes after all that they tell of. A room that empties ends its hearing in the same step; in the code
// hints may come for a moment longer, to who waits next, for nothing.
//
// Broken: DROP_HINT (who leaves with a hint that it has not followed takes it along), SILENT_READER (a reader who
// enters gives no hint), NO_FIRST_HINT (hearing begins without one), FORGET_LATE (after the try), FORGET_FAILING
// (though the last try failed), DOUBT_OTHERS (whose try failed gives a hint to all but itself), REFUSED_SILENT (whose
// try was refused gives none).

#define CLIENTS 2
#define WAITERS 3

#ifdef READERS
#define FAILURES 1
#define GAPS 0
#define CLIENT(w) 0
#define IS_READER true
#define FREE (!writer && !readers)
#define Settle() settled++
#define Stay() if :: true :: outcome == got -> settled == WAITERS fi
#else
#define FAILURES 2
#define GAPS 1
#define CLIENT(w) (w > 1)
#define IS_READER false
#define Settle() skip
#define Stay() skip
#endif

mtype = {deaf, asked, heard};

// The engine.
bool writer;
byte readers;
mtype watch[CLIENTS] = deaf;

bool under_way[CLIENTS];  // Hints.

// Guarded by the rooms' mutexes.
chan room[CLIENTS] = [WAITERS] of {byte};
bool joined[WAITERS];
bool hinted[WAITERS];

// Ghosts.
byte failures;
byte gaps;
byte inside;
#ifdef READERS
byte settled;  // Waiters that have entered or given up.
#endif

inline Publish() {
  if
  :: watch[0] == heard -> under_way[0] = true
  :: else
  fi;
  if
  :: watch[1] == heard -> under_way[1] = true
  :: else
  fi
}

#ifdef READERS
inline Grant() { readers++ }
inline Free() {
  readers--;
  if
  :: readers == 0 -> Publish()
  :: else
  fi
}
#else
inline Grant() { writer = true }
inline Free() { writer = false; Publish() }
#endif

// All in the room but `not_me`.
inline HintAll(c, not_me) {
  w = 0;
  do
  :: w == WAITERS -> break
  :: else ->
     if
     :: w != not_me && joined[w] && CLIENT(w) == c -> hinted[w] = true
     :: else
     fi;
     w++
  od;
  w = 0
}

inline HintFirst(c) {
  if
  :: room[c]?<w> -> hinted[w] = true
  :: empty(room[c])
  fi;
  w = 0
}

#ifdef READERS
#define Hint(c) HintAll(c, WAITERS)
#else
#define Hint(c) HintFirst(c)
#endif

proctype Client(byte me) {
  byte w;
end:
  do
  :: atomic {
       watch[me] == asked -> watch[me] = heard;
#ifndef NO_FIRST_HINT
       under_way[me] = true
#endif
     }
  :: atomic { watch[me] == heard && gaps < GAPS -> gaps++; watch[me] = asked; under_way[me] = false }
  :: atomic { under_way[me] -> under_way[me] = false; Hint(me) }
  od
}

mtype = {busy, got, failed, refused};

// `granted`: the engine has it so, though the waiter may not have been told.
inline Try() {
  atomic {
    if
    :: granted || !writer ->
       if
       :: !granted -> Grant(); granted = true
       :: else
       fi;
       outcome = got;
       inside++;
       assert(inside == 1 || IS_READER && !writer)
    :: !granted && writer -> outcome = busy; failing = false
    :: failures < FAILURES -> failures++; outcome = failed
    :: failures < FAILURES && !granted && !writer -> failures++; Grant(); granted = true; outcome = failed
    :: failures < FAILURES && !granted -> failures++; outcome = refused
    fi
  }
}

inline ForgetHint() {
  if
  :: joined[me] -> hinted[me] = false
  :: !joined[me]
  fi
}

inline TryForHint() {
#ifdef FORGET_LATE
  Try();
  ForgetHint();
#else
#ifdef FORGET_FAILING
  ForgetHint();
#else
  if
  :: !failing -> ForgetHint()
  :: failing
  fi;
#endif
  Try();
#endif
}

#ifdef DOUBT_OTHERS
#define DOUBTING me
#else
#define DOUBTING WAITERS
#endif
#ifdef REFUSED_SILENT
#define DOUBTS (outcome == failed)
#else
#define DOUBTS true
#endif

inline OnFailure() {
  atomic {
    if
    :: joined[me] && !failing && DOUBTS -> HintAll(mine, DOUBTING)
    :: else
    fi;
    failing = true
  }
}

inline Join() {
  atomic {
    joined[me] = true;
    hinted[me] = false;
    first = empty(room[mine]);
    room[mine]!me
  }
  if
  :: atomic { first -> watch[mine] = asked; first = false }
  :: !first
  fi
}

#ifdef DROP_HINT
#define UNFOLLOWED false
#else
#define UNFOLLOWED hinted[me]
#endif
#ifdef SILENT_READER
#define ANNOUNCES false
#else
#define ANNOUNCES (IS_READER && outcome == got)
#endif

inline Leave() {
  atomic {
    if
    :: joined[me] ->
       room[mine]??eval(me);
       if
       :: len(room[mine]) == 0 -> watch[mine] = deaf; under_way[mine] = false
       :: len(room[mine]) > 0 && (UNFOLLOWED || ANNOUNCES) -> HintFirst(mine)
       :: else
       fi;
       hinted[me] = false;
       joined[me] = false
    :: else
    fi
  }
}

// Or TakeBack::Try().
inline Release() {
  atomic {
    if
    :: granted -> Free(); granted = false
    :: else
    fi;
    if
    :: outcome == got -> inside--
    :: else
    fi
  }
}

proctype Waiter(byte me) {
  byte mine = CLIENT(me);
  byte w;
  bool first;
  bool failing;
  bool granted;
  mtype outcome;
  Try();
  do
  :: outcome == busy ->
     if
     :: !joined[me] -> Join()
     :: joined[me]
     fi;
     if
     :: true -> hinted[me]; TryForHint()
     :: true -> break
     fi
  :: outcome == failed ->
     OnFailure();
     if
     :: true -> TryForHint()
     :: true -> break
     fi
  :: outcome == refused -> OnFailure(); break
  :: outcome == got -> break
  od;
  Settle();
  if
  :: true -> Leave(); Stay(); Release()
  :: granted -> Release(); Leave()
  fi;
  atomic { mine = 0; outcome = busy; failing = false }
}

#ifdef READERS
proctype Writer() {
  atomic { writer = false; Publish() }
  if
  :: atomic { FREE -> writer = true }
     atomic { writer = false; Publish() }
  :: true
  fi
}
#endif

init {
  atomic {
#ifdef READERS
    writer = true;
    run Writer();
#endif
    run Client(0);
    run Client(1);
    run Waiter(0);
    run Waiter(1);
    run Waiter(2);
  }
}
