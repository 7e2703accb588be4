// The numbered steps of one hold, over a network that loses requests and answers, and brings requests late.
//
// Client()  one owner's acquires and releases, one after another: Acquisition, ServiceCore::Confirm(), EndLease(),
//           NoteUnanswered(), SendRelease(), GiveUp(), TakeBack. A step that is not answered is sent again, or its
//           caller gives up: of a try something is owed then, and taken back at some time.
// Late()    requests of which the client has given up to hear, and come at any later time, or never.
// Others()  another owner, who holds and releases; and somebody who frees the lock by force.
// Try(), Release()  what an engine does in one step: redis_lock_fragments.h, redis_lock_scripts.cc.
//
// Invariants (assertions).
//  - Whenever the client is between steps, owes nothing and has been told of what was forced, the engine has the count
//    that the client believes in, of the hold that it believes in: so no try that came late stays. It may have more
//    after a release that failed, or a try that entered twice: the next release takes that along, as it says what to
//    keep.
//  - A release never takes what a later try got.
//
// Abstracted. A step that is answered has been run just before: the next one is sent after the answer, so nothing of
// this hold comes between. An engine's record lives for ever, and so does the client's knowledge that a step was not
// answered: in the code both live longer than a request may be late. Expiry is a release by force. That something is
// lost, delayed or tried happens a few times, and two requests are late at a time.
//
// Broken: NO_SEQUENCE (the engine does not compare numbers), RELATIVE_RELEASE (a release takes one off), NO_TOMBSTONE
// (no record outlives its hold), ENTER_AGAIN (a copy of a try, when what it got has ended, gets it again),
// FORGET_UNANSWERED (the client forgets it once it neither holds nor owes anything), BUSY_SETTLES (of a try that was
// not answered nothing is owed once a later one was refused).

#define TRIES 3
#define LOST 3
#define LATE 2

mtype = {try, release};
mtype = {unknown, acquired, busy, stale, ran};

// The engine: the lock, and the owner's record. `newest_count` is what its newest step led to.
bool other;
byte count;
bool has_record;
byte newest;
byte newest_count;
bool newest_releases;

// Requests under way: in no order, so each has a place.
mtype late_kind[LATE] = try;
byte late_sequence[LATE];  // 0: none.
byte late_keep[LATE];
bool late_lasts[LATE];

// The client. `leases`: the count that it believes in.
byte leases;
byte sequence;
bool unanswered;  // Of HoldRecord.
bool owes;

// Ghosts: which tries began the hold, and were the last to enter it; which began what the client believes in.
byte began;
byte entered_last;
byte believed;
bool forced;  // And the client has not been told.
bool excess;  // The engine may have more.
bool stepping;
byte lost;

#ifdef NO_SEQUENCE
#define BEHIND(s) false
#define SAME(s) false
#else
#define BEHIND(s) (has_record && newest > s)
#define SAME(s) (has_record && newest == s)
#endif

#ifdef NO_TOMBSTONE
#define OUTLIVES false
#else
#define OUTLIVES true
#endif

inline Record(s, c, releases) { has_record = true; newest = s; newest_count = c; newest_releases = releases }
inline Forget() { has_record = false; newest = 0; newest_count = 0; newest_releases = false }

#ifdef ENTER_AGAIN
#define ENDED false
#else
#define ENDED (count == 0)
#endif

// Both are part of a step.
inline Try(s) {
  if
  :: BEHIND(s) || (SAME(s) && (newest_releases || ENDED)) -> answer = stale
  :: else ->
     if
     :: other -> answer = busy
     :: else ->
        if
        :: count == 0 -> count = 1; began = s; entered_last = s
        :: count > 0 && SAME(s) && newest_count == count
        :: else -> count++; entered_last = s
        fi;
        Record(s, count, false);
        answer = acquired
     fi
  fi
}

inline Release(s, keep, lasts) {
  if
  :: BEHIND(s) -> answer = stale
  :: SAME(s) && newest_releases -> answer = ran
  :: else ->
     assert(count == 0 || entered_last < s);
     held = count > 0;
#ifdef RELATIVE_RELEASE
     if
     :: count > 0 -> count--
     :: else
     fi;
#else
     if
     :: count > keep -> count = keep
     :: else
     fi;
#endif
     if
     :: count > 0 || (OUTLIVES && (lasts || !held)) -> Record(s, count, true)
     :: else -> Forget()
     fi;
     held = false;
     answer = ran
  fi
}

inline Run(kind, s, keep, lasts) {
  if
  :: kind == try -> Try(s)
  :: kind == release -> Release(s, keep, lasts)
  fi
}

inline Delay(place, kind, keep, lasts) {
  late_kind[place] = kind;
  late_sequence[place] = sequence;
  late_keep[place] = keep;
  late_lasts[place] = lasts;
  answer = unknown
}

inline Send(kind, keep, lasts) {
  atomic {
    if
    :: Run(kind, sequence, keep, lasts)
    :: lost < LOST -> lost++; Run(kind, sequence, keep, lasts); answer = unknown
    :: lost < LOST -> lost++; answer = unknown
    :: lost < LOST && late_sequence[0] == 0 -> lost++; Delay(0, kind, keep, lasts)
    :: lost < LOST && late_sequence[0] != 0 && late_sequence[1] == 0 -> lost++; Delay(1, kind, keep, lasts)
    fi;
    unanswered = unanswered || answer == unknown
  }
}

inline Check() {
  assert(stepping || owes || forced ||
    (count == leases || excess && count > leases) && (leases == 0 || believed == began))
}

inline NewStep() { sequence++; stepping = true }

inline EndSteps() {
  atomic {
    answer = unknown;
    doubtful = false;
    if
    :: leases == 0 -> believed = 0; forced = false
    :: else
    fi;
#ifdef FORGET_UNANSWERED
    unanswered = unanswered && (leases > 0 || owes);
#endif
    stepping = false;
    Check()
  }
}

// An answer that counts no more than it believed in: what it had was lost.
inline Confirm() {
  if
  :: count <= leases -> leases = 0; forced = false
  :: else
  fi;
  if
  :: leases == 0 -> believed = began
  :: else
  fi;
  leases++;
  excess = excess || count > leases
}

inline Acquire() {
  do
  :: atomic {
       Send(try, 0, false);
       if
       :: answer == acquired -> Confirm()
       :: else
       fi
     }
     if
     :: answer == acquired -> break
     :: answer == busy ->
#ifdef BUSY_SETTLES
        doubtful = false;
#endif
        if
        :: tries < TRIES -> atomic { tries++; sequence++ }
        :: true -> owes = owes || doubtful; break
        fi
     :: answer == unknown ->
        doubtful = true;
        if
        :: true
        :: true -> owes = true; break
        fi
     fi
  od
}

inline EndLease() {
  do
  :: Send(release, leases, unanswered);
     if
     :: answer == ran -> excess = false; break
     :: answer == unknown ->
        if
        :: true
        :: true -> excess = true; break
        fi
     fi
  od
}

inline TakeBack() {
  Send(release, leases, true);
  if
  :: atomic { answer == ran -> owes = false; excess = false }
  :: answer == unknown
  fi
}

active proctype Client() {
  mtype answer = unknown;
  byte tries;
  bool held;
  bool doubtful;
  do
  :: atomic { tries < TRIES -> tries++; NewStep() } Acquire(); EndSteps()
  :: atomic { leases > 0 -> leases--; NewStep() } EndLease(); EndSteps()
  :: atomic { owes -> NewStep() } TakeBack(); EndSteps()
  :: atomic { forced && count == 0 -> leases = 0; stepping = true } EndSteps()
  :: tries == TRIES && leases == 0 && !owes -> break
  od
}

inline Arrive(place) {
  atomic {
    late_sequence[place] != 0 ->
    Run(late_kind[place], late_sequence[place], late_keep[place], late_lasts[place]);
    late_kind[place] = try;
    late_sequence[place] = 0;
    late_keep[place] = 0;
    late_lasts[place] = false;
    answer = unknown;
    Check()
  }
}

active proctype Late() {
  mtype answer = unknown;
  bool held;
end:
  do
  :: Arrive(0)
  :: Arrive(1)
  od
}

active proctype Others() {
  bool forces = true;
end:
  do
  :: atomic { !other && count == 0 -> other = true }
  :: atomic { other -> other = false }
  :: atomic { forces && count > 0 -> forces = false; count = 0; forced = true }
  od
}
