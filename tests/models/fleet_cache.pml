// The first level of the fleet cache: what one process may serve, and until when. One key, within one reign.
//
// Callers    calls of Get(): each hits, starts a flight, joins the running one, or replaces it.
// Flight     the running flight: it asks the tier, loads with or without a lease, fills, and publishes.
// Heartbeat  asks for the journal, applies it, and gives trust. Messages bring entries before it, or are lost.
// Own        the process writes the database and invalidates the key: TierCache::Queue(), the removal from the first
//            level, and TierCache::Await().
// Others     other processes write, invalidate, and fill the second level. Leases lapse, values are evicted, and the
//            journal is trimmed.
// Time       passes in steps. max_staleness is M steps.
//
// Invariants. Each call gets a value that is at least as new as
//  - P2: each invalidation that was accepted max_staleness before the call began;
//  - each one that was accepted before a heartbeat ran that gives the process its trust when the call begins;
//  - P3: each own one that returned before the call began, accepted or not.
//
// The second level is as fleet_lease.pml shows it: an answer (value, position) takes account of all invalidations up to
// the position, and a fill is stored only if no invalidation ran since its lease was granted. So each invalidation
// removes the value and the lease here, and repeats need no step. Versions of the database count up; a value is its
// version plus 1.
//
// A question waits until a batch takes it along, and runs when that is sent; its reply comes later. A request that
// arrives late is the same as one that is sent late. A late reply to a queued invalidation only prolongs the time in which asks find the tier away, and they
// may find it away at any time.
//
// PUT: the own call is a Put, which is an invalidation that is granted the lease in the same step, and then a fill. No
// other process writes between the Put's write of the database and the grant: which of the two is newer is up to the
// callers.
//
// A detached flight continues for the callers that it has. It may store in Redis what others may store.
//
// Broken: FROM_RECEIPT (trust counts from the receipt of the heartbeat's reply), TRUST_FIRST (trust is given before the
// journal is applied), TRUST_PART (trust is given although entries are missing), NO_RESET (a gap in the journal goes
// unnoticed), RESET_KEEPS_ASKS (after a gap, the answer to an older ask is stored), RESET_KEEPS_LOADS (after a gap, an
// older load is stored), LATE_ANSWER (the position of an answer is not compared), KEEPS_LOADS (an invalidation does not
// detach a running load), KEEPS_AWAY_LOADS (it does not detach one without a lease), KEEPS_ASKS (an own invalidation
// does not make a flight ask again), FIRST_LEVEL_FIRST (an own invalidation is queued after the removal from the first
// level), ASKS_WHILE_QUEUED (asks are sent while an own invalidation is queued), JOINS_OLD (a call joins any flight),
// AWAY_OUTLIVES (a value that was loaded without a lease is kept longer), STALE_ON_ERROR (a value without trust
// replaces a load that failed), MESSAGE_ADVANCES (after a message, all entries before it count as applied),
// RESET_KEEPS_MESSAGES (after a gap, entries count as applied because of older messages), SUM_UNCHECKED (a heartbeat
// counts all as applied if a message came), JOINS_SENT (a question is answered from a batch that was sent before), PUT_UNREGISTERED (a Put's value is stored in the first level although it was
// invalidated between the grant and the fill's answer; with PUT).

#ifndef M
#define M 1
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifndef OWN
#define OWN 1
#endif
#ifndef MESSAGES
#define MESSAGES 1
#endif
#define LIMIT 1  // Of the entries that a heartbeat brings.
#define NEVER 15

mtype = { idle, waiting, asked, loading, stored, refused };
mtype = { ready, queued, cleared, filled };

byte db;
byte accepted;

// Redis.
byte q = 1;
byte trimmed;  // The newest entry that was removed from the journal.
byte value;
bool lease;  // Of the running flight.

// The process.
byte applied = 1;
#ifdef MESSAGE_ADVANCES
bool foreign;
#endif
byte early;  // The number of entries after `applied` that messages have brought.
byte trust_age = M;
byte first, first_position, first_age = M;  // The first level. A position of 0: loaded without a lease.

mtype flight = idle;
bool leased;
bool again;  // The flight has to ask again,
byte least;  // or has to if the answer's position is smaller.
byte flight_value, flight_position, flight_age;
#ifdef JOINS_SENT
byte batch_value, batch_position;  // What another flight has read.
#endif

byte beat_q, beat_age;  // Of the heartbeat whose answer is on its way. 0: there is none.
bool gap;

mtype own = ready;
byte pending;  // The version of the queued invalidation.
#ifdef PUT
bool put;  // The own call is one.
bool put_lease;
byte put_position, put_least;
bool put_reset;
#endif

// Ghosts.
byte due;
#if M == 2
byte due_next;
#endif
byte own_returned;
byte beat_accepted, trusted_accepted;
byte flight_floor;
byte others, owns;

#define MAX(a, b) (a > b -> a : b)
#define TRUSTED (trust_age < M)

#ifdef AWAY_OUTLIVES
#define HIT (first != 0 && (TRUSTED || first_position == 0))
#else
#define HIT (first != 0 && (first_position != 0 -> TRUSTED : first_age < M))
#endif

#ifdef JOINS_OLD
#define JOINABLE true
#else
#define JOINABLE (TRUSTED || flight_age < M)
#endif

#define ASKS (flight == waiting || flight == asked)

#ifdef LATE_ANSWER
#define OUTDATED again
#else
#define OUTDATED (again || flight_position < least)
#endif

inline DropFirst() {
  first = 0;
  first_position = 0;
  first_age = M
}

inline EndFlight() {
  flight = idle;
  leased = false;
  again = false;
  least = 0;
  flight_value = 0;
  flight_position = 0;
  flight_age = 0;
  flight_floor = 0
}

// Callers that have joined get the value that it has loaded, or loads from now on.
inline Detach() {
  assert(flight_value == 0 || flight == asked && OUTDATED || flight_value > flight_floor);
  lease = false;
  EndFlight()
}

inline LoadAway() {
  flight = loading;
  leased = false;
  again = false;
  least = 0;
  flight_value = 0;
  flight_position = 0;
  flight_age = 0
}

// A running Put has no lease.
#ifdef PUT
#define FREE (value != 0 || !put_lease)
#else
#define FREE true
#endif

// The question waits for a batch, or the tier is away.
inline Ask() {
  if
#ifdef ASKS_WHILE_QUEUED
  :: true ->
#else
  :: pending == 0 && FREE ->
#endif
     flight = waiting;
     leased = false;
     again = false;
     least = 0;
     flight_value = 0;
     flight_position = 0;
     flight_age = 0
  :: true -> LoadAway()
  fi
}

inline StartFlight() {
  Ask();
  flight_floor = floor
}

proctype Callers() {
  byte floor;
end:
  do
  :: atomic {
       true ->
       floor = MAX(due, own_returned);
       floor = (TRUSTED -> MAX(floor, trusted_accepted) : floor);
       if
       :: HIT -> assert(first > floor)
       :: !HIT && flight == idle -> StartFlight()
       :: !HIT && flight != idle && JOINABLE -> flight_floor = MAX(flight_floor, floor)
       :: !HIT && flight != idle && !JOINABLE -> Detach(); StartFlight()
       fi;
       floor = 0
     }
  od
}

inline Publish(position, age) {
  assert(flight_value > flight_floor);
  first = flight_value;
  first_position = position;
  first_age = age;
  lease = false;
  EndFlight()
}

inline PublishAway() {
  if
  :: flight_age < M -> Publish(0, flight_age)
  :: else -> Detach()
  fi
}

proctype Flight() {
end:
  do
  // The question runs. Without a value it is granted the lease.
  :: atomic {
       flight == waiting && FREE ->
       flight = asked;
       flight_value = value;
       flight_position = q;
       lease = (value == 0)
     }
#ifdef JOINS_SENT
  :: atomic { batch_position < q && value != 0 -> batch_value = value; batch_position = q }
  :: atomic {
       flight == waiting && batch_value != 0 ->
       flight = asked;
       flight_value = batch_value;
       flight_position = batch_position
     }
#endif
  // The answer comes.
  :: atomic {
       flight == asked ->
       if
       :: OUTDATED -> lease = false; Ask()
       :: !OUTDATED && flight_value != 0 -> Publish(flight_position, M)
       :: !OUTDATED && flight_value == 0 -> flight = loading; leased = true; least = 0; flight_age = 0
       fi
     }
  :: atomic { ASKS -> lease = false; LoadAway() }
  // The load ends.
  :: atomic { flight == loading && flight_value == 0 -> flight_value = db + 1 }
  :: atomic {
       flight == loading && flight_value == 0 ->
#ifdef STALE_ON_ERROR
       assert(first == 0 || first > flight_floor);
#endif
       lease = false;
       EndFlight()
     }
  // The fill runs.
  :: atomic {
       flight == loading && flight_value != 0 && leased ->
       if
       :: lease -> assert(flight_value > accepted); value = flight_value; flight_position = q; flight = stored
       :: !lease -> flight = refused
       fi;
       lease = false
     }
  // Its answer comes, or not.
  :: atomic { flight == stored -> Publish(flight_position, M) }
  :: atomic { flight == refused -> Detach() }
  :: atomic { flight_value != 0 && !ASKS -> PublishAway() }
  od
}

inline OnReset() {
#ifdef PUT
  put_reset = put;
#endif
  DropFirst();
  if
  :: flight == idle
  :: ASKS ->
#ifndef RESET_KEEPS_ASKS
     again = true
#endif
  :: else ->
#ifndef RESET_KEEPS_LOADS
     Detach()
#endif
  fi
}

#ifdef KEEPS_AWAY_LOADS
#define CONCERNED (leased && flight_position < position)
#else
#define CONCERNED (flight_position < position)
#endif

inline OnInvalidated(position) {
#ifdef PUT
  put_least = (put -> position : 0);
#endif
  if
  :: first != 0 && first_position < position -> DropFirst()
  :: else
  fi;
  if
  :: flight == idle
  :: ASKS -> least = position
  :: else ->
#ifndef KEEPS_LOADS
     if
     :: CONCERNED -> Detach()
     :: else
     fi
#endif
  fi
}

inline EndBeat() {
  beat_q = 0;
  beat_age = 0;
  gap = false;
  beat_accepted = 0
}

#ifdef TRUST_PART
#define TRUST_IF true
#else
#define TRUST_IF (applied == beat_q)
#endif

inline Trust() {
  if
  :: TRUST_IF ->
#ifdef FROM_RECEIPT
     trust_age = 0;
#else
     trust_age = beat_age;
#endif
     trusted_accepted = (TRUSTED -> beat_accepted : 0)
  :: else
  fi
}

inline Apply() {
  if
  :: gap ->
     OnReset();
#ifndef RESET_KEEPS_MESSAGES
     early = 0;
#endif
     applied = beat_q
  :: else ->
#if MESSAGES
     // Their sum is right.
     if
#ifdef SUM_UNCHECKED
     :: early > 0 ->
        early = 0;
        applied = beat_q
#endif
     :: applied + early <= beat_q ->
        applied = applied + early;
        early = 0
     :: applied + early > beat_q ->
        early = applied + early - beat_q;
        applied = beat_q
     fi;
#endif
     if
     :: applied < beat_q ->
        applied++;
        OnInvalidated(applied)
     :: else
     fi
  fi
}

proctype Heartbeat() {
end:
  do
  :: atomic {
       beat_q == 0 ->
       beat_q = q;
#ifndef NO_RESET
#if MESSAGES
       gap = (trimmed > applied + early);
#else
       gap = (trimmed > applied);
#endif
#else
       applied = MAX(applied, trimmed);
#endif
       beat_accepted = accepted
     }
#ifdef TRUST_FIRST
  :: atomic { beat_q != 0 -> trust_age = beat_age; trusted_accepted = (TRUSTED -> beat_accepted : 0) }
     atomic { Apply(); EndBeat() }
#else
  :: atomic {
       beat_q != 0 ->
       Apply();
       Trust();
       EndBeat()
     }
#endif
  :: atomic { beat_q != 0 -> EndBeat() }  // Lost.
#ifdef MESSAGE_ADVANCES
  :: atomic { applied < q && !foreign -> foreign = true; q++; applied = q }  // Of another key.
#endif
#if MESSAGES
  :: atomic { applied + early < q -> early++; OnInvalidated(applied + early) }
#endif
  od
}

inline Clear() {
  DropFirst();
  if
  :: flight == idle
  :: ASKS ->
#ifndef KEEPS_ASKS
     again = true
#endif
  :: else -> Detach()
  fi
}

inline Return() {
#ifdef PUT
  put = false;
  put_lease = false;
  put_position = 0;
  put_least = 0;
  put_reset = false;
#endif
  own_returned = version;
  version = 0;
  own = ready
}

proctype Own() {
  byte version;
end:
  do
#ifdef FIRST_LEVEL_FIRST
  :: atomic { own == ready && owns < OWN -> owns++; db++; version = db; own = queued; Clear() }
  :: atomic { own == queued -> pending = version; own = cleared }
#else
  :: atomic {
       own == ready && owns < OWN ->
       owns++;
       db++;
       version = db;
#ifdef PUT
       put = true;
#endif
       pending = version;
       own = queued
     }
  :: atomic { own == queued -> Clear(); own = cleared }
#endif
  :: atomic { own == cleared || own == filled -> Return() }  // Accepted or not.
#ifdef PUT
  :: atomic {
       own == cleared && put_lease ->
       assert(version + 1 > accepted);
       value = version + 1;
       put_lease = false;
       own = filled
     }
  :: atomic {
       own == filled ->
       if
#ifdef PUT_UNREGISTERED
       :: true ->
#else
       :: !put_reset && put_position >= put_least ->
#endif
          first = version + 1;
          first_position = put_position;
          first_age = M
#ifndef PUT_UNREGISTERED
       :: else
#endif
       fi;
       Return()
     }
#endif
  od
}

inline Invalidate(version) {
  q++;
  accepted = MAX(accepted, version);
  value = 0;
  lease = false;
#ifdef PUT
  put_lease = false
#endif
}

proctype Others() {
end:
  do
  :: atomic { others < OTHERS -> others++; db++; Invalidate(db) }
  :: atomic {
       pending != 0 ->
       Invalidate(pending);
#ifdef PUT
       put_lease = (put && own == cleared && db == pending);
       put_position = (put_lease -> q : 0);
#endif
       pending = 0
     }
  :: atomic { value == 0 && !lease && FREE -> value = accepted + 1 }
  :: atomic { value == 0 && !lease && FREE && db > accepted -> value = db + 1 }
  :: atomic { lease -> lease = false }
#ifdef PUT
  :: atomic { put_lease -> put_lease = false }
#endif
  :: atomic { value != 0 -> value = 0 }
  :: atomic { trimmed < q -> trimmed = q }
  od
}

#define AGE(age) age = (age < M -> age + 1 : M)

proctype Time() {
end:
  do
  :: atomic {
#if M == 2
       due = due_next;
       due_next = accepted;
#else
       due = accepted;
#endif
       AGE(trust_age);
       trusted_accepted = (TRUSTED -> trusted_accepted : 0);
       if
       :: first != 0 && first_position == 0 ->
          AGE(first_age);
#ifndef AWAY_OUTLIVES
          if
          :: first_age == M -> DropFirst()
          :: else
          fi
#endif
       :: else
       fi;
       if
       :: flight != idle -> AGE(flight_age)
       :: else
       fi;
       if
       :: beat_q != 0 -> AGE(beat_age)
       :: else
       fi
     }
  od
}

init {
  atomic {
    run Callers();
    run Flight();
    run Heartbeat();
    run Own();
    run Others();
    run Time()
  }
}
